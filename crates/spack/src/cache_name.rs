// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the directory is called that holds the packages of a mount point.
//!
//! Programs hold the path below which they were built. Spack can write a shorter path over
//! it, but not a longer one, and so packages are kept apart by mount point. Names are
//! reversible, since a reader must know how long each path is.

use std::path::{Path, PathBuf};

/// The longest name that file systems take.
const LONGEST: usize = 255;

/// Returns the name of the directory for packages of a mount point: `+user-environment`.
///
/// Each `/` becomes a `+`, and each byte that is neither a letter, a digit nor one of `.-_`
/// becomes `=` and two hexadecimal digits. Returns `None` if the name would be too long for
/// a file system.
#[must_use]
pub fn cache_name(mount_point: &Path) -> Option<String> {
    let mut name = String::new();
    for &byte in mount_point.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' => name.push('+'),
            b'.' | b'-' | b'_' => name.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => name.push(char::from(byte)),
            _ => name.push_str(&format!("={byte:02x}")),
        }
    }
    (name.starts_with('+') && name.len() <= LONGEST).then_some(name)
}

/// Returns the mount point that [`cache_name`] made a name of, or `None` for other names.
#[must_use]
pub fn mount_point_of_cache(name: &str) -> Option<PathBuf> {
    let mut path = Vec::new();
    let mut rest = name.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => path.push(b'/'),
            b'=' => {
                let digits = [rest.next()?, rest.next()?];
                let digits = std::str::from_utf8(&digits).ok()?;
                path.push(u8::from_str_radix(digits, 16).ok()?);
            }
            _ => path.push(byte),
        }
    }
    let path = PathBuf::from(String::from_utf8(path).ok()?);
    // Only what would be named so again.
    (cache_name(&path).as_deref() == Some(name)).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_the_mount_point() {
        assert_eq!(cache_name(Path::new("/user-tools")).as_deref(), Some("+user-tools"));
        for path in ["/user-environment", "/apps/a+b/1.0", "/apps/a=b", "/späck", "/a/+b", "/a+/b"]
        {
            let name = cache_name(Path::new(path)).unwrap();
            assert_eq!(mount_point_of_cache(&name), Some(path.into()), "{name}");
            assert!(!name.contains('/'));
        }
    }

    #[test]
    fn other_names_say_none() {
        for name in ["", "v3", "blobs", "+a b", "+a=2", "+a=zz", "+a=2F", "+a=41", "user"] {
            assert_eq!(mount_point_of_cache(name), None, "{name}");
        }
        assert_eq!(cache_name(Path::new(&format!("/{}", "a".repeat(300)))), None);
        assert_eq!(cache_name(Path::new("relative")), None);
    }
}
