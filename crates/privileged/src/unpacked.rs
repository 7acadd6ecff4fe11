// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images that root has unpacked on this node.
//!
//! ```text
//! STORE/trees/SHA256/        can be searched by all; only root can open it to lock it
//! STORE/trees/SHA256/tree/   the files of the image
//! ```
//!
//! Only root can have put something there: every directory on the way is checked. A start locks the
//! tree until it is attached, so that it is not removed meanwhile. Who cannot lock it looks afterwards
//! whether it is still there: trees are renamed before they are removed.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, flock, fstat, openat, statat};
use rustix::io::Errno;

use crate::trusted::{check_owner, open_below, open_directory};
use crate::{Error, Policy, operations};

/// The SHA-256 of an image, by which its unpacked tree is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageDigest([u8; 64]);

impl ImageDigest {
    /// Returns its 64 hexadecimal digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl FromStr for ImageDigest {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_digit = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
        let digits = <[u8; 64]>::try_from(text.as_bytes()).ok();
        let digits = digits.filter(|digits| digits.iter().all(is_digit));
        digits.map(Self).ok_or("a digest is 64 hexadecimal digits, in lower case")
    }
}

/// The unpacked tree of an image.
#[derive(Debug)]
pub struct UnpackedTree {
    store: PathBuf,
    /// Where it has its name.
    trees: OwnedFd,
    digest: ImageDigest,
    /// What has the name.
    named: OwnedFd,
    tree: OwnedFd,
    /// Held against removal.
    lock: Option<OwnedFd>,
}

impl UnpackedTree {
    /// The directory in which trees have their names.
    pub const TREES: &'static str = "trees";
    /// The name of the files of an image below its digest.
    pub const TREE: &'static str = "tree";

    /// Opens the tree of an image; `None` if there is none.
    ///
    /// # Errors
    ///
    /// [`Error::Untrusted`] if others than root could have put it there; those of opening.
    pub fn open(store: &Path, digest: ImageDigest) -> Result<Option<Self>, Error> {
        let path = store.join(Self::TREES);
        let trees = open_directory(&path);
        let opened = trees.and_then(|trees| {
            let path = path.join(digest.as_str());
            let named = open_below(trees.as_fd(), digest.as_str().as_ref(), &path)?;
            let tree = open_below(named.as_fd(), Self::TREE.as_ref(), &path.join(Self::TREE))?;
            Ok(Self { store: store.to_owned(), trees, digest, named, tree, lock: None })
        });
        match opened {
            Err(Error::Step { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                Ok(None)
            }
            opened => opened.map(Some),
        }
    }

    /// Does the same, and locks it: it is not removed while this value lives. That takes the rights of
    /// root.
    ///
    /// # Errors
    ///
    /// As [`UnpackedTree::open`]; those of locking.
    pub fn open_locked(store: &Path, digest: ImageDigest) -> Result<Option<Self>, Error> {
        let Some(mut tree) = Self::open(store, digest)? else {
            return Ok(None);
        };
        let failed = || Error::step("lock", store.join(Self::TREES).join(digest.as_str()));
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let lock = match openat(&tree.trees, digest.as_str(), flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            opened => opened.map_err(failed())?,
        };
        check_owner(lock.as_fd(), store)?;
        match flock(&lock, FlockOperation::NonBlockingLockShared) {
            // It is being removed.
            Err(Errno::WOULDBLOCK) => return Ok(None),
            locked => locked.map_err(failed())?,
        }
        tree.lock = Some(lock);
        Ok(tree.is_there().then_some(tree))
    }

    /// Tells whether it has its name still. Then it is not removed before the mounts of all processes
    /// have been looked at.
    #[must_use]
    pub fn is_there(&self) -> bool {
        let found = fstat(&self.named);
        let named = statat(&self.trees, self.digest.as_str(), AtFlags::SYMLINK_NOFOLLOW);
        match (found, named) {
            (Ok(found), Ok(named)) => (found.st_dev, found.st_ino) == (named.st_dev, named.st_ino),
            _ => false,
        }
    }

    /// Tells whether it has its name still, as [`UnpackedTree::is_there`], or says that it was removed.
    ///
    /// # Errors
    ///
    /// [`Error::NotUnpacked`].
    pub fn check(&self) -> Result<(), Error> {
        if self.is_there() { Ok(()) } else { Err(self.gone()) }
    }

    /// Finds the tree once more, after the process has entered other namespaces: there, the kernel binds
    /// only what was looked up there, and does not show whose it is.
    ///
    /// # Errors
    ///
    /// [`Error::NotUnpacked`] if it is not where it was; those of opening.
    pub fn find_again(&mut self) -> Result<(), Error> {
        let path = self.store.join(Self::TREES).join(self.digest.as_str()).join(Self::TREE);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let failed = || Error::step("open", &path);
        let tree = openat(CWD, &path, flags, Mode::empty()).map_err(failed())?;
        let number = |place| fstat(place).map(|found| (found.st_dev, found.st_ino));
        if number(&tree).map_err(failed())? != number(&self.tree).map_err(failed())? {
            return Err(self.gone());
        }
        self.tree = tree;
        Ok(())
    }

    /// Makes a detached mount of it: read-only, without set-uid programs and devices.
    ///
    /// # Errors
    ///
    /// What the kernel answered.
    pub fn mount(&self) -> Result<OwnedFd, Error> {
        let failed = |source| Error::Step {
            what: "bind the unpacked image",
            path: self.digest.as_str().into(),
            source,
        };
        operations::clone_unpacked(self.tree.as_fd()).map_err(failed)
    }

    fn gone(&self) -> Error {
        Error::NotUnpacked { store: self.store.clone(), digest: self.digest }
    }

    /// Returns the lock once more, for what outlives this value.
    ///
    /// # Errors
    ///
    /// Those of duplicating a descriptor.
    pub fn hold(&self) -> std::io::Result<Option<OwnedFd>> {
        self.lock.as_ref().map(OwnedFd::try_clone).transpose()
    }
}

/// Says that an unpacked image is not there.
pub(crate) fn not_there(policy: &Policy, digest: ImageDigest) -> Error {
    Error::NotUnpacked { store: policy.unpacked_images.clone(), digest }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_has_one_spelling_and_is_no_path() {
        let right = "0123456789abcdef".repeat(4);
        let wrong = [
            "../../../etc".to_owned(),
            format!("../{}", &right[3..]),
            format!("{}/", &right[1..]),
            right.to_uppercase(),
            right[1..].to_owned(),
            format!("{right}0"),
            String::new(),
        ];
        assert_eq!(
            right.parse::<ImageDigest>().map(|digest| digest.as_str().to_owned()),
            Ok(right)
        );
        for text in wrong {
            assert!(text.parse::<ImageDigest>().is_err(), "{text}");
        }
    }
}
