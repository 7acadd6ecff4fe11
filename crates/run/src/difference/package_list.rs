// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The packages in an image: from the list in its metadata, or its lock file, or else from
//! what is in it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use cabane_mount::{ImageFile, open_in_image};
use cabane_report::Result;
use cabane_view::{PackageList, PackageRecord};
use rustix::fs::{Dir, FileType};
use serde_json::Value;

use crate::inside::Package;
use crate::metadata::{MountMethods, look_into};

/// What answers where the list in the metadata is read alone.
const NONE: &[u8] = b"null";
/// The lock file of the python engine, in the metadata.
const REQUIREMENTS: &str = "lock/requirements.txt";
/// Where the lock file of Spack may be, in the metadata.
const SPACK_LOCKS: [&str; 3] = ["lock/spack.lock", "spack.lock", "recipe/spack.lock"];
/// The most that is read of one file, in bytes.
const MOST_BYTES: u64 = 64 << 20;
/// How deep packages may lie, and how many directories are looked at.
const MOST_DEPTH: usize = 8;
const MOST_DIRECTORIES: usize = 20_000;

/// Returns the packages of an image, from the copy of its metadata in a repository if
/// there is one with a lock file, else from the image itself.
///
/// # Errors
///
/// The image cannot be mounted or read.
pub fn read_packages(
    image: &ImageFile,
    meta: Option<&Path>,
    methods: &MountMethods,
) -> Result<Vec<Package>> {
    let beside = |name: &str| fs::read(meta?.join(name)).ok();
    if let Some(packages) = from_locks(beside) {
        return Ok(packages);
    }
    let answer = look_into(&[image], methods, |mounts| {
        let Some(mount) = mounts.first() else {
            return Ok(Vec::new());
        };
        let inside = |name: &str| read(mount, &Path::new("meta").join(name));
        let packages = match from_locks(inside) {
            Some(packages) => packages,
            None => in_tree(mount)?,
        };
        serde_json::to_vec(&packages).map_err(io::Error::from)
    })?;
    Ok(serde_json::from_slice(&answer).unwrap_or_default())
}

/// Returns the list of packages in the metadata of an image, from the copy in a repository
/// if there is one; `None` if the image has no such list.
///
/// # Errors
///
/// The image cannot be mounted or read.
pub fn read_package_list(
    image: &ImageFile,
    meta: Option<&Path>,
    methods: &MountMethods,
) -> Result<Option<PackageList>> {
    // Whatever has a copy has all of it.
    if let Some(meta) = meta.filter(|meta| meta.is_dir()) {
        let text = fs::read(meta.join(PackageList::FILE)).ok();
        return Ok(text.and_then(|text| PackageList::from_json(&text).ok()));
    }
    let text = look_into(&[image], methods, |mounts| {
        let path = Path::new("meta").join(PackageList::FILE);
        let found = mounts.first().and_then(|mount| read(mount, &path));
        Ok(found.unwrap_or_else(|| NONE.to_vec()))
    })?;
    Ok(PackageList::from_json(&text).ok())
}

/// Returns a file of the metadata of an image, from the copy in a repository if there is one; `None`
/// if the image has no such file.
///
/// # Errors
///
/// The image cannot be mounted or read.
pub fn read_meta_file(
    image: &ImageFile,
    meta: Option<&Path>,
    methods: &MountMethods,
    name: &str,
) -> Result<Option<Vec<u8>>> {
    if let Some(meta) = meta.filter(|meta| meta.is_dir()) {
        return Ok(fs::read(meta.join(name)).ok());
    }
    let text = look_into(&[image], methods, |mounts| {
        let path = Path::new("meta").join(name);
        Ok(mounts.first().and_then(|mount| read(mount, &path)).unwrap_or_default())
    })?;
    Ok(Some(text).filter(|text| !text.is_empty()))
}

/// As [`read_packages`], with all that is known about each.
///
/// # Errors
///
/// The image cannot be mounted or read.
pub fn list_packages(
    image: &ImageFile,
    meta: Option<&Path>,
    methods: &MountMethods,
) -> Result<PackageList> {
    if let Some(list) = read_package_list(image, meta, methods)? {
        return Ok(list);
    }
    Ok(list_of(read_packages(image, meta, methods)?))
}

/// The files of metadata that say which packages an image has.
pub const PACKAGE_FILES: [&str; 5] =
    [PackageList::FILE, REQUIREMENTS, SPACK_LOCKS[0], SPACK_LOCKS[1], SPACK_LOCKS[2]];

/// Returns what metadata say about the packages of an image, from those of their
/// [`PACKAGE_FILES`] that can be read; `None` if they say nothing.
pub fn packages_in_metadata(read: impl Fn(&str) -> Option<Vec<u8>>) -> Option<PackageList> {
    let list = read(PackageList::FILE).and_then(|text| PackageList::from_json(&text).ok());
    list.or_else(|| from_locks(read).map(list_of))
}

/// Returns the lines of the packages that the metadata in a directory say; `None` if they say
/// nothing.
#[must_use]
pub fn lines_beside(meta: &Path) -> Option<String> {
    let list = packages_in_metadata(|name| fs::read(meta.join(name)).ok());
    list.map(|list| list.to_lines())
}

/// Returns the packages that the metadata in a directory list; `None` if they list none.
#[must_use]
pub fn packages_beside(meta: &Path) -> Option<Vec<Package>> {
    packages_in_metadata(|name| fs::read(meta.join(name)).ok()).map(packages_of)
}

fn list_of(packages: Vec<Package>) -> PackageList {
    let records = packages.into_iter().map(|package| PackageRecord {
        name: package.name,
        version: package.version,
        hash: package.hash,
        manager: package.manager,
        ..PackageRecord::default()
    });
    PackageList::new(records.collect())
}

fn of_list(text: &[u8]) -> Option<Vec<Package>> {
    PackageList::from_json(text).ok().map(packages_of)
}

fn packages_of(list: PackageList) -> Vec<Package> {
    let package = |record: PackageRecord| Package {
        name: record.name,
        version: record.version,
        manager: record.manager,
        hash: record.hash,
    };
    list.packages.into_iter().map(package).collect()
}

fn from_locks(read: impl Fn(&str) -> Option<Vec<u8>>) -> Option<Vec<Package>> {
    if let Some(packages) = read(PackageList::FILE).and_then(|text| of_list(&text)) {
        return Some(packages);
    }
    if let Some(text) = read(REQUIREMENTS) {
        return Some(of_requirements(&String::from_utf8_lossy(&text)));
    }
    SPACK_LOCKS.into_iter().find_map(|name| of_spack_lock(&read(name)?))
}

/// Reads `name==version \` and the hashes below, which begin with `--`; and the names
/// of wheels.
fn of_requirements(text: &str) -> Vec<Package> {
    let package = |line: &str| {
        let line = line.split([';', '\\', '#']).next()?.trim();
        let (name, version) = if let Some((name, version)) = line.split_once("==") {
            (name.split('[').next()?, version)
        } else {
            let file = line.split(' ').next()?.rsplit('/').next()?;
            let mut parts = file.strip_suffix(".whl")?.split('-');
            (parts.next()?, parts.next()?)
        };
        Some(Package {
            name: name.trim().to_owned(),
            version: version.split_whitespace().next()?.to_owned(),
            manager: "python".to_owned(),
            hash: None,
        })
    };
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("--"));
    lines.filter_map(package).collect()
}

fn of_spack_lock(text: &[u8]) -> Option<Vec<Package>> {
    let document: Value = serde_json::from_slice(text).ok()?;
    let specs = document.get("concrete_specs")?.as_object()?;
    let package = |(hash, node): (&String, &Value)| {
        let package = Package::of_spack_node(node)?;
        Some(Package { hash: Some(hash.clone()), ..package })
    };
    Some(specs.iter().filter_map(package).collect())
}

/// Walks through the directories in which packages are installed.
fn in_tree(mount: &OwnedFd) -> io::Result<Vec<Package>> {
    let mut packages = Vec::new();
    let mut waiting = vec![(PathBuf::from("."), 0_usize)];
    let mut looked_at = 0;
    while let Some((directory, depth)) = waiting.pop() {
        looked_at += 1;
        if looked_at > MOST_DIRECTORIES {
            break;
        }
        let names = directories_in(mount, &directory)?;
        if let Some(package) = spack_package(mount, &directory, &names) {
            packages.push(package);
            continue;
        }
        if is_for_modules(&directory) {
            let wheels = names.iter().filter_map(|name| name.to_str());
            packages.extend(wheels.filter_map(Package::of_dist_info));
        } else if depth < MOST_DEPTH {
            let below = names.into_iter().map(|name| (directory.join(name), depth + 1));
            waiting.extend(below);
        }
    }
    packages.sort();
    Ok(packages)
}

fn spack_package(mount: &OwnedFd, directory: &Path, names: &[OsString]) -> Option<Package> {
    if !names.iter().any(|name| name == ".spack") {
        return None;
    }
    let text = read(mount, &directory.join(".spack/spec.json"))?;
    let name = directory.file_name()?.to_str()?;
    Package::of_spec_json(&text).or_else(|| Package::of_spack_directory(name))
}

fn is_for_modules(directory: &Path) -> bool {
    let name = directory.file_name().unwrap_or_default();
    name == "site-packages" || name == "dist-packages"
}

fn directories_in(mount: &OwnedFd, directory: &Path) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    let opened = open_in_image(mount.as_fd(), directory)?;
    for entry in Dir::read_from(opened.as_fd())? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if entry.file_type() == FileType::Directory && name != "." && name != ".." {
            names.push(OsString::from_vec(name.as_bytes().to_vec()));
        }
    }
    Ok(names)
}

fn read(mount: &OwnedFd, path: &Path) -> Option<Vec<u8>> {
    let file = open_in_image(mount.as_fd(), path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(packages: Vec<Package>) -> Vec<String> {
        let describe = |one: Package| format!("{} {}", one.name, one.version);
        packages.into_iter().map(describe).collect()
    }

    #[test]
    fn a_locked_requirement_is_a_package() {
        let text = "# made by a tool\nnumpy==2.4.6 \\\n    --hash=sha256:ab \\\n    --hash=sha256:cd\n\
            uvicorn[standard]==0.30 ; python_version >= '3.9' \\\n    --hash=sha256:ef\n\
            ./wheels/own_tool-1.2-py3-none-any.whl --hash=sha256:00\n";
        assert_eq!(
            describe(of_requirements(text)),
            ["numpy 2.4.6", "uvicorn 0.30", "own_tool 1.2"]
        );
    }

    #[test]
    fn a_spec_of_a_lock_file_of_spack_is_a_package() {
        let text = br#"{"concrete_specs":{"abc":{"name":"hdf5","version":"1.14"}}}"#;
        assert_eq!(describe(of_spack_lock(text).unwrap()), ["hdf5 1.14"]);
    }
}
