// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which devices containers can have.

use cabane_device::{Device, Devices};

use super::QUICK;
use crate::facts::{Answer, DeviceFacts};
use crate::probe::within;

/// Reads what vendors say about the devices of this machine.
pub(crate) fn look_at_devices() -> Answer<DeviceFacts> {
    within(QUICK, || {
        let devices = Devices::of_machine();
        let first_line = |text: &str| text.lines().next().unwrap_or_default().to_owned();
        let broken = devices.problems().iter();
        let broken = broken.map(|problem| first_line(&problem.text));
        let conflict = |device: Device<'_>| {
            let other = device.conflict?;
            let (name, file) = (device.name, device.file.display());
            Some(format!("{name} is described by {} and by {file}", other.display()))
        };
        let conflicts = devices.all().filter_map(conflict);
        let known = devices.all().filter(|device| device.conflict.is_none());
        DeviceFacts {
            problems: broken.chain(conflicts).collect(),
            names: known.map(|device| device.name.to_string()).collect(),
        }
    })
}
