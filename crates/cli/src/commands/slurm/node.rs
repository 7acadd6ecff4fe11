// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the plugin of Slurm requests on a node, as the owner of a job: what the node's devices
//! bring, how a step gets another MPI, or whether its ranks find each other.
//!
//! The answer on standard output is for the plugin: texts, each ended by a zero byte, of which
//! an empty one is the last.
//!
//! ```text
//! bind:…              a place, as in the list of a job
//! set:NAME=VALUE      a variable
//! before:NAME=VALUE   what comes first in a variable that is a list
//! ```

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use cabane_device::{Compatibility, Wanted};
use cabane_environment::{give, newer_in_image};
use cabane_mount::JobBind;
use cabane_mpi_swap::{StepRequest, SubstituteRequest, step_mpi, warn_of_lone_ranks};
use cabane_recipe::DeviceRequest;
use cabane_report::{IoContext, Kind, Report, Result};
use cabane_repository::ImageFormat;
use cabane_run::open_image;
use clap::Args;

use crate::setup::Setup;

/// Resolve devices or the MPI of a step on its node, for the Slurm plugin
#[derive(Debug, Args)]
pub(crate) struct NodeArgs {
    /// The image that is the root
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
    /// Devices that must be there
    #[arg(long = "device", value_name = "DEVICE")]
    devices: Vec<DeviceRequest>,
    /// Devices that are left out where they are not there
    #[arg(long = "usual-device", value_name = "DEVICE")]
    usual: Vec<DeviceRequest>,
    #[command(flatten)]
    mpi: NodeMpiArgs,
}

/// A step, and the MPI that its program gets.
#[derive(Debug, Args)]
struct NodeMpiArgs {
    /// Warn if the ranks of the step would not find each other
    #[arg(long)]
    check_ranks: bool,
    /// The MPI that the program of the step gets
    #[arg(long = "mpi", value_name = "MPI")]
    with: Option<String>,
    /// Where a prefix or library has what it needs
    #[arg(long = "mpi-library", value_name = "DIRECTORY")]
    libraries: Vec<PathBuf>,
    /// The file that needs MPI, if the program does not itself
    #[arg(long = "mpi-program", value_name = "FILE")]
    program: Option<PathBuf>,
    /// Where the step was started
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Where the image is mounted that will be the root
    #[arg(long)]
    root: Option<PathBuf>,
    /// What else is seen in it, and where that is
    #[arg(long = "seen", num_args = 2, value_names = ["TARGET", "SOURCE"])]
    seen: Vec<PathBuf>,
    /// Where other images are mounted, also in it
    #[arg(long = "stack", value_name = "DIRECTORY")]
    stacks: Vec<PathBuf>,
    /// Where the loader looks first
    #[arg(long, value_name = "DIRECTORIES", default_value = "")]
    library_path: String,
    /// In which way Slurm lets ranks find each other
    #[arg(long, value_name = "KIND")]
    pmi: Option<String>,
    /// How many tasks the step has
    #[arg(long, default_value_t = 1)]
    tasks: u32,
    /// The program of the step and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl NodeMpiArgs {
    fn substitute<'a>(&'a self, with: &'a str) -> SubstituteRequest<'a> {
        SubstituteRequest { with, libraries: &self.libraries, program: self.program.as_deref() }
    }

    fn request(&self) -> StepRequest<'_> {
        StepRequest {
            directory: self.directory.as_deref(),
            root: self.root.as_deref(),
            seen: &self.seen,
            stacks: &self.stacks,
            library_path: &self.library_path,
            pmi: self.pmi.as_deref(),
            tasks: self.tasks,
            command: &self.command,
        }
    }
}

pub(crate) fn node(setup: &Setup, args: &NodeArgs) -> Result<()> {
    if let Some(with) = &args.mpi.with {
        return answer(&step_mpi(setup, args.mpi.substitute(with), &args.mpi.request())?);
    }
    if args.mpi.check_ranks {
        warn_of_lone_ranks(setup, &args.mpi.request());
        return answer(&[]);
    }
    let wanted = if args.image.is_some() { Wanted::Everything } else { Wanted::Variables };
    let given = give(setup, &args.usual, &args.devices, wanted)?;
    let mut texts: Vec<String> = Vec::new();
    let places = given.places.into_iter();
    let places = places.map(|place| JobBind::required(place.source, place.target, place.read_only));
    texts.extend(places.map(|place| place.to_string()));
    let variables = given.variables.iter();
    texts.extend(variables.map(|(name, value)| format!("set:{name}={value}")));
    let mut directories = given.library_path.clone();
    if let (Some(compatibility), Some(image)) = (&given.compatibility, &args.image) {
        let directory = look(setup, compatibility, image).unwrap_or_else(|error| {
            // What the driver has is a good choice, too.
            setup.warning(error.texts().0);
            None
        });
        directories.splice(0..0, directory);
    }
    if !directories.is_empty() {
        let each = directories.iter().map(|one| one.display().to_string());
        let list = each.collect::<Vec<_>>().join(":");
        texts.push(format!("before:LD_LIBRARY_PATH={list}"));
    }
    answer(&texts)
}

fn answer(texts: &[String]) -> Result<()> {
    let mut answer = texts.join("\0");
    answer += if texts.is_empty() { "\0" } else { "\0\0" };
    std::io::stdout().write_all(answer.as_bytes()).or_failed(|| "answer".to_owned())
}

/// Looks whether the image has libraries for a newer driver.
fn look(setup: &Setup, compatibility: &Compatibility, image: &Path) -> Result<Option<PathBuf>> {
    let file = File::open(image).or_failed(|| format!("open {}", image.display()))?;
    let format = ImageFormat::of_file(&file).map_err(|error| Report::new(Kind::BadInput, error))?;
    let file = open_image(image, format)?;
    newer_in_image(setup, compatibility, &file)
}
