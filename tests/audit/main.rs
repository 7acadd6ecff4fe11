// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane mpi audit`: real libraries of MPI, healthy, slow and broken on purpose.
//!
//! A binary of its own, in which one test runs at a time: what is measured has no neighbours
//! that compute.

#[path = "../cli/cabane.rs"]
#[expect(dead_code, reason = "the tests of the other commands use more of it")]
mod cabane;
#[path = "../cli/json_schema.rs"]
mod json_schema;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cabane_testkit::mpi::installed;
use cabane_testkit::{Finished, Tree, not_run, squashfs};
use serde_json::Value;

use crate::cabane::{Cabane, Who, everybody};

const MODULES: &str = "/usr/share/modules/init/sh";

/// What no library does whatever else runs on the machine.
const HEALTHY: [&str; 2] = ["working", "suboptimal"];

/// Waits for the other tests.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Anyone who can read the clone.
fn cabane() -> Cabane {
    Cabane::new(everybody().into_iter().next().unwrap_or(Who::OrdinaryUser))
}

/// A machine with healthy installations, and others that are not.
struct Machine {
    cabane: Cabane,
    prefixes: Vec<String>,
    modules: PathBuf,
}

impl Machine {
    fn new() -> Self {
        let cabane = cabane();
        let modules = cabane.world.directory("modules");
        Self { cabane, prefixes: Vec::new(), modules }
    }

    fn with_prefix(mut self, prefix: &Path) -> Self {
        self.prefixes.push(prefix.to_string_lossy().into_owned());
        self
    }

    /// Adds a copy without some files.
    fn with_copy(self, name: &str, original: &Path, without: &[&str]) -> Self {
        let copy = self.cabane.world.path(name);
        let _ = Tree::new(&copy).copy_of(original, "");
        for file in without {
            fs::remove_file(copy.join(file)).unwrap();
        }
        self.with_prefix(&copy)
    }

    /// Adds a prefix with the wrapper of one library and a launcher of its own.
    fn with_launcher(self, name: &str, original: &Path, launcher: &str) -> Self {
        let bin = self.cabane.world.directory(&format!("{name}/bin"));
        let wrapper = format!("exec {}/bin/mpicc \"$@\"", original.display());
        for (program, text) in [("mpicc", wrapper.as_str()), ("mpiexec", launcher)] {
            let path = bin.join(program);
            fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let prefix = bin.parent().unwrap().to_owned();
        self.with_prefix(&prefix)
    }

    /// Adds a module for a library, with variables.
    fn with_module(self, name: &str, prefix: &Path, variables: &[(&str, &str)]) -> Self {
        let mut text = format!("#%Module1.0\nprepend-path PATH {}/bin\n", prefix.display());
        for (variable, value) in variables {
            text += &format!("setenv {variable} {value}\n");
        }
        fs::write(self.modules.join(name), text).unwrap();
        self
    }

    fn audit(&self, arguments: &[&str]) -> Finished {
        let work = self.cabane.world.directory("w");
        let prefixes = self.prefixes.iter().map(String::as_str);
        let mut all = vec!["mpi", "audit", "--work-directory", work.to_str().unwrap()];
        all.extend(arguments);
        all.extend(prefixes);
        let mut command = self.cabane.command(&all);
        command.env("MODULEPATH", &self.modules);
        self.cabane.finish(&mut command)
    }

    /// The class and the explanation of every installation.
    fn classes(&self, arguments: &[&str]) -> BTreeMap<String, (String, String)> {
        let seen = self.audit(&[arguments, &["--json"]].concat()).success();
        let all: Value = serde_json::from_str(&seen.stdout).unwrap();
        let text = |one: &Value, name: &str| one[name].as_str().unwrap_or_default().to_owned();
        let row = |one: &Value| {
            let name = text(one, "name");
            let name = name.rsplit('/').next().unwrap_or_default().to_owned();
            (name, (text(one, "class"), text(one, "explanation")))
        };
        let rows = all["installations"].as_array().unwrap();
        rows.iter().map(row).collect()
    }

    /// Files and processes of the audit that are still there.
    fn left_behind(&self) -> Vec<PathBuf> {
        let work = self.cabane.world.path("w");
        let files = fs::read_dir(&work).unwrap().flatten().map(|entry| entry.path());
        let mark = format!("CABANE_CHECK_RUN={}", work.display());
        let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        let is_ours = |path: &PathBuf| {
            let variables = fs::read(path.join("environ")).unwrap_or_default();
            String::from_utf8_lossy(&variables).contains(&mark)
        };
        files.chain(processes.filter(is_ours)).collect()
    }
}

#[test]
fn installations_are_sorted_by_what_they_can_do() {
    let _turn = turn();
    let names = [
        "mpich",
        "mpich-3.4.3",
        "mpich-4.0.3",
        "mpich-4.3.2",
        "openmpi",
        "openmpi-4.1.8",
        "intel-2021.13.1",
    ];
    let Some(found) = installed(names) else {
        not_run!("needs seven MPI libraries: scripts/setup test");
    };
    if !Path::new(MODULES).exists() {
        not_run!("needs Environment Modules: scripts/setup test");
    }
    let [_, old, middle, new, _, open4, _] = &found;
    let one_processor = format!("exec taskset -c 0 {}/bin/mpiexec \"$@\"", middle.display());
    let of_another = format!("exec {}/bin/mpiexec \"$@\"", open4.display());
    let machine = found.iter().fold(Machine::new(), |machine, prefix| machine.with_prefix(prefix));
    let machine = machine
        .with_module(
            "slow-tcp-openmpi",
            open4,
            &[("OMPI_MCA_pml", "ob1"), ("OMPI_MCA_btl", "tcp,self")],
        )
        .with_module(
            "slow-tcp-mpich",
            middle,
            &[("MPIR_CVAR_NOLOCAL", "1"), ("MPIR_CVAR_CH4_NETMOD", "ofi"), ("FI_PROVIDER", "tcp")],
        )
        .with_module(
            "two-copies-openmpi",
            open4,
            &[("OMPI_MCA_btl_vader_single_copy_mechanism", "none")],
        )
        .with_module(
            "no-way-mpich",
            middle,
            &[("UCX_TLS", "bogus"), ("MPIR_CVAR_NOLOCAL", "1"), ("MPIR_CVAR_CH4_NETMOD", "ucx")],
        )
        .with_launcher("one-processor", middle, &one_processor)
        .with_launcher("wrong-launcher", middle, &of_another)
        .with_copy("no-library", old, &["lib/libmpi.so", "lib/libmpi.so.12"])
        .with_copy("no-header", old, &["include/mpi.h"])
        .with_copy("no-fabric", new, &["lib/mpich/libfabric.so.1"]);
    let classes = machine.classes(&["--all", "--measure", "0.1"]);
    let class = |name: &str| classes.get(name).map_or("", |(class, _)| class.as_str());
    let why = |name: &str| classes.get(name).map_or("", |(_, why)| why.as_str());
    for name in names.into_iter().chain(["usr (mpich)", "usr (openmpi)", "two-copies-openmpi"]) {
        assert!(HEALTHY.contains(&class(name)), "{name}: {classes:#?}");
    }
    for name in ["slow-tcp-openmpi", "slow-tcp-mpich"] {
        assert_eq!(class(name), "non-performant", "{name}: {classes:#?}");
        assert!(why(name).contains("TCP sockets"), "{name}: {classes:#?}");
    }
    if std::thread::available_parallelism().is_ok_and(|count| count.get() > 1) {
        assert_eq!(class("one-processor"), "misplaced", "{classes:#?}");
    }
    let broken = [
        ("no-way-mpich", "exit code"),
        ("wrong-launcher", "2 times 1 of 2 ranks: the launcher belongs to another library"),
        // What the linker takes instead depends on what the system has.
        ("no-library", ""),
        ("no-header", "mpi.h: no such file or directory"),
        ("no-fabric", "fabric"),
    ];
    for (name, reason) in broken {
        let is_so = class(name) == "nonfunctional" && why(name).to_lowercase().contains(reason);
        assert!(is_so, "{name}: {classes:#?}");
    }
    assert_eq!(machine.left_behind(), Vec::<PathBuf>::new());
}

#[test]
fn a_slow_installation_without_peers_is_known_by_kept_references() {
    let _turn = turn();
    let Some([open]) = installed(["openmpi-4.1.8"]) else {
        not_run!("needs Open MPI: scripts/setup test");
    };
    let machine = Machine::new().with_prefix(&open);
    let file = machine.cabane.world.path("reference.json");
    let file = file.to_str().unwrap();
    machine.audit(&["--measure", "0.4", "--save-reference", file]).success();
    let settings = "btl = tcp,self\npml = ob1\n";
    let slow = Machine::new().with_copy("slow", &open, &[]);
    let etc = slow.cabane.world.path("slow/etc");
    fs::create_dir_all(&etc).unwrap();
    fs::write(etc.join("openmpi-mca-params.conf"), settings).unwrap();
    let classes = slow.classes(&["--measure", "0.4", "--reference", file]);
    assert_eq!(classes["slow"].0, "non-performant", "{classes:?}");
}

/// What was counted for messages of 8 bytes, of each installation by its name.
fn counted(machine: &Machine, arguments: &[&str], what: &str) -> BTreeMap<String, f64> {
    let arguments = [&["--measure", "0.05", "--json"], arguments].concat();
    let seen = machine.audit(&arguments).success();
    let all: Value = serde_json::from_str(&seen.stdout).unwrap();
    let row = |one: &Value| {
        let name = one["name"].as_str()?.rsplit('/').next()?.to_owned();
        let ways = one["ways"].as_array()?;
        let small = ways.iter().find(|way| way["bytes"] == 8)?;
        Some((name, small[what].as_f64()?))
    };
    let rows = all["installations"].as_array().unwrap();
    rows.iter().filter_map(row).collect()
}

#[test]
fn a_library_that_yields_while_it_waits_is_known_by_its_calls() {
    let _turn = turn();
    let Some([five, four]) = installed(["mpich", "mpich-4.3.2"]) else {
        not_run!("needs MPICH 5.0 and 4.3: scripts/setup test");
    };
    let machine = Machine::new().with_prefix(&five).with_prefix(&four);
    let yields = counted(&machine, &[], "yields");
    // MPICH 4 is built without any yielding.
    let is_so = yields["mpich"] > 0.0 && yields["mpich-4.3.2"] == 0.0;
    assert!(is_so, "{yields:?}");
}

#[test]
fn bytes_that_come_over_tcp_are_counted() {
    let _turn = turn();
    let Some([open]) = installed(["openmpi-4.1.8"]) else {
        not_run!("needs Open MPI: scripts/setup test");
    };
    if !Path::new(MODULES).exists() {
        not_run!("needs Environment Modules: scripts/setup test");
    }
    let tcp = [("OMPI_MCA_pml", "ob1"), ("OMPI_MCA_btl", "tcp,self")];
    let machine = Machine::new().with_module("tcp", &open, &tcp).with_prefix(&open);
    let bytes = counted(&machine, &["--all"], "over_tcp");
    let is_so = bytes["tcp"] >= 8.0 && bytes["openmpi-4.1.8"] < 8.0;
    assert!(is_so, "{bytes:?}");
}

#[test]
fn a_broken_installation_fails_the_audit_only_if_it_is_strict() {
    let _turn = turn();
    let Some([old]) = installed(["mpich-3.4.3"]) else {
        not_run!("needs MPICH 3.4: scripts/setup test");
    };
    let machine = Machine::new().with_copy("broken", &old, &["lib/libmpi.so", "lib/libmpi.so.12"]);
    let codes = [machine.audit(&[]), machine.audit(&["--strict"])].map(|seen| seen.code);
    assert_eq!(codes, [0, 1]);
}

/// An image with a library, beside another one in a repository.
fn with_image(installed: &Path) -> (Cabane, String) {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let mount_point = cabane.mount_point("mpi");
    let tree = cabane.world.path("tree");
    let _ = Tree::new(&tree).copy_of(installed, "").meta("mpi", &mount_point);
    let image = cabane.world.path("mpi.squashfs");
    squashfs(&tree, &image);
    (cabane, image.to_string_lossy().into_owned())
}

/// Whether exactly one installation was tried, with its library from the image.
fn is_one_from_the_image(seen: &Finished) -> bool {
    let all: Value = serde_json::from_str(&seen.stdout).unwrap();
    let [one] = all["installations"].as_array().unwrap().as_slice() else {
        return false;
    };
    let loaded = one["loaded"][0].as_str().unwrap_or_default();
    one["class"] == "working" && loaded.contains("/mnt/mpi/lib/")
}

#[test]
fn an_mpi_in_an_image_is_tried_inside_of_it() {
    let _turn = turn();
    let Some([installed]) = installed(["mpich"]) else {
        not_run!("needs MPICH: scripts/setup test");
    };
    let (cabane, image) = with_image(&installed);
    let arguments = ["mpi", "audit", "--json", "--measure", "0.05", "--image", &image];
    let seen = cabane.run(&arguments).success();
    assert!(is_one_from_the_image(&seen), "{seen:?}");
}

#[test]
fn of_all_images_those_with_an_mpi_are_tried() {
    let _turn = turn();
    let Some([installed]) = installed(["mpich"]) else {
        not_run!("needs MPICH: scripts/setup test");
    };
    let (cabane, image) = with_image(&installed);
    cabane.run(&["image", "add", "mpi/5:v1@here%x86_64", &image]).success();
    let arguments = ["mpi", "audit", "--json", "--measure", "0.05", "--images"];
    let seen = cabane.run(&arguments).success();
    assert!(is_one_from_the_image(&seen), "{seen:?}");
}

#[test]
fn benchmarks_of_others_are_shown_beside_ours() {
    let _turn = turn();
    let Some([intel, mpich]) = installed(["intel-2021.13.1", "mpich-4.0.3"]) else {
        not_run!("needs the runtime of Intel and MPICH: scripts/setup test");
    };
    let machine = Machine::new().with_prefix(&intel).with_prefix(&mpich);
    let seen = machine.audit(&["--measure", "0.05", "--json"]).success();
    let all: Value = serde_json::from_str(&seen.stdout).unwrap();
    let mut rows = all["installations"].as_array().unwrap().iter();
    let row = rows.find(|one| one["name"].as_str().is_some_and(|name| name.contains("intel")));
    let sizes = row.unwrap()["others"][0]["latencies"].as_array().map(Vec::len);
    // From 8 bytes to 1 MiB.
    assert_eq!(sizes, Some(18), "{row:#?}");
}

#[test]
fn a_directory_without_an_mpi_is_no_installation() {
    let _turn = turn();
    let cabane = cabane();
    let empty = cabane.world.directory("empty");
    let seen = cabane.run(&["mpi", "audit", empty.to_str().unwrap()]);
    assert_eq!(seen.code, 4, "{seen:?}");
}

#[test]
fn a_page_with_a_bar_for_each_figure_is_written() {
    let _turn = turn();
    let Some([installed]) = installed(["mpich-4.0.3"]) else {
        not_run!("needs MPICH 4.0: scripts/setup test");
    };
    let machine = Machine::new().with_prefix(&installed);
    let file = machine.cabane.world.path("page.html");
    machine.audit(&["--measure", "0.05", "--html", file.to_str().unwrap()]).success();
    let page = fs::read_to_string(file).unwrap();
    let plots = page.matches("<svg").count();
    let bars = page.matches("<rect").count();
    assert_eq!((plots, bars), (12, 12));
}
