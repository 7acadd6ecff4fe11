// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From where labels were imported, in a file beside the image: labels, and what was typed for each. It is
//! beside the image and not in it, so that two labels of one image can have two sources. The file goes
//! when the image goes, and only users who may read the image can read it.

use std::collections::BTreeMap;

use crate::tree::put;
use crate::writer::Writer;
use crate::{Error, Record, Repository, disk};

/// The name of the file.
pub(crate) const REFERENCES: &str = "references.json";
/// The largest file that is read, in bytes.
const MAX_SIZE: u64 = 4 * 1024 * 1024;

impl Repository {
    /// Returns from where the label of a record was imported; `None` if that is not known.
    ///
    /// # Errors
    ///
    /// A file that cannot be read.
    pub fn reference(&self, record: &Record) -> Result<Option<String>, Error> {
        let mut references = self.references(record)?;
        Ok(references.remove(&record.label.to_string()))
    }

    /// Records from where the label of a record was imported, in the place of what was recorded before.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchImage`], or that nothing can be written there.
    pub fn keep_reference(&self, record: &Record, reference: &str) -> Result<(), Error> {
        let mut writer = Writer::open(self.layout())?;
        writer.lock();
        let mut references = self.references(record)?;
        if references.get(&record.label.to_string()).is_some_and(|known| known == reference) {
            return Ok(());
        }
        let labels = self.by_digest(&record.digest)?;
        references.retain(|label, _| labels.iter().any(|one| one.label.to_string() == *label));
        references.insert(record.label.to_string(), reference.to_owned());
        let new = writer.staging.free_name("references");
        // Strings are always JSON.
        let bytes = serde_json::to_vec_pretty(&references).unwrap_or_default();
        disk::write_new(&new, &bytes).map_err(Error::io("write", &new))?;
        put(&writer, &record.digest, &new, REFERENCES)
    }

    /// Reads the file. One that is damaged says nothing: another import writes it again.
    fn references(&self, record: &Record) -> Result<BTreeMap<String, String>, Error> {
        let path = self.layout().image_directory(&record.digest).join(REFERENCES);
        let bytes =
            disk::if_there(disk::read(&path, MAX_SIZE)).map_err(Error::io("read", &path))?;
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default())
    }
}
