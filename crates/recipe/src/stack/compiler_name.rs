// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The compilers that recipes can use: one line for each.

use std::fmt;

/// The languages that compilers compile, as Spack names them.
const LANGUAGES: [&str; 3] = ["c", "cxx", "fortran"];

/// What is known about a compiler.
struct Known {
    /// Its package.
    package: &'static str,
    /// Other names for it behind `%`. Cabane writes the first, if there is one.
    aliases: &'static [&'static str],
    /// The variants that it is built with if a recipe names none.
    variants: &'static str,
    /// Its programs, in the order of `LANGUAGES`. An empty name: it does not compile this language.
    programs: [&'static str; 3],
    /// Whether Spack can install it.
    can_be_built: bool,
}

const fn known(package: &'static str, programs: [&'static str; 3]) -> Known {
    Known { package, aliases: &[], variants: "", programs, can_be_built: true }
}

/// All compilers, in the order in which they are built.
const ALL: [Known; 12] = [
    Known { variants: "+bootstrap", ..known("gcc", ["gcc", "g++", "gfortran"]) },
    Known { variants: "~mpi~blas~lapack", ..known("nvhpc", ["nvc", "nvc++", "nvfortran"]) },
    Known { variants: "+clang ~gold", ..known("llvm", ["clang", "clang++", "flang-new"]) },
    known("llvm-amdgpu", ["clang", "clang++", "flang-new"]),
    Known {
        aliases: &["oneapi", "dpcpp", "intel"],
        ..known("intel-oneapi-compilers", ["icx", "icpx", "ifx"])
    },
    known("acfl", ["armclang", "armclang++", "armflang"]),
    known("aocc", ["clang", "clang++", "flang"]),
    Known { can_be_built: false, ..known("cce", ["craycc", "crayCC", "crayftn"]) },
    Known { can_be_built: false, ..known("fj", ["fcc", "FCC", "frt"]) },
    known("intel-oneapi-compilers-classic", ["icc", "icpc", "ifort"]),
    known("nag", ["", "", "nagfor"]),
    Known { can_be_built: false, ..known("xl", ["xlc", "xlc++", "xlf"]) },
];

/// A compiler that a recipe can ask for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CompilerName(usize);

impl CompilerName {
    /// The GNU compilers.
    pub const GCC: Self = Self(0);
    /// The compilers of NVIDIA.
    pub const NVHPC: Self = Self(1);
    /// Clang and flang.
    pub const LLVM: Self = Self(2);

    /// The newer compilers of Intel.
    const INTEL_ONEAPI: Self = Self(4);

    /// Returns all compilers, in the order in which they are built.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..ALL.len()).map(Self)
    }

    fn known(self) -> &'static Known {
        // Only this module makes the number.
        &ALL[self.0 % ALL.len()]
    }

    /// Returns the name of its package.
    #[must_use]
    pub fn package(self) -> &'static str {
        self.known().package
    }

    /// Returns the name by which packages ask for it: `%oneapi`.
    #[must_use]
    pub fn in_specs(self) -> &'static str {
        self.known().aliases.first().copied().unwrap_or(self.package())
    }

    /// Finds a compiler by the name of its package.
    #[must_use]
    pub fn of(package: &str) -> Option<Self> {
        Self::all().find(|name| name.package() == package)
    }

    /// Finds a compiler by any name that specs have for it.
    #[must_use]
    pub fn of_spec(name: &str) -> Option<Self> {
        match name {
            "clang" => Some(Self::LLVM),
            "rocmcc" => Self::of("llvm-amdgpu"),
            "arm" => Self::of("acfl"),
            _ => Self::all()
                .find(|one| one.known().aliases.contains(&name))
                .or_else(|| Self::of(name)),
        }
    }

    /// Returns the variants that it is built with when a recipe names none.
    #[must_use]
    pub fn default_variants(self) -> &'static str {
        self.known().variants
    }

    /// Returns its languages, as Spack names them, each with the program that compiles it.
    pub fn programs(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        LANGUAGES.into_iter().zip(self.known().programs).filter(|(_, program)| !program.is_empty())
    }

    /// Tells whether specs may ask for it although compilers.yaml does not have it: the system may.
    #[must_use]
    pub(super) fn is_rare(self) -> bool {
        self > Self::INTEL_ONEAPI
    }

    /// Tells whether Spack can install it. The others are always those of the system.
    #[must_use]
    pub fn can_be_built(self) -> bool {
        self.known().can_be_built
    }
}

impl fmt::Debug for CompilerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.package())
    }
}
