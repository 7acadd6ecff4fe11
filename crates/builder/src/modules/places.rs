// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The paths that a view names: are they where the tree is?

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use cabane_view::{Change, EnvPatch};

/// Every system has these, or programs make them.
const SYSTEM: [&str; 10] =
    ["/bin", "/dev", "/etc", "/lib", "/lib64", "/proc", "/sbin", "/tmp", "/usr", "/var"];

/// What was found out about the paths of a view.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Places {
    /// Where the tree was installed, if the view names paths there and none where it is now.
    pub(super) elsewhere: Option<PathBuf>,
    /// Paths outside of the tree and of the system.
    pub(super) outside: BTreeSet<PathBuf>,
}

/// Looks at the paths that a view names. `tree` is the directory that is packed, `installed_at` where it
/// was installed as far as is known.
pub(super) fn places(patch: &EnvPatch, tree: &Path, installed_at: &Path) -> Places {
    let paths = paths(patch);
    let (inside, others): (Vec<_>, Vec<_>) =
        paths.into_iter().partition(|path| path.starts_with(installed_at));
    let is_system = |path: &PathBuf| SYSTEM.iter().any(|system| path.starts_with(system));
    let outside: BTreeSet<PathBuf> = others.into_iter().filter(|path| !is_system(path)).collect();
    let elsewhere =
        if inside.is_empty() { outside.iter().find_map(|path| root_of(path, tree)) } else { None };
    Places { elsewhere, outside }
}

fn paths(patch: &EnvPatch) -> BTreeSet<PathBuf> {
    let changes = patch.iter().flat_map(|(_, changes)| changes);
    let texts = changes.flat_map(|change| match change {
        Change::Set(text) => std::slice::from_ref(text),
        Change::Unset => &[],
        Change::List { values, .. } => values.as_slice(),
    });
    let words = texts.flat_map(|text| text.split([':', ';', ' ']));
    words.filter(|word| word.starts_with('/')).map(PathBuf::from).collect()
}

/// Returns the beginning of a path without which it is one of the tree, of at least two names.
fn root_of(path: &Path, tree: &Path) -> Option<PathBuf> {
    let names: Vec<_> =
        path.components().filter(|part| matches!(part, Component::Normal(_))).collect();
    let is_in_tree = |start: &usize| {
        let inside: PathBuf = names[*start..].iter().collect();
        tree.join(inside).exists()
    };
    let start = (1..names.len().saturating_sub(1)).find(is_in_tree)?;
    Some(Path::new("/").join(names[..start].iter().collect::<PathBuf>()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::prepend;

    fn look(values: &[&str]) -> Places {
        let tree = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(tree.path().join("software/x/bin")).unwrap();
        let mut patch = EnvPatch::new();
        let values = values.iter().map(|text| (*text).to_owned()).collect();
        patch.push("PATH", prepend(values));
        places(&patch, tree.path(), Path::new("/env"))
    }

    #[test]
    fn a_tree_that_was_installed_elsewhere_is_recognized() {
        let found = look(&["/usr/bin", "/apps/easybuild/software/x/bin"]);
        assert_eq!(found.elsewhere.as_deref(), Some(Path::new("/apps/easybuild")));
    }

    #[test]
    fn a_path_beside_the_tree_is_no_sign_of_another_place() {
        let found = look(&["/env/software/x/bin", "/opt/software/x/bin"]);
        assert_eq!(found.elsewhere, None);
        assert_eq!(Vec::from_iter(found.outside), [Path::new("/opt/software/x/bin")]);
    }
}
