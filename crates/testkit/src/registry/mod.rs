// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Registries for tests: Debian's real one, one that misbehaves as a test likes, and a proxy.
//!
//! ```text
//! RealRegistry       the program `docker-registry` on this machine, with files of the test
//! Nginx              the program `nginx` in front of one
//! HostileRegistry    in this process and in memory
//!   api, uploads       requests and answers
//!   store              blobs, manifests, tags
//!   access             passwords and tokens
//!   fault              what goes wrong, and when
//!   connection, http   bytes on the wire
//! ```

mod access;
mod api;
mod certificate;
#[cfg(test)]
mod clients;
mod connection;
mod fault;
mod hostile;
mod http;
mod listing;
mod nginx;
mod real;
mod store;
#[cfg(test)]
mod tests;
mod uploads;

pub use access::Bearer;
pub use fault::{Fault, When};
pub use hostile::{HostileRegistry, Settings};
pub use http::Request;
pub use nginx::Nginx;
pub use real::{RealRegistry, RealRegistryOptions};
pub use store::digest_of;
