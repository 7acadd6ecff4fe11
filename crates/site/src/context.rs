// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What an engine works with.

use std::ffi::OsString;
use std::fmt::{self, Display};
use std::ops::Deref;
use std::sync::Arc;

use cabane_report::{Kind, Notices, Report, Result, Transfer};
use cabane_resolve::NamedRepository;

use crate::Site;

/// What an engine works with: the configuration, and the receiver of its notices.
#[derive(Clone)]
pub struct Context {
    site: Site,
    notices: Arc<dyn Notices>,
}

impl Deref for Context {
    type Target = Site;

    fn deref(&self) -> &Site {
        &self.site
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.site.fmt(f)
    }
}

impl Context {
    /// Combines both.
    pub fn new(site: Site, notices: Arc<dyn Notices>) -> Self {
        Self { site, notices }
    }

    /// Reports a possible problem.
    pub fn warning(&self, text: impl Display) {
        self.notices.warning(&text.to_string());
    }

    /// Suggests what to do about a warning.
    pub fn hint(&self, text: impl Display) {
        self.notices.hint(&text.to_string());
    }

    /// Reports what was done.
    pub fn note(&self, text: impl Display) {
        self.notices.note(&text.to_string());
    }

    /// Reports a detail, shown with `--verbose`.
    pub fn detail(&self, text: impl Display) {
        self.notices.detail(&text.to_string());
    }

    /// Returns whether details are shown.
    pub fn is_verbose(&self) -> bool {
        self.notices.is_verbose()
    }

    /// Returns this program, and the option that makes it color its output in the same way.
    ///
    /// # Errors
    ///
    /// The system does not say where the program is.
    pub fn own_program(&self) -> Result<Vec<OsString>> {
        let missing = || Report::new(Kind::Failure, "cannot find the file of this program");
        let program = self.site.program().ok_or_else(missing)?;
        Ok(vec![program.into(), self.notices.color_option().into()])
    }

    /// Starts a progress display with a title, of bytes.
    pub fn transfer(&self, what: &str) -> Box<dyn Transfer> {
        self.notices.transfer(what)
    }

    /// Starts a progress display with a title, of things that are counted.
    pub fn counted(&self, what: &str) -> Box<dyn Transfer> {
        self.notices.counted(what)
    }

    /// As [`Site::repositories`].
    ///
    /// # Errors
    ///
    /// The same.
    pub fn repositories(&self) -> Result<Vec<NamedRepository>> {
        self.site.repositories(&*self.notices)
    }

    /// As [`Site::repository_to_write`].
    ///
    /// # Errors
    ///
    /// The same.
    pub fn repository_to_write(&self) -> Result<NamedRepository> {
        self.site.repository_to_write(&*self.notices)
    }
}
