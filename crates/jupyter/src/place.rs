// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The directories in which Jupyter looks for kernels.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use cabane_report::{Kind, Report, Result};
use cabane_site::{Context, env_vars};

/// Which directory a kernel is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// That of the user.
    User,
    /// That of the active environment of Python.
    SysPrefix,
    /// That below a prefix, such as `/usr/local`.
    Prefix(PathBuf),
}

/// The data of Jupyter below a prefix.
const BELOW_PREFIX: &str = "share/jupyter";
/// Prefixes in which every Jupyter looks.
const SYSTEM_PREFIXES: [&str; 2] = ["/usr/local", "/usr"];

impl Place {
    /// Returns the directory that has a directory for each kernel.
    ///
    /// # Errors
    ///
    /// There is no home directory, or no active environment of Python.
    pub(crate) fn kernels(&self, context: &Context) -> Result<PathBuf> {
        let data = match self {
            Self::User => data_directory(context).ok_or_else(no_home)?,
            Self::SysPrefix => active_prefix(context).ok_or_else(no_prefix)?.join(BELOW_PREFIX),
            Self::Prefix(prefix) => std::path::absolute(prefix)
                .map_err(|error| Report::caused(Kind::Failure, "cannot find the prefix", error))?
                .join(BELOW_PREFIX),
        };
        Ok(data.join("kernels"))
    }
}

/// Returns all directories in which Jupyter looks for kernels, in its order.
pub(crate) fn all_kernels(context: &Context) -> Vec<PathBuf> {
    let path = value(context, env_vars::JUPYTER_PATH);
    let named = path.iter().flat_map(std::env::split_paths).filter(|path| path.is_absolute());
    let mut data: Vec<PathBuf> = named.collect();
    data.extend(data_directory(context));
    data.extend(active_prefix(context).map(|prefix| prefix.join(BELOW_PREFIX)));
    data.extend(SYSTEM_PREFIXES.map(|prefix| Path::new(prefix).join(BELOW_PREFIX)));
    let mut kernels: Vec<PathBuf> = Vec::new();
    for directory in data {
        let directory = directory.join("kernels");
        if !kernels.contains(&directory) {
            kernels.push(directory);
        }
    }
    kernels
}

/// Returns the directory of connection files.
pub(crate) fn runtime_directory(context: &Context) -> Option<PathBuf> {
    directory(context, env_vars::JUPYTER_RUNTIME_DIR)
        .or_else(|| Some(data_directory(context)?.join("runtime")))
}

/// Returns the home directory.
pub(crate) fn home(context: &Context) -> Option<PathBuf> {
    directory(context, env_vars::HOME)
}

/// Returns the data directory of Jupyter for the user.
fn data_directory(context: &Context) -> Option<PathBuf> {
    directory(context, env_vars::JUPYTER_DATA_DIR)
        .or_else(|| Some(directory(context, env_vars::XDG_DATA_HOME)?.join("jupyter")))
        .or_else(|| Some(home(context)?.join(".local/share/jupyter")))
}

/// Returns the prefix of the active environment of Python.
fn active_prefix(context: &Context) -> Option<PathBuf> {
    directory(context, env_vars::VIRTUAL_ENV).or_else(|| directory(context, env_vars::CONDA_PREFIX))
}

fn directory(context: &Context, variable: &str) -> Option<PathBuf> {
    value(context, variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

fn value<'a>(context: &'a Context, variable: &str) -> Option<&'a OsStr> {
    let value = context.calling.get(OsStr::new(variable)).map(AsRef::as_ref);
    value.filter(|value: &&OsStr| !value.is_empty())
}

fn no_home() -> Report {
    Report::new(Kind::Failure, "cannot find your Jupyter directory: `HOME` is not set")
        .hinted("name a directory with `--prefix DIRECTORY`".to_owned())
}

fn no_prefix() -> Report {
    Report::new(
        Kind::Usage,
        "`--sys-prefix` needs an active Python environment, but none is active",
    )
    .hinted(
        "activate it, or use `--prefix \"$(python -c 'import sys; print(sys.prefix)')\"`"
            .to_owned(),
    )
}
