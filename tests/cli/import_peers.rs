// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Whole trees of real files, as we flatten them and as another tool unpacks them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use cabane_container::digest;
use cabane_testkit::needs;

use crate::cabane::{Cabane, Who};
use crate::import_containers::{Layout, TOOL, image_file, layer};

/// What a name in a tree is: its kind, mode, content or target, and how many names it has.
pub(crate) type Names = BTreeMap<String, (char, u32, String, u64)>;

pub(crate) fn walk(directory: &Path, prefix: &str, into: &mut Names) {
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let (path, name) = (entry.path(), entry.file_name());
        let name = format!("{prefix}{}", name.to_string_lossy());
        let found = path.symlink_metadata().unwrap();
        let mode = found.permissions().mode() & 0o7777;
        if found.is_dir() {
            walk(&path, &format!("{name}/"), into);
            into.insert(name, ('d', mode, String::new(), 1));
        } else if found.is_symlink() {
            let target = fs::read_link(&path).unwrap().display().to_string();
            into.insert(name, ('l', 0, target, 1));
        } else {
            let sum = digest::of(&fs::read(&path).unwrap()).to_string();
            into.insert(name, ('f', mode, sum, found.nlink()));
        }
    }
}

/// The files of this machine's Python: thousands, with links among them.
fn python() -> Vec<u8> {
    let script = "tar --owner=0 --group=0 -C / -cf - $(cd / && ls -d usr/lib/python3*)";
    let output = Command::new("sh").args(["-c", script]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

/// A layer that hides, replaces, links and closes.
fn changes(cabane: &Cabane, python: &Path) -> Vec<u8> {
    let top = cabane.world.directory("changes");
    let inside = top.join(python);
    fs::create_dir_all(inside.join("json")).unwrap();
    fs::create_dir_all(inside.join("new")).unwrap();
    fs::write(inside.join(".wh.os.py"), "").unwrap();
    fs::write(inside.join("json/.wh..wh..opq"), "").unwrap();
    fs::write(inside.join("json/only.py"), "1").unwrap();
    // A directory becomes a file.
    fs::write(inside.join("email"), "a file now").unwrap();
    fs::write(inside.join("new/one"), "two names").unwrap();
    fs::hard_link(inside.join("new/one"), inside.join("new/two")).unwrap();
    fs::write(inside.join("new/su"), "").unwrap();
    fs::set_permissions(inside.join("new/su"), fs::Permissions::from_mode(0o4755)).unwrap();
    fs::write(inside.join("new/key"), "").unwrap();
    fs::set_permissions(inside.join("new/key"), fs::Permissions::from_mode(0o600)).unwrap();
    layer(&top)
}

#[test]
fn a_tree_of_real_files_is_the_one_that_umoci_unpacks() {
    let umoci = needs!("umoci");
    let cabane = Cabane::new(Who::OrdinaryUser);
    let layout = Layout::new(&cabane, "real");
    let files = python();
    let version = Command::new("python3")
        .args(["-c", "import os; print(os.path.dirname(os.__file__).lstrip('/'))"])
        .output()
        .unwrap();
    let version = String::from_utf8(version.stdout).unwrap();
    let layers = [files, changes(&cabane, Path::new(version.trim()))];
    layout.name(layout.image(&layers, "amd64"), "1");

    cabane.run(&["import", &layout.typed(), TOOL]).success();
    let ours = cabane.world.path("ours");
    let mut unpack = Command::new("unsquashfs");
    unpack.args(["-quiet", "-no-progress", "-dest"]).arg(&ours);
    let output = unpack.arg(image_file(&cabane, TOOL)).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let mut unpack = Command::new(umoci);
    unpack.args(["unpack", "--rootless", "--image"]);
    unpack.arg(format!("{}:1", layout.path.display()));
    let theirs = cabane.world.path("theirs");
    let output = unpack.arg(&theirs).output().unwrap();
    assert!(output.status.success(), "{output:?}");

    let (mut of_ours, mut of_theirs) = (Names::new(), Names::new());
    walk(&ours.join("usr"), "", &mut of_ours);
    walk(&theirs.join("rootfs/usr"), "", &mut of_theirs);
    assert!(of_theirs.len() > 1000, "{}", of_theirs.len());
    for (kind, mode, ..) in of_theirs.values_mut().filter(|(kind, ..)| *kind != 'l') {
        let is_executable = *kind == 'd' || *mode & 0o111 != 0;
        *mode = *mode & 0o1777 | 0o444 | if is_executable { 0o111 } else { 0 };
    }
    let differing: Vec<_> =
        of_theirs.iter().filter(|(name, theirs)| of_ours.get(*name) != Some(*theirs)).collect();
    assert_eq!(differing, Vec::new());
    assert_eq!(of_ours.len(), of_theirs.len());
}
