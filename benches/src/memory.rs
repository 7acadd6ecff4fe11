// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! How much memory a command has at most.
//!
//! The kernel keeps a high-water mark for each process (`VmHWM` of `proc(5)`), which is read
//! again and again until the command ends. What `wait4` tells would begin with the size of
//! this process: it is passed on by `posix_spawn`.

use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use crate::measure::NotMeasured;

const BEAT: Duration = Duration::from_millis(5);

/// Runs a command to its end and returns the mark of the largest of its processes, in KiB.
pub(crate) fn peak_of(command: &mut Command) -> Result<u64, NotMeasured> {
    let failed = |error: std::io::Error| error.to_string();
    let mut child = command.spawn().map_err(failed)?;
    let mut peak = 0;
    loop {
        peak = peak.max(largest(child.id()));
        match child.try_wait().map_err(failed)? {
            None => sleep(BEAT),
            Some(status) if status.success() => return Ok(peak),
            Some(status) => return Err(status.to_string()),
        }
    }
}

/// Returns the mark of the largest of a process and those below it; none for what has ended.
fn largest(process: u32) -> u64 {
    let directory = format!("/proc/{process}");
    let status = fs::read_to_string(format!("{directory}/status")).unwrap_or_default();
    let tasks = fs::read_dir(format!("{directory}/task"));
    let children = tasks.into_iter().flatten().flatten().flat_map(|task| {
        let text = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        let numbers = text.split_whitespace().map(str::parse::<u32>);
        numbers.filter_map(Result::ok).collect::<Vec<_>>()
    });
    let marks = children.map(largest).chain(high_water(&status));
    marks.max().unwrap_or_default()
}

fn high_water(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_is_that_of_the_largest_process() {
        let script = "/bin/sh -c 'a=$(head -c 40000000 /dev/zero | tr \"\\0\" x); sleep 0.1'; true";
        let peak = peak_of(Command::new("/bin/sh").args(["-c", script])).unwrap();
        assert!(peak > 40_000, "{peak} KiB");
    }

    #[test]
    fn the_mark_is_found_among_the_other_lines() {
        let status = "Name:\tsh\nVmPeak:\t 9 kB\nVmHWM:\t    1234 kB\nVmRSS:\t 7 kB\n";
        assert_eq!(high_water(status), Some(1234));
    }
}
