// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Two versions of a stack of packages, each in a prefix of its own with a hash in its name.
//!
//! Package *n* depends on the packages *n/2* and *n/3*. One file in ten is like a library: it is
//! large, and has its prefix and theirs where linkers write them. The others are like sources,
//! and one in twenty of them names its own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::tree::{Content, Random};

pub(crate) const VERSIONS: [&str; 2] = ["1", "2"];
const PACKAGES: usize = 60;
/// The one that is another one in the second version, and is larger than the others.
const BUMPED: usize = 10;
const LARGER: usize = 2;
/// Where a library names prefixes, and how long the place is.
const PLACE: usize = 200;
const LENGTH: usize = 240;
/// Of how many small ones a library is made.
const PARTS: usize = 12;

/// Both versions, and the files of the second that the first has not.
pub(crate) struct Stack {
    pub(crate) root: PathBuf,
    /// The files of one version.
    pub(crate) files: usize,
    pub(crate) changed: usize,
}

impl Stack {
    /// Makes packages of so many files.
    pub(crate) fn make(root: &Path, files: usize) -> io::Result<Self> {
        let content = Content::new();
        let mut stack = Self { root: root.to_owned(), files: 0, changed: 0 };
        for package in 0..PACKAGES {
            let count = if package == BUMPED { files * LARGER } else { files };
            for file in 0..count {
                stack.file(&content, package, file)?;
            }
        }
        Ok(stack)
    }

    /// Where a version is.
    pub(crate) fn tree(&self, version: &str) -> PathBuf {
        self.root.join(format!("tree-{version}"))
    }

    fn file(&mut self, content: &Content, package: usize, file: usize) -> io::Result<()> {
        let seed = package * 10_000 + file;
        let texts = VERSIONS.map(|version| text(content, package, seed, version));
        for (version, text) in VERSIONS.iter().zip(&texts) {
            let path = self.tree(version).join(inside(package, seed, version));
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(path, text)?;
        }
        self.files += 1;
        if texts[0] != texts[1] {
            self.changed += 1;
            let path = inside(package, seed, VERSIONS[1]);
            let place = self.tree("changed").join(&path);
            if let Some(parent) = place.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::hard_link(self.tree(VERSIONS[1]).join(path), place)?;
        }
        Ok(())
    }
}

/// Returns what a file has in a version.
fn text(content: &Content, package: usize, seed: usize, version: &str) -> Vec<u8> {
    let mut text = if is_library(seed) {
        // What the generator takes for a library is a multiple of three.
        let parts = (0..PARTS).map(|part| content.of_file((seed * PARTS + part) * 3));
        parts.collect::<Vec<_>>().concat()
    } else {
        content.of_file(seed * 3 + 1)
    };
    if is_library(seed) && text.len() > PLACE + LENGTH {
        let mut named = [package, package / 2, package / 3]
            .map(|one| format!("/user-environment/{}/lib:", prefix(one, version)))
            .concat()
            .into_bytes();
        named.resize(LENGTH, 0);
        text[PLACE..PLACE + LENGTH].copy_from_slice(&named);
    } else if seed % 20 == 1 {
        let line = format!("#!/user-environment/{}/bin/sh\n", prefix(package, version));
        text.splice(0..0, line.into_bytes());
    }
    if package == BUMPED && version == VERSIONS[1] {
        edit(&mut text, seed);
    }
    text
}

/// Makes of a file that of another version: something new in several places.
fn edit(text: &mut Vec<u8>, seed: usize) {
    let mut random = Random::new(seed as u64);
    for part in 1..4 {
        let at = text.len() * part / 4;
        let new = random.next().to_string();
        text.splice(at..at, new.into_bytes());
    }
}

fn is_library(seed: usize) -> bool {
    seed.is_multiple_of(10)
}

fn inside(package: usize, seed: usize, version: &str) -> PathBuf {
    let ending = if is_library(seed) { "so" } else { "py" };
    let directory = format!("lib/part-{}", seed % 10_000 / 40);
    Path::new(&prefix(package, version)).join(directory).join(format!("file-{seed}.{ending}"))
}

/// Returns the name of a prefix, as Spack makes them.
fn prefix(package: usize, version: &str) -> String {
    let number = if package == BUMPED { version } else { VERSIONS[0] };
    let hash = hash(package, version);
    format!("linux-zen2/package{package:02}-{number}.0-{hash:016x}{:016x}", hash.rotate_left(17))
}

/// Changes with the package and with all on which it depends.
fn hash(package: usize, version: &str) -> u64 {
    let own = Random::new(package as u64 + 1).next();
    let below = if package == 0 {
        0
    } else {
        hash(package / 2, version) ^ hash(package / 3, version).rotate_left(9)
    };
    let bumped = u64::from(package == BUMPED && version == VERSIONS[1]);
    Random::new(own ^ below.rotate_left(5) ^ bumped).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_and_what_depends_on_it_have_other_hashes() {
        let is_other = |package: &usize| hash(*package, "1") != hash(*package, "2");
        let others: Vec<usize> = (0..PACKAGES).filter(is_other).collect();
        assert_eq!(others, [10, 20, 21, 30, 31, 32, 40, 41, 42, 43]);
    }

    #[test]
    fn few_files_change() {
        let place = tempfile::tempdir().unwrap();
        let stack = Stack::make(place.path(), 20).unwrap();
        assert_eq!((stack.files, stack.changed), (1220, 67));
    }
}
