// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Who may read an image.
//!
//! Nearly always everyone whom the umask allows. Software under a license may be for one Unix
//! group; then the directory of the image is closed to others before anything is in it. The
//! refs stay readable: others see that there is such an image, and get an error
//! that says why they cannot start it.

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
    /// The members of this Unix group, and no one else but the owner.
    Group(u32),
    /// The owner alone.
    Owner,
}

const READ_GROUP: u32 = 0o040;
const READ_OTHERS: u32 = 0o004;
const ENTER_GROUP: u32 = 0o010;
const ENTER_OTHERS: u32 = 0o001;
/// What is not the owner's.
const OF_OTHERS: u32 = 0o077;
const CLOSED_FILE: u32 = 0o640;
const CLOSED_DIRECTORY: u32 = 0o750;

impl Access {
    /// Returns who may read what is copied from this file into a new directory.
    ///
    /// A file that its group may read and others may not stays so. Where the umask closes every
    /// file to others, as some sites have it, that alone says nothing: only another group than
    /// the usual one does. If the file is that of a repository, its directory there counts as
    /// well, and what only the owner may read is not a file that someone has just made.
    pub(crate) fn of_source(
        source: &Metadata,
        place: Option<&Metadata>,
        new: &Path,
    ) -> Result<Self, Error> {
        let of_file = of_mode(source, READ_GROUP, READ_OTHERS);
        let access = match place {
            None if of_file == Self::Owner => Self::AsNewFiles,
            None => of_file,
            Some(place) => of_file.and(of_mode(place, ENTER_GROUP, ENTER_OTHERS)),
        };
        if access == Self::AsNewFiles {
            return Ok(access);
        }
        let new = fs::metadata(new).map_err(Error::io("inspect", new))?;
        let is_usual = match access {
            Self::Group(group) => {
                new.mode() & READ_OTHERS == 0 && group == rustix::process::getegid().as_raw()
            }
            _ => new.mode() & OF_OTHERS == 0,
        };
        Ok(if is_usual { Self::AsNewFiles } else { access })
    }

    /// Returns who may read the images that come into a directory which is there, if these are
    /// fewer than may look into another one.
    pub(crate) fn of_directory(directory: &Path, usual: &Path) -> Self {
        match (fs::metadata(directory), fs::metadata(usual)) {
            (Ok(found), Ok(usual)) if is_closer(&found, &usual) => {
                of_mode(&found, ENTER_GROUP, ENTER_OTHERS)
            }
            _ => Self::AsNewFiles,
        }
    }

    /// Returns who may read what only those may read whom both name.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::AsNewFiles, other) | (other, Self::AsNewFiles) => other,
            (one, other) if one == other => one,
            // The members of both groups are not known.
            _ => Self::Owner,
        }
    }

    /// Returns whether a file is closed already to those to whom it is to be closed.
    pub(crate) fn is_closed(self, file: &Metadata) -> bool {
        let others = file.mode() & OF_OTHERS;
        match self {
            Self::AsNewFiles => true,
            Self::Group(group) => others == CLOSED_FILE & OF_OTHERS && file.gid() == group,
            Self::Owner => others == 0,
        }
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
        let group = match self {
            Self::AsNewFiles => return Ok(()),
            Self::Group(group) => Some(group),
            Self::Owner => None,
        };
        let shut = || {
            let before = fs::symlink_metadata(path)?.permissions();
            // For no one, until the group is right.
            fs::set_permissions(path, Permissions::from_mode(mode & 0o700))?;
            if group.is_none() {
                return Ok(());
            }
            if let Err(error) = chown(path, None, group) {
                // Those who had it keep it.
                let _ = fs::set_permissions(path, before);
                return Err(error);
            }
            fs::set_permissions(path, Permissions::from_mode(mode))
        };
        shut().map_err(|source| Error::Access { path: path.to_owned(), group, source })
    }
}

fn of_mode(found: &Metadata, group: u32, others: u32) -> Access {
    if found.mode() & others != 0 {
        Access::AsNewFiles
    } else if found.mode() & group != 0 {
        Access::Group(found.gid())
    } else {
        Access::Owner
    }
}

/// Returns whether fewer users may look into one directory than into another.
pub(crate) fn is_closer(one: &Metadata, other: &Metadata) -> bool {
    let may = |found: &Metadata, who: u32| found.mode() & who != 0;
    if may(one, ENTER_OTHERS) {
        return false;
    }
    may(other, ENTER_OTHERS)
        || may(one, ENTER_GROUP) && one.gid() != other.gid()
        || !may(one, ENTER_GROUP) && may(other, ENTER_GROUP)
}

/// Gives a file that was not made here the mode that a new file would have.
pub(crate) fn make_readable(target: &Path) {
    let model = target.with_extension("mode");
    if let Ok(file) = disk::create_new(&model) {
        if let Ok(metadata) = file.metadata() {
            let mode = metadata.permissions().mode() & 0o777;
            // A file of another user keeps its mode.
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
        Access::of_source(&fs::metadata(&file).unwrap(), None, &new).unwrap()
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
