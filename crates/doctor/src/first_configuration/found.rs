// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a first configuration depends on. A file system that does not answer costs seconds, and no more.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use cabane_mount::{FusePrograms, verity};
use cabane_site::env_vars;
use cabane_site::open_repository;
use serde::{Deserialize, Serialize};

use crate::facts::{Answer, Fuse, Kernel};
use crate::look;
use crate::probe::within;

/// Types of file systems that several machines share.
const SHARED: [&str; 10] =
    ["nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "pvfs2", "panfs", "wekafs", "cifs"];
/// More are no choice.
const MOST: usize = 16;
/// Where repositories are below a shared file system, or anywhere.
const BELOW: [&str; 2] = ["cabane/repository", "cabane"];
const ANYWHERE: [&str; 2] = ["/shared/cabane/repository", "/srv/cabane/repository"];
/// The usual mount points.
pub const MOUNT_POINTS: [&str; 3] = ["/user-environment", "/user-tools", "/user-environment-debug"];
/// The configuration of Slurm, also where nodes get it from the head.
const SLURM: [&str; 3] =
    ["/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf", "/etc/slurm-llnl/slurm.conf"];

/// What was found.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// The name of the machine.
    pub(super) host: String,
    /// The name of the system, and where it is from.
    pub(super) system: Option<(String, String)>,
    /// The version of Slurm.
    pub(super) slurm: Option<String>,
    pub(super) kernel: Answer<Kernel>,
    pub(super) has_verity: bool,
    pub(super) has_user_namespaces: bool,
    pub(super) fuse: Answer<Fuse>,
    /// Shared file systems.
    pub(super) shared: Vec<FileSystem>,
    /// Repositories.
    pub(super) repositories: Vec<Repository>,
    /// The usual mount points, and whether they are there.
    pub(super) mount_points: Vec<(String, bool)>,
    /// Devices for containers.
    pub(super) devices: Vec<String>,
}

/// A file system that is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileSystem {
    pub(super) mount_point: String,
    pub(super) kind: String,
}

/// A repository, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Repository {
    pub(super) path: String,
    pub(super) owner: u32,
}

/// Looks at this machine. `chosen` is a repository that the site has chosen.
pub(super) fn look(calling: &BTreeMap<OsString, OsString>, chosen: Option<&Path>) -> Found {
    let process = look::look_at_process();
    let user_namespaces = look::try_user_namespaces();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let shared = shared_file_systems(&mounts);
    let path = calling.get(OsStr::new(env_vars::PATH)).map(OsString::as_os_str);
    let version = |name, option| look::look_for_program(name, option, path).ok()??.version;
    Found {
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        system: system(calling),
        slurm: version("srun", "--version").or_else(|| version("slurmd", "-V")),
        kernel: look::look_at_kernel(&process),
        has_verity: verity::is_in_kernel(),
        has_user_namespaces: user_namespaces.trial.works(),
        fuse: look::try_fuse(&FusePrograms::default(), &user_namespaces),
        repositories: repositories(&shared, chosen),
        shared,
        mount_points: MOUNT_POINTS
            .iter()
            .map(|place| ((*place).to_owned(), Path::new(place).is_dir()))
            .collect(),
        devices: look::look_at_devices().map(|devices| devices.names).unwrap_or_default(),
    }
}

/// Returns the name of the system that Slurm or a variable says, if it can be one.
fn system(calling: &BTreeMap<OsString, OsString>) -> Option<(String, String)> {
    let variable = calling.get(OsStr::new(env_vars::CLUSTER_NAME)).and_then(|name| name.to_str());
    let variable = variable.map(|name| (name.to_owned(), "the variable CLUSTER_NAME".to_owned()));
    let of_slurm = SLURM.iter().find_map(|path| {
        let text = within(look::QUICK, || fs::read_to_string(path).ok()).ok()??;
        Some((cluster_name(&text)?, format!("ClusterName in {path}")))
    });
    let found = of_slurm.or(variable)?;
    found.0.parse::<cabane_label::System>().is_ok().then_some(found)
}

/// Returns the name of the cluster in a configuration of Slurm, in which case does not count.
fn cluster_name(text: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split('#').next()?.split_once('=')?;
        let is_name = key.trim().eq_ignore_ascii_case("ClusterName");
        is_name.then(|| value.trim().to_owned())
    })
}

/// Returns the shared file systems with names that files can have without quoting.
fn shared_file_systems(mounts: &str) -> Vec<FileSystem> {
    let mut found: Vec<FileSystem> = mounts.lines().filter_map(shared_file_system).collect();
    found.sort_by(|one, other| one.mount_point.cmp(&other.mount_point));
    found.dedup();
    found.truncate(MOST);
    found
}

fn shared_file_system(line: &str) -> Option<FileSystem> {
    let (before, after) = line.split_once(" - ")?;
    let mount_point = before.split(' ').nth(4)?;
    let kind = after.split(' ').next()?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    (SHARED.contains(&kind) && mount_point.chars().all(is_plain))
        .then(|| FileSystem { mount_point: mount_point.to_owned(), kind: kind.to_owned() })
}

/// Finds repositories at the usual places. Where users can write, any of them can make one, so those do not count.
/// The chosen one comes first, wherever it is.
fn repositories(shared: &[FileSystem], chosen: Option<&Path>) -> Vec<Repository> {
    let below = shared.iter().flat_map(|one| {
        BELOW.iter().map(|name| format!("{}/{name}", one.mount_point.trim_end_matches('/')))
    });
    let owner = |path: &Path| fs::metadata(path).ok().map(|found| found.uid());
    let chosen = chosen.and_then(|path| {
        Some(Repository { owner: owner(path)?, path: path.display().to_string() })
    });
    let mut found: Vec<Repository> = chosen.into_iter().collect();
    for path in ANYWHERE.iter().map(|path| (*path).to_owned()).chain(below) {
        let answer = within(look::QUICK, || {
            open_repository(Path::new(&path)).ok()?;
            only_root_chose(Path::new(&path)).then_some(())?;
            Some(Repository { owner: owner(Path::new(&path))?, path: path.clone() })
        });
        let new = answer.ok().flatten();
        found.extend(new.filter(|new| !found.iter().any(|known| known.path == new.path)));
    }
    found
}

/// Whether no directory above a path can be written to by others than its owner.
fn only_root_chose(path: &Path) -> bool {
    let Ok(real) = fs::canonicalize(path) else { return false };
    let is_closed = |above: &Path| fs::metadata(above).is_ok_and(|found| found.mode() & 0o022 == 0);
    real.ancestors().skip(1).all(is_closed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_users_can_write_to_is_no_place_of_a_site() {
        assert!(only_root_chose(Path::new("/usr/bin")));
        let open = tempfile::tempdir_in("/tmp").unwrap();
        assert!(!only_root_chose(open.path()));
        assert!(!only_root_chose(Path::new("/no/such/path")));
    }

    #[test]
    fn the_name_of_the_cluster_is_read_as_slurm_reads_it() {
        let text = "# ClusterName=old\nSlurmctldHost=head\nclustername = alps # this one\n";
        assert_eq!(cluster_name(text).as_deref(), Some("alps"));
        assert_eq!(cluster_name("SlurmctldHost=head\n"), None);
    }

    #[test]
    fn shared_file_systems_are_told_from_those_of_the_machine() {
        let mounts = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                      30 22 0:40 / /scratch rw,nosuid shared:1 - lustre 10.0.0.1@tcp:/s rw\n\
                      31 22 0:41 / /users rw - nfs4 server:/users rw\n\
                      32 22 0:42 / /with\\040space rw - nfs server:/x rw\n\
                      33 22 0:43 / /proc rw - proc proc rw\n";
        let found = shared_file_systems(mounts);
        let found: Vec<_> = found.iter().map(|one| (&*one.mount_point, &*one.kind)).collect();
        assert_eq!(found, [("/scratch", "lustre"), ("/users", "nfs4")]);
    }
}
