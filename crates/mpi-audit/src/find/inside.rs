// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Installations in images: someone else knows how to get in.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::{Ended, Runner};
use crate::{Installation, Origin};

/// Says what is in `PATH`, in lines with a mark: others may say something, too.
const QUESTION: &str = "\
for name in mpicc; do path=$(command -v $name) && echo \"cabane-wrapper $path\" && stat -L -c 'cabane-file %d:%i' \"$path\" && break; done
for name in mpiexec mpirun; do path=$(command -v $name) && echo \"cabane-launcher $path\" && break; done
true";

/// Looks for an installation behind these arguments, such as `cabane run IMAGE --`, with the
/// variables that they need.
///
/// `None` if there is no compiler wrapper but that of the host; an error is how an attempt to enter it ended.
pub fn inside(
    runner: &Runner,
    name: &str,
    enter: &[OsString],
    variables: BTreeMap<String, String>,
) -> Result<Option<Installation>, Box<Ended>> {
    let Some((first, others)) = enter.split_first() else {
        return Ok(None);
    };
    let mut command = Command::new(first);
    command.args(others).args(["/bin/sh", "-c", QUESTION]);
    command.envs(&variables);
    let ended = runner.run(&mut command);
    if ended.code != Some(0) {
        return Err(Box::new(ended));
    }
    let path_after = |mark: &str| {
        let mut lines = ended.output.lines();
        lines.find_map(|line| Some(PathBuf::from(line.strip_prefix(mark)?)))
    };
    let Some(wrapper) = path_after("cabane-wrapper ") else {
        return Ok(None);
    };
    let file = ended.output.lines().find_map(|line| line.strip_prefix("cabane-file "));
    if file.is_some_and(|file| is_of_the_host(&wrapper, file)) {
        return Ok(None);
    }
    let mut one = Installation::new(name, Origin::Image(name.to_owned()));
    one.wrapper = Some(wrapper);
    one.launcher = path_after("cabane-launcher ");
    one.enter = enter.to_vec();
    one.variables = variables;
    Ok(Some(one))
}

/// Whether what is called by this path inside is what is called so outside: most images
/// leave the programs of the host where they are.
fn is_of_the_host(wrapper: &Path, file: &str) -> bool {
    let same = |data: fs::Metadata| format!("{}:{}", data.dev(), data.ino()) == file;
    fs::metadata(wrapper).is_ok_and(same)
}
