// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The fabric: its devices, and the libraries below an MPI.

use std::path::Path;

use crate::directories::{library, library_below, prefix_of, program, version_in_pc, versions_in};
use crate::found::{Device, DeviceKind, External, Section};
use crate::machine::Machine;
use crate::version::Version;

/// Looks for devices of fabrics.
pub(crate) fn devices(machine: &Machine) -> Vec<Device> {
    let cxi = "/sys/class/cxi";
    let first = machine.names(cxi).into_iter().take(1);
    let mut found: Vec<Device> =
        first.map(|name| Device::new(DeviceKind::Cxi, format!("{cxi}/{name}"))).collect();
    let verbs = "/sys/class/infiniband";
    for name in machine.names(verbs) {
        let seen = format!("{verbs}/{name}");
        let driver = machine.real(&format!("{seen}/device/driver"));
        let driver = driver.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
        let kind = match driver.unwrap_or(&name) {
            driver if driver.starts_with("hfi1") => DeviceKind::OmniPath,
            driver if driver.starts_with("efa") => DeviceKind::Efa,
            _ => DeviceKind::InfiniBand,
        };
        let link = machine.text(&format!("{seen}/ports/1/link_layer"));
        let link = link.map(|link| link.trim().to_owned());
        let link = link.filter(|link| matches!(link.as_str(), "InfiniBand" | "Ethernet"));
        let is_mlx5 = driver.unwrap_or(&name).starts_with("mlx5");
        let device =
            Device::new(kind, seen).with("link", link).with("driver", is_mlx5.then_some("mlx5"));
        if !found.iter().any(|known| known.kind == kind) {
            found.push(device);
        }
    }
    found
}

/// Looks for the libraries of verbs with their headers.
pub(crate) fn rdma_core(machine: &Machine) -> Option<External> {
    let file = library(machine, "librdmacm")?;
    if !machine.has("/usr/include/infiniband/verbs.h") {
        let text = "left out, the headers of rdma-core are missing: install rdma-core-devel or \
                    libibverbs-dev and librdmacm-dev";
        machine.note(file, text);
        return None;
    }
    // A name such as `librdmacm.so.1.3.44.0`: the release begins at the third number.
    let (_, numbers) = file.rsplit_once(".so.")?;
    let mut parts = numbers.splitn(3, '.').skip(2);
    let version = Version::new(parts.next()?)?;
    let found = External::new(Section::Fabric, "rdma-core", version, file);
    Some(External { prefix: "/usr".to_owned(), buildable: false, ..found })
}

/// Looks for XPMEM: memory of other processes.
pub(crate) fn xpmem(machine: &Machine) -> Option<External> {
    let places = ["/usr", "/opt/cray/xpmem/default", "/opt/xpmem"];
    let mut names = ["cray-xpmem", "xpmem"].into_iter();
    let (pc, version) = names.find_map(|name| version_in_pc(machine, &places, name))?;
    let prefix = places.into_iter().find(|prefix| pc.starts_with(prefix))?;
    let version = version.numbers().unwrap_or(version);
    machine.has(&format!("{prefix}/include/xpmem.h")).then(|| External {
        variants: "~kernel-module".to_owned(),
        prefix: prefix.to_owned(),
        buildable: false,
        ..External::new(Section::Fabric, "xpmem", version, pc)
    })
}

/// Returns where a program of a fabric's library may be: in the system, and where
/// vendors of fabrics put their own, the newest first.
fn places(machine: &Machine, name: &str, vendors: &[&str]) -> Vec<String> {
    let mut all: Vec<String> = program(machine, name).into_iter().collect();
    for vendor in vendors {
        let versions = versions_in(machine, vendor, "/bin").into_iter();
        let single = [format!("{vendor}/bin")].into_iter();
        for directory in versions.map(|(_, directory)| directory).chain(single) {
            all.extend(machine.program(&format!("{directory}/{name}")));
        }
    }
    all
}

/// The providers that Spack knows, in order.
const PROVIDERS: [&str; 16] = [
    "cxi", "efa", "lnx", "mrail", "opx", "psm", "psm2", "psm3", "rxd", "rxm", "shm", "sockets",
    "tcp", "udp", "usnic", "verbs",
];

/// Returns the name that libfabric has for a provider of Spack.
fn in_libfabric(provider: &str) -> String {
    match provider {
        "mrail" | "rxd" | "rxm" => format!("ofi_{provider}"),
        _ => provider.to_owned(),
    }
}

/// Looks for libfabric with its headers.
pub(crate) fn libfabric(machine: &Machine) -> Vec<External> {
    let vendors = ["/opt/cray/libfabric", "/opt/amazon/efa", "/opt/libfabric"];
    let found = places(machine, "fi_info", &vendors).into_iter().filter_map(|fi_info| {
        let prefix = prefix_of(&fi_info);
        if !machine.has(&format!("{prefix}/include/rdma/fabric.h")) {
            machine.note(fi_info, "left out, the headers of libfabric are missing");
            return None;
        }
        let text = machine.ask(&fi_info, &["--version"])?;
        let version = Version::after(&text, "libfabric: ")?.numbers()?;
        // Each provider has a line of its own, such as `tcp:`.
        let list = machine.ask(&fi_info, &["--list"]).unwrap_or_default();
        let heads: Vec<&str> = list.lines().filter_map(|line| line.strip_suffix(':')).collect();
        let is_listed = |provider: &&str| heads.contains(&in_libfabric(provider).as_str());
        let fabrics: Vec<&str> = PROVIDERS.into_iter().filter(is_listed).collect();
        let mut variants = libfabric_gpus(machine, &prefix);
        if !fabrics.is_empty() {
            let blank = if variants.is_empty() { "" } else { " " };
            variants += &format!("{blank}fabrics={}", fabrics.join(","));
        }
        let found = External::new(Section::Fabric, "libfabric", version, fi_info);
        Some(External { variants, ..found })
    });
    found.collect()
}

/// Tells for which GPUs a libfabric was built: those whose functions it names. An MPI
/// that hands it memory of GPUs needs that, and no program of libfabric says it.
fn libfabric_gpus(machine: &Machine, prefix: &str) -> String {
    let functions = [
        ("cudaMemcpy", "+cuda"),
        ("hsa_amd_pointer_info", "+rocm"),
        ("zeMemGetAllocProperties", "+level_zero"),
    ];
    let Some(file) = library_below(machine, prefix, "libfabric.so") else {
        return String::new();
    };
    let named = machine.names_in(&file, &functions.map(|(function, _)| function));
    let of = functions.iter().filter(|(function, _)| named.contains(function));
    of.map(|(_, variant)| *variant).collect()
}

/// Spack's variants of UCX.
const UCX_VARIANTS: [&str; 15] = [
    "cma",
    "cuda",
    "dc",
    "dm",
    "gdrcopy",
    "ib_hw_tm",
    "knem",
    "mlx5_dv",
    "rc",
    "rdmacm",
    "rocm",
    "thread_multiple",
    "ud",
    "verbs",
    "xpmem",
];

/// Returns the option with which UCX was built for a variant of Spack.
fn ucx_option(variant: &str) -> String {
    match variant {
        "cma" => "--enable-cma".to_owned(),
        "thread_multiple" => "--enable-mt".to_owned(),
        _ => format!("--with-{}", variant.replace('_', "-")),
    }
}

/// Looks for UCX with its headers.
pub(crate) fn ucx(machine: &Machine) -> Vec<External> {
    let found = places(machine, "ucx_info", &["/opt/ucx"]).into_iter().filter_map(|ucx_info| {
        let prefix = prefix_of(&ucx_info);
        if !machine.has(&format!("{prefix}/include/ucp/api/ucp.h")) {
            machine.note(ucx_info, "left out, the headers of UCX are missing");
            return None;
        }
        let text = machine.ask(&ucx_info, &["-v"])?;
        let marks = ["# Version ", "# Library version: ", "version="];
        let version = marks.iter().find_map(|mark| Version::after(&text, mark)?.numbers())?;
        let arguments: Vec<&str> = text.split_whitespace().collect();
        let is_given = |variant: &&str| {
            let option = ucx_option(variant);
            let mut values = arguments.iter().filter_map(|one| one.strip_prefix(&*option));
            values.any(|value| value.is_empty() || value.starts_with('=') && value != "=no")
        };
        let given = UCX_VARIANTS.into_iter().filter(is_given);
        let variants = given.flat_map(|variant| ["+", variant]).collect();
        Some(External { variants, ..External::new(Section::Fabric, "ucx", version, ucx_info) })
    });
    found.collect()
}
