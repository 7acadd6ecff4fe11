// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Views of an image that is mounted elsewhere than it was built for.
//!
//! The paths that a view gives to variables are below the mount point for which the
//! image was built. Where it is mounted at another place they would lead nowhere, or
//! into another image. What is inside the files of the image is not changed by this.

use cabane_label::MountPoint;

use crate::{EnvPatch, Meta, View};

impl Meta {
    /// Makes the views name `place` where they named the mount point for which the
    /// image was built. That one remains in `mount`. A root image that is mounted
    /// elsewhere has no views.
    pub fn relocate_views(&mut self, place: &MountPoint) {
        let Some(built_for) = self.mount.as_ref().filter(|built_for| *built_for != place) else {
            return;
        };
        if built_for.is_root() {
            // What it says is about a whole system, which this is not at another place.
            self.default_view = None;
            self.views.clear();
            return;
        }
        for view in self.views.values_mut() {
            view.relocate(built_for.as_str(), place.as_str());
        }
    }
}

impl EnvPatch {
    /// Makes the values name the path `to` where they name `from` or a path below it. What the files at
    /// these paths say is not changed by this.
    pub fn relocate(&mut self, from: &str, to: &str) {
        for text in self.texts_mut() {
            *text = relocated(text, from, to);
        }
    }
}

impl View {
    fn relocate(&mut self, from: &str, to: &str) {
        if let Some(root) = &mut self.root {
            *root = relocated(root, from, to);
        }
        self.patch.relocate(from, to);
    }
}

/// Replaces a path wherever it is the beginning of a path in the text.
fn relocated(text: &str, from: &str, to: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(from) {
        let (before, found) = rest.split_at(start);
        result.push_str(before);
        let after = &found[from.len()..];
        let is_path = begins_path(&result) && ends_component(after);
        result.push_str(if is_path { to } else { from });
        rest = after;
    }
    result + rest
}

/// Tells whether a path can begin behind this: `-I/path` and `file:/path`, but not
/// `/some/path`.
fn begins_path(before: &str) -> bool {
    let is_option = || before.ends_with("-I") || before.ends_with("-L");
    match before.chars().next_back() {
        None => true,
        Some(last) => !(last.is_alphanumeric() || "/._-~}".contains(last)) || is_option(),
    }
}

fn ends_component(after: &str) -> bool {
    let next = after.chars().next();
    next.is_none_or(|next| !(next.is_alphanumeric() || "._-~".contains(next)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(text: &str) -> String {
        relocated(text, "/user-environment", "/mnt/b")
    }

    #[test]
    fn paths_below_the_mount_point_follow_it() {
        let texts = [
            "/user-environment",
            "/user-environment/bin:/usr/bin:/user-environment/sbin",
            "-I/user-environment/include -L/user-environment/lib",
            "-Wl,-rpath,/user-environment/lib",
        ];
        assert_eq!(
            texts.map(moved),
            [
                "/mnt/b",
                "/mnt/b/bin:/usr/bin:/mnt/b/sbin",
                "-I/mnt/b/include -L/mnt/b/lib",
                "-Wl,-rpath,/mnt/b/lib",
            ]
        );
    }

    #[test]
    fn paths_that_only_look_like_it_stay() {
        let texts = [
            "/scratch/user-environment/bin",
            "/user-environment2/bin",
            "/user-environment.old",
            "${@HOME@}/user-environment",
        ];
        assert_eq!(texts.map(moved), texts);
    }
}
