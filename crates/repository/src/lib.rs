// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Repositories: images under labels in a local directory.
//!
//! A repository is made of plain files, so that it can live on any file system, be shared by
//! several hosts and be understood with `ls`; [`Repository`] draws the tree. Readers take no
//! lock. Writers may be killed at any instant: what they leave behind has a temporary name,
//! and the next writer sweeps it.
//!
//! This crate knows nothing about which image a user means and nothing about mounting.

#![forbid(unsafe_code)]

mod access;
mod add;
mod add_metadata;
mod add_verified;
mod assembly;
mod bases;
mod chunks;
mod corruption;
mod deduplicate;
mod disk;
mod error;
mod evidence;
mod follow;
mod format;
pub mod groups;
mod heartbeat;
mod import;
mod in_use;
mod incoming;
mod index;
mod layout;
mod listing;
mod lock;
mod locks;
mod meta_copy;
mod migrate;
mod packs;
mod parts;
mod pins;
mod queue;
mod record;
mod references;
mod removal;
mod remove;
mod repository;
mod retention;
mod search;
mod signatures;
mod staging;
mod status;
mod sum;
mod sweep;
mod transfer;
mod tree;
mod uenv;
mod uenv_lock;
mod update;
mod writer;

pub use access::Access;
pub use add::{AddRequest, Added};
pub use add_verified::VerifiedRequest;
pub use corruption::Corruption;
pub use deduplicate::{Deduplicated, Stored};
pub use error::{Error, ImageError};
pub use follow::{Followed, FollowedName, FollowedNames, Release};
pub use format::ImageFormat;
pub use heartbeat::KeepAlive;
pub use incoming::Incoming;
pub use layout::Kind;
pub use migrate::{Migrated, Migration, MigrationProgress};
pub use queue::{Claim, Queue};
pub use record::Record;
pub use removal::Cleared;
pub use remove::Removed;
pub use repository::Repository;
pub use retention::{Fate, Kept, Limits, Reason, Retention, Verdict};
pub use signatures::signatures_beside;
pub use status::Status;
pub use transfer::Transfer;
pub use update::Repaired;
