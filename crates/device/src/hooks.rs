// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the known hooks do. Nothing is run: the same is reached in other ways.

use std::path::PathBuf;

use cabane_recipe::DeviceHook;

use crate::Compatibility;

/// Programs whose arguments are known.
const PROGRAMS: [&str; 2] = ["nvidia-ctk", "nvidia-cdi-hook"];
/// Where an image has libraries for older drivers, unless stated.
const COMPATIBLE: &str = "/usr/local/cuda/compat";

/// What a hook is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Links, each with where it leads and where it is.
    Links(Vec<(String, String)>),
    /// Directories in which libraries are found by their names.
    Folders(Vec<PathBuf>),
    /// Libraries of the image are to win if they are newer than the driver's.
    Compatibility(Compatibility),
    /// Something that is so anyhow: modes of device nodes are those of the host, and who is not
    /// root can make no nodes.
    Nothing,
}

/// Variables with which a container asks for less of a GPU's memory. It takes the rights of root
/// to limit a control group.
/// Source: `nvidia-cdi-hook apply-cuda-memory-limits --help`, version 1.20.
const MEMORY_LIMITS: [&str; 2] = ["NVIDIA_GPU_MEMORY_REQUEST", "NVIDIA_GPU_MEMORY_LIMIT"];

/// Tells what a hook is for, if that is known.
pub(crate) fn purpose(hook: &DeviceHook, is_set: &dyn Fn(&str) -> bool) -> Option<Purpose> {
    let program = hook.program.file_name()?.to_str()?;
    if !PROGRAMS.contains(&program) {
        return None;
    }
    let arguments = hook.arguments.iter().skip(1).map(String::as_str);
    let mut arguments = arguments.skip_while(|one| one.starts_with('-') || *one == "hook");
    let name = arguments.next()?;
    let options = options(arguments);
    let values = |wanted: &str| -> Vec<&str> {
        let of_name = options.iter().filter(|(name, _)| *name == wanted);
        of_name.flat_map(|(_, value)| value.split(',')).collect()
    };
    Some(match name {
        "create-symlinks" => {
            let links = values("link").into_iter();
            let pair = |link: &str| {
                let (target, link) = link.split_once("::")?;
                Some((target.to_owned(), link.to_owned()))
            };
            Purpose::Links(links.map(pair).collect::<Option<_>>()?)
        }
        "update-ldcache" => {
            Purpose::Folders(values("folder").into_iter().map(PathBuf::from).collect())
        }
        "enable-cuda-compat" => match values("host-driver-version").first() {
            Some(driver) => {
                let directories = values("cuda-compat-container-root");
                let directory = directories.first().unwrap_or(&COMPATIBLE).into();
                Purpose::Compatibility(Compatibility { directory, driver: (*driver).to_owned() })
            }
            None => Purpose::Nothing,
        },
        "chmod" | "disable-device-node-modification" | "update-application-profile" => {
            Purpose::Nothing
        }
        "apply-cuda-memory-limits" if !MEMORY_LIMITS.into_iter().any(is_set) => Purpose::Nothing,
        _ => return None,
    })
}

/// Reads `--name value` and `--name=value`.
fn options<'a>(mut arguments: impl Iterator<Item = &'a str>) -> Vec<(&'a str, &'a str)> {
    let mut options = Vec::new();
    while let Some(argument) = arguments.next() {
        let Some(option) = argument.strip_prefix("--").or(argument.strip_prefix('-')) else {
            continue;
        };
        match option.split_once('=') {
            Some(pair) => options.push(pair),
            None => options.extend(arguments.next().map(|value| (option, value))),
        }
    }
    options
}

/// Returns a hook as people know it: its program and the argument that says what it does.
pub(crate) fn title(hook: &DeviceHook) -> String {
    let program = hook.program.display();
    let arguments = hook.arguments.iter().skip(1);
    match arguments.into_iter().find(|one| !one.starts_with('-')) {
        Some(name) => format!("the hook `{program} {name}` ({})", hook.moment),
        None => format!("the hook `{program}` ({})", hook.moment),
    }
}
