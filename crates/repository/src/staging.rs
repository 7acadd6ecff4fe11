// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Temporary names: whose they are, and when they may be swept.
//!
//! ```text
//! tmp/
//! ├── .lock                         see the module `lock`
//! ├── <owner>/                      the staging area of one writer
//! │   ├── …                         what it is making or throwing away
//! │   └── orphan-<sha256>           an image that may be left without a ref
//! ├── trash-<sha256>-<owner>/       an image on its way out; always complete
//! └── pull-<sha256>…/               a download; see the module `incoming`
//! ```
//!
//! An owner is `<host>-<pid namespace>-<pid>-<start>-<created>-<random>`: enough to see on the
//! same host whether it still lives, whatever container it runs in and even when its process
//! number has been given to another; elsewhere its age decides.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use cabane_label::Digest;
use rustix::io::Errno;
use rustix::process::Pid;

use crate::layout::Layout;
use crate::locks::is_kernel_id;
use crate::{Error, disk};

/// After this time, in seconds, what a writer left behind on another host is swept.
const FOREIGN_AGE: u64 = 24 * 60 * 60;

/// After this time, in seconds, an unfinished download is swept that no one goes on with.
const DOWNLOAD_AGE: u64 = 7 * 24 * 60 * 60;

const TRASH: &str = "trash-";
const PULL: &str = "pull-";
const ORPHAN: &str = "orphan-";

/// A process that makes something in a repository, as its temporary names tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    host: String,
    pid_namespace: u64,
    pid: i32,
    /// When the process started, in ticks since the start of the host; 0 if unknown.
    start: u64,
    /// When the name was made, in seconds since 1970.
    created: u64,
    random: u64,
}

impl Owner {
    /// Describes this process, with a fresh random part.
    pub(crate) fn this_process() -> Self {
        let pid = rustix::process::getpid();
        Self {
            host: host_name(),
            pid_namespace: fs::metadata("/proc/self/ns/pid").map_or(0, |link| link.ino()),
            pid: pid.as_raw_nonzero().get(),
            start: start_of(pid).unwrap_or(0),
            created: seconds_now(),
            // Each state is seeded by the kernel's random numbers.
            random: RandomState::new().hash_one(pid.as_raw_nonzero()),
        }
    }

    /// Reads an owner from a temporary name.
    fn from_name(name: &str) -> Option<Self> {
        let mut parts = name.split('-');
        let owner = Self {
            host: parts.next()?.to_owned(),
            pid_namespace: u64::from_str_radix(parts.next()?, 16).ok()?,
            pid: parts.next()?.parse().ok()?,
            start: u64::from_str_radix(parts.next()?, 16).ok()?,
            created: parts.next()?.parse().ok()?,
            random: u64::from_str_radix(parts.next()?, 16).ok()?,
        };
        parts.next().is_none().then_some(owner)
    }

    fn name(&self) -> String {
        let Self { host, pid_namespace, pid, start, created, random } = self;
        format!("{host}-{pid_namespace:x}-{pid}-{start:x}-{created}-{random:016x}")
    }

    /// Returns whether the owner will not come back for what it left.
    pub(crate) fn is_gone(&self) -> bool {
        let here = Self::this_process();
        if self.host == here.host && self.pid_namespace == here.pid_namespace {
            return Pid::from_raw(self.pid).is_none_or(|pid| is_dead(pid, self.start));
        }
        here.created.saturating_sub(self.created) > FOREIGN_AGE
    }
}

/// What a name in `tmp` stands for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Temporary {
    Staging(Owner),
    Trash(Digest, Owner),
    /// A download, which the process with its lock continues.
    Incoming(Digest, Resumers),
    Unknown,
}

/// Who may go on with a download.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Resumers {
    All,
    /// The processes of this kernel.
    Kernel(String),
    One(Owner),
}

impl Temporary {
    pub(crate) fn from_name(name: &str) -> Self {
        if let Some(rest) = name.strip_prefix(PULL) {
            return Self::incoming(rest).unwrap_or(Self::Unknown);
        }
        let trash = name.strip_prefix(TRASH).and_then(|rest| rest.split_once('-'));
        let trash = trash.and_then(|(digest, owner)| {
            Some(Self::Trash(digest.parse().ok()?, Owner::from_name(owner)?))
        });
        let staging = || Owner::from_name(name).map(Self::Staging);
        trash.or_else(staging).unwrap_or(Self::Unknown)
    }

    fn incoming(rest: &str) -> Option<Self> {
        let (digest, resumers) = match rest.split_once('-') {
            None => (rest, Resumers::All),
            Some((digest, id)) if is_kernel_id(id) => (digest, Resumers::Kernel(id.to_owned())),
            Some((digest, owner)) => (digest, Resumers::One(Owner::from_name(owner)?)),
        };
        Some(Self::Incoming(digest.parse().ok()?, resumers))
    }
}

/// Returns the name of the place for downloading an image.
pub(crate) fn incoming_name(digest: &Digest) -> String {
    format!("{PULL}{digest}")
}

/// A directory of one writer, removed when the writer is done.
#[derive(Debug)]
pub(crate) struct Staging {
    owner: Owner,
    path: PathBuf,
}

impl Staging {
    pub(crate) fn open(layout: &Layout) -> Result<Self, Error> {
        let (owner, tmp) = (Owner::this_process(), layout.tmp());
        let path = tmp.join(owner.name());
        if layout.is_uenv() {
            layout.make(&tmp).map_err(Error::io("create", &tmp))?;
        }
        fs::create_dir(&path).map_err(Error::io("write in", &tmp))?;
        Ok(Self { owner, path })
    }

    /// Makes a place for downloading an image that is this process's alone.
    pub(crate) fn open_for(layout: &Layout, digest: &Digest) -> Result<PathBuf, Error> {
        let (owner, tmp) = (Owner::this_process().name(), layout.tmp());
        let path = tmp.join(format!("{}-{owner}", incoming_name(digest)));
        fs::create_dir(&path).map_err(Error::io("write in", &tmp))?;
        Ok(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a name that nothing in the staging area has.
    pub(crate) fn free_name(&self, what: &str) -> PathBuf {
        let random = RandomState::new().hash_one(what);
        self.path.join(format!("{what}-{random:016x}"))
    }

    /// Returns where this writer puts an image on its way out.
    pub(crate) fn trash(&self, layout: &Layout, digest: &Digest) -> PathBuf {
        let owner = self.owner.name();
        layout.tmp().join(format!("{TRASH}{digest}-{owner}"))
    }

    /// Notes that an image may be left without a ref if this writer is killed.
    pub(crate) fn note_orphan(&self, digest: &Digest) -> Result<(), Error> {
        let path = self.path.join(format!("{ORPHAN}{digest}"));
        fs::write(&path, "").map_err(Error::io("write", &path))
    }

    /// Takes the note back: the image may stay without a ref.
    pub(crate) fn forget_orphan(&self, digest: &Digest) {
        let _ = fs::remove_file(self.path.join(format!("{ORPHAN}{digest}")));
    }
}

/// Returns the images that a writer noted in its staging area.
pub(crate) fn noted_orphans(staging: &Path) -> Vec<Digest> {
    let names = disk::names(staging).unwrap_or_default();
    names.iter().filter_map(|name| name.strip_prefix(ORPHAN)?.parse().ok()).collect()
}

/// Returns whether a file that no version of this program made has been lying about for long.
pub(crate) fn is_old(path: &Path) -> bool {
    seconds_now().saturating_sub(written(path)) > FOREIGN_AGE
}

/// Returns whether nothing has been written into a place of a download for long.
pub(crate) fn is_idle(place: &Path) -> bool {
    let names = disk::names(place).unwrap_or_default();
    let files = names.iter().map(|name| written(&place.join(name)));
    let latest = files.fold(written(place), u64::max);
    seconds_now().saturating_sub(latest) > DOWNLOAD_AGE
}

/// Returns when something was written last, in seconds since 1970.
fn written(path: &Path) -> u64 {
    let time = fs::symlink_metadata(path).map_or(0, |metadata| metadata.mtime());
    u64::try_from(time).unwrap_or(0)
}

fn is_dead(pid: Pid, start: u64) -> bool {
    match rustix::process::test_kill_process(pid) {
        Err(Errno::SRCH) => true,
        // The number may belong to another process by now.
        _ => start != 0 && start_of(pid).is_some_and(|now| now != start),
    }
}

/// Returns when a process started, in ticks since the start of the host.
fn start_of(pid: Pid) -> Option<u64> {
    const FIELD: usize = 22;
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // The second field is the name in parentheses, which may hold blanks and parentheses.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(FIELD - 3)?.parse().ok()
}

fn host_name() -> String {
    let names = rustix::system::uname();
    let host = names.nodename().to_string_lossy();
    let allowed = |character: char| {
        if character.is_ascii_alphanumeric() { character } else { '_' }
    };
    let host: String = host.chars().take(48).map(allowed).collect();
    if host.is_empty() { "_".to_owned() } else { host }
}

fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn an_owner_can_be_read_back_from_its_name() {
        let owner = Owner::this_process();
        assert_eq!(Temporary::from_name(&owner.name()), Temporary::Staging(owner));
    }

    #[test]
    fn trash_names_its_image_and_its_owner() {
        let place = tempfile::tempdir().unwrap();
        let layout = Layout::new(place.path().to_owned());
        fs::create_dir(layout.tmp()).unwrap();
        let staging = Staging::open(&layout).unwrap();
        let digest: Digest = "a".repeat(64).parse().unwrap();
        let trash = staging.trash(&layout, &digest);
        let name = trash.file_name().unwrap().to_str().unwrap();
        assert_eq!(Temporary::from_name(name), Temporary::Trash(digest, staging.owner));
    }

    #[test]
    fn the_name_of_a_download_encodes_who_may_resume_it() {
        let digest: Digest = "a".repeat(64).parse().unwrap();
        let (owner, kernel) = (Owner::this_process(), "0123456789abcdef".repeat(2));
        let name = incoming_name(&digest);
        let read = |name: &str| match Temporary::from_name(name) {
            Temporary::Incoming(_, resumers) => Some(resumers),
            _ => None,
        };
        assert_eq!(
            [
                read(&name),
                read(&format!("{name}-{kernel}")),
                read(&format!("{name}-{}", owner.name())),
                read("pull-123")
            ],
            [Some(Resumers::All), Some(Resumers::Kernel(kernel)), Some(Resumers::One(owner)), None]
        );
    }

    #[test]
    fn this_process_is_alive() {
        assert!(!Owner::this_process().is_gone());
    }

    #[test]
    fn a_process_that_has_ended_is_gone() {
        let mut child = Command::new("true").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        child.wait().unwrap();
        assert!(Owner { pid, start: 0, ..Owner::this_process() }.is_gone());
    }

    #[test]
    fn a_process_that_was_given_the_number_of_another_is_not_the_other() {
        let this = Owner::this_process();
        assert!(Owner { start: this.start + 1, ..this }.is_gone());
    }

    #[test]
    fn a_writer_on_another_host_is_given_a_day() {
        let other = Owner { host: "other".to_owned(), ..Owner::this_process() };
        assert!(!other.is_gone());
    }

    #[test]
    fn a_writer_on_another_host_is_not_given_two_days() {
        let created = seconds_now() - 2 * FOREIGN_AGE;
        let other = Owner { host: "other".to_owned(), created, ..Owner::this_process() };
        assert!(other.is_gone());
    }

    #[test]
    fn a_writer_in_another_container_is_not_judged_by_its_process_number() {
        let other = Owner { pid_namespace: 1, pid: i32::MAX, ..Owner::this_process() };
        assert!(!other.is_gone());
    }
}
