// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a package is compressed with, as its first bytes show.

use std::io::{self, BufRead, Read};

use super::ArchiveError;

/// What the decompressor of xz may keep in memory, in KiB.
const XZ_MEMORY: u32 = 1 << 20;

/// Returns the decompressed bytes, at most as many.
pub(super) fn decoder<'r>(
    mut compressed: impl BufRead + 'r,
    limit: u64,
) -> Result<Box<dyn Read + 'r>, ArchiveError> {
    let start = compressed.fill_buf()?;
    let decoder: Box<dyn Read + 'r> = match start {
        [0x1f, 0x8b, ..] => Box::new(flate2::bufread::MultiGzDecoder::new(compressed)),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => {
            Box::new(lzma_rust2::XzReader::new_mem_limit(compressed, true, XZ_MEMORY))
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(Zstd::new(compressed)?),
        [b'B', b'Z', b'h', ..] => {
            return Err(ArchiveError::Unknown("it is compressed with bzip2"));
        }
        [0x5d, 0, 0, ..] => {
            return Err(ArchiveError::Unknown("it is compressed with the old lzma"));
        }
        _ => Box::new(compressed),
    };
    // The archive in it ends before this, or it is refused for its size.
    Ok(Box::new(decoder.take(limit.saturating_add(limit / 8).saturating_add(1 << 20))))
}

/// Frames of zstd, one after the other: several threads write several.
struct Zstd<R: BufRead> {
    frame: Option<ruzstd::decoding::StreamingDecoder<R, ruzstd::decoding::FrameDecoder>>,
}

impl<R: BufRead> Zstd<R> {
    fn new(compressed: R) -> io::Result<Self> {
        let frame =
            ruzstd::decoding::StreamingDecoder::new(compressed).map_err(io::Error::other)?;
        Ok(Self { frame: Some(frame) })
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let Some(frame) = &mut self.frame else {
                return Ok(0);
            };
            let read = frame.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            let Some(frame) = self.frame.take() else {
                return Ok(0);
            };
            let mut rest = frame.into_inner();
            if rest.fill_buf()?.is_empty() {
                return Ok(0);
            }
            *self = Self::new(rest)?;
        }
    }
}
