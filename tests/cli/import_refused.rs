// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Imports of which nothing can come: they say why, and make no repository.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::cabane::{Cabane, Who, everybody};
use crate::import_containers::{TOOL, layout, root};

/// Whether a repository was made.
fn has_repository(cabane: &Cabane) -> bool {
    let place = cabane.world.path("home/.local/share/cabane/repository");
    place.exists()
}

/// Imports something that cannot be, and checks what is reported.
fn is_refused(cabane: &Cabane, arguments: &[&str], output: &str) {
    let seen = cabane.run(&[&["import"], arguments].concat());
    let is_so = seen.code != 0 && seen.stderr.contains(output) && !has_repository(cabane);
    assert!(is_so, "{arguments:?}, {output}: {seen:?}");
}

#[test]
fn a_path_that_is_not_there_makes_no_repository() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        let missing = cabane.world.path("missing").display().to_string();
        is_refused(&cabane, &[&missing, TOOL], "missing\ncause: No such file or directory");
        for scheme in ["oci", "oci-archive", "docker-archive", "sif", "dir"] {
            let typed = format!("{scheme}:{missing}");
            is_refused(&cabane, &[&typed, TOOL], "missing");
        }
    }
}

#[test]
fn a_path_that_cannot_be_read_makes_no_repository() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let directory = root(&cabane, "closed");
    let file = cabane.world.path("closed.tar");
    fs::write(&file, "").unwrap();
    for path in [&directory, &file] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
    }
    let text = |scheme: &str, path: &std::path::Path| format!("{scheme}{}", path.display());
    let mut all = vec![text("", &directory), text("dir:", &directory)];
    for scheme in ["", "oci-archive:", "docker-archive:", "sif:"] {
        all.push(text(scheme, &file));
    }
    for typed in &all {
        is_refused(&cabane, &[typed, TOOL], "Permission denied");
    }
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn a_wrong_name_makes_no_repository() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        let layout = layout(&cabane, "first");
        let other = format!("oci:{}:2", layout.path.display());
        let text = cabane.world.file("text", "a text").display().to_string();
        is_refused(&cabane, &[&other, TOOL], "called `2`");
        is_refused(&cabane, &[&text, TOOL], "holds no container image");
        is_refused(&cabane, &[&format!("docker-archive:{text}"), TOOL], "text");
        is_refused(&cabane, &["debian:12", TOOL], "in which registry");
        is_refused(&cabane, &["re gistry/tool:1", TOOL], "re gistry");
        let typed = layout.typed();
        is_refused(&cabane, &[&typed, "no label"], "no label");
        is_refused(&cabane, &[&typed, "tool/1.0:a:b"], "tool/1.0:a:b");
        is_refused(&cabane, &[&typed, TOOL, "--platform", "linux/arm64"], "linux/arm64");
        is_refused(&cabane, &[&typed, TOOL, "--group", "no-such-group"], "no-such-group");
    }
}

/// Puts a program of squashfs-tools into a directory, which is the only one that is searched.
fn with_mksquashfs(cabane: &Cabane, script: &str) -> cabane_testkit::Finished {
    let path = cabane.world.directory("old-tools").join("mksquashfs");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let typed = layout(cabane, "first").typed();
    let mut command = cabane.command(&["import", &typed, TOOL]);
    command.env("PATH", path.parent().unwrap());
    cabane.finish(&mut command)
}

#[test]
fn a_program_that_is_too_old_is_reported_with_its_version_before_anything_is_made() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let cases = [
        ("echo 'mksquashfs version 4.4 (2019/08/29)'", "version 4.4"),
        ("echo what", "version unknown"),
    ];
    for (script, version) in cases {
        let seen = with_mksquashfs(&cabane, script);
        let expected = format!(
            "error: [WORLD]/old-tools/mksquashfs is {version}, and 4.5 is needed\n\
             hint: squashfs-tools 4.5 or newer read archives; `PATH` decides which is used\n"
        );
        assert_eq!((seen.stderr.as_str(), has_repository(&cabane)), (expected.as_str(), false));
    }
}

#[test]
fn without_the_program_no_repository_is_made() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let typed = layout(&cabane, "first").typed();
    let mut command = cabane.command(&["import", &typed, TOOL]);
    command.env("PATH", cabane.world.directory("nothing"));
    let seen = cabane.finish(&mut command);
    let says = seen.stderr.contains("there is no `mksquashfs`");
    assert!(says && !has_repository(&cabane), "{seen:?}");
}

#[test]
fn a_repository_that_was_there_stays_as_it_is() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let typed = layout(&cabane, "first").typed();
    cabane.run(&["import", &typed, TOOL]).success();
    let missing = cabane.world.path("missing").display().to_string();
    let seen = cabane.run(&["import", &missing, "tool/2.0"]);
    assert!(seen.code != 0 && has_repository(&cabane), "{seen:?}");
}
