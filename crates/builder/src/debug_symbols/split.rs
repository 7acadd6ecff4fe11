// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A finished tree without its debug sections, and the debug files beside it.
//!
//! The tree itself is not changed. Files without debug sections have one more name in the new tree if the build
//! made them, and are copied otherwise.

use std::collections::HashMap;
use std::fs::{self, Metadata, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use cabane_label::shown;

use super::elf::{self, Kind};
use super::{Objcopy, debug_file};
use crate::build_context::BuildContext;
use crate::layout::Inside;
use crate::pack::{self, META, Tree};
use crate::process::lines;
use crate::sandbox::{Invocation, Sandbox};
use crate::{BuildError, Result, disk};

/// How many files are named that keep their debug symbols.
const NAMED: usize = 3;
/// Where debug files are until all are there.
const PENDING: &str = ".pending";
/// The kinds of results: what is left of a file, and its debug symbols.
const REST: &str = "rest";
const DEBUG: &str = "debug";
const SCRIPT_NAME: &str = "split.sh";
const SCRIPT: &str = include_str!("split.sh");
const LIST: &str = "list";

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
        may_link: tree.ours,
        jobs: bench.request.jobs,
        interrupt: bench.interrupt,
    };
    disk::make_directory(&work.pending)?;
    let look = |file: &SourceFile| {
        if file.is_meta { Ok(Kind::Plain) } else { elf::look(&file.from) }
    };
    let kinds = work.each(|_, _, file| look(file))?;
    work.separate(bench, objcopy, tree.path, &kinds)?;
    let outcomes = work.each(|work, number, file| match kinds.get(number) {
        Some(kind) => work.place(number, file, kind),
        None => Ok(Outcome::Plain),
    })?;
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
                let pending = work.result(number, DEBUG);
                let path = debug_file(symbols, build_id);
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
    /// Whether files may get one more name instead of a copy.
    may_link: bool,
    jobs: usize,
    interrupt: &'a AtomicBool,
}

impl Work<'_> {
    /// Where a result about a file is until it has its place.
    fn result(&self, number: usize, kind: &str) -> PathBuf {
        self.pending.join(format!("{number}.{kind}"))
    }

    /// Does something with all files, several at a time, and returns the results in their order.
    fn each<T: Send>(
        &self,
        act: impl Fn(&Self, usize, &SourceFile) -> io::Result<T> + Sync,
    ) -> Result<Vec<T>> {
        let next = AtomicUsize::new(0);
        let results: Mutex<Vec<(usize, T)>> = Mutex::new(Vec::with_capacity(self.files.len()));
        let failure: Mutex<Option<(PathBuf, io::Error)>> = Mutex::new(None);
        let work = || {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(file) = self.files.get(number) else { return };
                if self.interrupt.load(Ordering::Relaxed) {
                    return;
                }
                match act(self, number, file) {
                    Ok(result) => {
                        let mut all = results.lock().unwrap_or_else(PoisonError::into_inner);
                        all.push((number, result));
                    }
                    Err(error) => {
                        let mut first = failure.lock().unwrap_or_else(PoisonError::into_inner);
                        first.get_or_insert((file.from.clone(), error));
                        next.store(self.files.len(), Ordering::Relaxed);
                    }
                }
            }
        };
        thread::scope(|scope| {
            for _ in 0..self.jobs.clamp(1, self.files.len().max(1)) {
                scope.spawn(work);
            }
        });
        if self.interrupt.load(Ordering::Relaxed) {
            return Err(BuildError::Interrupted);
        }
        if let Some((path, error)) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(BuildError::file("separate the debug symbols of", &path)(error));
        }
        let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        results.sort_unstable_by_key(|(number, _)| *number);
        Ok(results.into_iter().map(|(_, result)| result).collect())
    }

    /// Runs `objcopy` for all files that it can split. It reads files of others, so it sees the tree, which it
    /// cannot change, and the directory of its results.
    fn separate(
        &self,
        bench: &mut BuildContext<'_>,
        objcopy: &Objcopy,
        tree: &Path,
        kinds: &[Kind],
    ) -> Result<()> {
        let (inside_tree, results) = (Inside::work("tree"), Inside::work("results"));
        let mut list = Vec::new();
        for (number, (file, kind)) in self.files.iter().zip(kinds).enumerate() {
            if matches!(kind, Kind::Debug { build_id: Some(_) }) {
                for path in [inside_tree.join(&file.relative), results.join(number.to_string())] {
                    list.extend_from_slice(path.as_os_str().as_bytes());
                    list.push(0);
                }
            }
        }
        if list.is_empty() {
            return Ok(());
        }
        disk::put(&self.pending.join(SCRIPT_NAME), SCRIPT)?;
        disk::put(&self.pending.join(LIST), list)?;
        let mut sandbox = Sandbox::new(bench.request, bench.layout);
        let program = sandbox.keep_program(&objcopy.program);
        sandbox.bind(tree, &inside_tree, true);
        sandbox.bind(&self.pending, &results, false);
        let invocation = Invocation::new("/bin/sh", &results)
            .with([results.join(SCRIPT_NAME), program, results.join(LIST)])
            .with([self.jobs.max(1).to_string()]);
        bench.run(&sandbox, &invocation)
    }

    /// Puts a file into the new tree, with its debug symbols or without.
    fn place(&self, number: usize, file: &SourceFile, kind: &Kind) -> io::Result<Outcome> {
        let outcome = match kind {
            Kind::Plain => Outcome::Plain,
            Kind::Debug { build_id: None } => Outcome::Left("no build ID".to_owned()),
            Kind::Debug { build_id: Some(build_id) } => match self.problem(number, file)? {
                None => Outcome::Split(build_id.clone()),
                Some(why) => Outcome::Left(why.to_owned()),
            },
        };
        if matches!(outcome, Outcome::Split(_)) {
            fs::rename(self.result(number, REST), &file.to)?;
        } else {
            if self.may_link && fs::hard_link(&file.from, &file.to).is_ok() {
                return Ok(outcome);
            }
            fs::copy(&file.from, &file.to)?;
        }
        fs::set_permissions(&file.to, Permissions::from_mode(file.mode))?;
        Ok(outcome)
    }

    /// Returns why the results about a file cannot be used.
    fn problem(&self, number: usize, file: &SourceFile) -> io::Result<Option<&'static str>> {
        let (rest, debug) = (self.result(number, REST), self.result(number, DEBUG));
        // A hostile file can make `objcopy` leave anything here.
        let is_file = |path: &Path| {
            path.symlink_metadata().is_ok_and(|found| found.is_file() && found.nlink() == 1)
        };
        if !is_file(&rest) || !is_file(&debug) {
            let error = self.result(number, "error");
            let text = if is_file(&error) { fs::read(&error)? } else { Vec::new() };
            if lines(&text).iter().any(|line| line.contains("No space left")) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            return Ok(Some("`objcopy` cannot read it"));
        }
        if !elf::loads_same(&file.from, &rest)? {
            return Ok(Some("`objcopy` would change what is loaded"));
        }
        Ok(None)
    }
}
