// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! An environment inside another.

use crate::cabane::{Cabane, everybody, finished};

#[test]
fn a_second_image_can_be_entered_from_the_first() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        let tools = cabane.image("tools", &cabane.mount_point("tools"));
        let program = cabane.program().to_owned();
        let inner = [program.as_str(), "run", &tools, "--", "sh", "-c", "hello; echo $CABANE_TEST"];
        let arguments = [&["run", "app", "--"], &inner[..]].concat();
        let seen = cabane.run(&arguments);
        assert_eq!(seen, finished(0, "hello from tools\ntools\n", ""), "as {who:?}");
    }
}

#[test]
fn the_same_image_can_be_entered_again() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        let program = cabane.program().to_owned();
        let arguments = ["run", "app", "--", &program, "run", "app", "--", "hello"];
        let seen = cabane.run(&arguments);
        assert_eq!(seen, finished(0, "hello from app\n", ""), "as {who:?}");
    }
}

#[test]
fn status_inside_two_environments_shows_both() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        let tools = cabane.image("tools", &cabane.mount_point("tools"));
        let program = cabane.program().to_owned();
        let arguments = [
            "run",
            "app",
            "--",
            &program,
            "run",
            &tools,
            "--",
            &program,
            "status",
            "--format=views",
        ];
        let seen = cabane.run(&arguments);
        assert_eq!(seen, finished(0, "app:default,tools:default\n", ""), "as {who:?}");
    }
}

#[test]
fn a_mount_point_that_does_not_exist_works_inside_another_such() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        let tools = cabane.image("tools", &cabane.mount_point("tools"));
        let program = cabane.program().to_owned();
        let arguments = [
            "run",
            "app:/cabane-outer",
            "--",
            &program,
            "run",
            &format!("{tools}:/cabane-inner"),
            "--",
            "cat",
            "/cabane-outer/name",
            "/cabane-inner/name",
        ];
        let seen = cabane.run(&arguments).success();
        assert_eq!(seen.stdout, "apptools", "as {who:?}");
    }
}
