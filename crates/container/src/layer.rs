// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Layers: where their bytes come from, and what the first look at one finds.

use std::io::{self, Read};

use cabane_label::Digest;

use crate::budget::{Budget, Limited};
use crate::decompress::Decompressed;
use crate::digest::{self, Summed};
use crate::tar::{Entry, Kind, Reader};
use crate::{Error, LayerProblem};

/// The longest name in a directory, in squashfs and in Linux.
const LONGEST_NAME: usize = 255;
/// The longest path that can be opened.
pub(crate) const LONGEST_PATH: usize = 4095;
/// More directories inside of each other are refused: each name in them costs as much again.
const DEEPEST: usize = 512;

/// Bytes of a layer.
pub type Bytes<'a> = Box<dyn Read + Send + 'a>;

/// Opens a layer, as often as is requested.
pub type Open<'a> = Box<dyn Fn() -> io::Result<Bytes<'a>> + Send + Sync + 'a>;

/// A layer that can be read.
pub struct Layer<'a> {
    /// By which name it is known: a digest, or a file.
    pub name: String,
    /// How many bytes are to be read, if that is known.
    pub size: Option<u64>,
    /// The digest of these bytes.
    pub digest: Option<Digest>,
    /// The digest of what comes out of them.
    pub diff_id: Option<Digest>,
    /// Whether it is one of a container image: names that begin with `.wh.` hide what is in
    /// layers below, and a file may take the place of a directory, and the other way round.
    pub is_of_container: bool,
    /// Opens it.
    pub open: Open<'a>,
}

/// A layer that is being read.
pub(crate) struct Opened<'a, 'p> {
    reader: Reader<Summed<Limited<'p, Unpacked<'a>>>>,
}

type Unpacked<'a> = Decompressed<Summed<Bytes<'a>>>;

/// What the bytes of a layer were.
#[derive(Clone, Debug)]
pub(crate) struct Sums {
    /// The digest of them.
    pub(crate) digest: Digest,
    /// The digest of what comes out of them.
    pub(crate) diff_id: Digest,
}

impl<'a> Layer<'a> {
    /// Returns files as a layer, of which nothing is known before it is read.
    pub fn of_files(
        name: String,
        open: impl Fn() -> io::Result<Bytes<'a>> + Send + Sync + 'a,
    ) -> Self {
        let open = Box::new(open);
        Self { name, size: None, digest: None, diff_id: None, is_of_container: false, open }
    }

    /// Opens it to be summed.
    pub(crate) fn read<'p>(&self, budget: &'p Budget<'p>) -> Result<Opened<'a, 'p>, Error> {
        let decompressed = self.decompressed()?;
        // What is not compressed is summed once.
        let is_plain = decompressed.is_plain();
        let limited = Limited { inner: decompressed, budget };
        let summed = if is_plain { Summed::counted(limited) } else { Summed::new(limited) };
        Ok(Opened { reader: Reader::new(summed) })
    }

    /// Opens it again: from the same bytes comes the same.
    pub(crate) fn read_again<'p>(&self, budget: &'p Budget<'p>) -> Result<Opened<'a, 'p>, Error> {
        let limited = Limited { inner: self.decompressed()?, budget };
        Ok(Opened { reader: Reader::new(Summed::counted(limited)) })
    }

    fn decompressed(&self) -> Result<Unpacked<'a>, Error> {
        let bytes = (self.open)().map_err(|error| self.failed(error.into()))?;
        Decompressed::new(Summed::new(bytes)).map_err(|error| self.failed(error.into()))
    }

    pub(crate) fn failed(&self, source: LayerProblem) -> Error {
        if matches!(source, LayerProblem::Interrupted) {
            return Error::Interrupted;
        }
        Error::Layer { layer: self.name.clone(), source }
    }

    /// Reads what is left, and fails if it was not what it should have been.
    pub(crate) fn verify(&self, opened: Opened<'a, '_>) -> Result<(Sums, u64), Error> {
        let failed = |error: io::Error| self.failed(error.into());
        let summed = opened.reader.into_inner();
        let (diff_id, _, limited) = summed.finish().map_err(failed)?;
        let (digest, size, _) = limited.inner.into_inner().finish().map_err(failed)?;
        // The bytes are always summed.
        let digest = digest.unwrap_or_else(|| digest::of(b""));
        self.compare_size(size)?;
        let sums = Sums { diff_id: diff_id.unwrap_or_else(|| digest.clone()), digest };
        self.compare("bytes", self.digest.as_ref(), &sums.digest)?;
        self.compare("content", self.diff_id.as_ref(), &sums.diff_id)?;
        Ok((sums, size))
    }

    /// Reads what is left, and fails if it is not what it was the first time.
    pub(crate) fn verify_again(&self, opened: Opened<'a, '_>, before: &Sums) -> Result<(), Error> {
        let failed = |error: io::Error| self.failed(error.into());
        let decompressed = opened.reader.into_inner().inner.inner;
        let (digest, ..) = decompressed.into_inner().finish().map_err(failed)?;
        let digest = digest.unwrap_or_else(|| digest::of(b""));
        self.compare("content", Some(&before.digest), &digest)
    }

    /// Tells a layer that was damaged from one that never was an archive: what cannot be read
    /// is not the mistake of its maker if its bytes differ.
    pub(crate) fn blamed_for(&self, error: Error) -> Error {
        let Error::Layer { source: LayerProblem::Io(_) | LayerProblem::Tar(_), .. } = &error else {
            return error;
        };
        if self.size.is_none() && self.digest.is_none() {
            return error;
        }
        // What cannot be read at all stays what it is.
        let summed = (self.open)().and_then(|bytes| Summed::new(bytes).finish());
        let Ok((digest, size, _)) = summed else {
            return error;
        };
        let digest = digest.unwrap_or_else(|| digest::of(b""));
        let same = self.compare_size(size);
        let same = same.and_then(|()| self.compare("bytes", self.digest.as_ref(), &digest));
        same.err().unwrap_or(error)
    }

    fn compare_size(&self, found: u64) -> Result<(), Error> {
        match self.size {
            Some(expected) if expected != found => {
                let message = format!("it has {found} bytes, and not {expected}");
                Err(self.failed(LayerProblem::damaged(message)))
            }
            _ => Ok(()),
        }
    }

    /// Fails if its bytes or its content have another digest than was announced.
    pub(crate) fn compare(
        &self,
        what: &'static str,
        expected: Option<&Digest>,
        found: &Digest,
    ) -> Result<(), Error> {
        match expected {
            Some(expected) if expected != found => {
                let (expected, found) = (digest::written(expected), digest::written(found));
                let message =
                    format!("its {what} should have the digest {expected}, and have {found}");
                Err(self.failed(LayerProblem::damaged(message)))
            }
            _ => Ok(()),
        }
    }
}

impl Opened<'_, '_> {
    pub(crate) fn next_entry(&mut self) -> Result<Option<Entry>, LayerProblem> {
        Ok(self.reader.next_entry()?)
    }

    /// The content of the entry.
    pub(crate) fn content(&mut self) -> &mut impl Read {
        &mut self.reader
    }

    /// How many bytes of the layer were read, as they come.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.reader.inner().inner.inner.inner().count
    }
}

/// An entry of a layer, as far as it decides about the tree.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// Its name, without a slash at either end.
    pub(crate) path: Box<[u8]>,
    pub(crate) what: What,
    pub(crate) attributes: Attributes,
    /// Which entry of the layer it is.
    pub(crate) number: u32,
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    Directory,
    File {
        size: u64,
    },
    Symlink(Box<[u8]>),
    /// Another name of this.
    Link(Box<[u8]>),
    /// What is left out, and hides what is below it all the same.
    Special(Special),
    /// Hides this entry of the layers below.
    Whiteout,
    /// Hides everything in this directory that comes from the layers below.
    Opaque,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    Device,
    Pipe,
}

/// What an entry says about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) mode: u32,
    pub(crate) mtime: u32,
    pub(crate) is_foreign: bool,
    pub(crate) extended: u32,
}

/// What the first look at a layer found.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) found: Vec<Found>,
    /// How many bytes of the layer were read, as they come.
    pub(crate) size: u64,
    pub(crate) sums: Sums,
}

/// Reads a layer, and verifies it. `each` is informed of each entry, of which it may read the
/// content.
pub(crate) fn list<'a, 'p>(
    layer: &Layer<'a>,
    budget: &'p Budget<'p>,
    each: impl FnMut(&mut Opened<'a, 'p>, &Entry, &Found) -> Result<(), Error>,
) -> Result<Listing, Error> {
    list_once(layer, budget, each).map_err(|error| layer.blamed_for(error))
}

fn list_once<'a, 'p>(
    layer: &Layer<'a>,
    budget: &'p Budget<'p>,
    mut each: impl FnMut(&mut Opened<'a, 'p>, &Entry, &Found) -> Result<(), Error>,
) -> Result<Listing, Error> {
    let mut opened = layer.read(budget)?;
    let mut found = Vec::new();
    let mut number = 0;
    let failed = |problem| layer.failed(problem);
    while let Some(entry) = opened.next_entry().map_err(failed)? {
        budget.entry(entry.size).map_err(failed)?;
        if let Some(one) = look_at(&entry, number, layer.is_of_container).map_err(failed)? {
            each(&mut opened, &entry, &one)?;
            found.push(one);
        }
        number += 1;
    }
    let (sums, size) = layer.verify(opened)?;
    Ok(Listing { found, size, sums })
}

fn look_at(entry: &Entry, number: u32, has_whiteouts: bool) -> Result<Option<Found>, LayerProblem> {
    let mut path = normal(&entry.path)?;
    let mut what = match entry.kind {
        Kind::File => What::File { size: entry.size },
        Kind::Directory => What::Directory,
        Kind::Symlink => What::Symlink(target_of(entry)?),
        Kind::Link => What::Link(normal(&entry.link)?.into()),
        Kind::Device => What::Special(Special::Device),
        Kind::Pipe => What::Special(Special::Pipe),
    };
    if has_whiteouts {
        let Some(seen) = hidden_by(&mut path, &entry.path, what)? else {
            return Ok(None);
        };
        what = seen;
    }
    Ok(Some(Found {
        path: path.into(),
        what,
        attributes: Attributes {
            mode: entry.mode,
            // Before 1970 and after 2106 there is no time in squashfs.
            mtime: u32::try_from(entry.mtime.max(0)).unwrap_or(u32::MAX),
            is_foreign: entry.uid != 0 || entry.gid != 0,
            extended: entry.attributes,
        },
        number,
    }))
}

/// The directory in which the layers of an old tool keep files with several names.
pub(crate) const LINKS: &[u8] = b".wh..wh.plnk";

/// Finds out what a name hides, and makes it the name of that: what has another name stays what it
/// is, and a note of a tool is nothing in the image.
fn hidden_by(path: &mut Vec<u8>, whole: &[u8], what: What) -> Result<Option<What>, LayerProblem> {
    if is_below_links(path) {
        return Ok(Some(what));
    }
    let odd =
        || LayerProblem::refused(format!("`{}` hides nothing that there can be", shown(whole)));
    let (parents, name) = split_last(path);
    if parents.split(|byte| *byte == b'/').any(|part| part.starts_with(b".wh.")) {
        return Err(odd());
    }
    let (above, start) = (parents.len(), path.len() - name.len());
    match name.strip_prefix(b".wh.") {
        None => Ok(Some(what)),
        Some(b".wh..opq") => {
            path.truncate(above);
            Ok(Some(What::Opaque))
        }
        Some(rest) if rest.starts_with(b".wh.") => Ok(None),
        Some(b"" | b"." | b"..") => Err(odd()),
        Some(_) => {
            path.drain(start..start + b".wh.".len());
            Ok(Some(What::Whiteout))
        }
    }
}

fn is_below_links(path: &[u8]) -> bool {
    path.strip_prefix(LINKS).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// Cuts a name into the directory and the last part.
pub(crate) fn split_last(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => {
            let (parents, rest) = path.split_at(slash);
            (parents, rest.get(1..).unwrap_or_default())
        }
        None => (b"", path),
    }
}

/// Adds a part to a name.
pub(crate) fn push_part(path: &mut Vec<u8>, part: &[u8]) {
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(part);
}

/// Writes a name without what means nothing; one that leads upward is refused.
pub(crate) fn normal(path: &[u8]) -> Result<Vec<u8>, LayerProblem> {
    let mut normal = Vec::with_capacity(path.len().min(LONGEST_PATH));
    let mut depth = 0;
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                return Err(LayerProblem::refused(format!(
                    "the name `{}` leads upward",
                    shown(path)
                )));
            }
            part if part.len() > LONGEST_NAME || part.contains(&0) => {
                return Err(LayerProblem::refused(format!(
                    "no file can have the name `{}`",
                    shown(path)
                )));
            }
            part => {
                push_part(&mut normal, part);
                depth += 1;
                if normal.len() > LONGEST_PATH || depth > DEEPEST {
                    return Err(too_long(path));
                }
            }
        }
    }
    Ok(normal)
}

pub(crate) fn too_long(path: &[u8]) -> LayerProblem {
    LayerProblem::refused(format!("the name `{}` is too long", shown(path)))
}

fn target_of(entry: &Entry) -> Result<Box<[u8]>, LayerProblem> {
    let target = entry.link.as_slice();
    if target.is_empty() || target.len() > LONGEST_PATH || target.contains(&0) {
        return Err(LayerProblem::refused(format!(
            "the symbolic link `{}` has no target that one can have",
            shown(&entry.path)
        )));
    }
    Ok(target.into())
}

/// A name for people, which may hold anything.
pub(crate) fn shown(path: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(path).into_owned();
    if text.len() > 200 {
        let end = (0..200).rev().find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or_default());
        text.push('…');
    }
    cabane_label::escape(&text).to_string()
}
