// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What was measured on: without the names of hosts, users or directories.

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::available_parallelism;

use crate::bed::Bed;
use crate::measure::finish;
use crate::peers::{self, first_line};
use crate::users::is_root;

/// What was measured on.
pub(crate) struct Machine {
    lines: Vec<(&'static str, String)>,
    load_before: String,
    /// The load when everything was done.
    pub(crate) load_after: String,
}

impl Machine {
    /// Looks around.
    pub(crate) fn inspect(bed: &Bed) -> Self {
        let cores = available_parallelism().map_or(0, usize::from);
        let cabane = match &bed.cabane {
            Ok(path) => first_line(path, "--version").unwrap_or_default(),
            Err(reason) => format!("not measured: {reason}"),
        };
        let lines = vec![
            ("date", printed(Command::new("date").args(["-u", "+%Y-%m-%d"]))),
            ("measured", cabane),
            ("processors", format!("{cores} × {}", processor())),
            ("memory", memory()),
            ("kernel", printed(Command::new("uname").args(["-s", "-r", "-m"]))),
            ("squashfs in the kernel", squashfs_options()),
            ("distribution", distribution()),
            ("files on", file_system(&bed.path(""))),
            (
                "measured as",
                if is_root() {
                    "root, and an ordinary user where noted"
                } else {
                    "an ordinary user"
                }
                .to_owned(),
            ),
            ("peers", versions()),
        ];
        Self { lines, load_before: load(), load_after: String::new() }
    }

    /// Notes the load at the end.
    pub(crate) fn note_load_after(&mut self) {
        self.load_after = load();
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "## The machine\n")?;
        for (what, text) in &self.lines {
            writeln!(f, "- {what}: {text}")?;
        }
        writeln!(f, "- load before (1, 5, 15 minutes): {}", self.load_before)
    }
}

/// Returns the load averages of the last 1, 5 and 15 minutes.
fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let loads: Vec<_> = text.split_whitespace().take(3).collect();
    loads.join(", ")
}

fn versions() -> String {
    let versions: Vec<String> = peers::ALL
        .iter()
        .map(|peer| peer.version().unwrap_or_else(|reason| format!("**{reason}**")))
        .collect();
    versions.join("; ")
}

fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    model.map_or("processor of unknown model".to_owned(), |(_, name)| name.trim().to_owned())
}

fn memory() -> String {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| {
        let number = line.strip_prefix("MemTotal:")?.split_whitespace().next()?;
        number.parse::<u64>().ok()
    });
    total.map_or("unknown".to_owned(), |kib| format!("{} GiB", kib.div_ceil(1024 * 1024)))
}

/// Returns how the kernel is configured to read squashfs: it makes a large difference.
fn squashfs_options() -> String {
    let options = "^CONFIG_SQUASHFS_(FILE|DECOMP|CHOICE_DECOMP)_[A-Z_]+=y";
    let release = printed(Command::new("uname").arg("-r"));
    let files = ["/proc/config.gz".to_owned(), format!("/boot/config-{release}")];
    let found = files
        .iter()
        .find_map(|file| finish(Command::new("zgrep").args(["-ohE", options, file.as_str()])).ok());
    let text = String::from_utf8_lossy(&found.unwrap_or_default()).replace("CONFIG_SQUASHFS_", "");
    let names: Vec<&str> = text.lines().filter_map(|line| line.strip_suffix("=y")).collect();
    if names.is_empty() { "unknown".to_owned() } else { names.join(", ") }
}

fn distribution() -> String {
    let text = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.unwrap_or("unknown").trim_matches('"').to_owned()
}

fn file_system(path: &Path) -> String {
    let text = printed(Command::new("df").arg("--output=fstype").arg(path));
    text.lines().last().unwrap_or_default().to_owned()
}

fn printed(command: &mut Command) -> String {
    let text = finish(command).unwrap_or_else(String::into_bytes);
    String::from_utf8_lossy(&text).trim().to_owned()
}
