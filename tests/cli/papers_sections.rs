// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Sections of the suite `papers` that compile, send messages, and build: each row has figures or a reason.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use cabane_testkit::mpi::installed;
use cabane_testkit::{Finished, not_run};
use serde_json::Value;

use crate::cabane::{Cabane, Who, everybody};

const SUITE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../suites/papers");

/// An image with programs that lead to those of this machine, and the suite.
struct Measured {
    cabane: Cabane,
    image: String,
}

/// What a section printed: rows with figures, and rows with reasons.
struct Answers {
    run: Finished,
    figures: BTreeMap<String, f64>,
    left_out: BTreeMap<String, String>,
}

impl Measured {
    fn new(who: Who, programs: &[(&str, &str)]) -> Self {
        let cabane = Cabane::new(who);
        let world = &cabane.world;
        for (name, text) in programs.iter().chain([&("nothing", "exit 0")]) {
            let path = world.file(&format!("tree/bin/{name}"), &format!("#!/bin/sh\n{text}\n"));
            fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
        }
        let store = cabane.mount_point("tools");
        let recipe =
            format!("name: tools\nengine: tree\nstore: {store}\ntree:\n  source: ../tree\n");
        world.file("recipe/config.yaml", &recipe);
        let image = world.path("work/tools.squashfs").to_str().unwrap().to_owned();
        let recipe = world.path("recipe").to_str().unwrap().to_owned();
        cabane.run(&["build", &recipe, "--output", &image]).success();
        let mut copy = Command::new("cp");
        copy.arg("--recursive").arg(Path::new(SUITE).join("measure")).arg(world.path("measure"));
        Finished::of(&mut copy).success();
        Self { cabane, image }
    }

    /// Runs the short form of a section.
    fn run(&self, section: &str, image: &str) -> Answers {
        let world = &self.cabane.world;
        let mut command = self.cabane.other("/usr/bin/python3");
        command
            .args(["-B".as_ref(), world.path(&format!("measure/{section}.py")).as_os_str()])
            .env("CABANE_CHECK_PROGRAM", self.cabane.program())
            .env("CABANE_CHECK_IMAGE", image)
            .env("CABANE_CHECK_SHORT", "1")
            .env("CABANE_CHECK_SECONDS", "1")
            .env("CABANE_CHECK_SHARED", world.path("work"))
            // No address of a recipe leads out of this machine.
            .env("GIT_CONFIG_COUNT", "1")
            .env("GIT_CONFIG_KEY_0", "url./nonexistent/.insteadOf")
            .env("GIT_CONFIG_VALUE_0", "https://");
        let run = self.cabane.finish(&mut command);
        let (mut figures, mut reasons) = (BTreeMap::new(), BTreeMap::new());
        for line in run.stdout.lines() {
            if let Some(figure) = line.strip_prefix("figure: ") {
                let mut words = figure.split(' ');
                let (name, value) = (words.next().unwrap(), words.next().unwrap());
                let value = value.parse().unwrap();
                assert!(figures.insert(name.to_owned(), value).is_none(), "{name} twice");
            } else if let Some((row, reason)) =
                line.strip_prefix("left out: ").and_then(|line| line.split_once(": "))
            {
                let before = reasons.insert(row.to_owned(), reason.to_owned());
                assert!(before.is_none(), "{row} is left out twice");
            } else {
                panic!("{line}");
            }
        }
        Answers { run, figures, left_out: reasons }
    }

    /// Runs a section with the image, and demands an answer for each of its rows.
    fn answers(&self, section: &str) -> Answers {
        let answers = self.run(section, &self.image);
        assert_eq!(answers.run.code, 0, "{:?}", answers.run);
        let rows = fs::read_to_string(format!("{SUITE}/rows/{section}.json")).unwrap();
        let rows: Value = serde_json::from_str(&rows).unwrap();
        for row in rows.as_array().unwrap() {
            let name = row["row"].as_str().unwrap();
            let is_answered =
                answers.figures.contains_key(name) != answers.left_out.contains_key(name);
            assert!(is_answered, "{name}: {:?}", answers.run);
        }
        answers
    }
}

impl Answers {
    /// Demands all figures of a row.
    fn has(&self, row: &str) {
        let kinds =
            ["", "_low", "_high", "_control_low", "_control_high", "_ours", "_other", "_rounds"];
        for kind in kinds {
            let found = self.figures.get(&format!("{row}{kind}"));
            assert!(found.is_some_and(|value| *value > 0.0), "{row}{kind}: {:?}", self.run);
        }
    }

    /// Demands a reason for a row.
    fn lacks(&self, row: &str, expected: &str) {
        let reason = self.left_out.get(row).map_or("", String::as_str);
        assert!(reason.contains(expected), "{row}: {:?}", self.run);
    }
}

#[test]
fn compilers_of_an_image_are_measured_beside_the_same_files_in_directories() {
    for who in everybody() {
        let measured = Measured::new(who, &[("gcc", "exec /usr/bin/gcc \"$@\"")]);
        let answers = measured.answers("compilers");
        for row in ["hello_c_memory", "hello_c_disk", "hello_c_shared"] {
            answers.has(row);
        }
        assert!(answers.figures.contains_key("site_stat"), "{:?}", answers.run);
        answers.lacks("hello_cpp_memory", "the image has no compiler for C++");
        answers.lacks("build_memory", "the short form builds no application");
        answers.lacks("hello_c_slow_cold", "the short form measures no empty caches");
    }
}

#[test]
fn a_compiler_that_fails_has_no_figures() {
    let failing = "echo 'gcc: no such processor' >&2; exit 3";
    let measured = Measured::new(Who::OrdinaryUser, &[("gcc", failing)]);
    let answers = measured.answers("compilers");
    answers.lacks("hello_c_memory", "ended with 3: gcc: no such processor");
    assert!(!answers.figures.keys().any(|name| name.starts_with("hello_c")), "{:?}", answers.run);
}

#[test]
fn an_image_without_compilers_is_left_out_and_a_file_that_is_none_is_an_error() {
    let measured = Measured::new(Who::OrdinaryUser, &[]);
    measured.answers("compilers").lacks("hello_c_memory", "the image has no compiler");
    measured.answers("messages").lacks("latency_image", "the image has no mpicc");
    measured
        .answers("implementations")
        .lacks("latency_openmpi_image", "the image has no mpicc.openmpi");
    let file = measured.cabane.world.file("work/none", "no image");
    for section in ["compilers", "messages"] {
        let answers = measured.run(section, file.to_str().unwrap());
        let said = &answers.run.stderr;
        assert_eq!((answers.run.code, answers.figures.len()), (1, 0), "{:?}", answers.run);
        assert!(said.starts_with(&format!("{section}: ")), "{said}");
    }
}

/// The compilers and the launcher of an MPI.
const TOOLS: [&str; 3] = ["mpicc", "mpicxx", "mpiexec"];

/// An image whose compilers and launchers lead to others: `(".openmpi", "/usr/bin", ".openmpi")` makes
/// `mpicc.openmpi` that of Debian.
fn with_mpis(who: Who, mpis: &[(&str, &str, &str)]) -> Measured {
    let names = |end: &str| TOOLS.map(|name| format!("{name}{end}"));
    let lines: Vec<(String, String)> = mpis
        .iter()
        .flat_map(|(end, directory, other)| {
            let exec = |name: String| format!("exec {directory}/{name} \"$@\"");
            names(end).into_iter().zip(names(other).map(exec))
        })
        .collect();
    let programs: Vec<_> = lines.iter().map(|(name, text)| (&**name, &**text)).collect();
    Measured::new(who, &programs)
}

/// Whether this machine has the MPIs of Debian with these endings.
fn has_mpis(ends: &[&str]) -> bool {
    let is_there = |end| move |name| Path::new(&format!("/usr/bin/{name}{end}")).exists();
    ends.iter().all(|end| TOOLS.iter().all(is_there(end)))
}

#[test]
fn messages_are_measured_in_the_image_and_beside_it() {
    if !has_mpis(&[".mpich"]) {
        not_run!("needs MPICH: scripts/setup test");
    }
    for who in everybody() {
        let measured = with_mpis(who, &[("", "/usr/bin", ".mpich")]);
        let answers = measured.answers("messages");
        for kind in ["latency", "bandwidth", "alltoall", "allreduce"] {
            answers.has(&format!("{kind}_image"));
            answers.has(&format!("{kind}_own"));
        }
        answers.lacks("heat_image", "the short form runs no application");
        answers.lacks("alltoall_many_own", "the short form starts two ranks");
        // It is the library of this machine already.
        answers.lacks("latency_swapped", "although another MPI was to take its place");
        measured.answers("implementations").lacks("latency_version", "the image has MPICH 4");
    }
}

#[test]
fn another_version_of_mpi_is_measured_beside_that_of_the_host() {
    let Some([other]) = installed(["mpich-4.3.2"]).filter(|_| has_mpis(&[".mpich"])) else {
        not_run!("needs MPICH in two versions: scripts/setup test");
    };
    let other = other.join("bin").display().to_string();
    let measured = with_mpis(Who::OrdinaryUser, &[("", &other, "")]);
    let (first, answers) = (measured.answers("messages"), measured.answers("implementations"));
    for kind in ["latency", "bandwidth", "alltoall", "allreduce"] {
        first.has(&format!("{kind}_swapped"));
        answers.has(&format!("{kind}_version"));
    }
    answers.lacks("heat_version", "the short form runs no application");
}

#[test]
fn the_open_mpi_of_an_image_is_measured_beside_its_first_mpi() {
    if !has_mpis(&[".mpich", ".openmpi"]) {
        not_run!("needs MPICH and Open MPI: scripts/setup test");
    }
    let mpis = [("", "/usr/bin", ".mpich"), (".openmpi", "/usr/bin", ".openmpi")];
    let answers = with_mpis(Who::OrdinaryUser, &mpis).answers("implementations");
    for kind in ["latency", "bandwidth", "alltoall", "allreduce"] {
        answers.has(&format!("{kind}_openmpi_image"));
    }
    let first = [("", "/usr/bin", ".openmpi"), (".openmpi", "/usr/bin", ".openmpi")];
    let measured = with_mpis(Who::OrdinaryUser, &first);
    measured.answers("messages").has("latency_image");
    measured
        .answers("implementations")
        .lacks("latency_openmpi_image", "is the first MPI of the image");
}

#[test]
fn builds_are_left_out_where_spack_cannot_be_had() {
    let answers = Measured::new(Who::OrdinaryUser, &[]).answers("builds");
    answers.lacks("stack_cache", "`cabane build` ended with");
    assert!(answers.figures.is_empty(), "{:?}", answers.run);
}
