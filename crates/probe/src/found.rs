// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a machine has: data, to be printed, written and compared.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::directories::prefix_of;
use crate::machine::Note;
use crate::processor::Processor;
use crate::rules::PackageRules;
use crate::version::Version;

/// What was found on a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Found {
    /// The name that the operating system gives itself.
    pub operating_system: Option<String>,
    /// The processor, and for which target is built.
    pub processor: Processor,
    /// What Spack can take from the system instead of building it.
    pub externals: Vec<External>,
    /// Hardware and services that decide how an MPI must be built.
    pub devices: Vec<Device>,
    /// The MPIs that recipes can ask for, and what holds for them.
    pub mpi: Vec<PackageRules>,
    /// What holds for the libraries below an MPI.
    pub fabric: Vec<PackageRules>,
    /// What was found and is not used, and what is missing.
    pub notes: Vec<Note>,
}

impl Found {
    /// Returns what there is of a package.
    pub fn of<'a>(&'a self, package: &'a str) -> impl Iterator<Item = &'a External> {
        self.externals.iter().filter(move |external| external.package == package)
    }

    /// Returns the device of a kind.
    pub(crate) fn device(&self, kind: DeviceKind) -> Option<&Device> {
        self.devices.iter().find(|device| device.kind == kind)
    }
}

/// An installed package that Spack can use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct External {
    /// To what it belongs.
    pub section: Section,
    /// The name of Spack's package.
    pub package: &'static str,
    /// Its version.
    pub version: Version,
    /// Its variants as Spack writes them, such as `+shared~threads`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub variants: String,
    /// Where it is installed.
    pub prefix: String,
    /// If it is a compiler, its programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compilers: Option<CompilerPaths>,
    /// Whether Spack may build the package all the same.
    pub buildable: bool,
    /// The file that gave it away.
    pub origin: String,
    /// What a person should look at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<String>,
}

impl External {
    /// One that may be built as well, with no variants, compilers and checks, and with the prefix of
    /// the program that it was found by.
    pub(crate) fn new(
        section: Section,
        package: &'static str,
        version: Version,
        origin: String,
    ) -> Self {
        Self {
            section,
            package,
            version,
            variants: String::new(),
            prefix: prefix_of(&origin),
            compilers: None,
            buildable: true,
            origin,
            checks: Vec::new(),
        }
    }

    /// Returns what Spack calls it.
    #[must_use]
    pub fn spec(&self) -> String {
        let (package, version) = (self.package, &self.version);
        let blank = match self.variants.chars().next() {
            None | Some('+' | '~') => "",
            Some(_) => " ",
        };
        format!("{package}@{version}{blank}{}", self.variants)
    }
}

/// To what a package belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Section {
    /// Compilers.
    Compiler,
    /// Programs that builds need.
    Tool,
    /// Libraries and services of the scheduler.
    Scheduler,
    /// Libraries of GPUs.
    Gpu,
    /// Libraries of the fabric, below an MPI.
    Fabric,
    /// MPIs.
    Mpi,
}

impl Section {
    /// Returns the heading for people.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Compiler => "compilers",
            Self::Tool => "tools",
            Self::Scheduler => "scheduler",
            Self::Gpu => "GPU software",
            Self::Fabric => "fabric",
            Self::Mpi => "MPI",
        }
    }
}

/// The programs of a compiler, by Spack's names of languages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CompilerPaths {
    /// The C compiler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub c: Option<String>,
    /// The C++ compiler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cxx: Option<String>,
    /// The Fortran compiler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fortran: Option<String>,
}

impl CompilerPaths {
    /// Returns the languages that there are, with the program of each.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let all = [("c", &self.c), ("cxx", &self.cxx), ("fortran", &self.fortran)];
        all.into_iter().filter_map(|(language, path)| Some((language, path.as_deref()?)))
    }
}

/// Something that decides how an MPI must be built.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Device {
    /// What it is.
    pub kind: DeviceKind,
    /// Where it was seen.
    pub seen: String,
    /// What it is more exactly, such as `cuda_arch=90`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub details: BTreeMap<&'static str, String>,
}

/// What matters to an MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// HPE Slingshot.
    Cxi,
    /// `InfiniBand`, or Ethernet with verbs.
    InfiniBand,
    /// Omni-Path.
    OmniPath,
    /// The fabric adapter of AWS.
    Efa,
    /// GPUs of NVIDIA.
    NvidiaGpu,
    /// GPUs of AMD.
    AmdGpu,
    /// GPUs of Intel that compute.
    IntelGpu,
    /// The scheduler Slurm.
    Slurm,
}

impl DeviceKind {
    /// Returns the name for people.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Cxi => "Slingshot",
            Self::InfiniBand => "InfiniBand",
            Self::OmniPath => "Omni-Path",
            Self::Efa => "EFA",
            Self::NvidiaGpu => "NVIDIA GPU",
            Self::AmdGpu => "AMD GPU",
            Self::IntelGpu => "Intel GPU",
            Self::Slurm => "Slurm",
        }
    }
}

impl Device {
    pub(crate) fn new(kind: DeviceKind, seen: impl Into<String>) -> Self {
        Self { kind, seen: seen.into(), details: BTreeMap::new() }
    }

    /// Adds a detail, if it is known.
    pub(crate) fn with(mut self, key: &'static str, value: Option<impl Into<String>>) -> Self {
        self.details.extend(value.map(|value| (key, value.into())));
        self
    }

    pub(crate) fn detail(&self, key: &str) -> Option<&str> {
        self.details.get(key).map(String::as_str)
    }
}
