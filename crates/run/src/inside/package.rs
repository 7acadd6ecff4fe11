// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which package a file belongs to, as far as package managers leave traces.
//!
//! ```text
//! <prefix>/<name>-<version>-<hash>/.spack/spec.json     Spack
//! <prefix>/site-packages/<name>-<version>.dist-info/    wheels; RECORD lists the files
//! ```

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The most that is read of one description of a package, in bytes.
const MOST: u64 = 16 << 20;

/// A package that was installed into a tree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What installed it: `spack`, `python`, or `easybuild`.
    pub manager: String,
    /// The hash that tells it from other builds of the same version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
}

impl Package {
    /// Makes a package of Spack from the name of its directory:
    /// `<name>-<version>-<hash>`.
    pub(crate) fn of_spack_directory(name: &str) -> Option<Self> {
        let (rest, hash) = name.rsplit_once('-')?;
        let (name, version) = rest.rsplit_once('-')?;
        Some(Self {
            name: name.to_owned(),
            version: version.to_owned(),
            manager: "spack".to_owned(),
            hash: Some(hash.to_owned()),
        })
    }

    /// Makes a package from the text of `.spack/spec.json`.
    pub(crate) fn of_spec_json(text: &[u8]) -> Option<Self> {
        let document: Value = serde_json::from_slice(text).ok()?;
        let nodes = document.get("spec")?.get("nodes")?;
        Self::of_spack_node(nodes.get(0)?)
    }

    /// Makes a package from what Spack writes about one.
    pub(crate) fn of_spack_node(node: &Value) -> Option<Self> {
        let text = |key: &str| node.get(key)?.as_str().map(str::to_owned);
        Some(Self {
            name: text("name")?,
            version: text("version").unwrap_or_default(),
            manager: "spack".to_owned(),
            hash: text("hash"),
        })
    }

    /// Makes a package from the name of a directory: `<name>-<version>.dist-info`.
    pub(crate) fn of_dist_info(directory: &str) -> Option<Self> {
        let (name, version) = directory.strip_suffix(".dist-info")?.split_once('-')?;
        Some(Self {
            name: name.to_owned(),
            version: version.to_owned(),
            manager: "python".to_owned(),
            hash: None,
        })
    }
}

/// Finds the package of a file below `root`; the path has no links above the file.
pub(super) fn package_of(path: &Path, root: &Path) -> Option<Package> {
    let below = |directory: &&Path| directory.starts_with(root) && *directory != root;
    let mut above = path.ancestors().take_while(below);
    let spack = above.find_map(|directory| {
        let description = directory.join(".spack/spec.json");
        let mut text = Vec::new();
        let file = open_plain(&description)?;
        file.take(MOST).read_to_end(&mut text).ok()?;
        let name = directory.file_name()?.to_str()?;
        Package::of_spec_json(&text).or_else(|| Package::of_spack_directory(name))
    });
    spack.or_else(|| wheel_of(path, root))
}

/// Opens a regular file: opening a pipe would wait for a writer.
fn open_plain(path: &Path) -> Option<File> {
    let is_file = fs::metadata(path).is_ok_and(|found| found.is_file());
    is_file.then(|| File::open(path).ok()).flatten()
}

fn wheel_of(path: &Path, root: &Path) -> Option<Package> {
    let below = path.ancestors().take_while(|one| one.starts_with(root));
    let site = below.into_iter().find(|directory| {
        let name = directory.file_name().unwrap_or_default();
        name == "site-packages" || name == "dist-packages"
    });
    if let Some(site) = site {
        return wheel_that_lists(site, path.strip_prefix(site).ok()?);
    }
    // Programs and libraries of an environment are beside its modules.
    let prefixes = path.ancestors().skip(1).take_while(|one| one.starts_with(root));
    let mut sites = prefixes.flat_map(site_packages);
    sites.find_map(|site| wheel_that_lists(&site, &relative_to(&site, path)))
}

/// Returns the path as a list of files in `directory` names it.
fn relative_to(directory: &Path, path: &Path) -> PathBuf {
    let (mut up, mut rest) = (directory.components(), path.components());
    while let (Some(one), Some(other)) = (up.clone().next(), rest.clone().next())
        && one == other
    {
        up.next();
        rest.next();
    }
    let above: PathBuf = up.map(|_| "..").collect();
    above.join(rest.as_path())
}

/// Returns the directories of modules in an environment.
fn site_packages(prefix: &Path) -> Vec<PathBuf> {
    let in_library = fs::read_dir(prefix.join("lib")).into_iter().flatten();
    let pythons = in_library.flatten().filter(|entry| {
        let name = entry.file_name();
        name.to_string_lossy().starts_with("python")
    });
    let sites = pythons.map(|entry| entry.path().join("site-packages"));
    sites.filter(|site| site.is_dir()).collect()
}

fn wheel_that_lists(site: &Path, relative: &Path) -> Option<Package> {
    let relative = relative.to_str()?;
    // A wheel may come without its compiled modules.
    let source = source_of_bytecode(relative);
    let first = relative.split('/').next().unwrap_or_default();
    let mut wheels: Vec<String> = fs::read_dir(site)
        .ok()?
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.ends_with(".dist-info"))
        .collect();
    // The name of the wheel is mostly that of the module.
    wheels.sort_by_key(|name| !name.to_lowercase().starts_with(&first.to_lowercase()));
    let wheel = wheels.into_iter().find(|name| {
        name == first || lists(&site.join(name).join("RECORD"), relative, source.as_deref())
    })?;
    Package::of_dist_info(&wheel)
}

/// `a/__pycache__/b.cpython-311.pyc` was made from `a/b.py`.
fn source_of_bytecode(relative: &str) -> Option<String> {
    let (directory, file) = relative.split_once("__pycache__/")?;
    let module = file.split('.').next()?;
    Some(format!("{directory}{module}.py"))
}

/// Whether a list of files holds a file, its source, or something in this directory.
fn lists(record: &Path, relative: &str, source: Option<&str>) -> bool {
    let Some(file) = open_plain(record) else {
        return false;
    };
    let is_it = |line: &str| {
        let listed = line.trim_start_matches('"');
        let begins = |wanted: &str| {
            let rest = listed.strip_prefix(wanted);
            rest.is_some_and(|rest| rest.starts_with([',', '"', '/']))
        };
        begins(relative) || source.is_some_and(begins)
    };
    let lines = BufReader::new(file.take(MOST)).lines();
    lines.map_while(Result::ok).any(|line| is_it(&line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn a_file_of_spack_belongs_to_the_package_of_its_prefix() {
        let root = tempfile::tempdir().unwrap();
        let prefix = root.path().join("linux-zen3/hdf5-1.14.3-abcdefg");
        let spec = r#"{"spec":{"nodes":[{"name":"hdf5","version":"1.14.3","hash":"abcdefg"}]}}"#;
        write(&prefix.join(".spack/spec.json"), spec);
        write(&prefix.join("bin/h5dump"), "");
        let package = package_of(&prefix.join("bin/h5dump"), root.path());
        assert_eq!(package, Package::of_spack_directory("hdf5-1.14.3-abcdefg"));
    }

    #[test]
    fn programs_modules_and_bytecode_belong_to_their_wheel() {
        let root = tempfile::tempdir().unwrap();
        let site = root.path().join("env/lib/python3.11/site-packages");
        let record = "tool/__init__.py,sha256=x,1\n../../../bin/tool,sha256=x,2\n";
        write(&site.join("other-1.dist-info/RECORD"), "other.py,,\n");
        write(&site.join("my_tool-2.0.dist-info/RECORD"), record);
        let bytecode = site.join("tool/__pycache__/__init__.cpython-311.pyc");
        let program = root.path().join("env/bin/tool");
        let files = [site.join("tool/__init__.py"), bytecode, program];
        let packages = files.map(|file| package_of(&file, root.path()).map(|one| one.name));
        assert_eq!(packages, [(); 3].map(|()| Some("my_tool".to_owned())));
    }

    #[test]
    fn libraries_beside_the_modules_belong_to_their_wheel() {
        let root = tempfile::tempdir().unwrap();
        let library = root.path().join("env/lib");
        let record = "../../libmpi.so.12,sha256=x,1\n../../mpich/libfabric.so.1,sha256=x,2\n";
        write(&library.join("python3.11/site-packages/mpich-5.0.2.dist-info/RECORD"), record);
        let files = ["libmpi.so.12", "mpich/libfabric.so.1", "libother.so"];
        let packages = files.map(|file| {
            let package = package_of(&library.join(file), root.path());
            package.map(|one| format!("{} {}", one.name, one.version))
        });
        let mpich = Some("mpich 5.0.2".to_owned());
        assert_eq!(packages, [mpich.clone(), mpich, None]);
    }

    #[test]
    fn an_unlisted_file_belongs_to_no_package() {
        let root = tempfile::tempdir().unwrap();
        write(&root.path().join("bin/script"), "");
        assert_eq!(package_of(&root.path().join("bin/script"), root.path()), None);
    }
}
