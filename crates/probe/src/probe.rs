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
    Of(fn(&Machine) -> Pieces),
}

/// What a search finds.
#[derive(Default)]
struct Pieces {
    externals: Vec<External>,
    devices: Vec<Device>,
}

impl From<Vec<External>> for Pieces {
    fn from(externals: Vec<External>) -> Self {
        Self { externals, devices: Vec::new() }
    }
}

impl From<Option<External>> for Pieces {
    fn from(external: Option<External>) -> Self {
        Vec::from_iter(external).into()
    }
}

impl From<Vec<Device>> for Pieces {
    fn from(devices: Vec<Device>) -> Self {
        Self { externals: Vec::new(), devices }
    }
}

impl From<Option<(External, Device)>> for Pieces {
    fn from(pair: Option<(External, Device)>) -> Self {
        let (externals, devices) = pair.into_iter().unzip();
        Self { externals, devices }
    }
}

/// Everything but the tools, in the order in which it is told. Each is cheap where
/// there is nothing to find.
const SEARCHES: &[fn(&Machine) -> Pieces] = &[
    |machine| compilers::gcc(machine).into(),
    |machine| compilers::llvm(machine).into(),
    |machine| compilers::vendors(machine).into(),
    |machine| slurm::look(machine).into(),
    |machine| slurm::pmix(machine).into(),
    |machine| Vec::from_iter(gpu::nvidia(machine)).into(),
    |machine| gpu::cuda(machine).into(),
    |machine| Vec::from_iter(gpu::amd(machine)).into(),
    |machine| gpu::rocm(machine).into(),
    |machine| gpu::intel(machine).into(),
    |machine| fabric::devices(machine).into(),
    |machine| fabric::rdma_core(machine).into(),
    |machine| fabric::xpmem(machine).into(),
    |machine| fabric::libfabric(machine).into(),
    |machine| fabric::ucx(machine).into(),
    |machine| mpi::cray_mpich(machine).into(),
    |machine| mpi::intel(machine).into(),
    |machine| mpi::mpich(machine).into(),
    |machine| mpi::openmpi(machine).into(),
];

/// Looks at a machine.
///
/// It changes nothing, needs no privilege, and always comes to an end: what does not
/// answer is left out with a note.
#[must_use]
pub fn probe(request: &Request) -> Found {
    let machine = Machine::new(&request.root, &request.homes, request.limits);
    let tools = TOOLS.iter().map(Search::Tool);
    // What takes longest begins first; the order in which it is told is made below.
    let searches: Vec<Search> = tools.chain(SEARCHES.iter().copied().map(Search::Of)).collect();
    let pieces = all_at_once(&searches, |search| match search {
        Search::Tool(tool) => tools::look(&machine, tool).into(),
        Search::Of(look) => look(&machine),
    });
    let mut externals = Vec::new();
    let mut devices = Vec::new();
    for piece in pieces {
        externals.extend(piece.externals);
        devices.extend(piece.devices);
    }
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
    found
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
    let all = &mut found.externals;
    if all
        .iter()
        .any(|external| external.package == "libfabric" && network::provides(external, "cxi"))
    {
        let libfabrics = all.iter_mut().filter(|external| external.package == "libfabric");
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
