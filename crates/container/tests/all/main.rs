// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Container images, written as real archives, and what becomes of them in real images.

mod ahead;
mod archives;
mod crowded;
mod documents;
mod kit;
mod layers;
mod limits;
mod metadata;
mod properties;
mod rights;
