// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Links and libraries, as places of the files that they lead to.
//!
//! No process makes links in a read-only image or writes the loader's cache there. A link is one
//! more place of its file, and a library is also seen in a private directory by each name that
//! the loader may want: its own, that of its links, and its soname.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Component, Path, PathBuf};

use cabane_compat::Binary;

use crate::PRIVATE;

/// The most files of one directory that are looked at.
const MOST_FILES: usize = 10_000;

/// What is seen of the host, by the place where it is seen: the file or directory, and whether
/// writing is refused there.
pub(crate) type Seen = BTreeMap<PathBuf, (PathBuf, bool)>;

/// The names by which programs want libraries, each file read once.
#[derive(Default)]
pub(crate) struct Sonames(HashMap<PathBuf, Option<String>>);

impl Sonames {
    fn of(&mut self, path: &Path) -> Option<&str> {
        if !self.0.contains_key(path) {
            self.0.insert(path.to_owned(), soname(path));
        }
        self.0.get(path)?.as_deref()
    }
}

/// Makes places of links. Returns those that lead to nothing that is seen.
pub(crate) fn add_links<T>(
    seen: &mut Seen,
    folders: &[PathBuf],
    sonames: &mut Sonames,
    links: Vec<(PathBuf, PathBuf, T)>,
) -> Vec<(PathBuf, PathBuf, T)> {
    let mut left = links;
    loop {
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for (target, link, about) in left {
            let whole = link.parent().unwrap_or(Path::new("/")).join(&target);
            match find(seen, folders, sonames, &plain(&whole)) {
                Some(source) => found.push((link, source)),
                None => missing.push((target, link, about)),
            }
        }
        if found.is_empty() {
            return missing;
        }
        for (link, source) in found {
            seen.entry(link).or_insert(source);
        }
        left = missing;
    }
}

/// Finds what would be at a place: something that is seen there or around it, or a library
/// that the loader's cache would have under that name.
fn find(
    seen: &Seen,
    folders: &[PathBuf],
    sonames: &mut Sonames,
    place: &Path,
) -> Option<(PathBuf, bool)> {
    let wanted = without_usr(place);
    for (target, (source, read_only)) in seen {
        let target = without_usr(target);
        if target == wanted {
            return Some((source.clone(), *read_only));
        }
        if let Ok(rest) = wanted.strip_prefix(target)
            && source.is_dir()
            && source.join(rest).exists()
        {
            return Some((source.join(rest), *read_only));
        }
    }
    let is_folder = folders.iter().any(|folder| wanted.parent() == Some(without_usr(folder)));
    if !is_folder {
        return None;
    }
    let beside = seen.iter().filter(|(target, _)| without_usr(target).parent() == wanted.parent());
    let mut sources = beside.map(|(_, source)| source);
    let name = place.file_name()?;
    sources
        .find(|(source, _)| sonames.of(source).is_some_and(|found| OsStr::new(found) == name))
        .cloned()
}

/// Shows the libraries in some directories in private ones, by all of their names. Returns the
/// directories in which the loader is to look, in their order.
pub(crate) fn add_libraries(
    seen: &mut Seen,
    folders: &[PathBuf],
    sonames: &mut Sonames,
) -> Vec<PathBuf> {
    let mut directories = Vec::new();
    for folder in folders {
        let private = Path::new(PRIVATE).join(folder.strip_prefix("/").unwrap_or(folder));
        let mut names = Seen::new();
        let mut own = None;
        for (target, (source, read_only)) in seen.iter() {
            let place = (source.clone(), *read_only);
            if target.parent().map(without_usr) == Some(without_usr(folder)) {
                let Some(soname) = sonames.of(source) else {
                    continue;
                };
                let name = target.file_name().unwrap_or_default();
                names.insert(private.join(name), place.clone());
                names.entry(private.join(soname)).or_insert(place);
            } else if let Ok(rest) = without_usr(folder).strip_prefix(without_usr(target))
                && source.is_dir()
            {
                own = Some(folder.clone());
                for (name, file) in unnamed(&source.join(rest)) {
                    names.insert(private.join(name), (file, *read_only));
                }
            }
        }
        if !names.is_empty() {
            directories.push(private);
        }
        directories.extend(own);
        seen.extend(names);
    }
    directories.dedup();
    directories
}

/// Finds the libraries of a directory that lacks a file of their soname.
fn unnamed(directory: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let paths = entries.take(MOST_FILES).flatten().map(|entry| entry.path());
    let mut found: Vec<(String, PathBuf)> = paths
        .filter_map(|path| Some((soname(&path)?, path)))
        .filter(|(soname, _)| !directory.join(soname).exists())
        .collect();
    found.sort();
    found
}

/// Returns the name by which programs want a library.
fn soname(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    if !name.contains(".so") || !path.is_file() {
        return None;
    }
    let file = File::open(path).ok()?;
    let binary = Binary::open(&file).filter(Binary::is_linked)?;
    let soname = binary.links()?.soname.unwrap_or_else(|| name.to_owned());
    let is_plain = !soname.is_empty() && !soname.contains('/') && !soname.starts_with('.');
    is_plain.then_some(soname)
}

/// Takes `.` and `..` out of a path without looking at it.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

/// Returns a path below `/usr` as older systems have it: where both are there, they are one.
fn without_usr(path: &Path) -> &Path {
    let Ok(rest) = path.strip_prefix("/usr") else {
        return path;
    };
    let first = rest.components().next();
    let is_one = first.is_some_and(|first| {
        let name = first.as_os_str().to_string_lossy();
        name.starts_with("lib") || name == "bin" || name == "sbin"
    });
    let below = path.to_str().filter(|_| is_one).and_then(|text| text.strip_prefix("/usr"));
    below.map_or(path, Path::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_below_usr_are_those_of_the_root() {
        let paths = ["/usr/lib64/x", "/usr/bin/x", "/usr/share/x", "/usrlib/x"];
        let expected = ["/lib64/x", "/bin/x", "/usr/share/x", "/usrlib/x"];
        assert_eq!(paths.map(|path| without_usr(Path::new(path))), expected.map(Path::new));
    }

    #[test]
    fn links_lead_to_links() {
        let mut seen = Seen::from([("/lib/a.1".into(), ("/driver/a.1".into(), true))]);
        let link = |target: &str, link: &str| (target.into(), link.into(), ());
        let links = vec![
            link("../lib/./b", "/opt/c"),
            link("a.1", "/usr/lib/b"),
            link("nothing", "/lib/d"),
        ];
        let left = add_links(&mut seen, &[], &mut Sonames::default(), links);
        let places: Vec<&Path> = seen.keys().map(PathBuf::as_path).collect();
        assert_eq!(places, ["/lib/a.1", "/opt/c", "/usr/lib/b"].map(Path::new));
        assert_eq!(left, [link("nothing", "/lib/d")]);
    }
}
