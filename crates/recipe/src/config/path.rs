// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Paths in recipes.

use std::path::{Component, Path, PathBuf};

use crate::ask::Field;

/// Where a path of a recipe may lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Only to what is in the directory of the recipe.
    Recipe,
    /// To any directory of the system that builds.
    Anywhere,
}

/// Returns a path that is relative to the recipe, or absolute where that is
/// allowed.
pub(super) fn path(field: &Field<'_>, reach: Reach) -> Option<PathBuf> {
    let text = field.text()?;
    let name = &field.name;
    let (message, hint) = if text.is_empty() {
        (format!("{name} is an empty path"), "write the path of a file in the recipe")
    } else if text.contains(char::is_control) {
        (format!("{name} has a control character in its path"), "rename the file")
    } else if text.contains("://") {
        (format!("{name} is an address, not a path"), "get the file and put it into the recipe")
    } else if text.starts_with('~') {
        (format!("`~` is not replaced in {name}"), "write the whole path")
    } else if text.contains('$') {
        (format!("variables are not replaced in {name}"), "write the path itself")
    } else if reach == Reach::Recipe && Path::new(text).is_absolute() {
        (
            format!("{name} must be in the recipe, but this path is absolute"),
            "copy the file into the directory of config.yaml, and write its name",
        )
    } else if reach == Reach::Recipe && leaves(Path::new(text)) {
        (
            format!("{name} must be in the recipe, but this path leads out of it"),
            "copy the file into the directory of config.yaml, and write its name",
        )
    } else {
        return Some(PathBuf::from(text));
    };
    field.refuse(&message, hint)
}

/// Tells whether a relative path leads out of where it begins, as far as its
/// text tells.
fn leaves(path: &Path) -> bool {
    let mut depth = 0usize;
    for component in path.components() {
        match component {
            Component::Normal(_) => depth += 1,
            Component::CurDir => {}
            Component::ParentDir if depth > 0 => depth -= 1,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return true,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_path_that_comes_back_stays_inside() {
        assert!(!leaves(Path::new("wheels/../a.whl")));
    }

    #[test]
    fn a_path_that_leaves_on_its_way_is_refused_though_it_comes_back() {
        assert!(leaves(Path::new("wheels/../../recipe/a.whl")));
    }

    proptest! {
        #[test]
        fn a_path_without_parents_never_leaves(path in "[a./]{0,20}") {
            let has_parent = path.split('/').any(|part| part == "..");
            prop_assume!(!has_parent && !path.starts_with('/'));
            prop_assert!(!leaves(Path::new(&path)));
        }
    }
}
