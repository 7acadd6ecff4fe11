// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the crate does as a whole, seen from outside.

mod digests;
mod images;
mod labels;
mod messages;
mod mount_points;
mod patterns;
mod properties;
