// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The description of a pipeline: which recipes are built for which systems, and where the images go.
//!
//! The sections `clusters` and `uenvs` are those of CSCS's `alps-uenv`, whose `config.yaml` is read
//! unchanged. All other keys are of Cabane, and optional.

mod read;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use cabane_label::{
    ChannelName, LabelPattern, MountPoint, Name, Namespace, System, Tag, Uarch, Version,
};

use crate::Placed;
use crate::diagnostic::Diagnostic;

pub use read::parse_pipeline;

/// What the file of a pipeline says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipelineFile {
    /// The directory of the recipes, relative to the file; each name has a directory in it.
    pub recipes: PathBuf,
    /// The directory with the configuration of the systems, relative to the file; each system has a
    /// directory in it.
    pub systems: Option<PathBuf>,
    /// The part of the registry to which images are pushed when they are built.
    pub publish: Namespace,
    /// Where images go that pass.
    pub promote: Option<PromoteTarget>,
    /// The website that shows the images, if there is one.
    pub catalogue: Option<CatalogueTarget>,
    /// What a build needs, where a target says nothing else.
    pub build: Resources,
    /// What checks need, where a target says nothing else.
    pub check: Resources,
    /// The suites of `ReFrame`, by name.
    pub suites: BTreeMap<String, SuiteEntry>,
    /// The systems, by name.
    pub clusters: BTreeMap<System, Cluster>,
    /// The environments, in the order of the file.
    pub uenvs: Vec<UenvEntry>,
    /// What nobody asked for, and what can never be built.
    pub remarks: Vec<Diagnostic>,
}

/// Where images go that pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromoteTarget {
    /// The part of the registry.
    pub namespace: Namespace,
    /// The channel, if images are released through one.
    pub channel: Option<ChannelName>,
}

/// A website of the images in the registry, which each run writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogueTarget {
    /// Its directory, relative to the file.
    pub directory: PathBuf,
    /// The parts of the registry that it shows; where images go that pass, if there is none.
    pub namespaces: Vec<Namespace>,
    /// Its title.
    pub title: Option<String>,
    /// Its address, which feed readers need.
    pub url: Option<String>,
    /// The tags of the GitLab runner that can write into the directory; that of the first cell, if none
    /// are given.
    pub runner_tags: Option<Vec<String>>,
}

/// A suite of `ReFrame`, which runs on images beside their own checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuiteEntry {
    /// Its directory, relative to the file.
    pub directory: Placed<PathBuf>,
    /// More options of `reframe`, each a word.
    pub options: Vec<String>,
    /// Only for these images; for all if there is none.
    pub only: Vec<LabelPattern>,
}

/// A system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    /// The kinds of its nodes.
    pub targets: Vec<Target>,
    /// The tags of the GitLab runners on it.
    pub runner_tags: Vec<String>,
}

impl Cluster {
    /// Returns the nodes with a microarchitecture.
    #[must_use]
    pub fn target(&self, uarch: &Uarch) -> Option<&Target> {
        self.targets.iter().find(|target| target.uarch == *uarch)
    }
}

/// A kind of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Their microarchitecture.
    pub uarch: Uarch,
    /// Their partition.
    pub partition: Option<String>,
    /// Variables of the jobs. Those that begin with `SLURM_` also become options of `sbatch`.
    pub variables: BTreeMap<String, String>,
    /// What a build needs there.
    pub build: Resources,
    /// What checks need there.
    pub check: Resources,
}

/// What the jobs of one stage need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Another partition than that of the target.
    pub partition: Option<String>,
    /// The number of nodes.
    pub nodes: Option<u32>,
    /// The number of processors of each task.
    pub cpus: Option<u32>,
    /// Memory of each node, in bytes.
    pub memory: Option<u64>,
    /// The time limit.
    pub time: Option<Duration>,
    /// More options of `sbatch`, each a word.
    pub options: Vec<String>,
}

impl Resources {
    /// Returns these resources, with those of `other` where these say nothing.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        Self {
            partition: self.partition.clone().or_else(|| other.partition.clone()),
            nodes: self.nodes.or(other.nodes),
            cpus: self.cpus.or(other.cpus),
            memory: self.memory.or(other.memory),
            time: self.time.or(other.time),
            options: if self.options.is_empty() { &other.options } else { &self.options }.clone(),
        }
    }
}

/// One version of an environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UenvEntry {
    /// Its name.
    pub name: Name,
    /// Its version.
    pub version: Version,
    /// The bytes of the version in the file.
    pub place: Range<usize>,
    /// The recipe for each microarchitecture: a directory below that of the name, or below that of all
    /// recipes.
    pub recipes: BTreeMap<Uarch, Placed<PathBuf>>,
    /// Where the images go, and for which nodes there, in the order of the file.
    pub deploy: Vec<Placed<(System, Uarch)>>,
    /// Where the images are mounted.
    pub mount: MountPoint,
    /// The tag of the images. By default it is made from what they are built from.
    pub tag: Option<Tag>,
    /// A word that you change to rebuild the images of an unchanged recipe.
    pub revision: Revision,
}

/// A word that is a part of what images are built from, for all systems or for some.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Revision {
    /// The word for systems without one of their own; empty if there is none.
    pub everywhere: String,
    /// The words of systems.
    pub systems: BTreeMap<System, String>,
}

impl Revision {
    /// Returns the word for a system; empty if there is none.
    #[must_use]
    pub fn on(&self, system: &System) -> &str {
        self.systems.get(system).unwrap_or(&self.everywhere)
    }
}
