// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Where the parts of an environment file are written.

use cabane_label::{MountPoint, UenvDescription};
use cabane_view::ViewDescription;

use crate::ask::Field;
use crate::{DeviceRequest, Diagnostic};

/// A part of an environment file that can be missing on a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// An image.
    Image(UenvDescription),
    /// A view.
    View(ViewDescription),
    /// What is mounted at this place.
    Mount(MountPoint),
    /// A device.
    Device(DeviceRequest),
    /// The directory in which the command starts.
    WorkingDirectory,
}

/// The places of the parts of one or several files, the first file first. A place is a [`Diagnostic`]
/// without a message.
#[derive(Clone, Debug, Default)]
pub struct Places(Vec<(Part, Diagnostic)>);

/// Two files that say the same are equal, wherever they say it.
impl PartialEq for Places {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Places {}

impl Places {
    pub(super) fn note(&mut self, part: Part, field: &Field<'_>) {
        let place = field.place();
        self.0.push((part, field.report.source.diagnostic(place.start..place.end, "")));
    }

    pub(super) fn extend(&mut self, later: Self) {
        self.0.extend(later.0);
    }

    /// Returns where a part is written. If several files have it, this is the file whose part counts.
    #[must_use]
    pub fn of(&self, part: &Part) -> Option<&Diagnostic> {
        let mut same = self.0.iter().filter(|(other, _)| other == part).map(|(_, place)| place);
        match part {
            // A later file replaces these.
            Part::Mount(_) | Part::WorkingDirectory => same.next_back(),
            _ => same.next(),
        }
    }
}
