// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What builds leave in the cache directory for the next ones: listing, limiting,
//! checking, and sharing it.
//!
//! ```text
//! <cache>/in-use.lock         held by each build, and alone by what removes something
//! <cache>/git/ID/             clones of Spack and of its packages
//! <cache>/trees/COMMIT/       the files of a commit
//! <cache>/archives/ID         Spack or its packages as archives
//! <cache>/spack/packages/+MOUNT-POINT/   packages, as Spack's build caches hold them
//! <cache>/spack/concretized/DIGEST.lock  decisions of the concretizer
//! <cache>/spack/solutions/ID/            answers of the solver
//! <cache>/spack/archives/     sources of packages
//! <cache>/spack/index/ID/, spack/bytecode/   what Spack works out about its packages
//! <cache>/workers/            what the workers of builds on several nodes need
//! <cache>/tools/uv-VERSION/   a version of uv
//! <cache>/uv/                 downloads of Python packages
//! ```
//!
//! The time at which a file or a directory was changed says when a build used it last:
//! builds set it. A build that only reads a cache of others cannot, and need not.

mod clear;
mod in_use;
mod inventory;
mod packages;
mod push;
mod signatures;
mod verify;

use std::fs::File;
use std::path::Path;
use std::time::SystemTime;

pub use clear::{Cleared, Limits, clear};
pub use inventory::{CachedItem, Inventory, ItemKind, inventory};
pub use packages::NotRemoved;
pub use push::{PushCache, Pushed, push};
pub use signatures::{PackageKeys, PackageSigner};
pub use verify::{Damage, Untrusted, Verified, verify};

pub use in_use::InUse;
pub(crate) use packages::{DIRECTORY as PACKAGES, LARGEST as LARGEST_MANIFEST};
pub(crate) use signatures::{check as check_signature, read_plain};

/// The directories of workers, below the cache directory.
pub(crate) const WORKERS: &str = "workers";

/// Notes that a build uses something. What cannot be noted is no failure: the cache may
/// belong to others.
pub(crate) fn note_use(path: &Path) {
    let _ = File::open(path).and_then(|file| file.set_modified(SystemTime::now()));
}
