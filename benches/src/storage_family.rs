// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Ten versions of a stack, made of packages that are installed on this machine.
//!
//! Each package is in a prefix of its own, with a hash in its name that changes with the package and with
//! those on which it depends: package *n* depends on *n/2* and *n/3*. Libraries and scripts name these
//! prefixes. A version replaces one package, all of whose files differ a little, and so what depends on
//! it gets other prefixes.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::measure::{NotMeasured, finish};
use crate::processor::to_float;
use crate::tree::Random;

pub(crate) const VERSIONS: usize = 10;
const PACKAGES: usize = 60;
/// The package that the second version replaces; each further version replaces the next.
const FIRST: usize = 8;
/// The size of a package in KiB.
const SIZES: std::ops::RangeInclusive<u64> = 3000..=25_000;

/// The trees of all versions.
pub(crate) struct Family {
    root: PathBuf,
    /// Files and bytes of the first version.
    pub(crate) files: usize,
    pub(crate) bytes: u64,
    /// Bytes of the files that differ from those of the version before, in all versions.
    pub(crate) changed: u64,
}

impl Family {
    pub(crate) fn make(root: &Path) -> Result<Self, NotMeasured> {
        let packages = installed()?;
        let mut family = Self { root: root.to_owned(), files: 0, bytes: 0, changed: 0 };
        for version in 0..VERSIONS {
            for number in 0..packages.len() {
                family
                    .package(&packages, number, version)
                    .map_err(|error| format!("cannot make a tree: {error}"))?;
            }
        }
        Ok(family)
    }

    /// Returns the tree of a version, from 0 on.
    pub(crate) fn tree(&self, version: usize) -> PathBuf {
        self.root.join(format!("tree-{version}"))
    }

    /// Returns how much of a version's files the other one does not have, in pages of 4 KiB: what the page
    /// cache needs for both, if it has equal files once.
    pub(crate) fn new_pages(&self, version: usize, other: usize) -> Result<f64, NotMeasured> {
        let read = |version| pages(&self.tree(version)).map_err(|error| error.to_string());
        let others: HashSet<u64> = read(other)?.into_iter().map(|(sum, _)| sum).collect();
        let (mut new, mut all) = (0_u64, 0_u64);
        for (sum, count) in read(version)? {
            all += count;
            new += if others.contains(&sum) { 0 } else { count };
        }
        Ok(to_float(new) / to_float(all))
    }

    fn package(&mut self, packages: &[Package], number: usize, version: usize) -> io::Result<()> {
        let prefix = prefix(packages, number, version);
        let before = version
            .checked_sub(1)
            .map(|before| self.tree(before).join(self::prefix(packages, number, before)));
        for file in &packages[number].files {
            let inside = file.strip_prefix("/").unwrap_or(file);
            let target = self.tree(version).join(&prefix).join(inside);
            if let Some(parent) = target.parent() {
                fs::create_dir_all(parent)?;
            }
            let content = content(packages, number, version, file)?;
            let old = before.as_ref().map(|before| before.join(inside));
            let is_same =
                old.as_ref().is_some_and(|old| fs::read(old).is_ok_and(|old| old == content));
            if let Some(old) = old.filter(|_| is_same) {
                fs::hard_link(old, target)?;
            } else {
                fs::write(&target, &content)?;
                fs::set_permissions(&target, fs::metadata(file)?.permissions())?;
                self.changed += if version > 0 { content.len() as u64 } else { 0 };
            }
            if version == 0 {
                self.files += 1;
                self.bytes += content.len() as u64;
            }
        }
        Ok(())
    }
}

/// Returns the sum of each file below a directory, and its pages.
fn pages(directory: &Path) -> io::Result<Vec<(u64, u64)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.extend(pages(&entry.path())?);
        } else {
            let content = fs::read(entry.path())?;
            found.push((sum(&content), (content.len() as u64).div_ceil(4096)));
        }
    }
    Ok(found)
}

struct Package {
    name: String,
    files: Vec<PathBuf>,
}

/// Returns packages of Debian that are installed, always the same on one machine.
fn installed() -> Result<Vec<Package>, NotMeasured> {
    let format = "-f=${Installed-Size} ${binary:Package}\n";
    let listed = finish(Command::new("dpkg-query").args(["-W", format]))?;
    let listed = String::from_utf8_lossy(&listed).into_owned();
    let mut names: Vec<&str> = listed
        .lines()
        .filter_map(|line| {
            let (size, name) = line.split_once(' ')?;
            SIZES.contains(&size.parse().ok()?).then_some(name)
        })
        .collect();
    names.sort_by_key(|name| Random::new(sum(name.as_bytes())).next());
    names.truncate(PACKAGES);
    if names.len() <= FIRST + VERSIONS {
        return Err("too few packages of Debian are installed".to_owned());
    }
    names.into_iter().map(package).collect()
}

fn package(name: &str) -> Result<Package, NotMeasured> {
    let files = finish(Command::new("dpkg-query").args(["-L", name]))?;
    let files = String::from_utf8_lossy(&files).into_owned();
    let is_file = |path: &PathBuf| fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
    let files = files.lines().map(PathBuf::from).filter(is_file).collect();
    Ok(Package { name: name.replace(':', "-"), files })
}

/// Returns what a file has in a version.
fn content(
    packages: &[Package],
    number: usize,
    version: usize,
    file: &Path,
) -> io::Result<Vec<u8>> {
    let mut content = fs::read(file)?;
    let seed = sum(file.as_os_str().as_encoded_bytes());
    let is_library = content.starts_with(b"\x7fELF");
    if is_library || content.starts_with(b"#!") || seed.is_multiple_of(20) {
        let names = [number, number / 2, number / 3]
            .map(|one| format!("/user-environment/{}/lib:", prefix(packages, one, version)));
        let mut names = names.concat().into_bytes();
        names.resize(300, 0);
        content.extend(names);
    }
    let release = release(number, version);
    if release > 0 {
        let mut random = Random::new(seed ^ release as u64);
        for part in 1..4 {
            let (at, new) = (content.len() * part / 4, random.next().to_string().into_bytes());
            let end = if is_library { at + new.len() } else { at };
            if end <= content.len() {
                content.splice(at..end, new);
            }
        }
    }
    Ok(content)
}

/// Returns how often a package was replaced up to a version.
fn release(number: usize, version: usize) -> usize {
    usize::from(number >= FIRST && number < FIRST + version)
}

fn prefix(packages: &[Package], number: usize, version: usize) -> String {
    let hash = hash(number, version);
    let name = packages.get(number).map_or("", |package| package.name.as_str());
    let release = release(number, version);
    format!("linux-zen2/{name}-{release}.0-{hash:016x}{:016x}", hash.rotate_left(17))
}

/// Changes with the package and with all on which it depends.
fn hash(number: usize, version: usize) -> u64 {
    let below = match number {
        0 | 1 => 0,
        _ => hash(number / 2, version) ^ hash(number / 3, version).rotate_left(9),
    };
    let own = Random::new(number as u64 + 1).next();
    Random::new(own ^ below.rotate_left(5) ^ release(number, version) as u64).next()
}

fn sum(bytes: &[u8]) -> u64 {
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_changes_one_package_and_what_depends_on_it() {
        for version in 1..VERSIONS {
            let others = |one: &usize| hash(*one, version) != hash(*one, version - 1);
            let others: Vec<usize> = (0..PACKAGES).filter(others).collect();
            let released = |one: &&usize| release(**one, version) != release(**one, version - 1);
            assert_eq!(others.iter().filter(released).count(), 1);
            assert!((2..=16).contains(&others.len()), "{others:?}");
        }
    }
}
