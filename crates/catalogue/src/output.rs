// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A site in a directory.
//!
//! A new site is made beside the old one: files that stay the same are hard links, the others are
//! written. Then the two directories change their places in one step, so that no reader sees a half of
//! each, and the old one is removed. What a killed build leaves is removed by the next one.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread;

use cabane_label::{Digest, escape, shown};
use cabane_report::{IoContext, Kind, Report, Result};
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::access;
use crate::site::File;

/// The list of the files of a site, in its directory. Where it is, the directory is a site.
pub(crate) const LIST: &str = ".cabane-catalogue";
const HEAD: &str = "cabane-catalogue 1";
/// How many entries that do not belong to a site are named.
const MOST_NAMED: usize = 5;
/// The most threads that write.
const MOST_THREADS: usize = 8;

/// What came of writing a site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// How many files the site has.
    pub files: usize,
    /// How many of them were written.
    pub written: usize,
    /// How many files of the site before are gone.
    pub removed: usize,
}

/// What happens to entries in the directory of a site that no build has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherEntries {
    /// They stay, and the build is refused.
    Refuse,
    /// They are removed.
    Remove,
}

/// Where a site is, and the names beside it.
struct Place {
    directory: PathBuf,
    new: PathBuf,
    old: PathBuf,
}

/// Writes a site into a directory: a new or empty one, or that of a site.
///
/// # Errors
///
/// The directory has something else in it, another build writes there, or a file cannot be written.
pub(crate) fn write(files: &[File<'_>], directory: &Path, others: OtherEntries) -> Result<Written> {
    let place = Place::of(directory)?;
    let _lock = place.lock()?;
    place.clean()?;
    let known = place.known(others)?;
    let has_others = place.has_others(&known, others)?;
    let removed = known.keys().filter(|path| !has(files, path)).count();
    let kept: Vec<Option<u64>> = files.iter().map(|file| place.kept(file, &known)).collect();
    let changed = kept.iter().filter(|size| size.is_none()).count();
    let written = Written { files: files.len(), written: changed, removed };
    let is_same = changed + removed == 0 && !has_others;
    if is_same && !files.is_empty() && place.directory.join(LIST).exists() {
        return Ok(written);
    }
    let made = place.make(&files.iter().zip(kept).collect::<Vec<_>>());
    let published = made.and_then(|()| place.publish());
    if published.is_err() {
        // The next build would do it.
        let _ = fs::remove_dir_all(&place.new);
    }
    published.map(|()| written)
}

fn has(files: &[File<'_>], path: &str) -> bool {
    files.binary_search_by(|file| file.path.as_str().cmp(path)).is_ok()
}

/// The files of a site: their sums and sizes.
type Known = BTreeMap<String, (Digest, u64)>;

impl Place {
    fn of(directory: &Path) -> Result<Self> {
        let cannot = || format!("write {}", shown(directory));
        let mut path = std::path::absolute(directory).or_failed(cannot)?;
        // If it is a link, its target is replaced, and not the link.
        if let Ok(real) = fs::canonicalize(&path) {
            path = real;
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            let message = format!("{} cannot be the directory of a catalog", shown(directory));
            return Err(
                Report::new(Kind::Usage, message).hinted("name a directory below it".to_owned())
            );
        };
        fs::create_dir_all(parent).or_failed(cannot)?;
        let beside = |ending: &str| {
            let mut hidden = OsString::from(".");
            hidden.push(name);
            hidden.push(ending);
            parent.join(hidden)
        };
        let (new, old) = (beside(".catalogue-new"), beside(".catalogue-old"));
        Ok(Self { directory: path, new, old })
    }

    fn cannot(&self) -> String {
        format!("write {}", shown(&self.directory))
    }

    /// Keeps other builds away from the directory above. The kernel ends that with the process.
    fn lock(&self) -> Result<rustix::fd::OwnedFd> {
        let parent = self.directory.parent().unwrap_or(Path::new("/"));
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(parent, flags, Mode::empty()).map_err(io::Error::from);
        let opened = opened.or_failed(|| self.cannot())?;
        match rustix::fs::flock(&opened, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => {
                let message = format!("another build is writing to {}", shown(parent));
                Err(Report::new(Kind::Failure, message)
                    .hinted("wait until it ends, and repeat the command".to_owned()))
            }
            // Some network file systems have no locks.
            _ => Ok(opened),
        }
    }

    /// Removes what a killed build has left.
    fn clean(&self) -> Result<()> {
        let is_there = |path: &Path| fs::symlink_metadata(path).is_ok();
        if is_there(&self.old) && !is_there(&self.directory) {
            fs::rename(&self.old, &self.directory).or_failed(|| self.cannot())?;
        }
        for path in [&self.new, &self.old] {
            if is_there(path) {
                fs::remove_dir_all(path).or_failed(|| format!("remove {}", shown(path)))?;
            }
        }
        Ok(())
    }

    /// Reads which files the site has that is there; none if there is none.
    fn known(&self, others: OtherEntries) -> Result<Known> {
        match fs::read(self.directory.join(LIST)) {
            Ok(text) => {
                return match (read_list(&String::from_utf8_lossy(&text)), others) {
                    (Some(known), _) => Ok(known),
                    (None, OtherEntries::Remove) => Ok(Known::new()),
                    (None, OtherEntries::Refuse) => {
                        let list = shown(&self.directory.join(LIST));
                        let message = format!("{list} is damaged, or of another version");
                        let hint = "`--replace` removes everything in the directory".to_owned();
                        Err(Report::new(Kind::Failure, message).hinted(hint))
                    }
                };
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).or_failed(|| self.cannot()),
        }
        match fs::read_dir(&self.directory).map(|mut entries| entries.next().is_none()) {
            Ok(true) => Ok(Known::new()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Known::new()),
            Ok(false) => {
                let message = format!(
                    "{} contains files that do not belong to a catalog",
                    shown(&self.directory)
                );
                let hint = "name a new directory; the catalog replaces everything in it".to_owned();
                Err(Report::new(Kind::Failure, message).hinted(hint))
            }
            Err(error) => Err(error).or_failed(|| self.cannot()),
        }
    }

    /// Returns whether the directory has entries that its list does not have, and that are to be removed.
    fn has_others(&self, known: &Known, others: OtherEntries) -> Result<bool> {
        let mut found = Vec::new();
        let folders: BTreeSet<&Path> =
            known.keys().flat_map(|path| Path::new(path).ancestors().skip(1)).collect();
        self.add_others(Path::new(""), known, &folders, &mut found)?;
        if found.is_empty() || others == OtherEntries::Remove {
            return Ok(!found.is_empty());
        }
        found.sort();
        let more = match found.len().saturating_sub(MOST_NAMED) {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        found.truncate(MOST_NAMED);
        let (directory, names) = (shown(&self.directory), found.join(", "));
        let message =
            format!("{directory} contains entries that no build has written: {names}{more}");
        let hint = "move them to another directory, or remove them with `--replace`".to_owned();
        Err(Report::new(Kind::Failure, message).hinted(hint))
    }

    /// Adds the entries of a folder that a list does not have; a folder that it does not have is one entry.
    fn add_others(
        &self,
        folder: &Path,
        known: &Known,
        folders: &BTreeSet<&Path>,
        found: &mut Vec<String>,
    ) -> Result<()> {
        let cannot = || format!("read {}", shown(&self.directory.join(folder)));
        let entries = match fs::read_dir(self.directory.join(folder)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries.or_failed(cannot)?,
        };
        for entry in entries {
            let entry = entry.or_failed(cannot)?;
            let path = folder.join(entry.file_name());
            let is_folder = entry.file_type().or_failed(cannot)?.is_dir();
            if is_folder && folders.contains(path.as_path()) {
                self.add_others(&path, known, folders, found)?;
            } else if is_folder || !is_in(known, &path) {
                found.push(escape(&path.to_string_lossy()).to_string());
            }
        }
        Ok(())
    }

    /// Returns the size of a file that is there already, and stays.
    fn kept(&self, file: &File<'_>, known: &Known) -> Option<u64> {
        let (_, size) = known.get(&file.path).filter(|(sum, _)| *sum == file.sum)?;
        let meta = fs::symlink_metadata(self.directory.join(&file.path)).ok()?;
        (meta.is_file() && meta.len() == *size).then_some(*size)
    }

    /// Makes the new site beside the old one.
    fn make(&self, files: &[(&File<'_>, Option<u64>)]) -> Result<()> {
        let made = fs::create_dir(&self.new).or_failed(|| format!("make {}", shown(&self.new)));
        made.map_err(|error| {
            let parent = self.directory.parent().unwrap_or(Path::new("/"));
            let (site, parent) = (shown(&self.directory), shown(parent));
            error.hinted(format!(
                "the new site is made beside {site}: `ls -ld {parent}` shows who may"
            ))
        })?;
        if self.directory.is_dir() {
            access::copy(&self.directory, &self.new).or_failed(|| {
                let directory = shown(&self.directory);
                format!("give the new files the group, mode, and ACL of {directory}")
            })?;
        }
        let folders: BTreeSet<&Path> =
            files.iter().filter_map(|(file, _)| Path::new(&file.path).parent()).collect();
        for folder in folders {
            fs::create_dir_all(self.new.join(folder)).or_failed(|| self.cannot())?;
        }
        let threads = thread::available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS);
        let share = files.len().div_ceil(threads).max(1);
        let sizes = thread::scope(|scope| {
            let parts = files.chunks(share);
            let running: Vec<_> = parts.map(|part| scope.spawn(|| self.put_all(part))).collect();
            let ended = running.into_iter().map(|one| match one.join() {
                Ok(sizes) => sizes,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            ended.collect::<Result<Vec<_>>>()
        })?;
        let mut list = format!("{HEAD}\n");
        for ((file, _), size) in files.iter().zip(sizes.into_iter().flatten()) {
            list += &format!("{} {size} {}\n", file.sum, file.path);
        }
        fs::write(self.new.join(LIST), list).or_failed(|| self.cannot())
    }

    /// Puts files into the new site. Returns their sizes.
    fn put_all(&self, files: &[(&File<'_>, Option<u64>)]) -> Result<Vec<u64>> {
        files.iter().map(|(file, kept)| self.put(file, *kept)).collect()
    }

    fn put(&self, file: &File<'_>, kept: Option<u64>) -> Result<u64> {
        let (old, new) = (self.directory.join(&file.path), self.new.join(&file.path));
        if let Some(size) = kept
            && (fs::hard_link(&old, &new).is_ok() || fs::copy(&old, &new).is_ok())
        {
            return Ok(size);
        }
        let bytes = file.bytes();
        fs::write(&new, &bytes).or_failed(|| format!("write {}", shown(&new)))?;
        Ok(bytes.len() as u64)
    }

    /// Puts the new site in the place of the old one.
    fn publish(&self) -> Result<()> {
        let cannot = || self.cannot();
        if fs::symlink_metadata(&self.directory).is_err() {
            return fs::rename(&self.new, &self.directory).or_failed(cannot);
        }
        let exchanged =
            rustix::fs::renameat_with(CWD, &self.new, CWD, &self.directory, RenameFlags::EXCHANGE);
        match exchanged {
            Ok(()) => {
                fs::remove_dir_all(&self.new).or_failed(|| format!("remove {}", shown(&self.new)))
            }
            // Some file systems cannot exchange: for a moment there is no site.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                fs::rename(&self.directory, &self.old).or_failed(cannot)?;
                fs::rename(&self.new, &self.directory).or_failed(cannot)?;
                fs::remove_dir_all(&self.old).or_failed(|| format!("remove {}", shown(&self.old)))
            }
            Err(error) => Err(io::Error::from(error)).or_failed(cannot),
        }
    }
}

/// Whether a list has a file; it has itself.
fn is_in(known: &Known, path: &Path) -> bool {
    path == Path::new(LIST) || path.to_str().is_some_and(|path| known.contains_key(path))
}

/// Reads a list; `None` for one that is damaged or of another version.
fn read_list(text: &str) -> Option<Known> {
    let Some((HEAD, lines)) = text.split_once('\n') else { return None };
    let read = lines.lines().map(|line| {
        let mut fields = line.splitn(3, ' ');
        let (sum, size) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        Some((fields.next()?.to_owned(), (sum, size)))
    });
    read.collect()
}
