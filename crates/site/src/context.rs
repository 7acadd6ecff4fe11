// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What an engine works with.

use std::fmt::{self, Display};
use std::ops::Deref;
use std::sync::Arc;

use cabane_report::{Notices, Result, Transfer};
use cabane_resolve::NamedRepository;

use crate::Site;

/// What an engine works with: what is configured, and where it says what it notices.
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
    /// Puts both together.
    pub fn new(site: Site, notices: Arc<dyn Notices>) -> Self {
        Self { site, notices }
    }

    /// Says what may be wrong.
    pub fn warning(&self, text: impl Display) {
        self.notices.warning(&text.to_string());
    }

    /// Says what the user can do about a warning.
    pub fn hint(&self, text: impl Display) {
        self.notices.hint(&text.to_string());
    }

    /// Says what was done.
    pub fn note(&self, text: impl Display) {
        self.notices.note(&text.to_string());
    }

    /// Says what only those want to know who look closer.
    pub fn detail(&self, text: impl Display) {
        self.notices.detail(&text.to_string());
    }

    /// Begins to show how a transfer goes on.
    pub fn transfer(&self, what: &str) -> Box<dyn Transfer> {
        self.notices.transfer(what)
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
