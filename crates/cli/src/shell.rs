// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The login shell of the user.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;

use cabane_run::login_shell;
use cabane_site::env_vars;

use crate::setup::Setup;

/// Returns the login shell of the user.
pub(crate) fn shell(setup: &Setup) -> PathBuf {
    let variable = setup.calling.get(OsStr::new(env_vars::SHELL)).map(AsRef::as_ref);
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    login_shell(variable, rustix::process::getuid().as_raw(), &passwd)
}
