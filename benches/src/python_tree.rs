// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A tree with a whole Python interpreter, which runs from wherever it is.

use std::fs;
use std::path::{Path, PathBuf};

use crate::bed::Bed;
use crate::measure::{NotMeasured, finish};
use crate::peers;
use crate::rebuild::PASSED_ON;

/// What of a standard library no program needs; some of it is large.
const LEFT_OUT: [&str; 7] =
    ["__pycache__", "test", "idlelib", "tkinter", "ensurepip", "dist-packages", "site-packages"];

const ASK: &str = "import os, sys, sysconfig
print(os.path.realpath(sys.executable), sysconfig.get_path('stdlib'), sep='\\n')";

/// Compiles everything. The compiled files hold no times, because those of the
/// sources change when an image is made.
const COMPILE: [&str; 6] =
    ["-m", "compileall", "-q", "-f", "--invalidation-mode", "unchecked-hash"];

/// Copies the interpreter and its library into a tree and adds metadata.
pub(crate) fn make(bed: &Bed, mount_point: &Path) -> Result<PathBuf, NotMeasured> {
    let tree = bed.path("tree");
    let output = finish(bed.command(peers::PYTHON.find()?).args(["-I", "-c", ASK]))?;
    let output = String::from_utf8_lossy(&output);
    let mut lines = output.lines().map(PathBuf::from);
    let (Some(program), Some(library)) = (lines.next(), lines.next()) else {
        return Err("python does not tell where it is".to_owned());
    };
    let name = library.file_name().ok_or("python has no library")?;
    let failed = |error| format!("cannot copy python: {error}");
    fs::create_dir_all(tree.join("bin")).map_err(failed)?;
    fs::create_dir_all(tree.join("lib")).map_err(failed)?;
    let copy = tree.join("bin/python3");
    fs::copy(&program, &copy).map_err(failed)?;
    copy_library(&library, &tree.join("lib").join(name)).map_err(failed)?;
    finish(bed.command(&copy).args(COMPILE).arg(tree.join("lib")))?;
    check(bed, &copy, &tree)?;
    write_meta(&tree, mount_point).map_err(|error| format!("cannot write metadata: {error}"))?;
    Ok(tree)
}

/// Copies the tree and puts numpy into the library of its interpreter.
pub(crate) fn with_numpy(bed: &Bed, plain: &Path) -> Result<PathBuf, NotMeasured> {
    let tree = bed.path("tree-numpy");
    finish(bed.command("cp").arg("-a").arg(plain).arg(&tree))?;
    let python = tree.join("bin/python3");
    let output = finish(
        bed.command(&python).args(["-c", "import os; print(os.path.dirname(os.__file__))"]),
    )?;
    let library = PathBuf::from(String::from_utf8_lossy(&output).trim());
    let mut install = bed.command(peers::UV.find()?);
    for name in PASSED_ON {
        if let Some(value) = std::env::var_os(name) {
            install.env(name, value);
        }
    }
    install.args(["pip", "install", "--quiet", "--no-config", "--link-mode", "copy"]);
    install.args(["--only-binary", ":all:", "--python"]).arg(&python);
    finish(install.arg("--target").arg(&library).arg("numpy"))?;
    finish(bed.command(&python).args(COMPILE).arg(library.join("numpy")))?;
    Ok(tree)
}

/// Copies a directory; links to files become files.
fn copy_library(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        if LEFT_OUT.iter().any(|left_out| name == *left_out) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            copy_library(&path, &to.join(name))?;
        } else if path.is_file() {
            fs::copy(&path, to.join(name))?;
        }
    }
    Ok(())
}

/// Makes sure that the copy uses its own library and not that of the system.
fn check(bed: &Bed, copy: &Path, tree: &Path) -> Result<(), NotMeasured> {
    let output = finish(bed.command(copy).args(["-c", "import os; print(os.__file__)"]))?;
    let is_own = String::from_utf8_lossy(&output).starts_with(&*tree.to_string_lossy());
    is_own.then_some(()).ok_or("this python does not run from another place".to_owned())
}

fn write_meta(tree: &Path, mount_point: &Path) -> std::io::Result<()> {
    let mount = mount_point.display();
    let text = format!(
        r#"{{"name": "bench", "description": "an interpreter to be measured", "mount": "{mount}",
 "default-view": "default",
 "views": {{"default": {{"description": "the interpreter", "root": "{mount}", "activate": "/dev/null",
  "env": {{"version": 1, "values": {{
   "list": {{"PATH": [{{"op": "prepend", "value": ["{mount}/bin"]}}]}},
   "scalar": {{"CABANE_BENCH_INSIDE": "1"}}}}}}}}}}}}
"#
    );
    fs::create_dir_all(tree.join("meta"))?;
    fs::write(tree.join("meta/env.json"), text)
}
