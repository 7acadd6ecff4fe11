// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The set-uid helper, its policy and its directories.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use cabane_mount::helper::Helper;
use cabane_mount::{
    ImageDigest, ImageOwners, Policy, PrivilegedError as Error, RootHash, UnpackedTree, unpacked,
    verity,
};
use cabane_run::try_helper;
use cabane_sys::mount_attributes;
use rustix::fs::{StatVfsMountFlags, statfs, statvfs};

use super::{MOUNTING, QUICK, with_cause};
use crate::facts::{
    Answer, HelperFacts, Installed, PolicyFacts, UnpackedFacts, VerifiedFacts, Weakness,
    WeaknessKind,
};
use crate::probe::within;

const OTHERS_WRITE: u32 = 0o022;
/// `linux/magic.h`.
const FUSE_MAGIC: u64 = 0x6573_5546;

/// Looks at the helper, and starts it if the command would.
pub(crate) fn look_at_helper(places: &[PathBuf]) -> Answer<HelperFacts> {
    let mut answer = within(QUICK, || look(places));
    if let Ok(facts) = &mut answer
        && facts.unavailable.is_none()
        && let Some(installed) = &facts.installed
    {
        let path = Path::new(&installed.path);
        let started = within(MOUNTING, || {
            try_helper(path).map_err(|error| {
                let cause = error.causes().next();
                cause.map_or_else(|| error.to_string(), ToString::to_string)
            })
        });
        facts.started = Some(started.unwrap_or_else(|reason| Err(reason.to_string())));
    }
    answer
}

fn look(places: &[PathBuf]) -> HelperFacts {
    let installed = places.iter().find(|path| path.is_file());
    HelperFacts {
        places: places.iter().map(|path| text(path)).collect(),
        installed: installed.and_then(|path| look_at_program(path)),
        policy: look_at_policy(),
        unavailable: Helper::find(places).err().map(|error| error.to_string()),
        state_directory: look_at_state_directory(),
        started: None,
    }
}

fn look_at_program(path: &Path) -> Option<Installed> {
    let found = fs::metadata(path).ok()?;
    let flags = statvfs(path).map(|found| found.f_flag);
    let is_without = flags.is_ok_and(|flags| flags.contains(StatVfsMountFlags::NOSUID));
    Some(Installed {
        path: text(path),
        owner: found.uid(),
        mode: found.mode() & 0o7777,
        without_set_uid: is_without.then(|| text(&mount_point_of(path, found.dev()))),
    })
}

/// The highest directory on the way that is on the same device.
fn mount_point_of(path: &Path, device: u64) -> PathBuf {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let is_there = |directory: &&Path| {
        fs::symlink_metadata(directory).is_ok_and(|found| found.dev() == device)
    };
    let highest = path.ancestors().skip(1).take_while(is_there).last();
    highest.unwrap_or(&path).to_owned()
}

fn look_at_policy() -> PolicyFacts {
    let path = Path::new(Policy::PATH);
    match Policy::read() {
        Ok(policy) => PolicyFacts::Good {
            mount_points: policy
                .mount_points
                .iter()
                .map(|point| (text(point), weakness(point, true)))
                .collect(),
            owners: match policy.image_owners.clone() {
                ImageOwners::Any => None,
                ImageOwners::Listed(owners) => Some(owners),
            },
            fuse_images: policy.fuse_images,
            verified: look_at_verified(&policy),
            images_per_user: policy.images_per_user,
            idle_seconds: policy.idle.as_secs(),
            root_images: policy.root_images,
            absent_binds: policy
                .root_binds
                .iter()
                .filter(|place| !place.exists())
                .map(|place| text(place))
                .collect(),
        },
        Err(Error::Policy { source, .. }) => {
            PolicyFacts::Mistake { line: source.line, problem: source.problem.to_owned() }
        }
        Err(error) => match weakness(path, false) {
            Some(Weakness { kind: WeaknessKind::Missing, .. }) => PolicyFacts::Missing,
            Some(weakness) => PolicyFacts::Weak(weakness),
            None => PolicyFacts::Unreadable(with_cause(&error)),
        },
    }
}

fn look_at_verified(policy: &Policy) -> VerifiedFacts {
    let list = &policy.verified_images;
    let lines = fs::read_to_string(list).unwrap_or_default();
    let is_root_hash = |line: &&str| {
        line.split_whitespace().next().is_some_and(|hash| hash.parse::<RootHash>().is_ok())
    };
    VerifiedFacts {
        list: text(list),
        weakness: weakness(list, false).filter(|one| one.kind != WeaknessKind::Missing),
        count: lines.lines().filter(is_root_hash).count(),
        signatures: policy.verified_signatures,
        in_kernel: verity::is_in_kernel(),
    }
}

/// Looks at the images that root has unpacked; nothing where there is no directory for them.
pub(crate) fn look_at_unpacked() -> Option<UnpackedFacts> {
    let directory = unpacked::store().filter(|directory| directory.exists())?;
    let trees = directory.join(UnpackedTree::TREES);
    let is_image =
        |name: &OsStr| name.to_str().is_some_and(|name| name.parse::<ImageDigest>().is_ok());
    let entries = fs::read_dir(&trees).into_iter().flatten().flatten();
    Some(UnpackedFacts {
        directory: text(&directory),
        weakness: weakness(&trees, true).filter(|one| one.kind != WeaknessKind::Missing),
        count: entries.filter(|entry| is_image(&entry.file_name())).count(),
        in_kernel: mount_attributes::are_in_kernel(),
    })
}

/// As the first process sees it, where the caller may look.
fn look_at_state_directory() -> Option<Weakness> {
    let run = ["/proc/1/root/run", "/run"];
    let run = run.iter().find(|path| fs::symlink_metadata(path).is_ok());
    let run = Path::new(run.unwrap_or(&"/run"));
    let named = |path: &str, kind| Weakness { path: path.to_owned(), kind };
    if let Some(kind) = weakness_of(run, true, OTHERS_WRITE) {
        return Some(named("/run", kind));
    }
    match weakness_of(&run.join("cabane"), true, 0o077) {
        // It is made at the first start.
        None | Some(WeaknessKind::Missing) => None,
        Some(kind) => Some(named("/run/cabane", kind)),
    }
}

/// Returns what keeps a path from being root's alone: the first part of it, from the
/// root directory on. The rule is that of the helper.
fn weakness(path: &Path, is_directory: bool) -> Option<Weakness> {
    let mut parts: Vec<&Path> = path.ancestors().collect();
    parts.reverse();
    parts.into_iter().find_map(|part| {
        let wants_directory = part != path || is_directory;
        Some(Weakness { path: text(part), kind: weakness_of(part, wants_directory, OTHERS_WRITE)? })
    })
}

fn weakness_of(path: &Path, is_directory: bool, closed: u32) -> Option<WeaknessKind> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Some(WeaknessKind::Missing);
        }
        Err(error) => return Some(WeaknessKind::Unreachable(error.to_string())),
    };
    if found.is_symlink() {
        Some(WeaknessKind::Link)
    } else if found.is_dir() != is_directory || !(is_directory || found.is_file()) {
        Some(WeaknessKind::WrongKind)
    } else if found.uid() != 0 {
        Some(WeaknessKind::Owner(found.uid()))
    } else if found.mode() & closed != 0 {
        Some(WeaknessKind::Writable(found.mode() & 0o7777))
    } else if statfs(path).is_ok_and(|system| u64::try_from(system.f_type) == Ok(FUSE_MAGIC)) {
        Some(WeaknessKind::OnFuse)
    } else {
        None
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
