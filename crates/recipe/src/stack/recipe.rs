// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the files of a recipe for Spack say, in the terms of format 3.

use std::collections::BTreeMap;

use cabane_view::ViewName;

use super::compiler_name::CompilerName;
use super::value::YamlMap;
use super::version::SpackVersion;
use super::written::WrittenSpec;
use crate::diagnostic::Diagnostic;
use crate::recipe::{EnvVars, Recipe, SpackConfig};

/// A recipe for Spack: all of its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackRecipe {
    /// What `config.yaml` says to every engine; `format` is that of the files.
    pub config: Recipe,
    /// What `config.yaml` says about Spack.
    pub spack: SpackConfig,
    /// The version of Spack, guessed from the name of its commit.
    pub version: SpackVersion,
    /// `compilers.yaml`.
    pub compilers: Compilers,
    /// `environments.yaml`, in its order.
    pub environments: Vec<StackEnvironment>,
    /// `modules.yaml`, if there are module files.
    pub modules: Option<StackModules>,
    /// The packages of `packages.yaml`.
    pub packages: YamlMap,
    /// What its author should know, though nothing is wrong.
    pub remarks: Vec<Diagnostic>,
    /// The specs with their places, for looking up what they name.
    pub written: Vec<WrittenSpec>,
}

impl StackRecipe {
    /// Returns all views with the environments that they belong to.
    pub fn views(&self) -> impl Iterator<Item = (&StackEnvironment, &StackView)> {
        self.environments
            .iter()
            .flat_map(|environment| environment.views.iter().map(move |view| (environment, view)))
    }
}

/// The compilers of a recipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compilers {
    /// Where each comes from. Every recipe has gcc.
    pub sources: BTreeMap<CompilerName, CompilerSource>,
}

impl Compilers {
    /// Tells whether the gcc of the system is used.
    #[must_use]
    pub fn use_system_gcc(&self) -> bool {
        self.request(CompilerName::GCC).is_none()
    }

    /// Tells whether a recipe has a compiler.
    #[must_use]
    pub fn has(&self, name: CompilerName) -> bool {
        self.sources.contains_key(&name)
    }

    /// Returns the compilers that are built, in their order.
    pub fn built(&self) -> impl Iterator<Item = (CompilerName, &CompilerRequest)> {
        self.sources.keys().filter_map(|name| Some((*name, self.request(*name)?)))
    }

    /// Returns what is reported about a compiler that is built.
    #[must_use]
    pub fn request(&self, name: CompilerName) -> Option<&CompilerRequest> {
        match self.sources.get(&name)? {
            CompilerSource::System => None,
            CompilerSource::Built(request) => Some(request),
        }
    }
}

/// Where a compiler comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompilerSource {
    /// It is the one of the system, which its configuration describes.
    System,
    /// It is built first.
    Built(CompilerRequest),
}

/// A compiler that is built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompilerRequest {
    /// The version: `14.2`.
    pub version: String,
    /// The variants, in the place of the usual ones.
    pub spec: Option<String>,
}

impl CompilerRequest {
    /// Returns the spec of the compiler.
    #[must_use]
    pub fn full_spec(&self, name: CompilerName) -> String {
        let variants = self.spec.as_deref().unwrap_or(name.default_variants());
        let spec = format!("{}@{} {variants}", name.package(), self.version);
        spec.trim_end().to_owned()
    }
}

/// Packages that are built together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackEnvironment {
    /// Its name.
    pub name: String,
    /// The compilers, at least one. The first is used where a spec says nothing.
    pub compilers: Vec<CompilerName>,
    /// The MPI.
    pub mpi: Option<MpiRequest>,
    /// What is installed beside the MPI, in the place of what the system says.
    pub network_specs: Option<Vec<String>>,
    /// What is installed.
    pub specs: Vec<String>,
    /// Variants that all packages prefer.
    pub variants: Vec<String>,
    /// What all packages prefer, in the place of the first compiler.
    pub prefer: Option<Vec<String>>,
    /// Whether deprecated versions may be used.
    pub deprecated: bool,
    /// Whether packages are the same for all specs.
    pub unify: Unify,
    /// How often a package may occur.
    pub duplicates: Duplicates,
    /// Packages that are looked for on the system. Only formats 1 and 2 do so.
    pub packages: Vec<String>,
    /// Its views, in their order.
    pub views: Vec<StackView>,
}

/// The MPI of an environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MpiRequest {
    /// The name of the package.
    pub package: String,
    /// The whole spec.
    pub spec: String,
}

/// Whether packages are the same for all specs of an environment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unify {
    /// Each package is there once.
    #[default]
    Yes,
    /// Each package is there as seldom as possible.
    WhenPossible,
    /// Every spec is for itself.
    No,
}

/// How often a package may occur below one spec.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Duplicates {
    /// Only few tools may be there twice.
    #[default]
    Minimal,
    /// What is needed to build may be there twice.
    Full,
    /// Nothing is there twice.
    None,
}

impl Duplicates {
    /// Returns the word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Minimal => "minimal",
            Self::Full => "full",
            Self::None => "none",
        }
    }
}

/// A view of an environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackView {
    /// Its name; no two of a recipe have the same.
    pub name: ViewName,
    /// Which packages are linked.
    pub link: Link,
    /// Only these packages.
    pub select: Vec<String>,
    /// Not these packages.
    pub exclude: Vec<String>,
    /// Where packages are put; keys are specs.
    pub projections: YamlMap,
    /// Whether the compilers of the environment are linked.
    pub add_compilers: bool,
    /// Variables that get directories of the view, if these exist.
    pub prefix_paths: Vec<(String, Vec<String>)>,
    /// Variables that it changes besides.
    pub env_vars: EnvVars,
}

/// Which packages a view links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Link {
    /// Those that the environment names.
    #[default]
    Roots,
    /// Those and what they need.
    All,
    /// Those and what they need to run.
    Run,
}

impl Link {
    /// Returns the word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Roots => "roots",
            Self::All => "all",
            Self::Run => "run",
        }
    }
}

/// What `modules.yaml` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackModules {
    /// The kinds of module files.
    pub kinds: Vec<ModuleKind>,
    /// What is below `modules:`.
    pub modules: YamlMap,
}

/// A kind of module files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ModuleKind {
    /// Files in Tcl, which every module system reads.
    Tcl,
    /// Files in Lua, with a hierarchy.
    Lmod,
}

impl ModuleKind {
    /// Returns the word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tcl => "tcl",
            Self::Lmod => "lmod",
        }
    }
}
