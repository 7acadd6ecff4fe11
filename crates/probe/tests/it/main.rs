// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Machines that do not exist, and this one beside what real Spack says of it.

mod files;
mod machines;
mod made_up;
mod programs;
mod reads;
mod spack;
