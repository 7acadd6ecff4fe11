// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Compressing with the program `zstd`, which gives the same however many threads it has.

use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use cabane_label::Digest;
use sha2::{Digest as _, Sha256};

use super::compression::{Compressed, Failure};
use crate::digest::Summing;

/// As for images: higher ones take many times as long for little.
const ZSTD_LEVEL: &str = "-3";
const BUFFER: usize = 256 * 1024;

/// Lets the program compress. One thread feeds it, this one takes what it gives.
pub(super) fn zstd(
    mut source: impl Read + Send,
    program: &Path,
    jobs: usize,
    output: &mut dyn Write,
    go_on: &dyn Fn(u64) -> bool,
) -> Result<Compressed, Failure> {
    let failed = |error: io::Error| Failure::Program(error.to_string());
    let mut command = Command::new(program);
    command
        .args(["-q", "-c", ZSTD_LEVEL, &format!("-T{}", jobs.max(1))])
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(mut into), Some(mut from), Some(mut stderr)) = pipes else {
        return Err(Failure::Interrupted);
    };
    let plain = AtomicU64::new(0);
    let (read, written, messages) = thread::scope(|scope| {
        let feeder = scope.spawn(|| {
            let mut sum = Sha256::new();
            let mut buffer = vec![0; BUFFER];
            loop {
                let read = source.read(&mut buffer).map_err(Failure::Read)?;
                let bytes = buffer.get(..read).unwrap_or_default();
                if bytes.is_empty() {
                    drop(into);
                    return Ok(Digest::from_bytes(sum.finalize().into()));
                }
                sum.update(bytes);
                into.write_all(bytes).map_err(failed)?;
                plain.fetch_add(read as u64, Ordering::Relaxed);
            }
        });
        let listener = scope.spawn(move || {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text);
            text
        });
        let mut output = Summing::new(output);
        let mut take = || {
            let mut buffer = vec![0; BUFFER];
            loop {
                let read = from.read(&mut buffer).map_err(failed)?;
                let bytes = buffer.get(..read).unwrap_or_default();
                if bytes.is_empty() {
                    return Ok(());
                }
                output.write_all(bytes).map_err(Failure::Write)?;
                if !go_on(plain.load(Ordering::Relaxed)) {
                    return Err(Failure::Interrupted);
                }
            }
        };
        let taken = take();
        if taken.is_err() {
            // So that the one that feeds it ends, too.
            let _ = child.kill();
        }
        drop(from);
        let ended = || Failure::Read(io::Error::other("the thread that reads has ended"));
        let read = feeder.join().unwrap_or_else(|_| Err(ended()));
        let written = taken.and_then(|()| output.finish().map_err(Failure::Write));
        (read, written, listener.join().unwrap_or_default())
    });
    let status = child.wait().map_err(failed)?;
    let (digest, size) = written?;
    // What cannot be read is the reason for whatever comes after it.
    let diff_id = match read {
        Err(Failure::Read(error)) => return Err(Failure::Read(error)),
        read => read,
    };
    if !status.success() {
        let line = messages.lines().next().unwrap_or_default();
        return Err(Failure::Program(format!("{line} ({status})")));
    }
    Ok(Compressed { diff_id: diff_id?, digest, size })
}
