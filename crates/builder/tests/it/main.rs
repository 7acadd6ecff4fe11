// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Whole builds on the real system, as root and as an ordinary user.

mod bench;
mod faults;
mod packing;
mod python;
mod sandbox;
mod tree;
mod uv;
