// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A world of its own for the set-uid helper.
//!
//! The helper does what root allows in `/etc/cabane/mount.policy` and keeps images in
//! `/run`, both as the first process sees them. So that measuring changes nothing on the
//! machine, root runs all of this in a namespace of processes and mounts: `/run` is new
//! there, with the directories of the old one in it, and `/etc/cabane` holds nothing but
//! our policy, the helper and the mount points. An ordinary user measures the helper that
//! is installed, if there is one.

use std::env;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use cabane_mount::helper::Helper;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::mount::{MountFlags, MoveMountFlags, OpenTreeFlags, mount, move_mount, open_tree};

use crate::measure::NotMeasured;
use crate::peers;
use crate::users::is_root;

/// Set by ourselves for the process inside.
const INSIDE: &str = "CABANE_BENCH_WORLD";
const POLICY_DIRECTORY: &str = "/etc/cabane";
/// Below the private directory: root's alone, as the helper demands.
const OWN: &str = "/etc/cabane/bench";
const INSTALLED: [&str; 2] = [
    "/usr/local/libexec/cabane/cabane-mount",
    "/usr/libexec/cabane/cabane-mount",
];

/// Where the helper is, and where it mounts.
pub(crate) struct World {
    /// The helper.
    pub(crate) helper: Result<PathBuf, NotMeasured>,
    /// The first mount point that its policy allows.
    pub(crate) mount_point: Option<PathBuf>,
    /// squashfs-mount, which needs the rights of root, too.
    pub(crate) squashfs_mount: Result<PathBuf, NotMeasured>,
    is_private: bool,
}

/// Runs this program again in a world of its own, if that is possible and has not been
/// done, and returns how it ended.
pub(crate) fn run_inside() -> Option<ExitCode> {
    if !is_root() || env::var_os(INSIDE).is_some() {
        return None;
    }
    let unshare = peers::UNSHARE.find().ok()?;
    let this = env::current_exe().ok()?;
    let inside = |words: &[&str]| {
        let mut command = Command::new(&unshare);
        command
            .args(["--fork", "--kill-child", "--pid", "--mount", "--mount-proc"])
            .args(words);
        command
    };
    let is_possible = inside(&["true"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !is_possible {
        return None;
    }
    let is_new = fs::create_dir(POLICY_DIRECTORY).is_ok();
    // The shell is the first process there, and waits for whatever is left behind.
    let status = inside(&["/bin/sh", "-c", "\"$@\"; exit $?", "sh"])
        .arg(this)
        .args(env::args_os().skip(1))
        .env(INSIDE, "1")
        .status();
    if is_new {
        let _ = fs::remove_dir(POLICY_DIRECTORY);
    }
    let code = status.ok().and_then(|status| status.code()).unwrap_or(1);
    Some(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

impl World {
    /// Furnishes the world of this process with a helper, or finds the one installed.
    pub(crate) fn furnish(helper: Result<PathBuf, NotMeasured>) -> Self {
        if env::var_os(INSIDE).is_some() {
            let installed = helper.and_then(|helper| {
                make_private()
                    .and_then(|()| set_uid_copy(&helper, "cabane-mount"))
                    .map_err(|error| format!("there is no place for the helper: {error}"))
            });
            let squashfs_mount = peers::SQUASHFS_MOUNT.find().and_then(|program| {
                set_uid_copy(&program, peers::SQUASHFS_MOUNT.name)
                    .map_err(|error| format!("there is no place for it: {error}"))
            });
            return Self {
                squashfs_mount,
                mount_point: installed
                    .is_ok()
                    .then(|| Path::new(OWN).join("environment")),
                helper: installed,
                is_private: true,
            };
        }
        let found = Helper::find(&INSTALLED.map(PathBuf::from));
        let found = found.map_err(|reason| reason.to_string());
        let mount_point = found
            .as_ref()
            .ok()
            .and_then(|helper| helper.policy.mount_points.first().cloned());
        Self {
            helper: found.map(|helper| helper.path),
            mount_point,
            squashfs_mount: peers::SQUASHFS_MOUNT.find(),
            is_private: false,
        }
    }

    /// Writes the policy, as a site would, or removes it.
    pub(crate) fn have_policy(&self, wanted: bool) -> Result<(), NotMeasured> {
        if !self.is_private {
            return Ok(());
        }
        let path = Path::new(POLICY_DIRECTORY).join("mount.policy");
        let text = format!(
            "mount-point {OWN}/environment\nmount-point {OWN}/tools\nimage-owners root\n\
             images-per-user 16\nidle-seconds 600\n"
        );
        let changed = if wanted {
            fs::write(&path, text)
        } else if path.exists() {
            fs::remove_file(&path)
        } else {
            Ok(())
        };
        changed.map_err(|error| format!("cannot change the policy: {error}"))
    }
}

fn set_uid_copy(program: &Path, name: &str) -> io::Result<PathBuf> {
    let copy = Path::new(OWN).join(name);
    fs::copy(program, &copy)?;
    fs::set_permissions(&copy, Permissions::from_mode(0o4755))?;
    Ok(copy)
}

fn make_private() -> io::Result<()> {
    mount_memory(POLICY_DIRECTORY)?;
    replace_run()?;
    for directory in ["environment", "tools"] {
        fs::create_dir_all(Path::new(OWN).join(directory))?;
    }
    Ok(())
}

/// Puts a new `/run` over the old one. Some of what is in the old one is needed, to
/// find names in the network for example; what belongs to Cabane is not.
fn replace_run() -> io::Result<()> {
    let old = openat(
        CWD,
        "/run",
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let entries: Vec<_> = fs::read_dir("/run")?.collect::<io::Result<_>>()?;
    mount_memory("/run")?;
    for entry in entries {
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_dir() && entry.file_name() != "cabane" {
            let flags = OpenTreeFlags::OPEN_TREE_CLONE
                | OpenTreeFlags::OPEN_TREE_CLOEXEC
                | OpenTreeFlags::AT_RECURSIVE;
            fs::create_dir(&path)?;
            let tree = open_tree(&old, entry.file_name(), flags)?;
            let whole = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
            move_mount(&tree, "", CWD, &path, whole)?;
        }
    }
    Ok(())
}

fn mount_memory(place: &str) -> io::Result<()> {
    mount(
        "cabane-bench",
        place,
        "tmpfs",
        MountFlags::NODEV,
        c"mode=0755",
    )?;
    Ok(())
}
