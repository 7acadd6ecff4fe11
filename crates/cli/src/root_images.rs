// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images with a root file system of their own, as commands enter them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use cabane_label::{MountPoint, escape};
use cabane_mount::Layer;
use cabane_recipe::DeviceRequest;
use cabane_resolve::ConcreteEnvironment;
use cabane_run::RootRequest;
use cabane_run::loaded::{Additions, Bind};
use clap::Args;

use crate::devices;
use crate::report::{CommandResult, IoContext, Kind, Report};
use crate::setup::Setup;
use cabane_site::env_vars;

/// What else is seen inside, and how a container image is entered.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct RootArgs {
    /// Show a file or directory of this system inside, at the same or another path; `ro` for read-only
    #[arg(short, long = "bind", value_name = "SOURCE[:TARGET[:ro]]")]
    binds: Vec<String>,
    /// Give a container image a device of this system, with its libraries: `VENDOR/CLASS=NAME`, `all`, or `none` to ignore the devices of the site and of the environment file. Repeatable
    #[arg(long = "device", value_name = "DEVICE")]
    devices: Vec<DeviceRequest>,
    /// Make the root file system of a container image writable: in memory, or with the changes kept in a directory. Unless you have root, you appear as root inside
    #[arg(long, value_name = "DIRECTORY", num_args = 0..=1, require_equals = true)]
    #[expect(
        clippy::option_option,
        reason = "not given, given, given with a directory"
    )]
    writable: Option<Option<PathBuf>>,
    /// Hide the home directory in a container image
    #[arg(long)]
    no_home: bool,
    /// Use a different MPI for the command: a name from the configuration, a prefix or a library, an image with an MPI, or `host`; an MPI that cannot work is refused
    #[arg(long, value_name = "MPI")]
    pub(crate) mpi: Option<String>,
    /// The file that needs MPI, if the command does not: for example a Python extension, by its path inside
    #[arg(long, value_name = "PATH", requires = "mpi")]
    pub(crate) mpi_program: Option<PathBuf>,
    /// Run the entry point of a container image, with the words after `--` as its arguments
    #[arg(long)]
    entrypoint: bool,
}

#[derive(Debug, thiserror::Error)]
#[error("`{}` does not say what is shown where", escape(text))]
struct BadBind {
    text: String,
}

/// Adds to an environment what was asked for beside its images, and says how its root image
/// is entered.
///
/// # Errors
///
/// Something that is malformed, is not there, or takes a root image and there is none.
pub(crate) fn request(
    setup: &Setup,
    args: &RootArgs,
    environment: &ConcreteEnvironment,
    additions: &mut Additions,
) -> CommandResult<RootRequest> {
    add_binds(setup, &args.binds, additions)?;
    let asked = [
        (args.writable.is_some(), "--writable"),
        (args.no_home, "--no-home"),
        (args.entrypoint, "--entrypoint"),
    ];
    if environment.root().is_none()
        && let Some((_, option)) = asked.into_iter().find(|(is_asked, _)| *is_asked)
    {
        return Err(no_root(option));
    }
    let given = devices::find(setup, &args.devices, environment, additions)?;
    let layer = match &args.writable {
        None => Layer::None,
        Some(None) => Layer::Memory,
        Some(Some(directory)) => Layer::Kept(kept(directory)?),
    };
    Ok(RootRequest {
        layer,
        without_home: args.no_home,
        binds: setup.settings.container.binds.clone(),
        devices: given.places,
        device_variables: given.variables,
        entry_point: args.entrypoint,
    })
}

/// Refuses an option that means nothing without a root image.
pub(crate) fn no_root(option: &str) -> Report {
    let message = format!("`{option}` is about container images, and none of these is one");
    Report::new(Kind::Usage, message)
        .hinted("`cabane import` makes an image of a container image".to_owned())
}

/// Adds what is to be shown, as it was typed: that is meant, whatever a file says.
///
/// # Errors
///
/// A text that does not say what is shown where.
pub(crate) fn add_binds(
    setup: &Setup,
    texts: &[String],
    additions: &mut Additions,
) -> CommandResult<()> {
    for text in texts {
        let bind = bind(setup, text)?;
        additions.binds.retain(|other| other.target != bind.target);
        additions.binds.push(bind);
    }
    Ok(())
}

/// Makes the directory of a layer, if it is not there.
fn kept(directory: &Path) -> CommandResult<PathBuf> {
    std::fs::create_dir_all(directory)
        .and_then(|()| std::fs::canonicalize(directory))
        .or_failed(|| format!("make the directory {}", directory.display()))
        .map_err(|error| {
            let hint = "name a directory of yours on a local disk, as in `--writable=/tmp/layer`";
            error.with_kind(Kind::NotStarted).hinted(hint.to_owned())
        })
}

fn bind(setup: &Setup, text: &str) -> CommandResult<Bind> {
    let bad = || {
        Report::new(
            Kind::Usage,
            BadBind {
                text: text.to_owned(),
            },
        )
        .hinted(
            "write `--bind SOURCE`, `--bind SOURCE:TARGET` or `--bind SOURCE:TARGET:ro`".to_owned(),
        )
    };
    let parts: Vec<&str> = text.split(':').collect();
    let (source, target, read_only) = match parts.as_slice() {
        [source] => (*source, None, false),
        [source, "ro"] => (*source, None, true),
        [source, target] | [source, target, "rw"] => (*source, Some(*target), false),
        [source, target, "ro"] => (*source, Some(*target), true),
        _ => return Err(bad()),
    };
    if source.is_empty() {
        return Err(bad());
    }
    let source = absolute(setup, source)?;
    let target = match target {
        Some(target) => target.to_owned(),
        None => source.to_string_lossy().into_owned(),
    };
    let target = MountPoint::below_root(&target)?;
    Ok(Bind {
        source,
        target,
        read_only,
    })
}

fn absolute(setup: &Setup, text: &str) -> CommandResult<PathBuf> {
    let home = || setup.calling.get(OsStr::new(env_vars::HOME));
    if let Some(rest) = text.strip_prefix('~')
        && (rest.is_empty() || rest.starts_with('/'))
        && let Some(home) = home()
    {
        return Ok(Path::new(home).join(rest.trim_start_matches('/')));
    }
    std::path::absolute(text).or_failed(|| "find the working directory".to_owned())
}
