// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From an archive to an image: `mksquashfs`, which reads what is written here.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread::JoinHandle;

use crate::{Error, program::check_program};

const BUFFER: usize = 1024 * 1024;
/// What the program may have for what it has read and not yet written: without this it is a
/// quarter of the machine's where the disk is slow.
const MEMORY: &str = "256M";
/// The level of zstd: 15 and above take twenty times as long for a seventh less.
const LEVEL: &str = "3";
/// Nobody reads more of what a program says.
const MOST_SAID: u64 = 64 * 1024;

/// An image that is being written. When it is dropped, nothing is left of it.
pub(crate) struct Squash {
    child: Child,
    said: Option<JoinHandle<String>>,
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
    ) -> Result<(Self, Input), Error> {
        check_program(mksquashfs)?;
        let mut command = Command::new(mksquashfs);
        command
            .arg("-")
            .arg(output)
            .args(["-tar", "-noappend", "-no-xattrs", "-all-root"])
            .args(["-comp", "zstd", "-Xcompression-level", LEVEL])
            .args(["-b", "131072", "-mkfs-time", "0", "-root-time", "0"])
            .args(["-root-mode", "0755", "-root-uid", "0", "-root-gid", "0"])
            // Their table is not compressed, so that the root in it can be given a time.
            .args([
                "-noI",
                "-no-progress",
                "-quiet",
                "-mem",
                MEMORY,
                "-processors",
            ])
            .arg(jobs.max(1).to_string())
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|_| Error::NoProgram)?;
        let said = child.stderr.take().map(|stderr| {
            std::thread::spawn(move || {
                let mut said = Vec::new();
                let mut stderr = stderr;
                let _ = (&mut stderr).take(MOST_SAID).read_to_end(&mut said);
                let _ = io::copy(&mut stderr, &mut io::sink());
                String::from_utf8_lossy(&said).into_owned()
            })
        });
        let input = child.stdin.take().ok_or(Error::NoProgram)?;
        let _ = rustix::pipe::fcntl_setpipe_size(&input, BUFFER);
        let squash = Self {
            child,
            said,
            output: output.to_owned(),
            is_done: false,
        };
        Ok((squash, BufWriter::with_capacity(BUFFER, input)))
    }

    /// Waits until the image is whole: `inodes` files and directories must be in it.
    ///
    /// The program leaves things out, says so, and calls it a success; so whatever it says is
    /// an error.
    pub(crate) fn finish(mut self, input: Input, inodes: u64) -> Result<(), Error> {
        let closed = input.into_inner().map_err(io::IntoInnerError::into_error);
        let closed = closed.and_then(|mut input| input.flush());
        self.settle(closed)?;
        let packed = inodes_of(&self.output).map_err(Error::io("read", &self.output))?;
        if packed != inodes {
            return Err(Error::Lost {
                counted: inodes,
                packed,
            });
        }
        settle_root(&self.output).map_err(Error::io("finish", &self.output))?;
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
        let status = self
            .child
            .wait()
            .map_err(Error::io("write", &self.output))?;
        let said = self.said.take().and_then(|said| said.join().ok());
        let said = said.unwrap_or_default();
        if said.contains("No space left on device") || said.contains("Disk quota exceeded") {
            return Err(Error::NoSpace {
                path: self.output.clone(),
            });
        }
        let first = said.lines().map(str::trim).find(|line| !line.is_empty());
        if let (true, None) = (status.success(), first) {
            return outcome.map_err(Error::io("write", &self.output));
        }
        let said = first.map_or_else(|| status.to_string(), str::to_owned);
        Err(Error::Program {
            program: "mksquashfs",
            said: cabane_label::escape(&said).to_string(),
        })
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

fn inodes_of(image: &Path) -> io::Result<u64> {
    let mut head = [0; 8];
    File::open(image)?.read_exact_at(&mut head, 0)?;
    let [_, _, _, _, count @ ..] = head;
    Ok(u32::from_le_bytes(count).into())
}

/// Gives the root of an image the time 0. Version 4.5 of the program takes the present one
/// whatever it is told, and then no two images of one container image are equal.
///
/// ```text
/// superblock     32  where the root is: the block in the table, and the place in the block
///                64  where the table is
/// block           0  its length, and whether it is not compressed
/// inode           8  the time
/// ```
fn settle_root(image: &Path) -> io::Result<()> {
    let file = File::options().read(true).write(true).open(image)?;
    let number = |place: u64| {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, place)?;
        Ok::<_, io::Error>(u64::from_le_bytes(bytes))
    };
    let (root, table) = (number(32)?, number(64)?);
    let block = table.saturating_add(root >> 16);
    let is_plain = number(block)? & 0x8000 != 0;
    let place = block.saturating_add(2 + (root & 0xffff));
    // A block is 8 KiB long, and an inode may go over its end.
    if is_plain && root & 0xffff <= 8192 - 12 {
        file.write_all_at(&[0; 4], place + 8)?;
    }
    Ok(())
}
