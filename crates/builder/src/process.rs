// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Waiting for a program: its output, its end, and the wish to stop it.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};

use cabane_label::escape;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};

/// How often the log and the interrupt flag are checked.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// How many lines of a log tell what went wrong.
const TAIL_LINES: usize = 20;
/// The reasons of Spack's solver can take a megabyte, and the first ones count.
const TAIL_BYTES: u64 = 8 << 20;
/// How Spack begins to say what is wrong. Its reasons may go on for hundreds of lines,
/// and the first ones are those that matter.
const ERROR: &str = "==> Error:";
const LONGEST_LINE: usize = 1000;

/// Waits for the end of a program and shows the lines it writes into its log.
/// `None` if it was stopped. Nothing that it started in its group outlives it, and if
/// it was stopped, nothing at all: Spack gives every package a group of its own.
pub(crate) fn wait(
    child: &mut Child,
    log: &mut Follower,
    show: &mut dyn FnMut(&[String]),
    interrupt: &AtomicBool,
) -> io::Result<Option<ExitStatus>> {
    let group = Pid::from_child(child);
    let outcome = watch(group, log, show, interrupt);
    if !matches!(outcome, Ok(true)) {
        kill_tree(group);
    }
    // The leader is not reaped yet, so that the number still names this group.
    let _ = kill_process_group(group, Signal::KILL);
    let status = child.wait()?;
    Ok(outcome?.then_some(status))
}

/// Ends a program, and all that it started, unless its end has been waited for.
pub(crate) fn end(child: &mut Child) {
    if matches!(child.try_wait(), Ok(None)) {
        let group = Pid::from_child(child);
        kill_tree(group);
        let _ = kill_process_group(group, Signal::KILL);
        let _ = child.wait();
    }
}

/// Ends all processes below one that still runs. A stopped process starts no others, so
/// that all are found before the first one dies and hides the others.
fn kill_tree(root: Pid) {
    let stop = |process: &Pid| {
        let _ = kill_process(*process, Signal::STOP);
    };
    stop(&root);
    let mut found = Vec::new();
    loop {
        let known = found.len();
        let parents: Vec<Pid> = std::iter::once(root).chain(found.iter().copied()).collect();
        for child in parents.into_iter().flat_map(children) {
            if !found.contains(&child) {
                stop(&child);
                found.push(child);
            }
        }
        if found.len() == known {
            break;
        }
    }
    for process in found {
        let _ = kill_process(process, Signal::KILL);
    }
}

/// Asks for the children of all threads of a process; none where the kernel does not
/// tell (`CONFIG_PROC_CHILDREN`).
fn children(process: Pid) -> Vec<Pid> {
    let threads = format!("/proc/{}/task", process.as_raw_nonzero());
    let threads = fs::read_dir(threads).into_iter().flatten().flatten();
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let read = |list: String| -> Vec<Pid> {
        let numbers = list.split_whitespace().filter_map(|number| number.parse().ok());
        numbers.filter_map(Pid::from_raw).collect()
    };
    lists.flat_map(read).collect()
}

/// Returns whether the program ended by itself.
fn watch(
    program: Pid,
    log: &mut Follower,
    show: &mut dyn FnMut(&[String]),
    interrupt: &AtomicBool,
) -> io::Result<bool> {
    let handle = pidfd_open(program, PidfdFlags::empty())?;
    loop {
        let mut wanted = [PollFd::new(&handle, PollFlags::IN)];
        let ended = match poll(&mut wanted, Some(&TICK)) {
            Ok(count) => count > 0,
            Err(Errno::INTR) => false,
            Err(errno) => return Err(errno.into()),
        };
        show(&log.news());
        if ended {
            return Ok(true);
        }
        if interrupt.load(Ordering::Relaxed) {
            return Ok(false);
        }
    }
}

/// Reads a log while it is written.
#[derive(Debug)]
pub(crate) struct Follower {
    log: File,
    rest: Vec<u8>,
}

impl Follower {
    /// Follows a log from its present end.
    pub(crate) fn new(path: &Path) -> io::Result<Self> {
        let mut log = File::open(path)?;
        log.seek(SeekFrom::End(0))?;
        Ok(Self { log, rest: Vec::new() })
    }

    /// Returns the lines that were written since the last call, safe to show.
    fn news(&mut self) -> Vec<String> {
        // What cannot be read now is not worth stopping for: it only decorates.
        let _ = self.log.read_to_end(&mut self.rest);
        let Some(end) = self.rest.iter().rposition(|&byte| byte == b'\n') else {
            return Vec::new();
        };
        let rest = self.rest.split_off(end + 1);
        let written = std::mem::replace(&mut self.rest, rest);
        lines(&written)
    }
}

/// Returns the lines of a log that tell what went wrong, safe to show: the last ones, or
/// where they are many more, those where the last error begins.
pub(crate) fn tail(path: &Path) -> Vec<String> {
    let read = || -> io::Result<Vec<u8>> {
        let mut log = File::open(path)?;
        let start = log.metadata()?.len().saturating_sub(TAIL_BYTES);
        log.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        log.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    telling(lines(&read().unwrap_or_default()))
}

fn telling(lines: Vec<String>) -> Vec<String> {
    let mut lines = without_tracebacks(lines);
    let last = lines.len().saturating_sub(TAIL_LINES);
    let error = lines.iter().rposition(|line| line.starts_with(ERROR));
    let Some(start) = error.filter(|start| *start < last) else {
        return lines.split_off(last);
    };
    let mut tail = lines.split_off(start);
    tail.truncate(TAIL_LINES);
    tail.push("…".to_owned());
    tail
}

/// Leaves out where a Python program was when it failed; what it failed with stays, and the place
/// of a mistake in the text of a Python file.
fn without_tracebacks(lines: Vec<String>) -> Vec<String> {
    let mut is_within = false;
    let mut place = None;
    let mut kept = Vec::with_capacity(lines.len());
    for line in lines {
        let text = line.trim_start();
        let begins = text.starts_with("Traceback (most recent call last)")
            || text.starts_with("During handling of the above exception")
            || text.starts_with("The above exception was the direct cause");
        let is_frame = text.starts_with("File \"") && text.contains(", line ");
        is_within = begins || is_frame || is_within && line.starts_with(' ');
        if is_frame {
            place = place_of_mistake(text);
        }
        if !is_within {
            let is_mistake = MISTAKES.iter().any(|name| text.starts_with(name));
            let place = place.take().filter(|_| is_mistake);
            kept.push(place.map_or(line.clone(), |place| format!("{place}: {line}")));
        }
    }
    kept
}

/// The packages of a recipe in the image. They are below `repo/` in the recipe.
const RECIPE_REPOSITORY: &str = "/repos/spack_repo/recipe/";

/// What Python calls a mistake in the text of a file.
const MISTAKES: [&str; 3] = ["SyntaxError:", "IndentationError:", "TabError:"];

/// Reads a line such as `File "/x/package.py", line 3`. In other lines of a traceback, the name
/// of a function follows. A package of the recipe has its path in the recipe.
fn place_of_mistake(text: &str) -> Option<String> {
    let (path, number) = text.strip_prefix("File \"")?.split_once("\", line ")?;
    number.parse::<u32>().ok()?;
    let of_recipe = path.split_once(RECIPE_REPOSITORY);
    let path = of_recipe.map_or_else(|| path.to_owned(), |(_, rest)| format!("repo/{rest}"));
    Some(format!("{path}:{number}"))
}

/// Splits what a program wrote into lines as a terminal would show them: of a line
/// that was written over and over, the last state. Empty ones are left out.
pub(crate) fn lines(bytes: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(bytes)
        .lines()
        .filter_map(|line| line.rsplit('\r').find(|state| !state.trim().is_empty()))
        .map(|line| {
            let line = line.trim_end().replace('\t', "    ");
            let line: String = line.chars().take(LONGEST_LINE).collect();
            escape(&line).into_owned()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_progress_bar_the_last_state_remains() {
        assert_eq!(lines(b"10 %\r20 %\r\ndone\n"), ["20 %", "done"]);
    }

    #[test]
    fn of_an_error_that_goes_on_and_on_its_beginning_is_shown() {
        let mut log = vec!["==> Error: no version".to_owned()];
        log.extend((0..100).map(|number| format!("because of {number}")));
        let tail = telling(log);
        assert_eq!(tail.first().map(String::as_str), Some("==> Error: no version"));
        assert_eq!(tail.len(), TAIL_LINES + 1);
    }

    #[test]
    fn a_megabyte_of_reasons_does_not_hide_the_first_one() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        let reason = "    required because of another package\n".repeat(30_000);
        fs::write(&log, format!("==> Error: no version\n    1. the first\n{reason}")).unwrap();
        assert_eq!(tail(&log)[..2], ["==> Error: no version", "    1. the first"]);
    }

    #[test]
    fn without_an_error_the_last_lines_are_shown() {
        let tail = telling((0..100).map(|number| number.to_string()).collect());
        assert_eq!(tail.last().map(String::as_str), Some("99"));
        assert_eq!(tail.len(), TAIL_LINES);
    }

    #[test]
    fn of_a_traceback_only_its_error_is_shown() {
        let log = [
            "==> Error: cannot fetch",
            "Traceback (most recent call last):",
            "  File \"/spack/a.py\", line 3, in fetch",
            "    raise Wrong(x)",
            "spack.error.Wrong: no such file",
            "During handling of the above exception, another exception occurred:",
            "Traceback (most recent call last):",
            "  File \"/spack/b.py\", line 4, in main",
            "    fetch()",
            "    ^^^^^^^",
            "KeyError: 'b'",
            "  the end",
        ];
        let kept = telling(log.map(str::to_owned).to_vec());
        let expected = [
            "==> Error: cannot fetch",
            "spack.error.Wrong: no such file",
            "KeyError: 'b'",
            "  the end",
        ];
        assert_eq!(kept, expected);
    }

    #[test]
    fn the_place_of_a_mistake_in_a_package_of_the_recipe_stays() {
        let log = [
            "Traceback (most recent call last):",
            "  File \"/spack/repo.py\", line 9, in load",
            "    load(x)",
            "  File \"/user-tools/repos/spack_repo/recipe/packages/x/package.py\", line 7",
            "    version(\"1.0\"",
            "           ^",
            "SyntaxError: '(' was never closed",
            "  File \"/spack/other.py\", line 4",
            "IndentationError: unexpected indent",
            "  File \"/spack/other.py\", line 5, in main",
            "SyntaxError: raised by hand",
        ];
        let expected = [
            "repo/packages/x/package.py:7: SyntaxError: '(' was never closed",
            "/spack/other.py:4: IndentationError: unexpected indent",
            "SyntaxError: raised by hand",
        ];
        assert_eq!(telling(log.map(str::to_owned).to_vec()), expected);
    }

    #[test]
    fn a_tab_in_a_log_is_space() {
        assert_eq!(lines(b"\tgit config\n"), ["    git config"]);
    }

    #[test]
    fn colours_in_a_log_are_shown_and_not_obeyed() {
        assert_eq!(lines(b"\x1b[31mred\n"), ["\\u{1b}[31mred"]);
    }
}
