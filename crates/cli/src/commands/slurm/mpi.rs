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

use crate::commands::mpi::substitute::{HOST, substitute_image, unknown};
use crate::report::{CommandResult, Kind, Report};
use crate::setup::Setup;

/// The word for what programs have by themselves.
const NONE: &str = "none";

/// What was given.
pub(crate) struct Given<'a> {
    /// The MPI.
    pub(crate) mpi: Option<&'a str>,
    /// The file that needs it.
    pub(crate) program: Option<&'a Path>,
    /// Whether a step is submitted, which has what its job has.
    pub(crate) is_step: bool,
}

#[derive(Debug, thiserror::Error)]
enum NotForJobs {
    #[error("an MPI in an image, such as `{}`, is not found by its label on the nodes", escape(.0))]
    Image(String),
    #[error("`--uenv-mpi-program` says for what another MPI is, and there is none")]
    Nothing,
}

/// Finds out which MPI steps get; none if they keep their own.
///
/// # Errors
///
/// A name that means nothing here, or an image.
pub(crate) fn of_job(setup: &Setup, given: &Given<'_>) -> CommandResult<Option<JobMpi>> {
    let mpi = match given.mpi {
        None if given.is_step => around(setup),
        None | Some(NONE) => None,
        Some(name) => Some(named(setup, name)?),
    };
    let Some(mut mpi) = mpi else {
        if given.program.is_none() {
            return Ok(None);
        }
        return Err(Report::new(Kind::Usage, NotForJobs::Nothing)
            .hinted("`--uenv-mpi=host` takes one of the node".to_owned()));
    };
    mpi.directory = std::env::current_dir().ok().filter(|_| given.is_step);
    let Some(program) = given.program else {
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
fn around(setup: &Setup) -> Option<JobMpi> {
    let value = setup.calling.get(OsStr::new(JOB_MPI))?;
    JobMpi::parse(value.to_str()?)
}

fn named(setup: &Setup, name: &str) -> CommandResult<JobMpi> {
    let mut configured = setup.settings.mpi.iter();
    let (path, libraries) = if name == HOST {
        (None, Vec::new())
    } else if let Some(one) = configured.find(|one| one.name == name) {
        (Some(one.prefix.clone()), one.libraries.clone())
    } else {
        (Some(typed(setup, name)?), Vec::new())
    };
    Ok(JobMpi {
        path,
        libraries,
        program: None,
        directory: None,
    })
}

/// A prefix or a library. What lies on the nodes only is named by its whole path.
fn typed(setup: &Setup, name: &str) -> CommandResult<PathBuf> {
    let path = absolute(Path::new(name));
    if let Some(image) = substitute_image(setup, name) {
        let prefix = image.prefix.display().to_string();
        return Err(Report::new(Kind::Usage, NotForJobs::Image(name.to_owned()))
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
    Err(unknown(setup, name).hinted(
        "`--uenv-mpi=host` takes what a node has, and a prefix of the nodes is a whole path"
            .to_owned(),
    ))
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
