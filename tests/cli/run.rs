// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane run`.

use std::io::Write as _;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::Duration;

use cabane_testkit::{Tree, erofs, is_root, not_run};

use crate::cabane::{APP, Cabane, Who, everybody, finished};

#[test]
fn a_command_of_the_image_runs_by_its_name_alone() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        let seen = cabane.run(&["run", "app", "--", "hello"]);
        assert_eq!(seen, finished(0, "hello from app\n", ""), "as {who:?}");
    }
}

#[test]
fn the_exit_code_of_the_command_is_passed_through() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        let seen = cabane.run(&["run", "app", "--", "sh", "-c", "exit 42"]);
        assert_eq!(seen, finished(42, "", ""), "as {who:?}");
    }
}

#[test]
fn a_signal_reaches_the_command_itself() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        let mut child = cabane.command(&["run", "app", "--", "sleep", "60"]).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(300));
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9), "as {who:?}");
    }
}

#[test]
fn standard_input_reaches_the_command() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        let mut command = cabane.command(&["run", "app", "--", "tr", "a-z", "A-Z"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"typed").unwrap();
        assert_eq!(child.wait_with_output().unwrap().stdout, b"TYPED", "as {who:?}");
    }
}

#[test]
fn the_command_has_no_child_that_it_did_not_start() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        let children = "cat /proc/$$/task/$$/children";
        let seen = cabane.run(&["run", "app", "--", "sh", "-c", children]).success();
        // The only child is the `cat` itself.
        assert_eq!(seen.stdout.split_whitespace().count(), 1, "as {who:?}: {}", seen.stdout);
    }
}

#[test]
fn a_mount_point_that_does_not_exist_on_the_host_works_too() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        let arguments =
            ["run", "app:/cabane-nowhere/deep", "--", "cat", "/cabane-nowhere/deep/name"];
        let seen = cabane.run(&arguments).success();
        assert_eq!(seen.stdout, "app", "as {who:?}");
    }
}

#[test]
fn an_image_outside_any_repository_runs_by_its_path() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        let image = cabane.image("loose", &cabane.mount_point("loose"));
        let seen = cabane.run(&["run", &image, "--", "hello"]);
        assert_eq!(seen, finished(0, "hello from loose\n", ""), "as {who:?}");
    }
}

#[test]
fn two_images_are_there_at_once_and_views_apply_in_the_order_named() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        let other = cabane.image("tools", &cabane.mount_point("tools"));
        let script = "hello; echo $CABANE_TEST";
        let arguments = [
            "run",
            &format!("app,{other}"),
            "--view=tools:default,app:default",
            "--",
            "sh",
            "-c",
            script,
        ];
        let seen = cabane.run(&arguments);
        assert_eq!(seen, finished(0, "hello from app\napp\n", ""), "as {who:?}");
    }
}

#[test]
fn without_a_view_nothing_but_the_mount_changes() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        let arguments = ["run", "app", "--no-default-view", "--", "sh", "-c", "echo $PATH"];
        let seen = cabane.run(&arguments).success();
        assert!(!seen.stdout.contains("mnt/app"), "as {who:?}: {}", seen.stdout);
    }
}

#[test]
fn odd_variables_pass_untouched() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        let mut command = cabane.command(&["run", "app", "--", "bash", "-c", "module; env"]);
        command.env("BASH_FUNC_module%%", "() {  echo module works\n}").env("odd.name-1", "kept");
        let seen = cabane.finish(&mut command).success();
        let kept =
            seen.stdout.starts_with("module works\n") && seen.stdout.contains("odd.name-1=kept");
        assert!(kept, "as {who:?}: {}", seen.stdout);
    }
}

#[test]
fn a_dry_run_shows_the_plan_and_mounts_nothing() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        let seen = cabane.run(&["run", "app", "--dry-run", "--", "hello"]).success();
        let first = format!(
            "backend {}\nimage [WORLD]/home/.local/share/cabane/repository/images/",
            if who == Who::Root { "root" } else { "user-namespace" }
        );
        assert!(seen.stdout.starts_with(&first), "as {who:?}: {}", seen.stdout);
    }
}

#[test]
fn root_may_choose_the_way_of_an_ordinary_user() {
    if !is_root() {
        not_run!("needs root");
    }
    let cabane = Cabane::with_app(Who::Root);
    let seen = cabane.run(&["--backend=user-namespace", "run", "app", "--", "hello"]);
    assert_eq!(seen, finished(0, "hello from app\n", ""));
}

#[test]
fn an_image_of_the_other_format_runs_as_well() {
    if !is_root() {
        not_run!("mounting EROFS without root needs erofsfuse, which is not everywhere");
    }
    let cabane = Cabane::new(Who::Root);
    let mount_point = cabane.mount_point("other");
    let tree = Tree::new(cabane.world.path("tree"))
        .program("bin/hello", "echo hello from EROFS")
        .meta("other", &mount_point);
    let image = cabane.world.path("other.erofs");
    erofs(tree.root(), &image);
    let label = "other/1:v1@here%x86_64";
    cabane.run(&["image", "add", label, &image.to_string_lossy()]).success();
    let seen = cabane.run(&["run", "other", "--", "hello"]);
    assert_eq!(seen, finished(0, "hello from EROFS\n", ""));
}

#[test]
fn a_command_that_does_not_exist_has_the_code_of_a_shell() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        let seen = cabane.run(&["run", "app", "--", "no-such-command"]);
        let expected = "error: there is no command `no-such-command`\n\
            hint: see which views the image has with `cabane image inspect`, and choose one with \
            `--view`; a container has only what is in its image\n";
        assert_eq!(seen, finished(127, "", expected), "as {who:?}");
    }
}

#[test]
fn a_file_that_cannot_be_executed_has_the_code_of_a_shell() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        let seen = cabane.run(&["run", "app", "--", "/etc/passwd"]);
        let expected =
            "error: cannot start `/etc/passwd`\ncause: Permission denied (os error 13)\n";
        assert_eq!(seen, finished(126, "", expected), "as {who:?}");
    }
}

#[test]
fn an_image_that_is_not_there_is_not_started() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let seen = cabane.run(&["run", "appl", "--", "true"]);
    assert_eq!((seen.code, seen.stdout.as_str()), (125, ""), "{}", seen.stderr);
    assert!(seen.stderr.starts_with("error: no image matches `appl`"), "{}", seen.stderr);
}

#[test]
fn a_mistake_in_a_label_is_pointed_at() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let seen = cabane.run(&["run", "app/1.0:", "--", "true"]);
    assert_eq!(
        seen,
        finished(
            125,
            "",
            "error: `app/1.0:` is not a label: the tag is missing after `:`\n  app/1.0:\n          ^\n"
        )
    );
}

#[test]
fn an_image_is_found_by_id_digest_and_label() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let digest = cabane.run(&["image", "inspect", "app", "--format={digest}"]).success().stdout;
    let digest = digest.trim();
    for name in [digest, &digest[..16], APP, "app/1.0", ":v1", "app@*"] {
        let seen = cabane.run(&["run", name, "--", "hello"]);
        assert_eq!(seen, finished(0, "hello from app\n", ""), "as {name}");
    }
}
