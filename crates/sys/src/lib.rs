// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! System calls, wrapped; the only room with unsafe code.
//!
//! What rustix offers as safe functions is used from there directly. This crate
//! holds the rest: [`namespace`] (leaving and entering namespaces),
//! [`loop_device`] (a file as a block device), [`mount_attributes`] (of many mounts at once), [`privilege`] (who the process is),
//! [`lease`] (whether a file is open on this host),
//! [`child`] (processes that prepare themselves before they start a program),
//! [`as_user`] (programs that run as somebody else), [`alone`] (programs that nothing of this process reaches) and
//! [`process_namespace`] (in which none outlives the program). It holds no policy.

pub mod alone;
pub mod as_user;
pub mod child;
pub mod descriptor;
pub mod lease;
pub mod loop_device;
pub mod mount_attributes;
pub mod namespace;
pub mod privilege;
pub mod process_namespace;
mod raw;
