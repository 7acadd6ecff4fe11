// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The metadata of an image as an archive.
//!
//! `oras` saves a directory as a compressed archive of which every name begins with that of
//! the directory, and unpacks what carries the annotations below; uenv attaches metadata so.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
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

/// Packs a metadata directory. The same content gives the same bytes.
pub(crate) fn pack(directory: &Path) -> Result<(Vec<u8>, Descriptor), Error> {
    let mut builder = Builder::new(Vec::new());
    append(&mut builder, directory, Path::new(DIRECTORY))?;
    let archive = builder.into_inner().map_err(Error::io("pack", directory))?;
    let content = OciDigest::of(&archive);
    let packed = gzip(&archive, Compression::default()).map_err(Error::io("pack", directory))?;
    let descriptor = Descriptor::of(ARCHIVE, &packed)
        .with(TITLE, DIRECTORY)
        .with(CONTENT_DIGEST, content.to_string())
        .with(UNPACK, "true");
    Ok((packed, descriptor))
}

/// Compresses bytes; the same ones give the same bytes.
pub(crate) fn gzip(bytes: &[u8], level: Compression) -> io::Result<Vec<u8>> {
    let mut packed = GzBuilder::new().mtime(0).write(Vec::new(), level);
    packed.write_all(bytes)?;
    packed.finish()
}

fn append(builder: &mut Builder<Vec<u8>>, path: &Path, name: &Path) -> Result<(), Error> {
    let metadata = fs::symlink_metadata(path).map_err(Error::io("read", path))?;
    let (kind, mode) = match metadata.file_type() {
        kind if kind.is_dir() => (EntryType::Directory, 0o755),
        kind if kind.is_symlink() => (EntryType::Symlink, 0o777),
        _ if metadata.permissions().mode() & 0o100 != 0 => (EntryType::Regular, 0o755),
        _ => (EntryType::Regular, 0o644),
    };
    let mut header = Header::new_gnu();
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(0);
    header.set_entry_type(kind);
    header.set_mode(mode);
    if kind == EntryType::Symlink {
        let target = fs::read_link(path).map_err(Error::io("read", path))?;
        let added = builder.append_link(&mut header, name, target);
        return added.map_err(Error::io("pack", path));
    }
    let mut bytes = Vec::new();
    if kind == EntryType::Regular {
        let file = File::open(path).map_err(Error::io("read", path))?;
        file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(Error::io("read", path))?;
        header.set_size(bytes.len() as u64);
    }
    let added = builder.append_data(&mut header, name, bytes.as_slice());
    added.map_err(Error::io("pack", path))?;
    if kind == EntryType::Directory {
        for entry in names_in(path).map_err(Error::io("read", path))? {
            append(builder, &path.join(&entry), &name.join(&entry))?;
        }
    }
    Ok(())
}

fn names_in(directory: &Path) -> io::Result<Vec<OsString>> {
    let names = fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name()));
    let mut names = names.collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

/// Unpacks an archive into an empty directory.
///
/// Who made it is not known: nothing leaves the directory, only files, directories and links
/// come out, and no more than is usual. The error is what is wrong with it.
pub(crate) fn unpack(layer: &Descriptor, bytes: &[u8], into: &Path) -> io::Result<()> {
    let (mut count, mut left) = (0, MAX_BYTES);
    for_each_entry(layer, bytes, |inside, entry| {
        count += 1;
        if count > MAX_ENTRIES {
            return Err(odd(format!("it has more than {MAX_ENTRIES} entries")));
        }
        if inside.as_os_str().is_empty() {
            return Ok(());
        }
        let rest = left.checked_sub(entry.size());
        left = rest.ok_or_else(|| odd(format!("it has more than {MAX_BYTES} bytes")))?;
        let outcome = match entry.header().entry_type() {
            EntryType::Directory => make_directory(into, inside),
            EntryType::Regular | EntryType::Continuous => {
                let mode = entry.header().mode().unwrap_or(0o644);
                write_file(into, inside, mode, entry)
            }
            EntryType::Symlink => {
                let link = entry.link_name()?;
                let link = link.ok_or_else(|| odd("it has a link that leads nowhere"))?;
                make_parents(into, inside).and_then(|()| symlink(&link, into.join(inside)))
            }
            _ => {
                let shown = inside.display();
                return Err(odd(format!("`{shown}` is neither a file nor a link")));
            }
        };
        outcome.map_err(|error| odd(format!("`{}`: {error}", inside.display())))
    })
}

/// Takes some files out of an archive. The error is what is wrong with it.
pub(crate) fn files_of(
    layer: &Descriptor,
    bytes: &[u8],
    names: &[&str],
) -> io::Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    let mut left = MAX_BYTES;
    for_each_entry(layer, bytes, |inside, entry| {
        let wanted = names.iter().find(|name| inside == Path::new(name));
        if let Some(name) = wanted.filter(|_| entry.header().entry_type().is_file()) {
            let mut content = Vec::new();
            entry.take(left).read_to_end(&mut content)?;
            left -= content.len() as u64;
            files.insert((*name).to_owned(), content);
        }
        Ok(())
    })?;
    Ok(files)
}

type ArchiveEntry<'a, 'b> = tar::Entry<'a, Summed<io::Take<GzDecoder<&'b [u8]>>>>;

/// Reads an archive to its end, by the names below its directory, and tells whether it was what
/// was announced.
fn for_each_entry(
    layer: &Descriptor,
    bytes: &[u8],
    mut take: impl FnMut(&Path, &mut ArchiveEntry<'_, '_>) -> io::Result<()>,
) -> io::Result<()> {
    let reader = GzDecoder::new(bytes).take(2 * MAX_BYTES);
    let mut archive = Archive::new(Summed { inner: reader, sum: Sha256::new() });
    for entry in archive.entries()? {
        let mut entry = entry?;
        let inside = below_directory(&entry.path()?)?;
        take(&inside, &mut entry)?;
    }
    let mut rest = archive.into_inner();
    io::copy(&mut rest, &mut io::sink())?;
    let found = OciDigest(cabane_label::Digest::from_bytes(rest.sum.finalize().into()));
    let announced = layer.annotations.get(CONTENT_DIGEST);
    if announced.is_some_and(|announced| *announced != found.to_string()) {
        return Err(odd("its content is not what its manifest says"));
    }
    Ok(())
}

fn odd(what: impl Into<String>) -> io::Error {
    io::Error::other(what.into())
}

/// Takes the name of the directory off the name of an entry; nothing is left of the directory
/// itself.
fn below_directory(name: &Path) -> io::Result<PathBuf> {
    let odd = || odd(format!("it has an entry `{}`", cabane_label::shown(name)));
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
    Ok(parts.into_iter().skip(1).collect())
}

/// Makes a directory and those above it. A link on the way was made by the archive.
fn make_directory(root: &Path, inside: &Path) -> io::Result<()> {
    let mut path = root.to_owned();
    for part in inside.components() {
        path.push(part);
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if !fs::symlink_metadata(&path)?.is_dir() {
                    return Err(io::Error::other("something else is in its way"));
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
struct Summed<R> {
    inner: R,
    sum: Sha256,
}

impl<R: Read> Read for Summed<R> {
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

    fn hostile(fill: impl FnOnce(&mut Builder<Vec<u8>>)) -> io::Result<()> {
        let mut builder = Builder::new(Vec::new());
        fill(&mut builder);
        let archive = builder.into_inner().unwrap();
        let bytes = gzip(&archive, Compression::fast()).unwrap();
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
        let (bytes, descriptor) = pack(source.path()).unwrap();
        unpack(&descriptor, &bytes, target.path()).unwrap();
        let program = target.path().join("recipe/post-install");
        assert_eq!(fs::read_to_string(&program).unwrap(), "#!/bin/sh");
        assert_eq!(fs::metadata(&program).unwrap().permissions().mode() & 0o100, 0o100);
        assert_eq!(fs::read_to_string(target.path().join("link")).unwrap(), "{}");
    }

    #[test]
    fn the_same_metadata_give_the_same_bytes() {
        assert_eq!(pack(sample().path()).unwrap().0, pack(sample().path()).unwrap().0);
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
        assert!(outcome.unwrap_err().to_string().contains("in its way"));
    }

    #[test]
    fn devices_and_hard_links_are_refused() {
        for kind in [EntryType::Char, EntryType::Fifo, EntryType::Link] {
            let outcome = hostile(|builder| entry(builder, "meta/x", kind, "/etc/passwd"));
            assert!(outcome.is_err());
        }
    }

    #[test]
    fn more_than_is_usual_does_not_come_out() {
        let many = hostile(|builder| {
            for number in 0..=MAX_ENTRIES {
                entry(builder, &format!("meta/{number}"), EntryType::Symlink, "x");
            }
        });
        assert!(many.unwrap_err().to_string().contains("more than 100000 entries"));
        let large = hostile(|builder| {
            let mut header = Header::new_gnu();
            header.set_size(MAX_BYTES + 1);
            header.set_mode(0o644);
            let zeros = io::repeat(0).take(MAX_BYTES + 1);
            builder.append_data(&mut header, "meta/zeros", zeros).unwrap();
        });
        assert!(large.unwrap_err().to_string().contains("more than 268435456 bytes"));
    }

    #[test]
    fn another_content_than_announced_is_refused() {
        let (source, target) = (sample(), tempfile::tempdir().unwrap());
        let (bytes, descriptor) = pack(source.path()).unwrap();
        let lie = OciDigest::of(b"something else").to_string();
        let layer = descriptor.with(CONTENT_DIGEST, lie);
        let outcome = unpack(&layer, &bytes, target.path());
        assert!(outcome.unwrap_err().to_string().contains("not what its manifest says"));
    }
}
