// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Tiny real images.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A small tree of files that becomes an image.
#[derive(Debug)]
pub struct Tree {
    root: PathBuf,
}

impl Tree {
    /// Starts an empty tree in a new directory.
    ///
    /// # Panics
    ///
    /// If the directory cannot be made, like every function here.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        fs::create_dir_all(&root).expect("make the tree");
        Self { root }
    }

    /// Adds a file.
    #[must_use]
    pub fn file(self, path: &str, content: &str) -> Self {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("make a directory");
        fs::write(path, content).expect("write a file");
        self
    }

    /// Adds a program: a shell script that anyone may run.
    #[must_use]
    pub fn program(self, path: &str, script: &str) -> Self {
        let tree = self.file(path, &format!("#!/bin/sh\n{script}\n"));
        fs::set_permissions(tree.root.join(path), fs::Permissions::from_mode(0o755))
            .expect("make a file executable");
        tree
    }

    /// Adds what is in a directory, links as they are.
    #[must_use]
    pub fn copy_of(self, original: &Path, path: &str) -> Self {
        let target = self.root.join(path);
        fs::create_dir_all(&target).expect("make a directory");
        run(Command::new("cp").arg("-r").arg(original.join(".")).arg(target));
        self
    }

    /// Adds metadata with a default view that puts `bin` into `PATH` and sets
    /// `CABANE_TEST` to the name.
    #[must_use]
    pub fn meta(self, name: &str, mount_point: &str) -> Self {
        let text = format!(
            r#"{{"name":"{name}","description":"an image of the tests","mount":"{mount_point}","default-view":"default",
"views":{{"default":{{"description":"the default view","root":"{mount_point}","activate":"/dev/null",
"env":{{"version":1,"values":{{"list":{{"PATH":[{{"op":"prepend","value":["{mount_point}/bin"]}}]}},
"scalar":{{"CABANE_TEST":"{name}"}}}}}}}}}}}}
"#
        );
        self.file("meta/env.json", &text)
    }

    /// Returns the directory of the tree.
    pub fn root(&self) -> &Path {
        &self.root
    }
}

/// Packs a tree as squashfs.
///
/// # Panics
///
/// If `mksquashfs` is missing or fails.
pub fn squashfs(tree: &Path, image: &Path) {
    let mut command = Command::new("mksquashfs");
    command.arg(tree).arg(image).args([
        "-noappend",
        "-all-root",
        "-no-progress",
        "-quiet",
        "-comp",
        "zstd",
        "-Xcompression-level",
        "1",
    ]);
    run(&mut command);
}

/// Packs a tree as EROFS.
///
/// # Panics
///
/// If `mkfs.erofs` is missing or fails.
pub fn erofs(tree: &Path, image: &Path) {
    run(Command::new("mkfs.erofs").args(["--all-root", "-zlz4"]).arg(image).arg(tree));
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?} failed:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
