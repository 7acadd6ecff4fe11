// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The MPIs of a machine that can take the place of others, as entries `[[mpi]]` for the
//! configuration.
//!
//! They are found where systems put them, and read, not run. What starts their ranks is `srun`
//! where Slurm has a plugin for what the library speaks, and else the launcher beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use cabane_label::escape;
use cabane_mpi::{
    Installation, Language, Library, Loader, Protocol, Tree, find_installation, usual_prefixes,
};
use cabane_probe::{DeviceKind, Found};
use serde::Serialize;

/// Where libraries of a fabric are, or of what starts ranks; `*` is any name.
const FABRIC: [&str; 14] = [
    "/opt/cray/libfabric/*/lib64",
    "/opt/cray/pe/pmi/*/lib",
    "/opt/cray/pe/lib64",
    "/opt/cray/xpmem/default/lib64",
    "/opt/libfabric/lib64",
    "/opt/libfabric/lib",
    "/opt/libfabric/*/lib",
    "/opt/ucx/lib",
    "/opt/ucx/*/lib",
    "/opt/pmix/lib",
    "/opt/pmix/*/lib",
    "/opt/amazon/efa/lib64",
    "/opt/amazon/efa/lib",
    "/usr/local/lib",
];
/// Where the plugins of Slurm are, below its prefix.
const PLUGINS: [&str; 6] = [
    "lib64/slurm",
    "lib/slurm",
    "lib/x86_64-linux-gnu/slurm-wlm",
    "lib/aarch64-linux-gnu/slurm-wlm",
    "lib/x86_64-linux-gnu/slurm",
    "lib/aarch64-linux-gnu/slurm",
];
/// The most directories of libraries that an MPI may need.
const MOST: usize = 8;

/// An MPI of the machine.
#[derive(Debug, Serialize)]
pub struct HostMpi {
    /// A name that no other has.
    pub name: String,
    /// Its prefix, or its library where a prefix has several.
    pub prefix: PathBuf,
    /// Product and version.
    pub title: String,
    /// The version, if it is known.
    version: Option<String>,
    /// The names of its families.
    pub families: Vec<String>,
    /// The command that starts its ranks.
    pub launcher: Option<String>,
    /// Directories with what it does not find by itself.
    pub libraries: Vec<PathBuf>,
    /// What is in none of them.
    pub missing: Vec<String>,
}

/// Finds the MPIs below a root.
pub fn find_installed(root: &Path, found: &Found) -> Vec<HostMpi> {
    let tree = Tree::below(root);
    let machine = Machine {
        tree: &tree,
        srun: srun_options(&tree, found),
        fabric: FABRIC.iter().flat_map(|one| matching(root, one)).collect(),
    };
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for prefix in usual_prefixes(root) {
        let mut installation = find_installation(&tree, &prefix);
        // The same under another name, as where one directory is a link to another.
        installation
            .libraries
            .retain(|library| library.language == Language::C && seen.insert(library.file.clone()));
        all.extend(machine.products(&installation));
    }
    give_names(&mut all);
    all
}

struct Machine<'a> {
    tree: &'a Tree,
    /// The value of `srun --mpi` for a protocol.
    srun: Vec<(Protocol, &'static str)>,
    fabric: Vec<PathBuf>,
}

impl Machine<'_> {
    /// Returns the products of a prefix, each with its libraries of one or several families.
    fn products(&self, installation: &Installation) -> Vec<HostMpi> {
        let mut products: BTreeMap<String, Vec<&Library>> = BTreeMap::new();
        for library in &installation.libraries {
            products.entry(library.title()).or_default().push(library);
        }
        let is_only = products.len() == 1;
        let mpi = |(title, libraries): (String, Vec<&Library>)| {
            let first = *libraries.first()?;
            let prefix = if is_only { installation.prefix.clone() } else { first.path.clone() };
            let (directories, missing) = self.libraries_of(first);
            Some(HostMpi {
                name: short_name(&first.product),
                prefix,
                title,
                version: first.version.clone(),
                families: libraries.iter().map(|one| one.family.to_string()).collect(),
                launcher: self.launcher(installation, first, is_only),
                libraries: directories,
                missing,
            })
        };
        products.into_iter().filter_map(mpi).collect()
    }

    fn launcher(
        &self,
        installation: &Installation,
        library: &Library,
        is_only: bool,
    ) -> Option<String> {
        let mut srun = self.srun.iter();
        if let Some((_, kind)) = srun.find(|(protocol, _)| library.protocols.contains(protocol)) {
            return Some(format!("srun --mpi={kind}"));
        }
        let mut launchers = installation.launchers.iter();
        let launcher = launchers.find(|one| library.fits(one.kind) == Some(true))?;
        // Which of several a name leads to, an administrator may change.
        let path =
            if is_only { launcher.path.clone() } else { self.tree.find(&launcher.path)?.path };
        Some(path.to_string_lossy().into_owned())
    }

    /// Finds the directories of what a library lacks, and what is in none.
    fn libraries_of(&self, library: &Library) -> (Vec<PathBuf>, Vec<String>) {
        let mut directories: Vec<PathBuf> = Vec::new();
        loop {
            let texts: Vec<_> = directories.iter().map(|one| one.to_string_lossy()).collect();
            let loader = Loader::new(self.tree).library_path(&texts.join(":"));
            let closure = loader.follow(&library.file);
            let missing = closure.map_or(Vec::new(), |closure| closure.missing);
            let missing: Vec<String> = missing.into_iter().map(|one| one.name).collect();
            let holds = |directory: &&PathBuf| {
                let mut names = missing.iter();
                !directories.contains(*directory)
                    && names.any(|name| self.tree.is_file(&directory.join(name)))
            };
            let next = self.fabric.iter().find(holds).cloned();
            match next.filter(|_| directories.len() < MOST) {
                Some(directory) => directories.push(directory),
                None => return (directories, missing),
            }
        }
    }
}

/// Says for which protocols `srun` has a plugin, the better one first.
fn srun_options(tree: &Tree, found: &Found) -> Vec<(Protocol, &'static str)> {
    let mut devices = found.devices.iter();
    let slurm = devices.find(|device| device.kind == DeviceKind::Slurm);
    let prefix = slurm.and_then(|slurm| Path::new(&slurm.seen).parent()?.parent());
    let Some(prefix) = prefix else {
        return Vec::new();
    };
    let has = |name: &str| {
        let mut places = PLUGINS.iter().map(|place| prefix.join(place).join(name));
        places.any(|path| tree.is_file(&path))
    };
    let known = [
        (Protocol::Pmix, "pmix", "mpi_pmix.so"),
        (Protocol::Pmi2, "pmi2", "mpi_pmi2.so"),
        (Protocol::Pmi1, "pmi2", "mpi_pmi2.so"),
        (Protocol::Pmi2Library, "pmi2", "mpi_pmi2.so"),
    ];
    let known = known.into_iter().filter(|(_, _, file)| has(file));
    known.map(|(protocol, kind, _)| (protocol, kind)).collect()
}

/// Returns the directories below a root that a pattern means, newer versions first.
fn matching(root: &Path, pattern: &str) -> Vec<PathBuf> {
    let inside = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
    let Some((before, after)) = pattern.split_once("/*/") else {
        let path = PathBuf::from(pattern);
        return if inside(&path).is_dir() { vec![path] } else { Vec::new() };
    };
    let names = fs::read_dir(inside(Path::new(before))).into_iter().flatten();
    let mut names: Vec<_> = names.flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    let paths = names.into_iter().rev();
    let paths = paths.map(|name| Path::new(before).join(name).join(after));
    paths.filter(|path| inside(path).is_dir()).collect()
}

/// Makes a short name of the name of a product.
fn short_name(product: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }
    };
    product.chars().map(plain).collect()
}

/// Adds what tells those of one product apart.
fn give_names(all: &mut [HostMpi]) {
    let names: Vec<String> = all.iter().map(|one| one.name.clone()).collect();
    let mut given = BTreeSet::new();
    for one in all {
        let same = names.iter().filter(|name| **name == one.name).count();
        if let Some(version) = one.version.as_deref().filter(|_| same > 1) {
            let version = version.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '.');
            one.name = format!("{}-{}", one.name, version.collect::<String>());
        }
        let plain = one.name.clone();
        let mut number = 2;
        while !given.insert(one.name.clone()) {
            one.name = format!("{plain}-{number}");
            number += 1;
        }
    }
}

/// Returns the entries for the configuration.
pub fn configuration(all: &[HostMpi]) -> String {
    let mut text = "#\n# Put those that your users shall have into /etc/cabane/config.toml, the \
                    best one first.\n"
        .to_owned();
    for one in all {
        let title = escape(&one.title);
        let _ = writeln!(text, "\n# {title}, {}", one.families.join(" and "));
        for name in &one.missing {
            let _ = writeln!(text, "# check: {} is nowhere", escape(name));
        }
        if one.launcher.is_none() {
            let _ = writeln!(text, "# check: what starts its ranks?");
        }
        let _ = writeln!(text, "[[mpi]]\nname = {}", quoted(&one.name));
        let _ = writeln!(text, "prefix = {}", quoted(&one.prefix.to_string_lossy()));
        if !one.libraries.is_empty() {
            let libraries = one.libraries.iter();
            let libraries: Vec<_> = libraries.map(|one| quoted(&one.to_string_lossy())).collect();
            let _ = writeln!(text, "libraries = [{}]", libraries.join(", "));
        }
        if let Some(launcher) = &one.launcher {
            let _ = writeln!(text, "launcher = {}", quoted(launcher));
        }
    }
    text
}

/// A text of TOML. In paths of the configuration a dollar begins a variable.
fn quoted(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", escape(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_of_one_product_have_different_names() {
        let mpi = |title: &str| HostMpi {
            name: short_name(title.rsplit_once(' ').unwrap().0),
            prefix: "/opt".into(),
            title: title.to_owned(),
            version: title.rsplit(' ').next().map(str::to_owned),
            families: Vec::new(),
            launcher: None,
            libraries: Vec::new(),
            missing: Vec::new(),
        };
        let mut all = ["MPICH 5.0.2", "Open MPI 5.0.1", "MPICH 4.3", "MPICH 4.3"].map(mpi);
        give_names(&mut all);
        let names = all.map(|one| one.name);
        assert_eq!(names, ["mpich-5.0.2", "open-mpi", "mpich-4.3", "mpich-4.3-2"]);
    }
}
