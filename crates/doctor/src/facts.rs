// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What was seen, without judgement.

use cabane_site::Remedy;
use serde::{Deserialize, Serialize};

/// What became of a question.
pub(crate) type Answer<T> = Result<T, NoAnswer>;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub(crate) enum NoAnswer {
    /// There was none within so many seconds.
    #[error("no answer within {0} s")]
    Silent(u64),
    /// The check itself failed.
    #[error("{0}")]
    Failed(String),
}

/// What the vendors of devices say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DeviceFacts {
    /// The names of the devices.
    pub(crate) names: Vec<String>,
    /// What is wrong with files about them, a text each.
    pub(crate) problems: Vec<String>,
}

/// Who asks.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, and all combinations occur"
)]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    /// The effective user.
    pub(crate) user: u32,
    /// Whether `CAP_SYS_ADMIN` is in effect.
    pub(crate) may_mount: bool,
    /// Whether every user has his own number here.
    pub(crate) in_first_user_namespace: bool,
    /// Whether the process gave up gaining privileges.
    pub(crate) no_new_privileges: bool,
    /// Whether system calls are filtered.
    pub(crate) is_filtered: bool,
    /// What `auto` comes to without the helper: whether that is root.
    pub(crate) counts_as_root: bool,
}

/// How a trial went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Trial {
    /// It worked.
    Works,
    /// It did not.
    Fails(Failure),
    /// It was not tried, because something it needs is missing.
    NotTried,
}

impl Trial {
    /// Tells whether it worked.
    pub(crate) fn works(&self) -> bool {
        *self == Self::Works
    }
}

/// Which step of a trial failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Step {
    /// A new namespace.
    Namespace,
    /// `/dev/fuse`.
    FuseDevice,
    /// The FUSE program.
    FuseProgram,
    /// A loop device.
    LoopDevice,
    /// The image.
    Image,
    /// Another one.
    Other,
}

/// A trial that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    /// Where.
    pub(crate) step: Step,
    /// What was reported, with its causes.
    pub(crate) text: String,
    /// The number of the error of the system.
    pub(crate) errno: Option<i32>,
    /// What could be typed.
    pub(crate) hint: Option<String>,
}

/// What is wrong with a path that only root may be able to change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Weakness {
    /// The path, or a directory above it.
    pub(crate) path: String,
    /// What is wrong.
    pub(crate) kind: WeaknessKind,
}

/// What can be wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum WeaknessKind {
    /// It is not there.
    Missing,
    /// A link leads on.
    Link,
    /// It is no directory, or no plain file.
    WrongKind,
    /// It belongs to another user.
    Owner(u32),
    /// Others may write to it; its mode.
    Writable(u32),
    /// It is on FUSE, where some user's process says whose it is.
    OnFuse,
    /// It cannot be looked at.
    Unreachable(String),
}

/// The helper.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HelperFacts {
    /// Where it was looked for.
    pub(crate) places: Vec<String>,
    /// The first that is there.
    pub(crate) installed: Option<Installed>,
    /// The policy.
    pub(crate) policy: PolicyFacts,
    /// Why the command would not use it, if so.
    pub(crate) unavailable: Option<String>,
    /// What is wrong with `/run` or `/run/cabane`.
    pub(crate) state_directory: Option<Weakness>,
    /// How starting it went; none if it was not tried.
    pub(crate) started: Option<Result<(), String>>,
}

/// A helper that is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Installed {
    /// Where.
    pub(crate) path: String,
    /// Whose.
    pub(crate) owner: u32,
    /// Its mode.
    pub(crate) mode: u32,
    /// The mount point of a file system on which set-uid has no effect.
    pub(crate) without_set_uid: Option<String>,
}

/// The policy of the helper.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum PolicyFacts {
    /// It is not there.
    #[default]
    Missing,
    /// A line is not understood.
    Mistake {
        /// The line.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// Others than root could change it.
    Weak(Weakness),
    /// It cannot be read.
    Unreadable(String),
    /// It can be used.
    Good {
        /// Each mount point, and what is wrong with it.
        mount_points: Vec<(String, Option<Weakness>)>,
        /// Whose images; no user's in particular if none.
        owners: Option<Vec<u32>>,
        /// Whether other images may be served through FUSE.
        fuse_images: bool,
        /// Which images the kernel may read because it checks their content.
        verified: VerifiedFacts,
        /// How many images of a user.
        images_per_user: u32,
        /// For how long unused images are held.
        idle_seconds: u64,
        /// Whether images may take the place of the root.
        root_images: bool,
        /// What the site shows in those and is not there.
        absent_binds: Vec<String>,
    },
}

/// Images that root has unpacked on the node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UnpackedFacts {
    /// Where they are.
    pub(crate) directory: String,
    /// What keeps it from being root's alone.
    pub(crate) weakness: Option<Weakness>,
    /// How many there are.
    pub(crate) count: usize,
    /// Whether the kernel can bind them as they have to be bound.
    pub(crate) in_kernel: bool,
}

/// Images whose content the kernel checks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VerifiedFacts {
    /// The list.
    pub(crate) list: String,
    /// What is wrong with it, if it is there.
    pub(crate) weakness: Option<Weakness>,
    /// How many images it has.
    pub(crate) count: usize,
    /// Whether signatures count.
    pub(crate) signatures: bool,
    /// Whether the kernel can do that.
    pub(crate) in_kernel: bool,
}

/// User namespaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UserNamespaces {
    /// How making one went, with a mount in it.
    pub(crate) trial: Trial,
    /// `user.max_user_namespaces`.
    pub(crate) most: Option<u64>,
    /// `kernel.unprivileged_userns_clone`.
    pub(crate) unprivileged: Option<u64>,
    /// `kernel.apparmor_restrict_unprivileged_userns`.
    pub(crate) restricted: Option<u64>,
}

/// A program of the system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Program {
    /// Where it is.
    pub(crate) path: String,
    /// Its version, if it tells one.
    pub(crate) version: Option<String>,
}

/// FUSE.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fuse {
    /// Why `/dev/fuse` cannot be opened: the number of the error.
    pub(crate) device: Result<(), i32>,
    /// The program for squashfs.
    pub(crate) squashfs: Option<Program>,
    /// The program for EROFS.
    pub(crate) erofs: Option<Program>,
    /// How mounting a squashfs image went.
    pub(crate) squashfs_trial: Trial,
    /// How mounting an EROFS image went.
    pub(crate) erofs_trial: Trial,
}

/// Mounting as root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AsRoot {
    /// How mounting a squashfs image went.
    pub(crate) squashfs: Trial,
    /// How mounting an EROFS image went.
    pub(crate) erofs: Trial,
    /// How mounting an EROFS image without a loop device went.
    pub(crate) erofs_from_file: Trial,
}

/// Whether the kernel has something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Has {
    /// It was seen.
    Yes,
    /// It was refused.
    No,
    /// The caller may not try.
    Unknown,
}

/// The kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kernel {
    /// Its version.
    pub(crate) release: String,
    /// The calls `fsopen`, `fsmount`, and `move_mount`.
    pub(crate) new_mount_calls: Has,
    /// The call `openat2`.
    pub(crate) openat2: Has,
    /// Squashfs.
    pub(crate) squashfs: Has,
    /// EROFS.
    pub(crate) erofs: Has,
    /// Loop devices.
    pub(crate) loops: Loops,
}

/// Loop devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Loops {
    /// Whether `/dev/loop-control` is there.
    pub(crate) control: bool,
    /// The numbers of all devices.
    pub(crate) all: Vec<u32>,
    /// Those that are bound to a file, and the file.
    pub(crate) used: Vec<(u32, String)>,
}

/// Images that are held mounted for the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Held {
    /// Only root may look.
    Hidden,
    /// Nothing is held.
    Nothing,
    /// There is something in the way.
    Unreadable(String),
    /// So many.
    Images {
        /// Whose image each is: who needed it first.
        owners: Vec<u32>,
        /// For how long the image that is unused longest has not been started, in seconds.
        longest: u64,
    },
}

/// Where processes that share namespaces find each other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RendezvousPoints {
    /// The first directory that is the user's alone, or can be made so.
    pub(crate) place: Option<String>,
    /// Those that belong to others, or open to others.
    pub(crate) unsafe_places: Vec<String>,
}

/// A repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RepositoryFacts {
    /// There is nothing at its path.
    Missing,
    /// It cannot be opened.
    Unusable {
        /// Why not.
        reason: String,
        /// What can be done.
        hint: Option<String>,
    },
    /// It can be opened, but looking through it takes too long.
    TooLong,
    /// It can be used.
    Usable {
        /// The type of its file system.
        file_system: String,
        /// Whether the caller may change it.
        writable: bool,
        /// How many labels.
        labels: usize,
        /// How many images.
        images: usize,
        /// Free space in bytes.
        free: u64,
        /// What killed writers left.
        leftovers: usize,
        /// What else is wrong.
        damaged: Vec<String>,
    },
}

/// The environment of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SearchPath {
    /// The mount points of the images around it, and whether they are mounted.
    pub(crate) loaded: Vec<(String, bool)>,
    /// Variables of another tool.
    pub(crate) foreign: Vec<String>,
    /// What `PATH` holds under our names.
    pub(crate) names: OwnNames,
}

/// What `PATH` holds under our names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OwnNames {
    /// Different programs `cabane` in `PATH`.
    pub(crate) commands: Vec<String>,
    /// The program `uenv` in `PATH`, and whether it is this one.
    pub(crate) uenv: Option<(String, bool)>,
}

/// The configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Configuration {
    /// The files that were read.
    pub(crate) files: Vec<String>,
    /// What is wrong with them, with a variable or with an option.
    pub(crate) mistake: Option<Mistake>,
    /// The way to mount that is requested, if any, and where.
    pub(crate) wanted: Option<(&'static str, String)>,
}

/// A mistake in the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mistake {
    /// What is wrong.
    pub(crate) text: String,
    /// What can be done.
    pub(crate) hint: Option<String>,
}

/// A repository of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RepositoryEntry {
    /// Its name.
    pub(crate) name: String,
    /// Where it is.
    pub(crate) path: String,
    /// Where that is written.
    pub(crate) origin: String,
    /// Whether it is the user's own.
    pub(crate) is_default: bool,
    /// Why it is left out.
    pub(crate) unusable: Option<String>,
    /// What was seen; none if it is left out.
    pub(crate) facts: Option<Answer<RepositoryFacts>>,
}

/// A program that builds use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tool {
    /// Its name.
    pub(crate) name: &'static str,
    /// What it is for.
    pub(crate) purpose: &'static str,
    /// What was found.
    pub(crate) found: Answer<Option<Program>>,
}

/// How the helper is installed here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HelperRemedies {
    /// What installs it.
    pub(crate) missing: Remedy,
    /// What replaces one that is there.
    pub(crate) broken: Remedy,
}

/// Everything that was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Who asks.
    pub(crate) process: Process,
    /// Mounting as root; none if the caller is not root.
    pub(crate) as_root: Option<AsRoot>,
    /// The helper.
    pub(crate) helper: Answer<HelperFacts>,
    /// How it is installed.
    pub(crate) helper_remedies: HelperRemedies,
    /// User namespaces.
    pub(crate) user_namespaces: UserNamespaces,
    /// FUSE.
    pub(crate) fuse: Answer<Fuse>,
    /// The kernel.
    pub(crate) kernel: Answer<Kernel>,
    /// Held images.
    pub(crate) held: Answer<Held>,
    /// Unpacked images, if there is a directory for them.
    pub(crate) unpacked: Option<UnpackedFacts>,
    /// Where processes find each other.
    pub(crate) rendezvous_points: Answer<RendezvousPoints>,
    /// The configuration.
    pub(crate) configuration: Configuration,
    /// The repositories.
    pub(crate) repositories: Vec<RepositoryEntry>,
    /// The environment of the process.
    pub(crate) search_path: Answer<SearchPath>,
    /// Devices that containers can have.
    pub(crate) devices: Answer<DeviceFacts>,
    /// Programs that builds use.
    pub(crate) tools: Vec<Tool>,
}
