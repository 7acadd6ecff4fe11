// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Suites that are installed with the command, or by the site: found by name.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cabane_evidence::Configuration;
use cabane_label::{Digest, enumerate, shown};
use cabane_registry::sum;
use cabane_report::{IoContext, Kind, Report, Result};
use cabane_site::Context;
use serde_json::json;

/// Where suites are below the prefix of the command.
const BELOW_PREFIX: &str = "share/cabane/suites";
/// Python writes it beside the tests.
const IGNORED: &str = "__pycache__";

/// Finds the directory of the installed suite of a name.
pub(super) fn find(context: &Context, name: &Path) -> Result<PathBuf> {
    let directory = directory(context);
    let found = directory.as_ref().map(|directory| directory.join(name));
    if let Some(found) = found.filter(|path| path.is_dir()) {
        return Ok(found);
    }
    let message = format!("`{}` is neither a directory nor an installed suite", shown(name));
    let names = directory.as_deref().map(names).unwrap_or_default();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let hint = match (&directory, names.as_slice()) {
        (Some(_), [_, ..]) => format!("the installed suites are {}", enumerate(&names, "and")),
        (Some(directory), []) => format!(
            "{} has no suites; name a directory, or set `check.suites` in config.toml",
            shown(directory)
        ),
        (None, _) => "name a directory, or set `check.suites` in config.toml".to_owned(),
    };
    Err(Report::new(Kind::NotFound, message).hinted(hint))
}

/// The directory with the installed suites; `None` if it is not known where this program is.
fn directory(context: &Context) -> Option<PathBuf> {
    let of_program = || Some(context.program()?.parent()?.parent()?.join(BELOW_PREFIX));
    context.settings.suites.value.clone().or_else(of_program)
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.path().is_dir());
    let mut names: Vec<String> =
        directories.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

/// Adds which suite it was: the version that came with it, and the sum of its files, since a site may
/// have changed them.
pub(super) fn describe(suite: &Path, configuration: &mut Configuration) -> Result<()> {
    let version = format!("cabane {}", env!("CARGO_PKG_VERSION"));
    configuration.annotations.insert("installedWith".to_owned(), json!(version));
    let files = sum_of_files(suite).or_failed(|| format!("read {}", shown(suite)))?;
    configuration.annotations.insert("files".to_owned(), json!(files.as_str()));
    Ok(())
}

/// The sum of the names, modes, and contents of all files below a directory.
fn sum_of_files(directory: &Path) -> io::Result<Digest> {
    let mut lines = Vec::new();
    add(directory, Path::new(""), &mut lines)?;
    lines.sort_unstable();
    Ok(sum::bytes(&lines.concat()))
}

fn add(root: &Path, below: &Path, lines: &mut Vec<Vec<u8>>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(below))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        // What a link leads to is what the tests find there.
        let found = fs::metadata(entry.path())?;
        if found.is_dir() && !entry.file_type()?.is_symlink() {
            if entry.file_name() != IGNORED {
                add(root, &path, lines)?;
            }
        } else if found.is_file() {
            let is_program = found.permissions().mode() & 0o100 != 0;
            let content = sum::bytes(&fs::read(entry.path())?);
            let mut line = path.as_os_str().as_bytes().to_vec();
            line.extend_from_slice(format!("\0{is_program} {content}\0").as_bytes());
            lines.push(line);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_modes_and_contents_count_and_what_python_writes_does_not() {
        let place = tempfile::tempdir().unwrap();
        let sum = || sum_of_files(place.path()).unwrap();
        let file = place.path().join("tests.py");
        fs::write(&file, "1").unwrap();
        let first = sum();
        fs::create_dir(place.path().join(IGNORED)).unwrap();
        fs::write(place.path().join(IGNORED).join("tests.pyc"), "1").unwrap();
        assert_eq!(sum(), first);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        let with_mode = sum();
        fs::write(&file, "2").unwrap();
        let with_content = sum();
        fs::rename(&file, place.path().join("other.py")).unwrap();
        let mut all = vec![first, with_mode, with_content, sum()];
        all.dedup();
        assert_eq!(all.len(), 4);
    }
}
