// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a command has changed in an image, as a layer: a directory as overlayfs leaves it.
//!
//! No link is followed. Nothing may change it while it is read.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, chmodat, fgetxattr, openat, statat};
use rustix::io::Errno;

use crate::entries::{HIDES, Links, about, names, refuse_hiding};
use crate::layer::push_part;
use crate::tar::{Head, Writer};
use crate::{Bytes, Layer, streamed};

/// How overlayfs marks a directory that hides the one below, in a user namespace.
const OPAQUE: &CStr = c"user.overlay.opaque";
const BUFFER: usize = 256 * 1024;

/// Below these, files of a command are left out: they tell when it ran, or can be downloaded again.
/// Directories stay, and what the image had before.
const PASSING: &[&str] = &[
    "root/.cache",
    "var/cache/apk",
    "var/cache/apt",
    "var/cache/dnf",
    "var/cache/ldconfig",
    "var/cache/yum",
    "var/cache/zypp",
    "var/lib/apt/lists",
    "var/log",
    "var/tmp",
];
/// Other file systems are mounted there while commands run.
const MOUNTED: &[&str] = &["dev", "proc", "run", "sys", "tmp"];

/// A time: seconds since 1970, and nanoseconds.
pub type Moment = (i64, u64);

/// When commands ran.
#[derive(Clone, Debug)]
pub struct Times {
    /// The beginning and the end of each. Files with a time in between were made by a command, at a time
    /// that means nothing.
    pub spans: Vec<(Moment, Moment)>,
    /// The time that they have in the image, in seconds since 1970.
    pub settled: u32,
}

/// Returns what a command has changed as a layer. A name that would hide others is an error.
#[must_use]
pub fn changes(upper: &Path, times: &Times) -> Layer<'static> {
    let (name, upper, times) = (cabane_label::shown(upper), upper.to_owned(), times.clone());
    let layer = Layer::of_files(name, move || {
        let (root, times) = (File::open(&upper)?, times.clone());
        let bytes: Bytes<'static> = streamed(move |into| write_changes(root, times, into))?;
        Ok(bytes)
    });
    Layer { is_of_container: true, ..layer }
}

fn write_changes(root: File, times: Times, into: impl Write) -> io::Result<()> {
    let output = Writer::new(BufWriter::with_capacity(BUFFER, into));
    let mut walk = Walk { output, links: Links::default(), times };
    walk.directory(&root.into(), b"")?;
    walk.output.finish()?;
    Ok(())
}

struct Walk<W: Write> {
    output: Writer<BufWriter<W>>,
    links: Links,
    times: Times,
}

impl<W: Write> Walk<W> {
    fn directory(&mut self, directory: &OwnedFd, name: &[u8]) -> io::Result<()> {
        for entry in names(directory)? {
            let mut inside = name.to_vec();
            push_part(&mut inside, entry.to_bytes());
            self.entry(directory, &entry, &inside).map_err(|error| about(&inside, error))?;
        }
        Ok(())
    }

    fn entry(&mut self, directory: &OwnedFd, entry: &CStr, name: &[u8]) -> io::Result<()> {
        refuse_hiding(entry)?;
        let found = statat(directory, entry, AtFlags::SYMLINK_NOFOLLOW)?;
        let kind = FileType::from_raw_mode(found.st_mode);
        let head = self.head(name, &found);
        if kind == FileType::CharacterDevice && found.st_rdev == 0 {
            return self.hide(name, entry.to_bytes());
        }
        if kind == FileType::Directory {
            self.output.directory(head)?;
            let is_mounted = MOUNTED.iter().any(|one| one.as_bytes() == name);
            return if is_mounted { Ok(()) } else { self.inner(directory, entry, name, &found) };
        }
        if is_passing(name) {
            return Ok(());
        }
        match kind {
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(directory, entry, Vec::new())?;
                self.output.symlink(Head { mode: 0o777, ..head }, target.to_bytes())
            }
            FileType::RegularFile => self.file(directory, entry, head, &found),
            other => {
                let is_pipe = matches!(other, FileType::Fifo | FileType::Socket);
                self.output.special(head, is_pipe)
            }
        }
    }

    fn inner(
        &mut self,
        directory: &OwnedFd,
        entry: &CStr,
        name: &[u8],
        found: &Stat,
    ) -> io::Result<()> {
        let closed = found.st_mode & 0o700 != 0o700;
        let mode = Mode::from_raw_mode(found.st_mode);
        if closed {
            chmodat(directory, entry, mode | Mode::RWXU, AtFlags::empty())?;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let inside = openat(directory, entry, flags, Mode::empty())?;
        let written = self.opaque(&inside, name).and_then(|()| self.directory(&inside, name));
        if closed {
            chmodat(directory, entry, mode, AtFlags::empty())?;
        }
        written
    }

    /// Says that nothing of the layers below is in a directory.
    fn opaque(&mut self, directory: &OwnedFd, name: &[u8]) -> io::Result<()> {
        let mut value = [0; 2];
        match fgetxattr(directory.as_fd(), OPAQUE, &mut value[..]) {
            Ok(length) if value.get(..length) == Some(b"y") => self.hide(name, b""),
            Ok(_) | Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::RANGE) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Writes what hides a name; with `last` empty, all in the directory.
    fn hide(&mut self, name: &[u8], last: &[u8]) -> io::Result<()> {
        let above = name.strip_suffix(last).unwrap_or(name);
        let path = if last.is_empty() {
            [above, b"/.wh..wh..opq"].concat()
        } else {
            [above, HIDES, last].concat()
        };
        let head = Head { path: &path, mode: 0o644, mtime: self.times.settled };
        self.output.file(head, 0, &mut io::empty())
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
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let open = || openat(directory, entry, flags, Mode::empty());
        let file = match open() {
            // Its owner may open it all the same.
            Err(Errno::ACCESS) => {
                let mode = Mode::from_raw_mode(found.st_mode);
                chmodat(directory, entry, mode | Mode::RUSR, AtFlags::empty())?;
                let file = open();
                chmodat(directory, entry, mode, AtFlags::empty())?;
                file?
            }
            file => file?,
        };
        let size = u64::try_from(found.st_size).unwrap_or_default();
        self.output.file(head, size, &mut File::from(file))
    }

    fn head<'n>(&self, path: &'n [u8], found: &Stat) -> Head<'n> {
        let Times { spans, settled } = &self.times;
        let time = (found.st_mtime, found.st_mtime_nsec);
        let is_of_command = spans.iter().any(|(begin, end)| (*begin..=*end).contains(&time));
        let mtime =
            if is_of_command { *settled } else { u32::try_from(time.0.max(0)).unwrap_or(*settled) };
        Head { path, mode: found.st_mode & 0o7777, mtime }
    }
}

fn is_passing(name: &[u8]) -> bool {
    PASSING
        .iter()
        .any(|place| name.strip_prefix(place.as_bytes()).is_some_and(|rest| rest.starts_with(b"/")))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::tar::{Kind, Reader};

    const SINCE: u64 = 1_000_000;

    fn listed(root: &Path) -> Result<Vec<String>, String> {
        let mut bytes = Vec::new();
        let since = SINCE.cast_signed();
        let times = Times { spans: vec![((since, 0), (since + 10, 0))], settled: 7 };
        let root = File::open(root).unwrap();
        write_changes(root, times, &mut bytes).map_err(|error| error.to_string())?;
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
            lines.push(format!("{kind} {:o} {} {name}", entry.mode, entry.mtime));
        }
        Ok(lines)
    }

    fn set(path: &Path, mode: u32, time: u64) {
        let file = File::open(path).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(time)).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn times_of_the_command_are_settled_and_others_stay() {
        let root = tempfile::tempdir().unwrap();
        let cases = [("later", 0o644, SINCE + 11), ("new", 0o644, SINCE), ("old", 0, SINCE - 1)];
        for (name, mode, time) in cases {
            fs::write(root.path().join(name), name).unwrap();
            set(&root.path().join(name), mode, time);
        }
        let expected = ["f 644 1000011 later", "f 644 7 new", "f 0 999999 old"];
        assert_eq!(listed(root.path()).unwrap(), expected);
        let mode = root.path().join("old").metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0);
    }

    #[test]
    fn logs_and_what_is_mounted_are_left_out_and_links_are_not_followed() {
        let root = tempfile::tempdir().unwrap();
        for directory in ["var/log/apt", "tmp", "var/logs"] {
            fs::create_dir_all(root.path().join(directory)).unwrap();
            fs::write(root.path().join(directory).join("file"), "").unwrap();
        }
        symlink("/etc", root.path().join("out")).unwrap();
        let lines = listed(root.path()).unwrap();
        let names: Vec<_> = lines.iter().map(|line| line.rsplit(' ').next().unwrap()).collect();
        let expected =
            ["out", "tmp/", "var/", "var/log/", "var/log/apt/", "var/logs/", "var/logs/file"];
        assert_eq!(names, expected);
    }

    #[test]
    fn a_name_that_would_hide_another_file_is_refused() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("etc")).unwrap();
        fs::write(root.path().join("etc/.wh.passwd"), "").unwrap();
        let error = listed(root.path()).unwrap_err();
        assert!(error.starts_with("/etc/.wh.passwd: in a container image"), "{error}");
    }

    #[test]
    fn an_opaque_directory_hides_what_is_below() {
        use rustix::fs::{XattrFlags, setxattr};
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("etc");
        fs::create_dir(&directory).unwrap();
        set(&directory, 0o755, SINCE);
        setxattr(&directory, OPAQUE, b"y", XattrFlags::empty()).unwrap();
        let lines = listed(root.path()).unwrap();
        assert_eq!(lines, ["d 755 7 etc/", "f 644 7 etc/.wh..wh..opq"]);
    }
}
