// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Devices of this machine, as commands give them to containers.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use cabane_device::{Compatibility, DeviceError, Devices, Given, Wanted};
use cabane_mount::ImageFile;
use cabane_recipe::DeviceRequest;
use cabane_report::{Report, Result};
use cabane_resolve::ConcreteEnvironment;
use cabane_run::loaded::Additions;
use cabane_run::metadata::names_in;
use cabane_run::{DevicePlace, open_image};
use cabane_site::Context;
use cabane_view::{VariableSetting, VariableSettings};

use crate::root::RootOptions;

/// What a command gets.
#[derive(Debug, Default)]
pub struct GivenDevices {
    /// Files and directories.
    pub places: Vec<DevicePlace>,
    /// Variables, which hold over all others.
    pub variables: VariableSettings,
}

/// The beginning of the names of CUDA's libraries for older drivers.
const CUDA: &str = "libcuda.so.";

/// Finds the devices that were typed, those of an environment file and, for a container, those
/// of the site. The latter are left out where they are not there; so are those that are requested only
/// if they are there, with a warning.
///
/// # Errors
///
/// A device that is not there, or cannot be used.
pub(crate) fn find(
    context: &Context,
    options: &RootOptions,
    environment: &ConcreteEnvironment,
    additions: &mut Additions,
) -> Result<GivenDevices> {
    additions.devices.extend(options.devices.iter().map(ToString::to_string));
    let root = environment.root();
    let requested: Vec<DeviceRequest> =
        additions.devices.iter().filter_map(|text| text.parse().ok()).collect();
    let mut usual = root.map_or(Vec::new(), |_| usual(context, &requested, additions));
    if root.is_some() {
        usual.extend(those_there(context, &options.devices_if_there));
    }
    if usual.is_empty() && requested.is_empty() {
        return Ok(GivenDevices::default());
    }
    let wanted = if root.is_some() { Wanted::Everything } else { Wanted::Variables };
    let given = give(context, &usual, &requested, wanted)?;
    let directory = match (&given.compatibility, root) {
        (Some(compatibility), Some(image)) => {
            let file = open_image(&image.path, image.format)?;
            newer_in_image(context, compatibility, &file)?
        }
        _ => None,
    };
    Ok(GivenDevices { variables: variables(&given, directory.as_deref()), places: places(given) })
}

/// Returns the devices that are there, and warns of the others.
fn those_there(context: &Context, devices: &[DeviceRequest]) -> Vec<DeviceRequest> {
    if devices.is_empty() {
        return Vec::new();
    }
    let known = Devices::of_machine();
    let is_there = |device: &&DeviceRequest| {
        let chosen = known.choose(std::slice::from_ref(*device));
        if let Err(DeviceError::Unknown(_)) = &chosen {
            context.warning(format_args!(
                "this machine has no device `{device}`, so the container runs without it"
            ));
            return false;
        }
        true
    };
    devices.iter().filter(is_there).cloned().collect()
}

/// Returns the devices of the site and those that annotations ask for, unless someone wants none
/// of them.
fn usual(
    context: &Context,
    requested: &[DeviceRequest],
    additions: &Additions,
) -> Vec<DeviceRequest> {
    if requested.contains(&DeviceRequest::None) {
        return Vec::new();
    }
    let devices = context.settings.container.devices.iter().map(|(device, _)| device.clone());
    let optional = additions.optional_devices.iter().filter_map(|text| text.parse().ok());
    devices.chain(optional).collect()
}

/// Says what a container gets with the usual devices, as far as they are there, and with those
/// that were requested.
///
/// # Errors
///
/// A device that was requested and is not there, or cannot be used.
pub fn give(
    context: &Context,
    usual: &[DeviceRequest],
    requested: &[DeviceRequest],
    wanted: Wanted,
) -> Result<Given> {
    let is_set = |name: &str| context.calling.contains_key(OsStr::new(name));
    let devices = Devices::of_machine();
    for problem in devices.problems() {
        let text = problem.text.lines().next().unwrap_or_default();
        context.warning(format!("devices are missing: {text}"));
    }
    let mut all: Vec<DeviceRequest> = Vec::with_capacity(usual.len() + requested.len());
    for device in usual {
        let one = std::slice::from_ref(device);
        match devices.choose(one).and_then(|chosen| chosen.give(wanted, &is_set)) {
            Ok(_) => all.push(device.clone()),
            Err(DeviceError::Unknown(report)) => context.detail(&report),
            Err(error) => {
                let (text, _) = Report::from(error).texts();
                context.warning(&text);
            }
        }
    }
    all.extend_from_slice(requested);
    let given = devices.choose(&all)?.give(wanted, &is_set)?;
    for warning in &given.warnings {
        // A job has some of the devices of a node, and no one requested the others.
        let is_usual = requested.is_empty() && warning.is_no_access;
        if is_usual {
            context.detail(&warning.text);
        } else {
            context.warning(&warning.text);
        }
    }
    Ok(given)
}

fn places(given: Given) -> Vec<DevicePlace> {
    let places = given.places.into_iter().map(|place| DevicePlace {
        source: place.source,
        target: place.target,
        read_only: place.read_only,
    });
    places.collect()
}

fn variables(given: &Given, directory: Option<&Path>) -> VariableSettings {
    let mut settings = VariableSettings::default();
    for (name, value) in &given.variables {
        settings.0.insert(name.clone(), VariableSetting::to(value));
    }
    let own = given.library_path.iter().map(PathBuf::as_path);
    let directories = directory.into_iter().chain(own);
    let directories: Vec<String> =
        directories.map(|directory| directory.display().to_string()).collect();
    if !directories.is_empty() {
        let path = settings.0.entry("LD_LIBRARY_PATH".to_owned()).or_default();
        path.prepend = directories;
    }
    settings
}

/// Looks whether the image has libraries for a newer driver than that of this machine, and
/// returns where. Those are made to work with older ones.
///
/// # Errors
///
/// It cannot be looked into the image.
pub fn newer_in_image(
    context: &Context,
    compatibility: &Compatibility,
    image: &ImageFile,
) -> Result<Option<PathBuf>> {
    let directory = &compatibility.directory;
    let inside = directory.strip_prefix("/").unwrap_or(directory);
    let names = names_in(image, &context.mount_methods(), inside)?;
    Ok(is_newer(&names, &compatibility.driver).then(|| directory.clone()))
}

fn is_newer(names: &[PathBuf], driver: &str) -> bool {
    let first = |version: &str| version.split('.').next()?.parse::<u32>().ok();
    let version = |name: &Path| {
        let version = name.to_str()?.strip_prefix(CUDA)?;
        version.contains('.').then(|| first(version))?
    };
    let newest = names.iter().filter_map(|name| version(name)).max();
    matches!((newest, first(driver)), (Some(newest), Some(driver)) if newest > driver)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_for_older_drivers_are_newer_by_their_first_number() {
        let is_newer = |names: &[&str]| {
            let names: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
            super::is_newer(&names, "550.54.15")
        };
        assert_eq!(
            [
                is_newer(&[]),
                is_newer(&["libcuda.so", "libcuda.so.1"]),
                is_newer(&["libcuda.so.550.90.07"]),
                is_newer(&["libcuda.so.1", "libcuda.so.560.28.03"]),
            ],
            [false, false, false, true]
        );
    }
}
