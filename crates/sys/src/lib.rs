// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! System calls that rustix does not offer as safe functions, wrapped.
//!
//! [`namespace`] leaves and enters namespaces, [`loop_device`] makes a file a block device,
//! [`mount_table`] tells on which mount a descriptor is, [`mount_attributes`] changes many
//! mounts at once, [`device_mapper`] makes block devices whose content is checked, [`privilege`] says who the process is, [`descriptor`] takes descriptors
//! that were inherited, [`arguments`] reads the arguments, and [`exec`] becomes a program. The crate holds no policy. All of it is linked into the set-uid
//! helper: what the helper does not need belongs in `cabane-process`.

// What runs as root does not panic. Its tests may.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        clippy::todo,
        clippy::unimplemented,
        clippy::indexing_slicing,
        clippy::string_slice
    )
)]

pub mod arguments;
pub mod descriptor;
pub mod device_mapper;
pub mod exec;
pub mod loop_device;
pub mod mount_attributes;
pub mod mount_table;
pub mod namespace;
pub mod privilege;
pub mod raw;
