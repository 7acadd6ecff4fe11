// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Packages that are looked for: `hdf5@1.14: +mpi %gcc@13`.
//!
//! What is written is what Spack users write, as far as the list of the packages of an image
//! can answer it: no dependencies. Other than in Spack, a variant behind `%gcc` is one of the
//! package, since nothing is known about those of compilers. How the text is read is in
//! `text`.

use std::fmt;

use text::{Variant, variants};

use crate::PackageLine;
use crate::package_version::{PackageVersion, VersionRange};

mod text;

/// A package that is looked for. What is not given may be anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackagePattern {
    pub(crate) text: String,
    pub(crate) name: Option<String>,
    /// Of which one must contain the version; any version if there is none.
    pub(crate) versions: Vec<VersionRange>,
    pub(crate) variants: Vec<(String, WantedValue)>,
    pub(crate) compilers: Vec<WantedCompiler>,
    /// How the hash begins.
    pub(crate) hash: Option<String>,
}

/// What a variant shall be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WantedValue {
    On,
    Off,
    /// `=*`
    Any,
    /// All of these.
    All(Vec<String>),
}

/// A compiler that shall have made a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WantedCompiler {
    pub(crate) name: String,
    pub(crate) versions: Vec<VersionRange>,
}

impl PackagePattern {
    /// Returns the name, if one is given.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Tells whether a package is what is looked for.
    #[must_use]
    pub fn matches(&self, package: &PackageLine<'_>) -> bool {
        let has_name = |name: &String| is_name(name, package);
        self.name.as_ref().is_none_or(has_name)
            && self.hash.as_ref().is_none_or(|hash| package.hash.starts_with(hash.as_str()))
            && contain(&self.versions, package.version)
            && self.compilers.iter().all(|one| one.made(package))
            && self.variants.iter().all(|(name, value)| has_value(package, name, value))
    }
}

impl fmt::Display for PackagePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

/// Names of Python packages are the same with `-`, `_`, and `.`, large and small; those of EasyBuild, large
/// and small.
fn is_name(name: &str, package: &PackageLine<'_>) -> bool {
    if package.manager == "easybuild" {
        return name.eq_ignore_ascii_case(package.name);
    }
    if package.manager != "python" {
        return name == package.name;
    }
    let letter = |letter: char| match letter {
        '_' | '.' => '-',
        other => other.to_ascii_lowercase(),
    };
    name.chars().map(letter).eq(package.name.chars().map(letter))
}

fn contain(ranges: &[VersionRange], version: &str) -> bool {
    if ranges.is_empty() {
        return true;
    }
    let version = PackageVersion::read(version);
    ranges.iter().any(|range| range.contains(&version))
}

impl WantedCompiler {
    fn made(&self, package: &PackageLine<'_>) -> bool {
        package.compilers.split(',').any(|compiler| {
            let (name, version) = compiler.split_once('@').unwrap_or((compiler, ""));
            name == self.name && contain(&self.versions, version)
        })
    }
}

fn has_value(package: &PackageLine<'_>, name: &str, wanted: &WantedValue) -> bool {
    let is_it = |variant| match variant {
        Variant::On(found) => found == name && is_switch(wanted, true),
        Variant::Off(found) => found == name && is_switch(wanted, false),
        Variant::Value(found, value) => found == name && is_value(wanted, value),
    };
    match name {
        "target" => is_value(wanted, package.target),
        "os" => is_value(wanted, package.os),
        _ => variants(package.variants).any(is_it),
    }
}

fn is_switch(wanted: &WantedValue, is_on: bool) -> bool {
    match wanted {
        WantedValue::On => is_on,
        WantedValue::Off => !is_on,
        WantedValue::Any => true,
        WantedValue::All(values) => {
            let name = if is_on { "true" } else { "false" };
            matches!(values.as_slice(), [value] if value.eq_ignore_ascii_case(name))
        }
    }
}

/// Of a variant with several values all that are wanted must be there.
fn is_value(wanted: &WantedValue, found: &str) -> bool {
    match wanted {
        WantedValue::Any => !found.is_empty(),
        WantedValue::All(values) => {
            values.iter().all(|value| found.split([',', ' ']).any(|one| one == value))
        }
        WantedValue::On | WantedValue::Off => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HDF5: PackageLine<'static> = PackageLine {
        name: "hdf5",
        version: "1.14.3",
        hash: "vjysts6ejbulpsgdgak6vvjrf5vrvony",
        variants: "~cxx+mpi+shared build_system=cmake cflags='-O2 -g' languages:='c,c++' \
                   libs:=shared,static",
        compilers: "gcc@13.2.0",
        os: "sles15",
        target: "zen3",
        manager: "spack",
        external: false,
    };

    fn fits(pattern: &str, package: &PackageLine<'_>) -> bool {
        pattern.parse::<PackagePattern>().unwrap().matches(package)
    }

    #[test]
    fn what_fits_is_found() {
        let patterns = [
            "hdf5",
            "hdf5@1.14: +mpi",
            "hdf5@1.14:+mpi~cxx",
            "hdf5 @1.14 +mpi -cxx",
            "hdf5@:1.14",
            "hdf5@1.12:1.14",
            "hdf5@=1.14.3",
            "hdf5@1.10,1.14",
            "hdf5@:",
            "hdf5/vjysts6",
            "/vjysts6",
            "hdf5 %gcc@13 +shared",
            "hdf5%gcc",
            "hdf5 target=zen3 os=sles15",
            "hdf5 shared=True cxx=false",
            "hdf5 libs=static",
            "hdf5 libs=static,shared",
            "hdf5 languages=c++",
            "hdf5 cflags=-g",
            "hdf5 cflags='-O2 -g'",
            "hdf5 build_system=*",
            "+mpi",
            "%gcc@12:",
        ];
        for pattern in patterns {
            assert!(fits(pattern, &HDF5), "{pattern}");
        }
    }

    #[test]
    fn what_does_not_fit_is_not_found() {
        let patterns = [
            "hdf",
            "hdf5-mpi",
            "hdf5@1.1",
            "hdf5@1.14.4:",
            "hdf5@:1.13",
            "hdf5@=1.14",
            "hdf5@1.10,1.12",
            "hdf5~mpi",
            "hdf5+cxx",
            "hdf5+szip",
            "hdf5~szip",
            "hdf5/abc",
            "hdf5%gcc@12",
            "hdf5%llvm",
            "hdf5 target=zen",
            "hdf5 libs=none",
            "hdf5 szip=*",
            "hdf5 shared=false",
            "Hdf5",
        ];
        for pattern in patterns {
            assert!(!fits(pattern, &HDF5), "{pattern}");
        }
    }

    #[test]
    fn the_name_of_a_python_package_has_many_spellings() {
        let package = PackageLine {
            name: "Ruamel.YAML",
            version: "0.18.6",
            manager: "python",
            variants: "",
            ..HDF5
        };
        for pattern in ["ruamel.yaml", "ruamel-yaml@0.18", "ruamel_yaml@0.17:"] {
            assert!(fits(pattern, &package), "{pattern}");
        }
        assert!(!fits("ruamelyaml", &package));
    }

    #[test]
    fn the_name_of_a_package_of_easybuild_may_be_in_small_letters() {
        let package = PackageLine { name: "GROMACS", manager: "easybuild", ..HDF5 };
        assert!(fits("gromacs", &package) && fits("GROMACS", &package));
        assert!(!fits("gromac", &package));
    }

    #[test]
    fn a_package_without_a_version_is_found_by_its_name_alone() {
        let package = PackageLine { version: "", ..HDF5 };
        assert_eq!(["hdf5", "hdf5@1.14:"].map(|pattern| fits(pattern, &package)), [true, false]);
    }
}
