// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Processes, found by what they were started with: their numbers may be those of another
//! namespace.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use crate::time_limit;

/// Whether a process runs whose arguments, joined by spaces, contains a
/// text. One that has ended and was not waited for does not.
pub fn is_running(text: &str) -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.any(|line| {
        let arguments: Vec<_> = line.split(|&byte| byte == 0).collect();
        String::from_utf8_lossy(&arguments.join(&b' ')).contains(text)
    })
}

/// Waits until [`is_running`] says so.
///
/// # Panics
///
/// If that takes longer than a minute.
pub fn wait_until(text: &str, running: bool) {
    let started = Instant::now();
    while is_running(text) != running {
        assert!(
            started.elapsed() < time_limit(Duration::from_secs(60)),
            "`{text}` {} running",
            if running { "is not" } else { "is still" }
        );
        thread::sleep(Duration::from_millis(10));
    }
}
