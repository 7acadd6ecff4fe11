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

/// The places of the parts of one or several files: of each part, the one that counts. A place is a
/// [`Diagnostic`] without a message.
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
        self.put(part, field.report.source.diagnostic(place.start..place.end, ""));
    }

    pub(super) fn extend(&mut self, later: Self) {
        for (part, place) in later.0 {
            self.put(part, place);
        }
    }

    /// Each part has one place: bases that share bases would give many.
    fn put(&mut self, part: Part, place: Diagnostic) {
        match self.0.iter_mut().find(|(other, _)| *other == part) {
            None => self.0.push((part, place)),
            // A later file replaces these.
            Some((Part::Mount(_) | Part::WorkingDirectory, before)) => *before = place,
            Some(_) => {}
        }
    }

    /// Returns where a part is written. If several files have it, this is the file whose part counts.
    #[must_use]
    pub fn of(&self, part: &Part) -> Option<&Diagnostic> {
        self.0.iter().find(|(other, _)| other == part).map(|(_, place)| place)
    }
}
