// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is inside of a stack, and which processor it was built for.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cabane_label::shown;
use cabane_spack::{DATABASE, DatabaseError, Dependency, Install, Installs, Spec};
use cabane_view::{OutsideNeed, PackageRecord, ProcessorNeed};
use serde::Deserialize;

use super::notes::Notes;
use super::{SpackEngine, ask, inputs, lock, normalize};
use crate::inside::{Need, NeedKind, Part};
use crate::{BuildError, Result, disk};

/// Where Spack keeps what it knows about processors, in one version or another.
const PROCESSORS: [&str; 3] = [
    "lib/spack/spack/vendor/archspec/json/cpu/microarchitectures.json",
    "lib/spack/external/_vendoring/archspec/json/cpu/microarchitectures.json",
    "lib/spack/external/archspec/json/cpu/microarchitectures.json",
];
/// The most that is read of it, in bytes.
const MOST: u64 = 16 << 20;

/// Reads what is in a store.
pub(super) fn installs(store: &Path) -> Result<Installs> {
    let path = store.join(DATABASE);
    let text = disk::read(&path)?;
    cabane_spack::installs(&text).map_err(|error| match error {
        DatabaseError::Malformed(error) => BuildError::file("read", &path)(error),
        version @ DatabaseError::Version(_) => {
            let message = format!("cannot read {}: {version}", shown(&path));
            ask::too_new(message)
        }
    })
}

/// Describes the packages of a stack.
pub(super) fn parts(engine: &SpackEngine, installs: &Installs) -> Vec<Part> {
    // What only builds need may be gone from the database.
    let mut names = names_in_locks(engine);
    for (hash, install) in installs {
        names.extend(install.spec.as_ref().map(|spec| (hash.clone(), spec.id())));
    }
    let mut notes = Notes::default();
    let mut parts = Vec::with_capacity(installs.len());
    for (hash, install) in installs {
        let Some(spec) = &install.spec else { continue };
        let record = record(hash, install, spec, &names);
        let here = here(engine, &record);
        if let Some(here) = &here {
            notes.read(&here.join(normalize::NOTES).join(normalize::BILL));
        }
        parts.push(Part {
            key: hash.clone(),
            here,
            needs: spec.dependencies.iter().map(need).collect(),
            record,
            ..Part::default()
        });
    }
    for part in &mut parts {
        let Some(note) = notes.find(&part.record.name, &part.record.version) else {
            continue;
        };
        part.licence = note.licence();
        // What the system brings came from its distribution.
        part.source = note.source().filter(|_| !part.record.external);
    }
    parts
}

fn need(dependency: &Dependency) -> Need {
    let has = |kind: &str| dependency.parameters.deptypes.iter().any(|one| one == kind);
    Need {
        key: dependency.hash.clone(),
        kind: if has("link") || has("run") {
            NeedKind::Run
        } else if has("test") && !has("build") {
            NeedKind::Test
        } else {
            NeedKind::Build
        },
    }
}

type Names = BTreeMap<String, String>;

fn record(hash: &str, install: &Install, spec: &Spec, names: &Names) -> PackageRecord {
    let is_compiler = |virtuals: &[String]| {
        let languages = ["c", "cxx", "fortran"];
        virtuals.iter().any(|one| languages.contains(&one.as_str()))
    };
    let all = spec.dependencies.iter();
    let compilers = all.filter(|one| is_compiler(&one.parameters.virtuals));
    let compilers: BTreeSet<String> =
        compilers.map(|one| names.get(&one.hash).unwrap_or(&one.name).clone()).collect();
    PackageRecord {
        name: spec.name.clone(),
        version: spec.version.clone(),
        hash: Some(hash.to_owned()),
        manager: "spack".to_owned(),
        variants: spec.variants(),
        compilers: compilers.into_iter().collect(),
        os: spec.arch.platform_os.clone(),
        target: Some(spec.target().to_owned()),
        prefix: install.path.clone(),
        size: None,
        explicit: install.explicit,
        external: spec.external.is_some(),
        dependencies: Vec::new(),
    }
}

fn names_in_locks(engine: &SpackEngine) -> Names {
    let mut names = Names::new();
    for environment in &engine.stack().environments {
        let path = inputs::lock_file(&engine.layout, &environment.name);
        if let Ok(lock) = lock::read(&path) {
            names.extend(lock.into_iter().map(|(hash, one)| (hash, one.id())));
        }
    }
    names
}

/// Returns where a package is now that belongs to the store.
fn here(engine: &SpackEngine, package: &PackageRecord) -> Option<PathBuf> {
    let relative = Path::new(package.prefix.as_ref()?).strip_prefix(&engine.store);
    let relative = relative.ok().filter(|_| !package.external)?;
    Some(engine.store_here.join(relative))
}

/// Says which processor a stack needs.
pub(super) fn processor(engine: &SpackEngine, parts: &[Part]) -> Result<Option<ProcessorNeed>> {
    let built = parts.iter().map(|part| &part.record);
    let built = built.filter(|one| !one.external);
    let targets: BTreeSet<String> = built.filter_map(|one| one.target.clone()).collect();
    if targets.is_empty() {
        return Ok(None);
    }
    let known = known_processors(engine)?;
    let mut features = BTreeSet::new();
    for target in &targets {
        let known = known.get(target).into_iter();
        features.extend(known.flat_map(|one| one.features.iter().cloned()));
    }
    Ok(Some(ProcessorNeed {
        targets: targets.into_iter().collect(),
        features: features.into_iter().collect(),
    }))
}

#[derive(Deserialize)]
struct KnownProcessors {
    microarchitectures: BTreeMap<String, KnownProcessor>,
}

#[derive(Deserialize)]
struct KnownProcessor {
    #[serde(default)]
    features: Vec<String>,
}

fn known_processors(engine: &SpackEngine) -> Result<BTreeMap<String, KnownProcessor>> {
    let commits = engine.commits();
    let Some(commit) = commits.get("spack") else {
        return Ok(BTreeMap::new());
    };
    let tree = engine.sources.tree(commit);
    let places = PROCESSORS.iter().map(|place| tree.join(place));
    let Some(path) = places.into_iter().find(|path| path.is_file()) else {
        return Ok(BTreeMap::new());
    };
    let text = disk::read_start(&path, MOST).map_err(BuildError::file("read", &path))?;
    let known: KnownProcessors =
        serde_json::from_slice(&text).map_err(BuildError::file("read", &path))?;
    Ok(known.microarchitectures)
}

/// Names the packages of the system that those of the store use when they run. Every
/// program uses the C library, and that is reported elsewhere.
pub(super) fn outside(installs: &Installs) -> Vec<OutsideNeed> {
    let built = installs.values().filter_map(|one| one.spec.as_ref());
    let built = built.filter(|spec| spec.external.is_none());
    let needed = built.flat_map(|spec| &spec.dependencies).filter(|one| {
        let mut types = one.parameters.deptypes.iter();
        types.any(|kind| kind == "link" || kind == "run")
    });
    let hashes: BTreeSet<&str> = needed.map(|one| one.hash.as_str()).collect();
    let needed = hashes.into_iter().filter_map(|hash| installs.get(hash));
    let mut outside: Vec<OutsideNeed> = needed
        .filter_map(|one| {
            let spec = one.spec.as_ref().filter(|spec| spec.external.is_some())?;
            (spec.name != "glibc").then_some(())?;
            Some(OutsideNeed { path: one.path.as_ref()?.into(), package: Some(spec.id()) })
        })
        .collect();
    outside.sort_by(|one, other| one.package.cmp(&other.package));
    outside
}
