// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Pins: labels that are never removed by themselves.
//!
//! A pin is a file in `pins/` that holds the label; it is called like the refs of the label,
//! without id and date. It belongs to the label, whatever image that has.

use std::collections::BTreeSet;
use std::fs;

use cabane_label::Label;

use crate::layout::RefName;
use crate::staging::Staging;
use crate::{Error, Repository, disk};

const MAX_PIN_SIZE: u64 = 4096;

impl Repository {
    /// Pins a label; returns whether it was not before.
    pub fn pin(&self, label: &Label) -> Result<bool, Error> {
        if self.by_label(label)?.is_none() {
            return Err(Error::NoSuchLabel {
                label: Box::new(label.clone()),
                repository: self.path().to_owned(),
            });
        }
        let (pins, pin) = (self.layout().pins(), self.layout().pin(label));
        self.layout().make(&pins).map_err(Error::io("create", &pins))?;
        if pin.exists() {
            return Ok(false);
        }
        let staging = Staging::open(self.layout())?;
        let new = staging.free_name("pin");
        let text = format!("{label}\n");
        disk::write_new(&new, text.as_bytes()).map_err(Error::io("write", &new))?;
        fs::rename(&new, &pin).map_err(Error::io("write", &pin))?;
        let _ = disk::remove_all(staging.path());
        disk::sync_directory(&pins).map_err(Error::io("write", &pins))?;
        Ok(true)
    }

    /// Takes the pin of a label away; returns whether there was one.
    pub fn unpin(&self, label: &Label) -> Result<bool, Error> {
        let pin = self.layout().pin(label);
        let removed = disk::if_there(fs::remove_file(&pin)).map_err(Error::io("remove", &pin))?;
        Ok(removed.is_some())
    }

    /// Returns the labels that are pinned.
    ///
    /// A pin that cannot be read is an error: no one knows what it protects.
    pub fn pins(&self) -> Result<BTreeSet<Label>, Error> {
        let directory = self.layout().pins();
        disk::freshen(&directory);
        let names = disk::if_there(disk::names(&directory));
        let names = names.map_err(Error::io("read", &directory))?.unwrap_or_default();
        let mut labels = BTreeSet::new();
        for name in names.iter() {
            let path = directory.join(name);
            let text = disk::if_there(disk::read(&path, MAX_PIN_SIZE));
            // Otherwise it was taken away just now.
            let Some(text) = text.map_err(Error::io("read", &path))? else { continue };
            let label = std::str::from_utf8(&text).ok();
            let label = label.and_then(|text| text.trim_end().parse::<Label>().ok());
            match label {
                Some(label) if RefName::file_of_pin(&label) == name => labels.insert(label),
                _ => return Err(Error::Pin { path }),
            };
        }
        Ok(labels)
    }
}
