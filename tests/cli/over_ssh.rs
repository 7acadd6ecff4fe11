// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `ssh HOST cabane run …`, as editors and scripts use it, with a real server of ssh.

use std::io::Write;
use std::process::{Command, Stdio};

use cabane_testkit::Finished;

use crate::build_elsewhere::{Scene, with_host};
use crate::cabane::APP;

/// Prepares a command on the host, in an image that is there.
fn in_image(scene: &Scene, command: &str) -> Command {
    let mut ssh = scene.cabane.other("ssh");
    ssh.arg("-F")
        .arg(scene.path("ssh_config"))
        .arg("builder")
        .arg(format!("cabane run app -- {command}"));
    ssh
}

fn with_app_there(scene: &Scene) {
    let point = scene.cabane.mount_point("app");
    let image = scene.cabane.image("app", &point);
    let mut ssh = scene.cabane.other("ssh");
    ssh.arg("-F").arg(scene.path("ssh_config")).arg("builder");
    Finished::of(ssh.arg(format!("cabane image add {} {image}", APP.replace("@here", "@there"))))
        .success();
}

#[test]
fn ssh_hands_input_output_and_exit_codes_through() {
    with_host(|scene| {
        with_app_there(scene);
        let hello = Finished::of(&mut in_image(scene, "hello")).success();
        assert_eq!(hello.stdout, "hello from app\n");
        assert_eq!(Finished::of(&mut in_image(scene, "sh -c 'exit 42'")).code, 42);
        assert_eq!(Finished::of(&mut in_image(scene, "missing")).code, 127);

        let bytes: Vec<u8> = (0..=255).cycle().take(3_000_000).collect();
        let mut ssh = in_image(scene, "cat");
        let mut child = ssh.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        let sent = bytes.clone();
        let sender = std::thread::spawn(move || input.write_all(&sent).unwrap());
        let output = child.wait_with_output().unwrap();
        sender.join().unwrap();
        assert!(output.status.success() && output.stdout == bytes);
    });
}
