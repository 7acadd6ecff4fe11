// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! How an image is cut into chunks, and the list of the chunks of a pack.
//!
//! A squashfs image is cut where its content says so (`FastCDC`, 2020), since what follows a change
//! has moved by any number of bytes. An EROFS image consists of blocks of 4 KiB, and a file that is
//! equal in two images is equal in whole blocks: they are its chunks. A file system that can share
//! blocks then shares them.
//!
//! ```text
//! cabane-pack 1 <bytes of the pack> <chunks>\n
//! <length: u32, little endian><first 16 bytes of the sha256>    for each chunk
//! ```

use std::fs::File;
use std::io::{self, Read as _};

use fastcdc::v2020::StreamCDC;
use sha2::{Digest as _, Sha256};

use crate::ImageFormat;

/// The average size of a chunk of squashfs. `docs/design/0030-stored-once.md` has the figures.
const AVERAGE: usize = 16 * 1024;
const BLOCK: usize = 4096;
/// The largest list that is read: that of a pack of about a terabyte.
pub(crate) const MAX_LIST: u64 = 2 * 1024 * 1024 * 1024;

const HEAD: &str = "cabane-pack 1";
const ENTRY: usize = 4 + 16;

/// The first bytes of the sha256 of a chunk. An image is summed as a whole after it was assembled.
pub(crate) type Id = [u8; 16];

/// Calls `each` with all chunks of a file, in their order.
pub(crate) fn cut(
    file: &File,
    format: ImageFormat,
    each: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    match format {
        ImageFormat::Squashfs => {
            for chunk in StreamCDC::new(file, AVERAGE / 4, AVERAGE, AVERAGE * 4) {
                let chunk = chunk.map_err(io::Error::from)?;
                each(&chunk.data)?;
            }
        }
        ImageFormat::Erofs => {
            let mut buffer = vec![0; 256 * BLOCK];
            loop {
                let count = fill(file, &mut buffer)?;
                buffer.get(..count).unwrap_or_default().chunks(BLOCK).try_for_each(&mut *each)?;
                if count < buffer.len() {
                    break;
                }
            }
        }
    }
    Ok(())
}

/// Reads until the buffer is full or the file ends.
fn fill(mut file: &File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read(rest) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Returns the name of a chunk.
pub(crate) fn id_of(bytes: &[u8]) -> Id {
    Sha256::digest(bytes).first_chunk().copied().unwrap_or_default()
}

/// The chunks of a pack, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChunkList {
    chunks: Vec<(u32, Id)>,
}

impl ChunkList {
    pub(crate) fn push(&mut self, length: u32, id: Id) {
        self.chunks.push((length, id));
    }

    /// Returns each chunk with the place where it begins.
    pub(crate) fn places(&self) -> impl Iterator<Item = (u64, u32, Id)> {
        self.chunks.iter().scan(0, |next, (length, id)| {
            let offset = *next;
            *next += u64::from(*length);
            Some((offset, *length, *id))
        })
    }

    pub(crate) fn size(&self) -> u64 {
        self.chunks.iter().map(|(length, _)| u64::from(*length)).sum()
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = format!("{HEAD} {} {}\n", self.size(), self.chunks.len()).into_bytes();
        for (length, id) in &self.chunks {
            bytes.extend(length.to_le_bytes());
            bytes.extend(id);
        }
        bytes
    }

    /// Reads the list of a pack of so many bytes; `None` for what is none.
    pub(crate) fn from_bytes(bytes: &[u8], size: u64) -> Option<Self> {
        let end = bytes.iter().position(|byte| *byte == b'\n')?;
        let (head, rest) = bytes.split_at(end);
        let entries = rest.get(1..)?;
        let expected = format!("{HEAD} {size} {}", entries.len() / ENTRY);
        if head != expected.as_bytes() || entries.len() % ENTRY != 0 {
            return None;
        }
        let mut list = Self::default();
        for entry in entries.chunks_exact(ENTRY) {
            let (length, id) = entry.split_first_chunk::<4>()?;
            list.push(u32::from_le_bytes(*length), id.try_into().ok()?);
        }
        (list.size() == size && list.chunks.iter().all(|(length, _)| *length > 0)).then_some(list)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use cabane_testkit::noise;
    use proptest::prelude::*;

    use super::*;

    fn cut_up(content: &[u8], format: ImageFormat) -> Vec<Vec<u8>> {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("image");
        fs::write(&path, content).unwrap();
        let mut chunks = Vec::new();
        let mut each = |bytes: &[u8]| {
            chunks.push(bytes.to_vec());
            Ok(())
        };
        cut(&File::open(&path).unwrap(), format, &mut each).unwrap();
        chunks
    }

    #[test]
    fn chunks_together_are_the_file() {
        for size in [0, 1, 4095, 4096, 4097, 3 << 20, (3 << 20) + 17] {
            let content = noise(1, size);
            for format in [ImageFormat::Squashfs, ImageFormat::Erofs] {
                assert!(cut_up(&content, format).concat() == content, "{size} {format}");
            }
        }
    }

    #[test]
    fn what_has_moved_is_cut_into_the_same_chunks() {
        let old = noise(1, 2 << 20);
        let new = [b"something else".as_slice(), &old].concat();
        let known = cut_up(&old, ImageFormat::Squashfs);
        let chunks = cut_up(&new, ImageFormat::Squashfs);
        let unknown = chunks.iter().filter(|one| !known.contains(one)).count();
        assert!(unknown <= 4, "{unknown} of {}", chunks.len());
    }

    #[test]
    fn a_list_can_be_read_back() {
        let mut list = ChunkList::default();
        list.push(7, id_of(b"a"));
        list.push(4096, id_of(b"b"));
        let bytes = list.to_bytes();
        assert_eq!(ChunkList::from_bytes(&bytes, 4103), Some(list));
        assert_eq!(ChunkList::from_bytes(&bytes, 4104), None);
        assert_eq!(ChunkList::from_bytes(&bytes[..bytes.len() - 1], 4103), None);
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
