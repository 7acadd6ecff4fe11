// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What was decided: which packages a stack has, where they come from, and why a package of
//! the system is not used.

use std::collections::BTreeMap;

use cabane_spack::Spec;
use serde::Serialize;

use super::watch::Watch;
use super::{SpackEngine, inputs, lock, unused};
use crate::Result;

/// The packages of a stack, before they are built.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Concretized {
    /// The packages, by name and version.
    pub packages: Vec<ConcretePackage>,
    /// Why packages are built although the system has them: the sentences that a build prints as
    /// warnings.
    pub not_chosen: Vec<String>,
}

/// A package of a stack.
#[derive(Clone, Debug, Serialize)]
pub struct ConcretePackage {
    /// The name.
    pub name: String,
    /// The version.
    pub version: String,
    /// The variants and flags, as Spack writes them.
    pub variants: String,
    /// The processors that it is built for.
    pub target: String,
    /// The hash that Spack knows it by.
    pub hash: String,
    /// Where it comes from.
    pub from: ComesFrom,
    /// Where it is, if it is of the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
}

/// Where a package comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ComesFrom {
    /// It is built, unless a cache elsewhere has it.
    Build,
    /// It was built before on this machine.
    Cache,
    /// The image has it on which this one is built.
    Base,
    /// The system has it.
    System,
}

/// Says what was decided, as far as it was before anything is built.
pub(super) fn read(engine: &SpackEngine) -> Result<Concretized> {
    let mut watch = Watch::new(engine);
    let mut all = BTreeMap::<String, Spec>::new();
    for environment in engine.stack().environments.iter().filter(|one| one.needs.is_empty()) {
        let path = inputs::lock_file(&engine.layout, &environment.name);
        watch.expect(&path)?;
        all.extend(lock::read(&path)?);
    }
    let mut packages: Vec<_> = all.iter().map(|(hash, one)| package(hash, one, &watch)).collect();
    packages.sort_by(|a, b| (&a.name, &a.version, &a.hash).cmp(&(&b.name, &b.version, &b.hash)));
    let not_chosen = unused::find(engine, &all).iter().map(ToString::to_string).collect();
    Ok(Concretized { packages, not_chosen })
}

fn package(hash: &str, spec: &Spec, watch: &Watch<'_>) -> ConcretePackage {
    let external = spec.external.as_ref();
    let prefix = external.and_then(|external| external.get("path")?.as_str());
    ConcretePackage {
        name: spec.name.clone(),
        version: spec.version.clone(),
        variants: spec.variants(),
        target: spec.target().to_owned(),
        hash: hash.to_owned(),
        from: match external {
            Some(_) => ComesFrom::System,
            None if watch.is_of_base(hash) => ComesFrom::Base,
            None if watch.has(hash) => ComesFrom::Cache,
            None => ComesFrom::Build,
        },
        prefix: prefix.map(str::to_owned),
    }
}
