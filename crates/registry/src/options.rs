// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! How to reach a registry.

use std::path::PathBuf;

use crate::credentials::CredentialSources;
use crate::proxy::ProxySettings;
use crate::retry_policy::RetryPolicy;

/// How to reach a registry, and who asks.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where passwords are found.
    pub credentials: CredentialSources,
    /// A file of certificates that are trusted beside those of the system.
    pub authorities: Option<PathBuf>,
    /// Proxies.
    pub proxy: ProxySettings,
    /// How long to wait, and how often to try again.
    pub retry_policy: RetryPolicy,
    /// How many parts of an image are got at once.
    pub streams: usize,
    /// Hosts, with a port if it is not the usual one, that may get the password for a registry because they
    /// issue tokens for it.
    pub token_services: Vec<String>,
    /// Where a service lists the images, if [`Listing::Auto`](crate::Listing) asks that.
    pub listing_url: Option<String>,
    /// The name of the user, for the log of the registry. Without one nothing is logged.
    pub actor: Option<String>,
    /// A directory in which lists of images are kept for the next time.
    pub cache: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            credentials: CredentialSources::default(),
            authorities: None,
            proxy: ProxySettings::default(),
            retry_policy: RetryPolicy::default(),
            streams: 4,
            token_services: Vec::new(),
            listing_url: None,
            actor: None,
            cache: None,
        }
    }
}
