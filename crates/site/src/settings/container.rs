// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What of the system is always seen in container images.

use std::ffi::OsStr;

use cabane_recipe::{BindSetting, DeviceRequest};
use cabane_run::loaded::Bind;

use super::{Layers, Origin};

/// How container images are entered.
#[derive(Clone, Debug, Default)]
pub struct ContainerSetting {
    /// What of the system is always seen in them.
    pub binds: Vec<Bind>,
    /// Devices that they have where there are such.
    pub devices: Vec<(DeviceRequest, Origin)>,
}

impl Layers<'_> {
    pub(super) fn container(&self) -> ContainerSetting {
        let devices = self.files.iter().flat_map(|(path, settings)| {
            let origin = Origin::File(path.clone());
            let devices = settings.container.devices.iter();
            devices.map(move |device| (device.clone(), origin.clone()))
        });
        ContainerSetting { binds: self.container_binds(), devices: devices.collect() }
    }

    /// Returns what the files name, the site's first. A place whose variables are not set, or
    /// set to something else than a path, does not exist for this user.
    fn container_binds(&self) -> Vec<Bind> {
        let binds = self.files.iter().flat_map(|(_, settings)| &settings.container.binds);
        binds.filter_map(|bind| self.bind(bind)).collect()
    }

    fn bind(&self, setting: &BindSetting) -> Option<Bind> {
        let variable = |name: &str| self.variables.get(name).map(OsStr::to_owned);
        let source = setting.source.resolve(variable).ok()?;
        let target = match &setting.target {
            Some(target) => target.clone(),
            None => source.to_str()?.parse().ok()?,
        };
        Some(Bind { source, target, read_only: setting.read_only })
    }
}
