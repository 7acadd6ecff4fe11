// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Directories that belong to the user who builds, and in which nobody else can change anything.
//!
//! What is in a build directory is taken for what an earlier build left there, and is removed and
//! written with the rights of the user. Somebody else could put links there that lead elsewhere, or
//! files that become part of the image.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use cabane_label::{shown, shown_word};
use cabane_report::{Kind, Report};
use rustix::fs::OFlags;
use rustix::process::geteuid;

use crate::{BuildError, Result, disk};

/// The rights of the group and of others to write.
const OTHERS_WRITE: u32 = 0o022;

/// Makes a directory, and those above it, unless it exists, and opens it.
///
/// # Errors
///
/// That it is a link or no directory, belongs to another user, or can be changed by others; what the
/// system answered.
pub(crate) fn make_own_directory(path: &Path) -> Result<File> {
    // Without a slash at its end, behind which a link would be followed.
    let path: PathBuf = path.components().collect();
    disk::make_directory(path.parent().unwrap_or(Path::new("/")))?;
    match DirBuilder::new().mode(0o755).create(&path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(BuildError::file("make the directory", &path)(error));
        }
        _ => {}
    }
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let opened = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(&path);
    let is_other = path.symlink_metadata().is_ok_and(|found| !found.is_dir());
    if opened.is_err() && is_other {
        return Err(refused(&path, "it is a link or a file", None));
    }
    let directory = opened.map_err(BuildError::file("open", &path))?;
    let found = directory.metadata().map_err(BuildError::file("find", &path))?;
    if found.uid() != geteuid().as_raw() {
        return Err(refused(&path, "it belongs to another user", None));
    }
    if found.mode() & OTHERS_WRITE != 0 {
        let hint = format!("`chmod go-w {}`, if you know all that is in it", shown_word(&path));
        return Err(refused(&path, "others can change it", Some(hint)));
    }
    Ok(directory)
}

fn refused(path: &Path, why: &str, hint: Option<String>) -> BuildError {
    let message = format!("cannot build in {}: {why}", shown(path));
    let other = "name another directory: `--build-dir DIR`";
    let hint = hint.map_or_else(|| other.to_owned(), |hint| format!("{hint}; or {other}"));
    Report::new(Kind::Build, message).hinted(hint).into()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn what_others_could_have_made_or_can_change_is_refused() {
        let world = tempfile::tempdir().unwrap();
        let path = world.path().join("a/b");
        make_own_directory(&path).unwrap();
        make_own_directory(&path).unwrap();
        let error = |path: &Path| make_own_directory(path).unwrap_err().to_string();
        let link = world.path().join("link");
        symlink(&path, &link).unwrap();
        assert!(error(&link).ends_with("link: it is a link or a file"));
        assert!(error(&link.join("")).ends_with("link: it is a link or a file"));
        for mode in [0o775, 0o1777] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert!(error(&path).ends_with("b: others can change it"));
        }
        if cabane_testkit::is_root() {
            fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
            std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
            assert!(error(&path).ends_with("b: it belongs to another user"));
        }
    }
}
