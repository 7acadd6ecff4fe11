// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is mounted somewhere, as an archive.
//!
//! No link is followed. Everything belongs to root; what gives rights is left out, since an
//! image of ours is mounted such that it gives none, and a container runtime would give them.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fgetxattr, flistxattr};
use serde::{Deserialize, Serialize};

use crate::entries::{Links, about, names, refuse_hiding};
use crate::layer::push_part;
use crate::tar::{Head, Writer};

/// Attributes of users; others give rights, or mean something only where they are.
const ATTRIBUTES: &[u8] = b"user.";
/// The largest value of an attribute, and the longest list of names, in Linux.
const LARGEST_ATTRIBUTE: usize = 64 * 1024;
const BUFFER: usize = 256 * 1024;

/// What was found in a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Walked {
    /// How many files and directories there are.
    pub entries: u64,
    /// Devices, pipes and sockets that are left out.
    pub special: u64,
    /// Set-user-id and set-group-id bits that are left out.
    pub set_id: u64,
    /// For which processor the first program or library is, as ELF numbers them.
    pub machine: Option<u16>,
}

/// How a tree is written.
#[derive(Clone, Copy, Debug)]
pub struct Walking<'a> {
    /// Where it is in the archive: an absolute path, `/` for the root.
    pub place: &'a str,
    /// Names at the top of the tree that are left out.
    pub without: &'a [&'a str],
    /// The time that all files have, in seconds since 1970, with the usual modes: for what
    /// was not made by a build. Directories above the tree are not in the archive then.
    pub settled: Option<u32>,
}

/// Writes the tree below a directory, or a file, as an archive.
///
/// # Errors
///
/// What cannot be read or written, with its name.
pub fn write_tree(
    root: BorrowedFd<'_>,
    walking: &Walking<'_>,
    output: impl Write,
) -> io::Result<Walked> {
    let mut walk = Walk {
        output: Writer::new(BufWriter::with_capacity(BUFFER, output)),
        links: Links::default(),
        walked: Walked::default(),
        settled: walking.settled,
        buffer: vec![0; LARGEST_ATTRIBUTE],
    };
    let mut name = Vec::new();
    let place = walking.place.split('/');
    let parts: Vec<&str> = place.filter(|part| !part.is_empty()).collect();
    let of_root = rustix::fs::fstat(root)?;
    let is_directory = FileType::from_raw_mode(of_root.st_mode) == FileType::Directory;
    for (index, part) in parts.iter().enumerate() {
        push_part(&mut name, part.as_bytes());
        // The last one is the root of the image, and the others are nowhere.
        let is_last = index + 1 == parts.len();
        let above = Head { path: &name, mode: 0o755, mtime: 0 };
        let head = if is_last { walk.head(&name, &of_root) } else { above };
        if is_last && is_directory || !is_last && walking.settled.is_none() {
            walk.output.directory(head)?;
            walk.walked.entries += 1;
        }
    }
    if !is_directory {
        let file = File::from(root.try_clone_to_owned()?);
        let head = walk.head(&name, &of_root);
        walk.content(file, head, &of_root)?;
        walk.output.finish()?;
        return Ok(walk.walked);
    }
    let directory = rustix::fs::openat(root, c".", directory_flags(), Mode::empty())?;
    walk.directory(&directory, &name, walking.without)?;
    walk.output.finish()?;
    Ok(walk.walked)
}

struct Walk<W: Write> {
    output: Writer<BufWriter<W>>,
    links: Links,
    walked: Walked,
    settled: Option<u32>,
    /// For attributes.
    buffer: Vec<u8>,
}

impl<W: Write> Walk<W> {
    fn directory(&mut self, directory: &OwnedFd, name: &[u8], without: &[&str]) -> io::Result<()> {
        for entry in names(directory)? {
            if without.iter().any(|one| one.as_bytes() == entry.to_bytes()) {
                continue;
            }
            let mut inside = name.to_vec();
            push_part(&mut inside, entry.to_bytes());
            self.entry(directory, &entry, &inside).map_err(|error| about(&inside, error))?;
        }
        Ok(())
    }

    fn entry(&mut self, directory: &OwnedFd, entry: &CStr, name: &[u8]) -> io::Result<()> {
        let found = rustix::fs::statat(directory, entry, AtFlags::SYMLINK_NOFOLLOW)?;
        let head = self.head(name, &found);
        self.walked.entries += 1;
        refuse_hiding(entry)?;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => {
                let inside =
                    rustix::fs::openat(directory, entry, directory_flags(), Mode::empty())?;
                self.rights(&found);
                self.attributes(inside.as_fd())?;
                self.output.directory(head)?;
                self.directory(&inside, name, &[])
            }
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(directory, entry, Vec::new())?;
                let head = Head { mode: 0o777, ..head };
                self.output.symlink(head, target.to_bytes())
            }
            FileType::RegularFile => self.file(directory, entry, head, &found),
            _ => {
                self.walked.entries -= 1;
                self.walked.special += 1;
                Ok(())
            }
        }
    }

    fn file(
        &mut self,
        directory: &OwnedFd,
        entry: &CStr,
        head: Head<'_>,
        found: &Stat,
    ) -> io::Result<()> {
        if let Some(first) = self.links.first(found, head.path) {
            return self.output.link(head, first);
        }
        self.rights(found);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = rustix::fs::openat(directory, entry, flags, Mode::empty())?;
        self.attributes(file.as_fd())?;
        self.content(File::from(file), head, found)
    }

    fn content(&mut self, mut file: File, head: Head<'_>, found: &Stat) -> io::Result<()> {
        if self.walked.machine.is_none() {
            self.walked.machine = machine_of(&mut file)?;
        }
        let size = u64::try_from(found.st_size).unwrap_or_default();
        self.output.file(head, size, &mut file)
    }

    fn head<'n>(&self, path: &'n [u8], found: &Stat) -> Head<'n> {
        let is_directory = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
        let mode = match self.settled {
            None => found.st_mode & 0o1777,
            Some(_) if is_directory || found.st_mode & 0o111 != 0 => 0o755,
            Some(_) => 0o644,
        };
        Head { path, mode, mtime: self.settled.unwrap_or_else(|| time_of(found)) }
    }

    fn rights(&mut self, found: &Stat) {
        self.walked.set_id += u64::from(found.st_mode & 0o6000 != 0);
    }

    fn attributes(&mut self, file: BorrowedFd<'_>) -> io::Result<()> {
        use rustix::io::Errno;
        let length = match flistxattr(file, self.buffer.as_mut_slice()) {
            // There are none, or the file system knows none.
            Ok(0) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(()),
            length => length?,
        };
        let names = self.buffer.get(..length).unwrap_or_default().to_vec();
        let mut names: Vec<&[u8]> = names.split(|byte| *byte == 0).collect();
        names.retain(|name| name.starts_with(ATTRIBUTES));
        names.sort_unstable();
        for name in names {
            let key = CString::new(name)?;
            let length = fgetxattr(file, key.as_c_str(), self.buffer.as_mut_slice())?;
            let value = self.buffer.get(..length).unwrap_or_default();
            self.output.attribute(name, value);
        }
        Ok(())
    }
}

fn directory_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

fn time_of(found: &Stat) -> u32 {
    u32::try_from(found.st_mtime.max(0)).unwrap_or(u32::MAX)
}

/// Reads for which processor a program is, and goes back to its beginning.
fn machine_of(file: &mut File) -> io::Result<Option<u16>> {
    let mut head = Vec::new();
    file.take(20).read_to_end(&mut head)?;
    file.rewind()?;
    let is_little = head.get(5) == Some(&1);
    let number = match head.get(18..20) {
        Some(&[low, high]) if head.starts_with(b"\x7fELF") && is_little => {
            u16::from_le_bytes([low, high])
        }
        Some(&[high, low]) if head.starts_with(b"\x7fELF") => u16::from_be_bytes([high, low]),
        _ => return Ok(None),
    };
    Ok(Some(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use crate::tar::{Kind, Reader};

    /// Names, kinds, modes and targets as they are in the archive of a directory.
    fn listed(root: &std::path::Path, place: &str) -> (Vec<String>, Walked) {
        let directory = File::open(root).unwrap();
        let mut bytes = Vec::new();
        let walked = {
            let walking = Walking { place, without: &["left"], settled: None };
            write_tree(directory.as_fd(), &walking, &mut bytes)
        }
        .unwrap();
        let mut reader = Reader::new(bytes.as_slice());
        let mut lines = Vec::new();
        while let Some(entry) = reader.next_entry().unwrap() {
            let kind = match entry.kind {
                Kind::Directory => 'd',
                Kind::File => 'f',
                Kind::Symlink => 'l',
                Kind::Link => 'h',
                _ => '?',
            };
            let name = String::from_utf8_lossy(&entry.path);
            let link = String::from_utf8_lossy(&entry.link);
            let text = format!("{kind} {:o} {name} {link}", entry.mode);
            lines.push(text.trim_end().to_owned());
        }
        (lines, walked)
    }

    #[test]
    fn a_tree_is_written_at_its_place_with_links_and_without_rights() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path();
        fs::create_dir(path.join("left")).unwrap();
        fs::create_dir(path.join("bin")).unwrap();
        fs::write(path.join("bin/su"), "").unwrap();
        fs::set_permissions(path.join("bin/su"), fs::Permissions::from_mode(0o4755)).unwrap();
        fs::hard_link(path.join("bin/su"), path.join("bin/zu")).unwrap();
        symlink("../../nowhere", path.join("link")).unwrap();
        for name in ["bin", "."] {
            let mode = fs::Permissions::from_mode(0o750);
            fs::set_permissions(path.join(name), mode).unwrap();
        }
        let (lines, walked) = listed(path, "/user/env");
        assert_eq!(
            lines,
            [
                "d 755 user/",
                "d 750 user/env/",
                "d 750 user/env/bin/",
                "f 755 user/env/bin/su",
                "h 755 user/env/bin/zu user/env/bin/su",
                "l 777 user/env/link ../../nowhere",
            ]
        );
        assert_eq!((walked.entries, walked.set_id), (6, 1));
    }

    #[test]
    fn attributes_of_users_are_kept() {
        use rustix::fs::{XattrFlags, setxattr};
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        fs::write(&file, "").unwrap();
        for (name, value) in [("user.b", "two"), ("user.a", "one")] {
            setxattr(&file, name, value.as_bytes(), XattrFlags::empty()).unwrap();
        }
        let mut bytes = Vec::new();
        let directory = File::open(root.path()).unwrap();
        {
            let walking = Walking { place: "/", without: &[], settled: None };
            write_tree(directory.as_fd(), &walking, &mut bytes)
        }
        .unwrap();
        let text = String::from_utf8_lossy(&bytes);
        let records = "27 SCHILY.xattr.user.a=one\n27 SCHILY.xattr.user.b=two\n";
        assert!(text.contains(records));
    }

    #[test]
    fn the_processor_of_the_first_program_is_found() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a"), "text").unwrap();
        fs::copy(std::env::current_exe().unwrap(), root.path().join("b")).unwrap();
        let (lines, walked) = listed(root.path(), "/");
        let expected = match std::env::consts::ARCH {
            "x86_64" => 62,
            "aarch64" => 183,
            other => panic!("what is the number of {other}?"),
        };
        assert_eq!((lines.len(), walked.machine), (2, Some(expected)));
    }
}
