// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What an image is built from, as one sum.
//!
//! The sum depends on the content, the names and the modes of files, and not on where they are or when
//! they were written: two clones of a repository have the same.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cabane_builder::digest_of;
use cabane_label::{Digest, shown};
use cabane_report::{IoContext, Kind, Report, Result};

/// The most files of one directory. More are something else than a recipe.
const MOST_FILES: usize = 100_000;
/// Files of these names in the directory itself are of tools.
const IGNORED: [&str; 2] = [".git", "__pycache__"];

/// The sums of directories that were read. Many cells have the same system.
#[derive(Debug, Default)]
pub(crate) struct Sums(BTreeMap<PathBuf, Digest>);

impl Sums {
    /// Returns the sum of a directory.
    pub(crate) fn directory(&mut self, directory: &Path) -> Result<Digest> {
        if let Some(known) = self.0.get(directory) {
            return Ok(known.clone());
        }
        let mut lines = Vec::new();
        add(directory, Path::new(""), &mut lines)
            .or_failed(|| format!("read {}", shown(directory)))?;
        if lines.len() > MOST_FILES {
            let message = format!("{} has more than {MOST_FILES} files", shown(directory));
            return Err(Report::new(Kind::BadInput, message));
        }
        lines.sort_unstable();
        let sum = digest_of(&lines.concat());
        self.0.insert(directory.to_owned(), sum.clone());
        Ok(sum)
    }
}

/// Adds a line for each file: its path, what it is, and its content or target.
fn add(root: &Path, below: &Path, lines: &mut Vec<Vec<u8>>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(below))? {
        let entry = entry?;
        let name = entry.file_name();
        let is_ignored = below.as_os_str().is_empty() && IGNORED.iter().any(|one| name == *one);
        if is_ignored || lines.len() > MOST_FILES {
            continue;
        }
        let path = below.join(&name);
        let kind = entry.file_type()?;
        let (what, content) = if kind.is_dir() {
            add(root, &path, lines)?;
            continue;
        } else if kind.is_symlink() {
            let target = fs::read_link(entry.path())?;
            let mut content = target.as_os_str().as_bytes().to_vec();
            // A recipe may be read through a link that leads out of it.
            if entry.path().is_file() {
                content.push(0);
                content.extend_from_slice(&fs::read(entry.path())?);
            }
            ("link", digest_of(&content))
        } else if kind.is_file() {
            let is_program = entry.metadata()?.permissions().mode() & 0o100 != 0;
            (if is_program { "program" } else { "file" }, digest_of(&fs::read(entry.path())?))
        } else {
            continue;
        };
        let mut line = path.as_os_str().as_bytes().to_vec();
        line.extend_from_slice(format!("\0{what} {content}\0").as_bytes());
        lines.push(line);
    }
    Ok(())
}

/// Returns the sum of several sums and texts.
pub(crate) fn combine(parts: &[&str]) -> Digest {
    digest_of(parts.join("\0").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_names_and_modes_count_and_dates_do_not() {
        let one = tempfile::tempdir().unwrap();
        let sum = || Sums::default().directory(one.path()).unwrap();
        fs::create_dir(one.path().join("a")).unwrap();
        fs::write(one.path().join("a/file"), "1").unwrap();
        let first = sum();
        fs::write(one.path().join("a/file"), "1").unwrap();
        fs::create_dir(one.path().join(".git")).unwrap();
        fs::write(one.path().join(".git/index"), "1").unwrap();
        assert_eq!(sum(), first);
        fs::set_permissions(one.path().join("a/file"), fs::Permissions::from_mode(0o755)).unwrap();
        let second = sum();
        assert_ne!(second, first);
        fs::rename(one.path().join("a/file"), one.path().join("a/fil")).unwrap();
        assert_ne!(sum(), second);
    }
}
