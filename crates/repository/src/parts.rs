// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The parts of which an image is assembled.
//!
//! ```text
//! cabane-parts 1 <bytes of the image> <format> <seconds>.<nanoseconds>
//! pack <sha256>                        for each pack; the first is number 0
//! <number> <offset> <length>           for each part, in the order of the image
//! ```
//!
//! The time is that of the file when it was deduplicated; the file that is assembled has it again,
//! since records of signatures refer to it. Nothing in the list is believed: what is assembled must
//! have the digest of the image.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use cabane_label::Digest;
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use crate::{ImageFormat, disk};

/// The largest list that is read, of some ten million parts.
const MAX_LIST: u64 = 256 * 1024 * 1024;
const HEAD: &str = "cabane-parts 1";
const BUFFER: usize = 1024 * 1024;

/// A piece of an image, and where its bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// The number of the pack.
    pub(crate) pack: usize,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// The parts of an image, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartList {
    pub(crate) size: u64,
    pub(crate) format: ImageFormat,
    /// When the image was written: seconds and nanoseconds since 1970.
    pub(crate) modified: (i64, u32),
    pub(crate) packs: Vec<Digest>,
    pub(crate) parts: Vec<Part>,
}

impl PartList {
    pub(crate) fn new(size: u64, format: ImageFormat, modified: (i64, u32)) -> Self {
        Self { size, format, modified, packs: Vec::new(), parts: Vec::new() }
    }

    /// Adds a piece at the end; one that continues the last is joined to it.
    pub(crate) fn push(&mut self, part: Part) {
        match self.parts.last_mut() {
            Some(last) if last.pack == part.pack && last.offset + last.length == part.offset => {
                last.length += part.length;
            }
            _ => self.parts.push(part),
        }
    }

    /// Reads the list of an image.
    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        let bytes = disk::read(path, MAX_LIST)?;
        let list = str::from_utf8(&bytes).ok().and_then(Self::from_text);
        list.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it is no list of parts"))
    }

    pub(crate) fn to_text(&self) -> String {
        let (size, format, (seconds, nanoseconds)) = (self.size, self.format, self.modified);
        let mut text = format!("{HEAD} {size} {format} {seconds}.{nanoseconds:09}\n");
        for pack in &self.packs {
            let _ = writeln!(text, "pack {pack}");
        }
        for Part { pack, offset, length } in &self.parts {
            let _ = writeln!(text, "{pack} {offset} {length}");
        }
        text
    }

    fn from_text(text: &str) -> Option<Self> {
        let mut lines = text.strip_suffix('\n')?.split('\n');
        let mut head = lines.next()?.strip_prefix(HEAD)?.strip_prefix(' ')?.split(' ');
        let (size, format) = (head.next()?.parse().ok()?, ImageFormat::from_name(head.next()?)?);
        let (seconds, nanoseconds) = head.next()?.split_once('.')?;
        let nanoseconds = nanoseconds.parse().ok().filter(|one| *one < 1_000_000_000)?;
        let mut list = Self::new(size, format, (seconds.parse().ok()?, nanoseconds));
        let mut at = 0_u64;
        for line in lines {
            if let Some(pack) = line.strip_prefix("pack ") {
                list.packs.push(pack.parse().ok()?);
                continue;
            }
            let mut numbers = line.split(' ');
            let mut number = || numbers.next()?.parse::<u64>().ok();
            let (pack, offset, length) = (number()?, number()?, number()?);
            let pack = usize::try_from(pack).ok().filter(|pack| *pack < list.packs.len())?;
            offset.checked_add(length).filter(|_| length > 0 && numbers.next().is_none())?;
            at = at.checked_add(length)?;
            list.parts.push(Part { pack, offset, length });
        }
        (at == size && head.next().is_none()).then_some(list)
    }

    /// Returns how large each pack must be at least.
    pub(crate) fn ends(&self) -> impl Iterator<Item = (&Digest, u64)> {
        let mut ends: HashMap<usize, u64> = HashMap::new();
        for part in &self.parts {
            let end = ends.entry(part.pack).or_default();
            *end = (*end).max(part.offset + part.length);
        }
        self.packs
            .iter()
            .enumerate()
            .map(move |(number, pack)| (pack, ends.get(&number).copied().unwrap_or_default()))
    }

    /// Writes the image into an empty file. Where the file system can share blocks, whole blocks are
    /// shared.
    pub(crate) fn write(
        &self,
        open: &dyn Fn(&Digest) -> io::Result<File>,
        target: &File,
    ) -> io::Result<()> {
        let packs = self.packs.iter().map(open).collect::<io::Result<Vec<File>>>()?;
        let mut at = 0;
        for part in &self.parts {
            let pack = packs.get(part.pack).ok_or(io::ErrorKind::NotFound)?;
            copy(pack, part.offset, target, at, part.length)?;
            at += part.length;
        }
        Ok(())
    }

    /// Sums the image without writing it. Reports how many bytes were read.
    pub(crate) fn digest(
        &self,
        open: &dyn Fn(&Digest) -> io::Result<File>,
        report: &mut dyn FnMut(u64),
    ) -> io::Result<Digest> {
        let packs = self.packs.iter().map(open).collect::<io::Result<Vec<File>>>()?;
        let (mut sum, mut buffer, mut at) = (Sha256::new(), vec![0; BUFFER], 0);
        for part in &self.parts {
            let pack = packs.get(part.pack).ok_or(io::ErrorKind::NotFound)?;
            in_steps(part.offset, part.length, &mut buffer, &mut |place, bytes| {
                pack.read_exact_at(bytes, place)?;
                sum.update(&*bytes);
                at += bytes.len() as u64;
                report(at);
                Ok(())
            })?;
        }
        Ok(Digest::from_bytes(sum.finalize().into()))
    }
}

fn copy(from: &File, offset: u64, to: &File, at: u64, length: u64) -> io::Result<()> {
    let (mut source, mut target, end) = (offset, at, offset + length);
    while source < end {
        let left = usize::try_from(end - source).unwrap_or(usize::MAX).min(1 << 30);
        match rustix::fs::copy_file_range(from, Some(&mut source), to, Some(&mut target), left) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::XDEV | Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL | Errno::IO) => break,
            Err(error) => return Err(error.into()),
        }
    }
    let mut buffer = vec![0; usize::try_from(end - source).unwrap_or(BUFFER).min(BUFFER)];
    in_steps(source, end - source, &mut buffer, &mut |place, bytes| {
        from.read_exact_at(bytes, place)?;
        to.write_all_at(bytes, at + (place - offset))
    })
}

/// Calls `each` with each place and as much of the buffer as is to be read there.
fn in_steps(
    offset: u64,
    length: u64,
    buffer: &mut [u8],
    each: &mut dyn FnMut(u64, &mut [u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut done = 0;
    while done < length {
        let left = usize::try_from(length - done).unwrap_or(usize::MAX);
        let most = left.min(buffer.len());
        each(offset + done, buffer.get_mut(..most).unwrap_or_default())?;
        done += most as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;

    fn digest(digit: char) -> Digest {
        digit.to_string().repeat(64).parse().unwrap()
    }

    fn list() -> PartList {
        let mut list = PartList::new(30, ImageFormat::Erofs, (1_700_000_000, 5));
        list.packs = vec![digest('a'), digest('b')];
        list.push(Part { pack: 1, offset: 8, length: 4 });
        list.push(Part { pack: 1, offset: 12, length: 6 });
        list.push(Part { pack: 0, offset: 0, length: 20 });
        list
    }

    #[test]
    fn a_list_can_be_read_back() {
        let list = list();
        assert_eq!(list.parts.len(), 2);
        assert_eq!(PartList::from_text(&list.to_text()), Some(list));
    }

    #[test]
    fn lists_that_do_not_fit_are_none() {
        let text = list().to_text();
        for (from, to) in [
            (" 30 ", " 31 "),
            ("\n1 8 10\n", "\n2 8 10\n"),
            ("\n1 8 10\n", "\n1 18446744073709551610 10\n"),
            ("\n1 8 10\n", "\n1 8 10 1\n"),
            ("\n1 8 10\n", "\n1 8 0\n1 8 10\n"),
            ("erofs", "ext4"),
            ("pack a", "pack ../a"),
        ] {
            let other = text.replace(from, to);
            assert_ne!(other, text, "{from}");
            assert_eq!(PartList::from_text(&other), None, "{to}");
        }
        assert_eq!(PartList::from_text(text.trim_end()), None);
    }

    #[test]
    fn an_image_is_assembled_from_its_packs() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("a"), "the first twenty byt").unwrap();
        fs::write(place.path().join("b"), "12345678ABCDEFGHIJ").unwrap();
        let open = |pack: &Digest| File::open(place.path().join(&pack.as_str()[..1]));
        let target = File::create_new(place.path().join("image")).unwrap();
        list().write(&open, &target).unwrap();
        let written = fs::read(place.path().join("image")).unwrap();
        assert_eq!(String::from_utf8_lossy(&written), "ABCDEFGHIJthe first twenty byt");
        let sum = Digest::from_bytes(Sha256::digest(&written).into());
        assert_eq!(list().digest(&open, &mut |_| ()).unwrap(), sum);
    }

    #[test]
    fn a_pack_that_is_cut_off_is_an_error() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("a"), "short").unwrap();
        fs::write(place.path().join("b"), "12345678ABCDEFGHIJ").unwrap();
        let open = |pack: &Digest| File::open(place.path().join(&pack.as_str()[..1]));
        let target = File::create_new(place.path().join("image")).unwrap();
        let error = list().write(&open, &target).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert!(list().digest(&open, &mut |_| ()).is_err());
    }

    proptest! {
        #[test]
        fn no_list_brings_the_reader_down(text in "\\PC{0,200}", size in any::<u64>()) {
            let _ = PartList::from_text(&text);
            let _ = PartList::from_text(&format!("{HEAD} {size} erofs 1.1\npack {}\n{text}\n", digest('a')));
        }
    }
}
