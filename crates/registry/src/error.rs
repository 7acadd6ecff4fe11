// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What can go wrong between here and a registry.
//!
//! No error holds a password, a token or the query of an address, which may be one. Texts of
//! registries are shown with their control characters escaped.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cabane_label::{Digest, escape, shown};
use cabane_report::{Kind, Report};

use crate::address::{Place, UnfitPart};
use crate::credentials::CredentialError;
use crate::key_error::KeyError;
use crate::proxy::ProxyError;
use crate::trust::TrustError;

/// An error of a registry, or of the way to it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The registry was not reached.
    #[error("cannot reach the registry {host}")]
    Unreachable {
        /// The host, and its port.
        host: String,
        /// Why not.
        source: io::Error,
    },
    /// The registry could not be authenticated.
    #[error("the certificate of {host} is not accepted: {}", escape(.reason))]
    Certificate {
        /// The host, and its port.
        host: String,
        /// Why not.
        reason: String,
    },
    /// What answers is not encrypted.
    #[error("{host} answers without encryption")]
    NoTls {
        /// The host, and its port.
        host: String,
    },
    /// Nothing came for a long time.
    #[error("the registry {host} has not answered for {} seconds", .after.as_secs())]
    Silent {
        /// The host, and its port.
        host: String,
        /// How long.
        after: Duration,
    },
    /// What came is not HTTP, or not that of a registry.
    #[error("{host} does not answer as a registry does: {}", escape(.reason))]
    NotARegistry {
        /// The host, and its port.
        host: String,
        /// What is odd.
        reason: String,
    },
    /// The registry wants to know who asks, or does not accept who does (401).
    #[error("{}", unauthorized(.host, .user.as_deref(), .details))]
    Unauthorized {
        /// The host, and its port.
        host: String,
        /// The user, if known.
        user: Option<String>,
        /// The registry's words.
        details: String,
    },
    /// Who asks may not do this (403).
    #[error("the registry {host} does not let {} {action}{}", who(.user.as_deref()), in_words(.details))]
    Forbidden {
        /// The host, and its port.
        host: String,
        /// What was tried, such as `read uenv/deploy/…`.
        action: String,
        /// The user, if known.
        user: Option<String>,
        /// The registry's words.
        details: String,
    },
    /// Another answer than what was hoped for.
    #[error("the registry {host} answers {status} to the attempt to {action}{}", in_words(.details))]
    Status {
        /// The host, and its port.
        host: String,
        /// What was tried.
        action: String,
        /// The number of the answer.
        status: u16,
        /// The registry's words.
        details: String,
    },
    /// The answer leads from an encrypted place to one that is not.
    #[error("the registry {host} sends us to {target}, which is not encrypted")]
    Downgrade {
        /// The host, and its port.
        host: String,
        /// The host that the answer names.
        target: String,
    },
    /// There is no such image.
    #[error("no image `{place}` in the registry {registry}")]
    NoSuchImage {
        /// The place of the image.
        place: Box<Place>,
        /// The registry.
        registry: String,
    },
    /// There is no such container image.
    #[error("{name} cannot be imported: {}", escape(.reason))]
    NoContainer {
        /// Its name.
        name: String,
        /// What is missing.
        reason: String,
    },
    /// A label that no registry can have.
    #[error(transparent)]
    Unfit(#[from] UnfitPart),
    /// What is there is no image of a kind that is known here.
    #[error("`{place}` is not an image that can be mounted: {}", escape(.reason))]
    NotAnImage {
        /// Its place.
        place: Box<Place>,
        /// Why not.
        reason: String,
    },
    /// What came is not what was announced.
    #[error("the registry {host} sent something else than {expected}: {found}")]
    WrongContent {
        /// The host, and its port.
        host: String,
        /// The digest that was requested.
        expected: String,
        /// What came.
        found: String,
    },
    /// A document cannot be understood.
    #[error("the registry {host} sent {what} that cannot be understood")]
    Document {
        /// The host, and its port.
        host: String,
        /// What kind of document.
        what: &'static str,
        /// Why not.
        source: serde_json::Error,
    },
    /// The label has another image.
    #[error("the label `{place}` belongs to the image {} in the registry", .digest.id())]
    LabelTaken {
        /// The place.
        place: Box<Place>,
        /// The image that has it.
        digest: Digest,
    },
    /// Another container image has the tag.
    #[error("`{name}` is another image already: sha256:{digest}")]
    TagTaken {
        /// The whole name.
        name: String,
        /// The digest of the other image.
        digest: Digest,
    },
    /// The registry does not delete.
    #[error("the registry {host} does not let anything be deleted{}", in_words(.details))]
    NoDeletion {
        /// The host, and its port.
        host: String,
        /// The registry's words.
        details: String,
    },
    /// The registry does not list what it has, and no one else does.
    #[error("the registry {host} does not tell which images it has")]
    NoListing {
        /// The host, and its port.
        host: String,
    },
    /// The image is not what it was when it was summed.
    #[error("{} has changed while it was pushed", shown(.path))]
    SourceChanged {
        /// The image.
        path: PathBuf,
    },
    /// The archive of the metadata cannot be unpacked.
    #[error("the metadata of `{place}` cannot be unpacked: {}", escape(.reason))]
    Metadata {
        /// Whose metadata.
        place: Box<Place>,
        /// Why not.
        reason: String,
    },
    /// A password could not be found out.
    #[error(transparent)]
    Credential(#[from] CredentialError),
    /// The certificates that the site names are none.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// A key for signatures cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The proxy cannot be used.
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    /// The settings do not make a connection.
    #[error("{}", escape(.reason))]
    Settings {
        /// What is wrong.
        reason: String,
    },
    /// The file system has no space for the image.
    #[error("no space left on the file system of {}: {need} bytes are needed", shown(.path))]
    NoSpace {
        /// Where the space is missing.
        path: PathBuf,
        /// How many bytes are needed.
        need: u64,
    },
    /// The registry says that a layer is larger than anything that is downloaded.
    #[error(
        "{name} cannot be downloaded: its layer {digest} has {size} bytes, and {limit} is the limit"
    )]
    TooLarge {
        /// The image.
        name: String,
        /// The layer.
        digest: String,
        /// Its size, as the registry says.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// The file system has no space for what the registry says that it will send.
    #[error(
        "{name} cannot be downloaded: its largest layer {digest} has {size} bytes, all of it needs \
         {needed} bytes, and {} has {free} bytes free", shown(.path)
    )]
    NoSpaceForLayers {
        /// The image.
        name: String,
        /// The largest layer.
        digest: String,
        /// Its size, as the registry says.
        size: u64,
        /// What is needed in all.
        needed: u64,
        /// What is free.
        free: u64,
        /// Where.
        path: PathBuf,
    },
    /// The file system refused something.
    #[error("cannot {action} {}", shown(.path))]
    Io {
        /// What was tried, such as `read`.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The answer of the file system.
        source: io::Error,
    },
}

impl Error {
    /// Returns what the user may type to get further, when there is such a thing.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unreachable { .. } | Self::Silent { .. } => Some(
                "`cabane config` shows which registry is asked, and `env | grep -i proxy` a proxy"
                    .to_owned(),
            ),
            Self::Certificate { .. } => Some(
                "a site's own authority is named by `ca` in `[registry]` of the configuration"
                    .to_owned(),
            ),
            Self::NoTls { host } => Some(format!(
                "`http://{host}/…` is its address, if you trust the network on the way"
            )),
            Self::Unauthorized { host, .. } => Some(format!(
                "log in with `podman login {host}` or `docker login {host}`, or use \
                 `--username NAME --token FILE`"
            )),
            Self::Forbidden { user: None, host, .. } => Some(format!(
                "no credentials for {host}: use `podman login {host}`, or `--username NAME --token FILE`"
            )),
            Self::Forbidden { .. } => {
                Some("ask the operators of the registry for access".to_owned())
            }
            Self::NoSuchImage { place, .. } => Some(format!(
                "`cabane image find '{}::{}@*'` lists what there is of that name",
                place.namespace, place.label.name
            )),
            Self::Unfit(part) => Some(part.hint()),
            Self::LabelTaken { .. } => {
                Some("`--force` gives the label to the new image".to_owned())
            }
            Self::TagTaken { .. } => Some("`--force` gives the tag to the new image".to_owned()),
            Self::NoDeletion { .. } => {
                Some("in the registry's own configuration deletion can be switched on".to_owned())
            }
            Self::NoListing { .. } => Some(
                "an image can be pulled by its full label: `name/version:tag@system%uarch`"
                    .to_owned(),
            ),
            Self::WrongContent { .. } => {
                Some("nothing was kept; the copy in the registry may be damaged".to_owned())
            }
            Self::TooLarge { .. } => {
                Some("the registry is wrong about the size; push the image again".to_owned())
            }
            Self::NoSpaceForLayers { .. } => Some(
                "free some space, for example with `cabane repo gc`, or name another repository \
                 with `--repo`"
                    .to_owned(),
            ),
            Self::SourceChanged { .. } => Some("try the same command again".to_owned()),
            Self::Credential(error) => error.hint(),
            Self::Trust(error) => error.hint(),
            Self::Key(error) => error.hint(),
            Self::Proxy(error) => Some(error.hint()),
            Self::Status { status: 429 | 500..=599, .. } => {
                Some("the registry has trouble or is busy; try again later".to_owned())
            }
            Self::Status { status: 413, .. } => {
                Some("something in front of the registry limits the size of uploads".to_owned())
            }
            _ => None,
        }
    }

    /// Returns whether the registry says that the same may succeed in a moment.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self, Self::Status { status, .. } if is_passing(*status))
    }

    /// Returns a function that turns an answer of the file system into an error.
    pub(crate) fn io<'a>(
        action: &'static str,
        path: &'a Path,
    ) -> impl FnOnce(io::Error) -> Self + 'a {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }
}

/// Returns whether the same request may succeed in a moment after such an answer.
pub(crate) fn is_passing(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500 | 502 | 503 | 504)
}

fn unauthorized(host: &str, user: Option<&str>, words: &str) -> String {
    let words = in_words(words);
    match user {
        Some(user) => {
            format!("the registry {host} does not accept the password of `{}`{words}", escape(user))
        }
        None => format!("the registry {host} wants to know who you are{words}"),
    }
}

fn who(user: Option<&str>) -> String {
    user.map_or("you".to_owned(), |user| format!("`{}`", escape(user)))
}

fn in_words(words: &str) -> String {
    if words.is_empty() { String::new() } else { format!(" ({})", escape(words)) }
}

impl From<Error> for Report {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::NoSuchImage { .. } | Error::NoContainer { .. } => Kind::NotFound,
            Error::Unfit(_)
            | Error::NotAnImage { .. }
            | Error::Metadata { .. }
            | Error::Key(_) => Kind::BadInput,
            Error::NoSpace { .. }
            | Error::NoSpaceForLayers { .. }
            | Error::LabelTaken { .. }
            | Error::TagTaken { .. }
            | Error::Io { .. }
            | Error::SourceChanged { .. }
            // What is wrong is here, and not in the registry.
            | Error::Credential(_)
            | Error::Trust(_)
            | Error::Proxy(_)
            | Error::Settings { .. } => Kind::Failure,
            _ => Kind::Registry,
        };
        let hint = error.hint();
        Self::new(kind, error).hinted(hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_registry_sends_does_not_reach_the_terminal() {
        let error = Error::Settings { reason: "a sum is \u{7}\u{1b}[2J".to_owned() };
        assert_eq!(error.to_string(), "a sum is \\u{7}\\u{1b}[2J");
    }
}
