// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the node takes from its processes: time in which others have the
//! processors, and time in which the limit of a control group stops them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::thread::CpuSet;

use crate::benchmark::NodeType;

/// Where control groups are.
const GROUPS: &str = "/sys/fs/cgroup";
/// Where the version 1 has the limit of processor time.
const VERSION_1: [&str; 3] = ["cpu", "cpu,cpuacct", "cpuacct,cpu"];

impl NodeType {
    /// Returns the type of this node; `None` if the kernel does not say it.
    pub(crate) fn of_this_node() -> Option<Self> {
        Self::from_cpuinfo(&fs::read_to_string("/proc/cpuinfo").ok()?)
    }
}

/// Returns the processors that this process may use, whatever a control group allows it to take.
pub fn allowed_processors() -> Vec<usize> {
    let allowed = rustix::thread::sched_getaffinity(None);
    allowed.map_or_else(
        |_| Vec::new(),
        |set| (0..CpuSet::MAX_CPU).filter(|one| set.is_set(*one)).collect(),
    )
}

/// How long this thread could have run and had no processor, since it began; `None` where the
/// kernel does not say it.
pub(super) fn waited_by_this_thread() -> Option<Duration> {
    waited(&fs::read_to_string("/proc/thread-self/schedstat").ok()?)
}

/// Takes it from the text: nanoseconds that a thread ran, that it waited, and how often.
fn waited(text: &str) -> Option<Duration> {
    text.split_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

/// How long the limits of control groups have stopped the processes of this one's group, and of
/// the groups above it.
pub(super) fn throttled() -> Duration {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let files = files_of(&groups).into_iter();
    files.filter_map(|file| stopped(&fs::read_to_string(file).ok()?)).sum()
}

/// The files that may say it, from the text of `/proc/self/cgroup`.
fn files_of(groups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let roots: Vec<PathBuf> = match controllers {
            "" => vec![PathBuf::from(GROUPS), Path::new(GROUPS).join("unified")],
            all if all.split(',').any(|one| one == "cpu") => {
                VERSION_1.iter().map(|name| Path::new(GROUPS).join(name)).collect()
            }
            _ => Vec::new(),
        };
        let path = Path::new(path.trim_start_matches('/'));
        let mut here: Vec<PathBuf> = (path.ancestors())
            .flat_map(|group| roots.iter().map(move |root| root.join(group).join("cpu.stat")))
            .collect();
        files.append(&mut here);
    }
    // Version 1 has several names for one directory.
    let mut seen = BTreeSet::new();
    files.retain(|file| file.canonicalize().is_ok_and(|real| seen.insert(real)));
    files
}

/// Takes the time from the text of `cpu.stat`: microseconds in version 2, nanoseconds in 1.
fn stopped(text: &str) -> Option<Duration> {
    let mut fields = text.lines().filter_map(|line| line.split_once(' '));
    fields.find_map(|(name, value)| match (name, value.trim().parse()) {
        ("throttled_usec", Ok(time)) => Some(Duration::from_micros(time)),
        ("throttled_time", Ok(time)) => Some(Duration::from_nanos(time)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_of_control_groups_say_how_long_they_stopped_processes() {
        let second = "usage_usec 9\nnr_periods 41\nnr_throttled 12\nthrottled_usec 730518\n";
        let first = "nr_periods 41\nnr_throttled 12\nthrottled_time 730518000\n";
        let expected = Some(Duration::from_micros(730_518));
        assert_eq!([second, first].map(stopped), [expected; 2]);
        assert_eq!(stopped("usage_usec 9\n"), None);
    }

    #[test]
    fn a_thread_says_how_long_it_waited() {
        assert_eq!(waited("117084 1401393 2\n"), Some(Duration::from_nanos(1_401_393)));
        assert_eq!(waited(""), None);
    }
}
