// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What of the system is always seen in container images.

use std::ffi::OsStr;

use cabane_recipe::settings::table;
use cabane_recipe::{BindSetting, DeviceRequest};
use cabane_report::Result;
use cabane_run::loaded::Bind;

use super::{Layers, Origin, Value};

/// How container images are entered.
#[derive(Clone, Debug)]
pub struct ContainerSetting {
    /// What of the system is always seen in them.
    pub binds: Vec<Bind>,
    /// Devices that they have where there are such.
    pub devices: Vec<(DeviceRequest, Origin)>,
    /// The registry of names that have none: a host, maybe with a prefix.
    pub default_registry: Value<Option<String>>,
}

impl Layers<'_> {
    pub(super) fn container(&self) -> Result<ContainerSetting> {
        let devices = self.files.iter().flat_map(|(path, settings)| {
            let origin = Origin::File(path.clone());
            let devices = settings.container.devices.iter();
            devices.map(move |device| (device.clone(), origin.clone()))
        });
        Ok(ContainerSetting {
            binds: self.container_binds(),
            devices: devices.collect(),
            default_registry: self.optional(&table::DEFAULT_REGISTRY)?,
        })
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
