// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which files of a tree name the path where it was installed: where that path is not there, they do not
//! find what they look for.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use memchr::memmem::Finder;

use crate::{BuildError, Result, disk};

/// How much of a file is searched at a time.
const PIECE: usize = 1 << 20;
/// How many files are named.
const NAMED: usize = 5;

/// The files that name a path.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// Module files: how many.
    pub(super) modules: u64,
    /// The others: how many.
    pub(super) others: u64,
    /// Some of these, relative to the tree.
    pub(super) named: Vec<PathBuf>,
}

/// Looks for a path in all files and links of a tree. `module_paths` are directories in it, relative.
/// `go_on` fails where the build is to stop.
pub(super) fn survey(
    tree: &Path,
    path: &Path,
    module_paths: &[PathBuf],
    go_on: &mut dyn FnMut() -> Result<()>,
) -> Result<Survey> {
    let finder = Finder::new(path.as_os_str().as_bytes());
    let mut found = Survey::default();
    let mut directories = vec![tree.to_owned()];
    while let Some(directory) = directories.pop() {
        let mut entries = disk::entries("list", &directory)?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            go_on()?;
            let entry_path = entry.path();
            let kind = entry.file_type().map_err(BuildError::file("look at", &entry_path))?;
            let names_it = if kind.is_dir() {
                directories.push(entry_path);
                continue;
            } else if kind.is_symlink() {
                fs::read_link(&entry_path).is_ok_and(|target| target.starts_with(path))
            } else {
                let read = File::open(&entry_path).and_then(|file| contains(file, &finder));
                read.map_err(BuildError::file("read", &entry_path))?
            };
            if !names_it {
                continue;
            }
            let relative = entry_path.strip_prefix(tree).unwrap_or(&entry_path);
            if module_paths.iter().any(|modules| relative.starts_with(modules)) {
                found.modules += 1;
                continue;
            }
            found.others += 1;
            found.named.push(relative.to_owned());
            found.named.sort();
            found.named.truncate(NAMED);
        }
    }
    Ok(found)
}

/// Tells whether a file contains a path, as a whole: not `/apps/x` where it says `/apps/xyz`.
fn contains(mut file: impl Read, finder: &Finder<'_>) -> io::Result<bool> {
    let wanted = finder.needle().len();
    let mut buffer: Vec<u8> = Vec::new();
    loop {
        let read = (&mut file).take(PIECE as u64).read_to_end(&mut buffer)?;
        let is_last = read < PIECE;
        for at in finder.find_iter(&buffer) {
            match buffer.get(at + wanted) {
                Some(next) if is_part_of_name(*next) => {}
                // It is looked at again with what follows.
                None if !is_last => {}
                _ => return Ok(true),
            }
        }
        if is_last {
            return Ok(false);
        }
        let kept = buffer.len().saturating_sub(wanted);
        buffer.drain(..kept);
    }
}

fn is_part_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._-~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(text: &[u8]) -> bool {
        contains(text, &Finder::new("/apps/x")).unwrap()
    }

    #[test]
    fn a_path_is_found_as_a_whole() {
        let texts: [&[u8]; 4] =
            [b"#!/apps/x/bin/sh", b"a/apps/x\0b", b"/apps/x", b"=/apps/xyz /apps/x-1"];
        assert_eq!(texts.map(has), [true, true, true, false]);
    }

    #[test]
    fn a_path_over_the_border_of_two_pieces_is_found() {
        for before in [PIECE - 9, PIECE - 7, PIECE - 6, PIECE - 1, PIECE, 2 * PIECE - 3] {
            let text = [vec![b'.'; before], b"/apps/x/lib".to_vec(), vec![b'.'; 9]].concat();
            assert!(has(&text), "{before}");
            let text = [vec![b'.'; before], b"/apps/xyz".to_vec(), vec![b'.'; PIECE]].concat();
            assert!(!has(&text), "{before}");
        }
    }
}
