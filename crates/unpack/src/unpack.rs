// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Unpacking one image.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

use cabane_label::Digest;
use cabane_mount::{UnpackedTree, attach_for_root};
use cabane_report::{Kind, Report, Result};
use cabane_site::Context;
use jiff::Timestamp;
use rustix::fs::syncfs;

use crate::objects::Objects;
use crate::record::{RECORD, Record};
use crate::source::Source;
use crate::store::{Store, write_failed};
use crate::tree::Unpacking;

/// What became of an image that was to be unpacked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unpacked {
    /// How it is called.
    pub name: String,
    /// Its digest.
    pub digest: Digest,
    /// What was done; nothing if it was there.
    pub new: Option<NewTree>,
}

/// What was unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewTree {
    /// How many files the image has.
    pub files: u64,
    /// Their size in bytes.
    pub bytes: u64,
    /// The size of those that no other image had.
    pub new_bytes: u64,
}

impl Store {
    /// Unpacks an image, unless it is there.
    ///
    /// # Errors
    ///
    /// The image cannot be found, or may not be unpacked; it has a file that cannot be unpacked; those of
    /// reading and writing. Then nothing is left.
    pub fn unpack(&self, context: &Context, typed: &str) -> Result<Unpacked> {
        let source = Source::find(context, typed)?;
        let (name, digest) = (source.name.clone(), source.digest.clone());
        let target = self.trees().join(digest.as_str());
        if target.exists() {
            return Ok(Unpacked { name, digest, new: None });
        }
        let new = self.unpack_new(context, &source, &target);
        self.clear_staging()?;
        if new.is_err() {
            self.remove_unused_objects()?;
        }
        Ok(Unpacked { name, digest, new: Some(new?) })
    }

    fn unpack_new(&self, context: &Context, source: &Source, target: &Path) -> Result<NewTree> {
        let staging = self.staging();
        let mut objects = Objects::new(self.objects(), staging.join("objects"));
        let image = source.open(&staging, &mut objects)?;
        let total = image.file.metadata().map_or(0, |found| found.len());
        let mount = attach_for_root(&image).map_err(|error| {
            let hint = error.hint();
            Report::new(Kind::Failure, error).hinted(hint)
        })?;
        let directory = staging.join("tree");
        let tree = directory.join(UnpackedTree::TREE);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&tree)
            .map_err(|error| write_failed(&tree, error))?;
        let progress = context.transfer(&format!("unpacking {}", source.name));
        let unpacked = Unpacking::new(mount, &source.name, &tree, &mut objects)
            .run(&|done| progress.show(done, total.max(done)));
        progress.end();
        let sizes = unpacked?;
        let record = Record {
            label: source.label.clone(),
            files: sizes.files,
            bytes: sizes.bytes,
            unpacked: Timestamp::now(),
        };
        write_record(&record, &directory).map_err(|error| write_failed(&directory, error))?;
        self.keep(&objects, &directory, target).map_err(|error| write_failed(target, error))?;
        let new_bytes = objects.new_bytes;
        Ok(NewTree { files: sizes.files, bytes: sizes.bytes, new_bytes })
    }

    /// Lets a tree appear. A name leads to nothing that is not on disk.
    fn keep(&self, objects: &Objects, directory: &Path, target: &Path) -> io::Result<()> {
        let store = File::open(&self.path)?;
        syncfs(&store)?;
        objects.keep()?;
        syncfs(&store)?;
        fs::rename(directory, target)?;
        File::open(self.trees())?.sync_all()
    }
}

fn write_record(record: &Record, directory: &Path) -> io::Result<()> {
    let path = directory.join(RECORD);
    fs::write(&path, serde_json::to_vec(record)?)?;
    fs::set_permissions(&path, Permissions::from_mode(0o644))?;
    // Nobody else can open it to hold its lock, and all can reach the files.
    fs::set_permissions(directory, Permissions::from_mode(0o711))
}
