// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Chunks of images: what two versions of an image have in common.
//!
//! An image is cut where its content says so (`FastCDC`, 2020), and not every so many bytes:
//! what is between two changes is cut in the same way wherever it has moved to. The list of
//! an image's chunks is attached to it at push:
//!
//! ```text
//! cabane-chunks 1 <bytes of the image> <bytes of a chunk on the average> <chunks>\n
//! <length: u32, little endian><first 8 bytes of the sha256>    for each chunk
//! ```
//!
//! Eight bytes tell chunks apart as surely as is needed: whatever a list says, the image is
//! summed as a whole. The list is downloaded too, so that chunks are the larger the larger the
//! image is. To compare, a local file is cut as the list says.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use fastcdc::v2020::StreamCDC;
use sha2::{Digest as _, Sha256};

use crate::{Error, Result};

/// The file system in an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Squashfs.
    Squashfs,
    /// EROFS.
    Erofs,
}

/// The media type of a list, and the kind of its manifest.
pub(crate) const CHUNKS: &str = "application/vnd.cabane.chunks.v1";
/// The largest list that is read: that of an image of about a terabyte.
pub(crate) const MAX_LIST: u64 = 64 * 1024 * 1024;
/// Smaller images are got as a whole.
pub(crate) const SMALLEST_IMAGE: u64 = 16 * 1024 * 1024;

/// How large chunks may be on the average; each is between a quarter and four times of that.
const AVERAGES: RangeInclusive<u32> = 4 * 1024..=256 * 1024;

const HEAD: &str = "cabane-chunks 1";
const ENTRY: usize = 4 + 8;

type Id = [u8; 8];

/// One chunk of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Chunk {
    offset: u64,
    length: u32,
    id: Id,
}

/// The chunks of an image, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChunkList {
    average: u32,
    chunks: Vec<Chunk>,
}

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
    /// Cuts an image into chunks that suit it.
    pub(crate) fn of_file(path: &Path, format: Format) -> Result<Self> {
        let found = fs::metadata(path).map_err(Error::io("read", path))?;
        Self::cut(path, average_for(found.len(), format))
    }

    /// Cuts another image in the same way.
    pub(crate) fn of_base(&self, path: &Path) -> Result<Self> {
        Self::cut(path, self.average)
    }

    /// Whether two images were cut in the same way, so that what they have in common is found.
    pub(crate) fn is_cut_like(&self, other: &Self) -> bool {
        self.average == other.average
    }

    fn cut(path: &Path, average: u32) -> Result<Self> {
        let file = File::open(path).map_err(Error::io("read", path))?;
        let mut chunks = Vec::new();
        let middle = average as usize;
        for chunk in StreamCDC::new(file, middle / 4, middle, middle * 4) {
            let chunk = chunk.map_err(|error| Error::io("read", path)(error.into()))?;
            chunks.push(Chunk {
                offset: chunk.offset,
                length: u32::try_from(chunk.length).unwrap_or(u32::MAX),
                id: id_of(&chunk.data),
            });
        }
        Ok(Self { average, chunks })
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let (size, average, count) = (self.size(), self.average, self.chunks.len());
        let mut bytes = format!("{HEAD} {size} {average} {count}\n").into_bytes();
        for chunk in &self.chunks {
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
        let head = str::from_utf8(head).ok()?;
        let average: u32 = head.split(' ').nth(3)?.parse().ok()?;
        let expected = format!("{HEAD} {size} {average} {}", entries.len() / ENTRY);
        let is_usual = AVERAGES.contains(&average) && average.is_power_of_two();
        if head != expected || !is_usual || entries.len() % ENTRY != 0 {
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
        let is_whole = offset == size && chunks.iter().all(|chunk| chunk.length > 0);
        is_whole.then_some(Self { average, chunks })
    }

    fn size(&self) -> u64 {
        self.chunks.iter().map(|chunk| u64::from(chunk.length)).sum()
    }

    /// Returns which pieces of the image are in files, the pieces as long as can be.
    pub(crate) fn known_in(&self, files: &[Self]) -> Vec<Known> {
        let mut places: HashMap<Id, (usize, u64, u32)> = HashMap::new();
        for (file, list) in files.iter().enumerate() {
            for chunk in &list.chunks {
                places.entry(chunk.id).or_insert((file, chunk.offset, chunk.length));
            }
        }
        let mut known: Vec<Known> = Vec::new();
        for chunk in &self.chunks {
            let place = places.get(&chunk.id).filter(|(.., length)| *length == chunk.length);
            let Some(&(file, from, length)) = place else {
                continue;
            };
            let (to, length) = (chunk.offset, u64::from(length));
            match known.last_mut() {
                Some(last)
                    if last.file == file
                        && last.to + last.length == to
                        && last.from + last.length == from =>
                {
                    last.length += length;
                }
                _ => known.push(Known { file, from, to, length }),
            }
        }
        known
    }
}

fn id_of(bytes: &[u8]) -> Id {
    Sha256::digest(bytes).first_chunk().copied().unwrap_or_default()
}

/// Returns how large the chunks of an image of so many bytes are on the average.
///
/// A change costs about a chunk, wherever it is, and every chunk twelve bytes of the list. When a
/// package is built again, with what depends on it, squashfs changes in some forty places, EROFS
/// in some thousand, since files are described beside their content. Both costs are equal where
/// the square of this is that part of the size; what is measured agrees.
fn average_for(size: u64, format: Format) -> u32 {
    let part = match format {
        Format::Squashfs => 4,
        Format::Erofs => 64,
    };
    let wanted = (size / part).isqrt();
    // The nearest power of two, by ratio.
    let nearest = (wanted * wanted / 2).isqrt().max(1).checked_next_power_of_two();
    let average = nearest.and_then(|average| u32::try_from(average).ok());
    let (least, most) = AVERAGES.into_inner();
    average.unwrap_or(most).clamp(least, most)
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
    use cabane_testkit::noise;
    use proptest::prelude::*;

    use super::*;

    fn list_of(content: &[u8]) -> ChunkList {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), content).unwrap();
        ChunkList::of_file(file.path(), Format::Squashfs).unwrap()
    }

    #[test]
    fn a_list_can_be_read_back() {
        let content = noise(1, 3 << 20);
        let list = list_of(&content);
        let bytes = list.to_bytes();
        assert_eq!(ChunkList::from_bytes(&bytes, content.len() as u64), Some(list));
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
    fn the_larger_an_image_is_the_larger_are_its_chunks() {
        let sizes = [16 << 20, 256 << 20, 1 << 30, 5 << 30, 22 << 30, 1 << 40, u64::MAX];
        let averages = |format| sizes.map(|size| average_for(size, format) >> 10);
        assert_eq!(averages(Format::Squashfs), [4, 8, 16, 32, 64, 256, 256]);
        assert_eq!(averages(Format::Erofs), [4, 4, 4, 8, 16, 128, 256]);
    }

    #[test]
    fn chunks_of_an_impossible_size_are_refused() {
        let content = noise(1, 1 << 20);
        let size = content.len() as u64;
        let bytes = list_of(&content).to_bytes();
        let text = format!("{HEAD} {size} 4096 ");
        assert!(bytes.starts_with(text.as_bytes()));
        for average in ["64", "8193", "1048576", "x"] {
            let head = format!("{HEAD} {size} {average} ");
            let other = [head.as_bytes(), &bytes[text.len()..]].concat();
            assert_eq!(ChunkList::from_bytes(&other, size), None, "{average}");
        }
    }

    #[test]
    fn an_image_of_another_size_is_cut_in_the_same_way() {
        let (old, new) = (noise(1, 1 << 20), noise(1, 3 << 20));
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str, content: &[u8]| {
            let path = place.path().join(name);
            fs::write(&path, content).unwrap();
            path
        };
        let list = ChunkList::cut(&path("new", &new), 64 * 1024).unwrap();
        let base = list.of_base(&path("old", &old)).unwrap();
        let known = list.known_in(&[base]);
        assert!(known.iter().map(|piece| piece.length).sum::<u64>() > 700 << 10);
    }

    #[test]
    fn what_has_moved_is_known() {
        let old = noise(1, 4 << 20);
        let new = [&old[..1 << 20], &noise(2, 100_000), &old[1 << 20..]].concat();
        let known = list_of(&new).known_in(&[list_of(&old)]);
        let bytes: u64 = known.iter().map(|piece| piece.length).sum();
        let changed = new.len() as u64 - bytes;
        // A chunk more at each end, and none is larger than four times the average.
        assert!(changed < 100_000 + 2 * 4 * 4 * 1024, "{changed}");
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
            let headed = [format!("{HEAD} {size} 8192 {}\n", bytes.len() / ENTRY).as_bytes(), &bytes].concat();
            let _ = ChunkList::from_bytes(&headed, size);
        }
    }
}
