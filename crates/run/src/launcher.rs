// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which parallel launcher has started this process.
//!
//! A launcher (`mpiexec`, `srun`, …) gives every process of a job step its number in
//! a variable. Among the parents, the first one without such a variable is the
//! launcher's own process on this node, and the ranks of a step on one node have
//! it in common.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;

use rustix::process::geteuid;

use crate::process::{Process, Status};

/// A process that has started ranks, or an ancestor of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Launcher {
    id: u32,
    start: u64,
}

impl fmt::Display for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.id, self.start)
    }
}

/// Whether a launcher has given this process a number.
pub(crate) fn is_rank(variables: &BTreeMap<OsString, OsString>, names: &[&str]) -> bool {
    names.iter().any(|name| variables.contains_key(OsStr::new(name)))
}

/// Finds the launcher of this process, which is a rank.
///
/// A parent of the same user that cannot be looked into, because it lives in an
/// outer namespace, is passed over. So the search may end too high, where several
/// steps meet, but never too low, where ranks of one step differ.
pub(crate) fn find(names: &[&str]) -> Option<Launcher> {
    let mut parent = Process::own().ok()?.status().ok()?.parent;
    loop {
        let process = Process::open(parent).ok();
        let status = process.as_ref().and_then(|process| process.status().ok());
        match (process, status) {
            (Some(process), Some(status)) if is_within_step(&process, status, names) => {
                parent = status.parent;
            }
            // The processes of others may be hidden: the number alone must do.
            (_, status) => {
                return Some(Launcher {
                    id: parent,
                    start: status.map_or(0, |status| status.start),
                });
            }
        }
    }
}

fn is_within_step(process: &Process, status: Status, names: &[&str]) -> bool {
    let is_mine = process.owner().is_ok_and(|owner| owner == geteuid().as_raw());
    // The first process of a container has no parent that could be seen.
    if !is_mine || status.parent == 0 {
        return false;
    }
    process.variables().map_or(true, |variables| is_rank(&variables, names))
}
