// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images with programs for other processors are refused before anything of them is started.

use std::env::consts::ARCH;
use std::fs;

use cabane_testkit::not_run;
use serde_json::{Value, json};

use crate::cabane::{Cabane, Who, everybody};

/// An architecture that this machine does not run, and its number in ELF files.
const OTHER: (&str, u16) =
    if cfg!(target_arch = "aarch64") { ("x86_64", 62) } else { ("aarch64", 183) };

/// Whether an emulator runs the programs of the other architecture here.
fn has_emulator() -> bool {
    cabane_compat::other_architectures(&[OTHER.0.to_owned()]).is_none()
}

/// Builds an image with a program for another processor, and one for this processor if that is wanted.
fn build(cabane: &Cabane, label: &str, has_own: bool) {
    let own = fs::read("/usr/bin/true").unwrap();
    let mut other = own.clone();
    // `e_machine` of the ELF header.
    other[18..20].copy_from_slice(&OTHER.1.to_le_bytes());
    let files = cabane.world.directory("recipe/files/bin");
    fs::write(files.join("foreign"), &other).unwrap();
    if has_own {
        fs::write(files.join("own"), &own).unwrap();
    }
    for program in fs::read_dir(&files).unwrap() {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(program.unwrap().path(), mode).unwrap();
    }
    let config = format!(
        "name: app\nengine: tree\nstore: {}\ntree: {{source: files}}\n\
         views:\n  default:\n    env_vars: {{}}\n",
        cabane.mount_point("app")
    );
    cabane.world.file("recipe/config.yaml", &config);
    let recipe = cabane.world.path("recipe").display().to_string();
    cabane.run(&["build", &recipe, label]).success();
}

#[test]
fn an_image_for_other_processors_is_refused_with_the_reason() {
    if has_emulator() {
        not_run!("an emulator runs programs for {} here", OTHER.0);
    }
    for who in everybody() {
        let cabane = Cabane::new(who);
        build(&cabane, "app/1.0:v1@here%any", false);
        let expected = format!(
            "error: the programs of the image app/1.0:v1@here%any are for {}, and this machine is {ARCH}\n\
             hint: `cabane search --system '*' app` lists builds for other processors\n",
            OTHER.0
        );
        let lines: [&[&str]; 4] = [
            &["run", "app", "--", "echo", "started"],
            &["run", "--dry-run", "app", "--", "echo", "started"],
            &["start", "app", "--ignore-tty"],
            &["run", "--backend", "user-namespace", "app", "--", "echo", "started"],
        ];
        for line in lines {
            let seen = cabane.run(line);
            assert_eq!((seen.code, seen.stdout.as_str()), (125, ""), "{line:?}: {seen:?}");
            assert_eq!(seen.stderr, expected, "{line:?}");
        }
    }
}

#[test]
fn a_program_for_this_processor_is_enough() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    build(&cabane, "app/1.0:v1@here%any", true);
    let printed = cabane.run(&["image", "inspect", "app", "--json"]).success();
    let meta: Value = serde_json::from_str(&printed.stdout).unwrap();
    let mut both = vec![ARCH, OTHER.0];
    both.sort_unstable();
    assert_eq!(meta["metadata"]["cabane"]["needs"]["architectures"], json!(both));
    let printed = cabane.run(&["run", "app", "--", "own"]).success();
    assert_eq!((printed.stdout.as_str(), printed.stderr.as_str()), ("", ""));
}

#[test]
fn a_label_alone_is_a_warning_and_only_where_nothing_is_known_of_the_programs() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let label = format!("app/1.0:v1@here%{}", OTHER.0);
    let image = cabane.image("app", &cabane.mount_point("app"));
    cabane.run(&["image", "add", &label, &image]).success();
    let seen = cabane.run(&["run", "app", "--", "echo", "started"]).success();
    let expected = format!(
        "warning: the image {label} is for {}, by its label, and this machine is {ARCH}: its programs \
         may not start\n",
        OTHER.0
    );
    assert_eq!((seen.stdout.as_str(), seen.stderr), ("started\n", expected));
    build(&cabane, &label.replace("1.0", "2.0"), true);
    let seen = cabane.run(&["run", "app/2.0", "--", "own"]).success();
    assert_eq!(seen.stderr, "");
}
