// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which of the devices are meant.

use std::collections::BTreeSet;
use std::path::Path;

use cabane_label::shown;
use cabane_recipe::{ContainerEdits, DeviceKind, DeviceName, DeviceRequest};

use cabane_report::{Kind, Report};

use crate::find::Known;
use crate::{DIRECTORIES, DeviceError, Devices};

/// The name for all devices of a class, also where no device is called so.
pub(crate) const ALL: &str = "all";

/// Devices that were chosen.
#[derive(Debug, Default)]
pub struct Chosen<'a> {
    /// Their names, in the order in which they were named.
    pub names: Vec<DeviceName>,
    /// What a container gets, and the file that says so.
    pub(crate) edits: Vec<(&'a Path, &'a ContainerEdits)>,
}

impl Devices {
    /// Finds the devices that are wanted. `none` takes back what precedes it.
    ///
    /// # Errors
    ///
    /// A device that is not there, or in conflict.
    pub fn choose(&self, wanted: &[DeviceRequest]) -> Result<Chosen<'_>, DeviceError> {
        let mut names: Vec<DeviceName> = Vec::new();
        for request in wanted {
            let found = match request {
                DeviceRequest::None => {
                    names.clear();
                    continue;
                }
                DeviceRequest::All => {
                    let kinds: BTreeSet<&DeviceKind> =
                        self.known.keys().map(|name| &name.kind).collect();
                    kinds.into_iter().flat_map(|kind| self.all_of(kind)).collect()
                }
                DeviceRequest::Named(name) if self.known.contains_key(name) => vec![name.clone()],
                DeviceRequest::Named(name) if name.name == ALL => self.all_of(&name.kind),
                DeviceRequest::Named(_) => Vec::new(),
            };
            if let (DeviceRequest::Named(name), true) = (request, found.is_empty()) {
                let report =
                    Report::new(Kind::NotStarted, format!("there is no device `{name}` here"));
                return Err(DeviceError::Unknown(report.hinted(self.names())));
            }
            for name in found {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        self.edits_of(names)
    }

    /// Returns what means all devices of a class: the one called so, or every one.
    fn all_of(&self, kind: &DeviceKind) -> Vec<DeviceName> {
        let of_kind = self.known.keys().filter(|name| name.kind == *kind);
        let of_kind: Vec<DeviceName> = of_kind.cloned().collect();
        match of_kind.iter().find(|name| name.name == ALL) {
            Some(all) => vec![all.clone()],
            None => of_kind,
        }
    }

    /// Says which devices there are.
    fn names(&self) -> String {
        let names: Vec<String> = self.known.keys().map(|name| format!("`{name}`")).collect();
        if names.is_empty() {
            let [first, second] = DIRECTORIES;
            return format!(
                "there are none at all: the vendor's tool writes a file into {first} or {second}"
            );
        }
        format!("there are {}", names.join(", "))
    }

    fn edits_of(&self, names: Vec<DeviceName>) -> Result<Chosen<'_>, DeviceError> {
        let mut chosen = Chosen::default();
        let mut files = BTreeSet::new();
        for name in &names {
            let (number, place) = match self.known.get(name) {
                Some(Known::Once { file, place }) => (*file, *place),
                Some(Known::InConflict(files)) => {
                    let path = |file: usize| self.files.get(file).map(|file| shown(&file.path));
                    let [one, other] = files.map(|file| path(file).unwrap_or_default());
                    let message =
                        format!("the device `{name}` is described by {one} and by {other}");
                    let hint = "an administrator removes one of the files".to_owned();
                    let report = Report::new(Kind::NotStarted, message).hinted(hint);
                    return Err(DeviceError::Unusable(report));
                }
                None => continue,
            };
            let Some(file) = self.files.get(number) else {
                continue;
            };
            if files.insert(number) {
                chosen.edits.push((&file.path, &file.content.edits));
            }
            if let Some(device) = file.content.devices.get(place) {
                chosen.edits.push((&file.path, &device.edits));
            }
        }
        chosen.names = names;
        Ok(chosen)
    }
}
