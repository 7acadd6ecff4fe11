// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A library of an MPI: family, product, version, and the ways in which it may be started.
//!
//! Everything is read from the file. MPICH has its version under a name, or beside the
//! date of its build; others have it in their texts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cabane_compat::Binary;
use memchr::memmem;
use serde::{Deserialize, Serialize};

use crate::family::{OMPI_MARK, language_of};
use crate::{Family, Language, Name, Tree};

/// Where Open MPI has its plugins, from the directory of its library.
const PLUGINS: [&str; 3] = ["openmpi", "openmpi/lib/openmpi3", "openmpi/lib/openmpi"];

/// A library of an MPI.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Library {
    /// Where it was found.
    pub path: PathBuf,
    /// The file without links.
    pub file: PathBuf,
    /// The name by which programs need it.
    pub soname: String,
    /// Its family.
    pub family: Family,
    /// What it is for.
    pub language: Language,
    /// Who makes it: `MPICH`, `Open MPI`, `Intel MPI`.
    pub product: String,
    /// Its version, if it tells.
    pub version: Option<String>,
    /// For which processors it is.
    pub architecture: String,
    /// How ranks and launcher may talk to each other.
    pub protocols: BTreeSet<Protocol>,
    /// The functions of MPI that it has: too many to be printed.
    #[serde(skip)]
    pub symbols: BTreeSet<String>,
}

/// How ranks and launcher talk to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// The first protocol of MPICH: Hydra.
    Pmi1,
    /// The second: Hydra, and `srun --mpi=pmi2`.
    Pmi2,
    /// The library `libpmi.so`, which Slurm, Cray, and others have in their own forms.
    PmiLibrary,
    /// The library `libpmi2.so`.
    Pmi2Library,
    /// That of Open MPI: its launchers, and `srun --mpi=pmix`.
    Pmix,
}

impl Protocol {
    /// Returns what `srun --mpi` calls it. Slurm's `pmi2` speaks the first protocol, too.
    #[must_use]
    pub const fn slurm_name(self) -> &'static str {
        match self {
            Self::Pmi1 | Self::Pmi2 | Self::PmiLibrary | Self::Pmi2Library => "pmi2",
            Self::Pmix => "pmix",
        }
    }

    /// Returns the name that people know.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pmi1 => "PMI-1",
            Self::Pmi2 => "PMI-2",
            Self::PmiLibrary => "PMI-1 through libpmi.so",
            Self::Pmi2Library => "PMI-2 through libpmi2.so",
            Self::Pmix => "PMIx",
        }
    }
}

impl Library {
    /// Reads a library; `None` if the file is not one of an MPI.
    #[must_use]
    pub fn read(tree: &Tree, path: &Path) -> Option<Self> {
        let place = tree.find(path)?;
        let file = tree.open(path)?;
        let binary = Binary::open(&file).filter(Binary::is_linked)?;
        let links = binary.links()?;
        let file_name = path.file_name()?.to_string_lossy().into_owned();
        let soname = links.soname.clone().unwrap_or(file_name);
        let seen = Seen::of(&binary);
        let (family, language) = seen.judge(&soname)?;
        let texts = Texts::of(&binary);
        let mut library = Self {
            path: path.to_owned(),
            file: place.path,
            family,
            language,
            product: texts.product(family, &soname),
            version: None,
            architecture: binary.kind().name().to_owned(),
            protocols: texts.protocols(family, &links.needed, &seen),
            symbols: seen.defined,
            soname,
        };
        if library.language == Language::C {
            library.version = texts.version(&binary, &library.product);
            library.protocols.extend(protocols_of_plugins(tree, path));
        }
        Some(library)
    }

    /// Returns product and version.
    #[must_use]
    pub fn title(&self) -> String {
        match &self.version {
            Some(version) => format!("{} {version}", self.product),
            None => self.product.clone(),
        }
    }
}

/// Returns the protocols for which Open MPI before its version 5 has a plugin beside a library.
fn protocols_of_plugins(tree: &Tree, library: &Path) -> BTreeSet<Protocol> {
    let directory = library.parent().unwrap_or(Path::new("/"));
    let places = PLUGINS.iter().map(|place| directory.join(place));
    let names = places.flat_map(|place| tree.names(&place));
    names
        .filter_map(|name| match name.as_str() {
            "mca_pmix_s1.so" => Some(Protocol::PmiLibrary),
            "mca_pmix_s2.so" => Some(Protocol::Pmi2Library),
            _ => None,
        })
        .collect()
}

/// Returns the number in a soname: `40` of `libmpi.so.40`.
pub(crate) fn number(soname: &str) -> Option<&str> {
    let (_, number) = soname.split_once(".so.")?;
    number.split('.').next()
}

/// The symbols of a file, as far as they matter.
#[derive(Default)]
struct Seen {
    defined: BTreeSet<String>,
    is_whole: bool,
    is_openmpi: bool,
    /// The first function of a protocol, which another library has.
    asks: BTreeSet<String>,
}

impl Seen {
    fn of(binary: &Binary<'_>) -> Self {
        let mut seen = Self::default();
        binary.each_symbol(|symbol| match (symbol.name, symbol.is_defined) {
            // Since Open MPI 6 the objects are in a library behind the one with the functions.
            (OMPI_MARK, _) => seen.is_openmpi = true,
            (name @ ("PMIx_Init" | "PMI_Init" | "PMI2_Init"), false) => {
                seen.asks.insert(name.to_owned());
            }
            (name, true) if language_of(name).is_some() => {
                seen.is_whole |= name == "PMPI_Init";
                seen.defined.insert(name.to_owned());
            }
            _ => {}
        });
        seen
    }

    /// The name says what it should be, and the symbols what it is.
    fn judge(&self, soname: &str) -> Option<(Family, Language)> {
        let name = Name::of(soname);
        if let Some(name) = name.filter(|name| name.language != Language::C) {
            return Some((name.family, name.language));
        }
        // A tool that is between has MPI_Init, and leaves PMPI_Init to the library.
        if !self.is_whole {
            return None;
        }
        let family = match name.map(|name| name.family) {
            Some(Family::Mpi5Abi) => Family::Mpi5Abi,
            _ if self.is_openmpi => Family::OpenMpi,
            Some(Family::OpenMpi) => return None,
            _ if soname.contains("ilp64") => return None,
            Some(Family::Mpich) | None => Family::Mpich,
        };
        Some((family, Language::C))
    }
}

/// The texts in a file.
pub(crate) struct Texts(Vec<Vec<u8>>);

impl Texts {
    pub(crate) fn of(binary: &Binary<'_>) -> Self {
        Self(binary.constants())
    }

    /// The texts that end in a zero, if they may be readable.
    pub(crate) fn each(&self) -> impl Iterator<Item = &str> {
        let parts = self.0.iter().flat_map(|data| data.split(|&byte| byte == 0));
        parts
            .filter(|part| (3..=256).contains(&part.len()))
            .filter_map(|part| str::from_utf8(part).ok())
    }

    pub(crate) fn has(&self, wanted: &str) -> bool {
        self.0.iter().any(|data| memmem::find(data, wanted.as_bytes()).is_some())
    }

    /// Returns what follows a text, as far as it consists of such characters.
    pub(crate) fn behind(&self, start: &str, is_meant: impl Fn(u8) -> bool) -> Option<String> {
        let behind = |data: &Vec<u8>| {
            let place = memmem::find(data, start.as_bytes())? + start.len();
            let found = data.get(place..)?.iter().copied().take_while(|&byte| is_meant(byte));
            String::from_utf8(found.collect()).ok()
        };
        self.0.iter().find_map(behind)
    }

    fn product(&self, family: Family, soname: &str) -> String {
        let of_openmpi = family == Family::OpenMpi || self.has("Open MPI v%d");
        let name = if of_openmpi {
            "Open MPI"
        } else if self.has("Intel(R) MPI Library") {
            "Intel MPI"
        } else if self.has("CRAY MPICH version") || soname.starts_with("libmpich_") {
            "Cray MPICH"
        } else if self.has("MVAPICH2 Version") || self.has("MVAPICH Version") {
            "MVAPICH"
        } else {
            "MPICH"
        };
        name.to_owned()
    }

    fn version(&self, binary: &Binary<'_>, product: &str) -> Option<String> {
        let named = |name: &str| binary.text_under(name).and_then(|text| version_in(&text));
        match product {
            "Open MPI" => named("ompi_version_string").or_else(|| {
                let tagged = |text: &str| version_in(text.strip_prefix('v')?);
                let mut texts = self.each();
                let plain = || self.each().find_map(version_in);
                texts.find_map(tagged).or_else(plain)
            }),
            // What is under the name of the version is that of the MPICH it was made of.
            "Intel MPI" => self
                .each()
                .find(|text| text.starts_with("20") && is_version(text))
                .map(str::to_owned),
            "Cray MPICH" => self.each().find_map(|text| {
                let (_, rest) = text.split_once("CRAY MPICH version ")?;
                version_in(rest.split_whitespace().next()?)
            }),
            _ => named("MPII_Version_string")
                .or_else(|| named("MPIR_Version_string"))
                .or_else(|| self.beside_a_date()),
        }
    }

    /// Newer ones hide the names; the version follows the date of the build.
    fn beside_a_date(&self) -> Option<String> {
        let mut before = "";
        for text in self.each() {
            if is_date(before)
                && let Some(version) = version_in(text)
            {
                return Some(version);
            }
            before = text;
        }
        None
    }

    fn protocols(&self, family: Family, needed: &[String], seen: &Seen) -> BTreeSet<Protocol> {
        let needs = |start: &str| needed.iter().any(|name| name.starts_with(start));
        let mut all = BTreeSet::new();
        let talks = self.has("PMI_FD");
        let has_second = talks && self.has("fullinit");
        if has_second || talks && self.has("cmd=init") {
            all.insert(Protocol::Pmi1);
        }
        if has_second {
            all.insert(Protocol::Pmi2);
        }
        if needs("libpmi.so") || seen.asks.contains("PMI_Init") {
            all.insert(Protocol::PmiLibrary);
        }
        if needs("libpmi2.so") || seen.asks.contains("PMI2_Init") {
            all.insert(Protocol::Pmi2Library);
        }
        // Open MPI has it in a plugin, or in one of its other libraries.
        let of_openmpi = family == Family::OpenMpi;
        if of_openmpi
            || seen.asks.contains("PMIx_Init")
            || needs("libpmix.so")
            || self.has("libpmix.so")
        {
            all.insert(Protocol::Pmix);
        }
        all
    }
}

/// A version with three numbers or more: `5.0.11rc1`.
fn version_in(text: &str) -> Option<String> {
    (is_version(text) && text.matches('.').count() >= 2).then(|| text.to_owned())
}

fn is_version(text: &str) -> bool {
    let mut parts = text.splitn(3, '.');
    let is_number = |part: Option<&str>| {
        part.is_some_and(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    is_number(parts.next())
        && is_number(parts.next())
        && parts.next().is_none_or(|rest| {
            rest.starts_with(|c: char| c.is_ascii_digit())
                && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.')
        })
}

/// As `date` writes it: `Fri Sep 25 20:45:26 UTC 2026`, or with the hours of `AM`.
fn is_date(text: &str) -> bool {
    const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    let year = text.rsplit([' ', ',']).next().unwrap_or_default();
    let has_year = year.len() == 4 && year.bytes().all(|byte| byte.is_ascii_digit());
    let has_day = DAYS.iter().any(|day| text.starts_with(day));
    has_day && (has_year || text.matches(':').count() == 2) && text.len() < 64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_differ_from_other_numbers() {
        for text in ["5.0.2", "5.0.11rc1", "3.4a2.1", "8.1.28.15"] {
            assert_eq!(version_in(text).is_some(), text != "3.4a2.1", "{text}");
        }
        for text in ["4.1", "802.1a", "1.2.x y", ".1.2", "a.b.c"] {
            assert_eq!(version_in(text), None, "{text}");
        }
    }

    #[test]
    fn dates_differ_from_other_texts() {
        assert!(is_date("Fri Sep 25 20:45:26 UTC 2026"));
        assert!(is_date("Mon Oct  6 11:14:20 AM CDT 2025"));
        assert!(is_date("Fri, 20 Jan 2023 23:41:19 +0100"));
        assert!(!is_date("Monitoring of collective operations"));
    }
}
