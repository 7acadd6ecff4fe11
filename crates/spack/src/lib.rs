// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What Spack gets, from a recipe and a system to configuration files, and what its
//! database says about what became of it.
//!
//! [`lower()`] takes a recipe and a system that have been read, and the places at
//! which things lie during the build, and returns a [`SpackStack`]: data that can
//! be printed and compared; [`installs()`] reads the database of a store, from its bytes.
//! Nothing is opened and nothing is run here.

#![forbid(unsafe_code)]

mod cache_name;
mod chain;
mod database;
mod error;
mod externals;
mod files;
mod groups;
mod look_up;
mod look_up_values;
mod lower;
mod mirrors;
mod modules;
mod package_text;
mod packages;
mod places;
mod python;
mod repository;
mod simple_spec;
mod sources;
mod specs;
mod stack;
mod variant_values;
mod versions;
mod views;

pub use cache_name::{cache_name, mount_point_of_cache};
pub use chain::{InstalledCompiler, compiler_externals};
pub use database::{
    Arch, DATABASE, DATABASE_VERSIONS, DatabaseError, Dependency, DependencyParameters, Install,
    Installs, LOCK_VERSIONS, Spec, installs,
};
pub use error::LowerError;
pub use externals::{Asking, Reason, UnusedExternal, unused_externals};
pub use look_up::{NameFinding, look_up, look_up_system};
pub use lower::{lower, settings_of_packages};
pub use mirrors::{GUARDED, guarded_file, has_s3, is_guarded, mirrors_file, variables};
pub use places::{BinaryCache, OwnPackages, Places, RepositoryPlace, Upstream};
pub use repository::{PackageFacts, PackageIndex, RepositoryFiles, declared, is_virtual};
pub use simple_spec::may_be;
pub use sources::{RECIPE_REPOSITORY, SYSTEM_REPOSITORY, package_repositories};
pub use stack::{
    CompilerNeed, Key, KeyPurpose, ModuleFiles, Sources, SpackEnvironment, SpackStack, StackView,
};
pub use variant_values::Values;
pub use versions::nearest as nearest_version;
