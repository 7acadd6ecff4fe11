// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The release manager: with which key, in whose name, and why.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use cabane_channel::MAX_REASON;
use cabane_registry::SigningKey;
use cabane_report::{Kind, Report, Result};
use cabane_signature_policy::signing_key;
use cabane_site::{Context, env_vars};

/// What was typed about the one who changes a channel.
#[derive(Clone, Debug)]
pub struct ManagerRequest {
    /// The private key.
    pub key: PathBuf,
    /// The name of the person; by default that of the user.
    pub by: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// For how long the document counts.
    pub lifetime: Duration,
}

/// A release manager.
#[derive(Debug)]
pub struct Manager {
    pub(crate) key: SigningKey,
    pub(crate) by: String,
    pub(crate) reason: Option<String>,
    pub(crate) lifetime: Duration,
}

impl ManagerRequest {
    /// Reads the key.
    ///
    /// # Errors
    ///
    /// A file that is no private key, or texts that are too long.
    pub fn manager(&self, context: &Context) -> Result<Manager> {
        let user = context.calling.get(OsStr::new(env_vars::USER));
        let user = || user.map_or_else(String::new, |user| user.to_string_lossy().into_owned());
        let by = self.by.clone().unwrap_or_else(user);
        let reason = self.reason.clone();
        if [Some(&by), reason.as_ref()].into_iter().flatten().any(|text| text.len() > MAX_REASON) {
            let message = format!("a name or a reason has more than {MAX_REASON} bytes");
            return Err(Report::new(Kind::Usage, message).hinted("shorten it".to_owned()));
        }
        let key = signing_key(context, &self.key)?;
        Ok(Manager { key, by, reason, lifetime: self.lifetime })
    }
}
