// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The metadata of an image as an archive.
//!
//! `oras` saves a directory as a compressed archive of which every name begins with that of
//! the directory, and unpacks what carries the annotations below; uenv attaches metadata so.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use flate2::read::GzDecoder;
use flate2::{Compression, GzBuilder};
use sha2::{Digest as _, Sha256};
use tar::{Archive, Builder, EntryType, Header};

use crate::Error;
use crate::document::{Descriptor, OciDigest, TITLE};

pub(crate) const ARCHIVE: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
/// The directory, and so the beginning of all names in the archive.
const DIRECTORY: &str = "meta";
/// The digest of the archive before it was compressed.
const CONTENT_DIGEST: &str = "io.deis.oras.content.digest";
/// That a directory is to be made of it.
const UNPACK: &str = "io.deis.oras.content.unpack";

const MAX_ENTRIES: usize = 100_000;
const MAX_BYTES: u64 = 256 * 1024 * 1024;
/// What a registry may send for it.
pub(crate) const MAX_ARCHIVE: u64 = 64 * 1024 * 1024;

/// An archive, and what it is called in a manifest.
pub(crate) struct MetaArchive {
    pub(crate) bytes: Vec<u8>,
    pub(crate) descriptor: Descriptor,
}

/// Packs a metadata directory. The same content gives the same bytes.
pub(crate) fn pack(directory: &Path) -> Result<MetaArchive, Error> {
    let mut archive = Vec::new();
    {
        let mut builder = Builder::new(&mut archive);
        append(&mut builder, directory, Path::new(DIRECTORY))?;
        builder.finish().map_err(Error::io("pack", directory))?;
    }
    let content = OciDigest::of(&archive);
    let packed = GzBuilder::new().mtime(0).write(Vec::new(), Compression::default());
    let packed = write_all(packed, &archive).map_err(Error::io("pack", directory))?;
    let descriptor = Descriptor::of(ARCHIVE, &packed)
        .with(TITLE, DIRECTORY)
        .with(CONTENT_DIGEST, content.to_string())
        .with(UNPACK, "true");
    Ok(MetaArchive { bytes: packed, descriptor })
}

fn write_all(mut packed: flate2::write::GzEncoder<Vec<u8>>, bytes: &[u8]) -> io::Result<Vec<u8>> {
    packed.write_all(bytes)?;
    packed.finish()
}

fn append(builder: &mut Builder<&mut Vec<u8>>, path: &Path, name: &Path) -> Result<(), Error> {
    let metadata = fs::symlink_metadata(path).map_err(Error::io("read", path))?;
    let kind = metadata.file_type();
    let is_program = metadata.permissions().mode() & 0o100 != 0;
    let mut header = Header::new_gnu();
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(0);
    if kind.is_dir() {
        header.set_entry_type(EntryType::Directory);
        header.set_mode(0o755);
        let added = builder.append_data(&mut header, name, io::empty());
        added.map_err(Error::io("pack", path))?;
        let entries = fs::read_dir(path).map_err(Error::io("read", path))?;
        let entries: io::Result<Vec<_>> = entries.map(|entry| Ok(entry?.file_name())).collect();
        let mut entries = entries.map_err(Error::io("read", path))?;
        entries.sort();
        for entry in entries {
            append(builder, &path.join(&entry), &name.join(&entry))?;
        }
        return Ok(());
    }
    if kind.is_symlink() {
        let target = fs::read_link(path).map_err(Error::io("read", path))?;
        header.set_entry_type(EntryType::Symlink);
        header.set_mode(0o777);
        let added = builder.append_link(&mut header, name, target);
        return added.map_err(Error::io("pack", path));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(Error::io("read", path))?;
    let read = file.take(MAX_BYTES).read_to_end(&mut bytes);
    read.map_err(Error::io("read", path))?;
    header.set_entry_type(EntryType::Regular);
    header.set_mode(if is_program { 0o755 } else { 0o644 });
    header.set_size(bytes.len() as u64);
    let added = builder.append_data(&mut header, name, bytes.as_slice());
    added.map_err(Error::io("pack", path))
}

/// Unpacks an archive into an empty directory.
///
/// Who made it is not known: nothing leaves the directory, only files, directories and links
/// come out, and no more than is usual. Returns what is wrong with it.
pub(crate) fn unpack(layer: &Descriptor, bytes: &[u8], into: &Path) -> Result<(), String> {
    let mut content = Sha256::new();
    let reader = Summed { inner: GzDecoder::new(bytes).take(2 * MAX_BYTES), sum: &mut content };
    let mut archive = Archive::new(reader);
    let entries = archive.entries().map_err(|error| error.to_string())?;
    let mut left = MAX_BYTES;
    for (count, entry) in entries.enumerate() {
        let mut entry = entry.map_err(|error| error.to_string())?;
        if count >= MAX_ENTRIES {
            return Err(format!("it has more than {MAX_ENTRIES} entries"));
        }
        let name = entry.path().map_err(|error| error.to_string())?.into_owned();
        let Some(inside) = below_directory(&name)? else {
            continue;
        };
        let size = entry.size();
        left =
            left.checked_sub(size).ok_or_else(|| format!("it has more than {MAX_BYTES} bytes"))?;
        let target = into.join(&inside);
        let outcome = match entry.header().entry_type() {
            EntryType::Directory => make_directory(into, &inside),
            EntryType::Regular | EntryType::Continuous => {
                let mode = entry.header().mode().unwrap_or(0o644);
                write_file(into, &inside, mode, &mut entry)
            }
            EntryType::Symlink => {
                let link = entry.link_name().map_err(|error| error.to_string())?;
                let link = link.ok_or("it has a link that leads nowhere")?;
                make_parents(into, &inside)
                    .and_then(|()| std::os::unix::fs::symlink(&link, &target))
            }
            _ => {
                return Err(format!("`{}` is neither a file nor a link", inside.display()));
            }
        };
        outcome.map_err(|error| format!("`{}`: {error}", inside.display()))?;
    }
    finish(layer, archive.into_inner())
}

/// Takes some files out of an archive. Returns what is wrong with it.
pub(crate) fn files_of(
    layer: &Descriptor,
    bytes: &[u8],
    names: &[&str],
) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let mut content = Sha256::new();
    let reader = Summed { inner: GzDecoder::new(bytes).take(2 * MAX_BYTES), sum: &mut content };
    let mut archive = Archive::new(reader);
    let mut files = BTreeMap::new();
    let mut left = MAX_BYTES;
    for entry in archive.entries().map_err(|error| error.to_string())? {
        let mut entry = entry.map_err(|error| error.to_string())?;
        let name = entry.path().map_err(|error| error.to_string())?;
        let inside = below_directory(&name)?.unwrap_or_default();
        let wanted = names.iter().find(|name| inside == Path::new(name));
        let is_file = entry.header().entry_type().is_file();
        if let Some(name) = wanted.filter(|_| is_file) {
            let mut content = Vec::new();
            let read = (&mut entry).take(left).read_to_end(&mut content);
            read.map_err(|error| error.to_string())?;
            left -= content.len() as u64;
            files.insert((*name).to_owned(), content);
        }
    }
    finish(layer, archive.into_inner())?;
    Ok(files)
}

/// Reads an archive to its end, and tells whether it was what was announced.
fn finish<R: Read>(layer: &Descriptor, mut rest: Summed<'_, R>) -> Result<(), String> {
    io::copy(&mut rest, &mut io::sink()).map_err(|error| error.to_string())?;
    let found = OciDigest(cabane_label::Digest::from_bytes(rest.sum.clone().finalize().into()));
    match layer.annotations.get(CONTENT_DIGEST) {
        Some(expected) if *expected != found.to_string() => {
            Err("its content is not what its manifest says".to_owned())
        }
        _ => Ok(()),
    }
}

/// Takes the name of the directory off the name of an entry; `None` for the directory itself.
fn below_directory(name: &Path) -> Result<Option<PathBuf>, String> {
    let odd = || format!("it has an entry `{}`", cabane_label::escape(&name.to_string_lossy()));
    let mut parts = Vec::new();
    for part in name.components() {
        match part {
            Component::CurDir => {}
            Component::Normal(part) => parts.push(part),
            _ => return Err(odd()),
        }
    }
    if parts.first().is_some_and(|first| *first != DIRECTORY) {
        return Err(odd());
    }
    let inside: PathBuf = parts.into_iter().skip(1).collect();
    Ok((!inside.as_os_str().is_empty()).then_some(inside))
}

/// Makes a directory and those above it. A link on the way was made by the archive.
fn make_directory(root: &Path, inside: &Path) -> io::Result<()> {
    let mut path = root.to_owned();
    for part in inside.components() {
        path.push(part);
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if !fs::symlink_metadata(&path)?.is_dir() {
                    return Err(io::Error::other("something else stands in its way"));
                }
            }
            outcome => outcome?,
        }
    }
    Ok(())
}

fn make_parents(root: &Path, inside: &Path) -> io::Result<()> {
    inside.parent().map_or(Ok(()), |parent| make_directory(root, parent))
}

fn write_file(root: &Path, inside: &Path, mode: u32, content: &mut impl Read) -> io::Result<()> {
    make_parents(root, inside)?;
    let path = root.join(inside);
    let mut file = File::options().write(true).create_new(true).open(&path)?;
    io::copy(content, &mut file)?;
    if mode & 0o100 != 0 {
        let mode = file.metadata()?.permissions().mode();
        file.set_permissions(fs::Permissions::from_mode(mode | (mode & 0o444) >> 2))?;
    }
    Ok(())
}

/// Sums what is read.
struct Summed<'a, R> {
    inner: R,
    sum: &'a mut Sha256,
}

impl<R: Read> Read for Summed<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.sum.update(&buffer[..count]);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> tempfile::TempDir {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("recipe")).unwrap();
        fs::write(place.path().join("env.json"), "{}").unwrap();
        fs::write(place.path().join("recipe/post-install"), "#!/bin/sh").unwrap();
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(place.path().join("recipe/post-install"), mode).unwrap();
        std::os::unix::fs::symlink("env.json", place.path().join("link")).unwrap();
        place
    }

    fn hostile(fill: impl FnOnce(&mut Builder<Vec<u8>>)) -> Result<(), String> {
        let mut builder = Builder::new(Vec::new());
        fill(&mut builder);
        let archive = builder.into_inner().unwrap();
        let packed = GzBuilder::new().write(Vec::new(), Compression::fast());
        let bytes = write_all(packed, &archive).unwrap();
        let place = tempfile::tempdir().unwrap();
        unpack(&Descriptor::of(ARCHIVE, &bytes), &bytes, place.path())
    }

    fn entry(builder: &mut Builder<Vec<u8>>, name: &str, kind: EntryType, link: &str) {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(0);
        header.set_mode(0o644);
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_cksum();
        builder.append(&header, io::empty()).unwrap();
    }

    #[test]
    fn what_is_packed_comes_out_again() {
        let (source, target) = (sample(), tempfile::tempdir().unwrap());
        let archive = pack(source.path()).unwrap();
        unpack(&archive.descriptor, &archive.bytes, target.path()).unwrap();
        let program = target.path().join("recipe/post-install");
        assert_eq!(fs::read_to_string(&program).unwrap(), "#!/bin/sh");
        assert_eq!(fs::metadata(&program).unwrap().permissions().mode() & 0o100, 0o100);
        assert_eq!(fs::read_to_string(target.path().join("link")).unwrap(), "{}");
    }

    #[test]
    fn the_same_metadata_give_the_same_bytes() {
        assert_eq!(pack(sample().path()).unwrap().bytes, pack(sample().path()).unwrap().bytes);
    }

    #[test]
    fn names_that_lead_out_are_refused() {
        for name in ["meta/../../x", "/meta/x", "../x", "other/x"] {
            let outcome = hostile(|builder| entry(builder, name, EntryType::Regular, ""));
            assert!(outcome.is_err(), "{name}");
        }
    }

    #[test]
    fn nothing_is_written_through_a_link() {
        let outcome = hostile(|builder| {
            entry(builder, "meta/link", EntryType::Symlink, "/tmp");
            entry(builder, "meta/link/x", EntryType::Regular, "");
        });
        assert!(outcome.unwrap_err().contains("in its way"));
    }

    #[test]
    fn devices_and_hard_links_are_refused() {
        for kind in [EntryType::Char, EntryType::Fifo, EntryType::Link] {
            let outcome = hostile(|builder| entry(builder, "meta/x", kind, "/etc/passwd"));
            assert!(outcome.is_err());
        }
    }

    #[test]
    fn another_content_than_announced_is_refused() {
        let (source, target) = (sample(), tempfile::tempdir().unwrap());
        let archive = pack(source.path()).unwrap();
        let lie = OciDigest::of(b"something else").to_string();
        let layer = archive.descriptor.with(CONTENT_DIGEST, lie);
        let outcome = unpack(&layer, &archive.bytes, target.path());
        assert!(outcome.unwrap_err().contains("not what its manifest says"));
    }
}
