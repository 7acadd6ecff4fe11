// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From the variables that Spack sets for a view to the changes that the view makes.
//!
//! Spack says whole values, with what the build's own variables held in them. What
//! is outside of the image is left out: anyone who starts the image has it already, and
//! in front of other images it would hide theirs.

use std::path::{Path, PathBuf};

use cabane_recipe::PATH_LISTS;
use cabane_view::{Change, EnvPatch};

use crate::metadata::{append, prepend};

/// Returns the changes of a view. Directories of lists are kept if they are below one of the
/// mount points: that of the image, or those of its bases.
pub(super) fn patch<'a>(
    values: impl IntoIterator<Item = (&'a String, &'a String)>,
    mount_points: &[PathBuf],
) -> EnvPatch {
    let mut patch = EnvPatch::new();
    for (name, value) in values {
        // They tie a shell to the Spack that made the view.
        if name.starts_with("SPACK_") {
            continue;
        }
        if !PATH_LISTS.contains(&name.as_str()) {
            patch.push(name, Change::Set(value.clone()));
            continue;
        }
        let inside =
            |path: &&str| mount_points.iter().any(|place| Path::new(path).starts_with(place));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn patch_of(name: &str, value: &str) -> EnvPatch {
        patch([(&name.to_owned(), &value.to_owned())], &["/user-environment".into()])
    }

    #[test]
    fn directories_of_the_system_are_left_out() {
        let patch = patch_of("PATH", "/user-environment/env/default/bin:/usr/bin:/bin");
        let expected = prepend(vec!["/user-environment/env/default/bin".to_owned()]);
        assert_eq!(patch.iter().collect::<Vec<_>>(), [("PATH", &[expected][..])]);
        assert_eq!(patch_of("ACLOCAL_PATH", "/usr/share/aclocal").iter().count(), 0);
    }

    #[test]
    fn what_ties_a_shell_to_spack_is_left_out() {
        assert_eq!(patch_of("SPACK_ENV", "/cabane/work/env").iter().count(), 0);
    }

    #[test]
    fn pages_of_the_system_are_still_found() {
        let patch = patch_of("MANPATH", "/user-environment/env/default/man");
        let operations = patch.iter().map(|(_, changes)| changes.len()).collect::<Vec<_>>();
        assert_eq!(operations, [2]);
    }
}
