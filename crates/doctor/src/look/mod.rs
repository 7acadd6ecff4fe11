// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Asking the system. Nothing is changed, and nothing stays behind.

mod cache;
mod devices;
mod helper;
mod kernel;
mod programs;
mod repositories;
mod search_path;
mod trial;

use std::error::Error;
use std::fs;
use std::time::Duration;

use cabane_mount::Backend;
use rustix::process::geteuid;
use rustix::thread::CapabilitySet;

use super::facts::Process;

pub(crate) use cache::{look_at_held_images, look_at_rendezvous_points};
pub(crate) use devices::look_at_devices;
pub(crate) use helper::{look_at_helper, look_at_unpacked};
pub(crate) use kernel::look_at_kernel;
pub(crate) use programs::{look_at_program, look_for_program};
pub(crate) use repositories::look_at_repository;
pub(crate) use search_path::look_at_path;
pub(crate) use trial::{try_as_root, try_fuse, try_user_namespaces};

/// For what is answered at once unless a file system hangs.
pub(crate) const QUICK: Duration = Duration::from_secs(5);
/// For mounting, on a node all of whose processors are busy.
const MOUNTING: Duration = Duration::from_secs(15);
/// For looking through a repository.
const READING: Duration = Duration::from_secs(20);

/// Looks at this process. That cannot block.
pub(crate) fn look_at_process() -> Process {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let filter =
        status.lines().find_map(|line| line.strip_prefix("Seccomp:")).map_or("0", str::trim);
    Process {
        user: geteuid().as_raw(),
        may_mount: rustix::thread::capabilities(None)
            .is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN)),
        in_first_user_namespace: map.split_whitespace().eq(["0", "0", "4294967295"]),
        no_new_privileges: rustix::thread::no_new_privs().unwrap_or(true),
        is_filtered: filter != "0",
        counts_as_root: Backend::detect() == Backend::Root,
    }
}

/// Reads a file that holds one number.
fn with_cause(error: &dyn Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

fn number_in(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}
