// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the plugin of Slurm asks where a job is submitted: images and variables.
//!
//! The answer on standard output is for the plugin: texts, each ended by a zero byte,
//! `NAME=VALUE` for a variable to be set and `NAME` for one to be removed; an empty text is
//! the last. Among the variables is the list of images that the nodes mount.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use cabane_mount::{JOB_IMAGES, JOB_MPI, JOB_STAGE, JobImages, Stage, Unfit};
use cabane_recipe::DeviceRequest;
use cabane_run::leave;
use cabane_run::loaded::{CABANE_LOADED, Loaded, UENV_MOUNT_LIST};
use clap::{Args, ValueEnum};

use crate::commands::slurm::around::Around;
use crate::commands::slurm::mpi;
use crate::commands::slurm::ways::{Asked, Ways};
use crate::exit_codes::{self, ExitCode};
use crate::report::{CommandResult, IoContext, Kind, Report};
use crate::setup::Setup;
use cabane_environment::ImageRequest;

/// Resolve the images and variables of a job, for the Slurm plugin
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
    /// Load no view unless one is named
    #[arg(long)]
    no_default_view: bool,
    /// What becomes of images that are loaded here
    #[arg(long = "uenv-passthrough", value_enum)]
    passthrough: Option<Passthrough>,
    /// What becomes of a step on a node that cannot run an image
    #[arg(long = "uenv-unfit", value_enum)]
    unfit: Option<UnfitArg>,
    /// Where each node copies the images first
    #[arg(long = "uenv-stage", value_enum)]
    stage: Option<StageArg>,
    /// What else is seen in a container image
    #[arg(
        long = "uenv-bind",
        value_name = "SOURCE[:TARGET[:ro]]",
        value_delimiter = ','
    )]
    pub(crate) binds: Vec<String>,
    /// Hide the home directory in a container image
    #[arg(long = "uenv-no-home")]
    pub(crate) no_home: bool,
    /// Devices of the nodes that the images get
    #[arg(long = "uenv-device", value_name = "DEVICES", value_delimiter = ',')]
    pub(crate) devices: Vec<DeviceRequest>,
    /// Another MPI for the programs of steps
    #[arg(long = "uenv-mpi", value_name = "MPI")]
    mpi: Option<String>,
    /// The file that needs MPI, if the program of a step does not itself
    #[arg(long = "uenv-mpi-program", value_name = "FILE")]
    mpi_program: Option<PathBuf>,
}

/// What becomes of a step on a node that cannot run an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum UnfitArg {
    /// It fails before its first task
    Refuse,
    /// The user is warned
    Warn,
}

impl SubmitArgs {
    /// The images that are wanted.
    pub(crate) fn images(&self) -> ImageRequest {
        ImageRequest {
            images: self.uenv.clone(),
            environment: self.environment.clone(),
            view: self.view.clone(),
            no_default_view: self.no_default_view,
            tells_choice: false,
        }
    }
}

/// Where each node copies the images first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StageArg {
    /// Nowhere: they are mounted from where they are
    No,
    /// In its memory
    Memory,
    /// In the directory that the site names
    Local,
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

pub(crate) fn submit(setup: &Setup, args: &SubmitArgs) -> CommandResult<ExitCode> {
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
        return Err(Report::new(Kind::Usage, "views of which image?")
            .hinted("`--uenv=LABEL` names it".to_owned()));
    }
    if !is_asked && (!args.binds.is_empty() || args.no_home) {
        return Err(Report::new(Kind::Usage, "what is seen in which image?")
            .hinted("`--uenv=LABEL` names it".to_owned()));
    }
    let mut calling = setup.calling.clone();
    let loaded = loaded_in(&calling);
    if passthrough != Passthrough::Use {
        if !is_asked && passthrough == Passthrough::Disable && !loaded.images.is_empty() {
            return Err(not_handed_on(&args.from, &loaded));
        }
        leave(&mut calling, &loaded);
    }
    let mpi = mpi::of_job(
        setup,
        &mpi::Given {
            mpi: args.mpi.as_deref(),
            program: args.mpi_program.as_deref(),
            is_step: args.from == "srun",
        },
    )?;
    let around = Around::of(&calling);
    let asked = is_asked.then(|| Asked::find(setup, args)).transpose()?;
    let ways = Ways {
        setup,
        calling,
        around,
        asked,
        // Else they are among those of the images.
        devices: if is_asked {
            Vec::new()
        } else {
            args.devices.clone()
        },
    };
    let (mut variables, mut images) = ways.work_out()?;
    images.unfit = match args.unfit {
        Some(UnfitArg::Refuse) => Unfit::Refuse,
        Some(UnfitArg::Warn) => Unfit::Warn,
        None => ways.around.unfit(),
    };
    let stage = stage(args, &setup.calling).filter(|_| !images.images.is_empty());
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
    answer(&setup.calling, &variables)
}

/// Writes the list, if it is not too long for the kernel to hand on.
fn one_variable(images: &JobImages) -> CommandResult<String> {
    /// `MAX_ARG_STRLEN`: name, value, what is between and after them.
    const LONGEST: usize = 128 << 10;
    let text = images.to_string();
    if JOB_IMAGES.len() + text.len() + 2 <= LONGEST {
        return Ok(text);
    }
    let error = Report::new(
        Kind::BadInput,
        "the list of images is too long for a variable",
    );
    Err(if images.ways() > 1 {
        error.hinted("a label with its `%uarch` means one build only".to_owned())
    } else {
        error
    })
}

/// A step does as its job does; a job does as it is told.
fn stage(args: &SubmitArgs, calling: &BTreeMap<OsString, OsString>) -> Option<Stage> {
    match args.stage {
        Some(StageArg::Memory) => Some(Stage::Memory),
        Some(StageArg::Local) => Some(Stage::Local),
        None if args.from == "srun" => {
            let value = calling.get(OsStr::new(JOB_STAGE))?;
            value.to_str().and_then(Stage::from_name)
        }
        Some(StageArg::No) | None => None,
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
pub(crate) fn loaded_in(variables: &BTreeMap<OsString, OsString>) -> Loaded {
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
