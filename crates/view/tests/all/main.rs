// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the crate does as a whole, seen from outside.

mod applying;
mod expanding;
mod names;
mod properties;
mod reading;
mod refusing;
mod writing;
