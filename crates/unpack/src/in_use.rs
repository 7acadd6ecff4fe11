// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which trees processes have mounted.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use cabane_mount::UnpackedTree;
use cabane_run::unescaped;

/// What the processes of a node have mounted: the directories that are the roots of their mounts, as paths
/// in their file systems.
#[derive(Debug, Default)]
pub(crate) struct Mounted(BTreeSet<PathBuf>);

impl Mounted {
    /// Looks at all processes. That takes the rights of root; without them, those of others are not seen.
    pub(crate) fn now() -> Self {
        let mut found = BTreeSet::new();
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        for process in processes.filter(|one| is_number(&one.file_name())) {
            // A process that has ended uses nothing.
            let table = fs::read(process.path().join("mountinfo")).unwrap_or_default();
            let lines = table.split(|byte| *byte == b'\n');
            found.extend(lines.filter_map(root_of).filter(|root| may_be_tree(root)));
        }
        Self(found)
    }

    /// Tells whether a tree is mounted that is in this directory of the store. The path of a store in its
    /// file system is not known, and a tree in another store of the same name counts.
    pub(crate) fn has(&self, directory: &str, name: &OsStr) -> bool {
        let end = Path::new(directory).join(name).join(UnpackedTree::TREE);
        self.0.iter().any(|root| root.ends_with(&end))
    }
}

fn is_number(name: &OsStr) -> bool {
    name.as_bytes().iter().all(u8::is_ascii_digit)
}

/// Returns the fourth field of a line.
fn root_of(line: &[u8]) -> Option<PathBuf> {
    line.split(|byte| *byte == b' ').nth(3).map(unescaped)
}

fn may_be_tree(root: &Path) -> bool {
    root.ends_with(UnpackedTree::TREE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_found_by_the_end_of_its_path_in_the_file_system() {
        let line =
            b"36 35 8:1 /var/lib/my\\040store/trees/ab12/tree /a ro,nosuid - ext4 /dev/sda1 rw";
        let mounted = Mounted(root_of(line).into_iter().collect());
        let has = |directory, name: &str| mounted.has(directory, OsStr::new(name));
        assert_eq!(
            [has("trees", "ab12"), has("removed", "ab12"), has("trees", "b12")],
            [true, false, false]
        );
    }
}
