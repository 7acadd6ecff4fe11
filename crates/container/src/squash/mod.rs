// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From content to an image: `mksquashfs` compresses what is written here, and the names are
//! written behind it.
//!
//! ```text
//! files ─▶ pool ─▶ archive ─▶ mksquashfs ─▶ content │ inodes of members
//!                                                   └──────┬───────────
//! tree ─────────────────────────────────────────▶ inodes, names, fragments
//! ```

mod data;
mod image;
mod inode;
mod listing;
mod pool;
mod table;

pub(crate) use image::{Contents, mode_of};
pub(crate) use pool::{Place, Pool};

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread::JoinHandle;

use cabane_label::{escape, shown};

use crate::Error;
use crate::error::failure;

const BUFFER: usize = 1024 * 1024;
/// What the program may have for what it has read and not yet written: without this it is a
/// quarter of the machine's where the disk is slow.
const MEMORY: &str = "256M";
/// The level of zstd: 15 and above take twenty times as long for a seventh less.
const LEVEL: &str = "3";
/// The largest output of a program that is kept.
const MAX_MESSAGES: u64 = 64 * 1024;

/// The first that reads archives.
const OLDEST: (u32, u32) = (4, 5);
const OLDEST_TEXT: &str = "4.5";

/// An image that is being written. When it is dropped, nothing is left of it.
pub(crate) struct Squash {
    child: Child,
    message: Option<JoinHandle<String>>,
    output: PathBuf,
    is_done: bool,
}

/// The way into the program.
pub(crate) type Input = BufWriter<ChildStdin>;

impl Squash {
    /// Starts the program, with so many threads.
    pub(crate) fn start(
        mksquashfs: &Path,
        output: &Path,
        jobs: usize,
    ) -> Result<(Self, Pool), Error> {
        check_program(mksquashfs)?;
        let mut command = Command::new(mksquashfs);
        command
            .arg("-")
            .arg(output)
            .args(["-tar", "-noappend", "-no-xattrs", "-all-root"])
            .args(["-comp", "zstd", "-Xcompression-level", LEVEL])
            .args(["-b", &pool::BLOCK.to_string(), "-mkfs-time", "0"])
            // Packs are the fragments; and the table of inodes is read here.
            .args(["-no-fragments", "-noI", "-no-progress", "-quiet"])
            .args(["-mem", MEMORY, "-processors"])
            .arg(jobs.max(1).to_string())
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|_| Error::no_program())?;
        let message = child.stderr.take().map(|stderr| {
            std::thread::spawn(move || {
                let mut message = Vec::new();
                let mut stderr = stderr;
                let _ = (&mut stderr).take(MAX_MESSAGES).read_to_end(&mut message);
                let _ = io::copy(&mut stderr, &mut io::sink());
                String::from_utf8_lossy(&message).into_owned()
            })
        });
        let input = child.stdin.take().ok_or_else(Error::no_program)?;
        let _ = rustix::pipe::fcntl_setpipe_size(&input, BUFFER);
        let squash = Self { child, message, output: output.to_owned(), is_done: false };
        Ok((squash, Pool::new(BufWriter::with_capacity(BUFFER, input))))
    }

    /// Waits until all content is in the image, and writes the names.
    ///
    /// The program leaves things out, says so, and calls it a success; so whatever it says is
    /// an error.
    pub(crate) fn finish(mut self, pool: Pool, contents: Contents<'_>) -> Result<(), Error> {
        let archived = match pool.finish() {
            Ok(archived) => archived,
            Err(error) => return Err(self.blamed_for(not_written(error))),
        };
        let closed = archived.input.into_inner();
        let closed = closed.map_err(io::IntoInnerError::into_error);
        self.settle(closed.and_then(|mut input| input.flush()))?;
        let options = File::options().read(true).write(true).open(&self.output);
        let mut image = options.map_err(Error::io("write", &self.output))?;
        let written = data::Superblock::read(&image).and_then(|head| {
            let data = data::read(&image, &head, archived.members)?;
            image::write(&mut image, head, contents, &data, &archived.packs)
        });
        written.map_err(Error::io("write", &self.output))?;
        self.is_done = true;
        Ok(())
    }

    /// Tells what is behind an error: if the program does not read on, it says why.
    pub(crate) fn blamed_for(mut self, error: Error) -> Error {
        match error {
            Error::Io { source, .. } if source.kind() == io::ErrorKind::BrokenPipe => {
                self.settle(Err(source)).err().unwrap_or(Error::Interrupted)
            }
            error => error,
        }
    }

    /// Tells what is wrong when the program does not read on.
    fn settle(&mut self, outcome: io::Result<()>) -> Result<(), Error> {
        let status = self.child.wait().map_err(Error::io("write", &self.output))?;
        let message = self.message.take().and_then(|message| message.join().ok());
        let message = message.unwrap_or_default();
        if message.contains("No space left on device") || message.contains("Disk quota exceeded") {
            return Err(Error::no_space(&self.output));
        }
        let first = message.lines().map(str::trim).find(|line| !line.is_empty());
        if let (true, None) = (status.success(), first) {
            return outcome.map_err(Error::io("write", &self.output));
        }
        let message = first.map_or_else(|| status.to_string(), str::to_owned);
        Err(Error::program("mksquashfs", &message))
    }
}

impl Drop for Squash {
    fn drop(&mut self) {
        if !self.is_done {
            let _ = self.child.kill();
            let _ = self.child.wait();
            let _ = std::fs::remove_file(&self.output);
        }
    }
}

pub(crate) fn not_written(error: io::Error) -> Error {
    Error::io("write to", "mksquashfs")(error)
}

/// Finds out whether the `mksquashfs` at a path can write images of what is imported.
///
/// # Errors
///
/// It cannot be run, or is too old to read archives.
pub fn check_program(mksquashfs: &Path) -> Result<(), Error> {
    let mut command = Command::new(mksquashfs);
    let output = command.arg("-version").env_clear().stdin(Stdio::null()).output();
    let output = output.map_err(|_| Error::no_program())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text
        .split_whitespace()
        .find(|part| part.starts_with(|c: char| c.is_ascii_digit()))
        .unwrap_or("unknown");
    let mut numbers = version
        .split(|c: char| !c.is_ascii_digit())
        .map(|number| number.parse().unwrap_or_default());
    let found: (u32, u32) =
        (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    if found >= OLDEST {
        return Ok(());
    }
    let (path, version) = (shown(mksquashfs), escape(version));
    let report = failure(format!("{path} is version {version}, and {OLDEST_TEXT} is needed"));
    let hint = "squashfs-tools 4.5 or newer read archives; `PATH` decides which is used";
    Err(Error::Refused(report.hinted(hint.to_owned())))
}
