// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! GPUs, and the software of their vendors.

use std::collections::BTreeSet;

use crate::directories::{library, library_in, program, version_in_pc};
use crate::found::{Device, DeviceKind, External, Section};
use crate::machine::Machine;
use crate::version::Version;

/// Looks for GPUs of NVIDIA.
pub(crate) fn nvidia(machine: &Machine) -> Option<Device> {
    let seen = ["/proc/driver/nvidia/version", "/dev/nvidiactl"];
    let seen = seen.into_iter().find(|path| machine.has(path))?;
    let driver = machine
        .text("/proc/driver/nvidia/version")
        .and_then(|text| Version::after(&text, "Kernel Module "));
    // Asked only where there is one: it takes its time.
    let question = ["--query-gpu=compute_cap", "--format=csv,noheader"];
    let answer = program(machine, "nvidia-smi").and_then(|smi| machine.ask(&smi, &question));
    let archs = answer.iter().flat_map(|text| text.lines()).filter_map(|line| {
        let (major, minor) = line.trim().split_once('.')?;
        let (major, minor): (u8, u8) = (major.parse().ok()?, minor.parse().ok()?);
        Some(format!("{major}{minor}"))
    });
    let archs = each_once(archs);
    let device = Device::new(DeviceKind::NvidiaGpu, seen);
    Some(device.with("cuda_arch", archs).with("driver", driver.map(|v| v.to_string())))
}

/// Looks for CUDA, every release of it.
pub(crate) fn cuda(machine: &Machine) -> Vec<External> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for parent in ["/usr/local", "/opt"] {
        let names = machine.names(parent).into_iter();
        // `cuda` alone is mostly a link to one with a number, which says more.
        for name in names.filter(|name| name.starts_with("cuda")).rev() {
            let prefix = format!("{parent}/{name}");
            let Some(nvcc) = machine.program(&format!("{prefix}/bin/nvcc")) else {
                continue;
            };
            if !seen.insert(machine.real(&nvcc)) {
                continue;
            }
            let text = machine.ask(&nvcc, &["--version"]).unwrap_or_default();
            if let Some(version) = Version::after(&text, ", V") {
                found.push(external("cuda", version, prefix, nvcc));
            }
        }
    }
    found.sort_by_key(|external| external.version.order());
    found
}

/// Looks for GPUs of AMD.
pub(crate) fn amd(machine: &Machine) -> Option<Device> {
    let nodes = "/sys/class/kfd/kfd/topology/nodes";
    let names = machine.names(nodes).into_iter();
    // A processor is a node as well, with the target 0.
    let targets = each_once(names.filter_map(|node| {
        let text = machine.text(&format!("{nodes}/{node}/properties"))?;
        let value = text.lines().find_map(|line| line.strip_prefix("gfx_target_version "))?;
        amdgpu_target(value.trim().parse().ok()?)
    }))?;
    Some(Device::new(DeviceKind::AmdGpu, nodes).with("amdgpu_target", Some(targets)))
}

/// Lists names in order, each once; `None` if there are none.
fn each_once(names: impl Iterator<Item = String>) -> Option<String> {
    let names: BTreeSet<String> = names.collect();
    (!names.is_empty()).then(|| Vec::from_iter(names).join(","))
}

/// Writes 90010 as `gfx90a`: the last part is hexadecimal.
fn amdgpu_target(number: u32) -> Option<String> {
    let (major, minor, step) = (number / 10_000, number / 100 % 100, number % 100);
    (major > 0).then(|| format!("gfx{major}{minor}{step:x}"))
}

/// Looks for the libraries of `ROCm` from which an MPI is built.
pub(crate) fn rocm(machine: &Machine) -> Vec<External> {
    let names = machine.names("/opt").into_iter();
    let mut prefixes: Vec<_> =
        names.filter(|name| name.starts_with("rocm-")).map(|name| format!("/opt/{name}")).collect();
    if prefixes.is_empty() {
        prefixes.push("/opt/rocm".to_owned());
    }
    let libraries = [
        ("comgr", "libamd_comgr"),
        ("hip", "libamdhip64"),
        ("hsa-rocr-dev", "libhsa-runtime64"),
        ("rocm-core", "librocm-core"),
    ];
    let mut found = Vec::new();
    for (package, library) in libraries {
        for prefix in &prefixes {
            let file = library_in(machine, &format!("{prefix}/lib"), library);
            let version = file.as_deref().and_then(rocm_version);
            if let (Some(file), Some(version)) = (file, version) {
                found.push(external(package, version, prefix.clone(), file));
            }
        }
    }
    found.sort_by_key(|external| (external.package, external.version.order()));
    found
}

/// Returns 6.0.2 for `libamdhip64.so.6.0.60002`.
fn rocm_version(file: &str) -> Option<Version> {
    let (_, number) = file.rsplit_once('.')?;
    let number: u32 = number.parse().ok().filter(|number| *number >= 10_000)?;
    let (major, minor, patch) = (number / 10_000, number / 100 % 100, number % 100);
    Version::new(&format!("{major}.{minor}.{patch}"))
}

/// Looks for GPUs of Intel; without the headers of Level Zero there is no use for them.
pub(crate) fn intel(machine: &Machine) -> Option<(External, Device)> {
    let header = "/usr/include/level_zero/ze_api.h";
    let cards = "/sys/class/drm";
    let is_intel = |name: &String| {
        let vendor = machine.text(&format!("{cards}/{name}/device/vendor"));
        vendor.is_some_and(|vendor| vendor.trim() == "0x8086")
    };
    let names = machine.names(cards).into_iter();
    let card = names.filter(|name| name.starts_with("render")).find(is_intel)?;
    if !machine.has(header) {
        return None;
    }
    let file = library(machine, "libze_loader")?;
    let in_name = file.rsplit_once(".so.").and_then(|(_, version)| Version::new(version));
    let in_pc = || Some(version_in_pc(machine, &["/usr"], "level-zero")?.1);
    let version = in_name.filter(|version| version.as_str().contains('.')).or_else(in_pc)?;
    let device = Device::new(DeviceKind::IntelGpu, format!("{cards}/{card}"));
    Some((external("oneapi-level-zero", version, "/usr".to_owned(), file), device))
}

fn external(package: &'static str, version: Version, prefix: String, origin: String) -> External {
    External { prefix, ..External::new(Section::Gpu, package, version, origin) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_of_amd_have_a_hexadecimal_end() {
        let targets = [90_010, 90_402, 110_000, 0].map(amdgpu_target);
        let expected = ["gfx90a", "gfx942", "gfx1100", ""];
        assert_eq!(targets.map(Option::unwrap_or_default), expected);
    }

    #[test]
    fn the_release_of_rocm_stands_in_the_name_of_a_library() {
        let version = rocm_version("/opt/rocm-6.0.2/lib/libamdhip64.so.6.0.60002");
        assert_eq!(version, Version::new("6.0.2"));
    }
}
