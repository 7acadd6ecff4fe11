// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The files of a mounted image that go into a package, and what they need.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use cabane_compat::Linkage;
use cabane_label::escape;
use cabane_mount::open_in_image;
use cabane_report::{Kind, Report, Result};
use cabane_resolve::ConcreteImage;
use cabane_view::{Change, FileLinks, HostNeeds, PackageList, View, ViewName};
use rustix::fs::{AtFlags, Dir, FileType, Stat, readlinkat, statat};
use serde::{Deserialize, Serialize};

use crate::parts::{Parts, normal, relative};

/// The metadata of the image, which every package has.
const META: &str = "meta";
const BILL: &str = "meta/sbom.spdx.json";
const LARGEST_BILL: u64 = 256 << 20;
/// How much of a file is read to see whether it is a script.
const FIRST_LINE: usize = 512;
const SET_ID: u32 = 0o6000;
/// The most files that one package has.
const MOST_FILES: usize = 5_000_000;

/// What a package is made of.
pub(crate) struct Wanted<'a> {
    pub(crate) mount: &'a Path,
    /// The directories of the views of the package. Paths are relative to the root of the image.
    roots: Vec<PathBuf>,
    /// Those of all views.
    all_roots: Vec<PathBuf>,
    /// What variables of the views refer to.
    referred: Vec<PathBuf>,
}

impl<'a> Wanted<'a> {
    pub(crate) fn new(image: &'a ConcreteImage, views: &[(&ViewName, &View)]) -> Result<Self> {
        let mount = image.mount_point.as_path();
        let mut roots = Vec::new();
        for (name, view) in views {
            let Some(root) = &view.root else { continue };
            let inside = relative(Path::new(root), mount).ok_or_else(|| {
                let message = format!(
                    "the view `{name}` shows {}, which is outside of the image at {}",
                    escape(root),
                    mount.display()
                );
                Report::new(Kind::BadInput, message)
            })?;
            roots.push(inside);
        }
        // A view without a directory may use all of the image.
        if roots.len() < views.len() {
            roots.clear();
        }
        let all = image.meta.views.values().filter_map(|view| view.root.as_ref());
        let all_roots = all.filter_map(|root| relative(Path::new(root), mount)).collect();
        let changes = views.iter().flat_map(|(_, view)| view.patch.iter()).flat_map(|(_, all)| all);
        let texts = changes.flat_map(|change| match change {
            Change::Set(text) => std::slice::from_ref(text),
            Change::Unset => &[],
            Change::List { values, .. } => values,
        });
        let referred = texts.flat_map(|text| paths_in(text.as_bytes(), mount)).collect();
        Ok(Self { mount, roots, all_roots, referred })
    }
}

/// A file, directory, or link.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) kind: EntryKind,
    pub(crate) mode: u32,
    /// In seconds since 1970.
    pub(crate) time: i64,
}

/// What an entry is.
#[derive(Debug)]
pub(crate) enum EntryKind {
    Directory,
    /// A file.
    File,
    /// A further name of a file.
    Name(PathBuf),
    /// A symbolic link, and its target.
    Link(PathBuf),
}

/// What was found.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Survey {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    /// Devices, pipes, and sockets.
    pub(crate) special: u64,
    pub(crate) set_id: u64,
    /// The newest time of a file.
    pub(crate) newest: i64,
    /// The packages of the image that are in it; all of the image if there is nothing.
    pub(crate) packages: Option<Vec<(String, String)>>,
    pub(crate) licenses: Vec<String>,
    pub(crate) needs: HostNeeds,
    /// Programs and libraries, with the names of the libraries that each needs.
    pub(crate) linked: Vec<(PathBuf, Vec<String>)>,
}

/// Files by their paths, relative to the root of the image.
pub(crate) type Entries = BTreeMap<PathBuf, Entry>;

/// Looks through a mounted image.
///
/// # Errors
///
/// A file that cannot be read or cannot be in a package, and a view whose directory is not there.
pub(crate) fn survey(mount: &OwnedFd, wanted: &Wanted<'_>) -> io::Result<(Survey, Entries)> {
    let parts = match read(mount, "meta/packages.json", PackageList::MAX_SIZE)? {
        Some(text) if !wanted.roots.is_empty() => {
            let list = PackageList::from_json(&text)
                .map_err(|error| about(Path::new("meta/packages.json"), error))?;
            Parts::new(&list, wanted.mount, &wanted.all_roots, &names(mount, Path::new("."))?)
        }
        _ => None,
    };
    let mut walk = Walk { mount, wanted, parts, ..Walk::new(mount, wanted) };
    for root in &wanted.roots {
        if open_in_image(mount.as_fd(), at(root)).is_err() {
            let root = wanted.mount.join(root);
            return Err(about(&root, "the view has this directory, and the image does not"));
        }
    }
    walk.all()?;
    let Walk { mut survey, mut entries, links, library_names, parts, visited, .. } = walk;
    if parts.is_some() {
        open_links(&mut entries, wanted)?;
    }
    survey.files = entries.len() as u64;
    survey.needs = HostNeeds::gather(links, &library_names);
    survey.packages = parts.map(|parts| parts.packages_in(&visited));
    survey.licenses = licenses(mount, survey.packages.as_deref())?;
    survey.newest = entries.values().map(|entry| entry.time).fold(0, i64::max);
    Ok((survey, entries))
}

/// Turns links of views that lead to a directory of a package into directories, with a link for each file.
///
/// Spack links a directory as a whole as long as one package has it. Where the next version of the view has a
/// directory, the upgrade would fail (rpm), or keep the link (dpkg).
fn open_links(entries: &mut Entries, wanted: &Wanted<'_>) -> io::Result<()> {
    let is_in_view = |path: &Path| wanted.roots.iter().any(|root| path.starts_with(root));
    let mut opened = Entries::new();
    for (link, entry) in entries.iter().filter(|(path, _)| is_in_view(path)) {
        let EntryKind::Link(target) = &entry.kind else { continue };
        let parent = link.parent().unwrap_or(Path::new(""));
        let whole = wanted.mount.join(parent).join(target);
        let Some(directory) = relative(&whole, wanted.mount) else { continue };
        let found = entries.get(&directory);
        let is_directory = found.is_some_and(|one| matches!(one.kind, EntryKind::Directory));
        let has_view = wanted.roots.iter().any(|root| root.starts_with(&directory));
        if !is_directory || is_in_view(&directory) || has_view {
            continue;
        }
        let inside =
            entries.range(directory.clone()..).take_while(|(path, _)| path.starts_with(&directory));
        for (path, entry) in inside {
            let Ok(rest) = path.strip_prefix(&directory) else { continue };
            let kind = match entry.kind {
                EntryKind::Directory => EntryKind::Directory,
                _ => EntryKind::Link(wanted.mount.join(path)),
            };
            let place = if rest.as_os_str().is_empty() { link.clone() } else { link.join(rest) };
            opened.insert(place, Entry { kind, mode: entry.mode, time: entry.time });
            if opened.len() > MOST_FILES {
                return Err(about(link, "the links of the view lead to too many files"));
            }
        }
    }
    entries.extend(opened);
    Ok(())
}

struct Walk<'a> {
    mount: &'a OwnedFd,
    wanted: &'a Wanted<'a>,
    parts: Option<Parts>,
    waiting: Vec<PathBuf>,
    visited: BTreeSet<PathBuf>,
    entries: Entries,
    /// The first names of files that have several, by their numbers.
    names: BTreeMap<(u64, u64), PathBuf>,
    links: Vec<FileLinks>,
    library_names: BTreeSet<String>,
    survey: Survey,
}

impl<'a> Walk<'a> {
    fn new(mount: &'a OwnedFd, wanted: &'a Wanted<'a>) -> Self {
        Self {
            mount,
            wanted,
            parts: None,
            waiting: Vec::new(),
            visited: BTreeSet::new(),
            entries: Entries::new(),
            names: BTreeMap::new(),
            links: Vec::new(),
            library_names: BTreeSet::new(),
            survey: Survey::default(),
        }
    }

    fn all(&mut self) -> io::Result<()> {
        if self.parts.is_none() {
            return self.directory(Path::new(""));
        }
        self.waiting = self.wanted.roots.clone();
        self.waiting.push(META.into());
        self.waiting.extend(self.wanted.referred.iter().cloned());
        while let Some(path) = self.waiting.pop() {
            let Some(parts) = &self.parts else { break };
            let part = parts.of(&path);
            if part.ancestors().any(|one| self.visited.contains(one)) {
                continue;
            }
            self.waiting.extend_from_slice(parts.needed_by(&part));
            self.visited.insert(part.clone());
            self.part(&part)?;
        }
        Ok(())
    }

    /// Adds a part and the directories above it. What is not there was only named.
    fn part(&mut self, part: &Path) -> io::Result<()> {
        let above: Vec<&Path> = part.ancestors().skip(1).collect();
        for directory in above.iter().rev().filter(|one| !one.as_os_str().is_empty()) {
            match statat(self.mount, *directory, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(found) if FileType::from_raw_mode(found.st_mode) == FileType::Directory => {
                    self.put(directory, EntryKind::Directory, &found);
                }
                // A link on the way leads to another part, which has the file.
                Ok(_) => {
                    if !self.entries.contains_key(*directory) {
                        self.entry(directory)?;
                    }
                    return Ok(());
                }
                Err(_) => return Ok(()),
            }
        }
        match statat(self.mount, part, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => self.entry(part),
            Err(_) => Ok(()),
        }
    }

    fn directory(&mut self, directory: &Path) -> io::Result<()> {
        for path in names(self.mount, directory)? {
            // A part of its own in another one.
            if self.visited.contains(&path) {
                continue;
            }
            let needed = self.parts.as_ref().map_or(&[][..], |parts| parts.needed_by(&path));
            self.waiting.extend_from_slice(needed);
            self.entry(&path)?;
        }
        Ok(())
    }

    fn entry(&mut self, path: &Path) -> io::Result<()> {
        let found = statat(self.mount, path, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|error| about(path, io::Error::from(error)))?;
        check_name(path)?;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => {
                self.put(path, EntryKind::Directory, &found);
                self.directory(path)
            }
            FileType::Symlink => {
                let target = readlinkat(self.mount, path, Vec::new())?;
                let target = PathBuf::from(OsStr::from_bytes(target.to_bytes()));
                check_name(&target)?;
                let parent = path.parent().unwrap_or(Path::new(""));
                let whole = self.wanted.mount.join(parent).join(&target);
                self.refer(relative(&normal(&whole), self.wanted.mount));
                self.note_library(path);
                self.put(path, EntryKind::Link(target), &found);
                Ok(())
            }
            FileType::RegularFile => self.file(path, &found),
            _ => {
                self.survey.special += 1;
                Ok(())
            }
        }
    }

    fn file(&mut self, path: &Path, found: &Stat) -> io::Result<()> {
        self.note_library(path);
        if found.st_nlink > 1 {
            let first = self.names.entry((found.st_dev, found.st_ino));
            let first = first.or_insert_with(|| path.to_owned()).clone();
            if first != path {
                self.put(path, EntryKind::Name(first), found);
                return Ok(());
            }
        }
        if found.st_mode & SET_ID != 0 {
            self.survey.set_id += 1;
        }
        self.survey.bytes += u64::try_from(found.st_size).unwrap_or_default();
        self.put(path, EntryKind::File, found);
        let file = open_in_image(self.mount.as_fd(), path).map_err(|error| about(path, error))?;
        let mut start = [0; FIRST_LINE];
        let length = file.read_at(&mut start, 0).map_err(|error| about(path, error))?;
        let start = start.get(..length).unwrap_or_default();
        if start.starts_with(b"#!") {
            let line = start.split(|byte| *byte == b'\n').take(2).collect::<Vec<_>>().join(&b' ');
            for path in paths_in(&line, self.wanted.mount) {
                self.refer(Some(path));
            }
        } else if start.starts_with(b"\x7fELF") {
            self.linked(path, &file);
        }
        Ok(())
    }

    fn linked(&mut self, path: &Path, file: &File) {
        let Some(linkage) = Linkage::read(file) else { return };
        let links = linkage.links;
        let all = links.rpath.iter().chain(&links.runpath).flat_map(|paths| paths.split(':'));
        let outside = all.filter(|path| path.starts_with('/'));
        let outside = outside.filter(|path| !Path::new(path).starts_with(self.wanted.mount));
        self.survey.linked.push((path.to_owned(), links.needed.clone()));
        self.links.push(FileLinks {
            path: path.to_string_lossy().into_owned(),
            // Other packages may be linked with a library that has a version in its name. What has
            // none is a plugin or a module, which programs load only if they need it.
            is_program: linkage.is_program
                || links.soname.as_ref().is_some_and(|name| name.contains(".so.")),
            architecture: linkage.architecture.to_owned(),
            page_size: linkage.page_size,
            outside: outside.map(str::to_owned).collect(),
            soname: links.soname,
            needed: links.needed,
            versions: linkage
                .needs
                .into_iter()
                .map(|need| (need.of, need.version, need.is_weak))
                .collect(),
            offers: linkage.offers,
        });
    }

    /// Adds what a file refers to. The mount point alone means nothing.
    fn refer(&mut self, path: Option<PathBuf>) {
        let path = path.filter(|path| self.parts.is_some() && !path.as_os_str().is_empty());
        self.waiting.extend(path);
    }

    fn note_library(&mut self, path: &Path) {
        let name = path.file_name().map(OsStr::to_string_lossy).unwrap_or_default();
        if name.contains(".so") {
            self.library_names.insert(name.into_owned());
        }
    }

    fn put(&mut self, path: &Path, kind: EntryKind, found: &Stat) {
        let entry = Entry { kind, mode: found.st_mode, time: found.st_mtime };
        self.entries.insert(path.to_owned(), entry);
    }
}

/// Returns the paths in a directory, in their order.
fn names(mount: &OwnedFd, directory: &Path) -> io::Result<Vec<PathBuf>> {
    let opened = open_in_image(mount.as_fd(), at(directory));
    let opened = opened.map_err(|error| about(directory, error))?;
    let mut paths = Vec::new();
    for entry in Dir::read_from(opened.as_fd())?.take(MOST_FILES) {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        if name.contains(&b'/') {
            return Err(about(directory, "it has a name with `/`"));
        }
        let directory = if directory == Path::new(".") { Path::new("") } else { directory };
        paths.push(directory.join(OsStr::from_bytes(name)));
    }
    paths.sort();
    Ok(paths)
}

fn at(directory: &Path) -> &Path {
    if directory.as_os_str().is_empty() { Path::new(".") } else { directory }
}

/// Refuses names that neither format can list.
fn check_name(path: &Path) -> io::Result<()> {
    let is_good = path.to_str().is_some_and(|text| !text.chars().any(char::is_control));
    if is_good {
        return Ok(());
    }
    Err(about(path, "a package cannot have names with control characters, or that are not UTF-8"))
}

fn about(path: &Path, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    let error = error.into();
    io::Error::other(format!("{}: {error}", escape(&path.to_string_lossy())))
}

fn read(mount: &OwnedFd, path: &str, most: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match open_in_image(mount.as_fd(), Path::new(path)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(about(Path::new(path), error)),
    };
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(about(Path::new(path), "the file is too large"));
    }
    Ok(Some(bytes))
}

/// Finds paths below the mount point in a text: in lists with `:`, and behind options such as `-I`.
fn paths_in(text: &[u8], mount: &Path) -> Vec<PathBuf> {
    let text = String::from_utf8_lossy(text);
    let Some(mount_text) = mount.to_str() else { return Vec::new() };
    let words = text.split(|one: char| one.is_whitespace() || ":;,\"'".contains(one));
    let starts = words.filter_map(|word| word.get(word.find(mount_text)?..));
    let inside = starts.filter_map(|path| relative(Path::new(path), mount));
    inside.filter(|path| !path.as_os_str().is_empty()).collect()
}

/// Returns the licenses that the packages declare, each once; of all packages if none are named.
fn licenses(mount: &OwnedFd, packages: Option<&[(String, String)]>) -> io::Result<Vec<String>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Bill {
        #[serde(default)]
        packages: Vec<Part>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Part {
        name: String,
        #[serde(default)]
        version_info: String,
        #[serde(default)]
        license_declared: String,
    }
    let Some(text) = read(mount, BILL, LARGEST_BILL)? else { return Ok(Vec::new()) };
    // It is not needed for anything else.
    let Ok(bill) = serde_json::from_slice::<Bill>(&text) else { return Ok(Vec::new()) };
    let is_in = |part: &Part| {
        packages.is_none_or(|all| {
            all.iter().any(|(name, version)| *name == part.name && *version == part.version_info)
        })
    };
    let parts = bill.packages.into_iter().filter(is_in).map(|part| part.license_declared);
    let known = parts.filter(|text| !["", "NOASSERTION", "NONE"].contains(&text.as_str()));
    let known = known.map(|text| if text.contains(" OR ") { format!("({text})") } else { text });
    Ok(known.collect::<BTreeSet<_>>().into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_the_image_are_found_in_lines_and_lists() {
        let mount = Path::new("/env");
        let found = |text: &str| {
            paths_in(text.as_bytes(), mount).iter().map(|path| path.display().to_string()).collect()
        };
        let seen: Vec<String> = found("#!/bin/sh /env/bin/sbang");
        assert_eq!(seen, ["bin/sbang"]);
        let seen: Vec<String> = found("/env/a/lib:/usr/lib:/env/b/../c -I/env/include /env");
        assert_eq!(seen, ["a/lib", "c", "include"]);
        let seen: Vec<String> = found("/environment/bin /env/../etc");
        assert_eq!(seen, [""; 0]);
    }
}
