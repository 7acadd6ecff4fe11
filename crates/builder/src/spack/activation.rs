// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From the script with which Spack enters a view to the changes that it makes.
//!
//! Spack writes whole values, with what the build's own variables held in them. What
//! is outside of the image is left out: anyone who starts the image has it already, and
//! in front of other images it would hide theirs.

use cabane_recipe::PATH_LISTS;
use cabane_view::{Change, EnvPatch};

use crate::metadata::{append, prepend};

/// Reads the lines `export NAME=VALUE;` of a script for `sh`. Directories of lists are
/// kept if they are below `mount_point`.
pub(super) fn read(script: &str, mount_point: &str) -> EnvPatch {
    let mut patch = EnvPatch::new();
    for (name, value) in script.lines().filter_map(export) {
        // They tie a shell to the Spack that made the view.
        if name.starts_with("SPACK_") {
            continue;
        }
        if !PATH_LISTS.contains(&name) {
            patch.push(name, Change::Set(value));
            continue;
        }
        let inside = |path: &&str| {
            let rest = path.strip_prefix(mount_point);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let ours: Vec<String> = value.split(':').filter(inside).map(str::to_owned).collect();
        if ours.is_empty() {
            continue;
        }
        patch.push(name, prepend(ours));
        if name == "MANPATH" {
            // An empty element stands for the pages of the system.
            patch.push(name, append(vec![String::new()]));
        }
    }
    patch
}

/// Splits `export NAME=VALUE;` and takes the quotes off the value.
fn export(line: &str) -> Option<(&str, String)> {
    let rest = line.trim().strip_prefix("export ")?;
    let (name, value) = rest.split_once('=')?;
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_name = !name.is_empty() && name.chars().all(is_word);
    is_name.then(|| (name, unquoted(value)))
}

/// Reads a value as `sh` does, up to the `;` that ends it. Nothing is expanded.
fn unquoted(text: &str) -> String {
    let mut value = String::new();
    let mut characters = text.chars();
    let mut quote = None;
    while let Some(c) = characters.next() {
        match (quote, c) {
            (None, ';') => break,
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            (None | Some('"'), '\\') => value.extend(characters.next()),
            (_, c) => value.push(c),
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(script: &str) -> Vec<String> {
        let patch = read(script, "/user-environment");
        patch.iter().map(|(name, changes)| format!("{name} {changes:?}")).collect()
    }

    #[test]
    fn directories_of_the_system_are_left_out() {
        let script = "export PATH=/user-environment/env/default/bin:/usr/bin:/bin;\n\
                      export ACLOCAL_PATH=/usr/share/aclocal;\n";
        let patch = read(script, "/user-environment");
        let expected = prepend(vec!["/user-environment/env/default/bin".to_owned()]);
        assert_eq!(patch.iter().collect::<Vec<_>>(), [("PATH", &[expected][..])]);
    }

    #[test]
    fn what_ties_a_shell_to_spack_is_left_out() {
        let script =
            "export SPACK_ENV=/cabane/work/env;\nalias despacktivate='spack env deactivate';\n";
        assert_eq!(shown(script), Vec::<String>::new());
    }

    #[test]
    fn pages_of_the_system_are_still_found() {
        let script = "export MANPATH=/user-environment/env/default/man:;\n";
        let patch = read(script, "/user-environment");
        let operations = patch.iter().map(|(_, changes)| changes.len()).collect::<Vec<_>>();
        assert_eq!(operations, [2]);
    }

    #[test]
    fn quotes_are_taken_off_and_nothing_is_expanded() {
        let patch = read("export NOTE='a; \"b\" $HOME'\\''s';\n", "/user-environment");
        let expected = Change::Set("a; \"b\" $HOME's".to_owned());
        assert_eq!(patch.iter().collect::<Vec<_>>(), [("NOTE", &[expected][..])]);
    }
}
