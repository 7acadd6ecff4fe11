// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The pages, one module for each kind. Pure.

pub(crate) mod changes;
pub(crate) mod image;
pub(crate) mod list;
pub(crate) mod package;
pub(crate) mod upgrades;
