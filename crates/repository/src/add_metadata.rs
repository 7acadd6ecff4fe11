// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Adding the metadata of an image without the image, for a repository of uenv.

use std::fs;
use std::path::Path;

use cabane_label::Digest;

use crate::add_verified::restrict;
use crate::meta_copy::copy_meta;
use crate::repository::read_meta_directory;
use crate::writer::Writer;
use crate::{Access, Error, Repository, disk};

impl Repository {
    /// Puts a copy of a metadata directory where the image with this digest would have its metadata, with
    /// the access that the image would have. Returns `false` if the image or metadata are there already;
    /// then only the access changes. An image that is there keeps its own metadata, or none.
    ///
    /// # Errors
    ///
    /// Metadata that are malformed or too large; and those of writing.
    pub fn add_metadata(
        &self,
        digest: &Digest,
        meta: &Path,
        access: Access,
    ) -> Result<bool, Error> {
        read_meta_directory(meta)?;
        let mut writer = Writer::begin(self.layout())?;
        writer.unlock();
        let new = writer.staging.free_name("new");
        fs::create_dir(&new).map_err(Error::io("create", &new))?;
        access.close_directory(&new)?;
        copy_meta(meta, &new.join("meta"))?;
        writer.claim(digest);
        writer.lock();
        let place = self.layout().image_directory(digest);
        match fs::rename(&new, &place) {
            Ok(()) => {
                let images = self.layout().images();
                disk::sync_directory(&images).map_err(Error::io("write", &images))?;
                return Ok(true);
            }
            Err(error) if disk::is_taken(&error) => {}
            Err(error) => return Err(Error::io("create", &place)(error)),
        }
        if self.has_image(digest) {
            restrict(&writer, digest, access)?;
            return Ok(false);
        }
        if Access::of_directory(&place, &self.layout().images()) == Access::AsNewFiles {
            access.close_directory(&place)?;
        }
        let there = self.layout().meta(digest);
        match fs::rename(new.join("meta"), &there) {
            Ok(()) => Ok(true),
            Err(error) if disk::is_taken(&error) => Ok(false),
            Err(error) => Err(Error::io("create", &there)(error)),
        }
    }
}
