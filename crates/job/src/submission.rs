// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Where a job is submitted: its images and variables.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use cabane_mount::{JOB_IMAGES, JOB_MPI, JOB_PLAN, JOB_STAGE, JobImages, Stage};
use cabane_mpi_swap::{JobMpiRequest, job_mpi};
use cabane_report::{Kind, Report, Result};
use cabane_run::loaded::Loaded;
use cabane_run::unload;
use cabane_site::{Context, env_vars};

use crate::containers;
use crate::inherited::{Inherited, loaded_in};
use crate::request::{Passthrough, Submission};
use crate::variants::{Requested, Variants};

/// Resolves the images of a job, and returns the variables that it starts with. Among them is the
/// list of images that the nodes mount.
///
/// # Errors
///
/// Something is malformed, missing, or ambiguous, or cannot be had in a job.
pub fn submit(context: &Context, request: &Submission) -> Result<BTreeMap<OsString, OsString>> {
    let (request, name) = &containers::settle(context, request)?;
    let is_requested = request.is_requested();
    let passthrough = request.passthrough.unwrap_or(match request.from.as_str() {
        // Who names images means these.
        _ if is_requested => Passthrough::Ignore,
        // A step belongs to what surrounds it; a job is to mean the same wherever it is
        // submitted.
        "srun" => Passthrough::Use,
        _ => Passthrough::Disable,
    });
    if !is_requested && (request.images.view.is_some() || request.images.no_default_view) {
        return Err(Report::new(Kind::Usage, "views of which image?")
            .hinted("`--uenv=LABEL` names it".to_owned()));
    }
    if !is_requested && (!request.binds.is_empty() || request.no_home) {
        return Err(Report::new(Kind::Usage, "what is seen in which image?")
            .hinted("`--uenv=LABEL` names it".to_owned()));
    }
    let mut calling = context.calling.clone();
    let loaded = loaded_in(&calling);
    if passthrough != Passthrough::Use {
        if !is_requested && passthrough == Passthrough::Disable && !loaded.images.is_empty() {
            return Err(not_handed_on(&request.from, &loaded));
        }
        unload(&mut calling, &loaded);
    }
    let mpi = job_mpi(
        context,
        &JobMpiRequest {
            mpi: request.mpi.as_deref(),
            program: request.mpi_program.as_deref(),
            is_step: request.from == "srun",
        },
    )?;
    let inherited = Inherited::of(&calling);
    let requested = is_requested.then(|| Requested::find(context, request)).transpose()?;
    if let Some(requested) = &requested {
        requested.keep(context, request, name.as_ref())?;
    }
    let variants = Variants {
        context,
        calling,
        inherited,
        requested,
        // Else they are among those of the images.
        devices: if is_requested { Vec::new() } else { request.devices.clone() },
    };
    let (mut variables, mut images) = variants.resolve()?;
    images.views = request.images.view.clone().unwrap_or_default();
    if images.workdir.is_none() && starts_where_job_does(request, &context.calling) {
        images.workdir.clone_from(&variants.inherited.list.workdir);
    }
    if !is_requested {
        images.ranks_for_pytorch = variants.inherited.list.ranks_for_pytorch;
        images.by_tasks = variants.inherited.list.by_tasks;
    }
    let plan = variants.requested.as_ref().and_then(|requested| requested.plan(&images));
    if let Some(plan) = plan {
        let plan = serde_json::to_string(&plan);
        let plan = plan.map_err(|error| Report::new(Kind::Failure, error))?;
        variables.insert(JOB_PLAN.into(), plan.into());
    } else if is_requested || images.images.is_empty() {
        variables.remove(OsStr::new(JOB_PLAN));
    }
    images.unfit = request.unfit.unwrap_or(variants.inherited.list.unfit);
    let stage = stage(request, &context.calling).filter(|_| !images.images.is_empty());
    if images.images.is_empty() {
        variables.remove(OsStr::new(JOB_IMAGES));
    } else {
        variables.insert(JOB_IMAGES.into(), one_variable(&images)?.into());
    }
    match stage {
        Some(stage) => variables.insert(JOB_STAGE.into(), stage.name().into()),
        None => variables.remove(OsStr::new(JOB_STAGE)),
    };
    match mpi {
        Some(mpi) => variables.insert(JOB_MPI.into(), mpi.to_string().into()),
        None => variables.remove(OsStr::new(JOB_MPI)),
    };
    Ok(variables)
}

/// Writes the list, if it is not too long for the kernel to hand on.
fn one_variable(images: &JobImages) -> Result<String> {
    /// `MAX_ARG_STRLEN`: name, value, what is between and after them.
    const LONGEST: usize = 128 << 10;
    let text = images.to_string();
    if JOB_IMAGES.len() + text.len() + 2 <= LONGEST {
        return Ok(text);
    }
    let error = Report::new(Kind::BadInput, "the list of images is too long for a variable");
    Err(if images.ways() > 1 {
        error.hinted("a label with its `%uarch` means one build only".to_owned())
    } else {
        error
    })
}

/// A step that is started from within no task of its job starts in the directory that the job names.
fn starts_where_job_does(request: &Submission, calling: &BTreeMap<OsString, OsString>) -> bool {
    let is_task = calling.contains_key(OsStr::new(env_vars::SLURM_PROCID));
    request.from == "srun" && !request.is_requested() && !is_task
}

/// A step is staged as its job is, unless stated otherwise.
fn stage(request: &Submission, calling: &BTreeMap<OsString, OsString>) -> Option<Stage> {
    match request.stage {
        Some(stage) => stage,
        None if request.from == "srun" => {
            let value = calling.get(OsStr::new(JOB_STAGE))?;
            value.to_str().and_then(Stage::from_name)
        }
        None => None,
    }
}

fn not_handed_on(program: &str, loaded: &Loaded) -> Report {
    let names: Vec<_> = loaded
        .images
        .iter()
        .map(|image| image.label.clone().unwrap_or_else(|| image.name.clone()))
        .collect();
    let names = names.join(", ");
    Report::new(
        Kind::Usage,
        format!("{program} does not hand on the images that are loaded here: {names}"),
    )
    .hinted(format!("`{program} --uenv={names}` names what the job needs"))
    .hinted(
        "`--uenv-passthrough=use` hands on what is loaded, and `--uenv-passthrough=ignore` \
         submits the job without it"
            .to_owned(),
    )
}
