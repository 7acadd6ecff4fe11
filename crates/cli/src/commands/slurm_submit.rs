// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the plugin of Slurm asks where a job is submitted: images and variables.
//!
//! The answer on standard output is for the plugin: texts, each ended by a zero byte,
//! `NAME=VALUE` for a variable to be set and `NAME` for one to be removed; an empty text is
//! the last. Among the variables is the list of images that the nodes mount.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use cabane_mount::{Backend, JOB_IMAGES, JobImage, JobImages};
use cabane_repository::ImageFormat;
use cabane_run::loaded::{CABANE_LOADED, Loaded, UENV_MOUNT_LIST};
use cabane_run::{Joining, RunRequest, leave, prepare};
use clap::{Args, ValueEnum};

use crate::convert;
use crate::exit_codes::{self, ExitCode};
use crate::images::{self, ImageArgs};
use crate::report::{CommandError, CommandResult, IoContext};
use crate::setup::Setup;

/// Tell the plugin of Slurm which images and variables a job gets
#[derive(Debug, Args)]
pub(crate) struct SubmitArgs {
    /// The program that submits
    #[arg(long, value_name = "PROGRAM")]
    from: String,
    /// Images to mount
    #[arg(long, value_name = "IMAGES")]
    uenv: Option<String>,
    /// Views to load
    #[arg(long, value_name = "VIEWS")]
    view: Option<String>,
    /// An environment file
    #[arg(long, value_name = "NAME|PATH")]
    environment: Option<String>,
    /// Load no view if none is named
    #[arg(long)]
    no_default_view: bool,
    /// What becomes of images that are loaded here
    #[arg(long = "uenv-passthrough", value_enum)]
    passthrough: Option<Passthrough>,
}

/// What becomes of images that are loaded where a job is submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Passthrough {
    /// The job has them, beside those that are named
    Use,
    /// The job does not have them
    Ignore,
    /// It is an error, unless images are named
    Disable,
}

pub(super) fn submit(setup: &Setup, args: &SubmitArgs) -> CommandResult<ExitCode> {
    let is_asked = args.uenv.is_some() || args.environment.is_some();
    let passthrough = args.passthrough.unwrap_or(match args.from.as_str() {
        // Who names images means these.
        _ if is_asked => Passthrough::Ignore,
        // A step belongs to what surrounds it; a job is to mean the same wherever it is
        // submitted.
        "srun" => Passthrough::Use,
        _ => Passthrough::Disable,
    });
    if !is_asked && (args.view.is_some() || args.no_default_view) {
        return Err(
            CommandError::new(exit_codes::USAGE, "views of which image?")
                .hinted("`--uenv=LABEL` names it".to_owned()),
        );
    }
    let mut calling = setup.calling.clone();
    let loaded = loaded_in(&calling);
    if passthrough != Passthrough::Use {
        if !is_asked && passthrough == Passthrough::Disable && !loaded.images.is_empty() {
            return Err(not_handed_on(&args.from, &loaded));
        }
        leave(&mut calling, &loaded);
    }
    let mut variables = if is_asked {
        variables_of_job(setup, args, calling)?
    } else {
        calling
    };
    let images = job_images(&loaded_in(&variables))?;
    if images.0.is_empty() {
        variables.remove(OsStr::new(JOB_IMAGES));
    } else {
        variables.insert(JOB_IMAGES.into(), images.to_string().into());
    }
    answer(&setup.calling, &variables)
}

fn not_handed_on(program: &str, loaded: &Loaded) -> CommandError {
    let names: Vec<_> = loaded
        .images
        .iter()
        .map(|image| image.label.clone().unwrap_or_else(|| image.name.clone()))
        .collect();
    let names = names.join(", ");
    CommandError::new(
        exit_codes::USAGE,
        format!("{program} does not hand on the images that are loaded here: {names}"),
    )
    .hinted(format!(
        "`{program} --uenv={names}` names what the job needs"
    ))
    .hinted(
        "`--uenv-passthrough=use` hands on what is loaded, and `--uenv-passthrough=ignore` \
         submits the job without it"
            .to_owned(),
    )
}

/// Finds what is loaded, also by a tool that sets the list of mounts only.
fn loaded_in(variables: &BTreeMap<OsString, OsString>) -> Loaded {
    let value = |name| {
        variables
            .get(OsStr::new(name))
            .and_then(|value| value.to_str())
    };
    if let Some(loaded) = value(CABANE_LOADED).and_then(Loaded::from_variable) {
        return loaded;
    }
    Loaded::from_mount_list(value(UENV_MOUNT_LIST).unwrap_or_default())
}

/// Works out the variables as they would be inside.
fn variables_of_job(
    setup: &Setup,
    args: &SubmitArgs,
    calling: BTreeMap<OsString, OsString>,
) -> CommandResult<BTreeMap<OsString, OsString>> {
    let wanted = ImageArgs::of_job(
        args.uenv.as_deref(),
        args.environment.as_deref(),
        args.view.as_deref(),
        args.no_default_view,
    );
    let (environment, additions) = images::find_environment(setup, &wanted)?;
    if let Some(bind) = additions.binds.first() {
        let target = bind.target.as_path().display();
        return Err(CommandError::new(
            exit_codes::BAD_INPUT,
            format!("in a job nothing but images is mounted, and {target} is to be something else"),
        )
        .hinted("`cabane run --environment FILE` in the job mounts the rest".to_owned()));
    }
    if let Some(directory) = &additions.working_directory {
        setup.printer.warning(&format!(
            "`workdir` of the environment file is not heeded in a job: `--chdir={}` is",
            directory.display()
        ));
    }
    let prepared = prepare(RunRequest {
        environment,
        additions,
        backend: Backend::Root,
        fuse: setup.fuse.clone(),
        calling,
        joining: Joining::nobody(),
        command: Vec::new(),
    })
    .map_err(convert::run_error)?;
    for warning in prepared.warnings() {
        setup.printer.warning(&warning.to_string());
    }
    Ok(prepared.variables().clone())
}

/// Looks what each image holds, with the rights of the user.
fn job_images(loaded: &Loaded) -> CommandResult<JobImages> {
    let images = loaded.images.iter().map(|image| {
        let path = image.path.as_path();
        let file = File::open(path)
            .or_failed(|| format!("open the image {}, which is loaded here", path.display()))?;
        let format = ImageFormat::of_file(&file)
            .map_err(|error| CommandError::new(exit_codes::BAD_INPUT, error))?;
        Ok(JobImage {
            format: match format {
                ImageFormat::Squashfs => cabane_mount::ImageFormat::Squashfs,
                ImageFormat::Erofs => cabane_mount::ImageFormat::Erofs,
            },
            path: path.to_owned(),
            mount_point: image.mount_point.clone(),
        })
    });
    images.collect::<CommandResult<_>>().map(JobImages)
}

fn answer(
    before: &BTreeMap<OsString, OsString>,
    after: &BTreeMap<OsString, OsString>,
) -> CommandResult<ExitCode> {
    let mut bytes = Vec::new();
    for (name, value) in after
        .iter()
        .filter(|(name, value)| before.get(*name) != Some(*value))
    {
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(b'=');
        bytes.extend_from_slice(value.as_bytes());
        bytes.push(0);
    }
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(0);
    }
    bytes.push(0);
    std::io::stdout()
        .write_all(&bytes)
        .or_failed(|| "answer".to_owned())?;
    Ok(exit_codes::SUCCESS)
}
