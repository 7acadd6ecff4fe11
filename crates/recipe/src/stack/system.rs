// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a site says about a system: its packages, its network, its package
//! repositories.

use std::path::PathBuf;

use super::mirrors::Mirrors;
use super::settings::SpackSettings;
use super::spec_fields::{self, Wanted};
use super::value::{Yaml, YamlMap};
use super::written::{SpecPurpose, WrittenSpec, WrittenWord};
use super::{keys, packages};
use crate::ask::{Field, each};
use crate::node::{Entry, Node};
use crate::report::Report;

/// The configuration of a system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SystemConfig {
    /// The packages of its `packages.yaml`; gcc is among them.
    pub packages: YamlMap,
    /// The packages of its `network.yaml`.
    pub network_packages: YamlMap,
    /// The MPIs that recipes can ask for.
    pub mpis: Vec<MpiDefaults>,
    /// Its package repositories, relative to its directory or absolute. The first
    /// that has a package is used.
    pub package_repositories: Vec<PathBuf>,
    /// Its mirrors and caches.
    pub mirrors: Mirrors,
    /// Settings that Spack gets as they are.
    pub settings: SpackSettings,
    /// The specs in its files, with their places.
    pub written: Vec<WrittenSpec>,
}

impl SystemConfig {
    /// Returns what is known about an MPI.
    #[must_use]
    pub fn mpi(&self, package: &str) -> Option<&MpiDefaults> {
        self.mpis.iter().find(|mpi| mpi.package == package)
    }
}

/// An MPI of a system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MpiDefaults {
    /// The name of its package.
    pub package: String,
    /// What is installed beside it, unless a recipe says otherwise.
    pub specs: Vec<String>,
}

/// Reads `packages.yaml` of a system, in which gcc must be described.
pub(super) fn system_packages(report: &Report<'_>, root: &Node) -> Option<YamlMap> {
    let packages = packages::read(report, root)?;
    let externals =
        packages.get("gcc").and_then(|gcc| gcc.at(&["externals"])).and_then(Yaml::as_list);
    let Some(externals) = externals.filter(|externals| !externals.is_empty()) else {
        let message = "the gcc of the system is not described, and nothing can be built without";
        return report.refuse(None, message, GCC);
    };
    let has_compilers = |gcc: &Yaml| gcc.at(&["extra_attributes", "compilers", "c"]).is_some();
    if !externals.iter().any(has_compilers) {
        let message = "the gcc of the system does not say which programs are its compilers";
        return report.refuse(None, message, GCC);
    }
    Some(packages)
}

const GCC: &str = "describe it below `packages:` such as\n  gcc:\n    externals:\n    \
    - spec: gcc@12.2.0 languages='c,c++,fortran'\n      prefix: /usr\n      extra_attributes:\n        \
    compilers: {c: /usr/bin/gcc, cxx: /usr/bin/g++, fortran: /usr/bin/gfortran}";

/// What `network.yaml` says.
#[derive(Debug, Default)]
pub(super) struct NetworkFile {
    pub(super) packages: YamlMap,
    pub(super) mpis: Vec<MpiDefaults>,
}

const NETWORK_EXAMPLE: &str = "begin with the MPIs of the system:\nmpi:\n  mpich:\n    specs: []";

pub(super) fn network(report: &Report<'_>, root: &Node) -> Option<NetworkFile> {
    let file = report.file_with(root, NETWORK_EXAMPLE, &keys::names(keys::SYSTEM_NETWORK))?;
    let packages = file.given_or("packages", YamlMap::new(), packages::section);
    let mpis = file.chosen("mpi", mpi);
    Some(NetworkFile { packages: packages?, mpis: mpis? })
}

fn mpi(report: &Report<'_>, entry: &Entry) -> Option<MpiDefaults> {
    let section = Field::named(report, "the MPI", entry).section_with(&["specs"])?;
    let name = WrittenWord { text: entry.key.clone(), place: entry.key_place.into() };
    report.note_spec(WrittenSpec::naming(name, None));
    let specs = match section.given("specs") {
        Some(field) => spec_fields::specs(&field, Wanted::Package)?,
        None => Vec::new(),
    };
    for spec in &specs {
        spec.note(SpecPurpose::Choose);
    }
    Some(MpiDefaults {
        package: entry.key.clone(),
        specs: specs.iter().map(|spec| spec.text.to_owned()).collect(),
    })
}

const REPOS_EXAMPLE: &str = "list the package repositories of the system: `repos: [packages]`";

pub(super) fn repos(report: &Report<'_>, root: &Node) -> Option<Vec<PathBuf>> {
    let file = report.file_with(root, REPOS_EXAMPLE, &keys::names(keys::SYSTEM_REPOS))?;
    let field = file.require("repos", REPOS_EXAMPLE)?;
    each(field.items("a package repository")?, |field| {
        let is_path =
            |text: &str| !text.is_empty() && !text.contains("://") && !text.starts_with(['~', '$']);
        let hint = "write a path, relative to the directory of this file or absolute";
        let problem = "is not the path of a package repository";
        field.text_if(is_path, problem, hint).map(PathBuf::from)
    })
}
