// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What EasyBuild has installed in a tree.
//!
//! It installs into `software/NAME/VERSION`, with the toolchain in the version, and keeps the easyconfig in
//! `easybuild/` below that.

use std::fs;
use std::path::{Path, PathBuf};

use cabane_view::PackageRecord;

use crate::disk;
use crate::inside::Part;

const SOFTWARE: &str = "software";
/// The directory with what EasyBuild knows about an installation.
const NOTES: &str = "easybuild";
/// The ending of easyconfigs.
const ENDING: &str = "eb";
/// The most that is read of an easyconfig, in bytes.
const MOST: u64 = 1 << 20;

/// Describes the packages in a tree that is mounted at `mount_point`; none if EasyBuild did not make it.
pub(super) fn parts(tree: &Path, mount_point: &str) -> Vec<Part> {
    let names = directories(&tree.join(SOFTWARE));
    let installed = names.into_iter().flat_map(|name| directories(&name));
    installed.filter_map(|place| part(tree, mount_point, place)).collect()
}

/// Returns the directories in one, in their order. Those that begin with a point are of EasyBuild itself.
fn directories(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let is_one = |entry: &fs::DirEntry| {
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        is_directory && !entry.file_name().to_string_lossy().starts_with('.')
    };
    let mut found: Vec<PathBuf> = entries.filter(is_one).map(|entry| entry.path()).collect();
    found.sort();
    found
}

fn part(tree: &Path, mount_point: &str, place: PathBuf) -> Option<Part> {
    let notes = place.join(NOTES);
    let mut files: Vec<PathBuf> =
        fs::read_dir(&notes).ok()?.flatten().map(|entry| entry.path()).collect();
    files.sort();
    let easyconfig =
        files.into_iter().find(|path| path.extension().is_some_and(|e| e == ENDING))?;
    let text = disk::read_start(&easyconfig, MOST).ok()?;
    let text = String::from_utf8_lossy(&text);
    let prefix = place.strip_prefix(tree).ok()?.to_str()?;
    let of_directory = |path: Option<&Path>| Some(path?.file_name()?.to_str()?.to_owned());
    let record = PackageRecord {
        name: value(&text, "name").or_else(|| of_directory(place.parent()))?,
        version: value(&text, "version").or_else(|| of_directory(Some(&place)))?,
        manager: "easybuild".to_owned(),
        prefix: Some(format!("{mount_point}/{prefix}")),
        explicit: true,
        ..PackageRecord::default()
    };
    Some(Part { key: prefix.to_owned(), record, here: Some(place), ..Part::default() })
}

/// Returns the value of a line `name = 'value'`, if it is a text and nothing else.
fn value(text: &str, key: &str) -> Option<String> {
    let mut lines = text.lines();
    let written = lines.find_map(|line| {
        let rest = line.strip_prefix(key)?.trim_start();
        Some(rest.strip_prefix('=')?.trim())
    })?;
    let quote = written.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let (value, rest) = written[1..].split_once(quote)?;
    let is_plain =
        !value.is_empty() && !value.contains(['%', '\\']) && !value.contains(char::is_control);
    let is_all = rest.trim().is_empty() || rest.trim_start().starts_with('#');
    (is_plain && is_all).then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_easyconfigs_are_read_if_they_are_plain() {
        let text = "# a\nversion = \"1.0\"  # the last\nname='hello'\nversionsuffix = '-x'\n\
                    homepage = local_x + 'y'\nother = 'a' + 'b'\nurl = '%(name)s'\n";
        let seen = ["name", "version", "homepage", "other", "url", "none"];
        let seen = seen.map(|key| value(text, key).unwrap_or_default());
        assert_eq!(seen, ["hello", "1.0", "", "", "", ""]);
    }
}
