// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Tests of this crate.

mod classes;
mod found;
mod history;
mod honest;
mod kept;
mod made;
mod properties;
