// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Programs and libraries that are compiled for a test.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::world::Finished;

/// Compiles a text of C to a program or, with `-shared`, to a library. Its directory is made.
///
/// # Panics
///
/// If the compiler is missing or fails.
pub fn compile<Argument: AsRef<OsStr>>(
    text: &str,
    output: &Path,
    options: impl IntoIterator<Item = Argument>,
) {
    let source = output.with_extension("c");
    make_directory_of(output);
    fs::write(&source, text).expect("write a source");
    Finished::of(compiler(&source, output).args(options)).success();
    fs::remove_file(source).expect("remove a source");
}

/// Prepares the compiler: a source, what becomes of it, and then options.
pub(crate) fn compiler(source: &Path, output: &Path) -> Command {
    make_directory_of(output);
    let mut command = Command::new("cc");
    command.arg("-w").arg(source).arg("-o").arg(output);
    command
}

fn make_directory_of(path: &Path) {
    fs::create_dir_all(path.parent().expect("a parent")).expect("make a directory");
}
