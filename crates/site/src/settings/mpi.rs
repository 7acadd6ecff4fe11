// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The MPIs of this machine that may take the place of others.

use std::path::PathBuf;

use cabane_report::Result;

use super::{Layers, Origin};

/// An MPI that a configuration file names.
#[derive(Clone, Debug)]
pub struct MpiSetting {
    /// What it is called.
    pub name: String,
    /// Its prefix, or its library.
    pub prefix: PathBuf,
    /// Directories with libraries that it needs, such as those of the fabric.
    pub libraries: Vec<PathBuf>,
    /// Plug-ins that it gets: files, and directories of files.
    pub plugins: Vec<PathBuf>,
    /// The command that starts its ranks, if it is not its own launcher.
    pub launcher: Vec<String>,
    /// Where this comes from.
    pub origin: Origin,
}

impl Layers<'_> {
    /// Those of the user come first, and replace those of the site with the same name.
    pub(super) fn mpi(&self) -> Result<Vec<MpiSetting>> {
        let mut all: Vec<MpiSetting> = Vec::new();
        for (path, settings) in self.files.iter().rev() {
            let origin = Origin::File(path.clone());
            for one in &settings.mpi {
                if all.iter().any(|known| known.name == one.name) {
                    continue;
                }
                let resolve = |path| self.variables.resolve(path, &origin);
                let libraries = one.libraries.iter().map(resolve);
                let plugins = one.plugins.iter().map(resolve);
                all.push(MpiSetting {
                    name: one.name.clone(),
                    prefix: resolve(&one.prefix)?,
                    libraries: libraries.collect::<Result<_>>()?,
                    plugins: plugins.collect::<Result<_>>()?,
                    launcher: one.launcher.clone(),
                    origin: origin.clone(),
                });
            }
        }
        Ok(all)
    }
}
