// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Reading what a host has.
//!
//! Files are read, and no program is started. The root may be a directory with the files of another
//! machine.

use std::collections::BTreeSet;
use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};

use cabane_compat::{GlibcVersion, Linkage, library_cache};
use cabane_mpi::Tree;
use cabane_probe::{DeviceKind, Found};

use crate::{HostFacts, HostGpu, HostLibrary, HostPackage};

/// Directories in which libraries are listed, whatever the cache of the loader says.
const DIRECTORIES: [&str; 8] = [
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
];
/// Where interpreters of Python are.
const PYTHONS: [&str; 2] = ["/usr/bin", "/usr/local/bin"];
/// Where Slurm has its plugins.
const SLURM: [&str; 5] = [
    "/usr/lib64/slurm",
    "/usr/lib/slurm",
    "/usr/lib/x86_64-linux-gnu/slurm",
    "/usr/lib/x86_64-linux-gnu/slurm-wlm",
    "/usr/lib/aarch64-linux-gnu/slurm-wlm",
];
/// How many libraries are read.
const MOST_LIBRARIES: usize = 20_000;

/// Reads what the host has whose files are below `root`. `found` is what was found there for building,
/// if that was asked for; `directories` are further ones with libraries.
#[must_use]
pub fn collect(root: &Path, found: Option<&Found>, directories: &[PathBuf]) -> HostFacts {
    let tree = Tree::below(root);
    let is_here = root == Path::new("/");
    let mut libraries = Libraries::default();
    libraries.of_cache(&tree);
    for directory in DIRECTORIES {
        libraries.of_directory(&tree, Path::new(directory));
    }
    for directory in directories {
        libraries.of_directory(&tree, directory);
    }
    for prefix in found.iter().flat_map(|found| &found.externals).map(|one| &one.prefix) {
        for part in ["lib", "lib64"] {
            libraries.of_directory(&tree, &Path::new(prefix).join(part));
        }
    }
    let Libraries { mut all, searched, architecture, .. } = libraries;
    all.sort();
    all.dedup();
    let glibc = glibc(&all);
    let text = |path: &str| fs::read_to_string(root.join(path.trim_start_matches('/'))).ok();
    HostFacts {
        version: HostFacts::VERSION,
        operating_system: text("/etc/os-release").and_then(|text| pretty_name(&text)),
        architecture: architecture.unwrap_or(ARCH).to_owned(),
        kernel: text("/proc/sys/kernel/osrelease").map(|text| text.trim().to_owned()),
        page_size: is_here.then(page_size).flatten(),
        glibc,
        features: text("/proc/cpuinfo").map(|text| features(&text)).unwrap_or_default(),
        python: pythons(&tree),
        srun: launchers(&tree),
        gpu: gpus(found, text("/proc/driver/nvidia/version").as_deref()),
        packages: found.map(packages).unwrap_or_default(),
        searched: searched.into_iter().collect(),
        libraries: all,
    }
}

#[derive(Default)]
struct Libraries {
    all: Vec<HostLibrary>,
    searched: BTreeSet<PathBuf>,
    /// Names and files that were read.
    read: BTreeSet<(String, PathBuf)>,
    /// That of the first library: those of others are left out.
    architecture: Option<&'static str>,
}

impl Libraries {
    fn of_cache(&mut self, tree: &Tree) {
        let cache = tree.open(Path::new(library_cache::PLACE));
        let mut bytes = Vec::new();
        let read = cache.map(|mut file| std::io::Read::read_to_end(&mut file, &mut bytes));
        if read.is_none_or(|read| read.is_err()) {
            return;
        }
        for (name, path) in library_cache::all_in_cache(&bytes) {
            self.add(tree, name, &path);
        }
    }

    fn of_directory(&mut self, tree: &Tree, directory: &Path) {
        if tree.find(directory).is_none() {
            return;
        }
        self.searched.insert(directory.to_owned());
        for name in tree.names(directory).into_iter().filter(|name| name.contains(".so")) {
            let path = directory.join(&name);
            self.add(tree, name, &path);
        }
    }

    fn add(&mut self, tree: &Tree, name: String, path: &Path) {
        if self.all.len() >= MOST_LIBRARIES {
            return;
        }
        let Some(place) = tree.find(path) else {
            return;
        };
        if !self.read.insert((name.clone(), place.path.clone())) {
            return;
        }
        let linkage = tree.open(path).and_then(|file| Linkage::read(&file));
        let Some(linkage) = linkage.filter(|linkage| !linkage.is_program || is_loader(&name))
        else {
            return;
        };
        if *self.architecture.get_or_insert(linkage.architecture) != linkage.architecture {
            return;
        }
        self.searched.extend(path.parent().map(Path::to_owned));
        let library =
            |name| HostLibrary { name, path: place.path.clone(), versions: linkage.offers.clone() };
        let soname = linkage.links.soname.clone().filter(|soname| *soname != name);
        // Programs need a library by the one name, and find it by the other.
        self.all.push(library(name));
        if let Some(soname) =
            soname.filter(|soname| !self.all.iter().any(|one| one.name == *soname))
        {
            self.all.push(library(soname));
        }
    }
}

/// The loader can be started as a program, and so can the C library.
fn is_loader(name: &str) -> bool {
    cabane_view::is_of_c_library(name)
}

fn glibc(libraries: &[HostLibrary]) -> Option<String> {
    // A version in which one of its libraries got nothing new has a name in another one only.
    let parts = libraries.iter().filter(|one| cabane_view::is_of_c_library(&one.name));
    let versions = parts.flat_map(|one| &one.versions);
    let versions = versions.filter_map(|one| one.strip_prefix("GLIBC_")?.parse().ok());
    versions.max().map(|version: GlibcVersion| version.to_string())
}

fn pretty_name(text: &str) -> Option<String> {
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches(['"', '\'']).chars().take(80).collect())
}

/// Returns the size of a page, as the kernel says it to each process.
fn page_size() -> Option<u64> {
    const PAGE_SIZE: u64 = 6;
    let words = fs::read("/proc/self/auxv").ok()?;
    let (pairs, _) = words.as_chunks::<16>();
    let word = |half: &[u8]| Some(u64::from_ne_bytes(half.try_into().ok()?));
    let mut pairs = pairs.iter().filter_map(|pair| Some((word(&pair[..8])?, word(&pair[8..])?)));
    pairs.find_map(|(key, value)| (key == PAGE_SIZE).then_some(value))
}

fn features(text: &str) -> Vec<String> {
    let line = text.lines().find(|line| line.starts_with("flags") || line.starts_with("Features"));
    let features = line.and_then(|line| line.split_once(':')).map_or("", |(_, features)| features);
    features.split_whitespace().map(str::to_owned).collect()
}

fn pythons(tree: &Tree) -> Vec<PathBuf> {
    let is_python = |name: &String| {
        let version = name.strip_prefix("python3").unwrap_or("x").trim_start_matches('.');
        version.chars().all(|letter| letter.is_ascii_digit())
    };
    let names = |directory: &'static str| {
        let names = tree.names(Path::new(directory)).into_iter().filter(is_python);
        names.map(move |name| Path::new(directory).join(name))
    };
    let mut found: Vec<PathBuf> =
        PYTHONS.into_iter().flat_map(names).filter(|path| tree.is_file(path)).collect();
    found.sort();
    found
}

/// Finds what `srun --mpi` can have: each is a plugin.
fn launchers(tree: &Tree) -> Vec<String> {
    let names = SLURM.iter().flat_map(|directory| tree.names(Path::new(directory)));
    let names = names.filter_map(|name| {
        let name = name.strip_prefix("mpi_")?.strip_suffix(".so")?;
        // `pmix` has its version in the name, too.
        Some(if name.starts_with("pmix") { "pmix".to_owned() } else { name.to_owned() })
    });
    let names: BTreeSet<String> = names.filter(|name| name != "none").collect();
    names.into_iter().collect()
}

fn packages(found: &Found) -> Vec<HostPackage> {
    let package = |one: &cabane_probe::External| HostPackage {
        name: one.package.to_owned(),
        version: one.version.to_string(),
        prefix: one.prefix.clone(),
    };
    found.externals.iter().map(package).collect()
}

fn gpus(found: Option<&Found>, nvidia: Option<&str>) -> Vec<HostGpu> {
    let devices = found.iter().flat_map(|found| &found.devices);
    let mut gpus: Vec<HostGpu> = devices
        .filter_map(|device| {
            let (vendor, key) = match device.kind {
                DeviceKind::NvidiaGpu => ("nvidia", "cuda_arch"),
                DeviceKind::AmdGpu => ("amd", "amdgpu_target"),
                _ => return None,
            };
            let architectures = device.details.get(key).map_or("", String::as_str);
            let architectures = architectures.split(',').filter(|one| !one.is_empty());
            Some(HostGpu {
                vendor: vendor.to_owned(),
                driver: device.details.get("driver").cloned(),
                architectures: architectures.map(str::to_owned).collect(),
            })
        })
        .collect();
    let driver = nvidia.and_then(|text| text.split_once("Kernel Module"));
    let driver = driver.and_then(|(_, rest)| rest.split_whitespace().find(|word| is_version(word)));
    if let (Some(driver), false) = (driver, gpus.iter().any(|gpu| gpu.vendor == "nvidia")) {
        let (vendor, driver) = ("nvidia".to_owned(), Some(driver.to_owned()));
        gpus.push(HostGpu { vendor, driver, architectures: Vec::new() });
    }
    gpus
}

fn is_version(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_digit()) && word.contains('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_c_library_and_a_page_size() {
        let facts = collect(Path::new("/"), None, &[]);
        let glibc: Option<GlibcVersion> = facts.glibc.and_then(|text| text.parse().ok());
        assert!(glibc.is_some() && glibc >= cabane_compat::glibc(), "{glibc:?}");
        assert!(facts.page_size.is_some_and(u64::is_power_of_two), "{:?}", facts.page_size);
        assert!(facts.libraries.iter().any(|one| one.name == "libm.so.6"));
        assert_eq!(facts.architecture, ARCH);
    }

    #[test]
    fn a_root_without_a_cache_is_read_by_its_directories() {
        let root = tempfile::tempdir().unwrap();
        let library = library_cache::find("libm.so.6").unwrap();
        let place = root.path().join("usr/lib64");
        fs::create_dir_all(&place).unwrap();
        fs::copy(library, place.join("libm.so.6")).unwrap();
        fs::create_dir_all(root.path().join("usr/bin")).unwrap();
        fs::write(root.path().join("usr/bin/python3.11"), "").unwrap();
        fs::write(root.path().join("usr/bin/python3-config"), "").unwrap();
        let facts = collect(root.path(), None, &[]);
        let names: Vec<&str> = facts.libraries.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["libm.so.6"]);
        assert_eq!(facts.python, [Path::new("/usr/bin/python3.11")]);
        assert!(facts.page_size.is_none() && facts.searched.contains(&"/usr/lib64".into()));
    }

    #[test]
    fn the_driver_of_gpus_is_in_a_file_of_the_kernel() {
        let text =
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5\nGCC 12\n";
        assert_eq!(gpus(None, Some(text))[0].driver.as_deref(), Some("550.54.15"));
        assert!(gpus(None, None).is_empty());
    }
}
