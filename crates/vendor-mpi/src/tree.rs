// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What will be in a tarball: paths, with files and links.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;

use crate::archive::resolve;

/// A tarball before it is written. Directories follow from the paths.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree(pub(crate) BTreeMap<String, Node>);

#[derive(Clone, Debug)]
pub(crate) enum Node {
    File { content: Content, is_executable: bool },
    Link(String),
}

/// The bytes of a file.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// They are in a file of ours, and are as many.
    Blob(PathBuf, u64),
    Bytes(Vec<u8>),
}

impl Content {
    pub(crate) fn read(&self) -> io::Result<Vec<u8>> {
        match self {
            Self::Blob(path, _) => fs::read(path),
            Self::Bytes(bytes) => Ok(bytes.clone()),
        }
    }
}

impl Tree {
    /// Tells whether there is something at a path, be it a directory.
    pub(crate) fn has(&self, path: &str) -> bool {
        let below = format!("{path}/");
        self.0.contains_key(path)
            || self
                .0
                .range(below.clone()..)
                .next()
                .is_some_and(|(path, _)| path.starts_with(&below))
    }

    /// Tells whether a link at a path would lead to something here.
    pub(crate) fn has_target(&self, link: &str, target: &str) -> bool {
        resolve(link, target).is_some_and(|path| !path.is_empty() && self.has(&path))
    }

    /// Returns what is in the way of a path: itself, or a file that would have to be
    /// a directory.
    pub(crate) fn in_the_way(&self, path: &str) -> Option<String> {
        let above = path.match_indices('/').map(|(at, _)| &path[..at]);
        let mut taken = above.filter(|above| self.0.contains_key(*above));
        let taken = taken.next().or_else(|| self.has(path).then_some(path));
        taken.map(str::to_owned)
    }
}

/// Returns the way from a file to another one.
pub(crate) fn relative(from: &str, to: &str) -> String {
    let from: Vec<&str> = from.split('/').collect();
    let to: Vec<&str> = to.split('/').collect();
    let from = &from[..from.len() - 1];
    let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let shared = shared.min(to.len() - 1);
    let up = from[shared..].iter().map(|_| "..");
    up.chain(to[shared..].iter().copied()).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_way_to_a_file_in_another_directory_goes_up_first() {
        assert_eq!(relative("lib/pkgconfig/a.pc", "lib/b.so"), "../b.so");
    }

    proptest! {
        #[test]
        fn who_goes_the_way_arrives(from in "[ab](/[ab]){0,4}", to in "[ab](/[ab]){0,4}") {
            prop_assert_eq!(resolve(&from, &relative(&from, &to)), Some(to));
        }
    }
}
