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
        let path =
            cabane.world.file(&format!("machine/{name}"), &format!("#!/bin/sh\necho '{text}'\n"));
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    for name in ["gcc", "g++", "gfortran"] {
        says(&format!("usr/bin/{name}"), "12.2.0");
    }
    says("home/someone/bin/cmake", "cmake version 3.99.0");
    says("usr/bin/make", "GNU Make 4.3");
    let root = cabane.world.path("machine");
    symlink("/home/someone/bin/cmake", root.join("usr/bin/cmake")).unwrap();
    cabane.world.file("machine/proc/cpuinfo", "Features : fp asimd\n");
    root.to_string_lossy().into_owned()
}

#[test]
fn findings_are_shown_in_sections() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let root = machine(&cabane);
    let reported = "\
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
    assert_eq!(cabane.run(&["system", "probe", "--root", &root]), finished(0, reported, ""));
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
                let begin =
                    format!("- spec: {}@{}", package.as_str().unwrap(), version.as_str().unwrap());
                !packages.contains(&begin)
            })
            .collect();
        assert!(!externals.is_empty() && unwritten.is_empty(), "{who:?}: {unwritten:?}");
    }
}

#[test]
fn a_file_that_was_changed_by_hand_is_replaced_only_with_force() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let root = machine(&cabane);
    let directory = cabane.world.directory("work/system");
    cabane.world.file("work/system/packages.yaml", "packages: {}\n");
    let arguments = ["system", "probe", "--root", &root, "--output", directory.to_str().unwrap()];
    let refused = cabane.run(&arguments);
    let forced = cabane.run(&[&arguments[..], &["--force"]].concat());
    let wrote = "wrote [WORLD]/work/system/network.yaml\nwrote [WORLD]/work/system/packages.yaml\n";
    let refusal = "\
error: `[WORLD]/work/system/packages.yaml` was changed by hand
hint: compare it with the output without --output; `--force` replaces it, and another directory leaves it alone
";
    assert_eq!([refused, forced], [finished(1, "", refusal), finished(0, "", wrote)]);
}

#[test]
fn what_spack_does_not_take_is_not_written() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let root = machine(&cabane);
    let directory = cabane.world.directory("work/system");
    let (spack, packages) = (cabane.world.path("spack"), cabane.world.path("packages"));
    let arguments = [
        ["system", "probe", "--root", &root, "--output", directory.to_str().unwrap()].as_slice(),
        &["--spack", spack.to_str().unwrap(), "--packages", packages.to_str().unwrap()],
    ]
    .concat();
    let refused = "\
error: `[WORLD]/spack` is not a clone of Spack
hint: `git clone https://github.com/spack/spack` makes one
";
    assert_eq!(cabane.run(&arguments), finished(1, "", refused));
    // In the place of Spack, a script that answers at once.
    let answer = |solver: bool| {
        let answer = format!(
            r#"{{"version": "1.2.3", "solver": {solver}, "error": null,
                "refused": [{{"number": 1, "reason": "there is another make"}}]}}"#
        );
        let script = format!("#!/bin/sh\ncat >\"$3\" <<'END'\n{answer}\nEND\n");
        let path = cabane.world.file("spack/bin/spack", &script);
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    cabane.world.file("packages/repo.yaml", "repo: {namespace: builtin}\n");
    answer(false);
    let seen = cabane.run(&arguments);
    let message = "error: the Python of Spack has no module `clingo`\nhint: name a Python";
    assert!(seen.code == 1 && seen.stderr.starts_with(message), "{seen:?}");
    assert!(!directory.join("packages.yaml").exists());
    answer(true);
    let said = "\
Spack 1.2.3 accepts 1 of 2 packages
wrote [WORLD]/work/system/network.yaml
wrote [WORLD]/work/system/packages.yaml
/usr/bin/make: gmake@4.3 is left out, because Spack 1.2.3 rejects it: there is another make
";
    assert_eq!(cabane.run(&arguments), finished(0, "", said));
    let written = fs::read_to_string(directory.join("packages.yaml")).unwrap();
    assert!(written.contains("- spec: gcc@12.2.0") && !written.contains("gmake"), "{written}");
}

/// Compiles a shared library of the machine that needs another one.
fn library(cabane: &Cabane, path: &str, text: &str, needs: &[&str]) {
    let output = cabane.world.path("machine").join(path);
    let source = cabane.world.file("library.c", text);
    fs::create_dir_all(output.parent().unwrap()).unwrap();
    let name = output.file_name().unwrap().to_str().unwrap();
    let mut command = cabane.world.command("cc");
    command.args(["-shared", "-fPIC", "-nostdlib", "-Wl,--no-as-needed", "-o"]);
    command.arg(&output).arg(source).arg(format!("-Wl,-soname,{name}"));
    for need in needs {
        command.arg(cabane.world.path("machine").join(need));
    }
    cabane.finish(&mut command).success();
}

/// A library of MPICH, as far as it is looked at.
fn mpich(version: &str, protocol: &str) -> String {
    format!(
        "const char MPII_Version_string[] = \"{version}\";\nconst char arguments[] = \"{protocol}\";\n\
         int PMPI_Init(void) {{ return 0; }}\nint MPI_Init(void) {{ return 0; }}\n"
    )
}

#[test]
fn the_mpis_of_a_machine_become_entries_of_the_configuration() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let root = machine(&cabane);
    // One whose fabric is in directories of its own, of which the newer one is wanted, and one
    // whose fabric is not there at all.
    for version in ["1.14", "1.15"] {
        library(&cabane, &format!("opt/libfabric/{version}/lib/libfabric.so.1"), "", &[]);
    }
    library(&cabane, "gone/libgone.so.7", "", &[]);
    let needs = ["opt/libfabric/1.14/lib/libfabric.so.1"];
    let hydra = "PMI_FD cmd=init";
    library(&cabane, "opt/fast/lib/libmpi.so.12", &mpich("4.2.1", hydra), &needs);
    library(
        &cabane,
        "opt/mpich/3.4/lib/libmpi.so.12",
        &mpich("3.4.3", hydra),
        &["gone/libgone.so.7"],
    );
    for prefix in ["opt/fast", "opt/mpich/3.4"] {
        let path = cabane
            .world
            .file(&format!("machine/{prefix}/bin/mpiexec"), "#!/bin/sh\n# mpiexec.hydra\n");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let directory = cabane.world.directory("work/system");
    let directory = directory.to_str().unwrap();
    let arguments = ["system", "probe", "--root", &root];
    cabane.run(&[&arguments[..], &["--output", directory]].concat()).success();
    let written = fs::read_to_string(format!("{directory}/mpi.toml")).unwrap();
    let (_, entries) = written.split_once("\n\n").unwrap();
    let expected = "\
# MPICH 4.2.1, the MPICH ABI
[[mpi]]
name = \"mpich-4.2.1\"
prefix = \"/opt/fast\"
libraries = [\"/opt/libfabric/1.15/lib\"]
launcher = \"/opt/fast/bin/mpiexec\"

# MPICH 3.4.3, the MPICH ABI
# check: libgone.so.7 is nowhere
[[mpi]]
name = \"mpich-3.4.3\"
prefix = \"/opt/mpich/3.4\"
launcher = \"/opt/mpich/3.4/bin/mpiexec\"
";
    assert_eq!(entries, expected);
    // It can be used as it is.
    fs::write(cabane.world.path("site.toml"), &written).unwrap();
    let seen = cabane.run(&["config"]).success().stdout;
    let rows: Vec<Vec<&str>> = seen
        .lines()
        .filter(|line| line.starts_with("mpi."))
        .map(|line| line.split_whitespace().take(2).collect())
        .collect();
    assert_eq!(
        rows,
        [
            ["mpi.mpich-4.2.1", "/opt/fast"],
            ["mpi.mpich-4.2.1.launcher", "/opt/fast/bin/mpiexec"],
            ["mpi.mpich-3.4.3", "/opt/mpich/3.4"],
            ["mpi.mpich-3.4.3.launcher", "/opt/mpich/3.4/bin/mpiexec"],
        ]
    );
    let reported = cabane.run(&arguments).success().stdout;
    let (_, table) = reported.split_once("MPIs that can take the place of others\n").unwrap();
    assert_eq!(
        table,
        "  mpich-4.2.1  MPICH 4.2.1  /opt/fast       /opt/fast/bin/mpiexec\n  \
         mpich-3.4.3  MPICH 3.4.3  /opt/mpich/3.4  /opt/mpich/3.4/bin/mpiexec\n"
    );
}

#[test]
fn where_slurm_can_start_ranks_it_does() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let root = machine(&cabane);
    let path = cabane.world.file("machine/usr/bin/srun", "#!/bin/sh\necho slurm 23.02.1\n");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    cabane.world.file("machine/usr/lib64/slurm/mpi_pmi2.so", "");
    library(&cabane, "opt/old/lib/libmpi.so.12", &mpich("3.3.2", "PMI_FD cmd=init"), &[]);
    library(
        &cabane,
        "opt/new/lib/libmpi.so.12",
        &mpich("4.1.2", "PMI_FD cmd=init cmd=fullinit"),
        &[],
    );
    let reported = cabane.run(&["system", "probe", "--json", "--root", &root]).success();
    let found: Value = serde_json::from_str(&reported.stdout).unwrap();
    let launchers: Vec<(&str, Option<&str>)> = found["host_mpi"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["title"].as_str().unwrap(), one["launcher"].as_str()))
        .collect();
    // Slurm's plugin speaks the first protocol as well.
    let of_slurm = Some("srun --mpi=pmi2");
    assert_eq!(launchers, [("MPICH 4.1.2", of_slurm), ("MPICH 3.3.2", of_slurm)]);
}

#[test]
fn what_cannot_be_a_target_is_refused() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let refused = cabane.run(&["system", "probe", "--target", "x86_64_v3'"]);
    assert!(refused.code == 2 && refused.stderr.contains("is not the name of a target"));
}
