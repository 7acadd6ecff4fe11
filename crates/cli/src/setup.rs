// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What every command works with: what is configured, and the way out.

use std::ffi::OsString;
use std::ops::Deref;
use std::sync::Arc;

use cabane_site::settings::Origin;
use cabane_site::{Context, Site};

use crate::args::GlobalArgs;
use crate::printer::Printer;
use crate::report::{CommandResult, IoContext as _};

/// What every command works with.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// The way out.
    pub(crate) printer: Printer,
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
    pub(crate) fn new(args: &GlobalArgs, printer: Printer) -> CommandResult<Self> {
        let program = std::env::current_exe().ok();
        let site = Site::new(&args.overrides(), std::env::vars_os().collect(), program)?;
        let printer = printer.with_setting(site.settings.color.value, args);
        let context = Context::new(site, Arc::new(printer));
        Ok(Self { printer, context })
    }

    /// Returns this program and the options that decide how it prints.
    pub(crate) fn own_program(&self) -> CommandResult<Vec<OsString>> {
        let program = std::env::current_exe().or_failed(|| "find this program".to_owned())?;
        let color = format!("--color={}", self.printer.color_option());
        Ok(vec![program.into_os_string(), color.into()])
    }

    /// Returns what was typed before the command about repositories, system and backend, as
    /// options.
    pub(crate) fn typed_options(&self) -> Vec<OsString> {
        let is_typed = |origin: &Origin| matches!(origin, Origin::Option(_));
        let settings = &self.settings;
        let mut options = Vec::new();
        let repositories = settings.repositories.iter();
        let named: Vec<String> = repositories
            .filter(|one| is_typed(&one.origin))
            .map(|one| format!("{}={}", one.name, one.path.display()))
            .collect();
        if !named.is_empty() {
            options.push(format!("--repo={}", named.join(",")).into());
        }
        if is_typed(&settings.system.origin) {
            let system = settings.system.value.as_ref();
            let name = system.map_or_else(|| "*".to_owned(), ToString::to_string);
            options.push(format!("--system={name}").into());
        }
        if is_typed(&settings.backend.origin) {
            options.push(format!("--backend={}", settings.backend.value).into());
        }
        options
    }
}
