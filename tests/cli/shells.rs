// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane start`: the shells people use, on a terminal.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;

use cabane_testkit::{Tree, not_run, squashfs};

use crate::cabane::{Cabane, Who, everybody};

/// Types lines into a shell that was started on a terminal and returns what the
/// terminal showed.
fn typed_into(cabane: &Cabane, shell: &str, lines: &str) -> String {
    // Without it zsh asks whether it should make one.
    if !cabane.world.path("home/.zshrc").exists() {
        cabane.world.file("home/.zshrc", "");
    }
    // Without it fish starts to read all pages of manuals, and writes after the end of the test.
    let read = "home/.local/share/fish/generated_completions/none.fish";
    cabane.world.file(read, "");
    on_terminal(cabane, shell, "start app", lines)
}

/// Does the same with any command that reads from a terminal.
pub(crate) fn on_terminal(cabane: &Cabane, shell: &str, arguments: &str, lines: &str) -> String {
    let mut command = cabane.other("script");
    let start = format!("{} {arguments}", cabane.program());
    command.args(["-q", "-e", "-c", &start, "/dev/null"]).env("SHELL", shell);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn works_in(shell: &str, lines: &str) {
    if !Path::new(shell).exists() {
        not_run!("{shell} is not installed");
    }
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        let shown = typed_into(&cabane, shell, lines);
        assert!(shown.contains("<hello from app app>"), "as {who:?} in {shell}:\n{shown}");
    }
}

#[test]
fn bash_starts_with_the_view() {
    works_in("/bin/bash", "echo \"<$(hello) $CABANE_TEST>\"\nexit\n");
}

#[test]
fn zsh_starts_with_the_view() {
    works_in("/bin/zsh", "echo \"<$(hello) $CABANE_TEST>\"\nexit\n");
}

#[test]
fn fish_starts_with_the_view() {
    works_in("/usr/bin/fish", "echo '<'(hello)\" $CABANE_TEST>\"\nexit\n");
}

#[test]
fn tcsh_starts_with_the_view() {
    works_in("/bin/tcsh", "echo \"<`hello` $CABANE_TEST>\"\nexit\n");
}

/// Settings that put a directory first in `PATH`, as `conda init` does.
const FIRST: [(&str, &str, &str); 4] = [
    ("/bin/bash", ".bashrc", "export PATH=[CONDA]:$PATH MARK=read"),
    ("/bin/zsh", ".zshrc", "export PATH=[CONDA]:$PATH MARK=read"),
    ("/bin/zsh", ".zshenv", "export PATH=[CONDA]:$PATH MARK=read"),
    ("/usr/bin/fish", ".config/fish/config.fish", "set -gx PATH [CONDA] $PATH; set -gx MARK read"),
];

#[test]
fn settings_of_a_shell_put_nothing_before_the_programs_of_an_image() {
    for (shell, file, line) in FIRST {
        if !Path::new(shell).exists() {
            not_run!("{shell} is not installed");
        }
        let cabane = Cabane::with_app(Who::OrdinaryUser);
        let conda = cabane.world.directory("conda");
        for program in ["hello", "conda-only"] {
            let path = conda.join(program);
            fs::write(&path, "#!/bin/sh\necho conda-has-$(basename $0)\n").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let line = line.replace("[CONDA]", &conda.display().to_string());
        cabane.world.file(&format!("home/{file}"), &format!("{line}\n"));
        let lines = "hello\nconda-only\necho mark-is-$MARK\nenv | grep -c '^_CABANE'\nexit\n";
        let shown = typed_into(&cabane, shell, lines);
        let seen = ["hello from app", "conda-has-conda-only", "mark-is-read", "\n0"]
            .map(|text| shown.contains(text));
        assert!(seen == [true; 4], "{shell} with {file}: {seen:?}\n{shown}");
        assert!(!shown.contains("conda-has-hello"), "{shell} with {file}:\n{shown}");
    }
}

#[test]
fn exported_functions_are_there_and_what_bash_env_names_is_read_once() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        cabane.world.file("home/env.sh", "echo read\n");
        let script =
            "greet() { echo greeted; }; export -f greet; export BASH_ENV=~/env.sh SHELL=/bin/bash
            echo 'greet; hello' | $CABANE start app --ignore-tty";
        let seen = cabane.finish(cabane.other("bash").args(["-c", script])).success();
        assert_eq!(seen.stdout, "read\ngreeted\nhello from app\n", "as {who:?}: {seen:?}");
    }
}

#[test]
fn the_shell_in_a_container_reads_settings_only_if_it_is_named() {
    let bash = "/usr/bin/bash";
    if !Path::new(bash).exists() {
        not_run!("bash is not installed");
    }
    for who in everybody() {
        let cabane = Cabane::new(who);
        let tree = Tree::new(cabane.world.path("trees/os")).root_file_system("os", "");
        let image = cabane.world.path("os.squashfs");
        squashfs(tree.host_program(bash).root(), &image);
        let image = image.to_str().unwrap();
        cabane.run(&["image", "add", "os/1:v1@here%x86_64", image]).success();
        cabane.world.file("home/.bashrc", "export MARK=read PATH=/conda:$PATH\n");
        let lines = "echo mark-is-${MARK-unset} path-is-$PATH\nexit\n";
        let shown = on_terminal(&cabane, bash, "shell os", lines);
        assert!(shown.contains("mark-is-unset path-is-/usr/bin:/bin\r"), "as {who:?}:\n{shown}");
        for arguments in ["shell --shell /usr/bin/bash os", "start os"] {
            let shown = on_terminal(&cabane, bash, arguments, lines);
            let expected = "mark-is-read path-is-/usr/bin:/bin:/conda\r";
            assert!(shown.contains(expected), "{arguments} as {who:?}:\n{shown}");
        }
    }
}

#[test]
fn the_exit_code_of_the_shell_is_passed_through() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let mut command = cabane.other("script");
    let start = format!("{} start app", cabane.program());
    command.args(["-q", "-e", "-c", &start, "/dev/null"]).env("SHELL", "/bin/bash");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"exit 7\n").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(7));
}

#[test]
fn job_control_works_in_the_shell() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let shown = typed_into(&cabane, "/bin/bash", "sleep 30 &\njobs\nkill %1\nexit\n");
    assert!(shown.contains("Running") && !shown.contains("no job control"), "{shown}");
}

#[test]
fn a_start_in_the_settings_of_the_shell_starts_one_shell() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        let line = format!("{} start app && echo back\n", cabane.program());
        cabane.world.file("home/.bashrc", &line);
        let shown = typed_into(&cabane, "/bin/bash", "echo \"<$(hello)>\"\nexit\n");
        assert!(shown.contains("<hello from app>"), "as {who:?}:\n{shown}");
        let notes = shown.matches("this shell is already in this environment").count();
        assert_eq!((notes, shown.matches("\nback").count()), (1, 1), "as {who:?}:\n{shown}");
    }
}

#[test]
fn another_view_or_another_place_is_another_environment() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let other = cabane.mount_point("other");
    for (more, is_started) in [
        (String::new(), false),
        ("--no-default-view".to_owned(), true),
        (format!("--bind /usr:{other}"), true),
    ] {
        let script = format!("$CABANE start app --ignore-tty {more} <<<'echo inside'");
        let seen = cabane.finish(cabane.other("bash").args([
            "-c",
            "$CABANE run app -- bash -c \"$0\"",
            &script,
        ]));
        // In an environment of a user namespace others may be refused, and never silently.
        assert_eq!(seen.stderr.contains("already in this environment"), !is_started, "{seen:?}");
    }
}

#[test]
fn the_name_of_an_image_runs_nothing_in_a_prompt() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let image = cabane.image("x$(touch pwned)`id`%n", &cabane.mount_point("other"));
    let status = ["run", &image, "--", cabane.program(), "status", "--format", "prompt"];
    let seen = cabane.run(&status).success();
    assert_eq!(seen.stdout, "(x__touch_pwned__id__n) ");
}

/// The line in the settings of each shell, and the file.
const SETTINGS: [(&str, &str, &str); 4] = [
    ("/bin/bash", ".bashrc", "source <(cabane completion bash)"),
    ("/bin/zsh", ".zshrc", "autoload compinit; compinit; source <(cabane completion zsh)"),
    ("/usr/bin/fish", ".config/fish/config.fish", "cabane completion fish | source"),
    ("/bin/tcsh", ".tcshrc", "eval \"`cabane completion tcsh`\""),
];

#[test]
fn the_prompt_names_what_is_loaded() {
    for (shell, file, line) in SETTINGS {
        if !Path::new(shell).exists() {
            not_run!("{shell} is not installed");
        }
        let cabane = Cabane::with_app(Who::OrdinaryUser);
        let path = Path::new(cabane.program()).parent().unwrap().display().to_string();
        let set = match shell {
            "/usr/bin/fish" => format!("set -gx PATH $PATH {path}"),
            "/bin/tcsh" => format!("set prompt = '> '; setenv PATH ${{PATH}}:{path}"),
            _ => format!("PATH=$PATH:{path}"),
        };
        cabane.world.file(&format!("home/{file}"), &format!("{set}\n{line}\n"));
        let shown = typed_into(&cabane, shell, "echo x\nexit\n");
        assert!(shown.contains("(app/1.0) "), "{shell}:\n{shown}");
    }
}

#[test]
fn without_a_terminal_there_is_no_shell() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let seen = cabane.run(&["start", "app"]);
    assert_eq!(
        (seen.code, seen.stderr.lines().next()),
        (
            125,
            Some(
                "error: `cabane start` starts a shell for a person, but standard input is not a \
                 terminal"
            )
        )
    );
}

#[test]
fn the_module_command_still_works_inside() {
    let modules = "/usr/share/modules/init/bash";
    if !Path::new(modules).exists() {
        not_run!("environment-modules is not installed");
    }
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let script = format!(
        ". {modules}; export -f module _module_raw 2>/dev/null; \
         $CABANE run app -- bash -c 'module avail 2>&1 >/dev/null; echo code $?'"
    );
    let seen = cabane.finish(cabane.other("bash").args(["-c", &script])).success();
    assert!(seen.stdout.ends_with("code 0\n"), "{}{}", seen.stdout, seen.stderr);
}
