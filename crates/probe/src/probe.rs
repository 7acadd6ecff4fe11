// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Everything that is looked for, all at once.

use std::path::PathBuf;

use crate::found::{Device, DeviceKind, External, Found};
use crate::machine::{Limits, Machine};
use crate::processor::TargetChoice;
use crate::tools::{TOOLS, Tool};
use crate::turns::all_at_once;
use crate::{compilers, fabric, gpu, mpi, network, processor, slurm, tools};

/// What to look at.
#[derive(Clone, Debug)]
pub struct Request {
    /// The root of the machine's files; `/` is the machine itself.
    pub root: PathBuf,
    /// Directories of users, in which nothing is looked at. The usual ones are known.
    pub homes: Vec<PathBuf>,
    /// For what to build, if not for what is found.
    pub target: Option<TargetChoice>,
    /// How long programs may take.
    pub limits: Limits,
}

/// One thing to look for.
enum Search {
    Tool(&'static Tool),
    One(fn(&Machine) -> Option<External>),
    Externals(fn(&Machine) -> Vec<External>),
    Device(fn(&Machine) -> Option<Device>),
    Devices(fn(&Machine) -> Vec<Device>),
    Both(fn(&Machine) -> Option<(External, Device)>),
}

impl Search {
    fn look(&self, machine: &Machine) -> (Vec<External>, Vec<Device>) {
        match self {
            Self::Tool(tool) => (Vec::from_iter(tools::look(machine, tool)), Vec::new()),
            Self::One(look) => (Vec::from_iter(look(machine)), Vec::new()),
            Self::Externals(look) => (look(machine), Vec::new()),
            Self::Device(look) => (Vec::new(), Vec::from_iter(look(machine))),
            Self::Devices(look) => (Vec::new(), look(machine)),
            Self::Both(look) => look(machine).into_iter().unzip(),
        }
    }
}

/// Everything but the tools, in the order in which it is listed. Each is cheap where
/// there is nothing to find.
const SEARCHES: [Search; 19] = [
    Search::Externals(compilers::gcc),
    Search::Externals(compilers::llvm),
    Search::Externals(compilers::vendors),
    Search::Both(slurm::look),
    Search::One(slurm::pmix),
    Search::Device(gpu::nvidia),
    Search::Externals(gpu::cuda),
    Search::Device(gpu::amd),
    Search::Externals(gpu::rocm),
    Search::Both(gpu::intel),
    Search::Devices(fabric::devices),
    Search::One(fabric::rdma_core),
    Search::One(fabric::xpmem),
    Search::Externals(fabric::libfabric),
    Search::Externals(fabric::ucx),
    Search::Externals(mpi::cray_mpich),
    Search::Externals(mpi::intel),
    Search::Externals(mpi::mpich),
    Search::Externals(mpi::openmpi),
];

/// Looks at a machine.
///
/// It changes nothing, needs no privilege, and always comes to an end: what does not
/// answer is left out with a note.
#[must_use]
pub fn probe(request: &Request) -> Found {
    let machine = Machine::new(&request.root, &request.homes, request.limits);
    // What takes longest begins first; the order of the result is made below.
    let searches: Vec<Search> = TOOLS.iter().map(Search::Tool).chain(SEARCHES).collect();
    let found = all_at_once(&searches, |search| search.look(&machine));
    let (externals, devices): (Vec<_>, Vec<_>) = found.into_iter().unzip();
    let (mut externals, mut devices) = (externals.concat(), devices.concat());
    externals.sort_by_key(|external| external.section);
    devices.sort_by_key(|device| device.kind);
    let processor = processor::look(&machine, request.target.as_ref());
    remark(&machine, &externals, &devices);
    let mut found = Found {
        operating_system: operating_system(&machine),
        processor,
        externals,
        devices,
        mpi: Vec::new(),
        fabric: Vec::new(),
        notes: machine.into_notes(),
    };
    no_building_of_cxi(&mut found);
    found.mpi = network::mpis(&found);
    found.fabric = network::libraries(&found);
    network::remark(&mut found);
    keep_target(&mut found);
    found
}

/// Repeats the target in the rules of packages: what a package must have replaces what all must have.
fn keep_target(found: &mut Found) {
    let Some(target) = &found.processor.target else { return };
    let rules = found.mpi.iter_mut().chain(&mut found.fabric);
    for rules in rules.filter(|rules| !rules.require.is_empty()) {
        rules.must(
            format!("target={target}"),
            "the target of all packages, which rules of a package replace",
        );
    }
}

/// Says what is missing for what is there.
fn remark(machine: &Machine, externals: &[External], devices: &[Device]) {
    let has = |package: &str| externals.iter().any(|external| external.package == package);
    let device = |kind| devices.iter().find(|device| device.kind == kind);
    if !has("gcc") {
        let text = "there is no gcc with C and C++ compilers, and nothing can be built without: \
                    install gcc, g++ and gfortran";
        machine.note("gcc", text);
    }
    if let Some(device) = device(DeviceKind::InfiniBand).filter(|_| !has("rdma-core")) {
        let text = "InfiniBand without the headers of rdma-core: Spack builds its own; better \
                    install rdma-core-devel or libibverbs-dev";
        machine.note(&device.seen, text);
    }
    if let Some(device) = device(DeviceKind::NvidiaGpu).filter(|_| !has("cuda")) {
        machine.note(&device.seen, "NVIDIA GPU without CUDA: Spack downloads its own");
    }
}

/// The provider for Slingshot needs headers of the vendor that few machines have; the
/// libfabric that came with the machine is the one to use.
fn no_building_of_cxi(found: &mut Found) {
    if network::has_provider(found, "cxi") {
        let libfabrics = found.externals.iter_mut();
        let libfabrics = libfabrics.filter(|external| external.package == "libfabric");
        libfabrics.for_each(|external| external.buildable = false);
    }
}

fn operating_system(machine: &Machine) -> Option<String> {
    let text = machine.text("/etc/os-release")?;
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    let name = name.trim_matches(['"', '\'']);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || " ()./+-_,:".contains(c);
    let name: String = name.chars().filter(|c| is_plain(*c)).take(80).collect();
    Some(name).filter(|name| !name.is_empty())
}
