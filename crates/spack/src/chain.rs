// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Spack 1.0 and 1.1: a chain of environments, as there are no groups of specs.
//!
//! gcc is built first, with the gcc of the system; the other compilers with it;
//! then each environment with its compilers. Where a compiler lies is known when
//! it is installed, so every environment includes a `packages.yaml` that is written
//! before it is concretized.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cabane_recipe::{
    CompilerName, FormatVersion, StackEnvironment, StackRecipe, SystemConfig, Yaml, YamlMap,
};

use crate::files::path;
use crate::stack::{CompilerNeed, SpackEnvironment};
use crate::{LowerError, packages, specs, views};

/// The variants that gcc gets when it is built. With Spack 1.0 and 1.1 it was always
/// trained with what it compiles first, and its hash shall stay what it was.
const GCC_VARIANTS: &str = "build_type=Release +bootstrap +profiled +strip ~binutils";

/// The file beside `spack.yaml` that describes compilers.
const INCLUDED: &str = "packages.yaml";

/// Returns the environments in the order in which they are built.
pub(crate) fn environments(
    recipe: &StackRecipe,
    system: &SystemConfig,
) -> Result<Vec<SpackEnvironment>, LowerError> {
    let mut chain = Vec::new();
    for (name, request) in recipe.compilers.built() {
        chain.push(compiler(recipe, system, name, &request.full_spec(name))?);
    }
    for environment in &recipe.environments {
        chain.push(one(recipe, system, environment)?);
    }
    Ok(chain)
}

fn compiler(
    recipe: &StackRecipe,
    system: &SystemConfig,
    name: CompilerName,
    spec: &str,
) -> Result<SpackEnvironment, LowerError> {
    let mut spack = start();
    spack.insert("concretizer", specs::compiler_concretizer(specs::reuse(recipe)));
    spack.insert("specs", Yaml::texts([spec]));
    spack.insert("view", false);
    if name == CompilerName::GCC {
        let Some(Yaml::Map(mut gcc)) = packages::merged(recipe, system).remove("gcc") else {
            return Err(LowerError::NoGcc);
        };
        gcc.insert("variants", Yaml::texts([GCC_VARIANTS]));
        spack.insert("packages", Yaml::map([("gcc", gcc.into())]));
    }
    let builder = (name != CompilerName::GCC && !recipe.compilers.use_system_gcc())
        .then_some(CompilerName::GCC);
    Ok(SpackEnvironment {
        name: environment_of(name),
        needs: builder.into_iter().map(environment_of).collect(),
        spack_yaml: Yaml::map([("spack", spack.into())]).to_string(),
        is_explicit: false,
        compilers: builder.into_iter().map(need).collect(),
        external_find: Vec::new(),
    })
}

fn one(
    recipe: &StackRecipe,
    system: &SystemConfig,
    environment: &StackEnvironment,
) -> Result<SpackEnvironment, LowerError> {
    let mut spack = start();
    let deprecated = environment.deprecated.into();
    spack.insert("config", Yaml::map([("deprecated", deprecated)]));
    spack.insert("concretizer", specs::concretizer(environment, specs::reuse(recipe)));
    // Only the compilers of the environment are known to it, so no version is
    // needed to tell them apart.
    let wanted = specs::packages(recipe, environment, None);
    if !wanted.is_empty() {
        spack.insert("packages", wanted);
    }
    spack.insert("specs", specs::list(&specs::all(environment, system)?));
    let views: YamlMap = environment
        .views
        .iter()
        .map(|view| (view.name.as_str(), views::for_spack(recipe, view, None)))
        .collect();
    spack.insert("view", views::or_none(views));
    let is_built = |name: &CompilerName| recipe.compilers.request(*name).is_some();
    let built: Vec<CompilerName> = environment.compilers.iter().copied().filter(is_built).collect();
    let external_find = match recipe.config.format {
        FormatVersion::V3 => Vec::new(),
        FormatVersion::V1 | FormatVersion::V2 => environment.packages.clone(),
    };
    Ok(SpackEnvironment {
        name: environment.name.clone(),
        needs: built.iter().copied().map(environment_of).collect(),
        spack_yaml: Yaml::map([("spack", spack.into())]).to_string(),
        is_explicit: true,
        compilers: built.into_iter().map(need).collect(),
        external_find,
    })
}

fn start() -> YamlMap {
    [("include", Yaml::texts([INCLUDED]))].into_iter().collect()
}

/// The environment in which a compiler is built. No environment of a recipe has
/// its name.
fn environment_of(name: CompilerName) -> String {
    name.package().to_owned()
}

fn need(compiler: CompilerName) -> CompilerNeed {
    CompilerNeed { environment: environment_of(compiler), compiler }
}

/// A compiler that was built, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledCompiler {
    /// The compiler.
    pub compiler: CompilerName,
    /// Its spec with version and variants, as Spack tells it:
    /// `gcc@14.2.0 languages='c,c++,fortran'`.
    pub spec: String,
    /// Where it is.
    pub prefix: PathBuf,
    /// Its programs by language: `c`, `cxx`, `fortran`.
    pub programs: BTreeMap<String, PathBuf>,
}

/// Returns the `packages.yaml` that describes compilers to an environment.
#[must_use]
pub fn compiler_externals(compilers: &[InstalledCompiler]) -> String {
    let mut described = YamlMap::new();
    for installed in compilers {
        let programs: YamlMap = installed
            .programs
            .iter()
            .map(|(language, program)| (language.as_str(), path(program)))
            .collect();
        let external = Yaml::map([
            ("spec", installed.spec.as_str().into()),
            ("prefix", path(&installed.prefix)),
            ("extra_attributes", Yaml::map([("compilers", programs.into())])),
        ]);
        let package = installed.compiler.package();
        let known = described.get(package).and_then(|one| one.at(&["externals"])?.as_list());
        let mut externals = known.unwrap_or_default().to_vec();
        externals.push(external);
        let one = [("externals", externals.into()), ("buildable", false.into())];
        described.insert(package, Yaml::map(one));
    }
    packages::file(described)
}
