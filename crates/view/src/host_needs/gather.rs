// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From what each file needs and offers to what an image needs and offers.
//!
//! A library that is anywhere in the image is one of its own: its files look for it in places that
//! also depend on variables and on the program that loads them, and these are not known here. A
//! library that the image does not have at all is needed of the host, wherever it is looked for.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{HostNeeds, NeededLibrary, ProvidedLibrary};

/// How many libraries are listed, of each kind.
const MOST_LIBRARIES: usize = 10_000;
/// How many versions are listed of a library.
const MOST_VERSIONS: usize = 500;
/// How many search paths are listed.
const MOST_PATHS: usize = 200;

/// What one program or library needs and offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileLinks {
    /// Where it is, relative to the root of the image.
    pub path: String,
    /// Whether it is a program.
    pub is_program: bool,
    /// Its architecture.
    pub architecture: String,
    /// The largest size of a page with which it can be loaded.
    pub page_size: Option<u64>,
    /// The name by which others need it.
    pub soname: Option<String>,
    /// The names that it needs.
    pub needed: Vec<String>,
    /// The versions that it needs: of which name, which version, and whether it may be missing.
    pub versions: Vec<(String, String, bool)>,
    /// The versions that it offers.
    pub offers: Vec<String>,
    /// Directories outside of the image in which it looks for libraries.
    pub outside: Vec<String>,
}

impl FileLinks {
    fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    fn name(&self) -> &str {
        self.soname.as_deref().unwrap_or_else(|| self.file_name())
    }
}

/// What is known about one library while files are looked through.
#[derive(Default)]
struct Library<'a> {
    versions: BTreeMap<&'a str, bool>,
    users: Vec<&'a str>,
    count: u64,
    is_linked: bool,
}

impl HostNeeds {
    /// Puts together what files need and offer. `names` are the names of all files and links of the
    /// image that may be libraries.
    #[must_use]
    pub fn gather(mut files: Vec<FileLinks>, names: &BTreeSet<String>) -> Self {
        files.sort_by(|one, other| one.path.cmp(&other.path));
        let own: BTreeSet<&str> = files.iter().map(FileLinks::name).collect();
        let is_inside = |name: &str| own.contains(name) || names.contains(name);
        let linked = linked_with_programs(&files);
        let mut libraries: BTreeMap<&str, Library<'_>> = BTreeMap::new();
        for (file, is_linked) in files.iter().zip(linked) {
            let versions = versions_by_library(file);
            for name in file.needed.iter().filter(|name| !is_inside(name)) {
                let library = libraries.entry(base_name(name)).or_default();
                library.add(file, is_linked, versions.get(name.as_str()));
            }
        }
        let mut needs = Self { version: Self::VERSION, ..Self::default() };
        needs.files = files.len() as u64;
        needs.incomplete = libraries.len() > MOST_LIBRARIES;
        let libraries = libraries.into_iter().take(MOST_LIBRARIES);
        needs.libraries = libraries.map(|(name, library)| library.finish(name)).collect();
        needs.machine(&files);
        needs.offers(&files);
        needs
    }

    fn machine(&mut self, files: &[FileLinks]) {
        let architectures: BTreeSet<&str> =
            files.iter().map(|file| file.architecture.as_str()).collect();
        let architectures = architectures.into_iter().filter(|name| !name.is_empty());
        self.architectures = architectures.map(str::to_owned).collect();
        self.page_size = files.iter().filter_map(|file| file.page_size).min();
        let paths: BTreeSet<&String> = files.iter().flat_map(|file| &file.outside).collect();
        self.incomplete |= paths.len() > MOST_PATHS;
        self.search_paths = paths.into_iter().take(MOST_PATHS).cloned().collect();
    }

    fn offers(&mut self, files: &[FileLinks]) {
        let mut offers: BTreeMap<&str, BTreeSet<&String>> = BTreeMap::new();
        for file in files.iter().filter(|file| !file.is_program) {
            if let Some(soname) = &file.soname {
                offers.entry(soname).or_default().extend(&file.offers);
            }
        }
        self.incomplete |= offers.len() > MOST_LIBRARIES;
        let offers = offers.into_iter().take(MOST_LIBRARIES);
        self.provides = offers
            .map(|(name, versions)| ProvidedLibrary {
                name: name.to_owned(),
                versions: versions.into_iter().take(MOST_VERSIONS).cloned().collect(),
            })
            .collect();
    }
}

/// Finds the programs, and the libraries with which they are linked, directly or through others.
fn linked_with_programs(files: &[FileLinks]) -> Vec<bool> {
    let mut by_name: HashMap<&str, Vec<usize>> = HashMap::new();
    for (number, file) in files.iter().enumerate() {
        by_name.entry(file.name()).or_default().push(number);
        if file.file_name() != file.name() {
            by_name.entry(file.file_name()).or_default().push(number);
        }
    }
    let mut linked: Vec<bool> = files.iter().map(|file| file.is_program).collect();
    let mut waiting: Vec<&FileLinks> = files.iter().filter(|file| file.is_program).collect();
    while let Some(file) = waiting.pop() {
        for number in file.needed.iter().filter_map(|name| by_name.get(name.as_str())).flatten() {
            if linked.get(*number) == Some(&false) {
                linked[*number] = true;
                waiting.extend(files.get(*number));
            }
        }
    }
    linked
}

type Versions<'a> = Vec<(&'a str, bool)>;

fn versions_by_library(file: &FileLinks) -> HashMap<&str, Versions<'_>> {
    let mut versions: HashMap<&str, Versions<'_>> = HashMap::new();
    for (of, version, is_weak) in &file.versions {
        versions.entry(of).or_default().push((version, *is_weak));
    }
    versions
}

/// A file may name a library by its path. The name alone tells what it is.
fn base_name(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

impl<'a> Library<'a> {
    fn add(&mut self, file: &'a FileLinks, is_linked: bool, versions: Option<&Versions<'a>>) {
        self.count += 1;
        self.is_linked |= is_linked;
        // Files come in the order of their names.
        if self.users.len() < HostNeeds::MOST_NAMED {
            self.users.push(&file.path);
        }
        for (version, is_weak) in versions.into_iter().flatten() {
            // What one file must have is not weak.
            let entry = self.versions.entry(version).or_insert(*is_weak);
            *entry &= *is_weak;
        }
    }

    fn finish(self, name: &str) -> NeededLibrary {
        let listed = |weak: bool| {
            let fitting = self.versions.iter().filter(move |(_, is_weak)| **is_weak == weak);
            fitting.take(MOST_VERSIONS).map(|(version, _)| (*version).to_owned()).collect()
        };
        NeededLibrary {
            name: name.to_owned(),
            versions: listed(false),
            weak_versions: listed(true),
            users: self.users.iter().map(|path| (*path).to_owned()).collect(),
            count: self.count,
            later: !self.is_linked,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, needed: &[&str]) -> FileLinks {
        FileLinks {
            path: path.to_owned(),
            needed: needed.iter().map(ToString::to_string).collect(),
            ..FileLinks::default()
        }
    }

    fn library(path: &str, soname: &str, needed: &[&str]) -> FileLinks {
        FileLinks { soname: Some(soname.to_owned()), ..file(path, needed) }
    }

    fn names(needs: &HostNeeds) -> Vec<&str> {
        needs.libraries.iter().map(|one| one.name.as_str()).collect()
    }

    #[test]
    fn what_the_image_has_is_not_needed_of_the_host() {
        let links = BTreeSet::from(["libold.so.1".to_owned()]);
        let files = vec![
            library("lib/libown.so.1.2", "libown.so.1", &["libibverbs.so.1"]),
            file("bin/tool", &["libown.so.1", "libold.so.1", "libc.so.6"]),
        ];
        let needs = HostNeeds::gather(files, &links);
        assert_eq!(names(&needs), ["libc.so.6", "libibverbs.so.1"]);
        assert_eq!(needs.provides[0].name, "libown.so.1");
    }

    #[test]
    fn a_library_that_only_a_plugin_needs_is_needed_later() {
        let files = vec![
            FileLinks { is_program: true, ..file("bin/tool", &["libown.so.1"]) },
            library("lib/libown.so.1", "libown.so.1", &["libibverbs.so.1"]),
            library("lib/plugins/openmpi.so", "openmpi.so", &["libmpi.so.40"]),
        ];
        let needs = HostNeeds::gather(files, &BTreeSet::new());
        let later: Vec<bool> = needs.libraries.iter().map(|one| one.later).collect();
        assert_eq!(
            (names(&needs), later),
            (vec!["libibverbs.so.1", "libmpi.so.40"], vec![false, true])
        );
        assert_eq!(needs.at_start().count(), 1);
    }

    #[test]
    fn a_library_of_a_plugin_is_no_library_of_a_program() {
        let files = vec![
            FileLinks { is_program: true, ..file("bin/tool", &["libc.so.6"]) },
            library("lib/libtransport.so.0", "libtransport.so.0", &["libibverbs.so.1"]),
            library("lib/plugin.so", "plugin.so", &["libtransport.so.0", "libtransport.so.0"]),
        ];
        let needs = HostNeeds::gather(files, &BTreeSet::new());
        assert!(needs.libraries.iter().all(|one| one.later == (one.name == "libibverbs.so.1")));
    }

    #[test]
    fn libraries_that_need_each_other_in_a_circle_do_no_harm() {
        let files = vec![
            FileLinks { is_program: true, ..file("bin/tool", &["a.so"]) },
            library("lib/a.so", "a.so", &["b.so"]),
            library("lib/b.so", "b.so", &["a.so", "b.so", "libz.so.1"]),
        ];
        let needs = HostNeeds::gather(files, &BTreeSet::new());
        assert_eq!((names(&needs), needs.libraries[0].later), (vec!["libz.so.1"], false));
    }

    #[test]
    fn users_are_counted_and_the_first_are_named() {
        let files = (0..9).map(|number| file(&format!("lib/{number}.so"), &["libz.so.1"]));
        let needs = HostNeeds::gather(files.rev().collect(), &BTreeSet::new());
        let library = &needs.libraries[0];
        assert_eq!((library.count, library.users.len()), (9, HostNeeds::MOST_NAMED));
        assert_eq!(library.users[0], "lib/0.so");
    }

    #[test]
    fn a_version_that_one_file_must_have_is_needed() {
        let with = |path: &str, versions: &[(&str, bool)]| {
            let versions = versions.iter();
            let versions =
                versions.map(|(one, weak)| ("libz.so.1".to_owned(), (*one).to_owned(), *weak));
            FileLinks { versions: versions.collect(), ..file(path, &["libz.so.1"]) }
        };
        let files = vec![
            with("a", &[("ZLIB_1.2.0", true), ("ZLIB_1.2.9", true)]),
            with("b", &[("ZLIB_1.2.0", false)]),
        ];
        let needs = HostNeeds::gather(files, &BTreeSet::new());
        let library = &needs.libraries[0];
        assert_eq!(library.versions, ["ZLIB_1.2.0"]);
        assert_eq!(library.weak_versions, ["ZLIB_1.2.9"]);
    }

    #[test]
    fn the_smallest_alignment_decides_about_pages() {
        let sized = |path, size| FileLinks { page_size: Some(size), ..file(path, &[]) };
        let needs = HostNeeds::gather(vec![sized("a", 65_536), sized("b", 4096)], &BTreeSet::new());
        assert_eq!(needs.page_size, Some(4096));
    }
}
