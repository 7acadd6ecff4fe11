// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images with a root file system of their own, as commands enter them.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use cabane_label::{MountPoint, escape};
use cabane_mount::Layer;
use cabane_recipe::DeviceRequest;
use cabane_report::{IoContext, Kind, Report, Result};
use cabane_resolve::ConcreteEnvironment;
use cabane_run::RootRequest;
use cabane_run::loaded::{Additions, Bind};
use cabane_site::Context;
use cabane_site::env_vars;
use cabane_view::VariableSettings;
use serde::{Deserialize, Serialize};

use crate::devices;

/// What else is seen inside, and how a container image is entered.
#[expect(clippy::struct_excessive_bools, reason = "each is an option that is given or not")]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RootOptions {
    /// Files and directories of this system: `SOURCE[:TARGET[:ro]]`.
    pub binds: Vec<String>,
    /// Devices of this system.
    #[serde(with = "as_texts")]
    pub devices: Vec<DeviceRequest>,
    /// Whether the root file system is writable: in memory, or in a directory.
    pub writable: Option<Option<PathBuf>>,
    /// Whether the home directory is hidden.
    pub no_home: bool,
    /// Whether the entry point is run.
    pub entrypoint: bool,
    /// Devices that a container image gets if the machine has them.
    #[serde(with = "as_texts")]
    pub devices_if_there: Vec<DeviceRequest>,
    /// What becomes of variables, after the views.
    pub variables: VariableSettings,
    /// The directory in which the command starts.
    pub working_directory: Option<PathBuf>,
    /// Whether the command gets none of the variables of the caller, but for the few that describe the
    /// user, the terminal, and the proxies.
    pub clean_variables: bool,
    /// Whether home and temporary directories are empty, and the working directory is not shown.
    pub contained: bool,
}

/// The variables that a command keeps if it gets no others of the caller.
const KEPT: [&str; 18] = [
    "ALL_PROXY",
    "FTP_PROXY",
    "HOME",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "LOGNAME",
    "NO_PROXY",
    "PATH",
    "PWD",
    "SHELL",
    "TERM",
    "TZ",
    "USER",
    "all_proxy",
    "ftp_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

impl RootOptions {
    /// Returns the variables of the caller that the command gets.
    pub fn calling(&self, context: &Context) -> BTreeMap<OsString, OsString> {
        let mut calling = context.calling.clone();
        if self.clean_variables {
            calling.retain(|name, _| KEPT.iter().any(|kept| name == OsStr::new(kept)));
        }
        calling
    }
}

/// Devices in a document, as they are typed.
mod as_texts {
    use cabane_recipe::DeviceRequest;
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;

    pub(super) fn serialize<S: Serializer>(
        devices: &[DeviceRequest],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(devices.iter().map(ToString::to_string))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<DeviceRequest>, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        let devices = texts.iter().map(|text| text.parse().map_err(D::Error::custom));
        devices.collect()
    }
}

/// Adds to an environment what was requested beside its images, and says how its root image
/// is entered.
///
/// # Errors
///
/// Something that is malformed, is not there, or takes a root image and there is none.
pub fn root_request(
    context: &Context,
    options: &RootOptions,
    environment: &ConcreteEnvironment,
    additions: &mut Additions,
) -> Result<RootRequest> {
    add_binds(context, &options.binds, additions)?;
    additions.variables.merge(&options.variables);
    if let Some(directory) = &options.working_directory {
        additions.working_directory = Some(directory.clone());
    }
    let requested = [
        (options.contained, "--contain"),
        (options.writable.is_some(), "--writable"),
        (options.no_home, "--no-home"),
        (options.entrypoint, "--entrypoint"),
    ];
    if environment.root().is_none()
        && let Some((_, option)) = requested.into_iter().find(|(is_given, _)| *is_given)
    {
        return Err(no_root(option));
    }
    let given = devices::find(context, options, environment, additions)?;
    let layer = match &options.writable {
        None if additions.writable && environment.root().is_some() => Layer::Memory,
        None => Layer::None,
        Some(None) => Layer::Memory,
        Some(Some(directory)) => Layer::Kept(kept(directory)?),
    };
    Ok(RootRequest {
        layer,
        without_home: options.no_home,
        contained: options.contained,
        binds: context.settings.container.binds.clone(),
        devices: given.places,
        device_variables: given.variables,
        keeps_variables: false,
        entry_point: options.entrypoint || (additions.entry_point && environment.root().is_some()),
    })
}

/// Refuses an option that means nothing without a root image.
pub fn no_root(option: &str) -> Report {
    let message = format!("`{option}` is about container images, and none of these is one");
    Report::new(Kind::Usage, message)
        .hinted("`cabane import` makes an image of a container image".to_owned())
}

/// Adds what is to be shown, as it was typed: that is meant, whatever a file says.
///
/// # Errors
///
/// A text that does not say what is shown where.
pub fn add_binds(context: &Context, texts: &[String], additions: &mut Additions) -> Result<()> {
    for text in texts {
        let bind = bind(context, text)?;
        additions.binds.retain(|other| other.target != bind.target);
        additions.binds.push(bind);
    }
    Ok(())
}

/// Makes the directory of a layer, if it is not there.
fn kept(directory: &Path) -> Result<PathBuf> {
    std::fs::create_dir_all(directory)
        .and_then(|()| std::fs::canonicalize(directory))
        .or_failed(|| format!("make the directory {}", directory.display()))
        .map_err(|error| {
            let hint = "name a directory of yours on a local disk, as in `--writable=/tmp/layer`";
            error.with_kind(Kind::NotStarted).hinted(hint.to_owned())
        })
}

fn bind(context: &Context, text: &str) -> Result<Bind> {
    let bad = || {
        Report::new(Kind::Usage, format!("`{}` does not say what is shown where", escape(text)))
            .hinted(
                "write `--bind SOURCE`, `--bind SOURCE:TARGET`, or `--bind SOURCE:TARGET:ro`"
                    .to_owned(),
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
    let source = absolute(context, source)?;
    let target = match target {
        Some(target) => target.to_owned(),
        None => source.to_string_lossy().into_owned(),
    };
    let target = MountPoint::below_root(&target)?;
    Ok(Bind { source, target, read_only })
}

fn absolute(context: &Context, text: &str) -> Result<PathBuf> {
    if let Some(rest) = text.strip_prefix('~')
        && (rest.is_empty() || rest.starts_with('/'))
        && let Some(home) = context.calling.get(OsStr::new(env_vars::HOME))
    {
        return Ok(Path::new(home).join(rest.trim_start_matches('/')));
    }
    std::path::absolute(text).or_failed(|| "find the working directory".to_owned())
}
