// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What every command works with: what is configured, and the way out.

use std::ops::Deref;

use cabane_resolve::NamedRepository;
use cabane_site::Site;

use crate::args::GlobalArgs;
use crate::printer::Printer;
use crate::report::CommandResult;

/// What every command works with.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// The way out.
    pub(crate) printer: Printer,
    /// What is configured.
    pub(crate) site: Site,
}

impl Deref for Setup {
    type Target = Site;

    fn deref(&self) -> &Site {
        &self.site
    }
}

impl Setup {
    /// Reads variables and configuration files.
    ///
    /// # Errors
    ///
    /// As [`Site::new`].
    pub(crate) fn new(args: &GlobalArgs, printer: Printer) -> CommandResult<Self> {
        let program = std::env::current_exe().ok();
        let site = Site::new(&args.overrides(), std::env::vars_os().collect(), program)?;
        let printer = printer.with_setting(site.settings.color.value, args);
        Ok(Self { printer, site })
    }

    /// As [`Site::repositories`].
    pub(crate) fn repositories(&self) -> CommandResult<Vec<NamedRepository>> {
        self.site.repositories(&self.printer)
    }

    /// As [`Site::repository_to_write`].
    pub(crate) fn repository_to_write(&self) -> CommandResult<NamedRepository> {
        self.site.repository_to_write(&self.printer)
    }
}
