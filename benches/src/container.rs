// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! An image that is a whole root file system, for tools that start nothing else.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::bed::Bed;
use crate::images::make_squashfs;
use crate::measure::{NotMeasured, finish};

/// What such tools mount something on, or look into.
const DIRECTORIES: [&str; 8] = ["dev", "proc", "sys", "tmp", "home", "root", "etc", "var"];
const FILES: [&str; 4] = ["passwd", "group", "hosts", "resolv.conf"];

/// Makes the image: `true`, the interpreter at the mount point, and their libraries.
pub(crate) fn make(bed: &Bed, tree: &Path, mount_point: &Path) -> Result<PathBuf, NotMeasured> {
    let (root, image) = (bed.path("container"), bed.path("container.sqfs"));
    let failed = |error| format!("cannot make a container: {error}");
    for directory in DIRECTORIES {
        fs::create_dir_all(root.join(directory)).map_err(failed)?;
    }
    for file in FILES {
        fs::write(root.join("etc").join(file), "").map_err(failed)?;
    }
    let interpreter = below(&root, mount_point);
    fs::create_dir_all(interpreter.parent().unwrap_or(&root)).map_err(failed)?;
    finish(bed.command("cp").arg("-a").arg(tree).arg(&interpreter))?;
    let mut programs = vec![PathBuf::from("/bin/true"), tree.join("bin/python3")];
    let modules = finish(bed.command("find").arg(tree).args(["-name", "*.so"]))?;
    programs.extend(String::from_utf8_lossy(&modules).lines().map(PathBuf::from));
    let mut files = libraries(bed, &programs)?;
    files.insert("/bin/true".into());
    for file in files {
        let copy = below(&root, &file);
        fs::create_dir_all(copy.parent().unwrap_or(&root)).map_err(failed)?;
        fs::copy(&file, &copy).map_err(failed)?;
    }
    make_squashfs(bed, &root, &image)
}

/// Returns the libraries of programs, as `ldd` finds them.
fn libraries(bed: &Bed, programs: &[PathBuf]) -> Result<BTreeSet<PathBuf>, NotMeasured> {
    let output = finish(bed.command("ldd").args(programs))?;
    let output = String::from_utf8_lossy(&output);
    let paths = output
        .lines()
        .filter(|line| line.starts_with('\t'))
        .filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    Ok(paths.map(PathBuf::from).collect())
}

fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}
