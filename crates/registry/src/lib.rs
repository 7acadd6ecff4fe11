// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images in a registry that follows the OCI distribution specification.
//!
//! This crate finds, pulls, pushes, copies and deletes them. It knows files and registries,
//! and no repository: what is pulled is handed to the caller, verified. HTTP, TLS and
//! passwords stay in here.

#![forbid(unsafe_code)]

mod address;
mod catalog_cache;
mod chunks;
mod container;
mod container_push;
mod contents;
mod copy;
mod credentials;
mod document;
mod download;
mod entry;
mod error;
mod find;
mod http;
mod image;
mod index;
mod meta;
mod options;
mod paged;
mod parallel;
mod proxy;
mod push;
mod registry;
mod signature;
pub mod sum;
mod trust;
mod upload;

pub use address::{Address, AddressError, Place, UnfitPart};
pub use container::{ContainerName, ContainerNameError};
pub use container_push::{ContainerBlob, ContainerPush, PushedContainer};
pub use contents::Content;
pub use copy::{Copied, Deleted};
pub use credentials::{
    Credential, CredentialError, CredentialSources, GivenToken, Secret, TokenWarning,
};
pub use download::{Fetched, Progress};
pub use error::Error;
pub use find::{Listed, Listing, Wanted};
#[cfg(feature = "fuzzing")]
pub use http::answer_with;
pub use http::{RetryPolicy, give_to_collector, is_address_of_collector};
pub use image::RemoteImage;
pub use options::Options;
pub use proxy::{ProxyError, ProxySettings};
pub use push::{Format, PushRequest, Pushed};
pub use registry::Registry;
pub use signature::{
    Distrust, KeyError, KeyWarning, MAX_RECORD, PublicKey, SignatureRecord, Signatures, SigningKey,
};
pub use trust::TrustError;
