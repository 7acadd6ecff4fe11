// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Drivers that no specification describes: their libraries are found where the loader finds them.
//!
//! What is found becomes a specification, as the tool of the vendor would write it, with one device
//! `all`. All libraries of an NVIDIA driver end in its version, so that one of them leads to the others.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use cabane_compat::library_cache;
use cabane_recipe::{
    ContainerEdits, DeviceHook, DeviceKind, DeviceMount, DeviceNode, DeviceSpecification,
    SpecifiedDevice,
};

use crate::choose::ALL;

/// What is looked for of a vendor's driver.
struct Driver {
    kind: &'static str,
    /// Device nodes: how their paths begin.
    nodes: &'static [&'static str],
    /// A node without which there is no device, where distributions have packages of the library.
    required: Option<&'static str>,
    /// The library by which the driver is found.
    first: &'static str,
    /// How the names of other libraries begin, where they do not end in the version of the driver.
    libraries: &'static [&'static str],
    /// Whether all libraries that end in the version of the first one belong to it.
    by_version: bool,
    programs: &'static [&'static str],
}

const DRIVERS: [Driver; 2] = [
    Driver {
        kind: "nvidia.com/gpu",
        nodes: &["/dev/nvidia"],
        required: None,
        first: "libcuda.so.1",
        libraries: &[],
        by_version: true,
        programs: &[
            "nvidia-smi",
            "nvidia-debugdump",
            "nvidia-persistenced",
            "nvidia-cuda-mps-control",
            "nvidia-cuda-mps-server",
        ],
    },
    Driver {
        kind: "amd.com/gpu",
        nodes: &["/dev/kfd", "/dev/dri/render"],
        required: Some("/dev/kfd"),
        first: "libhsa-runtime64.so.1",
        libraries: &[
            "libamdhip64.so.",
            "libamd_comgr.so.",
            "libdrm.so.",
            "libdrm_amdgpu.so.",
            "libhsakmt.so.",
            "libhsa-amd-aqlprofile64.so.",
            "libnuma.so.",
            "libelf.so.",
            "librocm_smi64.so.",
            "librocprofiler-register.so.",
        ],
        by_version: false,
        programs: &["rocm-smi", "rocminfo"],
    },
];

/// Where drivers are that the loader's cache does not know.
const DIRECTORIES: [&str; 9] = [
    "/usr/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64/nvidia",
    "/usr/lib/nvidia",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/local/nvidia/lib64",
    "/opt/rocm/lib",
    "/usr/lib/wsl/lib",
];
const PROGRAMS: [&str; 5] =
    ["/usr/bin", "/usr/local/bin", "/usr/local/nvidia/bin", "/opt/rocm/bin", "/usr/sbin"];
/// Where the libraries are seen. A place among the libraries of an image would have its directory
/// shadowed, which takes long.
const SEEN: &str = "/run/cabane/driver";
/// The most files of one directory that are looked at.
const MOST_FILES: usize = 10_000;

/// Finds the drivers of a machine with this root directory, but for classes of devices that are described
/// already: for each the library by which it was found, and what a container gets.
pub(crate) fn find(
    root: &Path,
    is_described: impl Fn(&str) -> bool,
) -> Vec<(PathBuf, DeviceSpecification)> {
    let cache = fs::read(inside(root, library_cache::PLACE.as_ref())).unwrap_or_default();
    // Mostly there is no driver, and nothing more is read.
    let found = DRIVERS.iter().filter(|driver| !is_described(driver.kind));
    found.filter_map(|driver| driver.find(root, &cache)).collect()
}

impl Driver {
    fn find(&self, root: &Path, cache: &[u8]) -> Option<(PathBuf, DeviceSpecification)> {
        let has_node = self.required.is_none_or(|node| inside(root, node.as_ref()).exists());
        let usual = DIRECTORIES.iter().map(|directory| Path::new(directory).join(self.first));
        let mut places = library_cache::in_cache(cache, self.first).chain(usual);
        let first = has_node.then(|| places.find_map(|path| resolved(root, &path))).flatten()?;
        let version = version_of(&first, self.first).filter(|_| self.by_version);
        let ending = version.as_ref().map(|version| format!(".so.{version}"));
        let is_wanted = |name: &str| {
            self.libraries.iter().any(|start| name.starts_with(start))
                || ending.as_ref().is_some_and(|ending| name.ends_with(ending))
        };
        let mut files = libraries(root, cache, &first, is_wanted);
        files.insert(first.clone());
        let mut hooks = vec![hook("update-ldcache", &format!("--folder={SEEN}"))];
        if let Some(version) = version {
            let link = format!("--link={}::{SEEN}/libcuda.so", self.first);
            hooks.push(hook("create-symlinks", &link));
            hooks.push(hook("enable-cuda-compat", &format!("--host-driver-version={version}")));
        }
        let libraries = files.iter().map(|file| mount(root, file, SEEN));
        let programs = self.programs.iter().filter_map(|name| program(root, name));
        let edits = ContainerEdits {
            mounts: libraries.chain(programs).collect(),
            nodes: self.nodes.iter().flat_map(|start| nodes(root, start)).collect(),
            hooks,
            ..ContainerEdits::default()
        };
        let device =
            SpecifiedDevice { name: ALL.to_owned(), edits: ContainerEdits::default(), line: 0 };
        let kind: DeviceKind = self.kind.parse().ok()?;
        let version = "0.6.0".to_owned();
        Some((first, DeviceSpecification { version, kind, devices: vec![device], edits }))
    }
}

/// Finds libraries of a machine by their names: those that the loader's cache names, and those in its directories, in
/// the usual ones, and beside the first library. The paths are those inside of the root directory, and lead through
/// no link.
///
/// Machines have thousands of libraries, and following the links of each would take longer than a start.
fn libraries(
    root: &Path,
    cache: &[u8],
    first: &Path,
    is_wanted: impl Fn(&str) -> bool,
) -> BTreeSet<PathBuf> {
    let mut paths: BTreeMap<String, PathBuf> = BTreeMap::new();
    // The directory of the first has libraries of the same word size.
    let mut directories: Vec<PathBuf> = first.parent().map(Path::to_owned).into_iter().collect();
    for (name, path) in library_cache::all_in_cache(cache) {
        directories.extend(path.parent().map(Path::to_owned));
        if is_wanted(&name) {
            paths.entry(name).or_insert(path);
        }
    }
    directories.extend(DIRECTORIES.iter().map(PathBuf::from));
    let mut known = BTreeSet::new();
    directories.retain(|directory| known.insert(directory.clone()));
    // The cache has the names that libraries have for programs, and no others.
    for directory in directories {
        let entries = fs::read_dir(inside(root, &directory)).into_iter().flatten();
        for entry in entries.take(MOST_FILES).flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.contains(".so.") && is_wanted(&name) {
                paths.entry(name).or_insert_with(|| directory.join(entry.file_name()));
            }
        }
    }
    paths.values().filter_map(|path| resolved(root, path)).collect()
}

/// Returns the place of a path of a machine with this root directory.
fn inside(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// Follows the links of a path, and returns the path of the file inside of the root directory.
fn resolved(root: &Path, path: &Path) -> Option<PathBuf> {
    let real = fs::canonicalize(inside(root, path)).ok().filter(|real| real.is_file())?;
    let root = fs::canonicalize(root).ok()?;
    Some(Path::new("/").join(real.strip_prefix(root).ok()?))
}

/// Returns the version of a driver, by the name of the file of its library: `550.54.15` of
/// `libcuda.so.550.54.15`.
fn version_of(file: &Path, soname: &str) -> Option<String> {
    let stem = soname.trim_end_matches(|c: char| c.is_ascii_digit());
    let version = file.file_name()?.to_str()?.strip_prefix(stem)?;
    version.contains('.').then(|| version.to_owned())
}

/// Shows a file in a directory.
fn mount(root: &Path, file: &Path, directory: &str) -> DeviceMount {
    DeviceMount {
        source: inside(root, file),
        target: Path::new(directory).join(file.file_name().unwrap_or_default()),
        file_system: None,
        read_only: true,
        line: 0,
    }
}

fn program(root: &Path, name: &str) -> Option<DeviceMount> {
    let places = PROGRAMS.iter().map(|directory| Path::new(directory).join(name));
    let file = places.into_iter().find_map(|place| resolved(root, &place))?;
    let target = Path::new("/usr/bin").join(name);
    Some(DeviceMount { target, ..mount(root, &file, "/") })
}

/// Asks for what a tool of the vendor would do. Nothing is run.
fn hook(purpose: &str, option: &str) -> DeviceHook {
    let name = "nvidia-cdi-hook";
    let arguments = [name, purpose, option].map(str::to_owned).to_vec();
    let moment = "createContainer".to_owned();
    DeviceHook { moment, program: Path::new("/usr/bin").join(name), arguments, line: 0 }
}

/// Finds device nodes by the beginning of their paths.
fn nodes(root: &Path, start: &str) -> Vec<DeviceNode> {
    let start = Path::new(start);
    let (Some(directory), Some(name)) = (start.parent(), start.file_name()) else {
        return Vec::new();
    };
    let name = name.to_string_lossy();
    let entries = fs::read_dir(inside(root, directory)).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries
        .take(MOST_FILES)
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&*name))
        .filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_dir()))
        .map(|entry| directory.join(entry.file_name()))
        .collect();
    paths.sort();
    let node = |path: PathBuf| DeviceNode {
        host_path: inside(root, &path),
        path,
        numbers: None,
        is_read: true,
        is_written: true,
        line: 0,
    };
    paths.into_iter().map(node).collect()
}
