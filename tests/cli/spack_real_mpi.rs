// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane build` with real Spack, and the MPI that the system has.

use std::path::Path;
use std::{env, fs};

use cabane_testkit::{belongs_to, not_run};
use serde_json::Value;

use crate::spack_real::{Real, SUM, example};

/// Makes a recipe with an MPI of the system and a package, and returns where it is.
fn recipe(real: &Real, mpi: &str, specs: &str) -> std::path::PathBuf {
    let world = &real.cabane.world;
    for name in ["config.yaml", "compilers.yaml"] {
        let text = fs::read_to_string(example("tools").join(name)).unwrap();
        world.file(&format!("recipe/{name}"), &text);
    }
    let environments = format!(
        "tools:\n  compiler: [gcc]\n  network: {{mpi: {mpi}}}\n  specs: [{specs}]\n  views: {{tools: {{}}}}\n"
    );
    world.file("recipe/environments.yaml", &environments);
    world.path("recipe")
}

/// Whether the system has an Open MPI that its own description names.
fn has_open_mpi(real: &Real) -> bool {
    let network = fs::read_to_string(real.cabane.world.path("system/network.yaml")).unwrap();
    network.contains("- spec: openmpi@")
}

/// Returns where the packages of a name are, from the lock file of a build; nothing for those
/// that Spack builds.
fn prefixes(real: &Real, directory: &str, name: &str) -> Vec<Option<String>> {
    let lock = real.cabane.world.path(directory).join("work/spack/env/stack/spack.lock");
    let lock: Value = serde_json::from_str(&fs::read_to_string(lock).unwrap()).unwrap();
    let specs = lock["concrete_specs"].as_object().unwrap().values();
    let named = specs.filter(|spec| spec["name"] == name);
    named.map(|spec| spec["external"]["path"].as_str().map(str::to_owned)).collect()
}

/// Decides which packages are built, and returns what was said.
fn concretize(real: &Real, recipe: &Path, directory: &str) -> String {
    real.build_with(recipe, directory, "mpi/1.0", &["--until", "concretize"]).stderr
}

macro_rules! with_open_mpi {
    () => {{
        let Some(real) = Real::new() else {
            belongs_to!("make test-spack");
        };
        if !has_open_mpi(&real) {
            not_run!("needs an Open MPI of the system");
        }
        real
    }};
}

#[test]
fn the_mpi_of_the_system_is_used_and_its_wrappers_are_in_the_view() {
    let real = with_open_mpi!();
    let recipe = recipe(&real, "openmpi", "bzip2, py-setuptools");
    let said = concretize(&real, &recipe, "build");
    let usr = [Some("/usr".to_owned())];
    assert_eq!(prefixes(&real, "build", "openmpi"), usr, "{said}");
    assert_eq!(prefixes(&real, "build", "python"), usr, "{said}");
    assert!(!said.contains("will be built although"), "{said}");

    real.cabane.world.file("recipe/environments.yaml", &environments_without_python(&recipe));
    real.build_with(&recipe, "build", "mpi/1.0", &[]);
    real.cabane.world.file("work/sum.c", SUM);
    let script = "cd $HOME; which mpicc mpiexec; OMPI_CC='echo other' mpicc x.c | cut -c-11
        mpicc -o sum ../work/sum.c; OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \\
        mpiexec --oversubscribe -n 2 ./sum; mpicxx --version | head -c 3; mpifort --version | head -c 11
        which bzip2 ls; echo $MPICC $MPIFC";
    let seen = real.run("mpi/1.0", script);
    let bin = "/user-environment/env/tools/bin";
    let expected = format!(
        "{bin}/mpicc\n{bin}/mpiexec\nother x.c -\n1\ng++GNU Fortran{bin}/bzip2\n/usr/bin/ls\n{bin}/mpicc {bin}/mpifort\n"
    );
    assert_eq!(seen, expected);
}

/// The packages of Python come from an index that is not always in reach.
fn environments_without_python(recipe: &Path) -> String {
    let text = fs::read_to_string(recipe.join("environments.yaml")).unwrap();
    text.replace(", py-setuptools", "")
}

#[test]
fn a_build_says_why_it_does_not_use_the_mpi_of_the_system() {
    let real = with_open_mpi!();
    let network = real.cabane.world.path("system/network.yaml");
    let text = fs::read_to_string(&network).unwrap();
    // What an older probe has written.
    let before = text
        .replace("~internal-pmix", "")
        .replace("    prefer:\n", "    prefer:\n    - '+internal-pmix'\n");
    assert_ne!(before, text);
    fs::write(&network, before).unwrap();
    let said = concretize(&real, &recipe(&real, "openmpi", "bzip2"), "build");
    assert_eq!(prefixes(&real, "build", "openmpi"), [None], "{said}");
    let reason = "the system prefers +internal-pmix, but the spec of the external does not name it";
    let is_said = |line: &str| {
        line.starts_with("warning: openmpi@")
            && line.contains(" will be built although /usr has openmpi@")
            && line.ends_with(reason)
    };
    assert!(said.lines().any(is_said), "{said}");
}

#[test]
fn an_open_mpi_of_a_vendor_is_installed_and_used_to_compile_and_run_parallel_programs() {
    let Some(real) = Real::new() else {
        belongs_to!("make test-spack");
    };
    let Some(packages) = env::var_os("CABANE_TEST_VENDOR_OPENMPI") else {
        belongs_to!("make test-spack");
    };
    real.add_vendor_mpi("vendor-openmpi", &packages.into_string().unwrap());
    real.build("vendor-openmpi/recipe", "vendor", "vendor/1.0");
    real.cabane.world.file("work/sum.c", SUM);
    let fortran = "program f\nuse mpi_f08\ninteger :: n\ncall MPI_Init()\n\
                   call MPI_Comm_size(MPI_COMM_WORLD, n)\nprint '(I0)', n\ncall MPI_Finalize()\nend\n";
    real.cabane.world.file("work/size.f90", fortran);
    let script = "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; cd $HOME
        $CC -o sum ../work/sum.c; mpiexec --oversubscribe -n 2 ./sum
        $FC -o size ../work/size.f90; mpiexec --oversubscribe -n 2 ./size
        unset OPAL_PREFIX OPAL_LIBDIR OPAL_INCLUDEDIR; mpicc --showme:incdirs | grep -o '^/user-[a-z]*'
        ldd sum | grep -o '/user-.*lib/libmpi'; ldd size | grep -c 'not found\\|/usr/.*openmpi'";
    let seen = real.run("vendor/1.0", &(script.to_owned() + " || true"));
    let lines: Vec<&str> = seen.lines().collect();
    let (library, others) = (lines.get(4), [0, 1, 2, 3, 5].map(|at| lines.get(at).copied()));
    assert_eq!(others, ["1", "2", "2", "/user-environment", "0"].map(Some), "{seen}");
    assert!(library.is_some_and(|line| line.starts_with("/user-environment/")), "{seen}");
}
