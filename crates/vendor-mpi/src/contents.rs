// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! All packages together: what is in them, and the bytes of what is taken.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use cabane_label::{Digest, escape, shown};
use cabane_recipe::VendorPackage;
use cabane_report::{Report, Result};
use sha2::{Digest as _, Sha256};

use crate::archive::{self, ArchiveError, Kind, Limits, resolve};
use crate::failed;
use crate::tree::Content;

/// How many links are followed, one after the other.
const MOST_LINKS: usize = 16;

/// The files of all packages.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    items: BTreeMap<String, Item>,
    packages: Vec<(PathBuf, File)>,
}

/// Something in a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    File(FileId),
    /// What the link says.
    Link(String),
    Directory,
}

/// A file of a package; names of the same file have the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileId {
    package: usize,
    /// The path under which its bytes are.
    path: String,
    pub(crate) is_executable: bool,
}

impl Contents {
    /// Opens the packages, checks that they are those that are meant, and lists them.
    pub(crate) fn open(directory: &Path, packages: &[VendorPackage]) -> Result<Self> {
        let mut contents = Self::default();
        for package in packages {
            let name = &package.file.value;
            let path = directory.join(name);
            let mut file = match File::open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Err(not_found(package, directory));
                }
                Err(error) => return Err(failed("open", &path)(error)),
            };
            let (found, _) = sha256(&mut file).map_err(failed("read", &path))?;
            if found != package.sha256 {
                let path = shown(&path);
                let text = format!(
                    "`{path}` is another file than the manifest means: its sha256 is {found}"
                );
                let hint = "get the package again; if it is a newer one, change the manifest";
                return Err(
                    Report::new(cabane_report::Kind::BadInput, text).hinted(hint.to_owned())
                );
            }
            contents.list(&path, &mut file)?;
            contents.packages.push((path, file));
        }
        Ok(contents)
    }

    /// Adds what is in a package; what another one has under the same path stays.
    fn list(&mut self, path: &Path, file: &mut File) -> Result<()> {
        let package = self.packages.len();
        let mut found: BTreeMap<String, Item> = BTreeMap::new();
        let mut by_inode: BTreeMap<u64, Vec<(String, bool)>> = BTreeMap::new();
        let mut add = |entry: &archive::Entry, _: &mut dyn Read| {
            let item = match &entry.kind {
                Kind::Directory => Item::Directory,
                Kind::Link(target) => Item::Link(target.clone()),
                Kind::HardLink(target) => {
                    let Some(Item::File(file)) = found.get(target) else {
                        let what = "is another name of a file that is not there";
                        return Err(ArchiveError::refused(entry.path.as_bytes(), what));
                    };
                    Item::File(file.clone())
                }
                Kind::File { size, is_executable, inode } => {
                    if let Some(inode) = inode {
                        let names = by_inode.entry(*inode).or_default();
                        names.push((entry.path.clone(), *size > 0));
                    }
                    Item::File(FileId {
                        package,
                        path: entry.path.clone(),
                        is_executable: *is_executable,
                    })
                }
            };
            let is_directory = item == Item::Directory;
            match found.insert(entry.path.clone(), item) {
                Some(Item::Directory) if is_directory => Ok(()),
                None => Ok(()),
                Some(_) => Err(ArchiveError::refused(entry.path.as_bytes(), "is there twice")),
            }
        };
        visit(path, file, &mut add)?;
        for names in by_inode.into_values() {
            let Some((with_bytes, _)) = names.iter().rfind(|(_, has_bytes)| *has_bytes) else {
                continue;
            };
            for (name, _) in &names {
                if let Some(Item::File(file)) = found.get_mut(name) {
                    file.path.clone_from(with_bytes);
                }
            }
        }
        for (name, item) in found {
            self.items.entry(name).or_insert(item);
        }
        Ok(())
    }

    /// Returns the files and links whose path is meant, in their order.
    pub(crate) fn matching(&self, meant: impl Fn(&str) -> bool) -> Vec<&str> {
        let items = self.items.iter();
        items
            .filter(|(path, item)| **item != Item::Directory && meant(path))
            .map(|(path, _)| path.as_str())
            .collect()
    }

    /// Returns what is at a path.
    pub(crate) fn item(&self, path: &str) -> Option<&Item> {
        self.items.get(path)
    }

    /// Returns the file behind a path, also through links.
    pub(crate) fn file(&self, path: &str) -> Option<&FileId> {
        let mut path = path.to_owned();
        for _ in 0..MOST_LINKS {
            match self.items.get(&path)? {
                Item::File(file) => return Some(file),
                Item::Link(target) => path = resolve(&path, target)?,
                Item::Directory => return None,
            }
        }
        None
    }

    /// Returns the longest beginning of a path that is a directory, and what is in it.
    pub(crate) fn nearest(&self, path: &str) -> (String, Vec<&str>) {
        let mut parts: Vec<&str> = path.split('/').collect();
        loop {
            parts.pop();
            let mut prefix = parts.join("/");
            if !prefix.is_empty() {
                prefix.push('/');
            }
            let names: BTreeSet<&str> = self
                .items
                .range(prefix.clone()..)
                .take_while(|(path, _)| path.starts_with(&prefix))
                .filter_map(|(path, _)| path[prefix.len()..].split('/').next())
                .collect();
            if !names.is_empty() || parts.is_empty() {
                return (prefix, names.into_iter().collect());
            }
        }
    }

    /// Puts the bytes of files into a directory, under numbers.
    pub(crate) fn take(
        &mut self,
        wanted: &BTreeSet<FileId>,
        directory: &Path,
    ) -> Result<BTreeMap<FileId, Content>> {
        let mut taken = BTreeMap::new();
        for (number, (path, file)) in self.packages.iter_mut().enumerate() {
            let wanted: BTreeMap<&str, &FileId> = wanted
                .iter()
                .filter(|file| file.package == number)
                .map(|file| (file.path.as_str(), file))
                .collect();
            if wanted.is_empty() {
                continue;
            }
            let mut keep = |entry: &archive::Entry, bytes: &mut dyn Read| {
                let (Kind::File { size, .. }, Some(&file)) =
                    (&entry.kind, wanted.get(entry.path.as_str()))
                else {
                    return Ok(());
                };
                let place = directory.join(taken.len().to_string());
                if io::copy(bytes, &mut File::create(&place)?)? != *size {
                    return Err(ArchiveError::Damaged("it ends too early"));
                }
                taken.insert(file.clone(), Content::Blob(place, *size));
                Ok(())
            };
            visit(path, file, &mut keep)?;
        }
        Ok(taken)
    }
}

fn visit(path: &Path, file: &mut File, visitor: &mut archive::Visitor<'_>) -> Result<()> {
    archive::visit(file, Limits::default(), visitor).map_err(|source| {
        let text = format!("cannot take anything from `{}`", shown(path));
        Report::caused(cabane_report::Kind::BadInput, text, source)
    })
}

fn not_found(package: &VendorPackage, directory: &Path) -> Report {
    let (name, directory) = (escape(&package.file.value), shown(directory));
    let hint = match &package.url {
        Some(url) => format!("it comes from {}", escape(url)),
        None => "`--packages DIR` names the directory where the packages are".to_owned(),
    };
    let text = format!("cannot find the package `{name}` in `{directory}`");
    Report::new(cabane_report::Kind::NotFound, text).hinted(hint)
}

/// Returns the checksum of a file, and its size.
pub(crate) fn sha256(file: &mut (impl Read + Seek)) -> io::Result<(String, u64)> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    let mut size = 0;
    file.seek(SeekFrom::Start(0))?;
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        size += read as u64;
        hash.update(&buffer[..read]);
    }
    Ok((Digest::from_bytes(hash.finalize().into()).to_string(), size))
}

/// Makes a directory and all above it.
pub(crate) fn make_directory(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(failed("create the directory", path))
}

#[cfg(test)]
mod tests {
    use cabane_recipe::Placed;

    use super::*;
    use crate::archive::fixtures::{Made, cpio, deb, file, link, rpm, tar};

    /// The contents of packages that a manifest names.
    fn contents(directory: &Path, packages: &[Vec<u8>]) -> Result<Contents> {
        let named: Vec<VendorPackage> = packages
            .iter()
            .enumerate()
            .map(|(number, bytes)| {
                let name = number.to_string();
                fs::write(directory.join(&name), bytes).unwrap();
                VendorPackage {
                    file: Placed { value: name, place: 0..0 },
                    sha256: sha256(&mut io::Cursor::new(bytes)).unwrap().0,
                    url: None,
                }
            })
            .collect();
        Contents::open(directory, &named)
    }

    /// What is taken of a file.
    fn bytes_of(contents: &mut Contents, directory: &Path, path: &str) -> String {
        let file = contents.file(path).unwrap().clone();
        let taken = contents.take(&BTreeSet::from([file.clone()]), directory);
        let bytes = taken.unwrap()[&file].read().unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn all_names_of_a_file_of_an_rpm_have_its_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let name = |name, content| Made { inode: 7, links: 2, ..file(name, content) };
        let package = rpm(&cpio(&[name("./first", ""), name("./last", "bytes")]));
        let mut contents = contents(directory.path(), &[package]).unwrap();
        assert_eq!(bytes_of(&mut contents, directory.path(), "first"), "bytes");
    }

    #[test]
    fn a_file_is_found_through_links_of_another_package() {
        let directory = tempfile::tempdir().unwrap();
        let packages =
            [deb(&tar(&[link("./bin/a", "../lib/b")])), rpm(&cpio(&[file("./lib/b", "bytes")]))];
        let mut contents = contents(directory.path(), &packages).unwrap();
        assert_eq!(bytes_of(&mut contents, directory.path(), "bin/a"), "bytes");
    }

    #[test]
    fn links_in_a_circle_and_links_out_of_the_package_lead_to_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let entries = [
            link("./a", "b"),
            link("./b", "a"),
            link("./c", "../../etc/passwd"),
            link("./d", "/etc/passwd"),
        ];
        let contents = contents(directory.path(), &[deb(&tar(&entries))]).unwrap();
        assert_eq!(["a", "c", "d"].map(|path| contents.file(path)), [None; 3]);
    }

    #[test]
    fn a_path_that_stands_twice_in_a_package_refuses_it() {
        let directory = tempfile::tempdir().unwrap();
        let package = deb(&tar(&[file("./a", "good"), file("./a", "bad")]));
        let error = contents(directory.path(), &[package]).unwrap_err();
        let source = error.causes().next().map(ToString::to_string);
        assert_eq!(source.as_deref(), Some("`a` is there twice"));
    }
}
