// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The metadata that travels with an image.
//!
//! ```text
//! meta/
//! ├── env.json              what starts the image: name, mount point, views, needs
//! ├── needs.json            what it needs of the host and offers, and who needs it
//! ├── configure.json        how it was made: engine, commits, interpreter
//! ├── packages.json         what is inside, if the engine knows: name, version, size, …
//! ├── sbom.spdx.json        the same as a bill of material, SPDX 2.3
//! ├── lock/requirements.txt every package with its hashes, if the engine has such a list
//! └── recipe/               the recipe
//! ```
//!
//! Nothing here tells when, where or by whom the image was built: the same recipe
//! must give the same image.

mod bill;
mod env_json;
mod needs;
mod recipe_files;
mod views;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cabane_view::{HostNeeds, InterpreterNeed, MpiNeed, OutsideNeed, PackageList};
use serde::Serialize;

use crate::engine::{Facts, StepDraft};
use crate::fingerprint::{self, Hash, Inputs};
use crate::inside::Part;
use crate::job::Job;
use crate::{BuildError, Result, StepName, contents, disk};

pub(crate) use recipe_files::{RecipeFiles, copy_all, copy_file};
pub(crate) use views::{Placeholders, append, directories_patch, prepend};

/// The file that starts an image.
pub(crate) const ENV_JSON: &str = "env.json";
const BILL: &str = "sbom.spdx.json";
pub(crate) const CONFIGURE_JSON: &str = "configure.json";
const RECIPE: &str = "recipe";
/// It is read at every start.
const MOST_OUTSIDE: usize = 100;
/// The version of what `env.json` says about needs.
const NEEDS_AT_START: u32 = 1;

/// How the image was made.
#[derive(Serialize)]
struct Configure<'a> {
    version: u32,
    name: &'a str,
    engine: &'a str,
    mount: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    interpreter: Option<&'a InterpreterNeed>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    versions: &'a BTreeMap<String, String>,
}

/// Describes the step that writes the metadata.
pub(crate) fn draft(job: &Job) -> Result<StepDraft> {
    let files = RecipeFiles::find(job)?;
    let mut inputs = Inputs::from([
        ("recipe".to_owned(), digest_of(&files)?),
        ("mount point".to_owned(), job.recipe.store.to_string()),
        ("epoch".to_owned(), job.request.epoch.to_string()),
        // What was built before there were needs gets them with the next build.
        ("needs".to_owned(), format!("{} {NEEDS_AT_START}", HostNeeds::VERSION)),
    ]);
    inputs.extend(job.engine.inputs_of_facts());
    let what = "write views, metadata, and the recipe";
    Ok(StepDraft::new(StepName::Metadata, what).from(inputs))
}

pub(crate) fn digest_of(files: &RecipeFiles) -> Result<String> {
    let mut hash = Hash::new();
    for (relative, source) in files.iter() {
        let content = fingerprint::of_file(source).map_err(BuildError::file("read", source))?;
        hash.text(&relative.to_string_lossy());
        hash.text(content.as_str());
    }
    Ok(hash.finish().to_string())
}

/// Writes the metadata of an image.
pub(crate) fn write(job: &Job) -> Result<()> {
    let meta = job.layout.meta();
    disk::make_empty(&meta)?;
    let mut facts = job.engine.facts()?;
    let host_needs = look_through(job, &mut facts);
    if let Some(existing) = &facts.existing {
        copy_all(existing, &meta)?;
    }
    let text = env_json::compose(job, &facts)?;
    disk::put(&meta.join(ENV_JSON), text.as_bytes())?;
    // The files of the tree decide, whatever it says about itself.
    disk::put(&meta.join(HostNeeds::FILE), host_needs.to_json().as_bytes())?;
    complete(&meta.join(CONFIGURE_JSON), |path| disk::put(path, configure_json(job, &facts)))?;
    complete(&meta.join(RECIPE), |path| RecipeFiles::find(job)?.copy_to(path))?;
    for (name, source) in &facts.files {
        disk::put(&meta.join(name), disk::read(source)?)?;
    }
    write_parts(job, facts.parts, &meta)
}

/// Completes what the engine knows with what can be seen in the tree.
fn look_through(job: &Job, facts: &mut Facts) -> HostNeeds {
    let (made, tree) = (job.engine.tree().path, job.tree().path);
    // Where the files of a part are that are packed.
    let packed = |here: &PathBuf| match here.strip_prefix(made) {
        Ok(inside) => tree.join(inside),
        Err(_) => here.clone(),
    };
    let numbered = facts.parts.iter().enumerate();
    let (numbers, prefixes): (Vec<usize>, Vec<PathBuf>) = numbered
        .filter_map(|(number, part)| Some((number, part.here.as_ref().map(packed)?)))
        .unzip();
    let store = job.recipe.store.as_path();
    let mut found = contents::look_through(tree, store, &prefixes);
    job.engine.complete_needs(&mut found.needs);
    for (number, size) in numbers.into_iter().zip(found.sizes) {
        if let Some(part) = facts.parts.get_mut(number) {
            part.record.size = Some(size);
        }
    }
    let needs = &mut facts.needs;
    needs.architectures.clone_from(&found.needs.architectures);
    needs.glibc = found.glibc.map(|version| version.to_string());
    needs.mpi = found
        .launchers
        .map(|launchers| MpiNeed { srun: launchers.into_iter().map(str::to_owned).collect() });
    let interpreter = needs.interpreter.as_ref().map(|need| need.path.clone());
    let links = found.links.into_iter();
    let links = links.filter(|path| Some(path) != interpreter.as_ref());
    needs.outside.extend(links.map(|path| OutsideNeed { path, package: None }));
    needs.outside.truncate(MOST_OUTSIDE);
    needs.libraries = needs::at_start(&found.needs, MOST_OUTSIDE);
    needs.search_paths = found.needs.search_paths.iter().take(MOST_OUTSIDE).cloned().collect();
    needs::of_packages(found.needs, &mut facts.parts)
}

/// Writes the list of packages and the bill of material. Where a tree brings its own,
/// they stay.
fn write_parts(job: &Job, parts: Vec<Part>, meta: &Path) -> Result<()> {
    if parts.is_empty() {
        return Ok(());
    }
    let subject = bill::Subject {
        name: job.recipe.name.as_str(),
        mount_point: job.recipe.store.as_str(),
        epoch: job.request.epoch,
    };
    let bill = bill::compose(&subject, &parts);
    let list = PackageList::new(parts.into_iter().map(|part| part.record).collect());
    complete(&meta.join(PackageList::FILE), |path| disk::put(path, list.to_json().as_bytes()))?;
    complete(&meta.join(BILL), |path| disk::put(path, bill.as_bytes()))
}

/// Adds what the tree does not bring itself.
fn complete(path: &Path, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    if path.symlink_metadata().is_ok() {
        return Ok(());
    }
    make(path)
}

fn configure_json(job: &Job, facts: &Facts) -> String {
    let document = Configure {
        version: 1,
        name: job.recipe.name.as_str(),
        engine: job.engine.name(),
        mount: job.recipe.store.as_str(),
        interpreter: facts.needs.interpreter.as_ref(),
        versions: &facts.commits,
    };
    // Only maps with keys that are not text, and values that refuse, can fail.
    let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
    text.push('\n');
    text
}
