// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Files with holes: which pieces of one are written down, and how GNU tar says so.

use std::io::{self, Read};

use super::pax::number;
use super::{BLOCK, Piece, TarError};

/// More pieces no file has.
const MOST_PIECES: usize = 1 << 20;
/// The size of a piece in a header of GNU's: two numbers of twelve bytes.
const OLD: usize = 24;

/// Checks that pieces are in order and inside of the file, and that all of them together are
/// what is stored.
pub(super) fn check(pieces: &[Piece], size: u64, stored: u64) -> Result<(), TarError> {
    let mut end = 0_u64;
    let mut sum = 0_u64;
    for piece in pieces {
        let next = piece.start.checked_add(piece.length);
        let next = next.filter(|next| *next <= size && piece.start >= end);
        end = next.ok_or(TarError::Holes)?;
        sum += piece.length;
    }
    if sum == stored { Ok(()) } else { Err(TarError::Holes) }
}

/// Reads pieces in the way of GNU's header, until an empty one; `numbers` reads a field.
pub(super) fn old_pieces(
    fields: &[u8],
    into: &mut Vec<Piece>,
    numbers: impl Fn(&[u8]) -> Result<u64, TarError>,
) -> Result<(), TarError> {
    for field in fields.chunks_exact(OLD) {
        let (start, length) = field.split_at(OLD / 2);
        if start.first().is_none_or(|first| *first == 0)
            && length.first().is_none_or(|first| *first == 0)
        {
            break;
        }
        if into.len() >= MOST_PIECES {
            return Err(TarError::Holes);
        }
        into.push(Piece { start: numbers(start)?, length: numbers(length)? });
    }
    Ok(())
}

/// Reads the pieces that precede the content, as decimal lines; returns them, and how
/// many bytes they and what fills the last block took.
pub(super) fn pieces_before(
    content: &mut impl Read,
    stored: u64,
) -> Result<(Vec<Piece>, u64), TarError> {
    let mut lines = Lines { content, block: [0; BLOCK], place: BLOCK, taken: 0, limit: stored };
    let count = usize::try_from(lines.number()?).unwrap_or(usize::MAX);
    if count > MOST_PIECES {
        return Err(TarError::Holes);
    }
    let mut pieces = Vec::new();
    for _ in 0..count {
        pieces.push(Piece { start: lines.number()?, length: lines.number()? });
    }
    Ok((pieces, lines.taken))
}

struct Lines<'a, R> {
    content: &'a mut R,
    block: [u8; BLOCK],
    place: usize,
    taken: u64,
    limit: u64,
}

impl<R: Read> Lines<'_, R> {
    fn byte(&mut self) -> Result<u8, TarError> {
        if self.place >= self.block.len() {
            if self.taken + BLOCK as u64 > self.limit {
                return Err(TarError::Holes);
            }
            self.content.read_exact(&mut self.block)?;
            (self.place, self.taken) = (0, self.taken + BLOCK as u64);
        }
        let byte = self.block.get(self.place).copied().unwrap_or_default();
        self.place += 1;
        Ok(byte)
    }

    fn number(&mut self) -> Result<u64, TarError> {
        let mut digits = Vec::new();
        loop {
            match self.byte()? {
                b'\n' => return number(&digits).map_err(|_| TarError::Holes),
                byte if digits.len() < 20 => digits.push(byte),
                _ => return Err(TarError::Holes),
            }
        }
    }
}

/// Reads a file with its holes as zeros, out of its pieces one after the other.
///
/// `mksquashfs` can read pieces itself, but of some files it reads too much; and it makes holes
/// of zeros.
pub(crate) struct Unfolded<'a, R> {
    pieces: &'a [Piece],
    inner: R,
    place: u64,
    size: u64,
}

impl<'a, R: Read> Unfolded<'a, R> {
    pub(crate) fn new(pieces: &'a [Piece], inner: R, size: u64) -> Self {
        Self { pieces, inner, place: 0, size }
    }
}

impl<R: Read> Read for Unfolded<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let [first, rest @ ..] = self.pieces
            && self.place >= first.start + first.length
        {
            self.pieces = rest;
        }
        let (is_hole, end) = match self.pieces.first() {
            Some(piece) if self.place >= piece.start => (false, piece.start + piece.length),
            Some(piece) => (true, piece.start),
            None => (true, self.size),
        };
        let left = usize::try_from(end.saturating_sub(self.place)).unwrap_or(usize::MAX);
        let most = left.min(buffer.len());
        let part = buffer.get_mut(..most).unwrap_or_default();
        let read = if is_hole {
            part.fill(0);
            most
        } else {
            self.inner.read(part)?
        };
        self.place += read as u64;
        Ok(read)
    }
}
