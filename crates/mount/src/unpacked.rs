// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images that root has unpacked on this node, as a start finds them.

use std::path::{Path, PathBuf};

use cabane_privileged::{Error, ImageDigest, Policy, UnpackedTree};
use cabane_sys::mount_attributes;
use rustix::fs::{Access, access};

use crate::{Operation, Way};

/// Returns the directory of the unpacked images of this node: that of the policy, or the usual one where
/// there is no policy; `None` where the policy is void.
#[must_use]
pub fn store() -> Option<PathBuf> {
    if access(Policy::PATH, Access::EXISTS).is_err() {
        return Some(Policy::UNPACKED_IMAGES.into());
    }
    Policy::read().ok().map(|policy| policy.unpacked_images)
}

/// Looks for an image by the 64 digits of its digest; `None` if it is not unpacked here, or cannot be
/// bound.
#[must_use]
pub fn find(digest: &str) -> Option<ImageDigest> {
    let digest: ImageDigest = digest.parse().ok()?;
    let store = store()?;
    let path = store.join(UnpackedTree::TREES).join(digest.as_str());
    // All that is done on a node without unpacked images.
    access(path, Access::EXISTS).ok()?;
    let is_there = mount_attributes::are_in_kernel()
        && matches!(UnpackedTree::open(&store, digest), Ok(Some(_)));
    is_there.then_some(digest)
}

/// Opens the tree of an operation that is about an unpacked image. If it cannot be opened, the image is
/// mounted from its file.
pub(crate) fn tree_of(
    operation: &Operation,
    open: impl FnOnce(&Path, ImageDigest) -> Result<Option<UnpackedTree>, Error>,
) -> Option<UnpackedTree> {
    let Operation::Image { way: Way::Unpacked(digest), .. } = operation else {
        return None;
    };
    open(&store()?, *digest).ok().flatten()
}
