// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The metadata that travels with an image.
//!
//! ```text
//! <image>/meta/
//! ├── env.json       version 1 of `env`, as uenv reads it; version 1 of `cabane`
//! ├── needs.json     version 1: what it needs of the host, see [`HostNeeds`](crate::HostNeeds)
//! └── packages.json  version 1: what is inside, see [`PackageList`](crate::PackageList)
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cabane_label::{Digest, MountPoint};
use serde::{Serialize, Serializer};

use crate::{CheckList, EnvPatch, ViewName};

/// The contents of an image's `env.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// The name of the image.
    ///
    /// It was written by the builder of the image, and may hold any text.
    pub name: String,
    /// What the image is for, in one sentence or more.
    pub description: Option<String>,
    /// Where the image must be mounted.
    pub mount: Option<MountPoint>,
    /// The view that is taken when none is requested; one of `views`.
    pub default_view: Option<ViewName>,
    /// The ways to enter the image.
    pub views: BTreeMap<ViewName, View>,
    /// What the image needs from the system.
    pub needs: Needs,
    /// What built the image: `python`, `tree`, `spack`, `container`.
    pub engine: Option<String>,
    /// What a root image says about itself; only these can be mounted at `/`.
    pub container: Option<Container>,
    /// What tells whether it works.
    pub checks: CheckList,
    /// The images on which it was built, and which are mounted with it: first its own base, then the
    /// base of that, and so on.
    pub bases: Vec<ImageBase>,
}

impl Meta {
    /// The largest `env.json` that is read, in bytes: 16 MiB.
    pub const MAX_SIZE: u64 = 16 * 1024 * 1024;
}

/// An image on which another one was built.
///
/// The section `cabane` of `env.json` lists them:
///
/// ```json
/// "bases": [{"label": "prgenv-gnu/26.1", "digest": "8ae5…", "mount": "/user-environment"}]
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ImageBase {
    /// How the recipe names it, or the label by which a base of a base was found.
    pub label: String,
    /// Its digest: only this image can be used with the other one.
    pub digest: Digest,
    /// Where it was mounted during the build, and must be mounted again.
    pub mount: MountPoint,
}

/// A named way to enter an image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct View {
    /// What the view is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The directory inside of the image that the view shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// A shell script that does the same as the view; not used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activate: Option<String>,
    /// What the view does to the variables.
    #[serde(rename = "env")]
    pub patch: EnvPatch,
}

/// What an image needs from the system it is used on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Needs {
    /// The interpreter of the system that the image was built with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interpreter: Option<InterpreterNeed>,
    /// The oldest GNU C library with which all of its programs and libraries can be
    /// loaded: `2.34`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub glibc: Option<String>,
    /// The architectures of its programs and libraries, as the kernel calls them: `x86_64`; empty if it has
    /// none, or if they are not known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub architectures: Vec<String>,
    /// What its packages were compiled for, if that is more than any processor has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processor: Option<ProcessorNeed>,
    /// What starts the ranks of its MPI, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mpi: Option<MpiNeed>,
    /// The libraries of the system without which its programs do not start, but for the C library;
    /// a hundred at most.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub libraries: Vec<LibraryNeed>,
    /// Directories of the system in which its files look for libraries; a hundred at most.
    #[serde(rename = "search-paths", skip_serializing_if = "Vec::is_empty")]
    pub search_paths: Vec<String>,
    /// Files and directories of the system to which it refers; a hundred at most.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outside: Vec<OutsideNeed>,
}

impl Needs {
    /// Returns a short text for each thing that is needed, but for files outside.
    #[must_use]
    pub fn texts(&self) -> Vec<String> {
        let interpreter = self.interpreter.iter();
        let interpreter =
            interpreter.map(|need| format!("Python {} at {}", need.version, need.path.display()));
        let glibc = self.glibc.iter().map(|version| format!("glibc {version}"));
        let processor = self.processor.iter();
        let processor =
            processor.map(|need| format!("a processor as good as {}", need.shown_targets()));
        let launchers = self.mpi.iter().filter(|need| !need.srun.is_empty());
        let launchers = launchers.map(|need| {
            format!("`srun --mpi={}` for MPI programs", need.srun.join("` or `--mpi="))
        });
        let names = self.libraries.iter().map(|library| library.name.as_str());
        let names = names.collect::<Vec<_>>().join(", ");
        let libraries = Some(names).filter(|names| !names.is_empty());
        let libraries = libraries.map(|names| format!("libraries of the system: {names}"));
        interpreter.chain(glibc).chain(processor).chain(launchers).chain(libraries).collect()
    }
}

/// A library of the system that an image needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LibraryNeed {
    /// Its soname: `libibverbs.so.1`.
    pub name: String,
    /// The versions of its symbols that are needed: `IBVERBS_1.1`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<String>,
}

/// What starts the ranks of an MPI that is in an image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MpiNeed {
    /// The values of `srun --mpi` with which ranks find each other, such as `pmi2`; empty if they are
    /// not known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub srun: Vec<String>,
}

/// A processor that can run what is in an image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProcessorNeed {
    /// The names of what packages were compiled for, as Spack calls them: `x86_64_v3`; [`Self::NATIVE`] for
    /// the processor of the build machine.
    pub targets: Vec<String>,
    /// The features that all of them have together, by the names of the kernel.
    pub features: Vec<String>,
}

impl ProcessorNeed {
    /// The name of the processor of the build machine, for which a compiler chose what to use.
    pub const NATIVE: &str = "native";

    /// Returns the targets as a part of a sentence.
    #[must_use]
    pub fn shown_targets(&self) -> String {
        let shown = |target: &String| match target.as_str() {
            Self::NATIVE => "that of its build machine".to_owned(),
            name => name.to_owned(),
        };
        self.targets.iter().map(shown).collect::<Vec<_>>().join(" and ")
    }
}

/// Something of the system to which an image refers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OutsideNeed {
    /// Where it is.
    #[serde(serialize_with = "lossy")]
    pub path: PathBuf,
    /// The package that it stands for, if it is one that was not built: `slurm@23.02`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
}

/// A program outside of the image that runs what is in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InterpreterNeed {
    /// Where it is: `/usr/bin/python3.11`.
    #[serde(serialize_with = "lossy")]
    pub path: PathBuf,
    /// Its version: `3.11.2`.
    pub version: String,
}

/// Writes a path, of which what is not UTF-8 is changed.
/// What a root image says about itself, as the container image did from which it was made.
///
/// Such a *root image* is mounted at `/`, and was imported from a container image. Its
/// `env.json` has a `container` in the section `cabane`:
///
/// ```json
/// "container": {
///   "entrypoint": ["/entry.sh"], "command": ["serve"], "working-directory": "/data",
///   "user": "1000:1000", "labels": {"org.opencontainers.image.version": "12"},
///   "glibc": "2.36",
///   "source": {"reference": "registry.example/tool:1", "platform": "linux/amd64",
///              "manifest": "sha256:…", "index": "sha256:…", "configuration": "sha256:…"}
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Container {
    /// The program that is started, and its first arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub entrypoint: Vec<String>,
    /// Its arguments where none are given; the program, if there is no entry point.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// The directory in which it starts; an absolute path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_directory: Option<String>,
    /// As whom it was meant to run. Not used: a command runs as the user who starts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// What its author says about it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The version of the GNU C library in it, if it has one: `2.36`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub glibc: Option<String>,
    /// From where it was imported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<ContainerSource>,
}

/// From where a root image was imported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ContainerSource {
    /// What was requested, in full: `registry.example/tool:1`.
    pub reference: String,
    /// Operating system and architecture, maybe with a variant: `linux/arm64/v8`.
    pub platform: String,
    /// The digest of the manifest, `sha256:…`, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifest: Option<String>,
    /// The digest of the index in which the manifest was found, if it was in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<String>,
    /// The digest of its configuration, which names the content of all layers, where there is
    /// one: the same in a registry and in an archive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration: Option<String>,
}

fn lossy<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}
