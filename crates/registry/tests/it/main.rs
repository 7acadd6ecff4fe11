// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the client does when a registry misbehaves.

mod access;
mod bed;
mod bounds;
mod contents;
mod copies;
mod delta;
mod downloads;
mod hostile;
mod kept;
mod lists;
mod signatures;
mod uploads;
