// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Who may read a directory: its group, its mode, and its POSIX ACLs.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::Path;

use rustix::fs::{XattrFlags, getxattr, removexattr, setxattr};
use rustix::io::Errno;

/// The attributes with the ACL of a directory, and with that of new files in it.
const ACLS: [&str; 2] = ["system.posix_acl_access", "system.posix_acl_default"];
/// The longest attribute, in bytes.
const MOST_OF_ACL: usize = 64 * 1024;

/// Gives an empty directory the group, the mode, and the ACLs of another one.
///
/// # Errors
///
/// The user is not in the group, or the file system refuses.
pub(crate) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let (old, new) = (fs::metadata(from)?, fs::metadata(to)?);
    if old.gid() != new.gid() {
        chown(to, None, Some(old.gid()))?;
    }
    fs::set_permissions(to, old.permissions())?;
    for name in ACLS {
        let mut value = vec![0; MOST_OF_ACL];
        match getxattr(from, name, &mut value) {
            Ok(length) => setxattr(to, name, &value[..length], XattrFlags::empty())?,
            // The directory above may have given one.
            Err(Errno::NODATA) => match removexattr(to, name) {
                Ok(()) | Err(Errno::NODATA | Errno::NOTSUP) => {}
                Err(error) => return Err(error.into()),
            },
            Err(Errno::NOTSUP) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// An ACL with a user who may read and enter.
    fn acl() -> Vec<u8> {
        let entries: [(u16, u16, u32); 5] = [
            (0x01, 7, u32::MAX),
            (0x02, 5, 12_345),
            (0x04, 5, u32::MAX),
            (0x10, 5, u32::MAX),
            (0x20, 0, u32::MAX),
        ];
        let mut bytes = 2_u32.to_le_bytes().to_vec();
        for (tag, permissions, id) in entries {
            bytes.extend(tag.to_le_bytes());
            bytes.extend(permissions.to_le_bytes());
            bytes.extend(id.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn a_copy_can_be_read_by_the_same_users() {
        let world = tempfile::tempdir().unwrap();
        let [old, new] = ["old", "new"].map(|name| world.path().join(name));
        fs::create_dir(&old).unwrap();
        fs::set_permissions(&old, fs::Permissions::from_mode(0o2750)).unwrap();
        // Only root may choose any group.
        let has_group = chown(&old, None, Some(12_345)).is_ok();
        fs::set_permissions(&old, fs::Permissions::from_mode(0o2750)).unwrap();
        let has_acl = ACLS.map(|name| setxattr(&old, name, &acl(), XattrFlags::empty()).is_ok());
        fs::create_dir(&new).unwrap();
        copy(&old, &new).unwrap();
        let (old_meta, new_meta) = (fs::metadata(&old).unwrap(), fs::metadata(&new).unwrap());
        assert_eq!((new_meta.gid(), new_meta.mode()), (old_meta.gid(), old_meta.mode()));
        assert_eq!(new_meta.gid() == 12_345, has_group);
        let value = |path: &Path, name: &str| {
            let mut value = vec![0; 1024];
            getxattr(path, name, &mut value).map(|length| value[..length].to_vec())
        };
        for (name, is_there) in ACLS.into_iter().zip(has_acl) {
            assert_eq!(value(&new, name), value(&old, name), "{name}");
            assert_eq!(value(&new, name).is_ok(), is_there, "{name}");
        }
        // What the other has not, the copy loses.
        for name in ACLS {
            let _ = removexattr(&old, name);
        }
        copy(&old, &new).unwrap();
        assert!(ACLS.iter().all(|name| value(&new, name).is_err()));
    }
}
