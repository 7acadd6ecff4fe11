// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Another process, seen through `/proc`.
//!
//! The directory of the process is opened once. What is read through it belongs to
//! that process and to no later one with the same number: once it has ended, every
//! look fails with `ESRCH`. So there is nothing to check twice.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, fstat, openat, readlinkat, statat};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The numbers by which the kernel tells a pair of namespaces from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NamespaceNumbers {
    pub(crate) user: u64,
    pub(crate) mount: u64,
}

impl NamespaceNumbers {
    /// Returns those of this process.
    pub(crate) fn own() -> io::Result<Self> {
        let number = |path| Ok::<_, io::Error>(rustix::fs::stat(path)?.st_ino);
        Ok(Self { user: number("/proc/self/ns/user")?, mount: number("/proc/self/ns/mnt")? })
    }
}

/// A user namespace and a mount namespace, opened: they stay as long as this does.
#[derive(Debug)]
pub(crate) struct Namespaces {
    pub(crate) user: OwnedFd,
    pub(crate) mount: OwnedFd,
}

impl Namespaces {
    pub(crate) fn numbers(&self) -> io::Result<NamespaceNumbers> {
        Ok(NamespaceNumbers { user: fstat(&self.user)?.st_ino, mount: fstat(&self.mount)?.st_ino })
    }

    /// Moves this process, which must have one thread, into both.
    pub(crate) fn enter(&self) -> io::Result<()> {
        use std::os::fd::AsFd;
        // The first one gives the right to enter the second.
        move_into_link_name_space(self.user.as_fd(), Some(LinkNameSpaceType::User))?;
        move_into_link_name_space(self.mount.as_fd(), Some(LinkNameSpaceType::Mount))?;
        Ok(())
    }
}

/// What `/proc/PID/stat` tells that matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) parent: u32,
    /// In ticks since the system was started.
    pub(crate) start: u64,
    pub(crate) has_ended: bool,
}

/// A process that was there when it was opened.
#[derive(Debug)]
pub(crate) struct Process {
    directory: OwnedFd,
    pub(crate) id: u32,
}

impl Process {
    pub(crate) fn open(id: u32) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(CWD, format!("/proc/{id}"), flags, Mode::empty())?;
        Ok(Self { directory, id })
    }

    /// Opens this process, under the number that it has in this `/proc`.
    pub(crate) fn own() -> io::Result<Self> {
        let link = fs::read_link("/proc/self")?;
        let id = link.to_str().and_then(|text| text.parse().ok());
        Self::open(id.ok_or_else(|| malformed("self"))?)
    }

    pub(crate) fn status(&self) -> io::Result<Status> {
        let text = self.read("stat")?;
        parse_status(&String::from_utf8_lossy(&text)).ok_or_else(|| malformed("stat"))
    }

    /// Returns the user to whom the process belongs: root, if it must not be
    /// looked into.
    pub(crate) fn owner(&self) -> io::Result<u32> {
        Ok(statat(&self.directory, "", AtFlags::EMPTY_PATH)?.st_uid)
    }

    /// Opens the namespaces in which the process is now.
    pub(crate) fn namespaces(&self) -> io::Result<Namespaces> {
        Ok(Namespaces { user: self.open_below("ns/user")?, mount: self.open_below("ns/mnt")? })
    }

    /// Opens namespaces that the process has left but still holds open.
    pub(crate) fn held_namespaces(&self, wanted: NamespaceNumbers) -> io::Result<Namespaces> {
        let gone = || io::Error::from(rustix::io::Errno::NOENT);
        let directory = self.open_directory("fd")?;
        let (mut user, mut mount) = (None, None);
        for entry in Dir::read_from(&directory)? {
            let name = entry?.file_name().to_owned();
            let Ok(link) = readlinkat(&directory, &name, Vec::new()) else {
                continue;
            };
            let link = link.to_string_lossy();
            if link == format!("user:[{}]", wanted.user) {
                user = Some(name);
            } else if link == format!("mnt:[{}]", wanted.mount) {
                mount = Some(name);
            }
        }
        let open = |name| openat(&directory, name, read_flags(), Mode::empty());
        let namespaces = Namespaces {
            user: open(user.ok_or_else(gone)?)?,
            mount: open(mount.ok_or_else(gone)?)?,
        };
        // The numbers of descriptors may have changed hands since they were listed.
        if namespaces.numbers()? == wanted { Ok(namespaces) } else { Err(gone()) }
    }

    /// Returns the variables with which the program of the process was started.
    pub(crate) fn variables(&self) -> io::Result<BTreeMap<OsString, OsString>> {
        Ok(parse_variables(&self.read("environ")?))
    }

    pub(crate) fn working_directory(&self) -> io::Result<PathBuf> {
        let link = readlinkat(&self.directory, "cwd", Vec::new())?;
        Ok(OsString::from_vec(link.into_bytes()).into())
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::from(self.open_below(name)?).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn open_below(&self, name: &str) -> io::Result<OwnedFd> {
        Ok(openat(&self.directory, name, read_flags(), Mode::empty())?)
    }

    fn open_directory(&self, name: &str) -> io::Result<OwnedFd> {
        let flags = read_flags() | OFlags::DIRECTORY;
        Ok(openat(&self.directory, name, flags, Mode::empty())?)
    }
}

fn read_flags() -> OFlags {
    OFlags::RDONLY | OFlags::CLOEXEC
}

fn malformed(name: &str) -> io::Error {
    io::Error::other(format!("/proc/…/{name} has an unknown form"))
}

/// The name of the program, in brackets, may hold blanks and brackets itself.
fn parse_status(text: &str) -> Option<Status> {
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    Some(Status {
        has_ended: matches!(*fields.first()?, "Z" | "X" | "x"),
        parent: fields.get(1)?.parse().ok()?,
        start: fields.get(19)?.parse().ok()?,
    })
}

fn parse_variables(bytes: &[u8]) -> BTreeMap<OsString, OsString> {
    let pairs = bytes.split(|&byte| byte == 0).filter_map(|pair| {
        let position = pair.iter().position(|&byte| byte == b'=')?;
        let (name, value) = pair.split_at(position);
        let text = |bytes| OsStr::from_bytes(bytes).to_owned();
        (!name.is_empty()).then(|| (text(name), text(value.get(1..).unwrap_or_default())))
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_whose_name_looks_like_a_state_is_not_confusing() {
        let text = "12 (a) Z 9 ) S 7 12 12 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 9 9";
        let expected = Status { parent: 7, start: 4711, has_ended: false };
        assert_eq!(parse_status(text), Some(expected));
    }

    #[test]
    fn variables_keep_equals_signs_and_line_breaks() {
        let found = parse_variables(b"A=1=2\0B=x\ny\0=odd\0C=\0");
        let expected = [("A", "1=2"), ("B", "x\ny"), ("C", "")];
        let expected = expected.map(|(name, value)| (name.into(), value.into()));
        assert_eq!(found, BTreeMap::from(expected));
    }

    #[test]
    fn a_process_that_has_ended_shows_nothing_of_its_successor() {
        let mut child = std::process::Command::new("/bin/true").spawn().unwrap();
        let process = Process::open(child.id()).unwrap();
        child.wait().unwrap();
        let error = process.status().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::SRCH.raw_os_error()));
    }
}
