// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The table of checks, in the order of the report: what is looked at, and what for. The verdicts
//! are in the module of each group.

use crate::finding::{Check, Group};

const fn check(group: Group, name: &'static str, purpose: &'static str) -> Check {
    Check { group, name, purpose }
}

use Group::{Configuration, Environment, Held, Kernel, Tools, Ways};

const HELD_FOR_ALL: &str = "the place of the images that are held for all users";
const BY_THE_KERNEL: &str = "images mounted by the kernel, as root or through the helper";
const TRIED: &str = "the whole way, tried for real";

pub(super) const CHOICE: Check =
    check(Ways, "choice", "what `cabane run` and `cabane start` do without `--backend`");
pub(super) const AS_ROOT: Check =
    check(Ways, "as root", "the kernel's file systems; for batch systems, containers, and tests");
pub(super) const HELPER: Check = check(Ways, "helper", "the kernel's file systems for users");
pub(super) const PRIVILEGES: Check =
    check(Ways, "privileges", "set-uid programs, such as the helper");
pub(super) const POLICY: Check = check(Ways, "policy", "what the helper may mount, and for whom");
pub(super) const MOUNT_POINT: Check =
    check(Ways, "mount point", "where the policy lets images be mounted");
pub(super) const VERIFIED: Check =
    check(Ways, "verified images", "images that the kernel may read, whichever user owns them");
pub(super) const ROOT_IMAGES: Check =
    check(Ways, "root images", "container images, which have a root file system of their own");
pub(super) const STATE_DIRECTORY: Check = check(Ways, "/run/cabane", HELD_FOR_ALL);
pub(super) const HELPER_START: Check = check(
    Ways,
    "start of the helper",
    "set-uid takes effect, and it speaks the language of this command",
);
pub(super) const USER_NAMESPACE: Check = check(
    Ways,
    "user namespace",
    "mounting without privilege: other images, binds, environments in others",
);
pub(super) const FUSE: Check = check(Ways, "FUSE", FUSE_DEVICE.purpose);
pub(super) const FUSE_DEVICE: Check =
    check(Ways, "/dev/fuse", "images in a user namespace, where the kernel reads none itself");
pub(super) const SQUASHFUSE: Check =
    check(Ways, "squashfuse", "serves squashfs images through FUSE");
pub(super) const EROFSFUSE: Check = check(Ways, "erofsfuse", "serves EROFS images through FUSE");
pub(super) const SQUASHFS_TRIAL: Check = check(Ways, "squashfs through FUSE", TRIED);
pub(super) const EROFS_TRIAL: Check = check(Ways, "EROFS through FUSE", TRIED);

pub(super) const KERNEL: Check = check(Kernel, "kernel", "the calls and file systems below");
pub(super) const RELEASE: Check = check(Kernel, "version", "5.8 is the least that is needed");
pub(super) const MOUNT_CALLS: Check =
    check(Kernel, "new mount calls", "mounting what was opened, and nothing else");
pub(super) const OPENAT2: Check =
    check(Kernel, "openat2", "opening files of an image without being led out of it");
pub(super) const SQUASHFS: Check = check(Kernel, "squashfs", BY_THE_KERNEL);
pub(super) const EROFS: Check = check(Kernel, "erofs", BY_THE_KERNEL);
pub(super) const EROFS_FROM_FILE: Check = check(
    Kernel,
    "erofs from a file",
    "starts that are fast on a busy node, and need no loop device",
);
pub(super) const LOOP_DEVICES: Check =
    check(Kernel, "loop devices", "squashfs images mounted by the kernel");

pub(super) const HELD_IMAGES: Check = check(
    Held,
    "on this node",
    "images that stay mounted for a while, so that the next start is fast",
);
pub(super) const UNPACKED: Check = check(
    Held,
    "unpacked images",
    "images that root has unpacked, so that equal files share memory",
);
pub(super) const SHARED_NAMESPACES: Check =
    check(Held, "shared namespaces", "where ranks of one program find each other, to share memory");

pub(super) const CONFIGURATION: Check = check(
    Configuration,
    "configuration",
    "`cabane config` shows every setting and where it comes from",
);
pub(super) const REPOSITORY: Check =
    check(Configuration, "repository", "where images are looked for");

pub(super) const LOADED: Check =
    check(Environment, "environment", "whether this process is inside an environment of Cabane");
pub(super) const SEARCH_PATH: Check = check(Environment, "PATH", "where programs are looked for");
pub(super) const VARIABLES: Check = check(Environment, "variables", "variables of other tools");
pub(super) const COMMANDS: Check = check(Environment, "cabane", "which program `cabane` is");
pub(super) const UENV: Check = check(Environment, "uenv", "which program `uenv` is");
pub(super) const DEVICES: Check =
    check(Environment, "devices", "what containers can have by `--device`");

/// A program that builds use.
pub(super) const fn tool(name: &'static str, purpose: &'static str) -> Check {
    check(Tools, name, purpose)
}
