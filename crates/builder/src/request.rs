// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the caller must say: every path, program and setting of a build.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use cabane_label::MountPoint;
use cabane_mount::{Backend, FusePrograms, ImageFormat};

use crate::bases::Pins;
use crate::cache::PackageKeys;
use crate::containers::Containers;
use crate::workers::WorkerCommand;

/// A build that is requested.
#[derive(Clone, Debug)]
pub struct BuildRequest {
    /// The directory of the recipe.
    pub recipe_dir: PathBuf,
    /// Where the build keeps its steps, logs and results. One directory per
    /// recipe; builds in the same directory wait for each other.
    pub build_dir: PathBuf,
    /// The configuration of the system that is built for, for engines that need one.
    pub system_dir: Option<PathBuf>,
    /// Mirrors in the place of those of the system.
    pub mirrors: Option<PathBuf>,
    /// The variables that the paths of mirrors may name.
    pub path_variables: BTreeMap<String, String>,
    /// What was downloaded, for later builds of any recipe.
    pub cache_dir: PathBuf,
    /// The cache directory of others: packages come from there, and nothing is changed.
    pub shared_cache: Option<PathBuf>,
    /// Whose signatures packages of that cache must have; none if its permissions protect it.
    pub package_keys: Option<Arc<dyn PackageKeys>>,
    /// The directory that the tree is built for and put into, instead of an image.
    pub install: Option<Install>,
    /// The format of the image.
    pub format: ImageFormat,
    /// The programs that do the work.
    pub programs: Programs,
    /// Variables that reach the programs in the sandbox: proxies, certificates,
    /// settings of the package index. A value that names a file below the hidden
    /// home makes that file visible.
    pub passed_variables: BTreeMap<String, String>,
    /// The directory that must not influence a build: the user's home.
    pub hidden_home: Option<PathBuf>,
    /// Where interpreters are looked for, after `/usr/bin` and `/usr/local/bin`;
    /// what is below the hidden home is passed over.
    pub search_path: Vec<PathBuf>,
    /// The time that every file in the image carries, in seconds since 1970.
    pub epoch: u32,
    /// How many processes may work at a time.
    pub jobs: usize,
    /// How the sandbox is made.
    pub backend: Backend,
    /// The programs that serve images in the sandbox where the kernel may not read them.
    pub fuse: FusePrograms,
    /// What some bases of the recipe mean in this build. Others mean what they mean now.
    pub pins: Pins,
    /// Where container images come from, for the engine that needs them.
    pub containers: Option<Arc<dyn Containers>>,
    /// Whether commands of a recipe, and downloads of EasyBuild, may use the network.
    pub command_network: bool,
    /// Whether the debug symbols become an image of their own.
    pub debug_symbols: bool,
    /// Which steps are done.
    pub part: Part,
    /// Keep what a build removes when it is done: what it had in memory, and the sources
    /// and object files of packages.
    pub keep: bool,
    /// Where a build may happen in memory if it fits; otherwise it happens on the disk.
    pub memory: Option<InMemory>,
    /// Processes on other nodes that build packages of a stack; none if all are built here. All must see the
    /// cache directory, the recipe, and the configuration of the system.
    pub workers: Vec<WorkerCommand>,
}

/// Memory that a build may use.
#[derive(Clone, Debug)]
pub struct InMemory {
    /// A directory whose files are in memory.
    pub directory: PathBuf,
    /// How many bytes the job may use in which this happens, if it is one.
    pub job_limit: Option<u64>,
}

/// Which steps of a build are done, by their names.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// This one and those after it are done again, changed or not.
    pub from: Option<String>,
    /// Those after this one are left out.
    pub until: Option<String>,
}

/// A directory that gets a tree.
#[derive(Clone, Debug)]
pub struct Install {
    /// Where it is; takes the place of the mount point that the recipe names.
    pub directory: MountPoint,
    /// Whether what an earlier build put there is replaced.
    pub replace: bool,
}

/// The programs that do the work, as absolute paths; `None` if not found.
#[derive(Clone, Debug, Default)]
pub struct Programs {
    /// `uv`, for Python packages; if none is named, one is found or fetched.
    pub uv: Option<PathBuf>,
    /// A Python that has Spack's solver; one is made if there is none.
    pub spack_python: Option<PathBuf>,
    /// A Python that has EasyBuild; one is made if there is none.
    pub easybuild_python: Option<PathBuf>,
    /// `git`, for what comes from repositories.
    pub git: Option<PathBuf>,
    /// `tar`, for what comes from archives.
    pub tar: Option<PathBuf>,
    /// `curl`, for archives that are elsewhere.
    pub curl: Option<PathBuf>,
    /// `mksquashfs`, for images in squashfs.
    pub mksquashfs: Option<PathBuf>,
    /// `mkfs.erofs`, for images in EROFS.
    pub mkfs_erofs: Option<PathBuf>,
    /// What the command `module` starts, for views from module files: `lmod` or `modulecmd.tcl`.
    pub modules: Option<PathBuf>,
    /// `objcopy`, for debug symbols.
    pub objcopy: Option<PathBuf>,
}
