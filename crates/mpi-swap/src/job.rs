// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Where a job is submitted: which MPI the programs of its steps get in place of their own.
//!
//! Names of the configuration become paths here, so that a job means what was submitted.
//! `host` stays what it is: each node has its own. Whether a program can have it is judged on
//! the nodes, where the program and the libraries are.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use cabane_label::escape;
use cabane_mount::{JOB_MPI, JobMpi};
use cabane_report::{Kind, Report, Result};
use cabane_site::Context;

use crate::substitute::{refined, unknown};
use crate::{HOST, substitute_image};

/// The name for what programs have by themselves.
const NONE: &str = "none";

/// Which MPI the programs of a job or step are to get.
pub struct JobMpiRequest<'a> {
    /// The MPI.
    pub mpi: Option<&'a str>,
    /// The file that needs it.
    pub program: Option<&'a Path>,
    /// Whether a step is submitted, which has what its job has.
    pub is_step: bool,
}

/// Finds out which MPI steps get; none if they keep their own.
///
/// # Errors
///
/// A name that means nothing here, or an image.
pub fn job_mpi(context: &Context, request: &JobMpiRequest<'_>) -> Result<Option<JobMpi>> {
    let mpi = match request.mpi {
        None if request.is_step => around(context),
        None | Some(NONE) => None,
        Some(name) => Some(named(context, name)?),
    };
    let Some(mut mpi) = mpi else {
        if request.program.is_none() {
            return Ok(None);
        }
        return Err(Report::new(
            Kind::Usage,
            "`--uenv-mpi-program` says for what another MPI is, and there is none",
        )
        .hinted("`--uenv-mpi=host` takes one of the node".to_owned()));
    };
    mpi.directory = std::env::current_dir().ok().filter(|_| request.is_step);
    let Some(program) = request.program else {
        return Ok(Some(mpi));
    };
    mpi.program = Some(if program.as_os_str().as_encoded_bytes().contains(&b'/') {
        absolute(program)
    } else {
        // As a program is found on the node.
        program.to_owned()
    });
    Ok(Some(mpi))
}

/// What the job around has.
fn around(context: &Context) -> Option<JobMpi> {
    let value = context.calling.get(OsStr::new(JOB_MPI))?;
    JobMpi::parse(value.to_str()?)
}

fn named(context: &Context, name: &str) -> Result<JobMpi> {
    let mut configured = context.settings.mpi.iter();
    let (path, libraries) = if name == HOST {
        (None, Vec::new())
    } else if let Some(one) = configured.find(|one| one.name == name) {
        (Some(one.prefix.clone()), one.libraries.clone())
    } else {
        (Some(typed(context, name)?), Vec::new())
    };
    Ok(JobMpi { path, libraries, program: None, directory: None })
}

/// A prefix or a library. What is on the nodes only is named by its whole path.
fn typed(context: &Context, name: &str) -> Result<PathBuf> {
    let path = absolute(Path::new(name));
    if let Some(image) = substitute_image(context, name) {
        let prefix = image.prefix.display().to_string();
        return Err(Report::new(
            Kind::Usage,
            format!(
                "an MPI in an image, such as `{}`, is not found by its label on the nodes",
                escape(name)
            ),
        )
        .hinted(format!(
            "name it beside the others with `--uenv`, and its prefix with \
                     `--uenv-mpi={prefix}`"
        ))
        .hinted(format!(
            "`srun cabane run --mpi={name} IMAGES -- PROGRAM` takes it for each rank"
        )));
    }
    if Path::new(name).is_absolute() || path.exists() {
        return Ok(path);
    }
    Err(refined(context, unknown(context, name)).hinted(
        "`--uenv-mpi=host` takes what a node has, and a prefix of the nodes is a whole path"
            .to_owned(),
    ))
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
