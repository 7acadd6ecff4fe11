// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From a recipe to an image: the plan, the sandbox, the engines, packing.
//!
//! [`plan()`] reads a recipe and returns a [`Plan`]: data that can be printed and
//! compared with what has been done already. [`execute()`] does what is left. The
//! reasons for the design are in `docs/design/0004-builds.md`.

#![forbid(unsafe_code)]

mod bases;
mod build_context;
mod cache;
mod container;
mod containers;
mod contents;
mod debug_symbols;
mod deliver;
mod disk;
mod easybuild;
mod edit_packages;
mod engine;
mod error;
mod execute;
mod fingerprint;
mod git_commit;
mod inside;
mod job;
mod layout;
mod leftovers;
mod lock_packages;
mod marker;
mod materials;
mod memory;
mod metadata;
mod modules;
mod new_recipe;
mod own;
mod own_program;
mod pack;
mod package_log;
mod place;
mod plan;
mod process;
mod program;
mod progress;
mod python;
mod request;
mod sandbox;
mod spack;
mod step;
mod tree;
mod turn;
mod workers;

pub use bases::{Base, Pins, bases};
pub use cabane_mount::ImageFormat;
pub use cabane_recipe::DEFAULT_EPOCH;
pub use cache::{
    CachedItem, Cleared, Damage, InUse, Inventory, ItemKind, Limits, NotRemoved, PackageKeys,
    PackageSigner, PushCache, Pushed, Untrusted, Verified, clear as clear_cache, inventory,
    push as push_cache, verify as verify_cache,
};
pub use containers::{
    AddedImage, AddedImages, Containers, FoundContainer, StackBase, UseContainer,
};
pub use disk::remove as remove_tree;
pub use edit_packages::{EditedRecipe, PackageAction, PackageEdit, edit_packages};
pub use error::{BuildError, Failure, Result};
pub use execute::{Built, execute, port_packages};
pub use fingerprint::of_bytes as digest_of;
pub use leftovers::{CACHE_DIRECTORIES, build_directories, is_under_way, size_of};
pub use lock_packages::{LockWish, Locked, VersionChange, lock_packages};
pub use materials::{Material, Materials, materials};
pub use new_recipe::{RecipeKind, new_recipe};
pub use place::left_in_memory;
pub use plan::{Plan, concretized, plan, read_recipe};
pub use progress::{Origin, PackageChange, PackageEvent, Progress};
pub use request::{BuildRequest, InMemory, Install, Part, Programs};
pub use spack::{
    ComesFrom, ConcretePackage, Concretized, NameLookUp, Names, PortedPackages, StackTexts,
    WorkerTask, has_old_packages, read_system, work_on_packages,
};
pub use step::{State, Step, StepName};
pub use workers::WorkerCommand;
