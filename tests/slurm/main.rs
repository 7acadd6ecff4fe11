// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Jobs on a real Slurm: a cluster of four virtual nodes, the plugin loaded, two ordinary
//! users. After each test every node is looked at for what was left behind.

mod arena;
mod attach;
mod batch;
mod border;
mod checks;
mod containers;
mod debug_symbols;
mod devices;
mod elsewhere;
mod failures;
mod first_use;
mod fuse;
mod kernel;
mod losses;
mod many_nodes;
mod mpi;
mod older_roots;
mod operations;
mod parts;
mod pipeline;
mod pyxis;
mod records;
mod releases;
mod requests;
mod roots;
mod sites;
mod stacked;
mod stage;
mod steps;
mod substitute;
mod swapped;
mod uarch;
mod unpacked;
mod users;
