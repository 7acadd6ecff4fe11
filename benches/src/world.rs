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
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use cabane_mount::helper::Helper;
use cabane_sys::namespace::unshare_mounts;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::mount::{
    MountFlags, MoveMountFlags, OpenTreeFlags, mount, mount_bind, move_mount, open_tree,
};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::measure::NotMeasured;
use crate::peers;
use crate::users::is_root;

/// Set by ourselves for the process inside.
const INSIDE: &str = "CABANE_BENCH_WORLD";
const POLICY_DIRECTORY: &str = "/etc/cabane";
/// Below the private directory: root's alone, as the helper demands.
const OWN: &str = "/etc/cabane/bench";
const MOUNT_POINTS: [&str; 2] = ["environment", "tools"];
/// How many numbers of namespaces a processor takes at once (`COOKIE_LOCAL_BATCH`).
const BLOCK: usize = 4096;
const INSTALLED: [&str; 2] =
    ["/usr/local/libexec/cabane/cabane-mount", "/usr/libexec/cabane/cabane-mount"];

/// Where the helper is, and where it mounts.
pub(crate) struct World {
    /// The helper.
    pub(crate) helper: Result<PathBuf, NotMeasured>,
    /// The first mount points that its policy allows.
    pub(crate) mount_points: Vec<PathBuf>,
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
    let inside = |arguments: &[&str]| {
        let mut command = Command::new(&unshare);
        command
            .args(["--fork", "--kill-child", "--pid", "--mount", "--mount-proc"])
            .args(arguments);
        command
    };
    let is_possible =
        inside(&["true"]).stderr(Stdio::null()).status().is_ok_and(|status| status.success());
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
                mount_points: match installed {
                    Ok(_) => MOUNT_POINTS.map(|name| Path::new(OWN).join(name)).into(),
                    Err(_) => Vec::new(),
                },
                helper: installed,
                is_private: true,
            };
        }
        let found = Helper::find(&INSTALLED.map(PathBuf::from));
        let found = found.map_err(|reason| reason.to_string());
        let mount_points =
            found.as_ref().map(|helper| helper.policy.mount_points.clone()).unwrap_or_default();
        Self {
            helper: found.map(|helper| helper.path),
            mount_points,
            squashfs_mount: peers::SQUASHFS_MOUNT.find(),
            is_private: false,
        }
    }

    /// Writes the policy, as a site would, or removes it.
    pub(crate) fn have_policy(&self, wanted: bool) -> Result<(), NotMeasured> {
        self.set_policy(wanted.then_some("root"))
    }

    /// Lets the kernel read no image that there is.
    pub(crate) fn trust_no_owner(&self) -> Result<(), NotMeasured> {
        if self.is_private {
            return self.set_policy(Some("4294967294"));
        }
        Err("the policy of the system cannot be changed".into())
    }

    /// Has the unpacked images of this world in a directory on a disk, under a path that is root's
    /// alone, and returns that path.
    pub(crate) fn have_unpacked(&self, disk: &Path) -> Result<PathBuf, NotMeasured> {
        if !self.is_private {
            return Err("the policy of the system cannot be changed".into());
        }
        let place = Path::new(OWN).join("unpacked");
        fs::create_dir_all(&place)
            .and_then(|()| Ok(mount_bind(disk, &place)?))
            .map_err(|error| format!("there is no place for unpacked images: {error}"))?;
        self.set_policy(Some("root"))?;
        let line = format!("unpacked-images {}\n", place.display());
        let path = Path::new(POLICY_DIRECTORY).join("mount.policy");
        let file = fs::File::options().append(true).open(path);
        file.and_then(|mut file| file.write_all(line.as_bytes()))
            .map_err(|error| format!("cannot change the policy: {error}"))?;
        Ok(place)
    }

    fn set_policy(&self, owners: Option<&str>) -> Result<(), NotMeasured> {
        if !self.is_private {
            return Ok(());
        }
        let path = Path::new(POLICY_DIRECTORY).join("mount.policy");
        let text = |owners| {
            format!(
                "mount-point {OWN}/{}\nmount-point {OWN}/{}\nimage-owners {owners}\n\
                 images-per-user 16\nidle-seconds 600\nroot-images yes\n",
                MOUNT_POINTS[0], MOUNT_POINTS[1]
            )
        };
        let changed = if let Some(owners) = owners {
            fs::write(&path, text(owners))
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
    grow_old()?;
    mount_memory(POLICY_DIRECTORY)?;
    replace_run()?;
    for directory in MOUNT_POINTS {
        fs::create_dir_all(Path::new(OWN).join(directory))?;
    }
    Ok(())
}

/// Sees to it that namespaces made from now on have higher numbers than this one, on
/// each processor, as they do on a machine with its first namespace. Otherwise the
/// first start may have to look for a processor where that is so.
fn grow_old() -> io::Result<()> {
    let allowed = sched_getaffinity(None)?;
    let processors = (0..CpuSet::MAX_CPU).filter(|number| allowed.is_set(*number));
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            processors.map(|processor| scope.spawn(move || use_up_a_block(processor))).collect();
        threads.into_iter().try_for_each(|thread| {
            let ended = thread.join();
            ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })
}

fn use_up_a_block(processor: usize) -> io::Result<()> {
    let mut only = CpuSet::new();
    only.set(processor);
    sched_setaffinity(None, &only)?;
    (0..BLOCK).try_for_each(|_| unshare_mounts())
}

/// Puts a new `/run` over the old one. Some of what is in the old one is needed, to
/// find names in the network for example; what belongs to Cabane is not.
fn replace_run() -> io::Result<()> {
    let old =
        openat(CWD, "/run", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
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
    mount("cabane-bench", place, "tmpfs", MountFlags::NODEV, c"mode=0755")?;
    Ok(())
}
