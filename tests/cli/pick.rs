// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `--pick`: choosing an image on a terminal.

use std::fs;
use std::io::{Read as _, Write as _};

use crate::cabane::{APP, Cabane, Who};
use crate::registry::Shared;
use crate::terminal::on_terminal;

const TOOL: &str = "a-tool-with-a-long-name/2026.11.28:a-long-tag-as-well@here%x86_64";
const HIDES_CURSOR: &str = "\u{1b}[?25l";
const SHOWS_CURSOR: &str = "\u{1b}[?25h";

/// A user with two images.
fn with_two() -> Cabane {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let image = cabane.image("tool", &cabane.mount_point("tool"));
    cabane.run(&["image", "add", TOOL, &image]).success();
    cabane
}

/// Starts a command, types when the list is shown, and returns what the terminal showed and what the
/// command wrote to standard output.
fn typed(cabane: &Cabane, line: &str, keys: &str) -> (String, String) {
    let chosen = cabane.world.directory("work").join("chosen");
    let file = chosen.display();
    // The shell survives Ctrl-C, and says how the command ended.
    let script =
        format!("trap : INT; {} {line} > {file}; echo \"code $?\"; stty -a", cabane.program());
    let mut child = on_terminal(cabane, &script);
    let (mut screen, mut input) = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
    let (mut shown, mut part, mut is_typed) = (String::new(), [0; 4096], false);
    loop {
        let length = screen.read(&mut part).unwrap();
        if length == 0 {
            break;
        }
        shown += &String::from_utf8_lossy(&part[..length]);
        if !is_typed && shown.contains("app/1.0:v1") {
            input.write_all(keys.as_bytes()).unwrap();
            is_typed = true;
        }
    }
    drop(input);
    child.wait().unwrap();
    (shown, fs::read_to_string(chosen).unwrap())
}

#[test]
fn the_chosen_image_is_printed_for_another_command() {
    let cabane = with_two();
    // The list is sorted by label.
    let cases = [("\r", TOOL), ("\u{1b}[B\r", APP), ("app\r", APP), ("atolx\u{7f}\r", TOOL)];
    for (keys, expected) in cases {
        let (shown, label) = typed(&cabane, "image ls --pick", keys);
        assert!(shown.contains("code 0") && !shown.contains("hint"), "{keys:?}: {shown:?}");
        assert_eq!(label, format!("{expected}\n"), "{keys:?}: {shown:?}");
        assert!(shown.rfind(HIDES_CURSOR) < shown.rfind(SHOWS_CURSOR), "{keys:?}: {shown:?}");
        assert!(shown.contains('…'), "a row is longer than a line: {shown:?}");
        cabane.run(&["image", "inspect", expected]).success();
    }
}

/// Whether the cursor is visible, and the terminal shows what is typed.
fn is_restored(shown: &str) -> bool {
    let (hidden, visible) = (shown.rfind(HIDES_CURSOR), shown.rfind(SHOWS_CURSOR));
    hidden.is_some() && hidden < visible && shown.contains(" icanon ") && shown.contains(" echo ")
}

#[test]
fn escape_and_ctrl_c_choose_nothing_and_leave_the_terminal_as_it_was() {
    let cabane = with_two();
    for keys in ["\u{1b}", "\u{3}", "app\u{3}"] {
        let (shown, label) = typed(&cabane, "image ls --pick", keys);
        assert_eq!(shown.contains("no image was chosen"), keys == "\u{1b}", "{keys:?}: {shown:?}");
        assert!(shown.contains("code 130") && is_restored(&shown), "{keys:?}: {shown:?}");
        assert_eq!(label, "", "{keys:?}");
    }
}

#[test]
fn a_signal_ends_it_and_leaves_the_terminal_as_it_was() {
    let cabane = with_two();
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let line = "image ls --pick";
        let script = format!(
            "(sleep 1; kill -{signal} $(cat pid)) & exec 9>pid; \
             sh -c 'echo $$ >&9; exec {} {line}'; echo \"code $?\"; stty -a",
            cabane.program()
        );
        let mut child = on_terminal(&cabane, &script);
        let input = child.stdin.take().unwrap();
        let output = child.wait_with_output().unwrap();
        drop(input);
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(shown.contains(&format!("code {code}")), "{signal}: {shown:?}");
        assert!(is_restored(&shown), "{signal}: {shown:?}");
    }
}

#[test]
fn an_image_of_the_registry_is_chosen_as_it_was_searched() {
    let shared = Shared::new(Who::OrdinaryUser);
    let cabane = &shared.cabane;
    shared.run(&["image", "push", APP]).success();
    let (shown, label) = typed(cabane, "image find --pick", "\r");
    assert_eq!(label, format!("{APP}\n"), "{shown:?}");
    let (shown, label) = typed(cabane, "image find --pick deploy::app", "\r");
    assert_eq!(label, format!("deploy::{APP}\n"), "{shown:?}");
    cabane.run(&["image", "pull", label.trim_end()]).success();
    let (shown, label) = typed(cabane, "search app --pick", "\r");
    assert_eq!(label, format!("{APP}\n"), "{shown:?}");
}

#[test]
fn without_a_terminal_or_an_image_it_is_an_error() {
    let cabane = with_two();
    for line in [&["image", "ls", "--pick"][..], &["search", "app", "--pick"]] {
        let seen = cabane.run(line);
        let expected = "error: `--pick` needs a terminal, and standard error is none\n\
                        hint: without `--pick`, all images are printed\n";
        assert_eq!((seen.code, seen.stderr.as_str()), (2, expected));
    }
    assert_eq!(cabane.run(&["image", "ls", "--pick", "--json"]).code, 2);
    let (shown, label) = typed(&cabane, "image ls --pick none", "");
    assert!(shown.contains("no image matches") && shown.contains("code 4"), "{shown:?}");
    assert_eq!(label, "");
}
