// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The image that is unpacked: found, judged, and checked.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use cabane_environment::{fill_in_metadata, find_image};
use cabane_label::{Digest, ImageDescription, shown, shown_word};
use cabane_mount::ImageFile;
use cabane_report::{IoContext, Kind, Report, Result};
use cabane_resolve::LocatedImage;
use cabane_run::open_image;
use cabane_signature_policy::check_at_start;
use cabane_site::Context;

use crate::objects::Objects;
use crate::store::write_failed;

/// What others than owner and group may do.
const OTHERS_READ: u32 = 0o004;
const OTHERS_ENTER: u32 = 0o001;
const OTHERS_WRITE: u32 = 0o022;

/// An image that may be unpacked.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) digest: Digest,
    pub(crate) label: Option<String>,
    /// How it is called in messages.
    pub(crate) name: String,
    located: LocatedImage,
}

impl Source {
    /// Finds an image that was typed.
    ///
    /// # Errors
    ///
    /// It is not in a repository, not everyone may read it, it is not signed as the site requires, or it
    /// has a root file system of its own.
    pub(crate) fn find(context: &Context, typed: &str) -> Result<Self> {
        let description: ImageDescription = typed.parse()?;
        let mut located = find_image(context, &description)?;
        let label = located.label.as_ref().map(ToString::to_string);
        let name = label.clone().unwrap_or_else(|| shown(&located.path));
        let Some(digest) = located.digest.clone() else {
            let message = format!("the image {name} is in no repository");
            let path = shown_word(&located.path);
            let hint = format!("`cabane image add NAME/VERSION {path}` adds it");
            return Err(Report::new(Kind::BadInput, message).hinted(hint));
        };
        check_at_start(context, &located)?;
        fill_in_metadata(context, &mut located)?;
        if located.meta.as_ref().is_some_and(|meta| meta.container.is_some()) {
            let message = format!(
                "the image {name} has a root file system of its own, and is always mounted"
            );
            return Err(Report::new(Kind::BadInput, message));
        }
        check_readers(&name, &located.path)?;
        Ok(Self { digest, label, name, located })
    }

    /// Opens the image, and compares its content with its digest. Nobody can change what is returned:
    /// of a file that others than root can write, it is a copy.
    pub(crate) fn open(&self, staging: &Path, objects: &mut Objects) -> Result<ImageFile> {
        let mut image = open_image(&self.located.path, self.located.format)?;
        let read = || format!("read the image {}", self.name);
        let found = image.file.metadata().or_failed(read)?;
        let (sum, _) = if found.uid() == 0 && found.mode() & OTHERS_WRITE == 0 {
            objects.sum(&mut image.file, None).or_failed(read)?
        } else {
            let (path, file) = new_copy(staging)?;
            let (mut copy, mut original) = (file, image.file);
            let sum = objects
                .sum(&mut original, Some(&mut copy))
                .map_err(|error| write_failed(&path, error))?;
            image.file = File::open(&path).or_failed(read)?;
            sum
        };
        if sum == self.digest.as_str() {
            return Ok(image);
        }
        let message = format!("the image {} is damaged: its digest is {sum}", self.name);
        let hint = "`cabane image verify` checks an image, and `cabane image pull` repairs it";
        Err(Report::new(Kind::BadInput, message).hinted(hint.to_owned()))
    }
}

fn new_copy(staging: &Path) -> Result<(PathBuf, File)> {
    let path = staging.join("image");
    let file = File::create_new(&path).map_err(|error| write_failed(&path, error))?;
    Ok((path, file))
}

/// Refuses an image that not everyone may read: everyone may read what is unpacked.
fn check_readers(name: &str, path: &Path) -> Result<()> {
    let failed = || format!("inspect {}", shown(path));
    let real = fs::canonicalize(path).or_failed(failed)?;
    let file = fs::metadata(&real).or_failed(failed)?;
    let closed =
        |above: &&Path| -> io::Result<bool> { Ok(fs::metadata(above)?.mode() & OTHERS_ENTER == 0) };
    let mut what = (file.mode() & OTHERS_READ == 0).then(|| real.clone());
    for above in real.ancestors().skip(1) {
        if closed(&above).or_failed(failed)? {
            what = Some(above.to_owned());
        }
    }
    let Some(what) = what else {
        return Ok(());
    };
    let message =
        format!("not everyone may read the image {name}, and everyone could when it is unpacked");
    let hint = format!("`ls -ld {}` shows who may", shown_word(&what));
    Err(Report::new(Kind::BadInput, message).hinted(hint))
}
