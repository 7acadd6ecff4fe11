// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The configuration files of uenv.

use std::path::{Path, PathBuf};

use super::Variables;
use crate::env_vars;

const SITE: &str = "/etc/uenv";

/// Returns the file of the site and that of the user; they may not exist.
pub(super) fn files(variables: &Variables<'_>) -> [Option<PathBuf>; 2] {
    let named = variables.directory(env_vars::UENV_SYSTEM_CONFIG);
    let user = variables.below_home(env_vars::XDG_CONFIG_HOME, ".config");
    [
        Some(named.unwrap_or_else(|| file_in(Path::new(SITE)))),
        user.map(|directory| file_in(&directory.join("uenv"))),
    ]
}

/// Version 10 reads `config.toml`, and those before it `config`.
fn file_in(directory: &Path) -> PathBuf {
    let new = directory.join("config.toml");
    if new.exists() { new } else { directory.join("config") }
}
