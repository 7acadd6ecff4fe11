// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Why a container cannot have a device, and what its user should know.

use std::io;
use std::path::Path;

use cabane_label::shown;
use cabane_report::{Kind, Report};

/// Why a container cannot have a device.
#[derive(Debug)]
pub enum DeviceError {
    /// There is none of this name.
    Unknown(Report),
    /// It is described twice, or something that it needs cannot be used.
    Unusable(Report),
}

impl DeviceError {
    /// Something is not what a specification says, at a line of it.
    pub(crate) fn outdated(report: Report) -> Self {
        let hint = "the file may be older than the driver: the vendor's tool writes it anew";
        Self::Unusable(report.hinted(hint.to_owned()))
    }

    /// What a specification names, at a line of it, cannot be looked at.
    pub(crate) fn place(file: &Path, line: u32, path: &Path, source: io::Error) -> Self {
        let message = format!("{}:{line}: cannot give {}", shown(file), shown(path));
        Self::outdated(Report::caused(Kind::NotStarted, message, source))
    }
}

impl From<DeviceError> for Report {
    fn from(error: DeviceError) -> Self {
        let (DeviceError::Unknown(report) | DeviceError::Unusable(report)) = error;
        report
    }
}

/// What the user of a device should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceWarning {
    /// What it is, safe to show.
    pub text: String,
    /// Whether it is about nodes that this user may not open.
    pub is_no_access: bool,
}
