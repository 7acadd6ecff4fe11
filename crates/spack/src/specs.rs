// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The specs of an environment, and what holds for all of its packages.

use cabane_recipe::{
    CompilerName, Compilers, StackEnvironment, StackRecipe, SystemConfig, Unify, Yaml, YamlMap,
};

use crate::LowerError;

/// The languages of compilers, as Spack names them.
const LANGUAGES: [&str; 3] = ["c", "cxx", "fortran"];

/// Returns what is installed: what the environment names, its MPI, and what
/// belongs to it.
pub(crate) fn all(
    environment: &StackEnvironment,
    system: &SystemConfig,
) -> Result<Vec<String>, LowerError> {
    let mut specs = environment.specs.clone();
    if let Some(mpi) = &environment.mpi {
        let known = system.mpi(&mpi.package).ok_or_else(|| LowerError::NoMpi {
            environment: environment.name.clone(),
            mpi: mpi.package.clone(),
            known: system.mpis.iter().map(|mpi| mpi.package.clone()).collect(),
        })?;
        specs.push(mpi.spec.clone());
        let beside = environment.network_specs.as_ref().unwrap_or(&known.specs);
        specs.extend_from_slice(beside);
    }
    Ok(specs)
}

/// Returns `packages:` of an environment: what all packages prefer, and its MPI.
///
/// The compilers of a recipe on a base are preferred as providers of languages. As a preference of all
/// packages, Spack 1.3 applies them before it considers what is built, and takes no package of a base
/// for satisfying them: each package whose default version or variants changed would be built again.
pub(crate) fn packages(
    recipe: &StackRecipe,
    environment: &StackEnvironment,
    compilers: Option<&Compilers>,
) -> YamlMap {
    let has_base = recipe.spack.base.is_some();
    let mut packages = YamlMap::new();
    let mut prefer = environment.prefer.clone().unwrap_or_default();
    if environment.prefer.is_none() {
        let preferred = preferred_compilers(&environment.compilers, compilers);
        if has_base {
            for (language, compiler) in &preferred {
                packages
                    .insert(language, Yaml::map([("prefer", Yaml::texts([compiler.as_str()]))]));
            }
        } else if !preferred.is_empty() {
            let texts = preferred
                .iter()
                .map(|(language, compiler)| format!("%[when=%{language}] {language}={compiler}"));
            prefer.push(texts.collect::<Vec<_>>().join(" "));
        }
    }
    let mut all = YamlMap::new();
    if !prefer.is_empty() {
        all.insert("prefer", list(&prefer));
    }
    if !environment.variants.is_empty() {
        all.insert("variants", list(&environment.variants));
    }
    if !all.is_empty() {
        packages.insert("all", all);
    }
    if let Some(mpi) = &environment.mpi {
        packages.insert("mpi", Yaml::map([("require", mpi.package.as_str().into())]));
    }
    packages
}

/// Returns each language with the first of the compilers that compiles it.
///
/// A compiler that is built has its version, to tell it from one of the system.
fn preferred_compilers(
    names: &[CompilerName],
    compilers: Option<&Compilers>,
) -> Vec<(&'static str, String)> {
    let name_and_version = |name: &CompilerName| {
        let request = compilers.and_then(|compilers| compilers.request(*name));
        let version = request.map(|request| format!("@{}", request.version));
        name.in_specs().to_owned() + &version.unwrap_or_default()
    };
    let preferred = LANGUAGES.into_iter().filter_map(|language| {
        let has_it = |name: &&CompilerName| name.programs().any(|(one, _)| one == language);
        Some((language, name_and_version(names.iter().find(has_it)?)))
    });
    preferred.collect()
}

/// Returns `concretizer:` of an environment.
pub(crate) fn concretizer(environment: &StackEnvironment, reuse: Yaml) -> Yaml {
    let unify = match environment.unify {
        Unify::Yes => true.into(),
        Unify::No => false.into(),
        Unify::WhenPossible => "when_possible".into(),
    };
    let strategy = environment.duplicates.as_str().into();
    Yaml::map([
        ("reuse", reuse),
        ("unify", unify),
        ("duplicates", Yaml::map([("strategy", strategy)])),
    ])
}

/// Returns `reuse:`: packages of the images on which a recipe builds, and no others. The store of the
/// build is empty then, and what build caches have decides nothing.
pub(crate) fn reuse(recipe: &StackRecipe) -> Yaml {
    if recipe.spack.base.is_none() {
        return false.into();
    }
    let local = Yaml::map([("type", "local".into())]);
    Yaml::map([("from", vec![local].into())])
}

/// Returns `concretizer:` for a compiler.
pub(crate) fn compiler_concretizer(reuse: Yaml) -> Yaml {
    Yaml::map([("reuse", reuse), ("unify", "when_possible".into())])
}

pub(crate) fn list(texts: &[String]) -> Yaml {
    Yaml::texts(texts.iter().map(String::as_str))
}
