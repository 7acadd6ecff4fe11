// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Several builds of one image, of which a machine takes one.

use std::env::consts::ARCH;

use cabane_testkit::{Finished, Tree, squashfs};

use crate::cabane::{Cabane, Who, everybody, finished};

/// No processor has them all.
const FEATURES: [&str; 5] = ["sve", "avx512f", "avx2", "tbm", "sse4a"];

/// Adds builds of `app/1:v1@here`: microarchitectures, and the features that they need.
fn with_builds(who: Who, builds: &[(&str, &[&str])]) -> Cabane {
    let cabane = Cabane::new(who);
    let place = cabane.mount_point("app");
    for (uarch, features) in builds {
        let features: Vec<String> = features.iter().map(|name| format!("{name:?}")).collect();
        let meta = format!(
            r#"{{"name":"app","mount":"{place}","default-view":"default","cabane":{{"version":1,
"needs":{{"processor":{{"targets":["x"],"features":[{}]}}}}}},"views":{{"default":{{"env":
{{"version":1,"values":{{"list":{{"PATH":[{{"op":"prepend","value":["{place}/bin"]}}]}}}}}}}}}}}}"#,
            features.join(",")
        );
        let tree = Tree::new(cabane.world.path(&format!("trees/{uarch}")))
            .program("bin/which-app", &format!("echo {uarch}"))
            .file("meta/env.json", &meta);
        let image = cabane.world.path(&format!("{uarch}.squashfs"));
        squashfs(tree.root(), &image);
        let label = format!("app/1:v1@here%{uarch}");
        cabane.run(&["image", "add", &label, &image.to_string_lossy()]).success();
    }
    cabane
}

/// A feature that this processor does not have.
fn lacking() -> &'static str {
    let missing = cabane_compat::missing_features(FEATURES);
    missing.first().copied().unwrap()
}

/// Runs what tells which build it is.
fn run_app(cabane: &Cabane, order: &str) -> Finished {
    let mut command = cabane.command(&["run", "app", "--", "which-app"]);
    cabane.finish(command.env("CABANE_UARCH", order))
}

#[test]
fn the_build_that_makes_the_most_of_the_processor_is_run() {
    for who in everybody() {
        let builds: [(&str, &[&str]); 3] = [
            (ARCH, &[]),
            ("better", &["what_nobody_knows"]),
            ("newer", &["what_nobody_knows", lacking()]),
        ];
        let cabane = with_builds(who, &builds);
        let seen = run_app(&cabane, "");
        assert_eq!(seen, finished(0, "better\n", ""), "as {who:?}");
    }
}

#[test]
fn the_order_of_the_user_comes_before_features_but_not_before_what_is_lacking() {
    let builds: [(&str, &[&str]); 3] =
        [(ARCH, &[]), ("better", &["what_nobody_knows"]), ("newer", &[lacking()])];
    let cabane = with_builds(Who::OrdinaryUser, &builds);
    let order = format!("newer,{ARCH}");
    assert_eq!(run_app(&cabane, &order).stdout, format!("{ARCH}\n"));
}

#[test]
fn a_label_in_full_means_its_build() {
    let builds: [(&str, &[&str]); 2] = [("better", &["what_nobody_knows"]), (ARCH, &[])];
    let cabane = with_builds(Who::OrdinaryUser, &builds);
    let seen = cabane.run(&["run", &format!("app%{ARCH}"), "--", "which-app"]);
    assert_eq!(seen, finished(0, &format!("{ARCH}\n"), ""));
}

#[test]
fn where_nothing_decides_the_builds_are_listed() {
    let cabane = with_builds(Who::OrdinaryUser, &[("a", &[]), ("b", &[])]);
    let expected = "error: `app` has 2 builds, and nothing says which is the better one here:\n  \
         app/1:v1@here%a\n  app/1:v1@here%b\n\
         hint: `app/1:v1@here%a` names one of them\n\
         hint: /etc/cabane/uarch says for everybody which is better on a machine, and the \
         variable CABANE_UARCH for you\n";
    assert_eq!(run_app(&cabane, ""), finished(125, "", expected));
}

#[test]
fn where_no_build_fits_each_is_listed_with_what_is_lacking() {
    let cabane = with_builds(Who::OrdinaryUser, &[("a", &[lacking()]), ("b", &[lacking()])]);
    let lacking = lacking();
    let expected = format!(
        "error: this machine cannot run any build of `app`:\n  \
         app/1:v1@here%a: its processor lacks {lacking}\n  \
         app/1:v1@here%b: its processor lacks {lacking}\n\
         hint: `app/1:v1@here%a` takes that one nevertheless\n"
    );
    assert_eq!(run_app(&cabane, ""), finished(125, "", &expected));
}

#[test]
fn a_dry_run_and_an_explanation_say_why_this_build() {
    let builds: [(&str, &[&str]); 2] = [("better", &["what_nobody_knows"]), (ARCH, &[])];
    let cabane = with_builds(Who::OrdinaryUser, &builds);
    let seen = [
        cabane.run(&["run", "app", "--dry-run", "--", "which-app"]),
        cabane.run(&["explain", "--in", "app", "which-app"]),
    ];
    let expected = "app/1:v1@here%better of 2 builds: it makes the most of this processor\n";
    let shown = seen.each_ref().map(|seen| seen.stderr.as_str());
    assert_eq!(shown, [expected; 2], "{seen:?}");
}

#[test]
fn a_command_that_changes_an_image_does_not_choose() {
    let builds: [(&str, &[&str]); 2] = [("better", &["what_nobody_knows"]), (ARCH, &[])];
    let cabane = with_builds(Who::OrdinaryUser, &builds);
    let codes = ["rm", "inspect"].map(|command| cabane.run(&["image", command, "app"]).code);
    assert_eq!(codes, [5, 5]);
}
