// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which installations `cabane mpi audit` tries.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use cabane_check::Installation;
use cabane_check::find::{
    ModuleTool, in_prefix, in_spack_store, inside, modules, usual_places, without_doubles,
};
use cabane_check::run::{Ended, Workshop, first_meaningful};
use cabane_label::escape;
use cabane_repository::Record;

use crate::commands::mpi::audit::AuditArgs;
use crate::report::{CommandResult, Kind, Report};
use crate::setup::Setup;
use cabane_site::env_vars;

/// Where distributions have the interpreter of modules.
const INTERPRETERS: [&str; 6] = [
    "/usr/share/lmod/lmod/libexec/lmod",
    "/opt/apps/lmod/lmod/libexec/lmod",
    "/usr/share/Modules/libexec/modulecmd.tcl",
    "/usr/lib/x86_64-linux-gnu/modulecmd.tcl",
    "/usr/lib/aarch64-linux-gnu/modulecmd.tcl",
    "/usr/lib/environment-modules/modulecmd.tcl",
];

/// Variables that `cabane run` in an image heeds, and that a library does not.
const OF_CABANE: [&str; 6] = [
    "CABANE_",
    "XDG_",
    "UENV_",
    "SCRATCH",
    "CLUSTER_NAME",
    "USER",
];

#[derive(Debug, thiserror::Error)]
enum FoundError {
    #[error("there is no MPI in {}", escape(&prefix.display().to_string()))]
    NoMpi { prefix: PathBuf },
    #[error("the image {} has no `mpicc` in PATH", escape(image))]
    NoMpiInside { image: String },
    #[error("cannot get into the image {}: {}", escape(image), escape(said))]
    Closed { image: String, said: String },
}

/// Finds what is to be tried.
pub(crate) fn find(
    setup: &Setup,
    args: &AuditArgs,
    workshop: &Workshop,
) -> CommandResult<Vec<Installation>> {
    let mut all = Vec::new();
    for prefix in &args.prefixes {
        all.extend(below(prefix)?);
    }
    for image in &args.images {
        all.push(in_image(setup, workshop, image)?);
    }
    if args.all_images {
        all.extend(in_all_images(setup, workshop)?);
    }
    if args.all || (args.prefixes.is_empty() && args.images.is_empty() && !args.all_images) {
        all.extend(usual_places());
        let python = setup.calling.get(OsStr::new(env_vars::VIRTUAL_ENV));
        all.extend(
            python
                .iter()
                .flat_map(|prefix| in_prefix(Path::new(prefix))),
        );
        if let Some(tool) = module_tool(setup) {
            all.extend(modules(workshop, &tool));
        }
    }
    Ok(without_doubles(all))
}

/// A prefix, a store of Spack, or a directory of prefixes.
fn below(prefix: &Path) -> CommandResult<Vec<Installation>> {
    // Compilers and launchers are started elsewhere.
    let prefix = &std::path::absolute(prefix).unwrap_or_else(|_| prefix.to_owned());
    if prefix.join(".spack-db").is_dir() {
        let found = in_spack_store(prefix);
        return found.map_err(|error| Report::new(Kind::BadInput, error));
    }
    let mut found = in_prefix(prefix);
    if found.is_empty() {
        let inner = fs::read_dir(prefix).into_iter().flatten().flatten();
        let mut inner: Vec<_> = inner.map(|entry| entry.path()).collect();
        inner.sort();
        found.extend(inner.iter().flat_map(|inner| in_prefix(inner)));
    }
    if found.is_empty() {
        let prefix = prefix.clone();
        let error = Report::new(Kind::NotFound, FoundError::NoMpi { prefix });
        return Err(error.hinted("a prefix has `bin/mpicc` or `bin/mpiexec` in it".to_owned()));
    }
    Ok(found)
}

fn in_image(setup: &Setup, workshop: &Workshop, image: &str) -> CommandResult<Installation> {
    let image = image.to_owned();
    match look_inside(setup, workshop, &image)? {
        Ok(Some(one)) => Ok(one),
        Ok(None) => {
            let error = FoundError::NoMpiInside { image };
            Err(Report::new(Kind::NotFound, error))
        }
        Err(ended) => {
            let said = said(&ended);
            let error = FoundError::Closed { image, said };
            Err(Report::new(Kind::NotStarted, error))
        }
    }
}

/// Those of all images that have one; what cannot be entered is told.
fn in_all_images(setup: &Setup, workshop: &Workshop) -> CommandResult<Vec<Installation>> {
    let system = setup.system();
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for repository in setup.repositories()? {
        let records = repository.repository.records()?;
        let is_for_here = |record: &&Record| {
            system
                .as_ref()
                .is_none_or(|here| record.label.system == *here)
        };
        for record in records.iter().filter(is_for_here) {
            if !seen.insert(record.digest.clone()) {
                continue;
            }
            let image = record.label.to_string();
            match look_inside(setup, workshop, &image)? {
                Ok(found) => all.extend(found),
                Err(ended) => {
                    let said = said(&ended);
                    setup
                        .printer
                        .warning(&FoundError::Closed { image, said }.to_string());
                }
            }
        }
    }
    Ok(all)
}

fn look_inside(
    setup: &Setup,
    workshop: &Workshop,
    image: &str,
) -> CommandResult<Result<Option<Installation>, Box<Ended>>> {
    let mut enter = setup.own_program()?;
    enter.extend(["run", image, "--"].map(OsString::from));
    let is_heeded = |name: &str| {
        let begins = OF_CABANE.iter().any(|own| name.starts_with(own));
        begins || [env_vars::HOME, env_vars::PATH].contains(&name)
    };
    let variables = (setup.calling.iter())
        .filter_map(|(name, value)| Some((name.to_str()?.to_owned(), value.to_str()?.to_owned())))
        .filter(|(name, _)| is_heeded(name))
        .collect();
    Ok(inside(workshop, image, &enter, variables))
}

fn said(ended: &Ended) -> String {
    first_meaningful(&ended.messages).unwrap_or_else(|| "it said nothing".to_owned())
}

fn module_tool(setup: &Setup) -> Option<ModuleTool> {
    let variable = |name: &str| setup.calling.get(OsStr::new(name));
    let paths = variable(env_vars::MODULEPATH).filter(|paths| !paths.is_empty())?;
    let named = [env_vars::LMOD_CMD, env_vars::MODULES_CMD].map(variable);
    let named = named.into_iter().flatten().map(PathBuf::from);
    let mut all = named.chain(INTERPRETERS.iter().map(PathBuf::from));
    Some(ModuleTool {
        command: all.find(|path| path.exists())?,
        paths: std::env::split_paths(paths).collect(),
    })
}
