// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane config`, layers of settings, and what is common to all commands.

use crate::cabane::{Cabane, Who, everybody, finished};

fn value_of(cabane: &Cabane, arguments: &[&str], key: &str) -> (String, String) {
    let seen = cabane.run(&[arguments, &["config", "--json"]].concat()).success();
    let rows: Vec<serde_json::Value> = serde_json::from_str(&seen.stdout).unwrap();
    let row = rows.iter().find(|row| row["key"] == key).unwrap();
    (row["value"].as_str().unwrap().to_owned(), row["origin"].as_str().unwrap().to_owned())
}

#[test]
fn a_variable_wins_over_files_and_an_option_over_both() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    cabane.world.file("site.toml", "system_name = \"site\"\n");
    let seen = [
        value_of(&cabane, &[], "system_name"),
        value_of(&cabane, &["--system=typed"], "system_name"),
    ];
    let pair = |value: &str, origin: &str| (value.to_owned(), origin.to_owned());
    assert_eq!(seen, [pair("here", "variable CABANE_SYSTEM"), pair("typed", "option --system")]);
}

#[test]
fn the_users_file_wins_over_the_sites() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    cabane.world.file("site.toml", "default_uarch = \"zen2\"\n");
    cabane.world.file("home/.config/cabane/config.toml", "default_uarch = \"zen3\"\n");
    assert_eq!(
        value_of(&cabane, &[], "default_uarch"),
        ("zen3".to_owned(), "[WORLD]/home/.config/cabane/config.toml".to_owned())
    );
}

#[test]
fn a_misspelt_key_is_shown_with_its_place() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    cabane.world.file("site.toml", "color = \"auto\"\nsystm_name = \"here\"\n");
    let seen = cabane.run(&["image", "ls"]);
    let says = seen.stderr.contains("[WORLD]/site.toml:2:1") && seen.stderr.contains("system_name");
    assert!(seen.code == 3 && says, "{}: {}", seen.code, seen.stderr);
}

#[test]
fn a_command_that_does_not_exist_is_a_mistake_of_usage() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let seen = cabane.run(&["imag"]);
    assert!(seen.code == 2 && seen.stderr.contains("'image'"), "{seen:?}");
}

#[test]
fn the_completion_script_is_one_that_bash_accepts() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let script = "source <($CABANE completion bash) && complete -p cabane >/dev/null && echo fine";
    let seen = cabane.finish(cabane.other("bash").args(["-c", script]));
    assert_eq!(seen, finished(0, "fine\n", ""));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let script = "set -o pipefail; $CABANE image ls | head -c 1 >/dev/null; echo $?";
    let seen = cabane.finish(cabane.other("bash").args(["-c", script]));
    assert_eq!(seen, finished(0, "0\n", ""));
}

#[test]
fn there_is_no_colour_where_there_is_no_terminal() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let seen = [cabane.run(&["image", "ls"]).stdout, cabane.run(&["run", "x", "--", "y"]).stderr];
    assert!(seen.iter().all(|text| !text.contains('\u{1b}')), "{seen:?}");
}

#[test]
fn an_image_outside_of_a_repository_needs_no_home() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        let image = cabane.image("app", &cabane.mount_point("app"));
        let mut command = cabane.command(&["run", &image, "--", "hello"]);
        let seen = cabane.finish(command.env_remove("HOME"));
        assert_eq!(seen, finished(0, "hello from app\n", ""), "as {who:?}");
    }
}

#[test]
fn what_needs_a_home_says_so() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let image = cabane.world.path("app.squashfs");
    let image = image.to_string_lossy();
    let without_home = |arguments: &[&str]| {
        let seen = cabane.finish(cabane.command(arguments).env_remove("HOME"));
        (seen.code, seen.stderr.lines().next().map(str::to_owned))
    };
    let seen = [
        without_home(&["image", "add", "b/1:v1@here%x86_64", &image]),
        without_home(&["run", "app", "--", "true"]),
    ];
    let output = |text: &str| Some(text.to_owned());
    let expected = [
        (6, output("error: the repository `default` cannot be used: the variable HOME is not set")),
        (
            125,
            output("warning: the repository `default` is left out: the variable HOME is not set"),
        ),
    ];
    assert_eq!(seen, expected);
}
