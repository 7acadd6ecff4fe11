// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The part of `config.toml` about the registry.

use cabane_label::Namespace;

use super::PathTemplate;
use super::read::{above, path_template};
use crate::ask::Section;
use crate::diagnostic::quote;
use crate::report::Report;

pub(super) const KEYS: &[&str] = &["url", "namespace", "ca", "username", "token", "listing"];

/// The registry in which images are shared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegistrySettings {
    /// Where it is, as it was written.
    pub url: Option<String>,
    /// The part of it that is meant when none is named.
    pub namespace: Option<Namespace>,
    /// Certificates that are trusted beside those of the system.
    pub ca: Option<PathTemplate>,
    /// Who asks, where a token says so.
    pub username: Option<String>,
    /// A file with a token.
    pub token: Option<PathTemplate>,
    /// Who is asked which images there are.
    pub listing: Option<ListingChoice>,
}

/// Who is asked which images there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListingChoice {
    /// The registry, and the index where it does not tell.
    Auto,
    /// The registry.
    Catalog,
    /// The index.
    Index,
}

impl RegistrySettings {
    pub(super) fn merge(lower: Self, higher: Self) -> Self {
        // Another registry has other certificates, and other people.
        let lower = match higher.url {
            Some(_) => Self::default(),
            None => lower,
        };
        Self {
            url: higher.url.or(lower.url),
            namespace: higher.namespace.or(lower.namespace),
            ca: higher.ca.or(lower.ca),
            username: higher.username.or(lower.username),
            token: higher.token.or(lower.token),
            listing: higher.listing.or(lower.listing),
        }
    }
}

pub(super) fn read(report: &mut Report<'_>, section: &Section<'_>) -> RegistrySettings {
    section.refuse_unknown(report, KEYS, above);
    let listings = [
        ("auto", ListingChoice::Auto),
        ("catalog", ListingChoice::Catalog),
        ("index", ListingChoice::Index),
    ];
    let url = section.get("url").and_then(|field| {
        let text = report.text(&field)?;
        let is_right =
            !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c.is_control());
        if !is_right {
            let message = format!("{} is not the address of a registry", quote(text));
            let hint = "write one such as `url = \"https://registry.example.org/uenv\"`";
            report.problem_with_hint(field.place(), &message, hint);
        }
        is_right.then(|| text.to_owned())
    });
    RegistrySettings {
        url,
        namespace: section
            .get("namespace")
            .and_then(|field| report.word(&field)),
        ca: section
            .get("ca")
            .and_then(|field| path_template(report, &field)),
        username: section
            .get("username")
            .and_then(|field| report.text(&field).map(str::to_owned)),
        token: section
            .get("token")
            .and_then(|field| path_template(report, &field)),
        listing: section
            .get("listing")
            .and_then(|field| report.choice(&field, &listings)),
    }
}
