// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Starting a command through the set-uid helper.
//!
//! This process opens the images with the rights of the user and says what it wants;
//! then it becomes the helper, which mounts and becomes the command.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use cabane_mount::helper::Helper;
use cabane_mount::{
    Backend, FusePrograms, ImageFile, MountPlan, Operation, Request, RequestedImage, StartRequest,
    variable,
};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd};

use crate::RunError;

/// Becomes the helper, which becomes the command.
///
/// # Errors
///
/// [`RunError::Helper`] if that fails. Whatever goes wrong later is told by the helper.
pub(crate) fn become_helper(
    helper: &Path,
    plan: &MountPlan,
    process: Option<u32>,
    command: Vec<OsString>,
    variables: &BTreeMap<OsString, OsString>,
    working_directory: Option<&Path>,
) -> Result<Infallible, RunError> {
    let failed = |source| RunError::Helper {
        path: helper.to_owned(),
        source,
    };
    let request = Request::Start(StartRequest {
        process,
        images: images_of(plan).map_err(failed)?,
        working_directory: working_directory.map(Path::to_owned),
        command,
        variables: variables
            .iter()
            .map(|(name, value)| variable(name, value))
            .collect(),
    });
    let file = written_down(&request).map_err(failed)?;
    Err(failed(called(helper, &file).exec()))
}

/// Asks the helper to give up images of the user that nobody uses.
///
/// # Errors
///
/// [`RunError::Helper`] if it cannot be started, or says no.
pub fn clean_through(helper: &Path) -> Result<(), RunError> {
    let failed = |source| RunError::Helper {
        path: helper.to_owned(),
        source,
    };
    let file = written_down(&Request::Clean).map_err(failed)?;
    let status = called(helper, &file).status().map_err(failed)?;
    if status.success() {
        Ok(())
    } else {
        Err(failed(io::Error::other(status.to_string())))
    }
}

/// Lets the helper start `true` with no image, and returns what it said if it did not.
/// Nothing stays behind.
///
/// # Errors
///
/// [`RunError::Helper`] if it cannot be started, or says no.
pub fn try_helper(helper: &Path) -> Result<(), RunError> {
    let failed = |source| RunError::Helper {
        path: helper.to_owned(),
        source,
    };
    let request = Request::Start(StartRequest {
        process: None,
        images: Vec::new(),
        working_directory: None,
        command: vec!["/bin/true".into()],
        variables: Vec::new(),
    });
    let request = written_down(&request).map_err(failed)?;
    let output = called(helper, &request).output().map_err(failed)?;
    if output.status.success() {
        Ok(())
    } else {
        Err(failed(refusal(&output.stderr)))
    }
}

/// The first lines that the helper wrote, as one.
fn refusal(said: &[u8]) -> io::Error {
    let said = String::from_utf8_lossy(said);
    let lines = said
        .lines()
        .take_while(|line| !line.starts_with("hint: "))
        .map(|line| {
            line.trim_start_matches("error: ")
                .trim_start_matches("cause: ")
        });
    io::Error::other(lines.collect::<Vec<_>>().join(": "))
}

/// Reads `meta/env.json` of an image by way of the helper; `None` if it has none.
///
/// # Errors
///
/// [`RunError::Helper`] if the helper refuses; what it said is in the error.
pub fn read_metadata_through(
    helper: &Helper,
    image: ImageFile,
) -> Result<Option<Vec<u8>>, RunError> {
    let failed = |source| RunError::Helper {
        path: helper.path.clone(),
        source,
    };
    // Any will do: nobody else sees it there.
    let mount_point = helper.policy.mount_points.first();
    let mount_point = mount_point.ok_or_else(|| failed(io::ErrorKind::Unsupported.into()))?;
    let file = mount_point.join("meta/env.json");
    let script = "[ -e \"$1\" ] || exit 0; exec cat -- \"$1\"";
    let command = ["/bin/sh", "-c", script, "sh"].map(OsString::from);
    let plan = MountPlan {
        backend: Backend::Helper,
        fuse: FusePrograms::default(),
        operations: vec![Operation::Image {
            image,
            mount_point: mount_point.clone(),
        }],
    };
    let request = Request::Start(StartRequest {
        process: None,
        images: images_of(&plan).map_err(failed)?,
        working_directory: None,
        command: command.into_iter().chain([file.into()]).collect(),
        variables: vec!["PATH=/usr/bin:/bin".into()],
    });
    let request = written_down(&request).map_err(failed)?;
    let output = called(&helper.path, &request).output().map_err(failed)?;
    if output.status.success() {
        Ok(Some(output.stdout).filter(|bytes| !bytes.is_empty()))
    } else {
        let said = String::from_utf8_lossy(&output.stderr);
        let first = said.lines().next().unwrap_or_default();
        Err(failed(io::Error::other(
            first.trim_start_matches("error: ").to_owned(),
        )))
    }
}

fn images_of(plan: &MountPlan) -> io::Result<Vec<RequestedImage>> {
    let mut images = Vec::with_capacity(plan.operations.len());
    for operation in &plan.operations {
        if let Operation::Image { image, mount_point } = operation {
            // The helper is another program, and gets only what stays open.
            fcntl_setfd(&image.file, FdFlags::empty())?;
            images.push(RequestedImage {
                descriptor: image.file.as_raw_fd(),
                format: image.format,
                mount_point: mount_point.clone(),
                name: image.path.clone().into_os_string(),
            });
        }
    }
    Ok(images)
}

/// A file in memory with the request.
fn written_down(request: &Request) -> io::Result<File> {
    let bytes = request
        .encode()
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > Request::MAX_SIZE) {
        return Err(io::ErrorKind::ArgumentListTooLong.into());
    }
    let name = CString::new(cabane_mount::helper::NAME)?;
    let mut file = File::from(memfd_create(name, MemfdFlags::empty())?);
    file.write_all(&bytes)?;
    Ok(file)
}

fn called(helper: &Path, request: &File) -> Command {
    let mut command = Command::new(helper);
    command
        .arg(request.as_fd().as_raw_fd().to_string())
        .env_clear();
    command
}
