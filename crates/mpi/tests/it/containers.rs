// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Substitutes that are carried to where the program runs: there it cannot see them.
//!
//! The ranks live in a mount namespace in which the directory with all MPIs is empty but
//! for the one of the program, as in a container. What the plan says is carried, and
//! nothing else, is put where the plan says.

use std::path::{Path, PathBuf};
use std::process::Command;

use cabane_mpi::{Places, Refusal, Side, Tree, Verdict, Warning, Way, judge};
use cabane_testkit::mpi::{Root, both, installed, libraries_of_debian, ranks};
use cabane_testkit::{Finished, not_run};

use crate::support::Program;

const INSIDE: &str = "/opt/debian";
const PRIVATE: &str = "/run/mpi-of-host";
const LINKS: &str = "/run/mpi-names";

/// A container with the MPIs of Debian 12 and a program.
struct Container {
    debian: PathBuf,
    hidden: PathBuf,
    program: Program,
    empty: tempfile::TempDir,
}

impl Container {
    fn new(debian: &Path, program: Program) -> Self {
        Self {
            debian: debian.to_owned(),
            hidden: debian.parent().unwrap().to_owned(),
            program,
            empty: tempfile::tempdir().unwrap(),
        }
    }

    fn library_path() -> String {
        libraries_of_debian(Path::new(INSIDE)).display().to_string()
    }

    fn judge(&self, substitute: &Path) -> Verdict {
        self.judge_with(substitute, "")
    }

    /// The same for a substitute that needs a search path itself.
    fn judge_with(&self, substitute: &Path, library_path: &str) -> Verdict {
        let here = Tree::here();
        let inside = Tree::here().with(&self.hidden, self.empty.path()).with(INSIDE, &self.debian);
        let places = Places { private: Some(PRIVATE.into()), links: LINKS.into() };
        let program =
            Side { tree: &inside, path: &self.program.path, library_path: &Self::library_path() };
        let substitute = Side { tree: &here, path: substitute, library_path };
        judge(program, substitute, &places)
    }

    /// Starts two ranks in the container, with what a verdict says.
    fn run(&self, verdict: &Verdict, launcher: &[&str]) -> Finished {
        let plan = verdict.plan().unwrap_or_else(|| panic!("{verdict:?}"));
        let mut command = Command::new("bwrap");
        command.args(["--dev-bind", "/", "/", "--tmpfs", "/opt", "--tmpfs", "/run"]);
        command.arg("--tmpfs").arg(&self.hidden);
        command.arg("--ro-bind").arg(&self.debian).arg(INSIDE);
        for one in &plan.carried {
            command.arg("--ro-bind").arg(&one.source).arg(&one.target);
        }
        for (link, target) in &plan.links {
            command.arg("--symlink").arg(target).arg(link);
        }
        let search = Self::library_path();
        let variables =
            plan.environment(|name| (name == "LD_LIBRARY_PATH").then(|| search.clone()));
        command
            .args(["env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"])
            .arg(format!("OPAL_PREFIX={INSIDE}/usr"))
            .arg(format!("LD_LIBRARY_PATH={search}"))
            .args(["timeout", "--kill-after=5", "100"])
            .args(launcher)
            .args(["-n", "2", "env"])
            .args(variables.iter().map(|(name, value)| format!("{name}={value}")))
            .arg(&self.program.path);
        Finished::of(&mut command)
    }
}

const HYDRA: &str = "/opt/debian/usr/bin/mpiexec.hydra";
const MPIRUN: &str = "/opt/debian/usr/bin/orterun";

#[test]
fn mpich_of_the_host_is_carried_into_a_container_with_all_that_it_needs() {
    let Some([debian, mpich, old]) = installed(["debian", "mpich", "mpich-3.4.3"]) else {
        not_run!("needs MPICH of Debian 12: scripts/setup test");
    };
    let container = Container::new(&debian, Program::of_debian_mpich(&debian, &mpich));
    for (substitute, version) in [(&mpich, "5.0.2"), (&old, "3.4.3")] {
        let verdict = container.judge(substitute);
        let seen = container.run(&verdict, &[HYDRA]);
        let expected = both(&format!("MPICH Version: {version}"));
        assert_eq!(ranks(&seen), expected, "{seen:?}");
        assert_eq!(verdict.plan().map(|plan| plan.way), Some(Way::Preload));
    }
}

#[test]
fn intel_of_the_host_is_carried_with_its_libfabric_and_providers() {
    let Some([debian, intel, mpich]) = installed(["debian", "intel-2021.13.1", "mpich"]) else {
        not_run!("needs MPICH of Debian 12 and Intel MPI: scripts/setup test");
    };
    let container = Container::new(&debian, Program::of_debian_mpich(&debian, &mpich));
    let seen = container.run(&container.judge(&intel), &[HYDRA, "-ppn", "2"]);
    assert_eq!(ranks(&seen), both("Intel"), "{seen:?}");
}

#[test]
fn open_mpi_of_the_host_finds_its_parts_at_the_new_place() {
    let Some([debian, openmpi, headers]) = installed(["debian", "openmpi", "openmpi-4.1.8"]) else {
        not_run!("needs Open MPI of Debian 12: scripts/setup test");
    };
    let container = Container::new(&debian, Program::of_debian_openmpi(&debian, &headers));
    for (substitute, version) in [(&headers, "4.1.8"), (&openmpi, "5.0.11")] {
        let verdict = container.judge(substitute);
        let seen = container.run(&verdict, &[MPIRUN, "--oversubscribe"]);
        assert_eq!(ranks(&seen), both(&format!("Open MPI v{version}")), "{seen:?}");
    }
}

#[test]
fn what_parts_of_the_substitute_need_is_carried_as_well() {
    let Some([debian, headers]) = installed(["debian", "openmpi-4.1.8"]) else {
        not_run!("needs Open MPI of Debian 12: scripts/setup test");
    };
    let container = Container::new(&debian, Program::of_debian_openmpi(&debian, &headers));
    let library = libraries_of_debian(&debian).join("libmpi.so.40");
    let search = libraries_of_debian(&debian).display().to_string();
    let verdict = container.judge_with(&library, &search);
    let plan = verdict.plan().unwrap_or_else(|| panic!("{verdict:?}"));
    let is_carried = |name: &str| plan.carried.iter().any(|one| one.target.ends_with(name));
    // The library itself does not need them; modules for shared memory and for PMIx do.
    for name in ["libmca_common_sm.so.40", "libpmix.so.2"] {
        assert!(is_carried(name), "{name}: {plan:?}");
    }
}

#[test]
fn parts_that_would_break_the_program_are_left_without_what_they_need() {
    let Some([mpich, old]) = installed(["mpich", "mpich-3.4.3"]) else {
        not_run!("needs MPICH: scripts/setup test");
    };
    let Some(newer) = Root::find("trixie").path() else {
        not_run!("needs the root file system of a newer Debian: scripts/setup test");
    };
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name);
    let mut copy = Command::new("cp");
    Finished::of(copy.arg("-r").arg(&mpich).arg(path("mpich"))).success();
    // A part of it needs a library of a newer system, and the program needs its own.
    let name = "libcap.so.2";
    std::fs::create_dir(path("newer")).unwrap();
    let of_newer = path("newer").join(name);
    std::fs::copy(libraries_of_debian(&newer).join(name), &of_newer).unwrap();
    std::fs::create_dir_all(path("mpich/lib/libfabric")).unwrap();
    std::fs::write(path("part.c"), "").unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-Wl,--no-as-needed"]);
    compiler.arg(path("part.c")).arg(&of_newer).arg("-o");
    compiler.arg(path("mpich/lib/libfabric/libpart-fi.so"));
    compiler.arg("-Wl,--allow-shlib-undefined");
    Finished::of(&mut compiler).success();
    let own = libraries_of_debian(Path::new("/")).join(name);
    let options = ["-Wl,--no-as-needed".into(), own];
    let libraries = [vec![old.join("lib/libmpi.so.12")], options.to_vec()].concat();
    let container = Container::new(&old, Program::compile("hello.c", &old, &libraries));
    let verdict = container.judge_with(&path("mpich"), &path("newer").display().to_string());
    let Some(Warning::WithoutParts { reason }) = verdict.warnings.first() else {
        panic!("{verdict:?}");
    };
    let carried = &verdict.plan().unwrap().carried;
    assert!(reason.contains("needs the C library 2.38"), "{reason}");
    assert!(!carried.iter().any(|one| one.target.ends_with(name)), "{carried:?}");
}

#[test]
fn one_file_over_another_gets_the_wrong_libraries_and_is_refused() {
    let names = ["debian", "mpich-4.0.3", "mpich-4.3.2", "mpich"];
    let Some([debian, others @ ..]) = installed(names) else {
        not_run!("needs MPICH of Debian 12: scripts/setup test");
    };
    let program = Program::of_debian_mpich(&debian, &others[0]);
    let libraries = libraries_of_debian(&debian);
    let link = libraries.join("libmpich.so.12");
    let place = std::fs::canonicalize(&link).unwrap();
    for other in &others {
        let file = std::fs::canonicalize(other.join("lib/libmpi.so.12")).unwrap();
        let tree = Tree::here().with(&place, &file);
        let places = Places { private: None, links: LINKS.into() };
        let side = |path| Side { tree: &tree, path, library_path: &program.library_path };
        let verdict = judge(side(&program.path), side(&link), &places);
        let mut bound = Command::new("bwrap");
        bound.args(["--dev-bind", "/", "/", "--ro-bind"]).arg(&file);
        bound.arg(&place).arg(&program.path);
        let naive = Finished::of(bound.env("LD_LIBRARY_PATH", &libraries));
        let refusal = verdict.refusal().map(ToString::to_string);
        let refusal = refusal.unwrap_or_else(|| panic!("{verdict:?}"));
        assert!(refusal.contains("has no version FABRIC_1."), "{refusal}");
        assert!(naive.stderr.contains("version `FABRIC_1."), "{naive:?}");
    }
}

#[test]
fn an_older_c_library_of_a_container_is_replaced_unless_that_of_the_host_is_too_old_as_well() {
    let Some([debian, mpich]) = installed(["debian", "mpich"]) else {
        not_run!("needs MPICH of Debian 12: scripts/setup test");
    };
    let container = Container::new(&debian, Program::of_debian_mpich(&debian, &mpich));
    // An old C library, but for the one version that the program needs itself.
    let directory = container.empty.path().join("old");
    std::fs::create_dir(&directory).unwrap();
    let versions = ["2.2.5", "2.3.4", "2.4", "2.14", "2.17", "2.34"];
    let versions = versions.map(|version| {
        let name = version.replace('.', "_");
        format!("GLIBC_{version} {{ global: v{name}; }};\n")
    });
    std::fs::write(directory.join("versions"), versions.concat()).unwrap();
    std::fs::write(directory.join("libc.c"), "").unwrap();
    let mut compiler = Command::new("cc");
    compiler
        .current_dir(&directory)
        .args(["-shared", "-fPIC", "-nostdlib", "-Wl,-soname,libc.so.6"])
        .args(["-Wl,--version-script,versions", "libc.c", "-o", "libc.so.6"]);
    Finished::of(&mut compiler).success();
    let here = Tree::here();
    let found = here.find(Path::new("/lib/x86_64-linux-gnu/libc.so.6"));
    let place = found.or_else(|| here.find(Path::new("/lib64/libc.so.6"))).unwrap();
    let inside =
        Tree::here().with(INSIDE, &container.debian).with(&place.path, directory.join("libc.so.6"));
    let places = Places { private: Some(PRIVATE.into()), links: LINKS.into() };
    let program = Side {
        tree: &inside,
        path: &container.program.path,
        library_path: &Container::library_path(),
    };
    let judge_with = |tree| {
        let substitute = Side { tree, path: &mpich, library_path: "" };
        judge(program, substitute, &places)
    };
    let verdict = judge_with(&here);
    let plan = verdict.plan().unwrap_or_else(|| panic!("{verdict:?}"));
    let replaced = plan.carried.iter().find(|one| one.target == place.path);
    assert_eq!(replaced.map(|one| &one.source), Some(&place.outside));
    let is_told =
        |one: &Warning| matches!(one, Warning::NewerCLibrary { from, .. } if from == "2.34");
    assert!(verdict.warnings.iter().any(is_told), "{:?}", verdict.warnings);
    let old_host = Tree::here().with(&place.path, directory.join("libc.so.6"));
    let verdict = judge_with(&old_host);
    let Some(Refusal::OldGlibc { needed, found, .. }) = verdict.refusal() else {
        panic!("{verdict:?}");
    };
    assert_eq!((needed.as_str(), found.as_deref()), ("2.27", Some("2.34")));
}
