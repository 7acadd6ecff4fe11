// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What stays behind when ranks do not end by themselves.
//!
//! Launchers put ranks into groups and sessions of their own, and killing one ends
//! no others. Every process that comes from a run has its mark in the environment it was
//! started with, no matter who its parent is now.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use rustix::process::{Pid, Signal, geteuid, kill_process};

/// How long to look for processes that go on starting others.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// Where shared memory has names.
const SHARED: &str = "/dev/shm";

/// How libraries name theirs.
const NAMES: [&str; 10] = [
    "Intel_MPI_",
    "mpich_",
    "osc_rdma",
    "psm2_",
    "sm_segment.",
    "smsc_",
    "ucx_",
    "vader_segment.",
    "xpmem_",
    "fi_shm_",
];

/// Ends all processes whose mark begins so; returns how many.
pub(super) fn end_marked(mark: &str) -> usize {
    let end = Instant::now() + TIME_LIMIT;
    let mut ended = 0;
    loop {
        let marked = marked(mark);
        for pid in &marked {
            // Gone in the meantime is as good.
            let _ = kill_process(*pid, Signal::KILL);
        }
        ended = ended.max(marked.len());
        if marked.is_empty() || Instant::now() >= end {
            return ended;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The processes whose mark begins so, those not yet reaped excepted.
pub(super) fn marked(mark: &str) -> Vec<Pid> {
    let carries = |directory: &Path| {
        fs::read(directory.join("environ")).is_ok_and(|all| {
            all.split(|byte| *byte == 0).any(|one| one.starts_with(mark.as_bytes()))
        })
    };
    let processes = processes().into_iter();
    processes.filter(|(_, directory)| carries(directory)).map(|(pid, _)| pid).collect()
}

fn processes() -> Vec<(Pid, PathBuf)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let number = entry.file_name().to_str()?.parse().ok()?;
            Some((Pid::from_raw(number)?, entry.path()))
        })
        .collect()
}

/// What a process has in its memory, as text with paths in it, and the files it has open.
fn used_by(process: &Path) -> Vec<Vec<u8>> {
    let open = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    let open = open.filter_map(|entry| fs::read_link(entry.path()).ok());
    let open = open.map(|path| path.into_os_string().into_encoded_bytes());
    fs::read(process.join("maps")).into_iter().chain(open).collect()
}

/// Numbers of a process and of its parts: `14503:0:0`.
fn is_of_libfabric(name: &[u8]) -> bool {
    let numbers: Vec<_> = name.split(|byte| *byte == b':').collect();
    let is_number = |part: &&[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    numbers.len() == 3 && numbers.iter().all(is_number)
}

/// Removes shared memory of libraries that is the caller's, was made since then, and that
/// no process of the caller's uses.
pub(super) fn remove_shared_memory(since: SystemTime) {
    let me = geteuid().as_raw();
    let candidates: Vec<_> = fs::read_dir(SHARED)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| {
            let name = entry.file_name();
            let is_known = NAMES.iter().any(|known| name.as_bytes().starts_with(known.as_bytes()));
            let is_known = is_known || is_of_libfabric(name.as_bytes());
            let is_mine = entry.metadata().is_ok_and(|data| {
                data.is_file()
                    && data.uid() == me
                    && data.modified().is_ok_and(|time| time >= since)
            });
            is_known && is_mine
        })
        .map(|entry| entry.path())
        .collect();
    if candidates.is_empty() {
        return;
    }
    let used: Vec<_> = processes().iter().flat_map(|(_, one)| used_by(one)).collect();
    for path in candidates {
        let name = path.as_os_str().as_bytes();
        let is_used = used.iter().any(|maps| maps.windows(name.len()).any(|part| part == name));
        if !is_used {
            // Whatever cannot be removed is no reason to stop.
            let _ = fs::remove_file(path);
        }
    }
}
