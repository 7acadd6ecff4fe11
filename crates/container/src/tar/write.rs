// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Writing an archive.

use std::io::{self, Read, Write};

use super::{BLOCK, padding};

/// What is written of an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head<'a> {
    pub(crate) path: &'a [u8],
    pub(crate) mode: u32,
    pub(crate) mtime: u32,
}

/// Writes an archive of files that belong to root.
#[derive(Debug)]
pub(crate) struct Writer<W> {
    inner: W,
    /// What goes with the next entry.
    records: Vec<u8>,
}

/// The largest number that eleven octal digits can say.
const MOST_OCTAL: u64 = 0o777_7777_7777;

impl<W: Write> Writer<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self { inner, records: Vec::new() }
    }

    /// Gives the next entry an extended attribute.
    pub(crate) fn attribute(&mut self, name: &[u8], value: &[u8]) {
        let key = [b"SCHILY.xattr.", name].concat();
        self.records.extend(record(&key, value));
    }

    pub(crate) fn directory(&mut self, head: Head<'_>) -> io::Result<()> {
        let path = [head.path, b"/"].concat();
        self.header(Head { path: &path, ..head }, b'5', 0, b"")
    }

    pub(crate) fn symlink(&mut self, head: Head<'_>, target: &[u8]) -> io::Result<()> {
        self.header(head, b'2', 0, target)
    }

    /// Writes a device or a named pipe, of which nothing is but the name.
    pub(crate) fn special(&mut self, head: Head<'_>, is_pipe: bool) -> io::Result<()> {
        self.header(head, if is_pipe { b'6' } else { b'3' }, 0, b"")
    }

    /// Writes another name of a file that was written before.
    pub(crate) fn link(&mut self, head: Head<'_>, file: &[u8]) -> io::Result<()> {
        self.header(head, b'1', 0, file)
    }

    /// Writes a file of a size whose content is read.
    pub(crate) fn file(
        &mut self,
        head: Head<'_>,
        size: u64,
        content: &mut impl Read,
    ) -> io::Result<()> {
        self.header(head, b'0', size, b"")?;
        let copied = io::copy(&mut content.take(size), &mut self.inner)?;
        if copied < size {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it is cut off"));
        }
        fill(&mut self.inner, size)
    }

    fn header(&mut self, head: Head<'_>, letter: u8, size: u64, link: &[u8]) -> io::Result<()> {
        let mut records = std::mem::take(&mut self.records);
        if head.path.len() > 100 {
            records.extend(record(b"path", head.path));
        }
        if link.len() > 100 {
            records.extend(record(b"linkpath", link));
        }
        if size > MOST_OCTAL {
            records.extend(record(b"size", size.to_string().as_bytes()));
        }
        if !records.is_empty() {
            let about = Head { path: b"pax", mode: 0o644, mtime: 0 };
            let length = records.len() as u64;
            self.inner.write_all(&block(about, b'x', length, b""))?;
            self.inner.write_all(&records)?;
            fill(&mut self.inner, length)?;
        }
        self.inner.write_all(&block(head, letter, size, link))
    }

    /// Writes the end, and gives the target back.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.inner.write_all(&[0; 2 * BLOCK])?;
        self.inner.flush()?;
        Ok(self.inner)
    }
}

/// Writes what follows content of a size until the next block begins.
pub(crate) fn fill(output: &mut impl Write, size: u64) -> io::Result<()> {
    let fill = usize::try_from(padding(size)).unwrap_or_default();
    output.write_all([0; BLOCK].get(..fill).unwrap_or_default())
}

/// Returns the head of a member that is a file, whose size any number may be.
pub(crate) fn member_head(name: &str, size: u64) -> [u8; BLOCK] {
    let head = Head { path: name.as_bytes(), mode: 0o644, mtime: 0 };
    let mut block = block(head, b'0', size, b"");
    if size > MOST_OCTAL {
        // The number in bytes, marked by the highest bit; GNU's way.
        let mut field = [0; 12];
        put_bytes(&mut field, 4, &size.to_be_bytes());
        put_bytes(&mut field, 0, &[0x80]);
        put_bytes(&mut block, 124, &field);
        sign(&mut block);
    }
    block
}

fn block(head: Head<'_>, letter: u8, size: u64, link: &[u8]) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    put(&mut block, 0, head.path, 100);
    put(&mut block, 100, format!("{:07o}", head.mode).as_bytes(), 7);
    put(&mut block, 108, b"0000000", 7);
    put(&mut block, 116, b"0000000", 7);
    let size = format!("{:011o}", size.min(MOST_OCTAL));
    put(&mut block, 124, size.as_bytes(), 11);
    let mtime = format!("{:011o}", head.mtime);
    put(&mut block, 136, mtime.as_bytes(), 11);
    put(&mut block, 156, &[letter], 1);
    put(&mut block, 157, link, 100);
    put(&mut block, 257, b"ustar\x0000", 8);
    sign(&mut block);
    block
}

/// Writes the sum of a head into it, which counts its own field as spaces.
fn sign(block: &mut [u8; BLOCK]) {
    put(block, 148, b"        ", 8);
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    put(block, 148, format!("{sum:06o}\0 ").as_bytes(), 8);
}

fn put(block: &mut [u8; BLOCK], start: usize, bytes: &[u8], most: usize) {
    put_bytes(block, start, bytes.get(..most).unwrap_or(bytes));
}

fn put_bytes(block: &mut [u8], start: usize, bytes: &[u8]) {
    if let Some(field) = block.get_mut(start..start + bytes.len()) {
        field.copy_from_slice(bytes);
    }
}

/// Writes a record, whose length counts its own digits.
fn record(key: &[u8], value: &[u8]) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while rest + length.to_string().len() != length {
        length = rest + length.to_string().len();
    }
    [format!("{length} ").as_bytes(), key, b"=", value, b"\n"].concat()
}
