// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The ways to mount.

use std::fmt;
use std::fs;

use cabane_privileged::operations::{enter_own_namespace, make_slave};
use cabane_sys::namespace;
use rustix::process::geteuid;
use rustix::thread::CapabilitySet;

use crate::Error;

/// The identity map of the initial user namespace, as `/proc/self/uid_map` has it.
const WHOLE_MAP: [&str; 3] = ["0", "0", "4294967295"];

/// The ways to mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// As root: a mount namespace, and the kernel's own file systems.
    Root,
    /// Through the set-uid helper: the kernel's own file systems, for users.
    Helper,
    /// Without privilege: a user namespace, and images through FUSE.
    UserNamespace,
}

impl Backend {
    /// Returns the best way that the process has by itself: as root where it really
    /// is root, in a user namespace otherwise. Whether the helper is better depends
    /// on the plan: see [`crate::helper`].
    ///
    /// Root inside a user namespace or a container without `CAP_SYS_ADMIN` is not
    /// really root: the kernel would refuse it the mounts.
    pub fn detect() -> Self {
        if is_really_root() { Self::Root } else { Self::UserNamespace }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Root => "root",
            Self::Helper => "helper",
            Self::UserNamespace => "user-namespace",
        })
    }
}

fn is_really_root() -> bool {
    geteuid().is_root()
        && rustix::thread::capabilities(None)
            .is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN))
        && is_initial_user_namespace()
}

/// Tells whether every user has a number here, and their own.
pub(crate) fn is_initial_user_namespace() -> bool {
    fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| map.split_whitespace().eq(WHOLE_MAP))
}

/// Moves the process into a mount namespace of its own, out of which nothing it
/// mounts leaks. The process must have one thread.
///
/// # Errors
///
/// [`Error::UserNamespace`], or [`Error::Mount`], where the system refuses.
pub fn enter_private_namespace(backend: Backend) -> Result<(), Error> {
    match backend {
        Backend::Root => Ok(enter_own_namespace()?),
        Backend::Helper | Backend::UserNamespace => {
            namespace::unshare_user_and_mounts()
                .map_err(|source| Error::UserNamespace { source })?;
            Ok(make_slave()?)
        }
    }
}

/// Enters a user namespace in which the caller is root, and a mount namespace of it.
pub(crate) fn enter_private_namespace_as_root() -> Result<(), Error> {
    namespace::unshare_user_and_mounts_as_root()
        .map_err(|source| Error::UserNamespace { source })?;
    Ok(make_slave()?)
}
