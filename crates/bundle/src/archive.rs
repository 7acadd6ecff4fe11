// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The file: writing a layout to it, and finding one in it.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use cabane_label::{Digest, escape, shown};
use cabane_registry::Address;
use cabane_registry::sum::Summed;
use cabane_report::{IoContext, Kind, Report, Result};
use serde::{Deserialize, Serialize};
use tar::{EntryType, Header};

use crate::contents::{BundledBase, VERSION};
use crate::layout::{Blob, State};
use crate::pieces::{PieceReader, PieceWriter, existing};
use crate::{Contents, Layout};

const LAYOUT: &str = "oci-layout";
const LAYOUT_TEXT: &[u8] = b"{\"imageLayoutVersion\":\"1.0.0\"}";
const BLOBS: &str = "blobs/sha256/";
const PARTS: &str = "parts/sha256/";
const CONTENTS: &str = "bundle.json";
const INDEX: &str = "index.json";
/// The tag of a manifest: `<repository>:<tag>`.
/// Source: OCI image specification 1.1, annotations.
const REF_NAME: &str = "org.opencontainers.image.ref.name";

/// The most entries of an archive.
const MOST_ENTRIES: usize = 1_000_000;
/// The largest list in an archive, in bytes.
const MAX_LIST: u64 = 256 * 1024 * 1024;

/// Of an image, the parts that are written: where each begins, and how long it is, in bytes.
pub type Parts = Vec<(u64, u64)>;

/// What is written, and where.
pub struct WriteRequest<'a> {
    /// The file.
    pub path: &'a Path,
    /// What the bundle says of itself. Of images with parts, these are written.
    pub contents: &'a Contents,
    /// The most bytes of a file, if it is to be cut.
    pub limit: Option<u64>,
}

/// `index.json`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Index {
    schema_version: u32,
    manifests: Vec<IndexEntry>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct IndexEntry {
    media_type: String,
    digest: String,
    size: u64,
    annotations: BTreeMap<String, String>,
}

/// The first lines of a manifest.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MediaType {
    media_type: Option<String>,
}

impl Layout {
    /// Writes what was put into the layout to a file, which is there as a whole or not at all. Returns the
    /// files. `progress` counts bytes.
    ///
    /// # Errors
    ///
    /// Those of reading and writing, and a blob that has changed since it was put there.
    pub fn write(
        &self,
        request: &WriteRequest<'_>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Vec<PathBuf>> {
        let failed = || format!("write {}", shown(request.path));
        let writer = PieceWriter::new(request.path, request.limit).or_failed(failed)?;
        let mut archive = Archive { writer, written: 0 };
        let outcome = archive.fill(&self.state(), request, progress);
        match outcome {
            Ok(()) => archive.writer.finish().or_failed(failed),
            Err(error) => {
                archive.writer.abandon();
                Err(error)
            }
        }
    }

    /// Opens a bundle: its file, or all of its pieces beside each other.
    ///
    /// # Errors
    ///
    /// It is not there, none, or not complete.
    pub fn open(path: &Path) -> Result<(Self, Contents)> {
        let paths = existing(path);
        if paths.is_empty() {
            let message = format!("there is no bundle {}", shown(path));
            return Err(Report::new(Kind::NotFound, message));
        }
        let reader = PieceReader::open(&paths).or_failed(|| format!("read {}", shown(path)))?;
        Opening { path, count: paths.len(), reader }.read()
    }
}

/// An archive that is written.
struct Archive {
    writer: PieceWriter,
    written: u64,
}

impl Archive {
    fn fill(
        &mut self,
        state: &State,
        request: &WriteRequest<'_>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<()> {
        let failed = || format!("write {}", shown(request.path));
        let parts: BTreeMap<&Digest, &Parts> = request
            .contents
            .images
            .iter()
            .filter_map(|image| Some((&image.digest, image.parts.as_ref()?)))
            .collect();
        let there = |(digest, blob): (&Digest, &Blob)| match parts.get(digest) {
            Some(parts) => parts.iter().map(|(_, length)| length).sum(),
            None => blob.size,
        };
        let total = state.blobs.iter().map(there).sum();
        self.entry(LAYOUT, LAYOUT_TEXT).or_failed(failed)?;
        for (digest, blob) in &state.blobs {
            match parts.get(digest) {
                Some(parts) => self.parts(digest, blob, parts, &mut |now| progress(now, total)),
                None => self.whole(digest, blob, &mut |now| progress(now, total)),
            }
            .or_failed(failed)?;
        }
        let contents = serde_json::to_vec(request.contents).unwrap_or_default();
        self.entry(CONTENTS, &contents).or_failed(failed)?;
        let index = serde_json::to_vec(&index(state).or_failed(failed)?).unwrap_or_default();
        self.entry(INDEX, &index).or_failed(failed)?;
        // The end of an archive.
        self.writer.write_all(&[0; 1024]).or_failed(failed)
    }

    fn header(&mut self, name: &str, size: u64) -> io::Result<()> {
        let mut header = Header::new_ustar();
        header.set_path(name)?;
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o644);
        header.set_size(size);
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        header.set_cksum();
        self.writer.write_all(header.as_bytes())
    }

    fn pad(&mut self, size: u64) -> io::Result<()> {
        let padding = size.next_multiple_of(512) - size;
        let zeros = [0; 512];
        self.writer
            .write_all(zeros.get(..usize::try_from(padding).unwrap_or(0)).unwrap_or_default())
    }

    fn entry(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.header(name, bytes.len() as u64)?;
        self.writer.write_all(bytes)?;
        self.pad(bytes.len() as u64)
    }

    fn whole(
        &mut self,
        digest: &Digest,
        blob: &Blob,
        progress: &mut dyn FnMut(u64),
    ) -> io::Result<()> {
        self.header(&format!("{BLOBS}{digest}"), blob.size)?;
        let mut reader = Summed::new(blob.reader(0, blob.size).ok_or(io::ErrorKind::NotFound)?);
        self.copy(&mut reader, progress)?;
        if reader.digest() != *digest {
            let reason = format!("the content of {digest} has changed");
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        self.pad(blob.size)
    }

    fn parts(
        &mut self,
        digest: &Digest,
        blob: &Blob,
        parts: &Parts,
        progress: &mut dyn FnMut(u64),
    ) -> io::Result<()> {
        let size = parts.iter().map(|(_, length)| length).sum();
        self.header(&format!("{PARTS}{digest}"), size)?;
        for (start, length) in parts {
            let reader = blob.reader(*start, start + length);
            self.copy(&mut reader.ok_or(io::ErrorKind::NotFound)?, progress)?;
        }
        self.pad(size)
    }

    fn copy(&mut self, reader: &mut dyn Read, progress: &mut dyn FnMut(u64)) -> io::Result<()> {
        let mut buffer = vec![0; 1 << 18];
        loop {
            let count = reader.read(&mut buffer)?;
            if count == 0 {
                return Ok(());
            }
            self.writer.write_all(buffer.get(..count).unwrap_or_default())?;
            self.written += count as u64;
            progress(self.written);
        }
    }
}

/// Lists all tags, so that other tools find the images.
fn index(state: &State) -> io::Result<Index> {
    let mut manifests = Vec::new();
    for (repository, tags) in &state.tags {
        for (tag, digest) in tags {
            let blob = state.blobs.get(digest).ok_or(io::ErrorKind::NotFound)?;
            let mut bytes = Vec::new();
            let reader = blob.reader(0, blob.size).ok_or(io::ErrorKind::NotFound)?;
            reader.take(blob.size).read_to_end(&mut bytes)?;
            let kind: Option<MediaType> = serde_json::from_slice(&bytes).ok();
            let kind = kind.and_then(|kind| kind.media_type);
            manifests.push(IndexEntry {
                media_type: kind.unwrap_or_else(|| MANIFEST.to_owned()),
                digest: format!("sha256:{digest}"),
                size: blob.size,
                annotations: BTreeMap::from([(REF_NAME.to_owned(), format!("{repository}:{tag}"))]),
            });
        }
    }
    Ok(Index { schema_version: 2, manifests })
}

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// A file that is opened.
struct Opening<'a> {
    path: &'a Path,
    /// How many files it is.
    count: usize,
    reader: PieceReader,
}

impl Opening<'_> {
    fn malformed(&self, reason: &str) -> Report {
        let message = format!("{} is not a bundle of images: {reason}", shown(self.path));
        Report::new(Kind::BadInput, message)
    }

    fn incomplete(&self) -> Report {
        let path = shown(self.path);
        let (message, hint) = match self.count {
            1 => (format!("the end of {path} is missing"), "copy the file again".to_owned()),
            count => (
                format!("the end of {path} is missing: there are {count} pieces"),
                "all pieces belong in one directory".to_owned(),
            ),
        };
        Report::new(Kind::BadInput, message).hinted(hint)
    }

    fn read(self) -> Result<(Layout, Contents)> {
        let entries = self.entries()?;
        let (Some(contents), Some(index)) = (entries.get(CONTENTS), entries.get(INDEX)) else {
            let is_ours = entries.contains_key(LAYOUT);
            return Err(if is_ours { self.incomplete() } else { self.malformed("it has no list") });
        };
        let contents: Contents = self.list(CONTENTS, *contents)?;
        if contents.version != VERSION {
            let version = contents.version;
            return Err(self.malformed(&format!("its format has the version {version}")));
        }
        // It is remembered and shown, and anyone may have written it.
        if contents.registry.parse::<Address>().is_err() {
            return Err(self.malformed("it does not name the registry from which it is"));
        }
        let index: Index = self.list(INDEX, *index)?;
        let mut state = State::default();
        for (name, place) in &entries {
            let digest = name.strip_prefix(BLOBS).map(str::parse::<Digest>);
            if let Some(Ok(digest)) = digest {
                let pieces = self.reader.locate(place.start, place.length, 0);
                state.blobs.insert(digest, Blob::new(place.length, pieces));
            }
        }
        for image in &contents.images {
            if let Some(parts) = &image.parts {
                let name = format!("{PARTS}{}", image.digest);
                let place = entries.get(name.as_str()).copied();
                let blob = place.and_then(|place| self.partial(image.size, parts, place));
                let mut blob = blob.ok_or_else(|| {
                    self.malformed(&format!("the parts of {} do not fit", image.digest.id()))
                })?;
                blob.bases = image.bases.iter().map(BundledBase::image).collect();
                state.blobs.insert(image.digest.clone(), blob);
            }
        }
        for entry in index.manifests {
            let name = entry.annotations.get(REF_NAME).and_then(|name| name.rsplit_once(':'));
            let digest = entry.digest.strip_prefix("sha256:").and_then(|text| text.parse().ok());
            if let (Some((repository, tag)), Some(digest)) = (name, digest) {
                let tags = state.tags.entry(repository.to_owned()).or_default();
                tags.insert(tag.to_owned(), digest);
            }
        }
        Ok((Layout::of(state), contents))
    }

    /// Finds the parts of an image, which follow each other in the archive.
    fn partial(&self, size: u64, parts: &Parts, place: Place) -> Option<Blob> {
        let (mut pieces, mut start, mut reached) = (Vec::new(), place.start, 0);
        for (at, length) in parts {
            let end = at.checked_add(*length)?;
            if *at < reached || end > size {
                return None;
            }
            pieces.extend(self.reader.locate(start, *length, *at));
            (start, reached) = (start.checked_add(*length)?, end);
        }
        let is_all = start == place.start + place.length;
        is_all.then(|| Blob::new(size, pieces))
    }

    /// Finds the entries of the archive, up to where it ends.
    fn entries(&self) -> Result<BTreeMap<String, Place>> {
        let mut entries = BTreeMap::new();
        let mut start = 0;
        while let Some(header) = self.header(start)? {
            let size = header.entry_size().map_err(|_| self.malformed("it is not an archive"))?;
            let begin = start + 512;
            let end = begin.checked_add(size).filter(|end| *end <= self.reader.length());
            let Some(end) = end else { break };
            let name = header.path().map_err(|_| self.malformed("it is not an archive"))?;
            let name = name.to_string_lossy().into_owned();
            if entries.len() == MOST_ENTRIES {
                return Err(self.malformed(&format!("it has more than {MOST_ENTRIES} entries")));
            }
            let place = Place { start: begin, length: size };
            if entries.insert(name.clone(), place).is_some() {
                return Err(self.malformed(&format!("it has two `{}`", escape(&name))));
            }
            start = end.next_multiple_of(512);
        }
        Ok(entries)
    }

    /// Returns the header at a place; `None` at the end.
    fn header(&self, start: u64) -> Result<Option<Header>> {
        let mut header = Header::new_ustar();
        let block = header.as_mut_bytes();
        let pieces = self.reader.locate(start, 512, 0);
        let blob = Blob::new(512, pieces);
        let Some(mut reader) = blob.reader(0, 512) else {
            return Ok(None);
        };
        reader.read_exact(block).or_failed(|| format!("read {}", shown(self.path)))?;
        if block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let sum: u32 = block
            .iter()
            .enumerate()
            .map(|(index, byte)| if (148..156).contains(&index) { 32 } else { u32::from(*byte) })
            .sum();
        let is_good = header.cksum().is_ok_and(|written| written == sum);
        if is_good { Ok(Some(header)) } else { Err(self.malformed("it is not an archive")) }
    }

    fn list<D: for<'de> Deserialize<'de>>(&self, name: &str, place: Place) -> Result<D> {
        if place.length > MAX_LIST {
            return Err(self.malformed(&format!("`{name}` has more than {MAX_LIST} bytes")));
        }
        let blob = Blob::new(place.length, self.reader.locate(place.start, place.length, 0));
        let mut bytes = Vec::new();
        if let Some(reader) = blob.reader(0, place.length) {
            let read = reader.take(place.length).read_to_end(&mut bytes);
            read.or_failed(|| format!("read {}", shown(self.path)))?;
        }
        serde_json::from_slice(&bytes)
            .map_err(|error| self.malformed(&format!("`{name}` is malformed: {error}")))
    }
}

/// Where something is in an archive, in bytes.
#[derive(Clone, Copy)]
struct Place {
    start: u64,
    length: u64,
}

#[cfg(test)]
mod tests {
    use std::fs;

    use cabane_registry::{Backing, BackingBody, BackingRequest};
    use proptest::prelude::*;

    use super::*;

    fn put(layout: &Layout, path: &str, body: &[u8]) -> u16 {
        let request = BackingRequest {
            method: "PUT",
            path,
            parameters: Vec::new(),
            range: None,
            known: None,
            body: BackingBody::Bytes(body),
        };
        layout.answer(&request).unwrap().status
    }

    /// Returns a bundle with one manifest.
    fn archive(directory: &Path) -> Vec<u8> {
        let layout = Layout::new().unwrap();
        assert_eq!(put(&layout, "ns/here/any/app/1.0/manifests/v1", b"{}"), 201);
        let contents = Contents {
            version: VERSION,
            registry: "https://registry.example".to_owned(),
            channels: Vec::new(),
            images: Vec::new(),
        };
        let path = directory.join("bundle");
        let request = WriteRequest { path: &path, contents: &contents, limit: None };
        layout.write(&request, &mut |_, _| ()).unwrap();
        fs::read(path).unwrap()
    }

    #[test]
    fn the_same_content_is_the_same_file_and_can_be_read_back() {
        let directory = tempfile::tempdir().unwrap();
        let bytes = archive(directory.path());
        assert_eq!(bytes, archive(directory.path()));
        let (layout, contents) = Layout::open(&directory.path().join("bundle")).unwrap();
        assert_eq!(contents.registry, "https://registry.example");
        let digest = cabane_registry::sum::bytes(b"{}");
        let tagged = layout.state().tags.get("ns/here/any/app/1.0").cloned().unwrap();
        assert_eq!(tagged.get("v1"), Some(&digest));
        let other = Layout::open(&directory.path().join("bundle")).unwrap().0;
        assert_eq!(put(&other, "ns/here/any/app/1.0/manifests/v2", b"{}"), 405);
    }

    #[test]
    fn a_bundle_whose_registry_is_no_address_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let bytes = archive(directory.path());
        let text = b"https://registry.example";
        let place = bytes.windows(text.len()).position(|window| window == text).unwrap();
        let mut changed = bytes;
        changed[place..place + 9].copy_from_slice(b"\\u001b://");
        let path = directory.path().join("changed");
        fs::write(&path, changed).unwrap();
        let error = Layout::open(&path).unwrap_err().to_string();
        assert!(error.contains("does not name the registry"), "{error}");
    }

    proptest! {
        #[test]
        fn no_file_is_too_strange(
            place in 0_usize..6000,
            bytes in proptest::collection::vec(any::<u8>(), 0..64),
            end in 0_usize..8000,
        ) {
            let directory = tempfile::tempdir().unwrap();
            let mut changed = archive(directory.path());
            for (index, byte) in bytes.iter().enumerate() {
                if let Some(at) = changed.get_mut(place + index) {
                    *at = *byte;
                }
            }
            changed.truncate(end.max(place));
            let path = directory.path().join("changed");
            fs::write(&path, changed).unwrap();
            let _ = Layout::open(&path);
        }
    }
}
