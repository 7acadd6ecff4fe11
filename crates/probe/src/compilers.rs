// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Compilers: gcc and clang of the system and in `/opt`, and those of vendors.

use std::collections::BTreeSet;

use crate::directories::{beside, of_programs, versions_in};
use crate::found::{CompilerPaths, External, Section};
use crate::machine::Machine;
use crate::version::{Version, signs};

/// The names of a compiler for C, C++ and Fortran.
type Names = [&'static [&'static str]; 3];

const GCC: Names = [&["gcc"], &["g++"], &["gfortran"]];
const LLVM: Names = [&["clang"], &["clang++"], &["flang", "flang-new"]];

/// Returns every gcc that can compile C and C++, the newest first.
pub(crate) fn gcc(machine: &Machine) -> Vec<External> {
    let found = in_all_directories(machine, GCC, |program| {
        let full = machine.ask(program, &["-dumpfullversion"]);
        // Before gcc 7 there was only the other question.
        let text = full.or_else(|| machine.ask(program, &["-dumpversion"]))?;
        Version::at_start(&text)?.numbers()
    });
    let usable = found.into_iter().filter(|(version, compilers)| {
        let (Some(c), None) = (&compilers.c, &compilers.cxx) else {
            return true;
        };
        let hint = "install g++ or gcc-c++ of the same version";
        machine.note(c, format!("gcc {version} is left out, it has no C++ compiler: {hint}"));
        false
    });
    usable.filter_map(|(version, compilers)| gcc_external(version, compilers)).collect()
}

fn gcc_external(version: Version, compilers: CompilerPaths) -> Option<External> {
    let has_fortran = compilers.fortran.is_some();
    let mut found = external("gcc", version, compilers)?;
    if !has_fortran {
        let check = "there is no gfortran of this version; install it if anything needs Fortran, \
                     most MPIs do";
        found.checks.push(check.to_owned());
    }
    let fortran = if has_fortran { ",fortran" } else { "" };
    found.variants = format!("languages:='c,c++{fortran}'");
    Some(found)
}

/// Returns every clang that belongs to no one else, the newest first.
pub(crate) fn llvm(machine: &Machine) -> Vec<External> {
    let found = in_all_directories(machine, LLVM, |program| {
        let text = machine.ask(program, &["--version"])?;
        let is_vendors = ["AMD", "AOCC", "Arm Toolchain", "Intel"];
        if is_vendors.iter().any(|vendor| text.contains(vendor)) {
            return None;
        }
        let mark = ["clang version ", "flang version ", "flang-new version "];
        mark.iter().find_map(|mark| Version::after(&text, mark)?.numbers())
    });
    let found = found.into_iter().filter_map(|(version, compilers)| {
        let c = compilers.c.clone()?;
        let has_fortran = compilers.fortran.is_some();
        let mut found = external("llvm", version, compilers)?;
        let suffix = c.rsplit_once("/clang").map_or("", |(_, suffix)| suffix).to_owned();
        let has = |name| machine.program(&beside(&c, &format!("{name}{suffix}"))).is_some();
        found.variants = signs(&[
            ("clang", true),
            ("flang", has_fortran),
            ("lld", has("ld.lld")),
            ("lldb", has("lldb")),
        ]);
        Some(found)
    });
    found.collect()
}

/// Returns the compilers of vendors, where vendors put them.
pub(crate) fn vendors(machine: &Machine) -> Vec<External> {
    [nvhpc(machine), oneapi(machine), amdgpu(machine), cray(machine)].concat()
}

fn nvhpc(machine: &Machine) -> Vec<External> {
    let home = "/opt/nvidia/hpc_sdk";
    let platforms = machine.names(home).into_iter().filter(|name| name.starts_with("Linux_"));
    let places = platforms
        .flat_map(|platform| versions_in(machine, &format!("{home}/{platform}"), "/compilers/bin"));
    let found = places.filter_map(|(_, directory)| {
        let compilers = named(machine, &directory, ["nvc", "nvc++", "nvfortran"]);
        let text = machine.ask(compilers.c.as_deref()?, &["--version"])?;
        // A line such as `nvc 24.3-0 64-bit target on x86-64 Linux`.
        let version = Version::after(&text, "nvc ")?.numbers()?;
        let mut found = external("nvhpc", version, compilers)?;
        "~blas~lapack~mpi".clone_into(&mut found.variants);
        Some(found)
    });
    found.collect()
}

fn oneapi(machine: &Machine) -> Vec<External> {
    let home = "/opt/intel/oneapi";
    let places = versions_in(machine, &format!("{home}/compiler"), "/bin").into_iter();
    let found = places.filter_map(|(_, directory)| {
        let compilers = named(machine, &directory, ["icx", "icpx", "ifx"]);
        let text = machine.ask(compilers.c.as_deref()?, &["--version"])?;
        let version = Version::after(&text, "DPC++/C++ Compiler ")?;
        let mut found = external("intel-oneapi-compilers", version, compilers)?;
        home.clone_into(&mut found.prefix);
        Some(found)
    });
    found.collect()
}

fn amdgpu(machine: &Machine) -> Vec<External> {
    let names = machine.names("/opt").into_iter();
    let places = names.filter_map(|name| Version::new(name.strip_prefix("rocm-")?));
    let found = places.filter_map(|version| {
        let directory = format!("/opt/rocm-{version}/llvm/bin");
        let compilers = named(machine, &directory, ["amdclang", "amdclang++", "amdflang"]);
        let text = machine.ask(compilers.c.as_deref()?, &["--version"])?;
        let version = Version::after(&text, "roc-")?.numbers()?;
        external("llvm-amdgpu", version, compilers)
    });
    found.collect()
}

fn cray(machine: &Machine) -> Vec<External> {
    let places = versions_in(machine, "/opt/cray/pe/cce", "/bin").into_iter();
    let found = places.filter_map(|(version, directory)| {
        let compilers = named(machine, &directory, ["craycc", "crayCC", "crayftn"]);
        compilers.c.as_ref()?;
        external("cce", version, compilers)
    });
    found.collect()
}

fn named(machine: &Machine, directory: &str, names: [&str; 3]) -> CompilerPaths {
    let [c, cxx, fortran] = names.map(|name| machine.program(&format!("{directory}/{name}")));
    CompilerPaths { c, cxx, fortran }
}

fn external(package: &'static str, version: Version, compilers: CompilerPaths) -> Option<External> {
    let found = External::new(Section::Compiler, package, version, compilers.c.clone()?);
    Some(External { compilers: Some(compilers), ..found })
}

/// Returns the directories in which compilers are looked for.
fn all_directories(machine: &Machine) -> Vec<String> {
    let mut all: Vec<String> = of_programs(machine).into_iter().map(str::to_owned).collect();
    for name in machine.names("/opt") {
        let directory = format!("/opt/{name}");
        let inner = machine.names(&directory).into_iter();
        let inner = inner.filter(|inner| Version::new(inner).is_some());
        all.push(format!("{directory}/bin"));
        all.extend(inner.map(|inner| format!("{directory}/{inner}/bin")));
    }
    for name in machine.names("/opt/rh") {
        all.push(format!("/opt/rh/{name}/root/usr/bin"));
    }
    let cray = versions_in(machine, "/opt/cray/pe/gcc", "/bin").into_iter();
    all.extend(cray.map(|(_, directory)| directory));
    all.retain(|directory| !directory.starts_with("/opt/rocm"));
    all
}

/// Returns the compilers of each version in each directory, the newest first.
///
/// A version may have several names: `gcc` and `gcc-12`. The shortest is taken. A
/// compiler that is in several directories is taken from the first.
fn in_all_directories(
    machine: &Machine,
    names: Names,
    version_of: impl Fn(&str) -> Option<Version>,
) -> Vec<(Version, CompilerPaths)> {
    let mut all: Vec<(Version, CompilerPaths)> = Vec::new();
    let mut seen = BTreeSet::new();
    for directory in all_directories(machine) {
        let mut here: Vec<(Version, CompilerPaths)> = Vec::new();
        for (language, names) in names.iter().enumerate() {
            for name in with_suffixes(machine, &directory, names) {
                let program = machine.program(&format!("{directory}/{name}"));
                let version = program.as_deref().and_then(&version_of);
                let Some((program, version)) = program.zip(version) else {
                    continue;
                };
                let known = here.iter().position(|(other, _)| *other == version);
                let place = known.unwrap_or_else(|| {
                    here.push((version, CompilerPaths::default()));
                    here.len() - 1
                });
                let paths = &mut here[place].1;
                let slots = [&mut paths.c, &mut paths.cxx, &mut paths.fortran];
                slots[language].get_or_insert(program);
            }
        }
        here.retain(|(_, paths)| {
            let real = paths.c.as_deref().and_then(|c| machine.real(c));
            real.is_some_and(|real| seen.insert(real))
        });
        all.extend(here);
    }
    all.sort_by_key(|(version, _)| version.order());
    all
}

/// Returns the names in a directory that are one of `names`, with or without a version
/// behind, the shortest first.
fn with_suffixes(machine: &Machine, directory: &str, names: &[&str]) -> Vec<String> {
    let is_suffix = |suffix: &str| {
        let version = suffix.strip_prefix('-').unwrap_or_default();
        suffix.is_empty()
            || version.starts_with(|c: char| c.is_ascii_digit())
                && version.chars().all(|c| c.is_ascii_digit() || c == '.')
    };
    let is_one = |found: &String| {
        let mut suffixes = names.iter().filter_map(|name| found.strip_prefix(name));
        suffixes.any(is_suffix)
    };
    let mut found: Vec<String> = machine.names(directory).into_iter().filter(is_one).collect();
    found.sort_by_key(|name| (name.len(), name.clone()));
    found
}
