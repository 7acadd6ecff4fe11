// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Where processes that share namespaces find each other.
//!
//! ```text
//! /tmp/cabane-1000/            of the user, mode 0700, on this node
//! ├── step-9f2c…               one file for each pair of namespaces
//! └── name-77aa…
//! ```
//!
//! A file tells who is in the namespaces. It is locked while a process looks, makes
//! namespaces or adds himself; the kernel drops the lock of a process that is killed.
//! What it says is never trusted: members are looked up through `/proc`. Who may be
//! looked up under which name is the matter of `join`.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, flock, fstat, mkdirat, openat,
    statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::process::{NamespaceNumbers, Process};

const FIRST_LINE: &str = "cabane gathering 1";
/// A file that is larger was not written by us.
const MAX_SIZE: u64 = 4 << 20;
/// More members than this are looked through, and the dead ones left out.
const MANY: usize = 512;

/// A process in the namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) id: u32,
    /// Tells it from a later process with the same number.
    pub(crate) start: u64,
}

impl Member {
    /// Returns this process.
    pub(crate) fn own() -> io::Result<Self> {
        let process = Process::own()?;
        let start = process.status()?.start;
        Ok(Self { id: process.id, start })
    }

    /// Opens the process, unless it has ended.
    pub(crate) fn living(self) -> Option<Process> {
        let process = Process::open(self.id).ok()?;
        let status = process.status().ok()?;
        (status.start == self.start && !status.has_ended).then_some(process)
    }
}

/// What a file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    /// The system and its processes in which the numbers mean something.
    pub(crate) world: String,
    /// A digest of what is mounted, and from where it was entered.
    pub(crate) digest: String,
    /// The images, for people.
    pub(crate) images: String,
    pub(crate) namespaces: NamespaceNumbers,
    pub(crate) members: Vec<Member>,
}

/// Names this start of the system and this `/proc`: numbers of processes and of
/// namespaces mean nothing elsewhere.
pub(crate) fn world() -> io::Result<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let processes = rustix::fs::stat("/proc/self/ns/pid")?.st_ino;
    Ok(format!("{} {processes}", boot.trim()))
}

/// The directory of a user, on this node.
#[derive(Debug)]
pub(crate) struct Directory {
    directory: OwnedFd,
    path: PathBuf,
}

impl Directory {
    /// Makes the directory, or opens the one that is there if no one else can have
    /// put anything into it.
    pub(crate) fn make(path: &Path) -> io::Result<Self> {
        match mkdirat(CWD, path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => Self::open(path),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Opens the directory if it is one of the user's own and closed to others.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = openat(CWD, path, flags, Mode::empty()).map_err(|errno| match errno {
            Errno::LOOP | Errno::NOTDIR | Errno::ACCESS => not_closed(),
            errno => errno.into(),
        })?;
        let found = fstat(&directory)?;
        let is_mine = found.st_uid == geteuid().as_raw();
        if is_mine && Mode::from_raw_mode(found.st_mode) == Mode::RWXU {
            let path = path.to_owned();
            Ok(Self { directory, path })
        } else {
            Err(not_closed())
        }
    }

    /// Opens and locks a file, and makes it if it is not there. Waits while others
    /// hold the lock and write; one who keeps it for longer than `time_limit` and does
    /// not write may have been stopped.
    pub(crate) fn lock(&self, name: &str, time_limit: Duration) -> Result<Rendezvous, LockError> {
        loop {
            let file = self.open_file(OsStr::new(name), OFlags::CREATE)?;
            wait_for_lock(&file, time_limit)?;
            // It may have been swept away while this process waited.
            if self.is_still_there(OsStr::new(name), &file) {
                return Ok(Rendezvous { file });
            }
        }
    }

    /// Removes the files of namespaces without processes, and returns
    /// their names, with or without removing them. A file that is locked is in use.
    pub(crate) fn sweep(&self, world: &str, dry_run: bool) -> io::Result<Vec<PathBuf>> {
        let mut swept = Vec::new();
        for entry in Dir::read_from(&self.directory)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if matches!(name.as_bytes(), b"." | b"..") {
                continue;
            }
            let Ok(file) = self.open_file(name, OFlags::empty()) else {
                continue;
            };
            if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err()
                || !self.is_still_there(name, &file)
            {
                continue;
            }
            let mut rendezvous = Rendezvous { file };
            if rendezvous.is_stale(world) {
                if !dry_run {
                    unlinkat(&self.directory, name, AtFlags::empty())?;
                }
                swept.push(self.path.join(name));
            }
        }
        Ok(swept)
    }

    fn open_file(&self, name: &OsStr, more: OFlags) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | more;
        let file = openat(&self.directory, name, flags, Mode::RUSR | Mode::WUSR)?;
        if FileType::from_raw_mode(fstat(&file)?.st_mode) == FileType::RegularFile {
            Ok(file.into())
        } else {
            Err(Errno::INVAL.into())
        }
    }

    fn is_still_there(&self, name: &OsStr, file: &File) -> bool {
        let (Ok(there), Ok(here)) =
            (statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW), fstat(file))
        else {
            return false;
        };
        (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)
    }
}

/// Why a file is not locked.
#[derive(Debug)]
pub(crate) enum LockError {
    /// A process holds the lock: this process, if the system tells.
    Kept(Option<u32>),
    /// The file cannot be used.
    File(io::Error),
}

impl From<io::Error> for LockError {
    fn from(error: io::Error) -> Self {
        Self::File(error)
    }
}

/// Asks again and again: a wait that the kernel does cannot be ended without a signal.
fn wait_for_lock(file: &File, time_limit: Duration) -> Result<(), LockError> {
    const LONGEST_PAUSE: Duration = Duration::from_millis(8);
    let state = || fstat(file).map(|found| (found.st_size, found.st_mtime, found.st_mtime_nsec));
    let mut pause = Duration::from_micros(200);
    let (mut since, mut seen) = (Instant::now(), state().map_err(io::Error::from)?);
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK | Errno::INTR) => {}
            Err(errno) => return Err(LockError::File(errno.into())),
        }
        let now = state().map_err(io::Error::from)?;
        if now != seen {
            (since, seen) = (Instant::now(), now);
        } else if since.elapsed() > time_limit {
            return Err(LockError::Kept(lock_owner(file)));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Returns the owner of the lock of a file, if it is a process that can be seen from here.
fn lock_owner(file: &File) -> Option<u32> {
    let inode = fstat(file).ok()?.st_ino.to_string();
    let locks = fs::read_to_string("/proc/locks").ok()?;
    // 1: FLOCK  ADVISORY  WRITE 4711 00:1d:1234 0 EOF
    locks.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_it = fields.get(1) == Some(&"FLOCK")
            && fields.get(5)?.rsplit(':').next() == Some(inode.as_str());
        let id = fields.get(4)?.parse().ok()?;
        (is_it && id != 0).then_some(id)
    })
}

fn not_closed() -> io::Error {
    io::Error::other("it is not a directory of yours with mode 0700")
}

/// A locked file.
#[derive(Debug)]
pub(crate) struct Rendezvous {
    file: File,
}

impl Rendezvous {
    /// Reads the file; `None` if it is empty or not whole.
    pub(crate) fn read(&mut self) -> io::Result<Option<Content>> {
        let mut bytes = Vec::new();
        self.file.rewind()?;
        (&self.file).take(MAX_SIZE).read_to_end(&mut bytes)?;
        Ok(Content::parse(&String::from_utf8_lossy(&bytes)))
    }

    /// Puts something new in place of whatever the file says.
    pub(crate) fn begin(&mut self, content: &Content) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(content.to_text().as_bytes())
    }

    /// Adds a member to what was read.
    pub(crate) fn add(&mut self, mut content: Content, member: Member) -> io::Result<()> {
        if content.members.len() < MANY {
            self.file.seek(io::SeekFrom::End(0))?;
            return self.file.write_all(line_of(member).as_bytes());
        }
        content.members.retain(|member| member.living().is_some());
        content.members.push(member);
        self.begin(&content)
    }

    fn is_stale(&mut self, world: &str) -> bool {
        match self.read() {
            Ok(Some(content)) if content.world == world => {
                content.members.iter().all(|member| member.living().is_none())
            }
            // Of an earlier start of the system, or of a container that may live.
            Ok(Some(content)) => boot_of(&content.world) != boot_of(world),
            Ok(None) => true,
            Err(_) => false,
        }
    }
}

fn boot_of(world: &str) -> &str {
    world.split(' ').next().unwrap_or_default()
}

fn line_of(member: Member) -> String {
    format!("member {} {}\n", member.id, member.start)
}

impl Content {
    fn to_text(&self) -> String {
        let NamespaceNumbers { user, mount } = self.namespaces;
        let mut text = format!(
            "{FIRST_LINE}\nworld {}\ndigest {}\nimages {}\nnamespaces {user} {mount}\n",
            self.world, self.digest, self.images
        );
        for &member in &self.members {
            let _ = write!(text, "{}", line_of(member));
        }
        text
    }

    /// Reads whole lines only: of the last one a part may be missing.
    fn parse(text: &str) -> Option<Self> {
        let (whole, _) = text.rsplit_once('\n')?;
        let mut lines = whole.split('\n');
        (lines.next()? == FIRST_LINE).then_some(())?;
        let mut value = |name| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        let world = value("world")?.to_owned();
        let digest = value("digest")?.to_owned();
        let images = value("images")?.to_owned();
        let (user, mount) = two_numbers(value("namespaces")?)?;
        let member = |line: &str| {
            let (id, start) = two_numbers(line.strip_prefix("member ")?)?;
            let id = id.try_into().ok()?;
            Some(Member { id, start })
        };
        Some(Self {
            world,
            digest,
            images,
            namespaces: NamespaceNumbers { user, mount },
            members: lines.filter_map(member).collect(),
        })
    }
}

fn two_numbers(text: &str) -> Option<(u64, u64)> {
    let (first, second) = text.split_once(' ')?;
    Some((first.parse().ok()?, second.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    const TIME_LIMIT: Duration = Duration::from_millis(50);

    fn content(members: Vec<Member>) -> Content {
        Content {
            world: world().unwrap(),
            digest: "d1".to_owned(),
            images: "/images/app at /user-environment".to_owned(),
            namespaces: NamespaceNumbers { user: 1, mount: 2 },
            members,
        }
    }

    fn dead() -> Member {
        Member { start: 0, ..Member::own().unwrap() }
    }

    fn closed() -> (tempfile::TempDir, Directory) {
        let place = tempfile::tempdir().unwrap();
        let directory = Directory::make(&place.path().join("gatherings")).unwrap();
        (place, directory)
    }

    #[test]
    fn what_is_written_can_be_read_again() {
        let (_place, directory) = closed();
        let own = Member::own().unwrap();
        let mut rendezvous = directory.lock("a", TIME_LIMIT).unwrap();
        rendezvous.begin(&content(vec![own])).unwrap();
        rendezvous.add(content(vec![own]), dead()).unwrap();
        assert_eq!(rendezvous.read().unwrap(), Some(content(vec![own, dead()])));
    }

    #[test]
    fn half_a_line_of_a_process_that_was_killed_is_not_read() {
        let text = content(vec![dead()]).to_text() + "member 12 3";
        assert_eq!(Content::parse(&text), Some(content(vec![dead()])));
    }

    #[test]
    fn a_file_that_was_cut_off_counts_as_empty() {
        let text = content(Vec::new()).to_text();
        let whole = (0..text.len()).filter(|&end| Content::parse(&text[..end]).is_some());
        assert_eq!(whole.count(), 0);
    }

    #[test]
    fn holding_the_lock_for_too_long_is_reported() {
        let (_place, directory) = closed();
        let _kept = directory.lock("a", TIME_LIMIT).unwrap();
        let error = directory.lock("a", TIME_LIMIT).unwrap_err();
        let own = std::process::id();
        assert!(matches!(error, LockError::Kept(Some(id)) if id == own), "{error:?}");
    }

    #[test]
    fn many_who_write_one_after_the_other_are_waited_for() {
        let (_place, directory) = closed();
        let mut kept = directory.lock("a", TIME_LIMIT).unwrap();
        let ends = Instant::now() + 4 * TIME_LIMIT;
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| directory.lock("a", TIME_LIMIT).is_ok());
            while Instant::now() < ends {
                kept.add(content(Vec::new()), dead()).unwrap();
                std::thread::sleep(TIME_LIMIT / 10);
            }
            drop(kept);
            assert!(waiting.join().unwrap());
        });
    }

    #[test]
    fn only_namespaces_without_processes_are_swept() {
        let (_place, directory) = closed();
        let own = Member::own().unwrap();
        let elsewhere =
            Content { world: format!("{} 1", boot_of(&world().unwrap())), ..content(vec![dead()]) };
        for (name, content) in [
            ("dead", content(vec![dead()])),
            ("elsewhere", elsewhere),
            ("living", content(vec![dead(), own])),
        ] {
            directory.lock(name, TIME_LIMIT).unwrap().begin(&content).unwrap();
        }
        let in_use = directory.lock("in-use", TIME_LIMIT).unwrap();
        let swept = directory.sweep(&world().unwrap(), false).unwrap();
        drop(in_use);
        assert_eq!(swept, [directory.path.join("dead")]);
    }

    #[test]
    fn a_directory_that_others_may_enter_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("open");
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let error = Directory::make(&path).unwrap_err();
        assert_eq!(error.to_string(), not_closed().to_string());
    }

    #[test]
    fn a_link_to_a_directory_of_ones_own_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let own = place.path().join("own");
        fs::create_dir(&own).unwrap();
        fs::set_permissions(&own, fs::Permissions::from_mode(0o700)).unwrap();
        symlink(&own, place.path().join("link")).unwrap();
        let error = Directory::make(&place.path().join("link")).unwrap_err();
        assert_eq!(error.to_string(), not_closed().to_string());
    }

    #[test]
    fn a_link_in_the_place_of_a_file_is_not_followed() {
        let (place, directory) = closed();
        let other = place.path().join("other");
        fs::write(&other, "mine").unwrap();
        symlink(&other, directory.path.join("a")).unwrap();
        assert!(directory.lock("a", TIME_LIMIT).is_err());
    }
}
