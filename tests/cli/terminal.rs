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
pub(crate) fn on_terminal(cabane: &Cabane, script: &str) -> Child {
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

/// All files of a user, but for locks, and those of unfinished downloads and builds, which a repetition
/// continues.
fn files(directory: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_lock = path.ends_with(".lock") || path.extension().is_some_and(|end| end == "lock");
        if is_lock || path.ends_with("builds") {
            continue;
        }
        if entry.file_type().unwrap().is_dir() && !path.ends_with("downloads") {
            found.extend(files(&path));
        }
        found.insert(path);
    }
    found
}

/// Whether a process runs this program, and not only a shell that names it.
fn runs(program: &str) -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.any(|line| line.starts_with(program.as_bytes()))
}

/// Types Ctrl-C as soon as a command is at work, and returns what was printed.
fn interrupted(cabane: &Cabane, line: &str, is_at_work: &dyn Fn() -> bool) -> String {
    // The shell survives, and says how the command ended.
    let script = format!("trap : INT; {} {line}; echo \"code $?\"", cabane.program());
    let mut child = on_terminal(cabane, &script);
    let started = Instant::now();
    while !is_at_work() && child.try_wait().unwrap().is_none() {
        assert!(started.elapsed() < time_limit(Duration::from_secs(30)), "{line} does not begin");
        sleep(Duration::from_millis(5));
    }
    let mut typed = child.stdin.take().unwrap();
    // One that has ended already is noticed below.
    let _ = typed.write_all(b"\x03");
    let output = child.wait_with_output().unwrap();
    drop(typed);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Releases an image through a channel, and follows it.
fn follow_a_channel(cabane: &Cabane, url: &str) {
    let key = cabane.world.path("work/release").display().to_string();
    cabane.run(&["image", "key", "new", &key]).success();
    let channel = format!("[[channel]]\nname = \"stable\"\nkeys = [\"{key}.pub\"]\n");
    let settings = format!("[registry]\nurl = \"{url}/uenv\"\n{channel}");
    cabane.world.file("site.toml", &settings);
    cabane.run(&["channel", "promote", "stable", APP, "--key", &key]).success();
    cabane.run(&["image", "pull", "app:stable"]).success();
}

/// A user with an image, which is also in a registry.
fn with_registry() -> (HostileRegistry, Cabane) {
    let registry = HostileRegistry::start();
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let settings = format!("[registry]\nurl = \"{}/uenv\"\n", registry.url());
    cabane.world.file("site.toml", &settings);
    cabane.run(&["image", "push", APP]).success();
    (registry, cabane)
}

#[test]
fn ctrl_c_ends_long_work_with_130_and_leaves_nothing() {
    let (registry, cabane) = with_registry();
    let url = registry.url();
    cabane.run(&["image", "push", APP, "app/2.0:v1@here%x86_64"]).success();
    cabane.run(&["image", "find"]).success();
    // Long work is work that waits: here for an answer.
    follow_a_channel(&cabane, &url);
    registry.on("", "").does(Fault::Hang);
    let work = cabane.world.directory("work");
    let at = work.display();
    let recipe = format!("name: tool\nengine: container\ncontainer:\n  from: {url}/tool:1\n");
    cabane.world.file("recipe/config.yaml", &recipe);
    let recipe = cabane.world.path("recipe").display().to_string();
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
        format!("export app {url}/tools/app:1"),
        "upgrade".to_owned(),
        format!("build {recipe} tool/1.0"),
    ];
    let home = cabane.world.path("home");
    for line in lines {
        let before = (files(&home), files(&work));
        registry.forget_requests();
        let printed = interrupted(&cabane, &line, &|| !registry.requests().is_empty());
        assert!(printed.contains("code 130"), "{line}: {printed}");
        assert!(!is_running(cabane.program()), "{line} goes on");
        assert_eq!((files(&home), files(&work)), before, "{line} leaves something");
    }
}

#[test]
fn ctrl_c_ends_a_migration_with_130_and_leaves_nothing() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let target = cabane.world.path("work/target");
    let typed = target.display().to_string();
    cabane.run(&["repo", "create", &typed]).success();
    // It waits for another writer.
    let lock =
        fs::File::options().append(true).create(true).open(target.join("tmp/.lock")).unwrap();
    lock.lock().unwrap();
    let before = files(&target);
    let line = format!("repo migrate {typed}");
    let printed = interrupted(&cabane, &line, &|| runs(cabane.program()));
    assert!(printed.contains("code 130"), "{printed}");
    assert!(!is_running(cabane.program()), "it goes on");
    // The next writer removes the staging directory of one that was killed.
    let staging = target.join("tmp");
    let mut after = files(&target);
    after.retain(|path| !path.starts_with(&staging) || *path == staging);
    assert_eq!(after, before);
    drop(lock);
    cabane.run(&["repo", "migrate", &typed]).success();
    assert!(files(&staging).is_empty());
}

#[test]
fn long_work_shows_a_bar_on_a_terminal_only() {
    let (_registry, cabane) = with_registry();
    let bundle = cabane.world.path("all.bundle").display().to_string();
    cabane.run(&["bundle", "create", &bundle, APP]).success();
    let image = cabane.image("tool", &cabane.mount_point("tool"));
    cabane.run(&["image", "add", "tool/1.0:v1", &image]).success();
    let cases: [(Option<&str>, &[&str], &str); 3] = [
        (Some("tool"), &["image", "add", "tool/1.0:v1", &image], "adding tool/1.0"),
        (None, &["repo", "status", "--verify"], "verifying images"),
        (Some("app"), &["bundle", "install", &bundle], "pulling app/1.0"),
    ];
    for (removed, line, bar) in cases {
        let remove = || removed.map(|name| cabane.run(&["image", "rm", name]).success());
        remove();
        let seen = cabane.run(line).success();
        assert!(!seen.stderr.contains(bar), "{}", seen.stderr);
        remove();
        let shown = shown(&cabane, &line.join(" "));
        assert!(shown.iter().any(|line| line.contains(bar)), "{line:?}: {shown:#?}");
    }
}
