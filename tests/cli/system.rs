// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane system probe`: what is printed and written. What is found on which machine is
//! tested beside the crate that looks.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::Value;

use crate::cabane::{Cabane, Who, everybody, finished};

/// A machine in a directory of the world: a processor, a gcc, and a cmake of a user.
fn machine(cabane: &Cabane) -> String {
    let says = |name: &str, text: &str| {
        let path = cabane.world.file(
            &format!("machine/{name}"),
            &format!("#!/bin/sh\necho '{text}'\n"),
        );
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    for name in ["gcc", "g++", "gfortran"] {
        says(&format!("usr/bin/{name}"), "12.2.0");
    }
    says("home/someone/bin/cmake", "cmake version 3.99.0");
    says("usr/bin/make", "GNU Make 4.3");
    let root = cabane.world.path("machine");
    symlink("/home/someone/bin/cmake", root.join("usr/bin/cmake")).unwrap();
    cabane
        .world
        .file("machine/proc/cpuinfo", "Features : fp asimd\n");
    root.to_string_lossy().into_owned()
}

#[test]
fn what_was_found_is_told_in_sections() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let root = machine(&cabane);
    let told = "\
machine
  processor  aarch64
  build for  aarch64

compilers
  gcc@12.2.0  /usr/bin/gcc  c c++ fortran

tools
  gmake@4.3  /usr/bin/make  never built

MPIs that recipes can name
  mpich: built by Spack
  openmpi: built by Spack
";
    assert_eq!(
        cabane.run(&["system", "probe", "--root", &root]),
        finished(0, told, "")
    );
}

#[test]
fn everybody_can_describe_the_machine_that_the_tests_run_on() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        let directory = cabane.world.path("work/system");
        let directory = directory.to_str().unwrap();
        let printed = cabane.run(&["system", "probe", "--json", "--output", directory]);
        let found: Value = serde_json::from_str(&printed.stdout).unwrap();
        let packages = fs::read_to_string(format!("{directory}/packages.yaml")).unwrap();
        let externals = found["externals"].as_array().unwrap();
        let unwritten: Vec<&Value> = externals
            .iter()
            .filter(|external| external["section"] == "compiler" || external["section"] == "tool")
            .filter(|external| {
                let (package, version) = (&external["package"], &external["version"]);
                let begin = format!(
                    "- spec: {}@{}",
                    package.as_str().unwrap(),
                    version.as_str().unwrap()
                );
                !packages.contains(&begin)
            })
            .collect();
        assert!(
            !externals.is_empty() && unwritten.is_empty(),
            "{who:?}: {unwritten:?}"
        );
    }
}

#[test]
fn a_file_that_was_changed_by_hand_is_replaced_only_with_force() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let root = machine(&cabane);
    let directory = cabane.world.directory("work/system");
    cabane
        .world
        .file("work/system/packages.yaml", "packages: {}\n");
    let words = [
        "system",
        "probe",
        "--root",
        &root,
        "--output",
        directory.to_str().unwrap(),
    ];
    let refused = cabane.run(&words);
    let forced = cabane.run(&[&words[..], &["--force"]].concat());
    let wrote = "wrote [WORLD]/work/system/network.yaml\nwrote [WORLD]/work/system/packages.yaml\n";
    let refusal = "\
error: `[WORLD]/work/system/packages.yaml` is not as `cabane system probe` writes it: it was changed by hand
hint: compare it with what is printed without --output; `--force` replaces it, another directory leaves it alone
";
    assert_eq!(
        [refused, forced],
        [finished(1, "", refusal), finished(0, "", wrote)]
    );
}

#[test]
fn what_cannot_be_a_target_is_refused() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let refused = cabane.run(&["system", "probe", "--target", "x86_64_v3'"]);
    assert!(refused.code == 2 && refused.stderr.contains("is not the name of a target"));
}
