// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Chunks of images: what two versions of an image have in common.
//!
//! An image is cut where its content says so (`FastCDC`, 2020), and not every so many bytes:
//! what stands between two changes is cut in the same way wherever it has moved to. The list of
//! an image's chunks is attached to it at push:
//!
//! ```text
//! cabane-chunks 1 <bytes of the image> <chunks>\n
//! <length: u32, little endian><first 16 bytes of the sha256>    for each chunk
//! ```
//!
//! Sixteen bytes tell chunks apart as surely as is needed: whatever a list says, the image is
//! summed as a whole.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use fastcdc::v2020::StreamCDC;
use sha2::{Digest as _, Sha256};

use crate::Error;

/// The media type of a list, and the kind of its manifest.
pub(crate) const CHUNKS: &str = "application/vnd.cabane.chunks.v1";
/// The largest list that is read: that of an image of about 200 GB.
pub(crate) const MAX_LIST: u64 = 64 * 1024 * 1024;
/// Smaller images are got as a whole.
pub(crate) const SMALLEST_IMAGE: u64 = 16 * 1024 * 1024;

const MIN: usize = 16 * 1024;
const AVERAGE: usize = 64 * 1024;
const MAX: usize = 256 * 1024;

const HEAD: &str = "cabane-chunks 1";
const ENTRY: usize = 4 + 16;

type Id = [u8; 16];

/// One chunk of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Chunk {
    offset: u64,
    length: u32,
    id: Id,
}

/// The chunks of an image, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChunkList(Vec<Chunk>);

/// A piece of an image that is in a file here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// Which of the files.
    pub(crate) file: usize,
    /// Where in the file.
    pub(crate) from: u64,
    /// Where in the image.
    pub(crate) to: u64,
    pub(crate) length: u64,
}

impl ChunkList {
    /// Cuts an image.
    pub(crate) fn of_file(path: &Path) -> Result<Self, Error> {
        let file = File::open(path).map_err(Error::io("read", path))?;
        let mut chunks = Vec::new();
        for chunk in StreamCDC::new(file, MIN, AVERAGE, MAX) {
            let chunk = chunk.map_err(|error| Error::io("read", path)(error.into()))?;
            chunks.push(Chunk {
                offset: chunk.offset,
                length: u32::try_from(chunk.length).unwrap_or(u32::MAX),
                id: id_of(&chunk.data),
            });
        }
        Ok(Self(chunks))
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = format!("{HEAD} {} {}\n", self.size(), self.0.len()).into_bytes();
        for chunk in &self.0 {
            bytes.extend(chunk.length.to_le_bytes());
            bytes.extend(chunk.id);
        }
        bytes
    }

    /// Reads the list of an image of so many bytes; `None` for what is none.
    pub(crate) fn from_bytes(bytes: &[u8], size: u64) -> Option<Self> {
        let end = bytes.iter().position(|byte| *byte == b'\n')?;
        let (head, rest) = bytes.split_at(end);
        let entries = rest.get(1..)?;
        let expected = format!("{HEAD} {size} {}", entries.len() / ENTRY);
        if head != expected.as_bytes() || entries.len() % ENTRY != 0 {
            return None;
        }
        let mut offset = 0;
        let mut chunks = Vec::with_capacity(entries.len() / ENTRY);
        for entry in entries.chunks_exact(ENTRY) {
            let (length, id) = entry.split_first_chunk::<4>()?;
            let length = u32::from_le_bytes(*length);
            let id: Id = id.try_into().ok()?;
            chunks.push(Chunk { offset, length, id });
            offset += u64::from(length);
        }
        (offset == size && chunks.iter().all(|chunk| chunk.length > 0)).then_some(Self(chunks))
    }

    fn size(&self) -> u64 {
        self.0.iter().map(|chunk| u64::from(chunk.length)).sum()
    }

    /// Returns which pieces of the image are in files, the pieces as long as can be.
    pub(crate) fn known_in(&self, files: &[Self]) -> Vec<Known> {
        let mut places: HashMap<Id, (usize, u64, u32)> = HashMap::new();
        for (file, list) in files.iter().enumerate() {
            for chunk in &list.0 {
                places
                    .entry(chunk.id)
                    .or_insert((file, chunk.offset, chunk.length));
            }
        }
        let mut known: Vec<Known> = Vec::new();
        for chunk in &self.0 {
            let Some(&(file, from, length)) = places.get(&chunk.id) else {
                continue;
            };
            if length != chunk.length {
                continue;
            }
            let (to, length) = (chunk.offset, u64::from(length));
            match known.last_mut() {
                Some(last)
                    if last.file == file
                        && last.to + last.length == to
                        && last.from + last.length == from =>
                {
                    last.length += length;
                }
                _ => known.push(Known {
                    file,
                    from,
                    to,
                    length,
                }),
            }
        }
        known
    }
}

fn id_of(bytes: &[u8]) -> Id {
    let sum: [u8; 32] = Sha256::digest(bytes).into();
    let mut id = Id::default();
    id.copy_from_slice(&sum[..16]);
    id
}

/// Copies pieces into a file.
pub(crate) fn copy_known(known: &[Known], bases: &[PathBuf], target: &File) -> io::Result<()> {
    if known.is_empty() {
        return Ok(());
    }
    let files: io::Result<Vec<File>> = bases.iter().map(File::open).collect();
    let files = files?;
    let mut buffer = vec![0; 1024 * 1024];
    for piece in known {
        let file = files.get(piece.file).ok_or(io::ErrorKind::NotFound)?;
        let mut done = 0;
        while done < piece.length {
            let left = usize::try_from(piece.length - done).unwrap_or(usize::MAX);
            let most = left.min(buffer.len());
            let part = buffer.get_mut(..most).unwrap_or_default();
            file.read_exact_at(part, piece.from + done)?;
            target.write_all_at(part, piece.to + done)?;
            done += most as u64;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn noise(seed: u64, size: usize) -> Vec<u8> {
        let mut state = seed | 1;
        let step = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        };
        std::iter::repeat_with(step).flatten().take(size).collect()
    }

    fn list_of(content: &[u8]) -> ChunkList {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), content).unwrap();
        ChunkList::of_file(file.path()).unwrap()
    }

    #[test]
    fn a_list_can_be_read_back() {
        let content = noise(1, 3 << 20);
        let list = list_of(&content);
        let bytes = list.to_bytes();
        assert_eq!(
            ChunkList::from_bytes(&bytes, content.len() as u64),
            Some(list)
        );
    }

    #[test]
    fn lists_that_do_not_fit_the_image_are_none() {
        let content = noise(1, 1 << 20);
        let bytes = list_of(&content).to_bytes();
        let size = content.len() as u64;
        assert_eq!(ChunkList::from_bytes(&bytes, size + 1), None);
        assert_eq!(ChunkList::from_bytes(&bytes[..bytes.len() - 1], size), None);
        assert_eq!(ChunkList::from_bytes(b"", size), None);
    }

    #[test]
    fn what_has_moved_is_known() {
        let old = noise(1, 4 << 20);
        let new = [&old[..1 << 20], &noise(2, 100_000), &old[1 << 20..]].concat();
        let known = list_of(&new).known_in(&[list_of(&old)]);
        let bytes: u64 = known.iter().map(|piece| piece.length).sum();
        let changed = new.len() as u64 - bytes;
        assert!(changed < 100_000 + 2 * MAX as u64, "{changed}");
    }

    #[test]
    fn what_is_known_is_what_is_there() {
        let old = noise(1, 4 << 20);
        let new = [&old[..1 << 20], &noise(2, 100_000), &old[1 << 20..]].concat();
        for piece in list_of(&new).known_in(&[list_of(&old)]) {
            let range = |start: u64| {
                let start = usize::try_from(start).unwrap();
                start..start + usize::try_from(piece.length).unwrap()
            };
            assert!(new[range(piece.to)] == old[range(piece.from)]);
        }
    }

    proptest! {
        #[test]
        fn no_list_brings_the_reader_down(bytes in proptest::collection::vec(any::<u8>(), 0..200), size in any::<u64>()) {
            let _ = ChunkList::from_bytes(&bytes, size);
            let headed = [format!("{HEAD} {size} {}\n", bytes.len() / ENTRY).as_bytes(), &bytes].concat();
            let _ = ChunkList::from_bytes(&headed, size);
        }
    }
}
