// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The bases of a recipe on a worker: those that the build has found, whatever their names mean here.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use cabane_label::escape;

use crate::{AddedImages, BuildError, Containers, FoundContainer, Result, StackBase, UseContainer};

/// The bases that a build has found.
#[derive(Debug)]
pub(super) struct Given(pub(super) Vec<StackBase>);

impl Containers for Given {
    fn stack_bases(&self, _name: &str) -> Result<Vec<StackBase>> {
        Ok(self.0.clone())
    }

    fn find(&self, from: &str, _: &Path, _: Option<&str>) -> Result<FoundContainer> {
        Err(none(from))
    }

    fn open(
        &self,
        from: &str,
        _: &Path,
        _: &FoundContainer,
        _: &AtomicBool,
        _: &mut UseContainer<'_>,
    ) -> Result<()> {
        Err(none(from))
    }

    fn images(&self, names: &[String]) -> Result<AddedImages> {
        Err(none(&names.join(" ")))
    }
}

/// Packages of Spack need no container images.
fn none(name: &str) -> BuildError {
    BuildError::refused(format!("a worker cannot use the container image {}", escape(name)), None)
}
