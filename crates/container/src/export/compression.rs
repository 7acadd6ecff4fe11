// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! How layers are compressed, and what comes of it.

use std::fmt;
use std::io::{self, Read, Write};
use std::path::Path;
use std::str::FromStr;

use cabane_label::{Digest, escape};

use super::gzip::gzip;
use super::zstd::zstd;

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
            text => Err(CompressionError { text: text.to_owned() }),
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
    /// The program that compresses, with its own message.
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

/// Compresses everything that can be read. `go_on` gets the number of bytes read so far.
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

#[cfg(test)]
mod tests {
    use std::io::{self, Read, Write};
    use std::path::Path;

    use super::*;
    use crate::decompress::Decompressed;
    use crate::digest;
    use crate::export::gzip::PIECE;

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
        assert!(
            matches!(&failure, Err(Failure::Program(message)) if message.contains("exit status: 1"))
        );
    }
}
