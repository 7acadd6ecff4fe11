// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Where files are that are no images yet.

use std::fs;
use std::path::{Path, PathBuf};

use cabane_process::Scratch;
use cabane_registry::RemoteImage;
use cabane_report::{IoContext, Result};
use cabane_site::Context;

/// Returns where files without a name may be: where images are downloaded to, if there is
/// such a place, and beside it if it is not there yet. Nothing is made for it that stays.
pub fn scratch_place(context: &Context) -> Result<PathBuf> {
    let place = match context.repository_if_there() {
        Ok(Some(written)) => {
            let place = written.repository.path().join("tmp");
            fs::create_dir_all(&place).or_failed(|| format!("make {}", place.display()))?;
            Some(place)
        }
        Ok(None) => {
            let path = context.default_repository_path()?;
            let above = path.ancestors().skip(1).find(|place| place.is_dir());
            // Without a name, it is seen by no one.
            let is_usable = |place: &&Path| tempfile::tempfile_in(place).is_ok();
            above.filter(is_usable).map(Path::to_owned)
        }
        Err(_) => None,
    };
    Ok(place.unwrap_or_else(std::env::temp_dir))
}

/// Where the bytes of an image are that did not all arrive: a directory in the cache, so that the next
/// attempt continues. Without a cache it is a temporary one.
pub(crate) struct PartialDirectory {
    path: PathBuf,
    _scratch: Option<Scratch>,
}

impl PartialDirectory {
    /// Makes the directory for one purpose and image.
    pub(crate) fn of(context: &Context, purpose: &str, image: &RemoteImage) -> Result<Self> {
        let cache = context.settings.cache_directory.value.as_ref();
        let Some(cache) = cache else {
            let scratch = Scratch::new().or_failed(|| "make a temporary directory".to_owned())?;
            return Ok(Self { path: scratch.path().to_owned(), _scratch: Some(scratch) });
        };
        let path = cache.join(purpose).join(image.digest.as_str());
        fs::create_dir_all(&path).or_failed(|| format!("make {}", path.display()))?;
        Ok(Self { path, _scratch: None })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it, since the image is complete.
    pub(crate) fn remove(self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}
