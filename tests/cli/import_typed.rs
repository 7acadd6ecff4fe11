// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane import`: what may be typed for a container image, and what is reported of mistakes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use cabane_testkit::Finished;
use serde_json::Value;

use crate::cabane::{Cabane, Who, finished};
use crate::import_containers::{Layout, TOOL, layer, layout, root};

/// Imports in the directory of the world, so that relative paths can be typed.
fn import(cabane: &Cabane, image: &str) -> Finished {
    let mut command = cabane.command(&["import", image, TOOL]);
    command.current_dir(cabane.world.path(""));
    cabane.finish(&mut command)
}

/// A layout with two images, as a directory and as an archive. Returns the digest of the second.
fn two(cabane: &Cabane) -> Value {
    let layout = Layout::new(cabane, "both");
    let manifests = ["first", "second"].map(|name| {
        let mut manifest = layout.image(&[layer(&root(cabane, name))], "amd64");
        manifest["annotations"]["org.opencontainers.image.ref.name"] = name.into();
        manifest
    });
    layout.index(&manifests);
    let mut tar = Command::new("tar");
    tar.arg("-C").arg(&layout.path).arg("-cf");
    tar.args([cabane.world.path("both.tar")]).arg(".");
    assert!(tar.status().unwrap().success());
    manifests[1]["digest"].clone()
}

#[test]
fn a_name_may_stand_behind_any_path() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let second = two(&cabane);
    for image in ["./both:second", "both:second", "./both.tar:second", "both.tar:second"] {
        let mut command = cabane.command(&["import", "--json", "--force", image, TOOL]);
        let seen = cabane.finish(command.current_dir(cabane.world.path("")));
        let seen: Value = serde_json::from_str(&seen.success().stdout).unwrap();
        cabane.run(&["image", "rm", TOOL]).success();
        assert_eq!(seen["report"]["manifest"], second, "{image}");
    }
    let refused = import(&cabane, "both:third");
    let expected = "error: no image in both is called `third`\nhint: it has: first, second\n";
    assert_eq!(refused, finished(4, "", expected));
}

#[test]
fn a_kind_without_a_path_is_no_registry() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let refused = import(&cabane, "oci:");
    let expected = "error: nothing follows `oci:`\n\
                    hint: name a directory: `oci:DIRECTORY`\n";
    assert_eq!(refused, finished(3, "", expected));
    let refused = import(&cabane, "docker-archive:");
    assert!(refused.stderr.contains("`docker-archive:FILE`"), "{}", refused.stderr);
}

#[test]
fn what_is_no_container_image_is_distinguished_from_what_is_not_there() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    fs::create_dir(cabane.world.path("empty")).unwrap();
    let refused = import(&cabane, "./empty");
    let expected = "error: ./empty holds no container image\n\
                    hint: `dir:./empty` takes any directory as a root file system\n";
    assert_eq!(refused, finished(3, "", expected));
    let refused = import(&cabane, "./missing");
    let expected = "error: cannot read ./missing\n\
                    cause: No such file or directory (os error 2)\n";
    assert_eq!(refused, finished(1, "", expected));
    let refused = import(&cabane, "oci:empty");
    let expected = "error: empty is not a container image: it has no index.json\n";
    assert!(refused.code == 3 && refused.stderr.ends_with(expected), "{}", refused.stderr);
}

#[test]
fn an_archive_that_is_no_image_or_was_cut_off_is_called_so() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    fs::write(cabane.world.path("nothing.tar"), "").unwrap();
    for scheme in ["docker-archive", "oci-archive"] {
        let refused = import(&cabane, &format!("{scheme}:nothing.tar"));
        assert!(
            refused.code == 3 && refused.stderr.contains("is not a container image: it has n"),
            "{}",
            refused.stderr
        );
    }
    let layout = layout(&cabane, "first");
    let mut tar = Command::new("tar");
    tar.arg("-C").arg(&layout.path).arg("-czf");
    tar.args([cabane.world.path("cut.tar.gz")]).arg(".");
    assert!(tar.status().unwrap().success());
    let whole = fs::read(cabane.world.path("cut.tar.gz")).unwrap();
    fs::write(cabane.world.path("cut.tar.gz"), &whole[..whole.len() / 2]).unwrap();
    let refused = import(&cabane, "cut.tar.gz");
    assert!(
        refused.code == 3
            && refused
                .stderr
                .contains("cut.tar.gz is not a container image: it cannot be unpacked"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_group_to_which_one_cannot_give_files_takes_nothing_away() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let layout = layout(&cabane, "first");
    cabane.run(&["import", &layout.typed(), TOOL]).success();
    let images = cabane.world.path("home/.local/share/cabane/repository/images");
    let modes = || {
        let place = fs::read_dir(&images).unwrap().next().unwrap().unwrap().path();
        [&place, &place.join("image")].map(|path| fs::metadata(path).unwrap().permissions().mode())
    };
    let before = modes();
    let arguments = ["import", &layout.typed(), "tool/2.0:v1", "--group", "0"];
    let refused = cabane.run(&arguments);
    assert!(
        refused.code == 6 && refused.stderr.contains("cannot be closed to all but the group root"),
        "{}",
        refused.stderr
    );
    assert_eq!(modes(), before);
}

#[test]
fn an_image_for_other_processors_has_a_label_for_them() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let layout = Layout::new(&cabane, "foreign");
    let tree = root(&cabane, "foreign");
    let mut program = fs::read("/bin/true").unwrap();
    // The machine of an ELF file: one for s390.
    program[18..20].copy_from_slice(&[22, 0]);
    fs::write(tree.join("bin/sh"), program).unwrap();
    fs::set_permissions(tree.join("bin/sh"), fs::Permissions::from_mode(0o755)).unwrap();
    layout.name(layout.image(&[layer(&tree)], "s390x"), "1");
    let arguments = ["import", "--platform=linux/s390x", &layout.typed()];
    for (typed, label) in
        [("tool/1.0", "tool/1.0:v1@here%s390x"), ("tool/2.0%z15", "tool/2.0:v1@here%z15")]
    {
        let seen = cabane.run(&[&arguments[..], &["--json", typed]].concat());
        let seen: Value = serde_json::from_str(&seen.success().stdout).unwrap();
        assert_eq!(seen["label"], label);
    }
    let refused = cabane.run(&["run", "tool/1.0%s390x", "--", "/bin/sh"]);
    assert!(
        refused.code == 126
            && refused.stderr.contains("it is for other processors than those of this machine"),
        "{refused:?}"
    );
}

#[test]
fn a_repository_of_others_is_named_where_nothing_can_be_put_into_it() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let layout = layout(&cabane, "first");
    cabane.run(&["repo", "create"]).success();
    let place = cabane.world.path("home/.local/share/cabane/repository/tmp");
    fs::set_permissions(&place, fs::Permissions::from_mode(0o555)).unwrap();
    let refused = cabane.run(&["import", &layout.typed(), TOOL]);
    fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).unwrap();
    let hint = "hint: `ls -ld [WORLD]/home/.local/share/cabane/repository/tmp` shows who may\n";
    assert!(refused.code == 6 && refused.stderr.ends_with(hint), "{}", refused.stderr);
}
