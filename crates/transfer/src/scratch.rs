// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Where files without a name may be.

use std::fs;
use std::path::{Path, PathBuf};

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
