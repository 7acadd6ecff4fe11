// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Copies of images on the node, which are mounted in their place.
//!
//! Steps of jobs can have them (`crates/mount/src/stage.rs`). Who starts an environment through
//! the set-uid helper cannot, and nothing that copies is linked into it.

use std::fmt;

use rustix::fs::Stat;

use crate::{Error, ImageFile};

/// Makes copies of images.
pub trait Copies: fmt::Debug {
    /// Returns the name of their place, which ends the names of their entries in the cache.
    fn name(&self) -> &'static str;

    /// Returns where they are, fit to stand after "in".
    fn place(&self) -> &'static str;

    /// Returns how many bytes all copies there may have, together.
    fn limit(&self) -> u64;

    /// Copies an image that looked like this when it was checked and space was found for it.
    /// `gets_on` is called again and again meanwhile.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if it was changed meanwhile, and the first step that failed.
    fn copy(
        &self,
        image: &ImageFile,
        checked: &Stat,
        gets_on: &dyn Fn(),
    ) -> Result<ImageFile, Error>;
}
