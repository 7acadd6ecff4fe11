// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What every command works with: the configuration and the printer.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use cabane_process::installation;
use cabane_report::Result;
use cabane_run::login_shell;
use cabane_site::settings::Overrides;
use cabane_site::{Context, Site, env_vars};

use crate::args::GlobalArgs;
use crate::printer::Printer;

/// What every command works with.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// The only way to print.
    pub(crate) printer: Printer,
    /// The system that was named, or the directory of its configuration.
    pub(crate) named_system: Option<PathBuf>,
    context: Context,
}

impl Deref for Setup {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.context
    }
}

impl Setup {
    /// Reads variables and configuration files.
    ///
    /// # Errors
    ///
    /// As [`Site::new`].
    pub(crate) fn new(args: &GlobalArgs, printer: Printer) -> Result<Self> {
        Self::with_overrides(args, &args.overrides(), printer)
    }

    /// Does the same for a command that also takes the directory of a system's configuration.
    ///
    /// # Errors
    ///
    /// As [`Site::new`].
    pub(crate) fn for_recipes(args: &GlobalArgs, printer: Printer) -> Result<Self> {
        Self::with_overrides(args, &args.overrides_for_recipes(), printer)
    }

    fn with_overrides(args: &GlobalArgs, typed: &Overrides, printer: Printer) -> Result<Self> {
        let calling: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
        if let Some(path) = calling.get(OsStr::new(env_vars::PATH)) {
            installation::search_in(path);
        }
        let site = Self::site(typed, calling)?;
        let printer = args.configured(printer, site.settings.color.value);
        Ok(Self { named_system: args.system.clone(), ..Self::of(site, printer) })
    }

    /// Reads configuration files, with these variables.
    ///
    /// # Errors
    ///
    /// As [`Site::new`].
    pub(crate) fn site(
        overrides: &Overrides,
        calling: BTreeMap<OsString, OsString>,
    ) -> Result<Site> {
        Site::new(overrides, calling, std::env::current_exe().ok())
    }

    /// Combines the configuration and the printer.
    pub(crate) fn of(site: Site, printer: Printer) -> Self {
        let context = Context::new(site, Arc::new(printer));
        Self { printer, named_system: None, context }
    }

    /// Returns the login shell of the user.
    pub(crate) fn shell(&self) -> PathBuf {
        let variable = self.calling.get(OsStr::new(env_vars::SHELL)).map(AsRef::as_ref);
        let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
        login_shell(variable, rustix::process::getuid().as_raw(), &passwd)
    }
}
