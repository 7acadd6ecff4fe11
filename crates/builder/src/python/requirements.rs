// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Requirements files, as far as a build must understand them: which other files
//! they lead to, and whether they are locked already.
//!
//! What the requirements mean is for the installer to say.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::engine::{Kind, RecipeDir};
use crate::{Result, disk};

/// A requirements file and what it includes.
#[derive(Clone, Debug)]
pub(crate) struct Requirements {
    /// Its path in the recipe.
    pub(crate) path: PathBuf,
    /// All files that decide about what it means, by their path in the recipe.
    pub(crate) files: BTreeMap<PathBuf, PathBuf>,
    /// The files that list packages: this one, and those that are included with `-r`.
    pub(crate) lists: Vec<PathBuf>,
    /// What they say, without comments: requirements, and options that decide about them.
    pub(crate) lines: BTreeSet<String>,
    /// Whether every requirement has a hash, and nothing is included.
    pub(crate) locked: bool,
}

impl Requirements {
    /// Reads a requirements file of a recipe, and those that it includes.
    pub(crate) fn read(recipe: &RecipeDir, path: &Path) -> Result<Self> {
        let mut requirements = Self {
            path: path.to_owned(),
            files: BTreeMap::new(),
            lists: Vec::new(),
            lines: BTreeSet::new(),
            locked: true,
        };
        let mut pending = vec![(path.to_owned(), false)];
        while let Some((path, is_constraint)) = pending.pop() {
            let real = recipe.find_inside(&path, Kind::File)?;
            if requirements.files.contains_key(&path) {
                continue;
            }
            let text = disk::read(&real)?;
            requirements.files.insert(path.clone(), real);
            if !is_constraint {
                requirements.lists.push(path.clone());
            }
            let directory = path.parent().unwrap_or(Path::new(""));
            for line in logical_lines(&String::from_utf8_lossy(&text)) {
                match included(&line) {
                    Some((_, file)) if file.contains("://") => {}
                    Some((constrains, file)) => {
                        pending.push((directory.join(file), is_constraint || constrains));
                    }
                    None => requirements.add_local(recipe, &line),
                }
                requirements.locked &= is_locked(&line) || is_option_without_file(&line);
                requirements.add_line(&line, is_constraint);
            }
        }
        Ok(requirements)
    }

    /// Remembers what a line says. An address can hold a password, and a file is read for itself.
    fn add_line(&mut self, line: &str, is_constraint: bool) {
        let is_option = line.trim_start().starts_with('-');
        if included(line).is_some() || is_option && line.contains("://") {
            return;
        }
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        let before = if is_constraint { "constraint " } else { "" };
        self.lines.insert(format!("{before}{line}"));
    }

    /// Remembers a wheel or an archive that a requirement names by its path.
    fn add_local(&mut self, recipe: &RecipeDir, line: &str) {
        let parts = line.split([' ', '@', ';']).map(str::trim);
        for part in parts.filter(|part| part.contains('.') && !part.starts_with('-')) {
            if let Ok(real) = recipe.find_inside(Path::new(part), Kind::File) {
                self.files.insert(PathBuf::from(part), real);
            }
        }
    }
}

/// Joins lines that end with a backslash; leaves out comments and empty lines.
fn logical_lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut current = String::new();
    for line in text.lines() {
        let line = without_comment(line).trim();
        if let Some(start) = line.strip_suffix('\\') {
            current.push_str(start);
            current.push(' ');
            continue;
        }
        current.push_str(line);
        lines.push(std::mem::take(&mut current));
    }
    lines.push(current);
    lines.retain(|line| !line.trim().is_empty());
    lines
}

/// A `#` begins a comment at the start of a line and after white space; elsewhere
/// it belongs to an address.
fn without_comment(line: &str) -> &str {
    let is_comment = |&(place, _): &(usize, &str)| {
        line[..place].chars().next_back().is_none_or(char::is_whitespace)
    };
    match line.match_indices('#').find(is_comment) {
        Some((place, _)) => &line[..place],
        None => line,
    }
}

/// Returns the file that a line includes, and whether that only constrains versions.
fn included(line: &str) -> Option<(bool, &str)> {
    const OPTIONS: [&str; 4] = ["--requirement", "--constraint", "-r", "-c"];
    OPTIONS.iter().find_map(|option| {
        let rest = line.trim().strip_prefix(option)?;
        let is_short = !option.starts_with("--");
        let file = rest.trim_start_matches('=').trim();
        let ends = is_short || rest.starts_with(['=', ' ', '\t']);
        let constrains = option.trim_start_matches('-').starts_with('c');
        (ends && !file.is_empty()).then_some((constrains, file))
    })
}

fn is_locked(line: &str) -> bool {
    !line.starts_with('-') && line.contains("--hash=")
}

/// Options such as `--index-url` say where packages come from, not which.
fn is_option_without_file(line: &str) -> bool {
    const HARMLESS: [&str; 5] =
        ["--index-url", "--extra-index-url", "--no-index", "--only-binary", "--no-binary"];
    let option = line.split(['=', ' ']).next().unwrap_or_default();
    HARMLESS.contains(&option)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_requirement_goes_on_after_a_backslash() {
        let lines = logical_lines("numpy==2.0 \\\n    --hash=sha256:0 # new\n\n# end\n");
        assert_eq!(lines, ["numpy==2.0  --hash=sha256:0"]);
    }

    proptest! {
        #[test]
        fn however_a_requirement_is_broken_into_lines_it_is_one(
            parts in prop::collection::vec("[a-z=@/.:-]{1,8}", 1..6)
        ) {
            let lines = logical_lines(&parts.join(" \\\n   "));
            prop_assert_eq!(lines, [parts.join("  ")]);
        }

        #[test]
        fn no_text_is_too_strange_to_be_read(text in "(\\PC|[\n#\\\\ -]){0,80}") {
            for line in logical_lines(&text) {
                prop_assert!(!line.trim().is_empty() && !line.contains('\n'));
                let _ = (included(&line), is_locked(&line));
            }
        }
    }

    #[test]
    fn the_fragment_of_an_address_is_no_comment() {
        assert_eq!(without_comment("a @ https://b/c#egg=a # d"), "a @ https://b/c#egg=a ");
    }

    #[test]
    fn included_files_are_found_in_every_spelling() {
        let lines = ["-r a.txt", "-ra.txt", "--constraint=a.txt", "-c\ta.txt"];
        let found = lines.map(included);
        assert_eq!(found, [false, false, true, true].map(|constrains| Some((constrains, "a.txt"))));
    }

    #[test]
    fn a_package_whose_name_begins_like_an_option_is_not_included() {
        assert_eq!(included("--requirements a.txt"), None);
    }
}
