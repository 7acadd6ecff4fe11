// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images in a registry that follows the OCI distribution specification.
//!
//! This crate finds, pulls, pushes, copies and deletes them. It knows files and registries,
//! and no repository: what is pulled is handed to the caller, verified. HTTP, TLS and
//! passwords stay in here.

#![forbid(unsafe_code)]

mod credentials;

pub use credentials::{Credential, CredentialError, CredentialSources, Secret};
