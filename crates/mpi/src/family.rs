// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Families of MPI libraries: within one, a program runs with any library.
//!
//! Names tell the family, with one trap: `libmpi.so.12` is the name of the common ABI of
//! MPICH and was that of Open MPI 1.10. So what a library has, or a program needs, is
//! looked at as well: programs for Open MPI need its objects, such as
//! `ompi_mpi_comm_world`, and those for MPICH need functions only.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a program for Open MPI needs, and a library of Open MPI has.
pub(crate) const OMPI_MARK: &str = "ompi_mpi_comm_world";

/// How names of Cray's libraries begin, with the compiler for which they are.
const OF_CRAY: [&str; 6] =
    ["mpi_gnu", "mpi_cray", "mpi_intel", "mpi_nvidia", "mpi_amd", "mpi_aocc"];

/// A family of libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// The common ABI of MPICH, Intel MPI, Cray MPICH and MVAPICH.
    Mpich,
    /// Open MPI.
    OpenMpi,
    /// The standard ABI of MPI 5, which several libraries have.
    Mpi5Abi,
}

impl Family {
    /// Returns the word for it in metadata.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Mpich => "mpich",
            Self::OpenMpi => "open-mpi",
            Self::Mpi5Abi => "mpi5-abi",
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mpich => "the MPICH ABI",
            Self::OpenMpi => "Open MPI",
            Self::Mpi5Abi => "the MPI 5 ABI",
        })
    }
}

/// What a library of an MPI is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// The library itself, which programs in C need.
    C,
    /// For programs in Fortran.
    Fortran,
    /// For the bindings for C++, which MPI 3 has taken away.
    Cxx,
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::C => "C",
            Self::Fortran => "Fortran",
            Self::Cxx => "C++",
        })
    }
}

/// What the name of a library tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    /// The family.
    pub family: Family,
    /// What it is for.
    pub language: Language,
}

impl Name {
    /// Reads a name such as `libmpich.so.12`; `None` if it is not that of an MPI.
    #[must_use]
    pub fn of(soname: &str) -> Option<Self> {
        let (stem, number) = soname.split_once(".so")?;
        let stem = stem.strip_prefix("lib")?;
        let major = number.trim_start_matches('.').split('.').next()?;
        let (family, language) = match stem {
            "mpi" if major == "12" => (Family::Mpich, Language::C),
            "mpi" | "mpi_ibm" => (Family::OpenMpi, Language::C),
            "mpich" => (Family::Mpich, Language::C),
            "mpichf90" | "mpifort" | "mpichfort" | "fmpich" => (Family::Mpich, Language::Fortran),
            "mpicxx" | "mpichcxx" => (Family::Mpich, Language::Cxx),
            "mpi_cxx" => (Family::OpenMpi, Language::Cxx),
            "mpi_abi" => (Family::Mpi5Abi, Language::C),
            "mpi_mpifh" => (Family::OpenMpi, Language::Fortran),
            // Debian has one for each compiler: mpi_mpifh-gfortran.
            _ if stem.starts_with("mpi_mpifh-") || stem.starts_with("mpi_usempi") => {
                (Family::OpenMpi, Language::Fortran)
            }
            // Those of Cray name the compiler: mpi_gnu_91, older ones mpich_gnu_91.
            _ if stem.starts_with("mpifort_") => (Family::Mpich, Language::Fortran),
            _ if OF_CRAY.iter().any(|start| stem.starts_with(start)) => {
                (Family::Mpich, Language::C)
            }
            _ if stem.starts_with("mpichf90_") => (Family::Mpich, Language::Fortran),
            _ if stem.starts_with("mpich_") => (Family::Mpich, Language::C),
            _ => return None,
        };
        Some(Self { family, language })
    }
}

/// Whether a symbol is an object of MPICH such as `MPI_IN_PLACE`, which is known by its address. A
/// program has it as its own, and the library must use that one.
pub(crate) fn is_object_of_fortran(symbol: &str) -> bool {
    symbol.starts_with("MPIR_F08_MPI_")
}

/// Returns the language of a symbol of MPI that a program needs; `None` if it is not one.
pub(crate) fn language_of(symbol: &str) -> Option<Language> {
    let rest = symbol.strip_prefix('P').unwrap_or(symbol);
    if rest.starts_with("MPI_") || rest.starts_with("MPIX_") {
        // Some compilers for Fortran write names in capitals, without the function's form.
        let is_capital = rest.chars().all(|c| !c.is_ascii_lowercase());
        return Some(if is_capital { Language::Fortran } else { Language::C });
    }
    // Objects of Open MPI, which each of its versions has, in one of its libraries.
    if symbol.starts_with("mpi_fortran_") {
        return None;
    }
    let lower = symbol.strip_prefix('p').unwrap_or(symbol);
    let of_fortran = (lower.starts_with("mpi_") || lower.starts_with("mpix_"))
        && lower.ends_with('_')
        || symbol.starts_with("__mpi_") && symbol.contains("_MOD_")
        || symbol.starts_with("__mpi_f08")
        || is_object_of_fortran(symbol);
    if of_fortran {
        return Some(Language::Fortran);
    }
    (symbol.starts_with("_ZN3MPI") || symbol.starts_with("_ZNK3MPI")).then_some(Language::Cxx)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str) -> Option<(Family, Language)> {
        Name::of(name).map(|name| (name.family, name.language))
    }

    #[test]
    fn names_show_the_family() {
        for name in [
            "libmpi.so.12",
            "libmpich.so.12",
            "libmpich_gnu_91.so.3",
            "libmpi_gnu_91.so.12",
            "libmpi_cray.so.12",
            "libmpi.so.12.0.0",
        ] {
            assert_eq!(read(name), Some((Family::Mpich, Language::C)), "{name}");
        }
        for name in ["libmpi.so.1", "libmpi.so.20", "libmpi.so.40", "libmpi.so.80"] {
            assert_eq!(read(name), Some((Family::OpenMpi, Language::C)), "{name}");
        }
        assert_eq!(read("libmpi_abi.so.1"), Some((Family::Mpi5Abi, Language::C)));
    }

    #[test]
    fn names_show_the_language() {
        for name in ["libmpifort.so.12", "libmpichfort.so.12", "libmpichf90_gnu.so.3"] {
            assert_eq!(read(name), Some((Family::Mpich, Language::Fortran)), "{name}");
        }
        for name in ["libmpi_mpifh.so.40", "libmpi_mpifh-gfortran.so.40", "libmpi_usempif08.so.40"]
        {
            assert_eq!(read(name), Some((Family::OpenMpi, Language::Fortran)), "{name}");
        }
    }

    #[test]
    fn other_libraries_are_none_of_mpi() {
        for name in ["libmpi4.so.1", "libmpc.so.3", "libm.so.6", "libmpiwrap.so", "mpi.so"] {
            assert_eq!(read(name), None, "{name}");
        }
    }

    #[test]
    fn symbols_show_the_language() {
        assert_eq!(language_of("MPI_Init"), Some(Language::C));
        assert_eq!(language_of("PMPIX_Comm_agree"), Some(Language::C));
        assert_eq!(language_of("mpi_init_"), Some(Language::Fortran));
        assert_eq!(language_of("mpi_send_f08_"), Some(Language::Fortran));
        assert_eq!(language_of("mpi_f08_types_mp_mpi_comm_neq_"), Some(Language::Fortran));
        assert_eq!(language_of("mpi_fortran_in_place_"), None);
        assert_eq!(language_of("MPIR_F08_MPI_IN_PLACE"), Some(Language::Fortran));
        assert_eq!(language_of("_ZN3MPI4CommC2Ev"), Some(Language::Cxx));
        assert_eq!(language_of("mpiexec"), None);
    }
}
