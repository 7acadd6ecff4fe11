// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What one thread writes and another one reads.

use std::io::{self, PipeReader, PipeWriter, Read};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::layer::Bytes;

/// What is larger has to be allowed by the administrator.
const LARGEST_PIPE: usize = 1024 * 1024;

type Outcome = Arc<Mutex<Option<io::Result<()>>>>;

/// Lets a thread write into a pipe, and returns its other end. If writing fails, reading to
/// the end does.
///
/// # Errors
///
/// No pipe can be made.
pub fn streamed(
    write: impl FnOnce(PipeWriter) -> io::Result<()> + Send + 'static,
) -> io::Result<Bytes<'static>> {
    let (pipe, into) = io::pipe()?;
    // A small one only takes longer.
    let _ = rustix::pipe::fcntl_setpipe_size(&into, LARGEST_PIPE);
    let outcome = Outcome::default();
    let slot = Arc::clone(&outcome);
    // Who reads must not come to the end before the outcome is there.
    let open = into.try_clone()?;
    thread::spawn(move || {
        let written = write(into);
        if let Ok(mut slot) = slot.lock() {
            *slot = Some(written);
        }
        drop(open);
    });
    Ok(Box::new(Streamed { pipe, outcome }))
}

struct Streamed {
    pipe: PipeReader,
    outcome: Outcome,
}

impl Read for Streamed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.pipe.read(buffer)?;
        if read > 0 || buffer.is_empty() {
            return Ok(read);
        }
        let mut outcome = self.outcome.lock().map_err(|_| ended())?;
        // Anyone who reads on after the end gets the end again.
        let outcome = outcome.replace(Ok(()));
        outcome.unwrap_or_else(|| Err(ended())).map(|()| 0)
    }
}

fn ended() -> io::Error {
    io::Error::other("the writer closed")
}
