// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Spack and its package repositories, each at one commit, from a cache of clones.
//!
//! ```text
//! <cache>/git/<id>/           a bare clone with what was ever requested of one address
//! <cache>/git/<id>.lock       held by the build that adds to it
//! <cache>/trees/<commit>/     the files of a commit; read by builds, never written
//! <build>/work/sources.json   which commit follows each name in this build
//! ```
//!
//! A branch is looked up once per build directory: its build stays the same until the
//! directory is removed or the recipe names another commit.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use archives::ARCHIVES;
pub(crate) use archives::is_archive;
use cabane_label::{escape, shown};
use cabane_recipe::{GitSource, SpackVersion};

mod archives;
use crate::build_context::BuildContext;
use crate::fingerprint::{self, Inputs};
use crate::layout::Layout;
use crate::sandbox::Invocation;
use crate::turn::Turn;
use crate::{BuildError, Result, cache, disk, program};

/// The clones and the trees in the cache.
const GIT: &str = "git";
const TREES: &str = "trees";
pub(super) const RECORD: &str = "sources.json";

/// Something that comes from a Git repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Source {
    /// Its name in this build: `spack`, or that of a package repository.
    pub(super) name: String,
    /// The address: a URL, or a path.
    pub(super) address: String,
    /// A commit, tag or branch; the default branch if there is none.
    pub(super) reference: Option<String>,
}

impl Source {
    pub(super) fn of(name: &str, source: &GitSource) -> Self {
        Self {
            name: name.to_owned(),
            address: source.repo.clone(),
            reference: source.commit.clone(),
        }
    }

    /// The same, as recipes have it.
    pub(super) fn git(&self) -> GitSource {
        GitSource { repo: self.address.clone(), commit: self.reference.clone() }
    }
}

/// Where the files of a source are on this machine.
#[derive(Debug)]
pub(super) struct Found {
    /// A directory with the files, or a clone.
    pub(super) place: PathBuf,
    pub(super) is_tree: bool,
    pub(super) commit: String,
    /// Whether there may be a newer commit elsewhere.
    pub(super) is_moving: bool,
}

/// The commits that a build uses, by the name of the source.
pub(super) type Commits = BTreeMap<String, String>;

/// What a build takes from Git repositories.
#[derive(Clone, Debug)]
pub(super) struct Sources {
    pub(super) list: Vec<Source>,
    pub(super) git: PathBuf,
    /// For archives: unpacks, and gets what is elsewhere.
    pub(super) tar: PathBuf,
    pub(super) curl: PathBuf,
    pub(super) cache: PathBuf,
}

impl Sources {
    /// What decides about the commits.
    pub(super) fn inputs(&self) -> Inputs {
        let input = |source: &Source| {
            let reference = source.reference.as_deref().unwrap_or("the default branch");
            (source.name.clone(), format!("{} {reference}", source.address))
        };
        self.list.iter().map(input).collect()
    }

    /// Returns where the record of a build is.
    pub(super) fn record(layout: &Layout) -> PathBuf {
        layout.work().join(RECORD)
    }

    /// Returns the commits of a build, if all of them are known and there.
    pub(super) fn commits(&self, layout: &Layout) -> Option<Commits> {
        let commits: Commits = disk::read_json(&Self::record(layout), 1 << 20)?;
        let is_there = |source: &Source| {
            let commit = commits.get(&source.name)?;
            self.tree(commit).is_dir().then_some(())
        };
        self.list.iter().all(|source| is_there(source).is_some()).then_some(commits)
    }

    /// Returns the version of Spack, from its files; `None` if these are not here.
    pub(super) fn version(&self, commits: &Commits) -> Option<SpackVersion> {
        let file = self.tree(commits.get("spack")?).join("lib/spack/spack/__init__.py");
        let text = disk::read_start(&file, 1 << 16).ok()?;
        let text = String::from_utf8_lossy(&text);
        let version = text.lines().find_map(|line| line.strip_prefix("__version__ = "))?;
        SpackVersion::in_name(version.trim_matches(['"', '\'']))
    }

    /// Returns where the files of a commit are.
    pub(super) fn tree(&self, commit: &str) -> PathBuf {
        self.cache.join(TREES).join(commit)
    }

    /// Returns the commands that get a source, as they could be typed.
    pub(super) fn invocations(&self) -> Vec<Invocation> {
        let commands = |source: &Source| {
            if is_archive(&source.address) {
                return self.archive_invocations(source);
            }
            vec![self.fetch(&self.clone_of(&source.address), source)]
        };
        self.list.iter().flat_map(commands).collect()
    }

    /// Gets everything, and records the commits.
    pub(super) fn execute(&self, bench: &mut BuildContext<'_>) -> Result<()> {
        for directory in [GIT, TREES, ARCHIVES] {
            disk::make_directory(&self.cache.join(directory))?;
        }
        let mut commits = Commits::new();
        for source in &self.list {
            let commit = self.get(source, bench)?;
            commits.insert(source.name.clone(), commit);
        }
        disk::write_json(&Self::record(bench.layout), &commits)
    }

    fn clone_of(&self, address: &str) -> PathBuf {
        let id = fingerprint::of_bytes(address.as_bytes()).id().to_string();
        self.cache.join(GIT).join(id)
    }

    /// Gets one source and returns its commit.
    fn get(&self, source: &Source, bench: &mut BuildContext<'_>) -> Result<String> {
        if is_archive(&source.address) {
            return self.get_archive(source, bench);
        }
        let local = Path::new(&source.address);
        if local.is_absolute() && local.is_dir() {
            return self.get_local(local, source, bench);
        }
        let clone = self.clone_of(&source.address);
        let _turn = Turn::take(&clone.with_extension("lock"), bench.progress, bench.interrupt)?;
        if !clone.is_dir() {
            self.make_clone(&clone, bench)?;
        }
        let known = source.reference.as_deref().filter(|reference| is_commit(reference));
        let commit = match known {
            Some(commit) if self.has(&clone, commit) => commit.to_owned(),
            _ => self.look_up(&clone, source, bench)?,
        };
        cache::note_use(&clone);
        self.check_out(&clone, &commit, bench)?;
        Ok(commit)
    }

    /// Gets a source from a clone on this machine, which is read where it is.
    fn get_local(
        &self,
        clone: &Path,
        source: &Source,
        bench: &mut BuildContext<'_>,
    ) -> Result<String> {
        let question = ["rev-parse", "--absolute-git-dir"];
        let directory = program::ask_line(&self.git, clone, &question);
        let directory = directory.map_err(|answer| {
            let (clone, answer) = (shown(clone), escape(&answer));
            let message = format!("cannot read the Git repository {clone}: {answer}");
            BuildError::refused(message, None)
        })?;
        let directory = Path::new(&directory);
        let name = source.reference.as_deref().unwrap_or("HEAD");
        let remote = format!("origin/{name}");
        let found =
            [name, &remote].iter().find_map(|name| self.commit_of(directory, name, source).ok());
        let commit = match found {
            Some(commit) => commit,
            None => self.commit_of(directory, name, source)?,
        };
        self.check_out(directory, &commit, bench)?;
        Ok(commit)
    }

    /// Finds the files of a source without getting anything.
    pub(super) fn find(&self, source: &Source) -> Option<Found> {
        let tree_of = |commit: String, is_moving| {
            let place = self.tree(&commit);
            place.is_dir().then_some(Found { place, is_tree: true, commit, is_moving })
        };
        if is_archive(&source.address) {
            return tree_of(self.archived(source)?, false);
        }
        let name = source.reference.as_deref().unwrap_or("HEAD");
        let local = Path::new(&source.address);
        let is_local = local.is_absolute() && local.is_dir();
        let (clone, names) = if is_local {
            (local.to_owned(), [name.to_owned(), format!("origin/{name}")])
        } else if is_commit(name) {
            (self.clone_of(&source.address), [name.to_owned(), name.to_owned()])
        } else {
            (self.clone_of(&source.address), [seen(name), format!("refs/heads/{name}")])
        };
        if is_commit(name)
            && let Some(found) = tree_of(name.to_owned(), false)
        {
            return Some(found);
        }
        let mut commits = names.iter().filter_map(|name| self.commit_of(&clone, name, source).ok());
        let commit = commits.next()?;
        let is_moving = !is_local && !is_commit(name);
        tree_of(commit.clone(), is_moving).or_else(|| {
            let found = Found { place: clone.clone(), is_tree: false, commit, is_moving };
            self.has(&clone, &found.commit).then_some(found)
        })
    }

    fn make_clone(&self, clone: &Path, bench: &mut BuildContext<'_>) -> Result<()> {
        let new = clone.with_extension("new");
        disk::remove(&new)?;
        let init = self.git_in(Path::new("/")).with(["init", "--quiet", "--bare"]).with([&new]);
        bench.run_outside(&init, &quiet())?;
        disk::rename(&new, clone)
    }

    /// Asks the address for a branch, tag or commit: for that alone, and where it does
    /// not give single commits, for everything.
    fn look_up(
        &self,
        clone: &Path,
        source: &Source,
        bench: &mut BuildContext<'_>,
    ) -> Result<String> {
        match bench.run_outside(&self.fetch(clone, source), &quiet()) {
            Ok(()) => {
                let commit = self.commit_of(clone, "FETCH_HEAD", source)?;
                let name = source.reference.as_deref().unwrap_or("HEAD");
                if !is_commit(name) {
                    // For those that do not ask the address.
                    program::succeeds(&self.git, clone, &["update-ref", &seen(name), &commit]);
                }
                return Ok(commit);
            }
            Err(BuildError::StepFailed(_)) if source.reference.is_some() => {}
            Err(error) => return Err(error),
        }
        let everything = self.git_in(clone).with([
            "fetch",
            "--quiet",
            "--force",
            "--tags",
            &source.address,
            "+refs/heads/*:refs/heads/*",
        ]);
        bench.run_outside(&everything, &quiet())?;
        self.commit_of(clone, source.reference.as_deref().unwrap_or("HEAD"), source)
    }

    fn fetch(&self, clone: &Path, source: &Source) -> Invocation {
        self.git_in(clone).with([
            "fetch",
            "--quiet",
            "--depth=1",
            "--no-tags",
            &source.address,
            source.reference.as_deref().unwrap_or("HEAD"),
        ])
    }

    fn has(&self, clone: &Path, commit: &str) -> bool {
        let name = format!("{commit}^{{tree}}");
        program::succeeds(&self.git, clone, &["cat-file", "-e", &name])
    }

    fn commit_of(&self, clone: &Path, name: &str, source: &Source) -> Result<String> {
        let wanted = format!("{name}^{{commit}}");
        let question = ["rev-parse", "--verify", "--quiet", &wanted];
        let commit = program::ask_line(&self.git, clone, &question).ok();
        commit.filter(|commit| is_commit(commit)).ok_or_else(|| {
            let (address, name) = (escape(&source.address), escape(name));
            BuildError::refused(format!("{address} has no commit, tag, or branch `{name}`"), None)
        })
    }

    /// Makes the tree of a commit or an archive, unless it is there. The same one may
    /// come from several addresses at once.
    pub(super) fn make_tree(
        &self,
        name: &str,
        bench: &mut BuildContext<'_>,
        fill: impl FnOnce(&Path, &mut BuildContext<'_>) -> Result<()>,
    ) -> Result<()> {
        let tree = self.tree(name);
        let lock = tree.with_extension("lock");
        let _turn = Turn::take(&lock, bench.progress, bench.interrupt)?;
        if tree.is_dir() {
            cache::note_use(&tree);
            return Ok(());
        }
        let new = tree.with_extension("new");
        disk::make_empty(&new)?;
        fill(&new, bench)?;
        super::bytecode::settle(&new)?;
        disk::rename(&new, &tree)
    }

    /// Writes the files of a commit into the cache.
    fn check_out(&self, clone: &Path, commit: &str, bench: &mut BuildContext<'_>) -> Result<()> {
        self.make_tree(commit, bench, |new, bench| {
            let index = new.with_extension("index");
            disk::remove(&index)?;
            let variables = [
                ("GIT_DIR", clone.as_os_str()),
                ("GIT_WORK_TREE", new.as_os_str()),
                ("GIT_INDEX_FILE", index.as_os_str()),
            ];
            let commands = [
                self.git_in(new).with(["read-tree", commit]),
                self.git_in(new).with(["checkout-index", "--all", "--force"]),
            ];
            for command in &commands {
                bench.run_outside(command, &variables)?;
            }
            disk::remove(&index)
        })
    }

    fn git_in(&self, directory: &Path) -> Invocation {
        Invocation::new(&self.git, directory)
    }
}

/// Where a clone keeps which commit a branch or tag was when it was last asked for.
fn seen(name: &str) -> String {
    format!("refs/cabane/{name}")
}

/// There is no terminal to ask for a password.
fn quiet() -> [(&'static str, &'static OsStr); 1] {
    [("GIT_TERMINAL_PROMPT", OsStr::new("0"))]
}

/// Whether a text is the full name of a commit.
pub(crate) fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
