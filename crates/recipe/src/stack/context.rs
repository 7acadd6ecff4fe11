// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What one file has to know of the others.

use super::recipe::Compilers;
use super::system::SystemConfig;
use crate::recipe::FormatVersion;

/// What is known when the environments are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context<'s> {
    pub(super) format: FormatVersion,
    /// `compilers.yaml`, unless something is wrong with it.
    pub(super) compilers: Option<&'s Compilers>,
    /// The system, if the recipe is read for one.
    pub(super) system: Option<&'s SystemConfig>,
}
