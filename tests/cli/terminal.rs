// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! On a terminal: lines fit into its width, and Ctrl-C ends long work.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cabane_testkit::{Fault, HostileRegistry, is_running, time_limit};

use crate::cabane::{APP, Cabane, Who};

const COLUMNS: usize = 80;

/// Starts a script of a shell on a terminal of 80 columns. What is written to its input is typed.
fn on_terminal(cabane: &Cabane, script: &str) -> Child {
    let script = format!("stty cols {COLUMNS} rows 24; {script}");
    let mut command: Command = cabane.other("script");
    command.args(["-q", "-e", "-c", &script, "/dev/null"]).env("SHELL", "/bin/sh");
    command.env("TERM", "xterm").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// Returns the lines that a terminal of 80 columns shows, without colors.
fn shown(cabane: &Cabane, arguments: &str) -> Vec<String> {
    let child = on_terminal(cabane, &format!("{} {arguments} 2>&1", cabane.program()));
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let parts = text.split('\u{1b}');
    let plain = parts.enumerate().map(|(number, part)| match part.split_once('m') {
        Some((_, rest)) if number > 0 => rest,
        _ => part,
    });
    let plain: String = plain.collect();
    plain.lines().map(|line| line.trim_end_matches('\r').to_owned()).collect()
}

/// Whether a line is too long, and not only because of its last word: a path is not cut.
fn is_too_long(line: &str) -> bool {
    let before_last_word = line.trim_end().rsplit_once(' ').map_or("", |(before, _)| before);
    line.chars().count() > COLUMNS && before_last_word.trim_end().chars().count() > COLUMNS
}

#[test]
fn lists_and_help_fit_into_80_columns() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let image = cabane.image("tool", &cabane.mount_point("tool"));
    let label = "a-name-with-more-characters-than-usual/2026.11.27:release-candidate@here%x86_64";
    cabane.run(&["image", "add", label, &image]).success();
    cabane.world.file("home/.config/cabane/environments/climate.toml", "images = [\"app\"]\n");
    let lists = [
        "image ls",
        "image inspect app",
        "repo status",
        "repo gc --dry-run --keep 1",
        "config",
        "environment ls",
        "status",
        "doctor",
        "cache ls",
        "system devices",
    ];
    let helps = [
        "",
        "run",
        "start",
        "image ls",
        "image pull",
        "image sign",
        "registry mirror",
        "build",
        "import",
        "export",
        "catalogue build",
        "pipeline run",
        "channel promote",
        "slurm install",
        "check",
    ];
    let helps = helps.map(|words| format!("{words} --help"));
    for line in lists.map(str::to_owned).into_iter().chain(helps) {
        let lines = shown(&cabane, &line);
        let long: Vec<_> = lines.iter().filter(|line| is_too_long(line)).collect();
        assert!(!lines.is_empty() && long.is_empty(), "{line}: {long:#?}");
    }
    // What is longer than its column has a line for itself, and a file gets whole lines.
    let lines = shown(&cabane, "image ls");
    let name = "a-name-with-more-characters-than-usual/2026.11.27:release-candidate";
    assert!(lines.iter().any(|line| line == name), "{lines:#?}");
    let seen = cabane.run(&["image", "ls", "--no-header", "a-name"]).success();
    assert!(seen.stdout.starts_with(&format!("{name}  here")) && seen.stdout.lines().count() == 1);
}

/// All files of a user, but for those of unfinished downloads, which a repetition continues.
fn files(directory: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() && !path.ends_with("downloads") {
            found.extend(files(&path));
        }
        if !path.ends_with(".lock") {
            found.insert(path);
        }
    }
    found
}

#[test]
fn ctrl_c_ends_long_work_with_130_and_leaves_nothing() {
    let registry = HostileRegistry::start();
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let url = registry.url();
    cabane.world.file("site.toml", &format!("[registry]\nurl = \"{url}/uenv\"\n"));
    cabane.run(&["image", "push", APP]).success();
    cabane.run(&["image", "push", APP, "app/2.0:v1@here%x86_64"]).success();
    cabane.run(&["image", "find"]).success();
    // Long work is work that waits: here for an answer.
    registry.on("", "").does(Fault::Hang);
    let work = cabane.world.directory("work");
    let (program, at) = (cabane.program(), work.display());
    let lines = [
        "image pull app/2.0".to_owned(),
        format!("image push {APP} other/1.0:v1"),
        format!("image copy {APP} app/3.0:v1"),
        format!("image delete {APP}"),
        "image find".to_owned(),
        "image inspect --remote app/2.0".to_owned(),
        format!("registry mirror {url}/uenv {url}/other app"),
        "registry check".to_owned(),
        "registry reindex".to_owned(),
        format!("catalogue build --output {at}/site"),
        format!("bundle create {at}/all.bundle app/2.0"),
        format!("import {url}/tools/samtools:1.19 samtools/1.19"),
    ];
    let home = cabane.world.path("home");
    for line in lines {
        let before = (files(&home), files(&work));
        registry.forget_requests();
        // The shell survives, and says how the command ended.
        let script = format!("trap : INT; {program} {line}; echo \"code $?\"");
        let mut child = on_terminal(&cabane, &script);
        let started = Instant::now();
        while registry.requests().is_empty() && child.try_wait().unwrap().is_none() {
            assert!(started.elapsed() < time_limit(Duration::from_secs(30)), "{line} asks nothing");
            sleep(Duration::from_millis(5));
        }
        let mut typed = child.stdin.take().unwrap();
        // One that has ended already is noticed below.
        let _ = typed.write_all(b"\x03");
        let output = child.wait_with_output().unwrap();
        drop(typed);
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(printed.contains("code 130"), "{line}: {printed}");
        assert!(!is_running(program), "{line} goes on");
        assert_eq!((files(&home), files(&work)), before, "{line} leaves something");
    }
}
