// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Compressing a layer by several threads at once.
//!
//! For gzip, what comes is cut into pieces of one size, each of which is compressed by itself,
//! and which become one member, as every reader knows it. So the result is the same however
//! many threads there are. For zstd the program of that name is used, which does the same.

use std::fmt;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use cabane_label::{Digest, escape};
use flate2::{Compress, Crc, FlushCompress};
use sha2::{Digest as _, Sha256};

/// The size of a piece before it is compressed: the larger, the fewer repetitions are missed
/// at its beginning.
const PIECE: usize = 2 * 1024 * 1024;
/// A header without a name and a time, from an unknown system.
const GZIP_HEADER: &[u8] = &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
/// A last block of nothing.
const GZIP_END: &[u8] = &[3, 0];
/// As for images: higher ones take many times as long for little.
const ZSTD_LEVEL: &str = "-3";
const BUFFER: usize = 256 * 1024;
/// What `gzip` takes if nothing is said.
const GZIP_LEVEL: flate2::Compression = flate2::Compression::new(6);

/// How layers are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// What everything reads.
    #[default]
    Gzip,
    /// Faster and smaller. Takes the program `zstd`, and a newer runtime: Docker reads it
    /// since 23.
    Zstd,
}

/// A text that names no compression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a compression of layers: gzip and zstd are", escape(.text))]
pub struct CompressionError {
    text: String,
}

impl FromStr for Compression {
    type Err = CompressionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "gzip" => Ok(Self::Gzip),
            "zstd" => Ok(Self::Zstd),
            text => Err(CompressionError {
                text: text.to_owned(),
            }),
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        })
    }
}

/// What was compressed.
#[derive(Debug)]
pub(super) struct Compressed {
    /// The digest of what came.
    pub(super) diff_id: Digest,
    /// The digest of what was written.
    pub(super) digest: Digest,
    /// How many bytes were written.
    pub(super) size: u64,
}

/// Why it was not.
#[derive(Debug)]
pub(super) enum Failure {
    Read(io::Error),
    Write(io::Error),
    /// The program that compresses, in its own words.
    Program(String),
    Interrupted,
}

/// What compresses.
#[derive(Clone, Copy, Debug)]
pub(super) enum Method<'a> {
    Gzip,
    /// The program.
    Zstd(&'a Path),
}

/// A piece, compressed.
struct Piece {
    bytes: Vec<u8>,
    plain: u64,
    crc: Crc,
}

/// A piece to be compressed, and where it goes then.
type Order = (Vec<u8>, SyncSender<Piece>);

/// Compresses everything that can be read. `go_on` is told how many bytes have come.
pub(super) fn compress(
    source: impl Read + Send,
    method: Method<'_>,
    jobs: usize,
    output: &mut dyn Write,
    go_on: &dyn Fn(u64) -> bool,
) -> Result<Compressed, Failure> {
    match method {
        Method::Gzip => gzip(source, jobs, output, go_on),
        Method::Zstd(program) => zstd(source, program, jobs, output, go_on),
    }
}

/// Lets the program compress. One thread feeds it, this one takes what it gives.
fn zstd(
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
    let (Some(mut into), Some(mut from), Some(mut said)) = pipes else {
        return Err(Failure::Interrupted);
    };
    let plain = AtomicU64::new(0);
    let (read, written, said) = thread::scope(|scope| {
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
            let _ = said.read_to_string(&mut text);
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
        let line = said.lines().next().unwrap_or_default();
        return Err(Failure::Program(format!("{line} ({status})")));
    }
    Ok(Compressed {
        diff_id: diff_id?,
        digest,
        size,
    })
}

fn gzip(
    source: impl Read + Send,
    jobs: usize,
    output: &mut dyn Write,
    go_on: &dyn Fn(u64) -> bool,
) -> Result<Compressed, Failure> {
    let jobs = jobs.max(1);
    let (orders, work) = sync_channel::<Order>(jobs);
    let (turns, in_order) = sync_channel::<Receiver<Piece>>(2 * jobs);
    let work = Mutex::new(work);
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let order = work.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok((plain, place)) = order else { return };
                    // Whoever waited for it may have given up.
                    let _ = place.send(piece(&plain));
                }
            });
        }
        let reader = scope.spawn(move || read_all(source, &orders, &turns));
        let written = write_all(&in_order, output, go_on);
        // The reader ends when nobody takes what it has.
        drop(in_order);
        let read = reader.join();
        let (digest, size) = written?;
        let read = read.map_err(|_| io::Error::other("the thread that reads has ended"));
        let diff_id = read.and_then(|read| read).map_err(Failure::Read)?;
        Ok(Compressed {
            diff_id,
            digest,
            size,
        })
    })
}

/// Reads piece by piece, and sums; ends early where nobody wants more.
fn read_all(
    mut source: impl Read,
    orders: &SyncSender<Order>,
    turns: &SyncSender<Receiver<Piece>>,
) -> io::Result<Digest> {
    let mut sum = Sha256::new();
    loop {
        let mut plain = Vec::with_capacity(PIECE);
        (&mut source).take(PIECE as u64).read_to_end(&mut plain)?;
        if plain.is_empty() {
            break;
        }
        sum.update(&plain);
        let (place, piece) = sync_channel(1);
        if turns.send(piece).is_err() || orders.send((plain, place)).is_err() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
    }
    Ok(Digest::from_bytes(sum.finalize().into()))
}

fn write_all(
    pieces: &Receiver<Receiver<Piece>>,
    output: &mut dyn Write,
    go_on: &dyn Fn(u64) -> bool,
) -> Result<(Digest, u64), Failure> {
    let mut output = Summing::new(output);
    let (mut crc, mut plain) = (Crc::new(), 0);
    output.write_all(GZIP_HEADER).map_err(Failure::Write)?;
    for piece in pieces {
        let Ok(piece) = piece.recv() else {
            return Err(Failure::Interrupted);
        };
        output.write_all(&piece.bytes).map_err(Failure::Write)?;
        crc.combine(&piece.crc);
        plain += piece.plain;
        if !go_on(plain) {
            return Err(Failure::Interrupted);
        }
    }
    // Of the length only the lower half is written.
    let length = plain.to_le_bytes();
    let length = length.get(..4).unwrap_or_default();
    let end = [GZIP_END, &crc.sum().to_le_bytes(), length];
    output.write_all(&end.concat()).map_err(Failure::Write)?;
    let (digest, size) = output.finish().map_err(Failure::Write)?;
    Ok((digest, size))
}

fn piece(plain: &[u8]) -> Piece {
    let mut crc = Crc::new();
    crc.update(plain);
    Piece {
        bytes: deflate(plain),
        plain: plain.len() as u64,
        crc,
    }
}

/// Compresses a piece such that another one can follow.
fn deflate(plain: &[u8]) -> Vec<u8> {
    let mut compress = Compress::new(GZIP_LEVEL, false);
    // More than what cannot be compressed becomes, so that one call does it.
    let mut bytes = Vec::with_capacity(plain.len() + plain.len() / 64 + 1024);
    while compress.total_in() < plain.len() as u64 {
        let done = usize::try_from(compress.total_in()).unwrap_or(usize::MAX);
        let rest = plain.get(done..).unwrap_or_default();
        // Only calls in a wrong order are an error.
        let _ = compress.compress_vec(rest, &mut bytes, FlushCompress::Sync);
        bytes.reserve(1024);
    }
    bytes
}

/// Sums and counts what is written through it.
pub(super) struct Summing<W> {
    inner: W,
    sum: Sha256,
    count: u64,
}

impl<W: Write> Summing<W> {
    pub(super) fn new(inner: W) -> Self {
        Self {
            inner,
            sum: Sha256::new(),
            count: 0,
        }
    }

    pub(super) fn finish(mut self) -> io::Result<(Digest, u64)> {
        self.inner.flush()?;
        Ok((Digest::from_bytes(self.sum.finalize().into()), self.count))
    }
}

impl<W: Write> Write for Summing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.sum.update(bytes.get(..written).unwrap_or_default());
        self.count += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decompress::Decompressed;
    use crate::digest;

    /// Text that repeats itself, and then does not: several pieces of both.
    fn sample() -> Vec<u8> {
        let mut state = 1_u32;
        let noise = (0..PIECE + 77).map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        });
        let mut sample = b"all work and no play ".repeat(PIECE / 8);
        sample.extend(noise);
        sample
    }

    fn methods() -> [Method<'static>; 2] {
        [Method::Gzip, Method::Zstd(Path::new("zstd"))]
    }

    fn pressed(plain: &[u8], method: Method<'_>, jobs: usize) -> (Vec<u8>, Compressed) {
        let mut bytes = Vec::new();
        let compressed = compress(plain, method, jobs, &mut bytes, &|_| true).unwrap();
        (bytes, compressed)
    }

    #[test]
    fn what_was_compressed_is_read_again_and_has_its_digests() {
        for method in methods() {
            for plain in [sample(), Vec::new(), vec![7; PIECE], b"x".to_vec()] {
                let (bytes, compressed) = pressed(&plain, method, 2);
                let mut read = Vec::new();
                let mut reader = Decompressed::new(bytes.as_slice()).unwrap();
                reader.read_to_end(&mut read).unwrap();
                assert!(read == plain, "{method:?}, {} bytes", plain.len());
                assert_eq!(
                    (compressed.diff_id, compressed.digest, compressed.size),
                    (digest::of(&plain), digest::of(&bytes), bytes.len() as u64)
                );
            }
        }
    }

    #[test]
    fn the_number_of_threads_changes_nothing() {
        let plain = sample();
        for method in methods() {
            let (one, _) = pressed(&plain, method, 1);
            let (five, _) = pressed(&plain, method, 5);
            assert!(one == five, "{method:?}");
        }
    }

    #[test]
    fn a_full_disk_ends_it() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        for method in methods() {
            let endless = io::repeat(1);
            let failure = compress(endless, method, 2, &mut Full, &|_| true).unwrap_err();
            assert!(
                matches!(failure, Failure::Write(error) if error.kind() == io::ErrorKind::StorageFull)
            );
        }
    }

    #[test]
    fn what_cannot_be_read_to_its_end_is_an_error() {
        struct Cut;
        impl Read for Cut {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("torn"))
            }
        }
        for method in methods() {
            let source = io::repeat(1).take(3 * PIECE as u64).chain(Cut);
            let failure = compress(source, method, 2, &mut Vec::new(), &|_| true);
            assert!(
                matches!(&failure, Err(Failure::Read(error)) if error.to_string() == "torn"),
                "{failure:?}"
            );
        }
    }

    #[test]
    fn a_program_that_fails_says_why() {
        let failing = Method::Zstd(Path::new("/bin/false"));
        let failure = compress(io::empty(), failing, 1, &mut Vec::new(), &|_| true);
        assert!(matches!(&failure, Err(Failure::Program(said)) if said.contains("exit status: 1")));
    }
}
