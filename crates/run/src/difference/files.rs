// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which files of two images differ.
//!
//! Both trees are walked in step, directory by directory, while both images are mounted;
//! what differs goes into a file at once. So the memory that is
//! needed is that of the largest directory.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use cabane_mount::{ImageFile, open_in_image};
use cabane_report::Result;
use rustix::fs::{AtFlags, Dir, FileType, Stat, readlinkat, statat};
use serde::{Deserialize, Serialize};

use crate::metadata::{MountMethods, look_into};

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileState {
    /// `file`, `directory`, `link`, or `other`.
    pub kind: String,
    /// The size in bytes; of a directory, that of all files below.
    pub size: u64,
    /// How many files there are: below, if it is a directory.
    pub files: u64,
    /// Whether it may be executed.
    pub is_executable: bool,
    /// Where a link leads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// A path at which two images differ. A directory that only one has stands for
/// everything below.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileDifference {
    /// The path in the image.
    pub path: String,
    /// What the first has there.
    pub from: Option<FileState>,
    /// What the second has there.
    pub to: Option<FileState>,
}

/// Compares the files of two images: kind, size, content, the right to execute, and where
/// links lead. Writes a [`FileDifference`] as JSON into each line of `output`, in the
/// order of the paths.
///
/// # Errors
///
/// An image cannot be mounted or read.
pub fn compare_files(
    from: &ImageFile,
    to: &ImageFile,
    methods: &MountMethods,
    output: &File,
) -> Result<()> {
    look_into(&[from, to], methods, |mounts| {
        let [from, to] = mounts else {
            return Err(io::Error::other("an image is missing"));
        };
        let mut walk = Walk {
            from,
            to,
            output: BufWriter::new(output),
            buffers: [vec![0; BUFFER], vec![0; BUFFER]],
        };
        walk.directory(Path::new("."))?;
        walk.output.flush()?;
        Ok(Vec::new())
    })?;
    Ok(())
}

const BUFFER: usize = 128 << 10;

struct Walk<'a> {
    from: &'a OwnedFd,
    to: &'a OwnedFd,
    output: BufWriter<&'a File>,
    buffers: [Vec<u8>; 2],
}

/// A file as it is listed.
struct Entry {
    name: OsString,
    stat: Stat,
    target: Option<Vec<u8>>,
}

impl Entry {
    fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }

    fn size(&self) -> u64 {
        u64::try_from(self.stat.st_size).unwrap_or_default()
    }

    fn is_executable(&self) -> bool {
        self.kind() == FileType::RegularFile && self.stat.st_mode & 0o111 != 0
    }
}

impl Walk<'_> {
    fn directory(&mut self, directory: &Path) -> io::Result<()> {
        let mut from = list(self.from, directory)?.into_iter().peekable();
        let mut to = list(self.to, directory)?.into_iter().peekable();
        loop {
            let order = match (from.peek(), to.peek()) {
                (None, None) => return Ok(()),
                (Some(one), Some(other)) => one.name.cmp(&other.name),
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
            };
            let one = if order.is_le() { from.next() } else { None };
            let other = if order.is_ge() { to.next() } else { None };
            self.entry(directory, one, other)?;
        }
    }

    fn entry(
        &mut self,
        directory: &Path,
        from: Option<Entry>,
        to: Option<Entry>,
    ) -> io::Result<()> {
        let Some(name) = from.as_ref().or(to.as_ref()).map(|entry| &entry.name) else {
            return Ok(());
        };
        let path = directory.join(name);
        if let (Some(from), Some(to)) = (&from, &to) {
            if from.kind() == FileType::Directory && to.kind() == FileType::Directory {
                return self.directory(&path);
            }
            if self.is_same(&path, from, to)? {
                return Ok(());
            }
        }
        let shown = path.strip_prefix(".").unwrap_or(&path);
        let difference = FileDifference {
            path: shown.to_string_lossy().into_owned(),
            from: from.map(|one| state(self.from, &path, &one)).transpose()?,
            to: to.map(|one| state(self.to, &path, &one)).transpose()?,
        };
        serde_json::to_writer(&mut self.output, &difference)?;
        self.output.write_all(b"\n")
    }

    fn is_same(&mut self, path: &Path, from: &Entry, to: &Entry) -> io::Result<bool> {
        let looks_same = from.kind() == to.kind()
            && from.size() == to.size()
            && from.is_executable() == to.is_executable()
            && from.target == to.target;
        if !looks_same || from.kind() != FileType::RegularFile {
            return Ok(looks_same);
        }
        let mut one = open_in_image(self.from.as_fd(), path)?;
        let mut other = open_in_image(self.to.as_fd(), path)?;
        let [first, second] = &mut self.buffers;
        loop {
            let read = fill(&mut one, first)?;
            let same = fill(&mut other, second)? == read && first.get(..read) == second.get(..read);
            if !same || read == 0 {
                return Ok(same);
            }
        }
    }
}

/// Reads until the buffer is full or the file ends.
fn fill(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read(rest) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Lists a directory in the order of the names.
fn list(mount: &OwnedFd, directory: &Path) -> io::Result<Vec<Entry>> {
    let opened = open_in_image(mount.as_fd(), directory)?;
    let mut entries = Vec::new();
    for entry in Dir::read_from(opened.as_fd())? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let stat = statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let is_link = FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
        let target = is_link.then(|| readlinkat(&opened, name, Vec::new()));
        entries.push(Entry {
            name: OsString::from_vec(name.to_bytes().to_vec()),
            stat,
            target: target.transpose()?.map(std::ffi::CString::into_bytes),
        });
    }
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(entries)
}

fn state(mount: &OwnedFd, path: &Path, entry: &Entry) -> io::Result<FileState> {
    let kind = match entry.kind() {
        FileType::RegularFile => "file",
        FileType::Directory => "directory",
        FileType::Symlink => "link",
        _ => "other",
    };
    let mut state = FileState {
        kind: kind.to_owned(),
        size: entry.size(),
        files: 1,
        is_executable: entry.is_executable(),
        target: entry.target.as_ref().map(|target| String::from_utf8_lossy(target).into_owned()),
    };
    if entry.kind() == FileType::Directory {
        (state.size, state.files) = (0, 0);
        let mut waiting: Vec<PathBuf> = vec![path.to_owned()];
        while let Some(directory) = waiting.pop() {
            for entry in list(mount, &directory)? {
                if entry.kind() == FileType::Directory {
                    waiting.push(directory.join(&entry.name));
                } else {
                    state.size += entry.size();
                    state.files += 1;
                }
            }
        }
    }
    Ok(state)
}
