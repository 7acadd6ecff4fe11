// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Slurm: its programs, and what an MPI needs to be started by it.

use crate::directories::{library_below, prefix_of, program, version_in_pc};
use crate::found::{Device, DeviceKind, External, Section};
use crate::machine::Machine;
use crate::version::Version;

/// Where sites put it, beside the directories of the system.
const OPT: [&str; 3] = ["/opt/slurm/bin", "/opt/slurm/default/bin", "/opt/slurm/current/bin"];

/// Looks for Slurm.
pub(crate) fn look(machine: &Machine) -> Option<(External, Device)> {
    let in_opt = || {
        let mut paths = OPT.iter().map(|directory| format!("{directory}/srun"));
        paths.find_map(|path| machine.program(&path))
    };
    let srun = program(machine, "srun").or_else(in_opt)?;
    let prefix = prefix_of(&srun);
    let version = version_in_header(machine, &prefix).or_else(|| version_of(machine, &srun))?;
    let header = |name: &str| {
        let path = format!("{prefix}/include/slurm/{name}");
        machine.has(&path).then_some(path)
    };
    let library = |name: &str| library_below(machine, &prefix, name);
    let plugin = || ["slurm/mpi_pmix.so", "slurm-wlm/mpi_pmix.so"].into_iter().find_map(library);
    let can_link = header("slurm.h").filter(|_| library("libslurm.so").is_some());
    let device = Device::new(DeviceKind::Slurm, srun.as_str())
        .with("headers", can_link)
        .with("pmi2", header("pmi2.h").filter(|_| library("libpmi2.so").is_some()))
        .with("pmix", plugin());
    let mut checks = Vec::new();
    if device.detail("headers").is_none() {
        checks.push(
            "its headers are missing (slurm-devel or libslurm-dev), so MPICH is built without it"
                .to_owned(),
        );
    }
    let found = External::new(Section::Scheduler, "slurm", version, srun);
    Some((External { buildable: false, checks, ..found }, device))
}

/// Reads the version where no program must run: a node that knows of no cluster
/// looks for one in the network before it prints even that.
fn version_in_header(machine: &Machine, prefix: &str) -> Option<Version> {
    let text = machine.text(&format!("{prefix}/include/slurm/slurm_version.h"))?;
    let mut lines = text.lines();
    let number = lines.find_map(|line| line.strip_prefix("#define SLURM_VERSION_NUMBER 0x"))?;
    let number = u32::from_str_radix(number.trim(), 16).ok()?;
    let (year, month, patch) = (number >> 16 & 255, number >> 8 & 255, number & 255);
    Version::new(&format!("{year:02}.{month:02}.{patch}"))
}

fn version_of(machine: &Machine, srun: &str) -> Option<Version> {
    let text = machine.ask(srun, &["--version"])?;
    let version = Version::after(&text, "slurm-wlm ").or_else(|| Version::after(&text, "slurm "));
    version?.numbers()
}

/// Looks for `PMIx` with its header, which Debian hides elsewhere.
pub(crate) fn pmix(machine: &Machine) -> Option<External> {
    let (pc, version) = version_in_pc(machine, &["/usr", "/opt/pmix"], "pmix")?;
    let prefix = ["/opt/pmix", "/usr"].into_iter().find(|prefix| pc.starts_with(prefix))?;
    machine.has(&format!("{prefix}/include/pmix.h")).then(|| External {
        prefix: prefix.to_owned(),
        ..External::new(Section::Scheduler, "pmix", version, pc)
    })
}
