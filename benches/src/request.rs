// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A request to the helper, written down beforehand, so that nothing but the helper is
//! measured.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;

use cabane_mount::{ImageFormat, Request, RequestedImage, StartRequest, Way};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd};

/// The files that the helper inherits; both must stay open until it is started.
#[derive(Debug)]
pub(crate) struct PreparedRequest {
    request: File,
    _image: File,
}

impl PreparedRequest {
    /// Opens the image and writes down what is to be done with it.
    pub(crate) fn new(
        format: ImageFormat,
        image: &Path,
        mount_point: &Path,
        command: Vec<OsString>,
        variables: Vec<OsString>,
    ) -> io::Result<Self> {
        let file = File::open(image)?;
        fcntl_setfd(&file, FdFlags::empty())?;
        let request = Request::Start(StartRequest {
            images: vec![RequestedImage {
                way: Way::Kernel,
                verity: None,
                descriptor: file.as_raw_fd(),
                format,
                mount_point: mount_point.to_owned(),
                name: image.into(),
            }],
            command,
            variables,
            ..StartRequest::default()
        });
        let bytes = request.encode().map_err(io::Error::other)?;
        let mut memory = File::from(memfd_create("request", MemfdFlags::empty())?);
        memory.write_all(&bytes)?;
        Ok(Self { request: memory, _image: file })
    }

    /// Returns the helper that will read it.
    pub(crate) fn command(&self, helper: &Path) -> Command {
        let mut command = Command::new(helper);
        command.arg(self.request.as_raw_fd().to_string()).env_clear();
        command
    }
}
