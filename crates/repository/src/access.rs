// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Who may read an image.
//!
//! Nearly always everybody whom the umask allows. Software under a licence may be for one Unix
//! group; then the directory of the image is closed to others before anything is in it. The
//! refs stay readable: others see that there is such an image, and are told why they cannot
//! start it.

use std::fs::{self, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use crate::{Error, disk};

/// Who may read an image of a repository.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Who may read any new file there, as the umask says.
    #[default]
    AsNewFiles,
    /// The members of this Unix group, and nobody else but the owner.
    Group(u32),
}

const READ_GROUP: u32 = 0o040;
const READ_OTHERS: u32 = 0o004;
const CLOSED_FILE: u32 = 0o640;
const CLOSED_DIRECTORY: u32 = 0o750;

impl Access {
    /// Returns who may read what is copied from this file into a new directory.
    ///
    /// A file that its group may read and others may not stays so. Where the umask closes every
    /// file to others, as some sites have it, that alone says nothing: only another group than
    /// the usual one does.
    pub(crate) fn of_source(source: &Metadata, new: &Path) -> Result<Self, Error> {
        if source.mode() & (READ_GROUP | READ_OTHERS) != READ_GROUP {
            return Ok(Self::AsNewFiles);
        }
        let new = fs::metadata(new).map_err(Error::io("inspect", new))?;
        let is_usual =
            new.mode() & READ_OTHERS == 0 && source.gid() == rustix::process::getegid().as_raw();
        Ok(if is_usual {
            Self::AsNewFiles
        } else {
            Self::Group(source.gid())
        })
    }

    /// Closes a directory, before there is anything in it.
    pub(crate) fn close_directory(self, directory: &Path) -> Result<(), Error> {
        self.close(directory, CLOSED_DIRECTORY)
    }

    /// Closes the file of an image.
    pub(crate) fn close_file(self, file: &Path) -> Result<(), Error> {
        self.close(file, CLOSED_FILE)
    }

    fn close(self, path: &Path, mode: u32) -> Result<(), Error> {
        let Self::Group(group) = self else {
            return Ok(());
        };
        let shut = || {
            // For nobody, until the group is right.
            fs::set_permissions(path, Permissions::from_mode(mode & 0o700))?;
            chown(path, None, Some(group))?;
            fs::set_permissions(path, Permissions::from_mode(mode))
        };
        shut().map_err(|source| Error::Group {
            path: path.to_owned(),
            group,
            source,
        })
    }
}

/// Gives a file that was not made here the mode that a new file would have.
pub(crate) fn make_readable(target: &Path) {
    let model = target.with_extension("mode");
    if let Ok(file) = disk::create_new(&model) {
        if let Ok(metadata) = file.metadata() {
            let mode = metadata.permissions().mode() & 0o777;
            // Somebody else's file keeps its mode.
            let _ = fs::set_permissions(target, Permissions::from_mode(mode));
        }
        let _ = fs::remove_file(&model);
    }
}

/// Returns whether something is there, be it closed to this process.
pub(crate) fn is_there(found: &io::Result<Metadata>) -> bool {
    match found {
        Ok(_) => true,
        Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access_of(mode: u32, directory: u32) -> Access {
        let place = tempfile::tempdir().unwrap();
        let (file, new) = (place.path().join("file"), place.path().join("new"));
        fs::write(&file, "").unwrap();
        fs::create_dir(&new).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        fs::set_permissions(&new, Permissions::from_mode(directory)).unwrap();
        Access::of_source(&fs::metadata(&file).unwrap(), &new).unwrap()
    }

    fn own_group() -> u32 {
        rustix::process::getegid().as_raw()
    }

    #[test]
    fn a_file_for_its_group_stays_so() {
        assert_eq!(access_of(0o640, 0o755), Access::Group(own_group()));
    }

    #[test]
    fn a_file_for_everybody_is_for_everybody() {
        assert_eq!(access_of(0o644, 0o755), Access::AsNewFiles);
    }

    #[test]
    fn a_temporary_file_of_its_owner_becomes_like_any_other() {
        assert_eq!(access_of(0o600, 0o755), Access::AsNewFiles);
    }

    #[test]
    fn where_every_new_file_is_closed_to_others_the_usual_group_means_nothing() {
        assert_eq!(access_of(0o640, 0o750), Access::AsNewFiles);
    }
}
