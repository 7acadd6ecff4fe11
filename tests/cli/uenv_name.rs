// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The program under the names `uenv` and `squashfs-mount`. `scripts/test-uenv` runs uenv's own suites.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use cabane_testkit::{Finished, needs, not_run};
use serde_json::Value;

use crate::cabane::{APP, Cabane, Who, everybody, finished};
use crate::registry::Shared;

const VERSION: &str = "9.2.0";

/// A world with the image `app/1.0:v1@here%x86_64` in the user's repository of uenv.
fn with_app(who: Who) -> Cabane {
    let cabane = Cabane::new(who);
    for name in ["uenv", "squashfs-mount"] {
        symlink(cabane.program(), cabane.world.path(name)).unwrap();
    }
    let image = cabane.image("app", &cabane.mount_point("app"));
    uenv(&cabane, &["image", "add", "app/1.0:v1@here%x86_64", &image]).success();
    cabane
}

fn called(cabane: &Cabane, name: &str, arguments: &[&str]) -> Finished {
    let link = cabane.world.path(name);
    cabane.finish(cabane.other(link.to_str().unwrap()).args(arguments))
}

fn uenv(cabane: &Cabane, arguments: &[&str]) -> Finished {
    called(cabane, "uenv", arguments)
}

/// The first line of what a command wrote to standard error, with its exit code.
fn refused(cabane: &Cabane, arguments: &[&str]) -> (i32, String) {
    let seen = uenv(cabane, arguments);
    (seen.code, seen.stderr.lines().next().unwrap_or_default().to_owned())
}

#[test]
fn the_version_is_bare() {
    let cabane = with_app(Who::OrdinaryUser);
    let version = format!("{VERSION}\n");
    assert_eq!(uenv(&cabane, &["--version"]), finished(0, &version, ""));
    assert_eq!(called(&cabane, "squashfs-mount", &["--version"]), finished(0, &version, ""));
}

#[test]
fn columns_have_the_order_of_uenv_and_sizes_are_one_word() {
    let cabane = with_app(Who::OrdinaryUser);
    let seen = uenv(&cabane, &["image", "ls"]).success().stdout;
    let lines: Vec<Vec<_>> = seen.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["uenv", "arch", "system", "id", "size(MB)", "date"]);
    assert_eq!((&lines[1][..3], lines[1][4]), (&["app/1.0:v1", "x86_64", "here"][..], "0"));
    let bare = uenv(&cabane, &["image", "ls", "--no-header"]).success().stdout;
    assert_eq!(bare.lines().count(), 1);
}

#[test]
fn nothing_found_is_no_error() {
    let cabane = with_app(Who::OrdinaryUser);
    assert_eq!(uenv(&cabane, &["image", "ls", "x"]), finished(0, "no matching uenv\n", ""));
    assert_eq!(uenv(&cabane, &["image", "ls", "x", "--no-header"]), finished(0, "", ""));
    assert_eq!(
        uenv(&cabane, &["image", "ls", "x", "--json"]),
        finished(0, "{\"records\":[]}\n", "")
    );
}

#[test]
fn records_are_in_json() {
    let cabane = with_app(Who::OrdinaryUser);
    let seen = uenv(&cabane, &["image", "ls", "--json"]).success().stdout;
    let records: Value = serde_json::from_str(&seen).unwrap();
    let record = &records["records"][0];
    let digest = record["digest"].as_str().unwrap();
    assert_eq!((&record["name"], &record["id"]), (&"app".into(), &digest[..16].into()));
}

#[test]
fn a_template_may_be_any_text() {
    let cabane = with_app(Who::OrdinaryUser);
    let seen = uenv(&cabane, &["image", "inspect", "--format=hello", "app"]);
    assert_eq!(seen, finished(0, "hello\n", ""));
    let seen = uenv(&cabane, &["inspect", "--format", "{name:>5}|{tag}|{views}", "app"]);
    assert_eq!(seen.success().stdout, "  app|v1|default (the default view)\n");
}

#[test]
fn the_repository_is_one_of_uenv() {
    let cabane = with_app(Who::OrdinaryUser);
    let seen = uenv(&cabane, &["repo", "status"]).success().stdout;
    let path = seen.split(' ').nth(2).unwrap().to_owned();
    assert_eq!(seen, format!("the repository {path} is readwrite\n"));
    assert!(path.ends_with("/.uenv/repo"), "{path}");
    assert_eq!(
        uenv(&cabane, &["repo", "status", "/nowhere"]),
        finished(0, "/nowhere is not a repository\n", "")
    );
}

#[test]
fn a_command_runs_without_two_dashes_and_its_code_is_returned() {
    for who in everybody() {
        let cabane = with_app(who);
        let seen = uenv(&cabane, &["run", "app", "hello"]);
        assert_eq!(seen, finished(0, "hello from app\n", ""), "as {who:?}");
        let seen = uenv(&cabane, &["run", "app", "--view=default", "--", "sh", "-c", "exit 7"]);
        assert_eq!(seen, finished(7, "", ""), "as {who:?}");
    }
}

#[test]
fn a_session_in_a_session_is_refused() {
    let cabane = with_app(Who::OrdinaryUser);
    let link = cabane.world.path("uenv").to_string_lossy().into_owned();
    let seen = uenv(&cabane, &["run", "app", "--", &link, "run", "app", "--", "hello"]);
    assert!(
        seen.code == 1 && seen.stderr.contains("a uenv session is already running"),
        "{seen:?}"
    );
}

#[test]
fn status_has_the_texts_of_uenv() {
    let cabane = with_app(Who::OrdinaryUser);
    assert_eq!(uenv(&cabane, &["status"]), finished(0, "there is no uenv loaded\n", ""));
    assert_eq!(uenv(&cabane, &["status", "--error-if-unset", "--format=short"]).code, 1);
    let link = cabane.world.path("uenv").to_string_lossy().into_owned();
    let inside = |format: &str| {
        uenv(&cabane, &["run", "app", "--", &link, "status", format]).success().stdout
    };
    assert_eq!(
        (inside("--format=short").as_str(), inside("--format=views").as_str()),
        ("app\n", "app[default]\n")
    );
    let full = inside("--format=full");
    assert!(full.contains("\n    default (loaded): "), "{full}");
}

#[test]
fn labels_must_be_whole_and_free() {
    let cabane = with_app(Who::OrdinaryUser);
    let image = cabane.world.path("app.squashfs").to_string_lossy().into_owned();
    let add = |label: &str| uenv(&cabane, &["image", "add", label, &image]);
    assert_eq!((add("app/1.0").code, add("app/1.0:v1@here%x86_64").code), (1, 1));
    let second = add("other/1.0:v1@here%x86_64").success();
    assert!(second.stderr.contains("a uenv with the same sha"), "{second:?}");
}

#[test]
fn errors_have_the_codes_and_words_of_uenv() {
    let cabane = with_app(Who::OrdinaryUser);
    assert_eq!(uenv(&cabane, &["nosuch"]).code, 2);
    let expected = [
        (vec!["image", "rm", "x/1:v1"], "error: no uenv matches x/1:v1"),
        (vec!["run", "x", "--", "true"], "error: no uenv matches 'x'"),
        (vec!["run", "app,app:/other", "--", "true"], "error: the '"),
        (vec!["run", "app", "--view=x", "--", "true"], "error: the view 'x' does not exist"),
        (vec!["--repo=/x", "image", "ls"], "error: the repository /x does not exist"),
        (vec!["image", "pull", "--build", "x"], "error: the --build flag has been removed"),
    ];
    for (arguments, beginning) in expected {
        let (code, line) = refused(&cabane, &arguments);
        assert!(code == 1 && line.starts_with(beginning), "{arguments:?}: {code} {line}");
    }
}

#[test]
fn the_configuration_of_uenv_counts() {
    let cabane = with_app(Who::OrdinaryUser);
    let own = cabane.world.directory("own").join("images").to_string_lossy().into_owned();
    uenv(&cabane, &["repo", "create", &own]).success();
    let home = uenv(&cabane, &["config"]).success().stdout;
    assert!(home.contains("repository  default="), "{home}");
    let config = cabane.world.directory("config");
    fs::create_dir(config.join("uenv")).unwrap();
    fs::write(config.join("uenv/config"), format!("# mine\nrepo = {own}\n")).unwrap();
    let link = cabane.world.path("uenv");
    let mut listed = cabane.other(link.to_str().unwrap());
    let listed = listed.args(["image", "ls"]).env("XDG_CONFIG_HOME", &config);
    assert_eq!(cabane.finish(listed), finished(0, "no matching uenv\n", ""));
    let table =
        format!("[[repositories]]\nname = \"team\"\npath = \"{own}\"\n[elastic]\nurl = \"x\"\n");
    fs::write(config.join("uenv/config.toml"), table).unwrap();
    let mut shown = cabane.other(link.to_str().unwrap());
    let shown = shown.arg("config").env("XDG_CONFIG_HOME", &config);
    let shown = cabane.finish(shown).success().stdout;
    assert!(shown.contains("repository  team="), "{shown}");
}

#[test]
fn images_are_mounted_as_by_squashfs_mount() {
    for who in everybody() {
        let cabane = with_app(who);
        let place = cabane.mount_point("app");
        let image = cabane.world.path("app.squashfs").to_string_lossy().into_owned();
        let pair = format!("{image}:{place}");
        let name = format!("{place}/name");
        for arguments in [
            vec![format!("--sqfs={pair}"), "--".to_owned(), "cat".to_owned(), name.clone()],
            vec![pair.clone(), "--".to_owned(), "cat".to_owned(), name.clone()],
            vec![pair.clone(), "cat".to_owned(), name.clone()],
        ] {
            let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
            let seen = called(&cabane, "squashfs-mount", &arguments);
            assert_eq!(seen, finished(0, "app", ""), "as {who:?}: {arguments:?}");
        }
        let twice = called(&cabane, "squashfs-mount", &[&format!("--sqfs={pair},{pair}"), "true"]);
        assert!(
            twice.code == 1 && twice.stderr.contains("is used to mount more than one squashfs"),
            "{twice:?}"
        );
    }
}

#[test]
fn without_an_image_squashfs_mount_becomes_the_command() {
    let cabane = with_app(Who::OrdinaryUser);
    let link = cabane.world.path("squashfs-mount");
    let mut command = cabane.other(link.to_str().unwrap());
    let command =
        command.args(["--", "printenv", "LD_LIBRARY_PATH"]).env("SQFSMNT_FWD_LD_LIBRARY_PATH", "x");
    assert_eq!(cabane.finish(command), finished(0, "x\n", ""));
    let nothing = called(&cabane, "squashfs-mount", &[]);
    assert!(nothing.code == 1 && nothing.stderr.contains("no command given"), "{nothing:?}");
}

/// Runs a script of a shell, with `uenv` in the search path.
fn in_shell(cabane: &Cabane, shell: &str, script: &str) -> String {
    let directory = cabane.world.path("uenv").parent().unwrap().to_owned();
    let path = format!("{}:/usr/bin:/bin", directory.display());
    cabane.finish(cabane.other(shell).args(["-c", script]).env("PATH", path)).success().stdout
}

#[test]
fn bash_completes_commands_images_and_views() {
    let cabane = with_app(Who::OrdinaryUser);
    let offered = |line: &str| {
        let script = format!(
            "source <(uenv completion bash); COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}
             _uenv_complete 2>/dev/null; echo \"${{COMPREPLY[*]}}\""
        );
        in_shell(&cabane, "bash", &script)
    };
    let cases = [
        ("uenv sta", "start status\n"),
        ("uenv run a", "app/1.0:v1\n"),
        // Bash replaces what follows the last colon.
        ("uenv run app/1.0:", "v1\n"),
        ("uenv run app --view=", "default\n"),
        ("uenv image rm ap", "app/1.0:v1\n"),
        ("uenv image ls --no-h", "--no-header\n"),
        // Only programs use it.
        ("uenv slu", "\n"),
        // It is a command of Cabane.
        ("uenv recip", "\n"),
    ];
    for (line, expected) in cases {
        assert_eq!(offered(line), expected, "{line}");
    }
}

#[test]
fn zsh_and_fish_complete_images() {
    let cabane = with_app(Who::OrdinaryUser);
    let asked = "CABANE_COMPLETE=zsh _CLAP_COMPLETE_INDEX=2 _CLAP_IFS=$'\n' uenv -- uenv run a";
    let seen = in_shell(&cabane, "bash", asked);
    assert!(seen.starts_with("app/1.0\\:v1"), "{seen}");
    if !Path::new("/bin/zsh").exists() || !Path::new("/usr/bin/fish").exists() {
        not_run!("zsh or fish is not installed");
    }
    let script =
        "autoload compinit; compinit -u; source <(uenv completion zsh); print $_comps[uenv]";
    assert_eq!(in_shell(&cabane, "/bin/zsh", script), "_clap_dynamic_completer_uenv\n");
    let script = "uenv completion fish | source; complete -C 'uenv run a'";
    let seen = in_shell(&cabane, "/usr/bin/fish", script);
    assert!(seen.starts_with("app/1.0:v1"), "{seen}");
}

#[test]
fn help_is_for_the_name_that_is_typed() {
    let cabane = with_app(Who::OrdinaryUser);
    let help = uenv(&cabane, &["image", "push", "--help"]).success().stdout;
    assert!(help.contains("uenv image push") && !help.contains("cabane image push"), "{help}");
}

#[test]
fn images_are_found_and_pulled_from_a_registry() {
    needs!("docker-registry");
    let shared = Shared::pushed(Who::OrdinaryUser);
    shared.forget();
    let cabane = &shared.cabane;
    symlink(cabane.program(), cabane.world.path("uenv")).unwrap();
    let found = uenv(cabane, &["image", "find", "--no-header", "app"]).success().stdout;
    assert!(found.starts_with("app/1.0:v1  x86_64  here "), "{found}");
    let pulled = uenv(cabane, &["image", "pull", "--only-meta", "app"]).success().stdout;
    assert!(pulled.starts_with(&format!("the metadata of {APP} are in ")), "{pulled}");
    assert_eq!(uenv(cabane, &["image", "ls", "--no-header"]).stdout, "");
    let pulled = uenv(cabane, &["image", "pull", "app"]).success().stdout;
    assert_eq!(pulled, format!("updating {APP}\n"));
    let again = uenv(cabane, &["image", "pull", "app"]).success().stdout;
    assert!(again.ends_with(" already exists in the repository, skipping pull.\n"), "{again}");
    let hello = uenv(cabane, &["run", "app", "--", "hello"]).success().stdout;
    assert_eq!(hello, "hello from app\n");
}
