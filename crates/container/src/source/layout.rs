// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Layouts of OCI: a directory of documents and blobs, or an archive of one.
//!
//! ```text
//! oci-layout              which version this is
//! index.json              the images, by their names
//! blobs/sha256/<digest>   everything else
//! ```

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use cabane_label::Digest;

use super::Archive;
use crate::document::{Descriptor, Document, MAX_DOCUMENT};
use crate::image::{Blobs, Chosen, choose_of, read_small};
use crate::layer::Bytes;
use crate::{Error, Platform, digest};

/// A layout on disk.
#[derive(Debug)]
pub struct Layout {
    path: PathBuf,
    /// None where it is a directory.
    archive: Option<Archive>,
}

impl Layout {
    /// Opens a directory, or an archive of one; what is compressed is unpacked in `scratch`.
    ///
    /// # Errors
    ///
    /// Something else.
    pub fn open(path: &Path, scratch: &Path) -> Result<Self, Error> {
        let is_directory = fs::metadata(path).map_err(Error::io("read", path))?.is_dir();
        let archive = (!is_directory).then(|| Archive::open(path, scratch)).transpose()?;
        Ok(Self { path: path.to_owned(), archive })
    }

    /// Tells whether there is a list of images.
    #[must_use]
    pub fn is_one(&self) -> bool {
        self.open_member("index.json").is_ok()
    }

    /// Chooses an image, by its name if there are several.
    ///
    /// # Errors
    ///
    /// None of this name, or none for the platform.
    pub fn choose(&self, name: Option<&str>, platform: &Platform) -> Result<Chosen, Error> {
        let bytes = self.document("index.json")?;
        let Document::Index(list) = Document::read(&bytes, "index.json")? else {
            return Err(Error::not_an_image(&self.path, "its index.json is no list of images"));
        };
        let is_meant = |one: &Descriptor, name: &str| {
            one.name.as_deref().is_some_and(|its| is_called(its, name))
                || digest::written(&one.digest) == name
        };
        let of_name = list.iter().filter(|one| name.is_none_or(|name| is_meant(one, name)));
        let of_name: Vec<Descriptor> = of_name.cloned().collect();
        let names = list.iter().filter_map(|one| one.name.clone());
        let is_ambiguous = || names.clone().collect::<BTreeSet<_>>().len() > 1;
        if of_name.is_empty() || (name.is_none() && is_ambiguous()) {
            return Err(Error::no_such_name(&self.path, name, names));
        }
        let mut get = |one: &Descriptor| read_small(self, one, "a manifest");
        // The list itself is no document of the image, unless it is all there is of one.
        match of_name.as_slice() {
            [one] if one.platform.is_none() => {
                let bytes = get(one)?;
                crate::image::choose(bytes, platform, &mut get)
            }
            list => {
                let own = digest::of(&bytes);
                let mut chosen = choose_of(list, own.clone(), platform, &mut get)?;
                chosen.index.take_if(|index| *index == own);
                Ok(chosen)
            }
        }
    }

    fn document(&self, name: &str) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        let opened = match self.open_member(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(Error::not_an_image(&self.path, format!("it has no {name}")));
            }
            opened => opened.map_err(Error::io("read", &self.path))?,
        };
        let read = opened.take(MAX_DOCUMENT + 1).read_to_end(&mut bytes);
        read.map_err(Error::io("read", &self.path))?;
        Ok(bytes)
    }

    fn open_member(&self, name: &str) -> io::Result<Bytes<'_>> {
        if let Some(archive) = &self.archive {
            return archive.member(name.as_bytes());
        }
        let file = File::open(self.path.join(name))?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a file"));
        }
        Ok(Box::new(file))
    }
}

/// Whether a name in an index is meant: the whole, or the tag at its end.
fn is_called(its: &str, name: &str) -> bool {
    its == name || its.rsplit_once(':').is_some_and(|(_, tag)| tag == name && !tag.contains('/'))
}

impl Blobs for Layout {
    fn open(&self, digest: &Digest) -> io::Result<Bytes<'_>> {
        self.open_member(&format!("blobs/sha256/{}", digest.as_str()))
    }
}
