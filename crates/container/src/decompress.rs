// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Layers as they come: compressed with gzip, with zstd, or not at all.
//!
//! The content says which, and not the media type, which is often wrong. Both formats may
//! come in several parts, one after the other; tools that fetch layers piece by piece write
//! them so.

use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

const BUFFER: usize = 256 * 1024;

type Source<R> = BufReader<Chain<Cursor<Vec<u8>>, R>>;

/// Reads what was compressed.
pub(crate) enum Decompressed<R: Read> {
    Plain(Source<R>),
    Gzip(Box<MultiGzDecoder<Source<R>>>),
    Zstd(Box<Zstd<R>>),
}

impl<R: Read> Decompressed<R> {
    pub(crate) fn new(mut source: R) -> io::Result<Self> {
        let mut start = Vec::new();
        (&mut source).take(4).read_to_end(&mut start)?;
        let is_skippable = matches!(start.as_slice(), [0x50..=0x5f, 0x2a, 0x4d, 0x18]);
        let magic = start.clone();
        let source = BufReader::with_capacity(BUFFER, Cursor::new(start).chain(source));
        Ok(match magic.as_slice() {
            [0x1f, 0x8b, ..] => Self::Gzip(Box::new(MultiGzDecoder::new(source))),
            [0x28, 0xb5, 0x2f, 0xfd] => Self::Zstd(Box::new(Zstd::new(source))),
            _ if is_skippable => Self::Zstd(Box::new(Zstd::new(source))),
            _ => Self::Plain(source),
        })
    }

    /// Whether what comes out is what goes in.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self, Self::Plain(_))
    }

    /// Gives access to the source.
    pub(crate) fn inner(&self) -> &R {
        let source = match self {
            Self::Plain(source) => source,
            Self::Gzip(decoder) => decoder.get_ref(),
            Self::Zstd(decoder) => &decoder.source,
        };
        source.get_ref().get_ref().1
    }

    /// Gives the source back, of which the end may not have been read.
    pub(crate) fn into_inner(self) -> R {
        let source = match self {
            Self::Plain(source) => source,
            Self::Gzip(decoder) => decoder.into_inner(),
            Self::Zstd(decoder) => decoder.source,
        };
        source.into_inner().into_inner().1
    }
}

impl<R: Read> Read for Decompressed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(source) => source.read(buffer),
            Self::Gzip(decoder) => decoder.read(buffer),
            Self::Zstd(decoder) => decoder.read(buffer),
        }
    }
}

/// Reads one frame of zstd after the other, and passes over those without content.
pub(crate) struct Zstd<R: Read> {
    source: Source<R>,
    decoder: FrameDecoder,
    is_inside: bool,
}

impl<R: Read> Zstd<R> {
    fn new(source: Source<R>) -> Self {
        Self { source, decoder: FrameDecoder::new(), is_inside: false }
    }

    /// Goes to the beginning of the next frame; `false` at the end.
    fn next_frame(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let length = u64::from(length);
                    let passed = io::copy(&mut (&mut self.source).take(length), &mut io::sink())?;
                    if passed < length {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(false)
    }
}

impl<R: Read> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.is_inside && !self.next_frame()? {
                return Ok(0);
            }
            self.is_inside = true;
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let decoded = self
                    .decoder
                    .decode_blocks(&mut self.source, BlockDecodingStrategy::UptoBlocks(1));
                decoded.map_err(io::Error::other)?;
            }
            let read = self.decoder.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            self.is_inside = !self.decoder.is_finished();
        }
    }
}
