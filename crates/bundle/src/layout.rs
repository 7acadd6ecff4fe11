// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The blobs and tags of a bundle, wherever their bytes are: in the file that was opened, or in
//! those from which a new one is going to be written.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cabane_label::Digest;
use cabane_registry::{BaseImage, sum};

/// A part of a blob, and the part of a file that it is.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    /// Where it begins in the blob.
    pub(crate) at: u64,
    pub(crate) length: u64,
    pub(crate) file: Arc<File>,
    /// Where it begins in the file.
    pub(crate) offset: u64,
}

/// Some bytes with a digest.
#[derive(Clone, Debug)]
pub(crate) struct Blob {
    pub(crate) size: u64,
    /// In their order; what is between them is not there.
    pub(crate) pieces: Vec<Piece>,
    /// The images that have what is not there.
    pub(crate) bases: Vec<BaseImage>,
}

impl Blob {
    pub(crate) fn new(size: u64, pieces: Vec<Piece>) -> Self {
        Self { size, pieces, bases: Vec::new() }
    }

    fn covers(&self, start: u64, end: u64) -> bool {
        let reach = |reached: u64, piece: &Piece| {
            if piece.at <= reached { reached.max(piece.at + piece.length) } else { reached }
        };
        self.pieces.iter().fold(start, reach) >= end
    }

    /// Returns a reader of the bytes from `start` to `end`; `None` if some are not there.
    pub(crate) fn reader(&self, start: u64, end: u64) -> Option<BlobReader> {
        if end > self.size || !self.covers(start, end) {
            return None;
        }
        let is_after = |piece: &Piece| piece.at + piece.length > start;
        let first = self.pieces.iter().position(is_after).unwrap_or(self.pieces.len());
        let pieces = self.pieces.get(first..).unwrap_or_default().to_vec();
        Some(BlobReader { pieces, place: start, end })
    }
}

/// Reads a part of a blob.
#[derive(Debug)]
pub(crate) struct BlobReader {
    pieces: Vec<Piece>,
    place: u64,
    end: u64,
}

impl Read for BlobReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.place >= self.end || buffer.is_empty() {
            return Ok(0);
        }
        let is_here =
            |piece: &&Piece| piece.at <= self.place && self.place < piece.at + piece.length;
        let piece = self.pieces.iter().find(is_here).ok_or(io::ErrorKind::UnexpectedEof)?;
        let inside = self.place - piece.at;
        let left = (piece.length - inside).min(self.end - self.place);
        let most = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let part = buffer.get_mut(..most).unwrap_or_default();
        let count = piece.file.read_at(part, piece.offset + inside)?;
        if count == 0 {
            // The file has become shorter.
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.place += count as u64;
        Ok(count)
    }
}

/// What a bundle has.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) blobs: BTreeMap<Digest, Blob>,
    /// Of each repository the tags, and the digests of their manifests.
    pub(crate) tags: BTreeMap<String, BTreeMap<String, Digest>>,
    /// What is being sent, by its number.
    pub(crate) uploads: BTreeMap<u64, Vec<Piece>>,
    uploaded: u64,
    /// How many bytes the file of small blobs has.
    kept: u64,
}

/// A bundle that is read or made.
#[derive(Debug)]
pub struct Layout {
    state: Mutex<State>,
    /// Small blobs of one that is made; none where nothing is written.
    small: Option<Arc<File>>,
}

impl Layout {
    /// Begins an empty one, to which a client can write.
    ///
    /// # Errors
    ///
    /// Those of making a temporary file.
    pub fn new() -> io::Result<Self> {
        let small = Some(Arc::new(tempfile::tempfile()?));
        Ok(Self { state: Mutex::default(), small })
    }

    pub(crate) fn of(state: State) -> Self {
        Self { state: Mutex::new(state), small: None }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.small.is_some()
    }

    /// Keeps bytes, and returns where they are.
    pub(crate) fn keep(&self, state: &mut State, at: u64, bytes: &[u8]) -> io::Result<Piece> {
        let file = self.small.as_ref().ok_or(io::ErrorKind::PermissionDenied)?;
        let offset = state.kept;
        file.write_all_at(bytes, offset)?;
        state.kept += bytes.len() as u64;
        Ok(Piece { at, length: bytes.len() as u64, file: Arc::clone(file), offset })
    }

    /// Keeps a small blob in the temporary file, and returns its digest.
    pub(crate) fn keep_blob(&self, state: &mut State, bytes: &[u8]) -> io::Result<Digest> {
        let digest = sum::bytes(bytes);
        if !state.blobs.contains_key(&digest) {
            let piece = self.keep(state, 0, bytes)?;
            state.blobs.insert(digest.clone(), Blob::new(bytes.len() as u64, vec![piece]));
        }
        Ok(digest)
    }
}

impl State {
    /// Begins an upload, and returns its number.
    pub(crate) fn begin_upload(&mut self) -> u64 {
        self.uploaded += 1;
        self.uploads.insert(self.uploaded, Vec::new());
        self.uploaded
    }
}

/// How many bytes pieces have that follow each other.
pub(crate) fn length_of(pieces: &[Piece]) -> u64 {
    pieces.iter().map(|piece| piece.length).sum()
}
