// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! MPIs that are installed, with wrappers that are their own.
//!
//! Where a system has several in one directory, `mpicc` belongs to one of them. Spack
//! calls `mpicc` below the prefix, so the others cannot be used from there.

use std::collections::BTreeSet;

use crate::directories::{of_programs, versions_in};
use crate::found::{External, Section};
use crate::machine::Machine;
use crate::mpi_text;
use crate::version::Version;

/// Directories with an MPI, beside those of the system.
const ELSEWHERE: [&str; 6] = [
    "/usr/lib64/mpich/bin",
    "/usr/lib64/openmpi/bin",
    "/usr/lib64/mpi/gcc/mpich/bin",
    "/usr/lib64/mpi/gcc/openmpi4/bin",
    "/usr/lib64/mpi/gcc/openmpi5/bin",
    "/opt/amazon/openmpi/bin",
];

fn directories(machine: &Machine) -> Vec<String> {
    let mut all: Vec<String> = of_programs(machine).into_iter().map(str::to_owned).collect();
    all.extend(ELSEWHERE.map(str::to_owned));
    for name in ["mpich", "openmpi"] {
        let parent = format!("/opt/{name}");
        all.push(format!("{parent}/bin"));
        let versions = versions_in(machine, &parent, "/bin").into_iter();
        all.extend(versions.map(|(_, directory)| directory));
    }
    all
}

/// Looks for MPICH.
pub(crate) fn mpich(machine: &Machine) -> Vec<External> {
    let found = directories(machine).into_iter().filter_map(|directory| {
        let program = machine.program(&format!("{directory}/mpichversion"))?;
        let text = machine.ask(&program, &[])?;
        let version = Version::after(&text, "MPICH Version:\t")
            .or_else(|| Version::after(&text, "MPICH Version:"))?;
        has_wrapper(machine, &directory, &program, "MPICH")?;
        let variants = mpi_text::mpich_variants(&text);
        Some(external("mpich", version, variants, program))
    });
    unique(machine, found.collect())
}

/// Looks for Open MPI.
pub(crate) fn openmpi(machine: &Machine) -> Vec<External> {
    let found = directories(machine).into_iter().filter_map(|directory| {
        let program = machine.program(&format!("{directory}/ompi_info"))?;
        let text = machine.ask(&program, &["-a"])?;
        let version = Version::after(&text, "Open MPI: ")?;
        has_wrapper(machine, &directory, &program, "Open MPI")?;
        let has_launcher = machine.has(&format!("{directory}/mpirun"));
        let variants = mpi_text::openmpi_variants(&text, &version, has_launcher);
        Some(external("openmpi", version, variants, program))
    });
    unique(machine, found.collect())
}

/// Asks `mpicc` whose it is.
fn has_wrapper(machine: &Machine, directory: &str, program: &str, owner: &str) -> Option<()> {
    let question = if owner == "MPICH" { "-v" } else { "--showme:version" };
    let Some(mpicc) = machine.program(&format!("{directory}/mpicc")) else {
        let text = format!("{owner} is left out, there is no mpicc beside it: install its headers");
        machine.note(program, text);
        return None;
    };
    // MPICH hands the question on to the compiler, which may not like it.
    let answer = machine.ask_anyway(&mpicc, &[question])?;
    if answer.text.contains(owner) {
        return Some(());
    }
    let text = format!("{owner} is left out, because {mpicc} belongs to another MPI");
    machine.note(program, text);
    None
}

/// Looks for the MPI of HPE Cray, as it is for gcc.
pub(crate) fn cray_mpich(machine: &Machine) -> Vec<External> {
    let versions = versions_in(machine, "/opt/cray/pe/mpich", "/ofi/gnu").into_iter();
    let found = versions.filter_map(|(version, directory)| {
        let (_, inner) = versions_in(machine, &directory, "/bin/mpicc").into_iter().next()?;
        let mpicc = machine.program(&inner)?;
        let mut found = external("cray-mpich", version, "+wrappers".to_owned(), mpicc);
        found.buildable = false;
        found.checks.push(
            "it is outside of images: they run where it is installed, with the cray-pmi and \
             libfabric of the node"
                .to_owned(),
        );
        Some(found)
    });
    found.collect()
}

/// Looks for the MPI of Intel.
pub(crate) fn intel(machine: &Machine) -> Vec<External> {
    let home = "/opt/intel/oneapi";
    let versions = versions_in(machine, &format!("{home}/mpi"), "/bin").into_iter();
    let found = versions.filter_map(|(_, directory)| {
        let program = machine.program(&format!("{directory}/mpiicpx"))?;
        let text = machine.ask_anyway(&program, &["-v"])?.text;
        let version = Version::after(&text, "MPI Library ")?;
        let mut found = external("intel-oneapi-mpi", version, String::new(), program);
        home.clone_into(&mut found.prefix);
        Some(found)
    });
    found.collect()
}

/// Leaves out what is the same under another name.
fn unique(machine: &Machine, mut found: Vec<External>) -> Vec<External> {
    let mut seen = BTreeSet::new();
    found.retain(|external| seen.insert(machine.real(&external.origin)));
    found
}

fn external(package: &'static str, version: Version, variants: String, origin: String) -> External {
    External { variants, ..External::new(Section::Mpi, package, version, origin) }
}
