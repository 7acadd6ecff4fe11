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

mod chain;
mod database;
mod error;
mod files;
mod groups;
mod lower;
mod mirrors;
mod modules;
mod packages;
mod places;
mod sources;
mod specs;
mod stack;
mod views;

pub use chain::{InstalledCompiler, compiler_externals};
pub use database::{
    Arch, DATABASE, DATABASE_VERSIONS, DatabaseError, Dependency, DependencyParameters, Install,
    Installs, LOCK_VERSIONS, Spec, installs,
};
pub use error::LowerError;
pub use lower::lower;
pub use mirrors::{GUARDED, guarded_file, has_s3, is_guarded, variables};
pub use places::{BinaryCache, OwnPackages, Places, RepositoryPlace, Upstream};
pub use sources::{RECIPE_REPOSITORY, SYSTEM_REPOSITORY, package_repositories};
pub use stack::{
    CompilerNeed, Key, KeyPurpose, ModuleFiles, Sources, SpackEnvironment, SpackStack, StackView,
};
