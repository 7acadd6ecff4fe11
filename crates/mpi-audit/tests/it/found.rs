// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Installations in directories.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use cabane_mpi_audit::find::{in_prefix, in_spack_store};
use cabane_mpi_audit::{Installation, Origin};
use tempfile::TempDir;

fn program(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, "#!/bin/sh\n").unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn prefix(programs: &[&str], libraries: &[&str]) -> TempDir {
    let prefix = TempDir::new().unwrap();
    for name in programs {
        program(&prefix.path().join("bin").join(name));
    }
    fs::create_dir_all(prefix.path().join("lib")).unwrap();
    for name in libraries {
        fs::write(prefix.path().join("lib").join(name), "").unwrap();
    }
    prefix
}

/// The names of what compiles and what starts.
fn pairs(found: &[Installation]) -> Vec<(String, String)> {
    let name = |path: &Option<std::path::PathBuf>| {
        let name = path.as_deref().and_then(Path::file_name);
        name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    };
    found.iter().map(|one| (name(&one.wrapper), name(&one.launcher))).collect()
}

#[test]
fn programs_with_the_same_ending_belong_together() {
    let here = prefix(
        &["mpicc.mpich", "mpicc.openmpi", "mpiexec.mpich", "mpiexec.openmpi", "mpiexec.hydra"],
        &[],
    );
    let bin = here.path().join("bin");
    symlink("mpicc.openmpi", bin.join("mpicc")).unwrap();
    symlink("mpiexec.openmpi", bin.join("mpiexec")).unwrap();
    let found = pairs(&in_prefix(here.path()));
    let known =
        ["mpich", "openmpi"].map(|name| (format!("mpicc.{name}"), format!("mpiexec.{name}")));
    assert_eq!(found, known);
}

#[test]
fn a_launcher_with_a_library_and_no_compiler_is_an_installation() {
    let here = prefix(&["mpiexec"], &["libmpi.so.12", "libmpi.so.12.0.0"]);
    let found = in_prefix(here.path());
    let sonames: Vec<_> = found.iter().map(|one| one.soname.as_deref()).collect();
    assert_eq!(sonames, [Some("libmpi.so.12")]);
}

#[test]
fn a_launcher_alone_is_no_installation() {
    let here = prefix(&["mpiexec"], &[]);
    assert_eq!(in_prefix(here.path()), []);
}

#[test]
fn the_directory_of_programs_stands_for_its_prefix() {
    let here = prefix(&["mpicc", "mpirun"], &[]);
    let found = in_prefix(&here.path().join("bin"));
    let origins: Vec<_> = found.into_iter().map(|one| one.origin).collect();
    assert_eq!(origins, [Origin::Prefix(here.path().to_owned())]);
}

#[test]
fn of_a_store_of_spack_only_what_is_installed_and_provides_mpi_is_found() {
    let here = prefix(&["mpicc", "mpiexec"], &[]);
    let install = |name: &str, installed: bool| {
        format!(
            r#"{{"spec":{{"name":"{name}","version":"4.1.5","arch":{{"target":"zen3"}}}},"path":"{}","installed":{installed}}}"#,
            here.path().display()
        )
    };
    let index = format!(
        r#"{{"database":{{"version":"8","installs":{{"abcdefghij":{},"bcd":{},"cde":{}}}}}}}"#,
        install("openmpi", true),
        install("mpich", false),
        install("zlib", true)
    );
    let store = TempDir::new().unwrap();
    fs::create_dir(store.path().join(".spack-db")).unwrap();
    fs::write(store.path().join(".spack-db/index.json"), index).unwrap();
    let found = in_spack_store(store.path()).unwrap();
    let names: Vec<_> = found.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["openmpi@4.1.5/abcdefg"]);
}
