// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The directory of a kernel: read, written at once, and removed, without following a link in it.
//!
//! A directory of kernels may be one where others write. It is opened once, and kernels are reached from
//! there. What is at the name of a kernel is opened as a directory and never as a link, and its files are
//! reached from there: whatever is put at the name later is neither written nor removed.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RawMode, Stat};
use rustix::io::Errno;

use crate::spec::KernelSpec;

const FILE: &str = "kernel.json";
const TEMPORARY: &str = ".kernel.json.cabane";
/// The most bytes of a `kernel.json` that are read.
const MOST: u64 = 1 << 20;
/// How deep directories may be in that of a kernel, which usually has none.
const DEEPEST: usize = 32;
const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A directory that has a directory for each kernel.
pub(crate) struct Kernels {
    directory: OwnedFd,
    path: PathBuf,
}

impl Kernels {
    /// Opens it.
    ///
    /// # Errors
    ///
    /// It is not there, or no directory.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = DIRECTORY.difference(OFlags::NOFOLLOW);
        Ok(Self { directory: rustix::fs::open(path, flags, Mode::empty())?, path: path.to_owned() })
    }

    /// Opens it, and makes it if it is not there.
    ///
    /// # Errors
    ///
    /// It cannot be made.
    pub(crate) fn make(path: &Path) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        Self::open(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the directory of a kernel.
    ///
    /// # Errors
    ///
    /// It is not there, or no directory.
    pub(crate) fn kernel(&self, name: &str) -> io::Result<KernelDirectory<'_>> {
        let directory = rustix::fs::openat(&self.directory, name, DIRECTORY, Mode::empty())?;
        Ok(KernelDirectory { directory, kernels: self, name: name.to_owned() })
    }

    /// The same, and makes it if it is not there. Returns whether it was made.
    ///
    /// # Errors
    ///
    /// It cannot be made.
    pub(crate) fn make_kernel(&self, name: &str) -> io::Result<(KernelDirectory<'_>, bool)> {
        let is_new = match rustix::fs::mkdirat(&self.directory, name, Mode::from_raw_mode(0o777)) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(errno.into()),
        };
        Ok((self.kernel(name)?, is_new))
    }

    /// Whether there is a link at a name.
    pub(crate) fn is_link(&self, name: &str) -> bool {
        self.status(name).is_ok_and(|status| {
            FileType::from_raw_mode(status.st_mode as RawMode) == FileType::Symlink
        })
    }

    /// Returns the names of all that is in it, in their order.
    pub(crate) fn names(&self) -> Vec<String> {
        let names = names_in(&self.directory).unwrap_or_default().into_iter();
        let mut names: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
        names.sort_unstable();
        names
    }

    fn status(&self, name: &str) -> io::Result<Stat> {
        Ok(rustix::fs::statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW)?)
    }
}

/// The directory of a kernel.
pub(crate) struct KernelDirectory<'a> {
    directory: OwnedFd,
    kernels: &'a Kernels,
    name: String,
}

impl KernelDirectory<'_> {
    pub(crate) fn path(&self) -> PathBuf {
        self.kernels.path.join(&self.name)
    }

    /// Returns the users who own the directory and its file, if it has one.
    ///
    /// # Errors
    ///
    /// They cannot be found.
    fn owners(&self) -> io::Result<[u32; 2]> {
        let directory = rustix::fs::fstat(&self.directory)?.st_uid;
        match self.file_status() {
            Ok(file) => Ok([directory, file.st_uid]),
            Err(Errno::NOENT) => Ok([directory, directory]),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Whether the directory and its file belong to this user.
    pub(crate) fn is_own(&self) -> bool {
        let user = rustix::process::geteuid().as_raw();
        self.owners().is_ok_and(|owners| owners == [user; 2])
    }

    /// Whether they belong to this user or to root, who can read and write everything anyway.
    pub(crate) fn is_trusted(&self) -> bool {
        let user = rustix::process::geteuid().as_raw();
        self.owners().is_ok_and(|owners| owners.iter().all(|owner| [0, user].contains(owner)))
    }

    /// Reads the kernel. `None` if there is no file, or if it is no regular file, too long, or malformed.
    pub(crate) fn read(&self) -> Option<KernelSpec> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.directory, FILE, flags, Mode::empty()).ok()?;
        let file = File::from(file);
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        file.take(MOST + 1).read_to_end(&mut bytes).ok()?;
        let is_whole = bytes.len() as u64 <= MOST;
        is_whole.then(|| serde_json::from_slice(&bytes).ok()).flatten()
    }

    /// Whether there is anything at the place of the file.
    pub(crate) fn has_file(&self) -> bool {
        self.file_status().is_ok()
    }

    fn file_status(&self) -> rustix::io::Result<Stat> {
        rustix::fs::statat(&self.directory, FILE, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Writes the kernel at once or not at all.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub(crate) fn write(&self, spec: &KernelSpec) -> io::Result<()> {
        let mut bytes = serde_json::to_vec_pretty(spec)?;
        bytes.push(b'\n');
        let temporary = format!("{TEMPORARY}-{}", std::process::id());
        let _ = rustix::fs::unlinkat(&self.directory, &temporary, AtFlags::empty());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o666);
        let mut file = File::from(rustix::fs::openat(&self.directory, &temporary, flags, mode)?);
        let written = file.write_all(&bytes).and_then(|()| file.sync_all()).and_then(|()| {
            Ok(rustix::fs::renameat(&self.directory, &temporary, &self.directory, FILE)?)
        });
        if written.is_err() {
            let _ = rustix::fs::unlinkat(&self.directory, &temporary, AtFlags::empty());
        }
        written
    }

    /// Removes the directory with all that is in it, and nothing that was put at its name meanwhile. The
    /// file of the kernel goes last, so that a second attempt finds it.
    ///
    /// # Errors
    ///
    /// Something else is at its name, or something in it cannot be removed.
    pub(crate) fn remove(self) -> io::Result<()> {
        self.check_name()?;
        for name in
            names_in(&self.directory)?.iter().filter(|name| name.to_bytes() != FILE.as_bytes())
        {
            remove_at(&self.directory, name, DEEPEST)?;
        }
        rustix::fs::unlinkat(&self.directory, FILE, AtFlags::empty())?;
        self.remove_empty()
    }

    /// Removes the directory, if it is empty.
    ///
    /// # Errors
    ///
    /// It is not, or something else is at its name.
    pub(crate) fn remove_empty(&self) -> io::Result<()> {
        self.check_name()?;
        Ok(rustix::fs::unlinkat(&self.kernels.directory, self.name.as_str(), AtFlags::REMOVEDIR)?)
    }

    /// Checks that the name is still that of this directory.
    fn check_name(&self) -> io::Result<()> {
        let (own, there) = (rustix::fs::fstat(&self.directory)?, self.kernels.status(&self.name)?);
        if (own.st_dev, own.st_ino) == (there.st_dev, there.st_ino) {
            return Ok(());
        }
        Err(io::Error::other("something else has taken its place"))
    }
}

/// Removes what has a name in a directory; if it is a directory, with all that is in it.
fn remove_at(directory: &OwnedFd, name: &std::ffi::CStr, depth: usize) -> io::Result<()> {
    let below = match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
        // The standard has one number for a directory, Linux another.
        Err(Errno::ISDIR | Errno::PERM) if depth > 0 => {
            rustix::fs::openat(directory, name, DIRECTORY, Mode::empty())?
        }
        outcome => return Ok(outcome?),
    };
    for name in names_in(&below)? {
        remove_at(&below, &name, depth - 1)?;
    }
    Ok(rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR)?)
}

fn names_in(directory: &impl AsFd) -> io::Result<Vec<std::ffi::CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let name = entry?.file_name().to_owned();
        if !matches!(name.to_bytes(), b"." | b"..") {
            names.push(name);
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel with more than its file, and something that its files lead to.
    fn place() -> tempfile::TempDir {
        let place = tempfile::tempdir().unwrap();
        for directory in ["kernels/one/sub/sub", "other/sub"] {
            fs::create_dir_all(place.path().join(directory)).unwrap();
        }
        for file in ["kernels/one/kernel.json", "kernels/one/sub/sub/logo", "other/precious"] {
            fs::write(place.path().join(file), "{}").unwrap();
        }
        std::os::unix::fs::symlink("../../../other", place.path().join("kernels/one/sub/link"))
            .unwrap();
        place
    }

    fn kernels(place: &tempfile::TempDir) -> Kernels {
        Kernels::open(&place.path().join("kernels")).unwrap()
    }

    #[test]
    fn a_kernel_is_removed_with_its_directories_and_without_what_links_name() {
        let place = place();
        kernels(&place).kernel("one").unwrap().remove().unwrap();
        assert!(kernels(&place).names().is_empty());
        assert!(place.path().join("other/precious").exists());
    }

    #[test]
    fn what_takes_the_name_of_a_kernel_is_not_removed() {
        let place = place();
        let (kernels, path) = (kernels(&place), place.path().join("kernels/one"));
        let kernel = kernels.kernel("one").unwrap();
        fs::rename(&path, place.path().join("kernels/two")).unwrap();
        fs::rename(place.path().join("other"), &path).unwrap();
        let error = kernel.remove().unwrap_err();
        assert!(error.to_string().contains("something else"), "{error}");
        assert!(path.join("precious").exists() && path.join("sub").exists());
    }

    #[test]
    fn kernels_are_those_of_the_directory_that_was_opened() {
        let place = place();
        let kernels = kernels(&place);
        fs::rename(place.path().join("kernels"), place.path().join("moved")).unwrap();
        std::os::unix::fs::symlink("other", place.path().join("kernels")).unwrap();
        let (_, is_new) = kernels.make_kernel("sub").unwrap();
        assert!(is_new && place.path().join("moved/sub").is_dir());
    }

    #[test]
    fn the_directory_of_another_user_is_not_ones_own() {
        let place = place();
        assert!(kernels(&place).kernel("one").unwrap().is_own());
        if rustix::process::geteuid().is_root() {
            let file = place.path().join("kernels/one/kernel.json");
            std::os::unix::fs::chown(file, Some(61_235), None).unwrap();
            let kernels = kernels(&place);
            let kernel = kernels.kernel("one").unwrap();
            assert!(!kernel.is_own() && !kernel.is_trusted());
        } else {
            let root = Kernels::open(Path::new("/")).unwrap();
            assert!(!root.kernel("usr").unwrap().is_own());
        }
    }
}
