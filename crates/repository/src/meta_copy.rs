// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Copying a metadata directory, which may come from anywhere.
//!
//! Files, directories and links that stay inside are copied; anything else is refused. No link
//! is followed, and the size and number of what is copied are limited.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Component, Path};

use cabane_label::escape;
use rustix::fs::OFlags;

use crate::{Error, disk};

const MAX_BYTES: u64 = 256 * 1024 * 1024;
const MAX_ENTRIES: u64 = 50_000;
const MAX_DEPTH: usize = 64;
const SPECIAL: &str = "it is neither a file nor a directory nor a symbolic link";

/// Up to this number of entries each is synchronised by itself; above, the file system is.
const FEW: u64 = 64;

/// Makes `target`, a copy of the directory `source`, and waits until it is on disk.
pub(crate) fn copy_meta(source: &Path, target: &Path) -> Result<(), Error> {
    let mut copy = Copy { bytes: 0, entries: 0 };
    copy.directory(source, target, 0)?;
    copy.sync(target).map_err(Error::io("write", target))
}

struct Copy {
    bytes: u64,
    entries: u64,
}

impl Copy {
    fn directory(&mut self, source: &Path, target: &Path, depth: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(refused(
                source,
                format!("its directories are nested more than {MAX_DEPTH} deep"),
            ));
        }
        DirBuilder::new().create(target).map_err(Error::io("create", target))?;
        for entry in fs::read_dir(source).map_err(Error::io("read", source))? {
            let entry = entry.map_err(Error::io("read", source))?;
            let (from, to) = (entry.path(), target.join(entry.file_name()));
            self.entries += 1;
            if self.entries > MAX_ENTRIES {
                return Err(refused(&from, format!("it has more than {MAX_ENTRIES} entries")));
            }
            let kind = entry.file_type().map_err(Error::io("read", &from))?;
            if kind.is_dir() {
                self.directory(&from, &to, depth + 1)?;
            } else if kind.is_file() {
                self.file(&from, &to)?;
            } else if kind.is_symlink() {
                link(&from, &to, depth)?;
            } else {
                return Err(refused(&from, SPECIAL));
            }
        }
        Ok(())
    }

    fn file(&mut self, from: &Path, to: &Path) -> Result<(), Error> {
        // The file may have become a link or a pipe since it was looked at.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let source = OpenOptions::new().read(true).custom_flags(flags).open(from);
        let source = source.map_err(Error::io("read", from))?;
        let metadata = source.metadata().map_err(Error::io("read", from))?;
        if !metadata.is_file() {
            return Err(refused(from, SPECIAL));
        }
        let mode = if metadata.permissions().mode() & 0o111 == 0 { 0o666 } else { 0o777 };
        let target = OpenOptions::new().write(true).create_new(true).mode(mode).open(to);
        let mut target = target.map_err(Error::io("create", to))?;
        let left = MAX_BYTES - self.bytes;
        let copied = io::copy(&mut (&source).take(left + 1), &mut target);
        let copied = copied.map_err(Error::io("write", to))?;
        if copied > left {
            return Err(refused(from, format!("it has more than {MAX_BYTES} bytes")));
        }
        self.bytes += copied;
        Ok(())
    }

    fn sync(&self, target: &Path) -> io::Result<()> {
        if self.entries > FEW {
            return Ok(rustix::fs::syncfs(File::open(target)?)?);
        }
        sync_tree(target)
    }
}

fn link(from: &Path, to: &Path, depth: usize) -> Result<(), Error> {
    let target = fs::read_link(from).map_err(Error::io("read", from))?;
    if !stays_inside(&target, depth) {
        return Err(refused(
            from,
            format!(
                "it is a symbolic link that leads out of the metadata directory, to `{}`",
                escape(&target.to_string_lossy())
            ),
        ));
    }
    symlink(&target, to).map_err(Error::io("create", to))
}

/// Returns whether a link, `depth` directories below the top, leads to something below the top.
///
/// Steps upward are allowed at the beginning only. After another part, which may be a link
/// itself, no one can say without looking where a step upward leads.
fn stays_inside(target: &Path, depth: usize) -> bool {
    let parts = || target.components().filter(|part| *part != Component::CurDir);
    let upward = parts().take_while(|part| *part == Component::ParentDir).count();
    let mut rest = parts().skip(upward);
    upward <= depth && rest.all(|part| matches!(part, Component::Normal(_)))
}

fn sync_tree(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            sync_tree(&entry.path())?;
        } else if kind.is_file() {
            File::open(entry.path())?.sync_all()?;
        }
    }
    disk::sync_directory(directory)
}

fn refused(path: &Path, problem: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::MetaEntry { path: path.to_owned(), source: problem.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy_of(fill: impl FnOnce(&Path)) -> (tempfile::TempDir, Result<(), String>) {
        let place = tempfile::tempdir().unwrap();
        let source = place.path().join("source");
        fs::create_dir(&source).unwrap();
        fill(&source);
        let outcome = copy_meta(&source, &place.path().join("target"));
        let reason = |error: Error| std::error::Error::source(&error).unwrap().to_string();
        (place, outcome.map_err(reason))
    }

    #[test]
    fn files_directories_and_links_inside_are_copied() {
        let (place, outcome) = copy_of(|source| {
            fs::create_dir(source.join("recipe")).unwrap();
            fs::write(source.join("env.json"), "{}").unwrap();
            symlink("../env.json", source.join("recipe/link")).unwrap();
        });
        outcome.unwrap();
        assert_eq!(fs::read_to_string(place.path().join("target/recipe/link")).unwrap(), "{}");
    }

    #[test]
    fn a_program_stays_one() {
        let (place, outcome) = copy_of(|source| {
            fs::write(source.join("post-install"), "").unwrap();
            let mode = fs::Permissions::from_mode(0o700);
            fs::set_permissions(source.join("post-install"), mode).unwrap();
        });
        outcome.unwrap();
        let mode = fs::metadata(place.path().join("target/post-install")).unwrap().permissions();
        assert_eq!(mode.mode() & 0o100, 0o100);
    }

    #[test]
    fn a_link_that_leads_out_is_refused() {
        let (_place, outcome) = copy_of(|source| symlink("../x", source.join("link")).unwrap());
        let message = "it is a symbolic link that leads out of the metadata directory, to `../x`";
        assert_eq!(outcome, Err(message.to_owned()));
    }

    #[test]
    fn an_absolute_link_is_refused() {
        let (_place, outcome) = copy_of(|source| symlink("/etc", source.join("link")).unwrap());
        assert!(outcome.unwrap_err().contains("to `/etc`"));
    }

    #[test]
    fn a_link_that_goes_up_behind_another_link_is_refused() {
        assert!(!stays_inside(Path::new("other/../../x"), 1));
    }

    #[test]
    fn a_link_may_go_up_to_the_top() {
        assert!(stays_inside(Path::new("./../../x/y"), 2));
    }

    #[test]
    fn a_named_pipe_is_refused() {
        let (_place, outcome) = copy_of(|source| {
            let mode = rustix::fs::Mode::RUSR;
            let kind = rustix::fs::FileType::Fifo;
            rustix::fs::mknodat(rustix::fs::CWD, source.join("pipe"), kind, mode, 0).unwrap();
        });
        let message = "it is neither a file nor a directory nor a symbolic link";
        assert_eq!(outcome, Err(message.to_owned()));
    }

    #[test]
    fn directories_without_end_are_refused() {
        let (_place, outcome) = copy_of(|source| {
            let deep: std::path::PathBuf = std::iter::repeat_n("d", MAX_DEPTH + 1).collect();
            fs::create_dir_all(source.join(deep)).unwrap();
        });
        assert_eq!(outcome, Err("its directories are nested more than 64 deep".to_owned()));
    }

    #[test]
    fn too_many_bytes_are_refused() {
        let (_place, outcome) = copy_of(|source| {
            File::create(source.join("huge")).unwrap().set_len(MAX_BYTES + 1).unwrap();
        });
        assert_eq!(outcome, Err("it has more than 268435456 bytes".to_owned()));
    }
}
