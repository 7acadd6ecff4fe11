// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which installations are meant by what was typed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use cabane_label::{escape, shown};
use cabane_report::{Kind, Report, Result};
use cabane_repository::Record;
use cabane_site::settings::find_module_command;
use cabane_site::{Context, env_vars};

use super::{
    ModuleTool, in_prefix, in_spack_store, inside, modules, usual_places, without_doubles,
};
use crate::Installation;
use crate::run::{Runner, first_meaningful};

/// Where to look for installations. Without anything: the usual places, the modules, and the active
/// Python environment.
#[derive(Clone, Debug, Default)]
pub struct FindRequest {
    /// Prefixes, directories of prefixes, or Spack stores.
    pub prefixes: Vec<PathBuf>,
    /// Images, as they are typed.
    pub images: Vec<String>,
    /// Whether all images of the repositories for this system are meant.
    pub all_images: bool,
    /// Whether the usual places are meant although something is named.
    pub all: bool,
}

/// Variables that `cabane run` reads, and what it starts does not need.
const OF_CABANE: [&str; 6] = ["CABANE_", "XDG_", "UENV_", "SCRATCH", "CLUSTER_NAME", "USER"];

/// Finds installations, each once.
///
/// # Errors
///
/// There is none in a prefix or an image that was named; a repository cannot be read.
pub fn find(
    context: &Context,
    request: &FindRequest,
    runner: &Runner,
) -> Result<Vec<Installation>> {
    let mut all = Vec::new();
    for prefix in &request.prefixes {
        all.extend(below(prefix)?);
    }
    for image in &request.images {
        all.push(in_image(context, runner, image)?);
    }
    if request.all_images {
        all.extend(in_all_images(context, runner)?);
    }
    if request.all
        || (request.prefixes.is_empty() && request.images.is_empty() && !request.all_images)
    {
        all.extend(usual_places());
        let python = context.calling.get(OsStr::new(env_vars::VIRTUAL_ENV));
        all.extend(python.iter().flat_map(|prefix| in_prefix(Path::new(prefix))));
        if let Some(tool) = module_tool(context) {
            all.extend(modules(runner, &tool));
        }
    }
    Ok(without_doubles(all))
}

/// A prefix, a store of Spack, or a directory of prefixes.
fn below(prefix: &Path) -> Result<Vec<Installation>> {
    // Compilers and launchers are started elsewhere.
    let prefix = &std::path::absolute(prefix).unwrap_or_else(|_| prefix.to_owned());
    if prefix.join(".spack-db").is_dir() {
        return in_spack_store(prefix);
    }
    let mut found = in_prefix(prefix);
    if found.is_empty() {
        let inner = fs::read_dir(prefix).into_iter().flatten().flatten();
        let mut inner: Vec<_> = inner.map(|entry| entry.path()).collect();
        inner.sort();
        found.extend(inner.iter().flat_map(|inner| in_prefix(inner)));
    }
    if found.is_empty() {
        let error = Report::new(Kind::NotFound, format!("there is no MPI in {}", shown(prefix)));
        return Err(error.hinted("a prefix has `bin/mpicc` or `bin/mpiexec` in it".to_owned()));
    }
    Ok(found)
}

fn in_image(context: &Context, runner: &Runner, image: &str) -> Result<Installation> {
    match look_inside(context, runner, image)? {
        Ok(Some(one)) => Ok(one),
        Ok(None) => {
            let error = format!("the image {} has no `mpicc` in PATH", escape(image));
            Err(Report::new(Kind::NotFound, error))
        }
        Err(reason) => Err(Report::new(Kind::NotStarted, reason)),
    }
}

/// Those of all images that have one, with a warning for each image that cannot be entered.
fn in_all_images(context: &Context, runner: &Runner) -> Result<Vec<Installation>> {
    let system = context.system();
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for repository in context.repositories()? {
        let records = repository.repository.records()?;
        let is_for_here =
            |record: &&Record| system.as_ref().is_none_or(|here| record.label.system == *here);
        for record in records.iter().filter(is_for_here) {
            if !seen.insert(record.digest.clone()) {
                continue;
            }
            match look_inside(context, runner, &record.label.to_string())? {
                Ok(found) => all.extend(found),
                Err(reason) => context.warning(reason),
            }
        }
    }
    Ok(all)
}

/// Looks into an image; the inner error says why it cannot be entered.
fn look_inside(
    context: &Context,
    runner: &Runner,
    image: &str,
) -> Result<Result<Option<Installation>, String>> {
    let mut enter = context.own_program()?;
    enter.extend(["run", image, "--"].map(OsString::from));
    let variables = variables_of_run(context, &|_| false);
    Ok(inside(runner, image, &enter, variables).map_err(|ended| {
        let output = first_meaningful(&ended.messages);
        let output = output.as_deref().unwrap_or("it printed nothing");
        format!("cannot get into the image {}: {}", escape(image), escape(output))
    }))
}

/// Returns the variables of the caller that `cabane run` reads, and others that are wanted.
pub fn variables_of_run(
    context: &Context,
    is_wanted: &dyn Fn(&str) -> bool,
) -> BTreeMap<String, String> {
    let is_read = |name: &str| {
        let begins = OF_CABANE.iter().any(|own| name.starts_with(own));
        begins || [env_vars::HOME, env_vars::PATH].contains(&name) || is_wanted(name)
    };
    (context.calling.iter())
        .filter_map(|(name, value)| Some((name.to_str()?.to_owned(), value.to_str()?.to_owned())))
        .filter(|(name, _)| is_read(name))
        .collect()
}

fn module_tool(context: &Context) -> Option<ModuleTool> {
    let variable = |name: &str| context.calling.get(OsStr::new(name));
    let paths = variable(env_vars::MODULEPATH).filter(|paths| !paths.is_empty())?;
    Some(ModuleTool {
        command: find_module_command(&context.calling)?,
        paths: std::env::split_paths(paths).collect(),
    })
}
