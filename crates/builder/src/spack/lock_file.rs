// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The lock file of a recipe: which commits and packages its builds take.
//!
//! ```text
//! <recipe>/locks/<system>/lock.json                  the commits, and from what packages were decided
//! <recipe>/locks/<system>/<environment>/spack.lock   the packages, as Spack wrote them
//! ```
//!
//! Packages depend on the system, so each system has its own. What decides about packages is compared
//! before a build. Views, mount points, mirrors, and the processor of the build machine decide nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use cabane_label::{enumerate, escape, shown, shown_word};
use cabane_recipe::{StackRecipe, Yaml, YamlMap};
use cabane_report::{Kind, Report};
use serde::{Deserialize, Serialize};

use super::sources::{Source, is_archive};
use super::{SpackEngine, hooks, inputs, lock};
use crate::fingerprint::{self, Inputs};
use crate::lock_packages::Versions;
use crate::{BuildError, Pins, Result, disk};

/// The lock files of a recipe.
pub(crate) const DIRECTORY: &str = "locks";
const HEAD: &str = "lock.json";
const FORMAT: u32 = 1;
/// The most that is read of a head, in bytes.
const LIMIT: u64 = 16 << 20;
/// What decides, of a recipe and of a system.
const OF_RECIPE: [&str; 3] = ["compilers.yaml", "environments.yaml", "packages.yaml"];
const OF_SYSTEM: [&str; 4] =
    ["concretizer.yaml", "network.yaml", "packages.yaml", "toolchains.yaml"];

/// The head of a lock file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Head {
    format: u32,
    /// The kind of processor.
    machine: String,
    /// The distribution of the machine.
    distribution: String,
    /// Spack and the package repositories.
    sources: BTreeMap<String, LockedSource>,
    /// What the recipe asks for, by environment.
    specs: BTreeMap<String, Vec<String>>,
    /// The digest of what else decides, by name.
    inputs: Inputs,
    /// The answers of Spack, by its environments.
    answers: BTreeMap<String, Answer>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct LockedSource {
    repo: String,
    /// The branch, tag, or commit that the recipe names.
    requested: Option<String>,
    commit: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
struct Answer {
    /// What Spack was asked for.
    specs: Vec<String>,
    /// The digest of its answer.
    sha256: String,
}

pub(super) type LockedSources = BTreeMap<String, LockedSource>;

/// A lock file that is there.
#[derive(Clone, Debug)]
pub(super) struct LockFile {
    /// Its directory.
    place: PathBuf,
    /// Its head, or why that cannot be read.
    head: Result<Head, String>,
}

impl LockFile {
    /// Returns where the lock file of a recipe is for a system.
    pub(super) fn place(recipe: &Path, system: &Path) -> PathBuf {
        let system = fs::canonicalize(system).unwrap_or_else(|_| system.to_owned());
        recipe.join(DIRECTORY).join(system.file_name().unwrap_or("system".as_ref()))
    }

    /// Finds the lock file for a system: by the name of its directory, or else by what its files say, because a
    /// build elsewhere gets a copy under another name.
    pub(super) fn find(recipe: &Path, system: &Path) -> Result<Option<Self>> {
        let place = Self::place(recipe, system);
        if let Some(found) = Self::read(place) {
            return Ok(Some(found));
        }
        let all: Vec<Self> = places(recipe).into_iter().filter_map(Self::read).collect();
        if all.is_empty() {
            return Ok(None);
        }
        let now = of_system(system)?;
        let is_same = |one: &Self| {
            let head = one.head.as_ref().ok();
            head.is_some_and(|head| {
                OF_SYSTEM.iter().all(|name| {
                    let key = key_of_system(name);
                    head.inputs.get(&key) == now.get(&key)
                })
            })
        };
        Ok(all.into_iter().find(is_same))
    }

    fn read(place: PathBuf) -> Option<Self> {
        let path = place.join(HEAD);
        if !path.is_file() {
            return None;
        }
        let text = disk::read_start(&path, LIMIT).map_err(|error| error.to_string());
        let head = text.and_then(|text| {
            serde_json::from_slice::<Head>(&text).map_err(|error| error.to_string())
        });
        let head = head.map_err(|error| format!("it cannot be read: {}", escape(&error)));
        let head = head.and_then(|head| {
            let is_name = |name: &String| !name.contains('/') && name != ".." && name != ".";
            if head.format != FORMAT {
                Err(format!("another version of cabane wrote it, in format {}", head.format))
            } else if head.answers.keys().all(is_name) {
                Ok(head)
            } else {
                Err("it names an environment with a `/`".to_owned())
            }
        });
        Some(Self { place, head })
    }

    /// Returns where the head is.
    pub(super) fn path(&self) -> PathBuf {
        self.place.join(HEAD)
    }

    /// Returns the commits that it has, if it can be read.
    pub(super) fn sources(&self) -> LockedSources {
        self.head.as_ref().map(|head| head.sources.clone()).unwrap_or_default()
    }

    /// Returns what a build depends on.
    pub(super) fn input(&self) -> Result<(String, String)> {
        let path = self.path();
        let digest = fingerprint::of_file(&path).map_err(BuildError::file("read", &path))?;
        Ok(("lock file".to_owned(), digest.to_string()))
    }

    /// Returns the versions of the packages in it, as far as it can be read.
    pub(super) fn versions(&self) -> Versions {
        let Ok(head) = &self.head else { return Versions::new() };
        let answers = head.answers.keys().filter_map(|name| lock::read(&self.answer(name)).ok());
        versions(answers.flat_map(BTreeMap::into_values))
    }

    pub(super) fn answer(&self, environment: &str) -> PathBuf {
        answer(&self.place, environment)
    }

    /// Returns the environments that it has.
    pub(super) fn environments(&self) -> Vec<String> {
        let head = self.head.as_ref().ok();
        head.map(|head| head.answers.keys().cloned().collect()).unwrap_or_default()
    }

    /// Whether it has this head.
    pub(super) fn has(&self, head: &Head) -> bool {
        self.head.as_ref() == Ok(head)
    }

    /// Returns why it does not fit the recipe and the system, if it does not.
    pub(super) fn mismatch(&self, engine: &SpackEngine) -> Result<Option<String>> {
        let head = match &self.head {
            Ok(head) => head,
            Err(why) => return Ok(Some(why.clone())),
        };
        if head.machine != std::env::consts::ARCH {
            let machine = escape(&head.machine);
            let text = format!("it is for {machine}, and this is {}", std::env::consts::ARCH);
            return Ok(Some(text));
        }
        let found = other_source(&head.sources, &engine.requested, &engine.request.pins)
            .or_else(|| other_specs(&head.specs, &specs(&engine.recipe)));
        if found.is_some() {
            return Ok(found);
        }
        let now = decisive(engine)?;
        let names: BTreeSet<&String> = head.inputs.keys().chain(now.keys()).collect();
        if let Some(name) = names.into_iter().find(|name| head.inputs.get(*name) != now.get(*name))
        {
            return Ok(Some(format!("{} changed", escape(name))));
        }
        for (name, answer) in &head.answers {
            let path = self.answer(name);
            let digest = fingerprint::of_file(&path).map(|digest| digest.to_string());
            let is_inside = is_inside(&engine.recipe_dir.path, &path);
            if !is_inside || digest.ok().as_ref() != Some(&answer.sha256) {
                return Ok(Some(format!("{} is missing, or was edited", shown(&path))));
            }
        }
        Ok(None)
    }

    /// Fails if it does not fit.
    pub(super) fn check(&self, engine: &SpackEngine) -> Result<()> {
        match self.mismatch(engine)? {
            None => Ok(()),
            Some(why) => Err(self.no_match(engine, &why)),
        }
    }

    fn no_match(&self, engine: &SpackEngine, why: &str) -> BuildError {
        let path = self.path();
        let recipe = &engine.recipe_dir.path;
        let shown_path = path.strip_prefix(recipe).unwrap_or(&path);
        let message = format!("{} no longer matches the recipe: {why}", shown(shown_path));
        let system = engine.request.system_dir.as_deref().unwrap_or(Path::new("."));
        let hint = format!(
            "`cabane lock --system {} --recipe {}` writes it again",
            shown_word(system),
            shown_word(recipe)
        );
        Report::new(Kind::Build, message).hinted(hint).into()
    }

    /// Returns what is different here, although packages can be built in the same way.
    pub(super) fn remark(&self) -> Option<String> {
        let head = self.head.as_ref().ok()?;
        let (before, now) = (&head.distribution, distribution());
        (*before != now).then(|| {
            format!("the lock file was made on {}, and this is {}", escape(before), escape(&now))
        })
    }

    /// Copies the packages of an environment to where Spack reads them.
    ///
    /// # Errors
    ///
    /// They are for other commits or specs: those that Spack is asked for are known only when its version is.
    pub(super) fn take(&self, engine: &SpackEngine, environment: &str, to: &Path) -> Result<()> {
        let head = self.head.as_ref().map_err(|why| self.no_match(engine, why))?;
        for (name, commit) in engine.commits() {
            if head.sources.get(&name).is_none_or(|locked| locked.commit != commit) {
                let why = format!("the build takes {} at {}", escape(&name), escape(&commit));
                return Err(self.no_match(engine, &why));
            }
        }
        let asked = asked_of_spack(engine, environment);
        if head.answers.get(environment).is_none_or(|answer| answer.specs != asked) {
            let why = "this version of cabane asks Spack for other specs";
            return Err(self.no_match(engine, why));
        }
        let text = disk::read(&self.answer(environment))?;
        disk::put(to, text)?;
        lock::read(to).map(|_| ())
    }
}

/// Fails if a lock file would be written outside of its recipe, through a link.
pub(super) fn check_place(recipe: &Path, place: &Path) -> Result<()> {
    let mut parts = place.ancestors().take_while(|part| *part != recipe);
    match parts.find(|part| part.exists() && !is_inside(recipe, part)) {
        None => Ok(()),
        Some(part) => Err(BuildError::refused(
            format!("{} is a link that leads out of the recipe", shown(part)),
            "remove the link: lock files are written into the recipe",
        )),
    }
}

/// Whether a path leads to something in a recipe, whose own path has no links.
fn is_inside(recipe: &Path, path: &Path) -> bool {
    fs::canonicalize(path).is_ok_and(|real| real.starts_with(recipe))
}

/// Returns the lock files of a recipe, one for each system.
fn places(recipe: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(recipe.join(DIRECTORY)).into_iter().flatten().flatten();
    let mut places: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    places.retain(|place| place.join(HEAD).is_file());
    places.sort();
    places
}

/// Says that a recipe has lock files for other systems alone.
pub(super) fn remark_without(recipe: &Path, system: &Path) -> Option<String> {
    let places = places(recipe);
    let names = places.iter().filter_map(|place| place.file_name());
    let names: Vec<String> = names.map(|name| escape(&name.to_string_lossy()).into()).collect();
    if names.is_empty() {
        return None;
    }
    Some(format!(
        "the recipe has lock files for {}, and none for this system: `cabane lock --system {} --recipe {}`",
        enumerate(&names, "and"),
        shown_word(system),
        shown_word(recipe)
    ))
}

/// Returns where the answer of Spack for an environment is.
fn answer(place: &Path, environment: &str) -> PathBuf {
    place.join(environment).join("spack.lock")
}

/// Replaces branches and tags by the commits of a lock file, where the recipe still names the same. The recipe stays
/// as it is: what the image says about it does not depend on a lock file.
pub(super) fn pinned(mut sources: Vec<Source>, locked: &LockedSources) -> Vec<Source> {
    for source in sources.iter_mut().filter(|source| !is_archive(&source.address)) {
        let found = locked.get(&source.name);
        let is_same =
            |one: &&LockedSource| one.repo == source.address && one.requested == source.reference;
        if let Some(found) = found.filter(is_same) {
            source.reference = Some(found.commit.clone());
        }
    }
    sources
}

fn other_source(locked: &LockedSources, requested: &[Source], pins: &Pins) -> Option<String> {
    let named = |reference: &Option<String>| {
        escape(reference.as_deref().unwrap_or("its default branch")).into_owned()
    };
    for source in requested {
        let name = escape(&source.name);
        let Some(one) = locked.get(&source.name) else {
            return Some(format!("it was made without the package repository `{name}`"));
        };
        if one.repo != source.address {
            return Some(format!("the recipe takes `{name}` from another repository"));
        }
        if one.requested != source.reference {
            let (before, now) = (named(&one.requested), named(&source.reference));
            return Some(format!(
                "it was made for `{name}` at {before}, and the recipe names {now}"
            ));
        }
        let pinned = pins.commit_of(&source.git());
        if pinned != source.reference && pinned.as_ref() != Some(&one.commit) {
            return Some(format!(
                "the lock file of the pipeline has `{name}` at {}",
                named(&pinned)
            ));
        }
    }
    let is_gone = |name: &&String| !requested.iter().any(|source| source.name == **name);
    let gone = locked.keys().find(is_gone)?;
    Some(format!("it was made with the package repository `{}`, which is gone", escape(gone)))
}

fn other_specs(
    locked: &BTreeMap<String, Vec<String>>,
    now: &BTreeMap<String, Vec<String>>,
) -> Option<String> {
    for (name, specs) in now {
        let Some(before) = locked.get(name) else {
            return Some(format!("it was made without the environment `{}`", escape(name)));
        };
        let name = escape(name);
        if let Some(new) = specs.iter().find(|spec| !before.contains(spec)) {
            return Some(format!("it was made without `{}` in `{name}`", escape(new)));
        }
        if let Some(gone) = before.iter().find(|spec| !specs.contains(spec)) {
            return Some(format!("it was made with `{}` in `{name}`, which is gone", escape(gone)));
        }
    }
    let gone = locked.keys().find(|name| !now.contains_key(*name))?;
    Some(format!("it was made with the environment `{}`, which is gone", escape(gone)))
}

fn specs(recipe: &StackRecipe) -> BTreeMap<String, Vec<String>> {
    recipe.environments.iter().map(|one| (one.name.clone(), one.specs.clone())).collect()
}

/// Returns the digest of what decides about packages, beside commits and specs.
fn decisive(engine: &SpackEngine) -> Result<Inputs> {
    let mut inputs = Inputs::from([(
        "a package of the recipe or of the system".to_owned(),
        engine.packages_digest.clone(),
    )]);
    let recipe = &engine.recipe_dir.path;
    for name in OF_RECIPE {
        inputs.extend(meaning(&recipe.join(name), name.to_owned())?);
    }
    if let Some(system) = &engine.request.system_dir {
        inputs.extend(of_system(system)?);
    }
    inputs.extend(engine.bases.inputs());
    inputs.extend(hooks::input(engine, hooks::PRE_INSTALL));
    Ok(inputs)
}

fn of_system(system: &Path) -> Result<Inputs> {
    let mut inputs = Inputs::new();
    for name in OF_SYSTEM {
        inputs.extend(meaning(&system.join(name), key_of_system(name))?);
    }
    Ok(inputs)
}

fn key_of_system(name: &str) -> String {
    format!("{name} of the system")
}

/// Returns the digest of what a file says, without comments; for environments, without specs and views.
fn meaning(path: &Path, name: String) -> Result<Option<(String, String)>> {
    if !path.is_file() {
        return Ok(None);
    }
    let text = disk::read(path)?;
    // Its mistakes are reported where it is used.
    let mut value = Yaml::parse(path, &text).unwrap_or_default();
    if let Yaml::Map(environments) = &value
        && name == "environments.yaml"
    {
        let without = |(name, value): (&str, &Yaml)| {
            let mut map = value.as_map().cloned().unwrap_or_default();
            map.remove("specs");
            map.remove("views");
            (name.to_owned(), map)
        };
        let mut rest = YamlMap::new();
        for (name, map) in environments.iter().map(without) {
            rest.insert(&name, map);
        }
        value = Yaml::Map(rest);
    }
    Ok(Some((name, fingerprint::of_bytes(value.to_string().as_bytes()).to_string())))
}

/// Returns the specs that Spack is asked for in one of its environments, with their groups.
fn asked_of_spack(engine: &SpackEngine, environment: &str) -> Vec<String> {
    let all = engine.stack().environments.iter();
    let text = all.filter(|one| one.name == environment).map(|one| one.spack_yaml.as_str());
    let text: String = text.collect();
    let value = Yaml::parse(Path::new("spack.yaml"), text.as_bytes()).unwrap_or_default();
    let items = value.at(&["spack", "specs"]).and_then(Yaml::as_list).unwrap_or_default();
    let mut specs = Vec::new();
    for item in items {
        let group = item.at(&["group"]).and_then(Yaml::as_text).unwrap_or_default();
        let of_group = item.at(&["specs"]).and_then(Yaml::as_list).unwrap_or_default();
        let of_group = of_group.iter().filter_map(Yaml::as_text);
        specs.extend(of_group.map(|spec| format!("{group}: {spec}")));
        specs.extend(item.as_text().map(str::to_owned));
    }
    specs
}

/// The distribution of this machine, as in `debian 12`.
fn distribution() -> String {
    let host = super::session::host();
    host.split(" on ").next().unwrap_or_default().to_owned()
}

/// A lock file that was made, but not written yet: each of its files.
pub(super) struct NewLock {
    pub(super) head: Head,
    pub(super) text: String,
    /// The answers of Spack.
    pub(super) answers: Vec<(PathBuf, Vec<u8>)>,
    pub(super) versions: Versions,
}

impl NewLock {
    /// Takes what an engine has concretized. `place` is the directory of the lock file.
    pub(super) fn of(engine: &SpackEngine, place: &Path) -> Result<Self> {
        let commits = engine.commits();
        let locked = |source: &Source| {
            let commit = commits.get(&source.name)?.clone();
            let (repo, requested) = (source.address.clone(), source.reference.clone());
            Some((source.name.clone(), LockedSource { repo, requested, commit }))
        };
        let mut head = Head {
            format: FORMAT,
            machine: std::env::consts::ARCH.to_owned(),
            distribution: distribution(),
            sources: engine.requested.iter().filter_map(locked).collect(),
            specs: specs(&engine.recipe),
            inputs: decisive(engine)?,
            answers: BTreeMap::new(),
        };
        let (mut answers, mut packages) = (Vec::new(), Vec::new());
        for environment in &engine.stack().environments {
            let name = &environment.name;
            let path = inputs::lock_file(&engine.layout, name);
            packages.extend(lock::read(&path)?.into_values());
            let text = disk::read(&path)?;
            let sha256 = fingerprint::of_bytes(&text).to_string();
            let specs = asked_of_spack(engine, name);
            head.answers.insert(name.clone(), Answer { specs, sha256 });
            answers.push((answer(place, name), text));
        }
        let text = serde_json::to_string_pretty(&head)
            .map_err(BuildError::file("write", &place.join(HEAD)))?;
        Ok(Self { head, text: text + "\n", answers, versions: versions(packages.into_iter()) })
    }
}

/// Returns where the head of a lock file in a directory is.
pub(super) fn head_in(place: &Path) -> PathBuf {
    place.join(HEAD)
}

/// Several versions of a package become one text.
fn versions(packages: impl Iterator<Item = cabane_spack::Spec>) -> Versions {
    let mut all = BTreeMap::<String, BTreeSet<String>>::new();
    for package in packages {
        all.entry(package.name).or_default().insert(package.version);
    }
    let join = |versions: BTreeSet<String>| versions.into_iter().collect::<Vec<_>>().join(", ");
    all.into_iter().map(|(name, versions)| (name, join(versions))).collect()
}
