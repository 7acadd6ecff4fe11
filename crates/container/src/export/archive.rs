// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A container image in one file: a layout of OCI as an archive, or what `docker load` reads.
//!
//! The size of a member precedes it, and is not known then: its place is left out, and
//! written when the member is whole. So nothing is written twice.

use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use cabane_label::escape;
use serde_json::json;

use super::layout::{LAYOUT, Unseen, entry, index_of};
use super::{Blob, Exported, Target, WriteBlob};
use crate::Error;
use crate::tar::{BLOCK, fill, member_head};

/// Which archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArchiveForm {
    /// A layout of OCI.
    Oci,
    /// The same with a document for `docker load`.
    Docker,
}

/// An archive that is being written.
#[derive(Debug)]
pub struct ArchiveTarget {
    place: PathBuf,
    unseen: Unseen,
    form: ArchiveForm,
    blobs: Vec<Blob>,
}

impl ArchiveTarget {
    /// Begins to write an archive, of which nothing is seen at `path` until it is whole.
    ///
    /// # Errors
    ///
    /// Nothing can be written there.
    pub fn new(path: &Path, form: ArchiveForm) -> Result<Self, Error> {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let unseen = Unseen::new(parent.unwrap_or(Path::new(".")));
        Ok(Self {
            place: path.to_owned(),
            unseen: unseen.map_err(Error::io("write", path))?,
            form,
            blobs: Vec::new(),
        })
    }

    /// Gives the archive its name.
    ///
    /// # Errors
    ///
    /// There is a file already that is not to be replaced.
    pub fn finish(
        mut self,
        name: Option<&str>,
        exported: &Exported,
        replace: bool,
    ) -> Result<(), Error> {
        let place = self.place.clone();
        let index = index_of(&[entry(name, &exported.blob)]);
        let mut documents = vec![
            ("index.json", index.to_string()),
            ("oci-layout", String::from_utf8_lossy(LAYOUT).into_owned()),
        ];
        if self.form == ArchiveForm::Docker {
            documents.push(("manifest.json", manifest_of(name, exported)));
        }
        for (name, text) in documents {
            self.member(|output| {
                output.write_all(text.as_bytes()).map_err(Error::io("write", &place))?;
                Ok((name.to_owned(), text.len() as u64, ()))
            })?;
        }
        let ended = self.unseen.file.write_all(&[0; 2 * BLOCK]);
        ended.map_err(Error::io("write", &place))?;
        let published = self.unseen.publish(&place, replace);
        if published.map_err(Error::io("write", &place))? {
            return Ok(());
        }
        Err(Error::file_there(&place))
    }

    /// Writes a member whose name and size are known when it was written.
    fn member<T>(
        &self,
        write: impl FnOnce(&mut BufWriter<&File>) -> Result<(String, u64, T), Error>,
    ) -> Result<T, Error> {
        let failed = || Error::io("write", &self.place);
        let mut file = &self.unseen.file;
        let start = file.stream_position().map_err(failed())?;
        file.seek(SeekFrom::Start(start + BLOCK as u64)).map_err(failed())?;
        let mut output = BufWriter::with_capacity(1 << 18, file);
        let (name, size, written) = write(&mut output)?;
        fill(&mut output, size).and_then(|()| output.flush()).map_err(failed())?;
        drop(output);
        file.write_all_at(&member_head(&name, size), start).map_err(failed())?;
        Ok(written)
    }
}

impl Target for ArchiveTarget {
    fn put(&mut self, write: &mut WriteBlob<'_>) -> Result<Blob, Error> {
        let before = self.unseen.file.stream_position();
        let before = before.map_err(Error::io("write", &self.place))?;
        let blob = self.member(|output| {
            let blob = write(output)?;
            Ok((path_of(&blob), blob.size, blob))
        })?;
        if self.blobs.contains(&blob) {
            // A layer may be there twice, its content not.
            let file = &mut self.unseen.file;
            let back = file.set_len(before).and_then(|()| file.seek(SeekFrom::Start(before)));
            back.map_err(Error::io("write", &self.place))?;
        } else {
            self.blobs.push(blob.clone());
        }
        Ok(blob)
    }

    fn place(&self) -> &Path {
        &self.place
    }
}

fn path_of(blob: &Blob) -> String {
    format!("blobs/sha256/{}", blob.digest.as_str())
}

/// Returns the document by which `docker load` finds everything.
fn manifest_of(name: Option<&str>, exported: &Exported) -> String {
    let tags: Vec<String> = name
        .map(|name| {
            let has_tag = name.rsplit('/').next().is_some_and(|last| last.contains(':'));
            let tag = if has_tag { "" } else { ":latest" };
            format!("{}{tag}", escape(name))
        })
        .into_iter()
        .collect();
    let layers: Vec<String> = exported.layers.iter().map(path_of).collect();
    json!([{"Config": path_of(&exported.config), "RepoTags": tags, "Layers": layers}]).to_string()
}
