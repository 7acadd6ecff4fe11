// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The database `index.db` of a repository of uenv: its labels, read and changed.
//!
//! Reading takes no locks and writes nothing beside the database. Changes are transactions with
//! SQLite's own locks, as uenv makes them, so that both tools can write at the same time. This is
//! the only crate that knows SQLite.

#![forbid(unsafe_code)]

mod change;
mod error;
mod open;
mod rows;

pub use change::{NewLabel, create, forget, remove_label, set_label};
pub use error::refused;
pub use open::stamp;
pub use rows::{Row, Rows, read, refuse_old};
