// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Whether this machine has libraries, asked before each start.
//!
//! A library is opened where the loader of most systems finds it, which is quicker than reading the
//! cache of the loader. The cache is read once, for the first library that is not there.

use std::cell::OnceCell;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::library_cache::{self, DEFAULT, in_cache};
use crate::{glibc, versions};

/// What a machine lacks of a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LibraryLack {
    /// All of it.
    Library,
    /// These versions of its symbols.
    Versions(Vec<String>),
}

/// The libraries of this machine.
#[derive(Debug, Default)]
pub struct HostLibraries {
    cache: OnceCell<Vec<u8>>,
}

impl HostLibraries {
    /// Returns what this machine lacks of a library. `directories` are further ones in which the
    /// loader looks.
    pub fn lack<'d>(
        &self,
        name: &str,
        versions: &[String],
        directories: impl Iterator<Item = &'d Path>,
    ) -> Option<LibraryLack> {
        let beside_libc = glibc::PLACES.iter().filter_map(|place| Path::new(place).parent());
        let usual = beside_libc.chain(DEFAULT.iter().map(Path::new)).chain(directories);
        let usual = usual.map(|directory| directory.join(name));
        let mut least: Option<Vec<String>> = None;
        for path in usual.chain(self.cached(name)) {
            let Ok(file) = File::open(&path) else { continue };
            let lacking = versions::lacking(&file, versions);
            if lacking.is_empty() {
                return None;
            }
            // Another file of the name may have them: the order of the loader is not known here.
            if least.as_ref().is_none_or(|least| lacking.len() < least.len()) {
                least = Some(lacking);
            }
        }
        Some(least.map_or(LibraryLack::Library, LibraryLack::Versions))
    }

    fn cached<'a>(&'a self, name: &'a str) -> impl Iterator<Item = PathBuf> + 'a {
        let read = || fs::read(library_cache::PLACE).unwrap_or_default();
        std::iter::once_with(move || self.cache.get_or_init(read))
            .flat_map(move |cache| in_cache(cache, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lack(name: &str, versions: &[&str]) -> Option<LibraryLack> {
        let versions: Vec<String> = versions.iter().map(ToString::to_string).collect();
        HostLibraries::default().lack(name, &versions, std::iter::empty())
    }

    #[test]
    fn a_library_of_this_machine_is_not_lacking_and_another_one_is() {
        let version = format!("GLIBC_{}", crate::glibc().expect("a C library"));
        assert_eq!(lack("libc.so.6", &[&version]), None);
        assert_eq!(lack("libnone.so.1", &[]), Some(LibraryLack::Library));
    }

    #[test]
    fn versions_that_a_library_does_not_have_are_named() {
        let lacking = vec!["GLIBC_99.1".to_owned()];
        assert_eq!(lack("libc.so.6", &["GLIBC_99.1"]), Some(LibraryLack::Versions(lacking)));
    }

    #[test]
    fn a_library_in_a_further_directory_is_there() {
        let directory = tempfile::tempdir().expect("a directory");
        fs::write(directory.path().join("libnone.so.1"), "").expect("a file");
        let found = HostLibraries::default().lack(
            "libnone.so.1",
            &["ANY_1".to_owned()],
            std::iter::once(directory.path()),
        );
        // It has no versions, and the loader takes it for any.
        assert_eq!(found, None);
    }
}
