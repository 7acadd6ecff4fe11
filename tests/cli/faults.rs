// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What goes wrong: one clear error each, and nothing left behind.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use cabane_testkit::{is_root, not_run};

use crate::cabane::{Cabane, Who, everybody};

/// The first line of the error, which must come with the code of `run`.
fn refusal(cabane: &Cabane, image: &str) -> String {
    let seen = cabane.run(&["run", image, "--", "true"]);
    assert_eq!(seen.code, 125, "{seen:?}");
    seen.stderr.lines().take(2).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_file_that_is_no_image_is_named_for_what_it_is() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let file = cabane.world.file("work/notes.txt", "just some text\n");
    let text = refusal(&cabane, &file.to_string_lossy());
    assert!(text.contains("[WORLD]/work/notes.txt") && text.contains("text"), "{text}");
}

#[test]
fn a_truncated_image_shows_how_much_is_missing() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let image = cabane.image("app", &cabane.mount_point("app"));
    let bytes = fs::read(&image).unwrap();
    fs::write(&image, &bytes[..300]).unwrap();
    let text = refusal(&cabane, &image);
    assert!(text.contains("cut off") && text.contains("300"), "{text}");
}

#[test]
fn an_image_that_may_not_be_read_says_so() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    if !is_root() {
        not_run!("needs root to make a file that is closed to the user");
    }
    let image = cabane.image("app", &cabane.mount_point("app"));
    fs::set_permissions(&image, fs::Permissions::from_mode(0o600)).unwrap();
    let text = refusal(&cabane, &image);
    assert!(text.contains("Permission denied"), "{text}");
}

#[test]
fn an_image_without_metadata_needs_a_mount_point() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        let tree = cabane_testkit::Tree::new(cabane.world.path("plain")).file("name", "plain");
        let image = cabane.world.path("plain.squashfs");
        cabane_testkit::squashfs(tree.root(), &image);
        let image = image.to_string_lossy().into_owned();
        let text = refusal(&cabane, &image);
        assert!(text.contains("where it is to be mounted"), "as {who:?}: {text}");
        let arguments =
            ["run", &format!("{image}:/cabane-plain"), "--", "cat", "/cabane-plain/name"];
        assert_eq!(cabane.run(&arguments).success().stdout, "plain", "as {who:?}");
    }
}

#[test]
fn malformed_metadata_is_shown_with_line_and_column() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let tree = cabane_testkit::Tree::new(cabane.world.path("bad"))
        .file("meta/env.json", "{\"name\": \"bad\",\n \"mount\": 7}");
    let image = cabane.world.path("bad.squashfs");
    cabane_testkit::squashfs(tree.root(), &image);
    let seen = cabane.run(&["run", &image.to_string_lossy(), "--", "true"]);
    let says = seen.stderr.contains("meta/env.json") && seen.stderr.contains("line 2");
    assert!(says, "{}", seen.stderr);
}

#[test]
fn a_missing_interpreter_is_named_before_anything_runs() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        let mount_point = cabane.mount_point("needy");
        let meta = format!(
            r#"{{"name":"needy","mount":"{mount_point}","views":{{}},"cabane":{{"version":1,
"engine":"python","needs":{{"interpreter":{{"path":"/nonexistent/python3.11","version":"3.11.2"}}}}}}}}"#
        );
        let tree =
            cabane_testkit::Tree::new(cabane.world.path("needy")).file("meta/env.json", &meta);
        let image = cabane.world.path("needy.squashfs");
        cabane_testkit::squashfs(tree.root(), &image);
        let text = refusal(&cabane, &image.to_string_lossy());
        assert!(
            text.starts_with("error: the image needy needs Python 3.11 at /nonexistent/python3.11"),
            "as {who:?}: {text}"
        );
    }
}

#[test]
fn without_user_namespaces_the_message_says_what_to_change() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    // The limit holds below the namespace in which it is set; the machine keeps its own.
    let script = format!(
        "echo 0 > /proc/sys/user/max_user_namespaces && exec {} run app -- true",
        cabane.program(),
    );
    let mut command = cabane.other("unshare");
    command.args(["--user", "--map-root-user", "sh", "-c", &script]);
    let seen = cabane.finish(&mut command);
    let says = seen.stderr.contains("cannot create a user namespace")
        && seen.stderr.contains("max_user_namespaces");
    assert!(seen.code == 125 && says, "{seen:?}");
}

#[test]
fn without_the_fuse_device_the_message_says_what_to_change() {
    if !is_root() {
        not_run!("needs root to take the device away");
    }
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let script = format!(
        "mount -t tmpfs none /mnt && mknod /mnt/fuse c 10 229 && chmod 600 /mnt/fuse && \
         mount --bind /mnt/fuse /dev/fuse && exec setpriv --reuid={user} --regid={user} \
         --clear-groups {} run app -- true",
        cabane.program(),
        user = cabane_testkit::ORDINARY_USER,
    );
    let mut command = cabane.world.command("unshare");
    command.args(["--mount", "sh", "-c", &script]).env("CABANE_SYSTEM", "here");
    let seen = cabane.finish(&mut command);
    let says = seen.stderr.contains("cannot open /dev/fuse")
        && seen.stderr.contains("chmod 0666 /dev/fuse");
    assert!(seen.code == 125 && says, "{seen:?}");
}

#[test]
fn an_image_on_a_full_disk_is_refused_and_leaves_nothing() {
    if !is_root() {
        not_run!("needs root to make a small file system");
    }
    let cabane = Cabane::new(Who::Root);
    let big = cabane_testkit::Tree::new(cabane.world.path("big"));
    #[expect(clippy::cast_possible_truncation, reason = "noise is what is wanted")]
    let noise: Vec<u8> = (0..6_000_000_u32)
        .map(|i| (i.wrapping_mul(2_654_435_761).rotate_left(i % 31) >> 13) as u8)
        .collect();
    fs::write(big.root().join("noise"), noise).unwrap();
    let image = cabane.world.path("big.squashfs");
    cabane_testkit::squashfs(big.root(), &image);
    let repository = cabane.world.directory("small/repository");
    let script = format!(
        "mount -t tmpfs -o size=4m none {small} && {program} repo create {repository} && \
         {program} --repo {repository} image add big/1:v1@here%x86_64 {image}; echo code $?; \
         {program} --repo {repository} repo status; echo code $?; du -s {repository} | cut -f1",
        small = cabane.world.path("small").display(),
        program = cabane.program(),
        repository = repository.display(),
        image = image.display(),
    );
    let mut command = cabane.world.command("unshare");
    command.args(["--mount", "sh", "-c", &script]);
    let seen = cabane.finish(&mut command);
    let says = seen.stderr.contains("no space left") && seen.stdout.starts_with("code 1\n");
    let left: u64 = seen.stdout.lines().last().unwrap_or("").parse().unwrap_or(u64::MAX);
    assert!(says && seen.stdout.contains("code 0") && left < 100, "{seen:?}");
}
