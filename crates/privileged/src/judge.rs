// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Whether the kernel may read an image file, by a descriptor that a user passed.
//!
//! A descriptor proves nothing by itself: the file can be on a file system that a process of
//! the user serves, in a mount that is attached nowhere, behind an overlay that hides both.
//! What such a file says about its owner is worth nothing, and asking it can take for ever.
//! So the first question is which mount it is on, which the kernel answers ([`MountId`]); only
//! on a mount of the host, of a type that no user serves, is the file itself looked at, and
//! that with the rights of the caller.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use cabane_sys::mount_table::{self, Mount, MountId};
use rustix::fs::{FileType, OFlags, Stat, fcntl_getfl, fstat};
use rustix::io::Errno;

use crate::verity::voucher;
use crate::{Error, ImageFile, ImageOwners, Policy, Verity, trusted};

/// File systems that processes of users serve.
const SERVED: [&str; 2] = ["fuse", "fuseblk"];
const OVERLAY: &str = "overlay";
/// As many overlays are on each other at most, says the kernel (`FILESYSTEM_MAX_STACK_DEPTH`).
const OVERLAYS: u32 = 2;

/// Why the kernel may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The policy trusts its owner.
    Owner,
    /// The kernel checks its content.
    Content,
}

/// Tells which mount a descriptor is on, as far as the kernel says it without `/proc`. To be
/// called with the rights of the process that handed it over.
pub(crate) fn mount_of(file: BorrowedFd<'_>) -> Option<MountId> {
    MountId::of(file).ok()
}

/// Checks that a file is on a mount of the host, on which the policy lets images lie.
/// The file system gets no request.
pub(crate) fn check_mount(
    policy: &Policy,
    file: BorrowedFd<'_>,
    mount: Option<MountId>,
    name: &Path,
    trust: Trust,
) -> Result<Mount, Error> {
    let failed = || failed("find the mount of", name);
    let of_table = || MountId::from_process_table(file).and_then(mount_table::find);
    let mount = match mount.map(mount_table::find) {
        // Some containers forbid what they do not know.
        None => of_table(),
        Some(Err(error)) if is_unknown(&error) => of_table(),
        Some(found) => found,
    };
    let mount = mount.map_err(failed())?;
    let mount = mount.ok_or_else(|| {
        refused(name, "it is not on a mount of this host that the caller can see")
    })?;
    check_kind(policy, &mount, trust).map_err(|reason| refused(name, reason))?;
    Ok(mount)
}

fn is_unknown(error: &std::io::Error) -> bool {
    [Errno::NOSYS, Errno::PERM]
        .map(|errno| Some(errno.raw_os_error()))
        .contains(&error.raw_os_error())
}

fn check_kind(policy: &Policy, mount: &Mount, trust: Trust) -> Result<(), String> {
    if SERVED.contains(&mount.kind.as_str()) {
        return Err("it is on a FUSE file system, which a process of a user may serve".into());
    }
    if policy.image_owners == ImageOwners::Any || trust == Trust::Content {
        return Ok(());
    }
    if mount.is_id_mapped {
        return Err("it is on a mount that shows other owners than there are".into());
    }
    if policy.allows_file_system(&mount.kind) {
        return Ok(());
    }
    Err(format!(
        "the policy does not trust owners of files on {}; see `image-filesystems`",
        mount.kind
    ))
}

/// Checks owner, mode and kind of a file. To be called with the rights of the caller, for a file
/// on a mount that was checked.
pub(crate) fn check_file(
    policy: &Policy,
    file: BorrowedFd<'_>,
    mount: &Mount,
    name: &Path,
    trust: Trust,
) -> Result<Stat, Error> {
    let refused = |reason: &'static str| Err(refused(name, reason));
    let failed = || Error::step("look at", name);
    // A descriptor that is only a place can be had without the right to read.
    let mode = fcntl_getfl(file).map_err(failed())?;
    let access = mode & OFlags::RWMODE;
    if mode.contains(OFlags::PATH) || (access != OFlags::RDONLY && access != OFlags::RDWR) {
        return refused("it is not opened for reading");
    }
    if mount.kind == OVERLAY && (trust == Trust::Content || policy.looks_at_layers()) {
        check_layers(policy, mount, OVERLAYS, trust)
            .map_err(|problem| crate::judge::refused(name, problem))?;
    }
    let found = fstat(file).map_err(failed())?;
    check_plain(&found, name)?;
    if trust == Trust::Owner && !policy.allows_image(found.st_uid, found.st_mode) {
        return refused("the policy does not trust its owner, or others can write to it");
    }
    Ok(found)
}

/// Checks that something is a plain file that is not empty. The files of `/proc` claim to be plain,
/// and empty.
pub(crate) fn check_plain(found: &Stat, name: &Path) -> Result<(), Error> {
    if FileType::from_raw_mode(found.st_mode) == FileType::RegularFile && found.st_size > 0 {
        return Ok(());
    }
    Err(refused(name, "it is no plain file with something in it"))
}

/// Tells whether the kernel may read an image file, as far as the caller can find out: for
/// choosing another way beforehand.
///
/// # Errors
///
/// [`Error::Refused`] with the reason.
pub fn check_image(policy: &Policy, file: BorrowedFd<'_>, name: &Path) -> Result<(), Error> {
    check_opened(policy, file, name, Trust::Owner)
}

/// Tells whether the kernel may read an image if it checks the content, as above.
///
/// # Errors
///
/// [`Error::Refused`] with the reason.
pub fn check_verified(policy: &Policy, image: &ImageFile, verity: &Verity) -> Result<(), Error> {
    check_vouched(policy, verity, &image.path)?;
    let check = |file: &File| check_opened(policy, file.as_fd(), &image.path, Trust::Content);
    check(&image.file).and_then(|()| check(&verity.tree))
}

/// Tells whether the policy vouches for a content.
///
/// # Errors
///
/// [`Error::Refused`] with the reason.
pub fn check_vouched(policy: &Policy, verity: &Verity, name: &Path) -> Result<(), Error> {
    voucher(policy, verity, name).map(drop)
}

fn check_opened(
    policy: &Policy,
    file: BorrowedFd<'_>,
    name: &Path,
    trust: Trust,
) -> Result<(), Error> {
    let mount = check_mount(policy, file, mount_of(file), name, trust)?;
    check_file(policy, file, &mount, name, trust).map(drop)
}

/// Checks the layers of an overlay: what is in one of them is in the overlay. Each must be a
/// directory that no one but root can exchange, so that its path still names what it named
/// when the overlay was mounted.
fn check_layers(policy: &Policy, overlay: &Mount, depth: u32, trust: Trust) -> Result<(), String> {
    let unknown = || "it is on an overlay whose layers cannot be found".to_owned();
    let options = mount_table::options(overlay).map_err(|_| unknown())?;
    let layers = overlay_layers(&options);
    if layers.is_empty() || depth == 0 {
        return Err(unknown());
    }
    for layer in layers {
        let outside = |problem: &str| {
            format!("it is on an overlay with the layer {}, {problem}", layer.display())
        };
        let directory = trusted::open_directory(&layer)
            .map_err(|error| outside(&format!("which cannot be trusted: {error}")))?;
        let id = MountId::of(directory.as_fd())
            .or_else(|_| MountId::from_process_table(directory.as_fd()));
        let mount = id.and_then(mount_table::find).ok().flatten().ok_or_else(unknown)?;
        check_kind(policy, &mount, trust)
            .map_err(|problem| outside(&format!("of which: {problem}")))?;
        if mount.kind == OVERLAY {
            check_layers(policy, &mount, depth.saturating_sub(1), trust)?;
        }
    }
    Ok(())
}

/// Reads the paths out of the options of an overlay. Octal digits stand for what would end a
/// field of the table, a backslash for what would end a path of the option.
pub fn overlay_layers(options: &[u8]) -> Vec<PathBuf> {
    let mut layers = Vec::new();
    for option in split(options, b',') {
        let mut parts = option.splitn(2, |byte| *byte == b'=');
        let (Some(key), Some(value)) = (parts.next(), parts.next()) else {
            continue;
        };
        let value = decode(value);
        match key {
            b"lowerdir" => {
                let paths = split(&value, b':').into_iter();
                layers.extend(paths.filter(|path| !path.is_empty()).map(|path| plain(&path)));
            }
            b"lowerdir+" | b"datadir+" | b"upperdir" => layers.push(plain(&value)),
            _ => {}
        }
    }
    layers
}

/// Splits where the mark has no backslash in front, and keeps backslashes.
fn split(text: &[u8], mark: u8) -> Vec<Vec<u8>> {
    let (mut parts, mut part) = (Vec::new(), Vec::new());
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte == mark {
            parts.push(std::mem::take(&mut part));
            continue;
        }
        part.push(byte);
        if byte == b'\\' {
            part.extend(bytes.next());
        }
    }
    parts.push(part);
    parts
}

/// Takes `\040` for a blank, and so on.
fn decode(text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, behind)) = rest.split_first() {
        let digits =
            behind.get(..3).filter(|digits| digits.iter().all(|byte| (b'0'..=b'7').contains(byte)));
        let number = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match number.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if *first == b'\\' => {
                decoded.push(byte);
                rest = behind.get(3..).unwrap_or_default();
            }
            _ => {
                decoded.push(*first);
                rest = behind;
            }
        }
    }
    decoded
}

fn plain(path: &[u8]) -> PathBuf {
    let mut plain = Vec::with_capacity(path.len());
    let mut bytes = path.iter().copied();
    while let Some(byte) = bytes.next() {
        plain.extend(if byte == b'\\' { bytes.next() } else { Some(byte) });
    }
    PathBuf::from(OsString::from_vec(plain))
}

fn refused(image: &Path, reason: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::Refused { image: image.to_owned(), reason: reason.into() }
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    move |source| Error::Step { what, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(options: &str) -> Vec<String> {
        let layers = overlay_layers(options.as_bytes()).into_iter();
        layers.map(|path| path.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn the_layers_of_an_overlay_are_found_in_each_spelling() {
        assert_eq!(found("rw,lowerdir=/a:/b::/c,upperdir=/u,workdir=/w"), ["/a", "/b", "/c", "/u"]);
        assert_eq!(found("ro,lowerdir+=/a:b,datadir+=/d"), ["/a:b", "/d"]);
        assert_eq!(found(r"ro,lowerdir=/a\:b:/c\040d\054e"), ["/a:b", "/c d,e"]);
    }
}
