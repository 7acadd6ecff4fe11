// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The package repositories of the recipe and of the system, which travel with the image.
//!
//! ```text
//! <recipe>/repo/
//! ├── repo.yaml          may name the version of Spack's package API
//! ├── packages/
//! └── build_systems/     and whatever else its packages import
//! ```

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use cabane_recipe::{MAX_FILE_SIZE, SystemConfig, Yaml};
use cabane_spack::{RECIPE_REPOSITORY, SYSTEM_REPOSITORY};

use crate::fingerprint::{self, Hash};
use crate::{BuildError, Result, disk};

/// What names the version of the package API.
pub(super) const REPO_YAML: &str = "repo.yaml";
/// The packages.
pub(super) const PACKAGES: &str = "packages";
/// The version of the package API where none is named: major, minor.
const API: (u32, u32) = (2, 0);
/// Links in a repository and in `packages` are followed; those below lead to neighbours.
const FOLLOWED: u32 = 2;

/// The package repositories of the recipe and of the system: what they are called in
/// Spack, and where they are. Of several below one name, the first that has a package or
/// another file comes before the others.
pub(super) type OwnPackages = BTreeMap<String, Vec<PathBuf>>;

/// Returns the repositories that belong to the recipe and to the system, by the name that
/// Spack knows them by.
pub(super) fn find(recipe: &Path, system: &Path, config: &SystemConfig) -> Result<OwnPackages> {
    let mut found = BTreeMap::new();
    let own = recipe.join("repo");
    if own.join(PACKAGES).is_dir() {
        found.insert(RECIPE_REPOSITORY.to_owned(), vec![own]);
    }
    let mut of_system = Vec::new();
    for relative in &config.package_repositories {
        let path = system.join(relative);
        of_system.push(path.canonicalize().map_err(BuildError::file("find", &path))?);
    }
    if !of_system.is_empty() {
        found.insert(SYSTEM_REPOSITORY.to_owned(), of_system);
    }
    Ok(found)
}

/// Changes with any file of the repositories: with its name, its content, and whether it
/// is a program. Times do not count: a fresh clone is the same.
pub(super) fn digest(repositories: &OwnPackages) -> Result<String> {
    let mut hash = Hash::new();
    for repository in repositories.values().flatten() {
        refuse_links_that_leave(repository)?;
    }
    for (namespace, directories) in repositories {
        hash.text(namespace);
        hash.number(directories.len() as u64);
        for directory in directories {
            add(&mut hash, directory, FOLLOWED)?;
        }
    }
    Ok(hash.finish().to_string())
}

/// Fails if a link that is followed leads out of the Git work tree of a repository, or where there is
/// none, out of the directory that holds the repository. What it leads to would travel with the image.
fn refuse_links_that_leave(repository: &Path) -> Result<()> {
    let real = |path: &Path| path.canonicalize().map_err(BuildError::file("find", path));
    let repository = real(repository)?;
    let root = repository.ancestors().find(|above| above.join(".git").exists());
    let root = root.or(repository.parent()).unwrap_or(&repository);
    for directory in [repository.clone(), repository.join(PACKAGES)] {
        for name in names(&directory)? {
            let path = directory.join(name);
            if path.is_symlink() && !real(&path)?.starts_with(root) {
                let (path, root) = (cabane_label::shown(&path), cabane_label::shown(root));
                let message = format!("the link {path} leads out of {root}");
                return Err(BuildError::refused(message, "copy the packages instead"));
            }
        }
    }
    Ok(())
}

fn add(hash: &mut Hash, directory: &Path, followed: u32) -> Result<()> {
    let names = names(directory)?;
    hash.number(names.len() as u64);
    for name in names {
        let path = directory.join(&name);
        hash.bytes(name.as_bytes());
        match Entry::of(&path, followed)? {
            Entry::Directory => {
                hash.text("directory");
                add(hash, &path, followed.saturating_sub(1))?;
            }
            Entry::Link(destination) => {
                hash.text("link");
                hash.bytes(destination.as_os_str().as_bytes());
            }
            Entry::File { is_program } => {
                hash.text(if is_program { "program" } else { "file" });
                let digest = fingerprint::of_file(&path);
                hash.text(digest.map_err(BuildError::file("read", &path))?.as_str());
            }
        }
    }
    Ok(())
}

/// What belongs to a repository.
enum Entry {
    Directory,
    Link(PathBuf),
    File { is_program: bool },
}

impl Entry {
    /// Looks at a path. `followed` is above 0 where links are followed.
    fn of(path: &Path, followed: u32) -> Result<Self> {
        let failed = || BuildError::file("look at", path);
        let found = if followed > 0 { path.metadata() } else { path.symlink_metadata() };
        let found = found.map_err(failed())?;
        Ok(if found.is_dir() {
            Self::Directory
        } else if found.is_symlink() {
            Self::Link(fs::read_link(path).map_err(failed())?)
        } else if found.is_file() {
            Self::File { is_program: found.permissions().mode() & 0o111 != 0 }
        } else {
            let message =
                format!("{} is neither a file nor a directory", cabane_label::shown(path));
            return Err(BuildError::refused(message, "remove it from the package repository"));
        })
    }
}

/// Lists what belongs to a repository, in the order of the names: not what Git and Python
/// leave.
fn names(directory: &Path) -> Result<Vec<OsString>> {
    let entries = disk::entries("list", directory)?.into_iter();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
    names.retain(|name| name != ".git" && name != "__pycache__");
    names.sort_unstable();
    Ok(names)
}

/// Writes repositories as one below `target`, with the newest package API that one of them
/// names.
///
/// # Errors
///
/// A `repo.yaml` that is none, or a file that cannot be copied.
pub(super) fn write(namespace: &str, sources: &[PathBuf], target: &Path) -> Result<()> {
    disk::make_directory(&target.join(PACKAGES))?;
    let mut api = API;
    for source in sources {
        api = api.max(api_of(source)?);
        for name in names(source)?.iter().filter(|name| *name != REPO_YAML) {
            let (from, to) = (source.join(name), target.join(name));
            if !(from.is_dir() && to.is_dir()) {
                copy_new(&from, &to, FOLLOWED)?;
                continue;
            }
            for name in names(&from)? {
                copy_new(&from.join(&name), &to.join(&name), FOLLOWED - 1)?;
            }
        }
    }
    let (major, minor) = api;
    let text = format!("repo:\n  namespace: {namespace}\n  api: v{major}.{minor}\n");
    disk::put(&target.join(REPO_YAML), text)
}

/// Copies a file or a directory, unless something is there already.
fn copy_new(source: &Path, target: &Path, followed: u32) -> Result<()> {
    if target.symlink_metadata().is_ok() {
        return Ok(());
    }
    match Entry::of(source, followed)? {
        Entry::Directory => {
            disk::make_directory(target)?;
            let names = names(source)?;
            let copy =
                |name| copy_new(&source.join(name), &target.join(name), followed.saturating_sub(1));
            names.iter().try_for_each(copy)
        }
        Entry::Link(destination) => {
            symlink(destination, target).map_err(BuildError::file("copy", source))
        }
        Entry::File { .. } => crate::metadata::copy_file(source, target),
    }
}

/// Whether the packages of a repository are for the package API 1: it names that version, or it
/// names none, and no package looks like one of the package API 2.
pub(super) fn is_before_api_2(repository: &Path) -> Result<bool> {
    if let Some((major, _)) = named_api(repository)? {
        return Ok(major < 2);
    }
    let packages = repository.join(PACKAGES);
    for name in names(&packages)? {
        let text = packages.join(&name).join("package.py");
        let text = disk::read_start(&text, MAX_FILE_SIZE).unwrap_or_default();
        let is_new = name.as_bytes().contains(&b'_')
            || String::from_utf8_lossy(&text).contains("spack_repo.");
        if is_new {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The package API that a repository names. Repositories from before version 2 are written
/// as version 2, as they were always.
fn api_of(repository: &Path) -> Result<(u32, u32)> {
    let named = named_api(repository)?;
    Ok(named.filter(|(major, _)| *major >= API.0).unwrap_or(API))
}

fn named_api(repository: &Path) -> Result<Option<(u32, u32)>> {
    let path = repository.join(REPO_YAML);
    let text = match disk::read_start(&path, MAX_FILE_SIZE + 1) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(BuildError::file("read", &path)(error)),
    };
    let document = Yaml::parse(&path, &text)
        .map_err(|mistakes| cabane_recipe::malformed("repo.yaml", mistakes.diagnostics()))?;
    let Some(named) = document.at(&["repo", "api"]) else {
        return Ok(None);
    };
    let version = named.as_text().and_then(version);
    version.map(Some).ok_or_else(|| {
        let path = cabane_label::shown(&path);
        let message = format!("{path}: `api` is not a version of Spack's package API");
        BuildError::refused(message, "write a version, such as `api: v2.2`")
    })
}

fn version(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.strip_prefix('v')?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository(files: &[(&str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            disk::put(&directory.path().join(name), text).unwrap();
        }
        directory
    }

    fn digest_of(repository: &tempfile::TempDir) -> String {
        let all = BTreeMap::from([("recipe".to_owned(), vec![repository.path().to_owned()])]);
        digest(&all).unwrap()
    }

    #[test]
    fn a_copy_made_later_has_the_same_digest_and_an_edited_one_another() {
        let package = ("packages/a/package.py", "class A: pass\n");
        let one = repository(&[package]);
        let file = fs::File::options().write(true).open(one.path().join(package.0)).unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
        let copy = repository(&[package, (".git/HEAD", "main"), ("__pycache__/a.pyc", "x")]);
        assert_eq!(digest_of(&one), digest_of(&copy));
        for other in [("packages/a/package.py", "class A: 1\n"), ("build_systems/b.py", "")] {
            assert_ne!(digest_of(&one), digest_of(&repository(&[package, other])));
        }
    }

    #[test]
    fn repositories_become_one_with_the_newest_api_and_the_first_of_each_package() {
        let one = repository(&[
            ("repo.yaml", "repo: {namespace: one, api: v2.0}\n"),
            ("packages/a/package.py", "one"),
        ]);
        let two = repository(&[
            ("repo.yaml", "repo:\n  namespace: two\n  api: v2.2\n"),
            ("packages/a/package.py", "two"),
            ("packages/a/fix.patch", "two"),
            ("packages/b/package.py", "two"),
            ("build_systems/make.py", "two"),
        ]);
        let target = tempfile::tempdir().unwrap();
        let sources = [one, two];
        let paths: Vec<_> = sources.iter().map(|one| one.path().to_owned()).collect();
        write("alps", &paths, target.path()).unwrap();
        let read = |name: &str| fs::read_to_string(target.path().join(name)).ok();
        assert_eq!(read("repo.yaml").unwrap(), "repo:\n  namespace: alps\n  api: v2.2\n");
        assert_eq!(read("packages/a/package.py").unwrap(), "one");
        assert_eq!(read("packages/a/fix.patch"), None);
        assert_eq!(read("packages/b/package.py").unwrap(), "two");
        assert_eq!(read("build_systems/make.py").unwrap(), "two");
    }

    #[test]
    fn a_link_may_not_lead_out_of_the_repository() {
        let elsewhere = repository(&[("secret", "text")]);
        let recipe =
            repository(&[("packages/a/package.py", ""), ("repo/packages/b/package.py", "")]);
        let (own, link) = (recipe.path().join("repo"), recipe.path().join("repo/packages/a"));
        symlink("../../packages/a", &link).unwrap();
        refuse_links_that_leave(&own).unwrap();
        symlink(elsewhere.path(), own.join("build_systems")).unwrap();
        let message = refuse_links_that_leave(&own).unwrap_err().to_string();
        assert!(message.contains("build_systems leads out of"), "{message}");
        fs::create_dir(elsewhere.path().join(".git")).unwrap();
        assert!(refuse_links_that_leave(&own).is_err());
    }

    #[test]
    fn packages_of_the_old_api_are_recognized() {
        let of = |files: &[(&str, &str)]| is_before_api_2(repository(files).path()).unwrap();
        let old = ("packages/my-tool/package.py", "from spack.package import *\n");
        let new = ("packages/tool/package.py", "from spack_repo.builtin.build_systems import x\n");
        assert!(of(&[old]));
        assert!(of(&[old, ("repo.yaml", "repo: {namespace: site}\n")]));
        assert!(of(&[("repo.yaml", "repo: {api: v1.2}\n"), new]));
        assert!(!of(&[new]));
        assert!(!of(&[("packages/my_tool/package.py", "")]));
        assert!(!of(&[old, ("repo.yaml", "repo: {api: v2.0}\n")]));
    }

    #[test]
    fn an_api_that_is_none_is_named_with_its_file() {
        let one = repository(&[("repo.yaml", "repo: {api: new}\n")]);
        let message = api_of(one.path()).unwrap_err().to_string();
        assert!(message.ends_with("`api` is not a version of Spack's package API"), "{message}");
    }
}
