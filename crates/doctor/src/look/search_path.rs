// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What `PATH` holds under our names.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use cabane_site::settings::{find_program, find_programs};

use super::QUICK;
use crate::facts::{Answer, OwnNames};
use crate::probe::within;

/// Looks for different programs `cabane`, and for `uenv` with whether it is this
/// program.
pub(crate) fn look_at_path(path: Option<&OsStr>) -> Answer<OwnNames> {
    let this = std::env::current_exe().ok();
    within(QUICK, || {
        let mut different: Vec<(PathBuf, PathBuf)> = Vec::new();
        for command in find_programs("cabane", path) {
            let file = real(&command);
            if !different.iter().any(|(_, known)| *known == file) {
                different.push((command, file));
            }
        }
        let uenv = find_program("uenv", path).map(|uenv| {
            let is_this = this.as_deref().is_some_and(|this| real(this) == real(&uenv));
            (uenv.to_string_lossy().into_owned(), is_this)
        });
        let shown = |(command, _): (PathBuf, PathBuf)| command.to_string_lossy().into_owned();
        OwnNames { commands: different.into_iter().map(shown).collect(), uenv }
    })
}

fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}
