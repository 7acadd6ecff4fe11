// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The part of `config.toml` about images with a root file system of their own.

use cabane_label::MountPoint;

use super::PathTemplate;
use crate::DeviceRequest;
use crate::ask::{Field, Section};
use crate::diagnostic::quote;

/// How images with a root file system of their own are entered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerSettings {
    /// What of the system is always seen in them.
    pub binds: Vec<BindSetting>,
    /// Devices that they have, where a machine has those.
    pub devices: Vec<DeviceRequest>,
}

/// A file or directory that is seen at the same or another place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindSetting {
    /// Where it is.
    pub source: PathTemplate,
    /// Where it is seen, if that is another place.
    pub target: Option<MountPoint>,
    /// Whether writing is refused there.
    pub read_only: bool,
}

/// Reads the section; what has a mistake has been noted and is left out.
pub(super) fn read(section: &Section<'_>) -> ContainerSettings {
    let mut binds = Vec::new();
    for item in section.items("binds", "a word of `binds`") {
        binds.extend(bind(&item));
    }
    let mut devices = Vec::new();
    for item in section.items("devices", "a device") {
        devices.extend(item.device());
    }
    ContainerSettings { binds, devices }
}

fn bind(field: &Field<'_>) -> Option<BindSetting> {
    let text = field.text()?;
    let parts: Vec<&str> = text.split(':').collect();
    let (source, target, read_only) = match parts.as_slice() {
        [source] => (source, None, false),
        [source, "ro"] => (source, None, true),
        [source, target] => (source, Some(*target), false),
        [source, target, "ro"] => (source, Some(*target), true),
        _ => {
            let message = format!("{} does not say what is shown where", quote(text));
            let hint = "write `SOURCE`, `SOURCE:TARGET`, or `SOURCE:TARGET:ro`";
            return field.refuse(&message, hint);
        }
    };
    let source = source.parse().map_err(|error: super::PathTemplateError| {
        field.report.note(Some(field.place()), &error.to_string(), error.hint().as_deref());
    });
    let target = target.map(MountPoint::below_root).transpose();
    let target = target.map_err(|error| {
        let hint = error.hint();
        field.report.note(Some(field.place()), &error.to_string(), hint.as_deref());
    });
    Some(BindSetting { source: source.ok()?, target: target.ok()?, read_only })
}
