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
mod machine;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cabane_testkit::mpi::installed;
use cabane_testkit::{Finished, Tree, belongs_to, not_run, squashfs};
use serde_json::Value;

use crate::cabane::{Cabane, Who};
use crate::machine::{INCONCLUSIVE, Machine, cabane};

const MODULES: &str = "/usr/share/modules/init/sh";

/// What a library without faults may be called, whatever else runs on the machine.
const HEALTHY: [&str; 3] = ["working", "suboptimal", INCONCLUSIVE];

/// Waits for the other tests.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An audit that came to its end, on a machine that may be busy.
fn finished(seen: Finished) -> Finished {
    assert!([0, 19].contains(&seen.code), "{seen:?}");
    seen
}

/// All installations, and twenty that are set up wrongly or in an unusual way.
fn with_faults(found: &[PathBuf; 7]) -> Machine {
    let [_, old, middle, new, _, open4, _] = found;
    let one_processor = format!("exec taskset -c 0 {}/bin/mpiexec \"$@\"", middle.display());
    let alone = format!("shift 2; \"$@\" & \"$@\" & wait # the ranks of {}", middle.display());
    let one_rank = format!("shift 2; exec {}/bin/mpiexec -n 1 \"$@\"", middle.display());
    let of_another = format!("exec {}/bin/mpiexec \"$@\"", open4.display());
    let machine = found.iter().fold(Machine::new(), |machine, prefix| machine.with_prefix(prefix));
    let run = format!("exec {}/bin/mpiexec \"$@\"", middle.display());
    let new_library = new.join("lib").display().to_string();
    machine
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
        .with_launcher("no-pmi", middle, &alone)
        .with_launcher("one-rank", middle, &one_rank)
        .with_launcher("starts-nothing", middle, "exit 0")
        .with_launcher("fails", middle, "echo 'no usable nodes' >&2; exit 7")
        .with_wrapper("wrong-wrapper", middle, "exec cc \"$@\"")
        .with_wrapper("no-link", middle, &format!("exec cc -I{}/include \"$@\"", middle.display()))
        .with_emptied("emptied-library", old, "lib/libmpi.so.12")
        .with_module("yields-openmpi", open4, &[("OMPI_MCA_mpi_yield_when_idle", "1")])
        // A program of one version with the library of another.
        .with_module("mixed-versions", middle, &[("LD_LIBRARY_PATH", &new_library)])
        .with_launcher("no-memory", middle, &format!("ulimit -v 60000; {run}"))
        .with_launcher("silent", middle, &format!("{run} >/dev/null"))
        .with_copy("no-library", old, &["lib/libmpi.so", "lib/libmpi.so.12"])
        .with_copy("no-header", old, &["include/mpi.h"])
        .with_copy("no-fabric", new, &["lib/mpich/libfabric.so.1"])
}

/// Installations without faults. Those of the distribution are found as well.
const INSTALLED: [&str; 7] = [
    "mpich",
    "mpich-3.4.3",
    "mpich-4.0.3",
    "mpich-4.3.2",
    "openmpi",
    "openmpi-4.1.8",
    "intel-2021.13.1",
];

/// Audits all installations, and says what must be installed if something is missing.
fn audit_all() -> Result<(Machine, Finished), &'static str> {
    let found = installed(INSTALLED).ok_or("needs seven MPI libraries: scripts/setup test")?;
    if !Path::new(MODULES).exists() {
        return Err("needs Environment Modules: scripts/setup test");
    }
    let machine = with_faults(&found);
    let seen = finished(machine.audit(&["--all", "--measure", "0.1", "--json"]));
    assert_eq!(machine.left_behind(), Vec::<PathBuf>::new());
    Ok((machine, seen))
}

/// Fails if an installation is called what it is not. `or` is what slow ones may be called instead.
fn check_classes(seen: &Finished, or: &str) {
    let classes = Machine::classes_of(seen);
    let class = |name: &str| classes.get(name).map_or("", |(class, _)| class.as_str());
    let why = |name: &str| classes.get(name).map_or("", |(_, why)| why.as_str());
    for name in INSTALLED.into_iter().chain([
        "usr (mpich)",
        "usr (openmpi)",
        "two-copies-openmpi",
        "yields-openmpi",
        "mixed-versions",
    ]) {
        assert!(HEALTHY.contains(&class(name)), "{name}: {classes:#?}");
    }
    for name in ["slow-tcp-openmpi", "slow-tcp-mpich"] {
        let is_so = class(name) == "non-performant" && why(name).contains("TCP sockets");
        assert!(is_so || class(name) == or, "{name}: {classes:#?}");
    }
    if std::thread::available_parallelism().is_ok_and(|count| count.get() > 1) {
        assert!(["misplaced", or].contains(&class("one-processor")), "{classes:#?}");
    }
    let broken = [
        ("no-way-mpich", "exit code"),
        ("wrong-launcher", "2 times 1 of 2 ranks: the launcher belongs to another library"),
        ("no-pmi", "2 times 1 of 2 ranks"),
        ("one-rank", "1 times 1 of 2 ranks"),
        ("starts-nothing", "it ended before it was done"),
        ("fails", "exit code 7: no usable nodes"),
        ("no-memory", ""),
        ("silent", "it ended before it was done"),
        ("wrong-wrapper", "does not compile"),
        ("no-link", "undefined reference"),
        ("emptied-library", ""),
        // What the linker takes instead depends on what the system has.
        ("no-library", ""),
        ("no-header", "mpi.h: no such file or directory"),
        ("no-fabric", "fabric"),
    ];
    for (name, reason) in broken {
        let is_so = class(name) == "nonfunctional" && why(name).to_lowercase().contains(reason);
        assert!(is_so, "{name}: {classes:#?}");
    }
}

#[test]
fn installations_are_sorted_by_what_they_can_do() {
    let _turn = turn();
    let (_machine, seen) = match audit_all() {
        Ok(both) => both,
        Err(why) => not_run!("{why}"),
    };
    check_classes(&seen, "");
    let rows: Value = serde_json::from_str(&seen.stdout).unwrap();
    let rows = rows["installations"].as_array().unwrap();
    let mixed = rows.iter().find(|row| row["name"] == "mixed-versions").unwrap();
    let library = mixed["library_of"].as_str().unwrap();
    assert!(library.ends_with("mpich-4.3.2"), "{mixed:#}");
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
    let saved = machine.audit(&["--measure", "0.4", "--save-reference", file]);
    // A busy machine gives no reference. What goes through TCP is known there as well.
    let is_saved = Path::new(file).exists();
    assert!(is_saved || saved.stderr.contains("no installation is healthy"), "{saved:?}");
    let settings = "btl = tcp,self\npml = ob1\n";
    let slow = Machine::new().with_copy("slow", &open, &[]);
    let etc = slow.cabane.world.path("slow/etc");
    fs::create_dir_all(&etc).unwrap();
    fs::write(etc.join("openmpi-mca-params.conf"), settings).unwrap();
    let reference: &[&str] = if is_saved { &["--reference", file] } else { &[] };
    let classes = slow.classes(&[&["--measure", "0.4"], reference].concat());
    assert_eq!(classes["slow"].0, "non-performant", "{classes:?}");
}

/// A control group that gives a third of a processor, until this is dropped.
struct Quota(PathBuf);

impl Quota {
    /// `None` where there is no controller for processors in version 1, or it cannot be used.
    fn new() -> Option<Self> {
        let group = Path::new("/sys/fs/cgroup/cpu").join(format!("cabane-{}", std::process::id()));
        fs::create_dir(&group).ok()?;
        let quota = Self(group);
        fs::write(quota.0.join("cpu.cfs_quota_us"), "33000").ok()?;
        Some(quota)
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn under_a_quota_of_processor_time_no_installation_is_called_what_it_is_not() {
    let _turn = turn();
    let Some([open, mpich]) = installed(["openmpi-4.1.8", "mpich-4.3.2"]) else {
        not_run!("needs Open MPI and MPICH: scripts/setup test");
    };
    let Some(quota) = Quota::new() else {
        not_run!("needs root, and control groups of version 1 with the controller for processors");
    };
    let slow = [("OMPI_MCA_pml", "ob1"), ("OMPI_MCA_btl", "tcp,self")];
    let machine = Machine::new().with_prefix(&mpich).with_module("tcp", &open, &slow);
    let audit = machine.command(&["--all", "--measure", "0.1", "--json", "--no-keep"]);
    let script = format!("echo $$ >{}/tasks && exec \"$0\" \"$@\"", quota.0.display());
    let mut limited = machine.cabane.other("sh");
    limited.args(["-c", &script]).arg(audit.get_program()).args(audit.get_args());
    limited.env("MODULEPATH", &machine.modules);
    let seen = finished(machine.cabane.finish(&mut limited));
    let classes = Machine::classes_of(&seen);
    let class = |name: &str| classes[name].0.as_str();
    assert!(HEALTHY.contains(&class("mpich-4.3.2")), "{classes:#?}");
    assert!(["non-performant", INCONCLUSIVE].contains(&class("tcp")), "{classes:#?}");
    let all: Value = serde_json::from_str(&seen.stdout).unwrap();
    let stopped = |row: &Value| row["throttled"].as_u64().is_some_and(|stopped| stopped > 0);
    let mut rows = all["installations"].as_array().unwrap().iter();
    assert!(rows.all(stopped), "{all:#}");
}

/// Processes that take all processors until this is dropped.
struct Load(Vec<Child>);

impl Load {
    fn new() -> Self {
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        let busy = || Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        Self((0..count).map(|_| busy()).collect())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A launcher of Open MPI whose ranks send everything through TCP.
fn over_tcp(open: &Path) -> String {
    format!("OMPI_MCA_pml=ob1 OMPI_MCA_btl=tcp,self exec {}/bin/mpiexec \"$@\"", open.display())
}

#[test]
fn on_a_busy_machine_no_installation_is_called_what_it_is_not() {
    let _turn = turn();
    let Some([open, mpich]) = installed(["openmpi-4.1.8", "mpich-4.3.2"]) else {
        not_run!("needs Open MPI and MPICH: scripts/setup test");
    };
    let machine = Machine::new()
        .with_prefix(&mpich)
        .with_launcher("tcp", &open, &over_tcp(&open))
        .with_emptied("emptied", &mpich, "lib/libmpi.so.12");
    let load = Load::new();
    let classes = machine.classes(&["--measure", "0.1"]);
    drop(load);
    let class = |name: &str| classes[name].0.as_str();
    assert!(HEALTHY.contains(&class("mpich-4.3.2")), "{classes:#?}");
    assert!(["non-performant", INCONCLUSIVE].contains(&class("tcp")), "{classes:#?}");
    assert_eq!(class("emptied"), "nonfunctional", "{classes:#?}");
    assert_eq!(machine.left_behind(), Vec::<PathBuf>::new());
}

#[test]
fn on_a_busy_machine_none_of_twenty_faults_is_called_what_it_is_not() {
    if std::env::var_os("CABANE_TEST_BUSY").is_none() {
        belongs_to!("CABANE_TEST_BUSY=1 make test");
    }
    let _turn = turn();
    let load = Load::new();
    let audited = audit_all();
    drop(load);
    match audited {
        Ok((_, seen)) => check_classes(&seen, INCONCLUSIVE),
        Err(why) => not_run!("{why}"),
    }
}

#[test]
fn one_processor_is_inconclusive_and_the_hint_says_what_to_repeat() {
    let _turn = turn();
    let Some([mpich]) = installed(["mpich-4.3.2"]) else {
        not_run!("needs MPICH: scripts/setup test");
    };
    let machine = Machine::new().with_prefix(&mpich);
    let command = machine.command(&["--json"]);
    let mut bound = Command::new("taskset");
    bound.args(["-c", "0"]).arg(command.get_program()).args(command.get_args());
    let variables = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
    bound.env_clear().envs(variables);
    let seen = machine.cabane.finish(&mut bound);
    let classes = Machine::classes_of(&seen);
    let (class, why) = &classes["mpich-4.3.2"];
    assert_eq!((seen.code, class.as_str()), (19, INCONCLUSIVE), "{seen:?}");
    assert!(why.starts_with("the ranks have only one processor"), "{seen:?}");
    let hint = format!("--exclusive --nodes=1 cabane mpi audit {}", mpich.display());
    assert!(seen.stderr.contains(&hint), "{seen:?}");
}

/// What was counted for messages of 8 bytes, of each installation by its name.
fn counted(machine: &Machine, what: &str) -> BTreeMap<String, f64> {
    let seen = finished(machine.audit(&["--measure", "0.05", "--json"]));
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
    let yields = counted(&machine, "yields");
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
    let machine = Machine::new().with_launcher("tcp", &open, &over_tcp(&open)).with_prefix(&open);
    let bytes = counted(&machine, "over_tcp");
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
    let first = finished(machine.audit(&["--json"]));
    // As if it had been well, and another one had been there.
    let world = machine.cabane.world.path("");
    let world = world.to_str().unwrap().trim_end_matches('/');
    let mut earlier: Value = serde_json::from_str(&first.stdout.replace("[WORLD]", world)).unwrap();
    let rows = earlier["installations"].as_array_mut().unwrap();
    rows[0]["class"] = "working".into();
    let mut gone = rows[0].clone();
    gone["name"] = "mpich-2".into();
    rows.push(gone);
    let file = machine.cabane.world.file("earlier.json", &earlier.to_string());
    let file = file.to_str().unwrap();
    let seen = machine.audit(&["--strict", "--compare", file]);
    let expected = "this has changed since the audit in [WORLD]/earlier.json\n  \
                    [WORLD]/broken: was working, and is nonfunctional\n  mpich-2: was not found\n";
    assert!(seen.code == 1 && seen.stderr.contains(expected), "{seen:?}");
    machine.cabane.world.file("earlier.json", "{}");
    let seen = machine.audit(&["--compare", file]);
    assert!(seen.code == 3 && seen.stderr.contains("not the JSON output of an audit"), "{seen:?}");
}

#[test]
fn results_are_kept_and_later_audits_are_compared_with_them() {
    let _turn = turn();
    let Some(found) = installed(["mpich-3.4.3", "mpich-4.0.3", "openmpi-4.1.8"]) else {
        not_run!("needs three MPI libraries: scripts/setup test");
    };
    let kept_in =
        |machine: &Machine| machine.cabane.world.path("home/.local/state/cabane/mpi-audits");
    let measure = ["--measure", "0.2"];
    let forgetful = Machine::new().with_prefix(&found[0]);
    forgetful.classes(&[&measure[..], &["--no-keep"]].concat());
    assert!(!kept_in(&forgetful).exists());
    let machine = found.iter().fold(Machine::new(), |machine, prefix| machine.with_prefix(prefix));
    let classes = machine.classes(&measure);
    let files: Vec<_> = fs::read_dir(kept_in(&machine)).unwrap().flatten().collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let file = files[0].path();
    let is_healthy = |class: &str| HEALTHY.contains(&class) && class != INCONCLUSIVE;
    if classes.values().all(|(class, _)| is_healthy(class)) {
        // One alone has no peers, and is compared with what the three reached. What they reached while ranks waited for
        // their processors is not taken: then the three are measured once more.
        let mut alone = machine;
        let three = alone.prefixes.clone();
        for attempt in 0.. {
            alone.prefixes = vec![three[0].clone()];
            let classes = alone.classes(&measure);
            let (class, why) = &classes["mpich-3.4.3"];
            if why.contains("what earlier audits of such nodes found") || class == INCONCLUSIVE {
                break;
            }
            assert!(attempt < 4, "{classes:?}");
            alone.prefixes.clone_from(&three);
            alone.classes(&measure);
        }
        // As if that had been on another day, on which it was broken.
        let mut kept: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        for result in kept["results"].as_array_mut().unwrap() {
            result["day"] = "2026-01-31".into();
            result["class"] = "nonfunctional".into();
        }
        fs::write(&file, kept.to_string()).unwrap();
        let seen = finished(alone.audit(&measure));
        let change = "this has changed since earlier audits of this type of node\n  ";
        let is_so = seen.stderr.contains(change)
            && seen.stderr.contains("mpich-3.4.3: was nonfunctional on 2026-01-31, and is ");
        assert!(is_so || seen.code == 19, "{seen:?}");
    }
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
    HEALTHY.iter().any(|class| one["class"] == *class) && loaded.contains("/mnt/mpi/lib/")
}

#[test]
fn an_mpi_in_an_image_is_tried_inside_of_it() {
    let _turn = turn();
    let Some([installed]) = installed(["mpich"]) else {
        not_run!("needs MPICH: scripts/setup test");
    };
    let (cabane, image) = with_image(&installed);
    let arguments = ["mpi", "audit", "--json", "--measure", "0.05", "--image", &image];
    let seen = finished(cabane.run(&arguments));
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
    let seen = finished(cabane.run(&arguments));
    assert!(is_one_from_the_image(&seen), "{seen:?}");
}

#[test]
fn benchmarks_of_others_are_shown_beside_ours() {
    let _turn = turn();
    let Some([intel, mpich]) = installed(["intel-2021.13.1", "mpich-4.0.3"]) else {
        not_run!("needs the runtime of Intel and MPICH: scripts/setup test");
    };
    let machine = Machine::new().with_prefix(&intel).with_prefix(&mpich);
    let seen = finished(machine.audit(&["--measure", "0.05", "--json"]));
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
fn a_page_with_plots_is_written() {
    let _turn = turn();
    let Some([installed]) = installed(["mpich-4.0.3"]) else {
        not_run!("needs MPICH 4.0: scripts/setup test");
    };
    let machine = Machine::new().with_prefix(&installed);
    let file = machine.cabane.world.path("page.html");
    finished(machine.audit(&["--measure", "0.05", "--html", file.to_str().unwrap()]));
    let page = fs::read_to_string(file).unwrap();
    assert_eq!(page.matches("<figure class=\"plot\">").count(), 4, "{page}");
    // Each plot has its numbers as a table, and the first one also what the node does without MPI.
    for part in ["shared memory, without MPI", "TCP, without MPI", "bandwidth, MB/s", "latency, µs"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(page.matches("mpich").count() > 4, "{page}");
}
