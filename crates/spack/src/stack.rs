// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Everything that Spack gets, as data.

use std::collections::BTreeMap;

use cabane_recipe::{
    Cleanup, CompilerName, EnvVars, GitSource, Link, ModuleKind, PackageRepository, SpackVersion,
};
use cabane_view::ViewName;
use serde::Serialize;

/// What Spack gets to build a recipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpackStack {
    /// Which Spack and which packages.
    pub sources: Sources,
    /// The version of Spack, as far as it is known.
    pub version: SpackVersion,
    /// The environments of Spack, in the order in which they are built: one with
    /// groups of specs, or before Spack 1.2 a chain.
    pub environments: Vec<SpackEnvironment>,
    /// The files of the system scope, by name. A name may have a directory.
    pub config: BTreeMap<String, String>,
    /// The files in `config` of the image, for those who use it as an upstream.
    pub upstream: BTreeMap<String, String>,
    /// The views of the recipe.
    pub views: Vec<StackView>,
    /// The module files, if there are any.
    pub modules: Option<ModuleFiles>,
    /// The compilers that are built, in their order.
    pub compilers: Vec<CompilerName>,
    /// What is removed after the build.
    pub cleanup: Cleanup,
    /// Keys that Spack trusts before anything is installed.
    pub keys: Vec<Key>,
    /// The mirror to which packages go when they are built, if they are signed.
    pub push_to: Option<String>,
}

/// Which Spack and which packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sources {
    /// Spack itself.
    pub spack: GitSource,
    /// The package repositories, in the order in which they are searched; those of
    /// the recipe and of the system come before.
    pub repositories: Vec<PackageRepository>,
}

/// An environment of Spack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SpackEnvironment {
    /// Its name.
    pub name: String,
    /// The environments that are installed before.
    pub needs: Vec<String>,
    /// Its `spack.yaml`.
    #[serde(skip)]
    pub spack_yaml: String,
    /// Whether a person requested it, and not a compiler.
    pub is_explicit: bool,
    /// Compilers of the environments in `needs` that must be described in a
    /// `packages.yaml` beside `spack.yaml` before this one is concretized;
    /// [`compiler_externals`](crate::compiler_externals) writes it. If there are
    /// none, and nothing is looked for, the file need only be there:
    /// `packages: {}`.
    #[serde(skip)]
    pub compilers: Vec<CompilerNeed>,
    /// Packages to look for on the system with `spack external find
    /// --not-buildable`, before it is concretized. What is not found is built.
    pub external_find: Vec<String>,
}

/// A compiler that an environment gets from another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompilerNeed {
    /// The environment in which it is installed.
    pub environment: String,
    /// The compiler.
    pub compiler: CompilerName,
}

/// A view, for the code that makes its variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackView {
    /// Its name.
    pub name: ViewName,
    /// The environment of the recipe to which it belongs.
    pub environment: String,
    /// The environment of Spack that makes it.
    pub spack_environment: String,
    /// Where it is in the image.
    pub root: String,
    /// Which packages are linked.
    pub link: Link,
    /// Whether compilers are linked into `bin`.
    pub add_compilers: bool,
    /// The compilers of the environment.
    pub compilers: Vec<CompilerName>,
    /// Variables that get directories of the view, if these exist.
    pub prefix_paths: Vec<(String, Vec<String>)>,
    /// Variables that it changes besides.
    pub env_vars: EnvVars,
}

/// The module files of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleFiles {
    /// The kinds, each made by `spack module KIND refresh`.
    pub kinds: Vec<ModuleKind>,
    /// The `modules.yaml` of the scope in which they are made.
    pub modules_yaml: String,
}

/// A key of a build cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The mirror that it belongs to.
    pub mirror: String,
    /// What it is for.
    pub purpose: KeyPurpose,
    /// A path, relative to the file that names it, or the key itself in base 64.
    pub source: String,
}

/// What a key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPurpose {
    /// It signs what is put into the cache.
    Sign,
    /// It verifies what is fetched.
    Verify,
}
