// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Options about images that several commands have.

use std::fs;
use std::path::{Path, PathBuf};

use cabane_environment::{ImageRequest, JoinOptions, RootOptions};
use cabane_label::escape;
use cabane_recipe::DeviceRequest;
use cabane_report::{IoContext, Kind, Report, Result};
use cabane_view::{VariableSetting, VariableSettings, is_variable_name};
use clap::Args;

/// Which images and views to load.
#[derive(Debug, Args)]
pub(crate) struct ImageArgs {
    /// Images: label, ID, digest, or path, each optionally followed by :/mount/point; separated by commas. Also the path of an environment file, which ends in .toml
    #[arg(value_name = "IMAGES", required_unless_present = "environment")]
    pub(crate) images: Option<String>,
    /// An environment file, by path or by name; images on the command line are added to it
    #[arg(short, long, value_name = "NAME|PATH")]
    environment: Option<String>,
    /// Views to load, in this order: VIEW or IMAGE:VIEW, separated by commas; IMAGE is a name, a label, or a mount point. They replace the views of an environment file
    #[arg(long, value_name = "VIEWS")]
    view: Option<String>,
    /// Load no view unless one is named
    #[arg(long, conflicts_with = "view")]
    no_default_view: bool,
    #[command(flatten)]
    pub(crate) root: RootArgs,
    /// Print what would be mounted and set, and stop
    #[arg(long)]
    pub(crate) dry_run: bool,
}

impl ImageArgs {
    /// Whether there is anything to load.
    pub(crate) fn are_named(&self) -> bool {
        self.images.is_some() || self.environment.is_some()
    }

    /// Returns what was typed.
    pub(crate) fn request(&self) -> ImageRequest {
        ImageRequest {
            images: self.images.clone(),
            environment: self.environment.clone(),
            view: self.view.clone(),
            no_default_view: self.no_default_view,
            tells_choice: self.dry_run,
            ..ImageRequest::default()
        }
    }
}

/// Into which environment to look.
#[derive(Debug, Args)]
pub(crate) struct InsideArgs {
    /// Inspect an environment with these images instead of the current one
    #[arg(long = "in", value_name = "IMAGES")]
    images: Option<String>,
    /// The views of that environment
    #[arg(long, value_name = "VIEWS", requires = "images")]
    view: Option<String>,
    /// Load no view unless one is named
    #[arg(long, requires = "images", conflicts_with = "view")]
    no_default_view: bool,
}

impl InsideArgs {
    /// Returns what to load, unless the environment around is meant.
    pub(crate) fn request(&self) -> Option<ImageRequest> {
        let images = self.images.as_deref()?;
        let request = ImageRequest::new(images, self.view.as_deref(), self.no_default_view);
        Some(request.telling_choice())
    }
}

/// What else is seen inside, and how a container image is entered.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct RootArgs {
    /// Make a file or directory of this system visible inside, at the same or another path; `ro` for read-only
    #[arg(short, long = "bind", value_name = "SOURCE[:TARGET[:ro]]")]
    binds: Vec<String>,
    /// Give a container image a device of this system, with its libraries: `VENDOR/CLASS=NAME`, `all`, or `none` to ignore the devices of the site and of the environment file. Repeatable
    #[arg(long = "device", value_name = "DEVICE")]
    devices: Vec<DeviceRequest>,
    /// Make the root file system of a container image writable: in memory, or with the changes kept in a directory. If you are not root, you appear as root inside
    #[arg(long, value_name = "DIRECTORY", num_args = 0..=1, require_equals = true)]
    #[expect(clippy::option_option, reason = "not given, given, given with a directory")]
    writable: Option<Option<PathBuf>>,
    /// Hide the home directory in a container image
    #[arg(long)]
    no_home: bool,
    /// Use a different MPI for the command: a name from the configuration, a prefix or a library, an image with an MPI, or `host`; incompatible MPIs are rejected
    #[arg(long, value_name = "MPI")]
    pub(crate) mpi: Option<String>,
    /// The file that needs MPI, if the command does not: for example a Python extension, by its path inside
    #[arg(long, value_name = "PATH", requires = "mpi")]
    pub(crate) mpi_program: Option<PathBuf>,
    /// Run the entry point of a container image, with the arguments after `--`
    #[arg(long)]
    pub(crate) entrypoint: bool,
    #[command(flatten)]
    inside: InsideOptions,
}

/// What the command sees and gets, in the words of Apptainer.
#[expect(clippy::struct_excessive_bools, reason = "each is an option that is given or not")]
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct InsideOptions {
    /// Give a container image the NVIDIA GPUs of this machine, with the libraries of the driver
    #[arg(long)]
    pub(crate) nv: bool,
    /// Give a container image the AMD GPUs of this machine, with the libraries of their driver
    #[arg(long)]
    pub(crate) rocm: bool,
    /// Set a variable for the command. Repeatable
    #[arg(long = "env", value_name = "NAME=VALUE")]
    pub(crate) variables: Vec<String>,
    /// Set the variables in a file, one `NAME=VALUE` per line
    #[arg(long, value_name = "FILE")]
    pub(crate) env_file: Vec<PathBuf>,
    /// Start in this directory, a path inside
    #[arg(long, visible_alias = "cwd", value_name = "DIRECTORY")]
    pub(crate) pwd: Option<PathBuf>,
    /// Pass only your variables that describe you (such as `HOME`), the terminal, and proxies
    #[arg(long)]
    pub(crate) cleanenv: bool,
    /// Make the home directory and /tmp of a container image empty, and hide the working directory
    #[arg(long)]
    pub(crate) contain: bool,
}

impl RootArgs {
    /// Returns these options, without those about MPI.
    ///
    /// # Errors
    ///
    /// Variables that are malformed, or a file with them that cannot be read.
    pub(crate) fn options(&self) -> Result<RootOptions> {
        let mut options = RootOptions {
            binds: self.binds.clone(),
            devices: self.devices.clone(),
            writable: self.writable.clone(),
            no_home: self.no_home,
            entrypoint: self.entrypoint,
            ..RootOptions::default()
        };
        self.inside.add_to(&mut options)?;
        Ok(options)
    }
}

impl InsideOptions {
    /// Adds them to others.
    ///
    /// # Errors
    ///
    /// Variables that are malformed, or a file with them that cannot be read.
    pub(crate) fn add_to(&self, options: &mut RootOptions) -> Result<()> {
        let drivers = [(self.nv, "nvidia.com/gpu=all"), (self.rocm, "amd.com/gpu=all")];
        for (_, device) in drivers.into_iter().filter(|(is_wanted, _)| *is_wanted) {
            options.devices_if_there.extend(device.parse());
        }
        for path in &self.env_file {
            options.variables.merge(&read_variables(path)?);
        }
        for text in &self.variables {
            let (name, value) = variable(text, "--env")?;
            options.variables.merge(&one(name, value));
        }
        options.working_directory.clone_from(&self.pwd);
        options.clean_variables = self.cleanenv;
        options.contained = self.contain;
        Ok(())
    }
}

/// Cuts `NAME=VALUE`.
fn variable<'t>(text: &'t str, place: &str) -> Result<(&'t str, &'t str)> {
    let parts = text.split_once('=').filter(|(name, _)| is_variable_name(name));
    parts.ok_or_else(|| {
        let message = format!("`{}` does not set a variable ({place})", escape(text));
        Report::new(Kind::Usage, message).hinted("write `NAME=VALUE`".to_owned())
    })
}

fn one(name: &str, value: &str) -> VariableSettings {
    VariableSettings([(name.to_owned(), VariableSetting::to(value))].into())
}

/// Reads a file with variables. A line may begin with `export`, its value may be in quotes, and lines
/// that are empty or begin with `#` say nothing. No shell is run.
fn read_variables(path: &Path) -> Result<VariableSettings> {
    let text = fs::read_to_string(path).or_failed(|| format!("read {}", path.display()))?;
    let mut settings = VariableSettings::default();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
        let (name, value) = variable(line, &format!("{}:{}", path.display(), number + 1))?;
        let quoted = |mark: char| value.strip_prefix(mark)?.strip_suffix(mark);
        let value = quoted('"').or_else(|| quoted('\'')).unwrap_or(value);
        settings.merge(&one(name, value));
    }
    Ok(settings)
}

/// With whom to share namespaces.
#[derive(Clone, Debug, Args)]
pub(crate) struct JoinArgs {
    /// Share memory with processes in the same environment on this node, or only with those that give the same name; ranks of one launcher do so automatically
    #[arg(
        short,
        long,
        value_name = "NAME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        hide_default_value = true
    )]
    join: Option<String>,
    /// Share memory with no process, not even with other ranks of the launcher
    #[arg(long, conflicts_with = "join")]
    no_join: bool,
}

impl JoinArgs {
    /// Returns what was typed.
    pub(crate) fn options(&self) -> JoinOptions {
        JoinOptions { join: self.join.clone(), no_join: self.no_join }
    }
}
