// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A finished tree goes to the directory that it was built for, instead of into an image.
//!
//! It is copied beside that directory, written to the disk, and then gets its name in one
//! move: anyone who looks sees the whole tree or what was there before. Owners and times stay
//! as they are; modes are those of an image.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, FileTimes, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use cabane_label::shown;
use rustix::fs::{CWD, RenameFlags, renameat_with, syncfs};
use rustix::io::Errno;

use crate::build_context::BuildContext;
use crate::layout::Layout;
use crate::pack::{self, META, Tree};
use crate::{BuildError, Result, disk, fingerprint};

/// What every build writes; a directory that has it may be replaced.
const MARK: &str = "meta/configure.json";
/// What tells one tree from another.
const TELLING: [&str; 3] = ["env.json", "configure.json", "packages.json"];

/// Where a tree goes.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The directory.
    pub(crate) path: PathBuf,
    /// Whether what is there may be replaced.
    pub(crate) replace: bool,
}

impl Target {
    /// Fails if something is there that must stay.
    pub(crate) fn check(&self, layout: &Layout) -> Result<()> {
        let path = &self.path;
        let refuse = |why: &str, hint| {
            let message = format!("cannot install into {}: {why}", shown(path));
            Err(BuildError::refused(message, hint))
        };
        let other = "name a directory that does not exist";
        if path.starts_with(&layout.root) || layout.root.starts_with(path) {
            return refuse("it is where the build itself works", other);
        }
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(BuildError::file("look at", path)(error)),
            Ok(found) if !found.is_dir() => refuse("it is no directory", other),
            Ok(_) if self.is_empty() => Ok(()),
            Ok(_) if !path.join(MARK).is_file() => {
                refuse("it holds something that no build has put there", other)
            }
            Ok(_) if !self.replace => refuse(
                "it holds what an earlier build has put there",
                "`--replace` replaces it; programs that run from there may fail then",
            ),
            Ok(_) => Ok(()),
        }
    }

    fn is_empty(&self) -> bool {
        fs::read_dir(&self.path).is_ok_and(|mut entries| entries.next().is_none())
    }

    /// Whether the tree of this build is there.
    pub(crate) fn holds(&self, layout: &Layout) -> bool {
        let digest = |meta: &Path, name: &str| fingerprint::of_file(&meta.join(name)).ok();
        let (there, here) = (self.path.join(META), layout.meta());
        let is_same = |name: &str| digest(&there, name) == digest(&here, name);
        there.is_dir() && TELLING.iter().all(|name| is_same(name))
    }

    /// Where the tree is until it is whole. No one else builds in the same directory.
    fn partial(&self, layout: &Layout) -> PathBuf {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let build = fingerprint::of_bytes(layout.root.as_os_str().as_encoded_bytes());
        let name = format!(".{name}.{}.partial", build.id());
        self.path.with_file_name(name)
    }
}

/// Puts a tree with its metadata into its place.
pub(crate) fn deliver(
    bench: &mut BuildContext<'_>,
    target: &Target,
    tree: &Tree<'_>,
) -> Result<()> {
    let layout = bench.layout;
    pack::open_to_all(&layout.meta())?;
    if tree.ours {
        pack::open_to_all(tree.path)?;
    }
    // What cannot be read, or has no place in a tree, is reported before anything is copied.
    pack::scan(tree.path, Some(META))?;
    target.check(layout)?;
    let partial = target.partial(layout);
    disk::make_directory(partial.parent().unwrap_or(Path::new("/")))?;
    disk::remove(&partial)?;
    let mut copy = Copy { interrupt: bench.interrupt, known: HashMap::new() };
    let delivered = copy
        .directory(tree.path, &partial, Some(META))
        .and_then(|()| copy.directory(&layout.meta(), &partial.join(META), None))
        .and_then(|()| write_out(&partial))
        .and_then(|()| name(&partial, target));
    if delivered.is_err() {
        disk::remove(&partial)?;
    }
    delivered
}

struct Copy<'a> {
    interrupt: &'a AtomicBool,
    /// Files with several names, and the first of these in the copy.
    known: HashMap<(u64, u64), PathBuf>,
}

impl Copy<'_> {
    fn directory(&mut self, from: &Path, to: &Path, without: Option<&str>) -> Result<()> {
        let failed = || BuildError::file("copy", from);
        DirBuilder::new().mode(0o755).create(to).map_err(BuildError::file("make", to))?;
        for entry in disk::entries("copy", from)? {
            if self.interrupt.load(Ordering::Relaxed) {
                return Err(BuildError::Interrupted);
            }
            let name = entry.file_name();
            if without.is_some_and(|without| name == without) {
                continue;
            }
            let (path, to) = (entry.path(), to.join(&name));
            let kind = entry.file_type().map_err(failed())?;
            if kind.is_dir() {
                self.directory(&path, &to, None)?;
            } else {
                self.file(&path, &to).map_err(BuildError::file("copy", &path))?;
            }
        }
        fs::set_permissions(to, Permissions::from_mode(0o755)).map_err(failed())
    }

    fn file(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let found = from.symlink_metadata()?;
        if found.is_symlink() {
            return symlink(fs::read_link(from)?, to);
        }
        let key = (found.dev(), found.ino());
        if let Some(first) = self.known.get(&key) {
            return fs::hard_link(first, to);
        }
        fs::copy(from, to)?;
        let executable = found.mode() & 0o111 != 0;
        let times = FileTimes::new().set_modified(found.modified()?);
        let file = File::options().write(true).open(to).or_else(|_| File::open(to))?;
        file.set_times(times)?;
        let mode = if executable { 0o755 } else { 0o644 };
        file.set_permissions(Permissions::from_mode(mode & (found.mode() | 0o044)))?;
        if found.nlink() > 1 {
            self.known.insert(key, to.to_owned());
        }
        Ok(())
    }
}

/// After a crash the tree is whole or not there.
fn write_out(partial: &Path) -> Result<()> {
    let synced = File::open(partial).and_then(|directory| Ok(syncfs(directory)?));
    synced.map_err(BuildError::file("write", partial))
}

/// Gives the tree its name; what had it before is removed.
fn name(partial: &Path, target: &Target) -> Result<()> {
    let path = &target.path;
    if !path.exists() || target.is_empty() {
        // Of two who do this at once the second fails: the directory is not empty then.
        return disk::rename(partial, path);
    }
    match renameat_with(CWD, partial, CWD, path, RenameFlags::EXCHANGE) {
        Ok(()) => disk::remove(partial),
        // Not every file system can do that: for a moment nothing is there.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            let old = partial.with_extension("old");
            disk::remove(&old)?;
            disk::rename(path, &old)?;
            disk::rename(partial, path)?;
            disk::remove(&old)
        }
        Err(errno) => Err(BuildError::file("replace", path)(errno)),
    }
}
