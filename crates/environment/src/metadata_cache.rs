// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The metadata of image files outside of repositories, from an earlier start.
//!
//! To read it, the image is mounted for a moment, which takes as long as all the rest of a start.
//!
//! ```text
//! <cache>/metadata/<device>-<inode>-<size>-<modified>-<changed>.json
//! ```
//!
//! The name says which file it was, and in which state: whoever writes to an image, or puts another
//! one in its place, changes the name.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use cabane_view::Meta;
use rustix::fs::OFlags;
use rustix::process::geteuid;

/// The directory in the cache.
const DIRECTORY: &str = "metadata";
const ENDING: &str = ".json";
/// How many files there may be. Where there are more, the older half is removed.
const MAX_FILES: usize = 256;
/// A file that changed so lately can change again without another time.
const SETTLED: Duration = Duration::from_secs(2);

/// The place for the metadata of one image file.
pub(crate) struct MetadataCache {
    path: PathBuf,
}

impl MetadataCache {
    /// Returns the place for an open image; `None` if it cannot be recognized again, or if the
    /// directory is another user's: root may run with the home of a user.
    pub(crate) fn of(cache: &Path, image: &File) -> Option<Self> {
        let directory = cache.join(DIRECTORY);
        if directory.symlink_metadata().is_ok_and(|found| !found.is_dir() || !is_own(&found)) {
            return None;
        }
        let found = image.metadata().ok()?;
        let changed =
            Duration::new(found.ctime().try_into().ok()?, found.ctime_nsec().try_into().ok()?);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
        if now.checked_sub(changed)? < SETTLED {
            return None;
        }
        let name = format!(
            "{}-{}-{}-{}.{:09}-{}.{:09}{ENDING}",
            found.dev(),
            found.ino(),
            found.size(),
            found.mtime(),
            found.mtime_nsec(),
            found.ctime(),
            found.ctime_nsec()
        );
        Some(Self { path: directory.join(name) })
    }

    /// Returns what was written; `None` if there is nothing, or if another user may have written it.
    pub(crate) fn read(&self) -> Option<Vec<u8>> {
        let flags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(&self.path).ok()?;
        let found = file.metadata().ok()?;
        if !found.is_file() || !is_own(&found) {
            return None;
        }
        let mut bytes = Vec::new();
        file.take(Meta::MAX_SIZE).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// Writes the metadata, all of it or nothing. Without a cache, the next start mounts the image
    /// again.
    pub(crate) fn write(&self, metadata: &[u8]) {
        let _ = self.try_to_write(metadata);
    }

    fn try_to_write(&self, metadata: &[u8]) -> io::Result<()> {
        let directory = self.path.parent().unwrap_or(Path::new("."));
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        remove_old(directory)?;
        // A start that is killed leaves a file that is removed like any other.
        let mut file = tempfile::Builder::new().suffix(ENDING).tempfile_in(directory)?;
        file.write_all(metadata)?;
        file.persist(&self.path)?;
        Ok(())
    }
}

/// Returns whether only this user can change a file or directory.
fn is_own(found: &fs::Metadata) -> bool {
    found.uid() == geteuid().as_raw() && found.mode() & 0o022 == 0
}

fn remove_old(directory: &Path) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().ends_with(ENDING.as_bytes()) {
            files.push((entry.metadata()?.modified()?, entry.path()));
        }
    }
    if files.len() >= MAX_FILES {
        files.sort();
        // Another start may have removed some.
        files.iter().take(MAX_FILES / 2).for_each(|(_, path)| drop(fs::remove_file(path)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_was_written_is_read_again_for_the_same_file_only() {
        let place = tempfile::tempdir().unwrap();
        let cache = MetadataCache::of(place.path(), &File::open("/bin/sh").unwrap()).unwrap();
        assert_eq!(cache.read(), None);
        cache.write(b"{}");
        assert_eq!(cache.read().as_deref(), Some(b"{}".as_slice()));
        let other = MetadataCache::of(place.path(), &File::open("/bin/cat").unwrap()).unwrap();
        assert_eq!(other.read(), None);
    }

    #[test]
    fn a_file_that_has_just_changed_is_not_remembered() {
        let place = tempfile::tempdir().unwrap();
        let image = tempfile::tempfile().unwrap();
        assert!(MetadataCache::of(place.path(), &image).is_none());
    }

    #[test]
    fn what_others_can_write_to_and_links_are_not_read() {
        let place = tempfile::tempdir().unwrap();
        let cache = MetadataCache::of(place.path(), &File::open("/bin/sh").unwrap()).unwrap();
        cache.write(b"{}");
        fs::set_permissions(&cache.path, fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(cache.read(), None);
        fs::set_permissions(&cache.path, fs::Permissions::from_mode(0o600)).unwrap();
        let elsewhere = place.path().join("elsewhere");
        fs::rename(&cache.path, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &cache.path).unwrap();
        assert_eq!(cache.read(), None);
    }

    #[test]
    fn a_directory_that_others_can_change_and_a_link_to_one_are_not_used() {
        let place = tempfile::tempdir().unwrap();
        let image = File::open("/bin/sh").unwrap();
        let directory = place.path().join(DIRECTORY);
        fs::create_dir(&directory).unwrap();
        let of = || MetadataCache::of(place.path(), &image).is_some();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
        let own = of();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o770)).unwrap();
        let open = of();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
        fs::rename(&directory, place.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink(place.path().join("elsewhere"), &directory).unwrap();
        assert_eq!([own, open, of()], [true, false, false]);
    }

    #[test]
    fn there_are_only_so_many() {
        let place = tempfile::tempdir().unwrap();
        let cache = MetadataCache::of(place.path(), &File::open("/bin/sh").unwrap()).unwrap();
        cache.write(b"{}");
        let directory = place.path().join(DIRECTORY);
        for number in 0..MAX_FILES {
            fs::write(directory.join(format!("{number}.json")), "{}").unwrap();
        }
        fs::write(directory.join("another"), "").unwrap();
        cache.write(b"{}");
        assert!(directory.join("another").exists());
        assert!(fs::read_dir(directory).unwrap().count() < MAX_FILES);
        assert!(cache.read().is_some());
    }
}
