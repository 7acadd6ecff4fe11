// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! This machine, beside what real Spack finds on it and makes of what is written.
//!
//! `CABANE_TEST_SPACK` names a checkout of Spack, `CABANE_TEST_SPACK_PACKAGES` one of
//! its packages, and `CABANE_TEST_SPACK_PYTHON` a Python that has clingo. Spack writes
//! nothing into them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cabane_probe::{
    External, Found, Limits, PackageRules, Request, Rule, Section, SystemText, TryWith, Version,
    probe, try_out,
};
use cabane_testkit::{Finished, belongs_to, not_run};
use tempfile::TempDir;

struct Spack {
    program: PathBuf,
    python: PathBuf,
    world: TempDir,
}

impl Spack {
    /// Returns Spack with the configuration of a system, if there is a Spack.
    fn with(found: &Found) -> Option<Self> {
        let variable = |name| Some(PathBuf::from(std::env::var_os(name)?));
        let checkout = variable("CABANE_TEST_SPACK")?;
        let packages = variable("CABANE_TEST_SPACK_PACKAGES")?;
        let python = variable("CABANE_TEST_SPACK_PYTHON")
            .unwrap_or_else(|| checkout.join("../venv/bin/python"));
        let world = tempfile::tempdir().unwrap();
        let system = world.path().join("system");
        SystemText::of(found).save(&system, false).unwrap();
        let builtin = packages.join("repos/spack_repo/builtin");
        let repos = format!("repos: {{builtin: {}}}\n", builtin.display());
        fs::write(system.join("repos.yaml"), repos).unwrap();
        let bootstrap = "bootstrap: {enable: true, sources: []}\n";
        fs::write(system.join("bootstrap.yaml"), bootstrap).unwrap();
        let concretizer = "concretizer: {reuse: false}\n";
        fs::write(system.join("concretizer.yaml"), concretizer).unwrap();
        // What holds for MPIs is beside the rest in a system, and over it in Spack.
        let text = SystemText::of(found).network;
        let (_, packages) = text.split_once("\npackages:").unwrap();
        fs::create_dir(world.path().join("user")).unwrap();
        fs::write(world.path().join("user/packages.yaml"), format!("packages:{packages}")).unwrap();
        Some(Self { program: checkout.join("bin/spack"), python, world })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.world.path().join(name)
    }

    fn run(&self, arguments: &[&str]) -> Finished {
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.path("home"))
            .env("LANG", "C.UTF-8")
            .env("PYTHONPYCACHEPREFIX", self.path("pycache"))
            .env("SPACK_PYTHON", &self.python)
            .env("SPACK_SYSTEM_CONFIG_PATH", self.path("system"))
            .env("SPACK_USER_CONFIG_PATH", self.path("user"))
            .env("SPACK_USER_CACHE_PATH", self.path("cache"));
        Finished::of(&mut command)
    }
}

fn this_machine() -> Found {
    probe(&Request { root: "/".into(), homes: Vec::new(), target: None, limits: Limits::default() })
}

/// Returns the specs of externals by package, from a file that Spack has written.
fn specs_in(file: &Path) -> BTreeMap<String, Vec<String>> {
    let text = fs::read_to_string(file).unwrap();
    let mut specs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in text.lines() {
        if let Some(spec) = line.trim().strip_prefix("- spec: ") {
            let end = spec.find('@').unwrap();
            let package = spec[..end].to_owned();
            specs.entry(package).or_default().push(spec.to_owned());
        }
    }
    specs
}

#[test]
fn versions_and_variants_of_tools_are_those_that_spack_itself_finds() {
    let found = this_machine();
    let Some(spack) = Spack::with(&found) else {
        belongs_to!("make test-spack");
    };
    // Of MPIs and their libraries we say more than Spack does; patchelf it does not look for.
    let is_comparable = |external: &&External| {
        external.package == "gcc"
            || external.section == Section::Tool && external.package != "patchelf"
    };
    let comparable = found.externals.iter().filter(is_comparable);
    let mut packages: Vec<&str> = comparable.map(|external| external.package).collect();
    packages.dedup();
    // Alone, so that it does not find what we have written.
    fs::remove_file(spack.path("system/packages.yaml")).unwrap();
    fs::remove_file(spack.path("user/packages.yaml")).unwrap();
    let arguments = [&["external", "find", "--not-buildable"], packages.as_slice()].concat();
    let finished = spack.run(&arguments);
    let theirs = specs_in(&spack.path("user/packages.yaml"));
    let sorted = |mut specs: Vec<String>| {
        specs.sort();
        specs
    };
    let ours: Vec<Vec<String>> = packages
        .iter()
        .map(|package| sorted(found.of(package).map(External::spec).collect()))
        .collect();
    let nothing = Vec::new();
    let theirs: Vec<Vec<String>> = packages
        .iter()
        .map(|package| sorted(theirs.get(*package).unwrap_or(&nothing).clone()))
        .collect();
    assert_eq!(ours, theirs, "{}", finished.stderr);
}

#[test]
fn spack_concretizes_with_what_is_written_and_takes_what_is_there() {
    let found = this_machine();
    let Some(spack) = Spack::with(&found) else {
        belongs_to!("make test-spack");
    };
    let finished = spack.run(&["spec", "zlib", "bzip2", "cmake"]);
    let externals: Vec<&str> = finished
        .stdout
        .lines()
        .filter(|line| line.starts_with("[e]"))
        .filter_map(|line| line[3..].trim().trim_start_matches('^').split(['~', '+', ' ']).next())
        .collect();
    let target = found.processor.target.clone().unwrap();
    let expected: Vec<String> = ["cmake", "gcc", "gmake"]
        .iter()
        .flat_map(|package| found.of(package).take(1))
        .map(|external| format!("{}@{}", external.package, external.version))
        .collect();
    assert!(
        finished.code == 0
            && expected.iter().all(|spec| externals.contains(&spec.as_str()))
            && finished.stdout.contains(&format!("target={target}")),
        "{expected:?}\n{}\n{}",
        finished.stdout,
        finished.stderr
    );
}

#[test]
fn spack_takes_the_mpi_and_the_python_that_are_there_whatever_is_on_top() {
    let found = this_machine();
    let Some(spack) = Spack::with(&found) else {
        belongs_to!("make test-spack");
    };
    let wanted = ["openmpi", "python"];
    if let Some(missing) = wanted.into_iter().find(|package| found.of(package).next().is_none()) {
        not_run!("needs {missing}, with its headers");
    }
    let specs = ["osu-micro-benchmarks", "^openmpi", "py-setuptools"];
    let finished = spack.run(&[&["spec"], specs.as_slice()].concat());
    let is_external = |package: &str| {
        let version = &found.of(package).next().unwrap().version;
        let begin = format!("{package}@{version}");
        let mut lines = finished.stdout.lines().filter_map(|line| line.strip_prefix("[e]"));
        lines.any(|line| line.trim().trim_start_matches('^').starts_with(&begin))
    };
    let taken = wanted.map(is_external);
    assert_eq!(taken, [true; 2], "{}\n{}", finished.stdout, finished.stderr);
}

/// Returns the Spack that is tried with, if there is one.
fn with_spack() -> Option<TryWith> {
    let variable = |name| Some(PathBuf::from(std::env::var_os(name)?));
    let spack = variable("CABANE_TEST_SPACK")?;
    let python =
        variable("CABANE_TEST_SPACK_PYTHON").unwrap_or_else(|| spack.join("../venv/bin/python"));
    Some(TryWith { spack, packages: variable("CABANE_TEST_SPACK_PACKAGES")?, python: Some(python) })
}

/// Some of what is on this machine, so that Spack is not asked about everything several times.
fn some_of_this_machine() -> Found {
    let mut found = this_machine();
    let wanted = ["gcc", "gmake", "sed"];
    found.externals.retain(|external| wanted.contains(&external.package));
    found.mpi.clear();
    found.fabric.clear();
    found
}

#[test]
fn spack_takes_everything_that_is_found_on_this_machine() {
    let Some(with) = with_spack() else {
        belongs_to!("make test-spack");
    };
    let mut found = this_machine();
    let before = found.clone();
    let tried = try_out(&mut found, &with).unwrap();
    assert_eq!((tried.taken, tried.refused), (before.externals.len(), 0), "{:#?}", found.notes);
    assert_eq!(found, before);
}

#[test]
fn what_spack_does_not_take_is_left_out_with_its_reason() {
    let Some(with) = with_spack() else {
        belongs_to!("make test-spack");
    };
    let mut found = some_of_this_machine();
    let before = found.clone();
    // A package that does not exist, and one that does not fit a rule.
    let add = |found: &mut Found, package: &'static str, version: &str, variants: &str| {
        let one = found.of("sed").next().unwrap().clone();
        let (variants, version) = (variants.to_owned(), Version::new(version).unwrap());
        found.externals.push(External { package, version, variants, buildable: true, ..one });
    };
    add(&mut found, "nosuch-package", "1.0", "");
    add(&mut found, "zstd", "1.5.7", "~programs");
    let because = String::new();
    let rule = Rule { spec: "+programs".to_owned(), because, when: None };
    let rules = PackageRules { package: "zstd", require: Vec::new(), prefer: vec![rule] };
    // Rules are those of MPIs.
    found.mpi.push(rules);
    found.externals.last_mut().unwrap().section = Section::Mpi;
    let tried = try_out(&mut found, &with).unwrap();
    let notes: Vec<String> =
        found.notes[before.notes.len()..].iter().map(|note| note.text.clone()).collect();
    assert_eq!((tried.refused, found.externals), (2, before.externals), "{notes:#?}");
    assert!(notes.iter().any(|note| note.contains("nosuch-package@1.0 is left out")), "{notes:#?}");
    assert!(
        notes.iter().any(|note| note.contains("zstd@") && note.contains("prefers to build zstd")),
        "{notes:#?}"
    );
}

#[test]
fn a_spack_that_is_not_there_is_reported() {
    let place = tempfile::tempdir().unwrap();
    let with = |spack: &Path| TryWith {
        spack: spack.to_owned(),
        packages: place.path().to_owned(),
        python: None,
    };
    let refused = |with: &TryWith| {
        let error = try_out(&mut this_machine(), with).unwrap_err();
        (error.to_string().replace(place.path().to_str().unwrap(), "."), error.hint().is_some())
    };
    let expected = ("`.` is not a clone of Spack".to_owned(), true);
    assert_eq!(refused(&with(place.path())), expected);
    fs::create_dir(place.path().join("bin")).unwrap();
    fs::write(place.path().join("bin/spack"), "").unwrap();
    let expected = ("`.` is not a clone of the packages of Spack".to_owned(), true);
    assert_eq!(refused(&with(place.path())), expected);
}
