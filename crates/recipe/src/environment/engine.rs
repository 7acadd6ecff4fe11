// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What only environment definition files (EDF) of container engines have.

use cabane_label::{ImageDescription, UenvDescription};
use cabane_view::VariableSetting;

use super::container_reference::container_image;
use super::read::Reader;
use crate::DeviceRequest;
use crate::ask::Field;
use crate::diagnostic::quote;

/// Keys that make a file an environment definition file.
pub(super) const KEYS: [&str; 5] =
    ["image", "base_environment", "entrypoint", "writable", "annotations"];

impl Reader<'_, '_> {
    /// Reads the container image; an empty text names none.
    pub(super) fn container(&self, field: &Field<'_>) -> Option<UenvDescription> {
        let written = field.text()?;
        let text = self.filled(field)?;
        if text.is_empty() {
            return None;
        }
        let text = self.at_home(field, text)?;
        let image = Self::word_by(field, written, &text, container_image)?;
        if let (ImageDescription::Path(_), Some(place)) = (&image.image, &image.mount_point)
            && !place.is_root()
        {
            return field.refuse("a container image is mounted at `/`", "name its path alone");
        }
        Some(self.anchored(image))
    }

    /// Reads a device. A node in `/dev` is visible anyhow, and is no device to look for.
    pub(super) fn device(field: &Field<'_>) -> Option<DeviceRequest> {
        let text = field.text()?;
        if !text.starts_with("/dev/") {
            return field.device();
        }
        if text.contains(':') {
            let message = format!("{} gives a device another name", quote(text));
            return field.refuse(&message, "leave it out: all of `/dev` is visible, as it is");
        }
        None
    }

    /// Reads the value of a variable. `${PATH}:…` for `PATH` adds to the value that the variable
    /// has in the container, instead of that of the host.
    pub(super) fn engine_variable(&self, field: &Field<'_>) -> Option<VariableSetting> {
        let written = field.text()?;
        let name = field.name.trim_matches('`');
        let mut setting = VariableSetting::default();
        for own in [format!("${{{name}}}"), format!("${{{name}:-}}")] {
            if let Some(rest) = written.strip_prefix(&format!("{own}:")) {
                let start = written.len() - rest.len();
                setting.append = vec![self.filled_part(field, start, rest)?];
                return Some(setting);
            }
            if let Some(rest) = written.strip_suffix(&format!(":{own}")) {
                setting.prepend = vec![self.filled_part(field, 0, rest)?];
                return Some(setting);
            }
        }
        Some(VariableSetting::to(&self.filled(field)?))
    }
}
