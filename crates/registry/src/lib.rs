// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images in a registry that follows the OCI distribution specification.
//!
//! This crate finds, pulls, pushes, copies and deletes them. It knows files and registries,
//! and no repository: what is pulled is given to the caller, verified. HTTP, TLS and
//! passwords stay in here.

#![forbid(unsafe_code)]

mod address;
mod attestation;
mod catalog_cache;
mod channel;
mod chunks;
mod comparison;
mod container;
mod container_push;
mod contents;
mod copy;
mod credentials;
mod document;
mod download;
mod entry;
mod error;
mod files;
mod find;
mod http;
mod image;
mod index;
mod log;
mod meta;
mod mirror;
mod options;
mod paged;
mod parallel;
mod proxy;
mod push;
mod registry;
mod report;
mod retry_policy;
mod service_list;
mod signature;
pub mod sum;
mod trust;
mod upload;

pub use address::{Address, Place};
pub use attestation::{Attestation, Attestations, MAX_BUNDLE};
pub use channel::ChannelPlace;
pub use chunks::Format;
pub use comparison::{Comparison, Difference};
pub use container::ContainerName;
pub use container_push::{ContainerBlob, ContainerPush, PushedContainer};
pub use contents::{Content, MetaFiles};
pub use copy::{Copied, Deleted};
pub use credentials::{Credential, CredentialSources, Secret};
pub use download::Fetched;
pub(crate) use error::Result;
pub use error::{Error, ErrorKind};
pub use files::{KeptBadly, write_at_once, write_at_once_with_umask};
pub use find::{Listing, Wanted};
#[cfg(feature = "fuzzing")]
pub use http::answer_with;
pub use http::{
    Backing, BackingAnswer, BackingBody, BackingRequest, BaseImage, give_to_collector,
    is_address_of_collector,
};
pub use image::{Listed, RemoteImage};
pub use log::LogEntry;
pub use mirror::Mirrored;
pub use options::Options;
pub use parallel::each_of;
pub use proxy::ProxySettings;
pub use push::{PushRequest, Pushed, manifest_of};
pub use registry::Registry;
pub use report::{AttachedReport, MAX_REPORT, ReportKind};
pub use retry_policy::RetryPolicy;
pub use service_list::service_list;
pub use signature::{
    Distrust, Envelope, MAX_RECORD, PublicKey, SignatureRecord, Signatures, SigningKey, Statement,
};
pub use sum::Progress;
