// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A finished tree without its debug sections, and the debug files beside it.
//!
//! The tree itself is not changed. Files without debug sections have one more name in the new tree if the build
//! made them, and are copied otherwise.

use std::collections::HashMap;
use std::fs::{self, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use cabane_label::shown;

use super::elf::{self, Kind};
use super::{Objcopy, debug_file};
use crate::build_context::BuildContext;
use crate::pack::{self, META, Tree};
use crate::process::lines;
use crate::{BuildError, Result, disk};

/// How many files are named that keep their debug symbols.
const NAMED: usize = 3;
/// Where debug files are until all are there.
const PENDING: &str = ".pending";

/// Splits a tree: what is left of it goes to `split`, and the debug files to `symbols`, both of the layout.
pub(crate) fn split(
    bench: &mut BuildContext<'_>,
    objcopy: &Objcopy,
    tree: &Tree<'_>,
) -> Result<()> {
    let (to, symbols) = (bench.layout.split(), bench.layout.symbols());
    // What cannot be read, or has no place in an image, is reported before anything is copied.
    let before = pack::scan(tree.path, Some(META))?;
    disk::remove(&to)?;
    disk::make_empty(&symbols)?;
    let mut found = Found::default();
    found.directory(tree.path, &to)?;
    let work = Work {
        files: &found.files,
        pending: symbols.join(PENDING),
        objcopy,
        may_link: tree.ours,
        interrupt: bench.interrupt,
    };
    disk::make_directory(&work.pending)?;
    let outcomes = work.all(bench.request.jobs)?;
    for (first, further) in &found.links {
        fs::hard_link(first, further).map_err(BuildError::file("write", further))?;
    }
    for (directory, mode) in found.directories.iter().rev() {
        fs::set_permissions(directory, Permissions::from_mode(*mode))
            .map_err(BuildError::file("write", directory))?;
    }
    let summary = summarize(&work, &outcomes, &symbols)?;
    disk::remove(&work.pending)?;
    if !tree.ours && pack::scan(tree.path, Some(META))?.fingerprint != before.fingerprint {
        return Err(pack::changed(tree.path));
    }
    bench.progress.remark(&summary);
    Ok(())
}

/// Gives the debug files their names, in the order of the paths: of files with one build ID, the first counts.
/// Returns what is reported.
fn summarize(work: &Work<'_>, outcomes: &[Outcome], symbols: &Path) -> Result<String> {
    let (mut count, mut bytes, mut left) = (0, 0, Vec::new());
    for (number, (file, outcome)) in work.files.iter().zip(outcomes).enumerate() {
        match outcome {
            Outcome::Plain => {}
            Outcome::Left(why) => left.push(format!("{} ({why})", shown(&file.relative))),
            Outcome::Split(build_id) => {
                count += 1;
                let (pending, path) = (work.debug(number), debug_file(symbols, build_id));
                if path.exists() {
                    continue;
                }
                disk::make_directory(path.parent().unwrap_or(symbols))?;
                fs::rename(&pending, &path).map_err(BuildError::file("write", &path))?;
                let mode = Permissions::from_mode(0o644);
                let set = fs::set_permissions(&path, mode).and_then(|()| path.metadata());
                bytes += set.map_err(BuildError::file("write", &path))?.len();
            }
        }
    }
    if count == 0 && left.is_empty() {
        return Ok("no program or library has debug symbols; compile with `-g`".to_owned());
    }
    let files = if count == 1 { "file" } else { "files" };
    let mut text =
        format!("separated the debug symbols of {count} {files}: {}", cabane_report::size(bytes));
    if !left.is_empty() {
        let named = left.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = if left.len() > NAMED { ", …" } else { "" };
        text = format!("{text}; {} with debug symbols left as is: {named}{more}", left.len());
    }
    Ok(text)
}

/// A regular file of the tree.
struct SourceFile {
    from: PathBuf,
    to: PathBuf,
    relative: PathBuf,
    mode: u32,
    /// Whether it is a part of the metadata, which is never split.
    is_meta: bool,
}

/// What there is in a tree, in the order of paths.
#[derive(Default)]
struct Found {
    files: Vec<SourceFile>,
    directories: Vec<(PathBuf, u32)>,
    /// Further names: the first one in the new tree, and this one.
    links: Vec<(PathBuf, PathBuf)>,
    known: HashMap<(u64, u64), PathBuf>,
    /// The path below the root.
    below: PathBuf,
}

impl Found {
    /// Looks through a directory, and makes it with its symbolic links in the new tree.
    fn directory(&mut self, from: &Path, to: &Path) -> Result<()> {
        disk::make_directory(to)?;
        let found = from.metadata().map_err(BuildError::file("look at", from))?;
        self.directories.push((to.to_owned(), found.mode() & 0o7777));
        let mut entries = disk::entries("copy", from)?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let (path, to) = (entry.path(), to.join(entry.file_name()));
            let found = path.symlink_metadata().map_err(BuildError::file("look at", &path))?;
            self.below.push(entry.file_name());
            if found.is_dir() {
                self.directory(&path, &to)?;
            } else if found.is_symlink() {
                let made = fs::read_link(&path).and_then(|target| symlink(target, &to));
                made.map_err(BuildError::file("copy", &path))?;
            } else {
                self.file(path, to, &found);
            }
            self.below.pop();
        }
        Ok(())
    }

    fn file(&mut self, from: PathBuf, to: PathBuf, found: &Metadata) {
        if found.nlink() > 1 {
            let key = (found.dev(), found.ino());
            if let Some(first) = self.known.get(&key) {
                self.links.push((first.clone(), to));
                return;
            }
            self.known.insert(key, to.clone());
        }
        let (relative, mode) = (self.below.clone(), found.mode() & 0o7777);
        let is_meta = relative.starts_with(META);
        self.files.push(SourceFile { from, to, relative, mode, is_meta });
    }
}

/// What became of a file.
#[derive(Clone, Debug)]
enum Outcome {
    /// It has no debug symbols.
    Plain,
    /// It keeps them, and why.
    Left(String),
    /// They are in the debug file of this build ID.
    Split(String),
}

struct Work<'a> {
    files: &'a [SourceFile],
    pending: PathBuf,
    objcopy: &'a Objcopy,
    /// Whether files may get one more name instead of a copy.
    may_link: bool,
    interrupt: &'a AtomicBool,
}

impl Work<'_> {
    fn debug(&self, number: usize) -> PathBuf {
        self.pending.join(number.to_string())
    }

    /// Puts all files into the new tree, several at a time.
    fn all(&self, jobs: usize) -> Result<Vec<Outcome>> {
        let next = AtomicUsize::new(0);
        let outcomes = Mutex::new(vec![Outcome::Plain; self.files.len()]);
        let failure: Mutex<Option<(PathBuf, io::Error)>> = Mutex::new(None);
        thread::scope(|scope| {
            for _ in 0..jobs.clamp(1, self.files.len().max(1)) {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let Some(file) = self.files.get(number) else { return };
                        if self.interrupt.load(Ordering::Relaxed) {
                            return;
                        }
                        match self.one(number, file) {
                            Ok(outcome) => {
                                let mut all =
                                    outcomes.lock().unwrap_or_else(PoisonError::into_inner);
                                if let Some(place) = all.get_mut(number) {
                                    *place = outcome;
                                }
                            }
                            Err(error) => {
                                let mut first =
                                    failure.lock().unwrap_or_else(PoisonError::into_inner);
                                first.get_or_insert((file.from.clone(), error));
                                next.store(self.files.len(), Ordering::Relaxed);
                            }
                        }
                    }
                });
            }
        });
        if self.interrupt.load(Ordering::Relaxed) {
            return Err(BuildError::Interrupted);
        }
        if let Some((path, error)) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(BuildError::file("separate the debug symbols of", &path)(error));
        }
        Ok(outcomes.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn one(&self, number: usize, file: &SourceFile) -> io::Result<Outcome> {
        let kind = if file.is_meta { Kind::Plain } else { elf::look(&file.from)? };
        let outcome = match kind {
            Kind::Plain => Outcome::Plain,
            Kind::Debug { build_id: None } => Outcome::Left("no build ID".to_owned()),
            Kind::Debug { build_id: Some(build_id) } => {
                match self.separate(file, &self.debug(number))? {
                    None => Outcome::Split(build_id),
                    Some(why) => Outcome::Left(why),
                }
            }
        };
        let is_split = matches!(outcome, Outcome::Split(_));
        if !is_split {
            if self.may_link && fs::hard_link(&file.from, &file.to).is_ok() {
                return Ok(outcome);
            }
            fs::copy(&file.from, &file.to)?;
        }
        fs::set_permissions(&file.to, Permissions::from_mode(file.mode))?;
        Ok(outcome)
    }

    /// Writes a file without its debug sections, and the sections to `debug`. Returns why not, if `objcopy`
    /// cannot do that.
    fn separate(&self, file: &SourceFile, debug: &Path) -> io::Result<Option<String>> {
        for (option, to) in [("--only-keep-debug", debug), ("--strip-debug", &file.to)] {
            let output = self.run(option, &file.from, to)?;
            if !output.status.success() {
                disk::try_remove(debug)?;
                disk::try_remove(&file.to)?;
                let texts = lines(&output.stderr);
                if texts.iter().any(|line| line.contains("No space left")) {
                    return Err(io::ErrorKind::StorageFull.into());
                }
                return Ok(Some("`objcopy` cannot read it".to_owned()));
            }
        }
        if !elf::loads_same(&file.from, &file.to)? {
            disk::try_remove(debug)?;
            disk::try_remove(&file.to)?;
            return Ok(Some("`objcopy` would change what is loaded".to_owned()));
        }
        Ok(None)
    }

    fn run(&self, option: &str, from: &Path, to: &Path) -> io::Result<Output> {
        let mut command = Command::new(&self.objcopy.program);
        command.arg(option).arg("--").arg(from).arg(to);
        command.env_clear().env("LC_ALL", "C").env("TMPDIR", &self.pending);
        command.stdin(Stdio::null()).output()
    }
}
