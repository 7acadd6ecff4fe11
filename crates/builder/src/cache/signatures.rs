// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Signatures of packages in a build cache.
//!
//! ```text
//! signatures/NAME/NAME-VERSION-HASH.json
//! ```
//!
//! A signature covers the name of the package and its manifest, which contains the checksums of all other
//! files. So neither can a package be changed, nor can an older package take the place of another one. Keys
//! and the format of signatures are the caller's. A package can have signatures of several keys: one that is
//! trusted is enough.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use cabane_report::Report;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use super::packages::{BuildCache, Package, children};
use crate::{Result, disk, fingerprint};

/// The signatures, below a build cache.
const DIRECTORY: &str = "signatures";
/// No signature is larger.
const LARGEST: u64 = 64 << 10;

/// The public keys whose signatures of packages count.
pub trait PackageKeys: fmt::Debug + Send + Sync {
    /// Returns the document that was signed.
    ///
    /// # Errors
    ///
    /// Why the signature does not count.
    fn open(&self, signature: &[u8]) -> Result<Vec<u8>, String>;
}

/// A private key that signs packages. Its own signatures count.
pub trait PackageSigner: PackageKeys {
    /// Signs a document. Signatures of other keys in `before` are kept if they are of the same document.
    ///
    /// # Errors
    ///
    /// The system has no random numbers.
    fn sign(&self, document: &[u8], before: Option<&[u8]>) -> Result<Vec<u8>, Report>;
}

/// What is signed for a package.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Statement {
    /// `NAME-VERSION-HASH`.
    package: String,
    /// The sha256 of the manifest.
    manifest: String,
    /// The mount point for which the package was built, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    mount_point: Option<PathBuf>,
}

/// Checks the signature of a package with this manifest. `cache` is the build cache, and `id` is
/// `NAME-VERSION-HASH`. Returns the mount point for which the package was built, if it is known.
///
/// # Errors
///
/// Why the package is not trusted.
pub(crate) fn check(
    cache: &Path,
    (name, id): (&str, &str),
    manifest: &[u8],
    keys: &dyn PackageKeys,
) -> Result<Option<PathBuf>, String> {
    let path = path_of(cache, name, id);
    let signature = match read_plain(&path, LARGEST) {
        Ok(Some(signature)) => signature,
        Ok(None) => return Err("it is not signed".to_owned()),
        Err(error) => return Err(format!("its signature cannot be read: {error}")),
    };
    let document = keys.open(&signature)?;
    let statement: Statement = serde_json::from_slice(&document)
        .map_err(|_| "its signature is not one of a package".to_owned())?;
    if statement.package != id {
        return Err("its signature is that of another package".to_owned());
    }
    if statement.manifest != fingerprint::of_bytes(manifest).as_str() {
        return Err("its signature is that of another manifest".to_owned());
    }
    Ok(statement.mount_point)
}

/// Signs a package with this manifest.
pub(super) fn sign(
    cache: &BuildCache,
    package: &Package,
    manifest: &[u8],
    mount_point: Option<&Path>,
    signer: &dyn PackageSigner,
) -> Result<()> {
    let statement = Statement {
        package: package.id(),
        manifest: fingerprint::of_bytes(manifest).as_str().to_owned(),
        mount_point: mount_point.map(Path::to_owned),
    };
    let document = serde_json::to_vec(&statement).map_err(io::Error::from);
    let path = path_of(&cache.path, &package.name, &package.id());
    let document = document.map_err(crate::BuildError::file("write", &path))?;
    let before = read_plain(&path, LARGEST).ok().flatten();
    let signature = signer.sign(&document, before.as_deref())?;
    disk::make_directory(path.parent().unwrap_or(&path))?;
    disk::write(&path, &signature)
}

/// Returns the path of a signature.
pub(super) fn path_of(cache: &Path, name: &str, id: &str) -> PathBuf {
    cache.join(DIRECTORY).join(name).join(format!("{id}.json"))
}

/// Removes signatures of packages that are not in a build cache.
pub(super) fn sweep(cache: &BuildCache) {
    let kept: Vec<PathBuf> = cache
        .packages()
        .iter()
        .map(|package| path_of(&cache.path, &package.name, &package.id()))
        .collect();
    for directory in children(&cache.path.join(DIRECTORY)) {
        for path in children(&directory).into_iter().filter(|path| !kept.contains(path)) {
            // Without a package, it does no harm.
            let _ = fs::remove_file(path);
        }
    }
}

/// Reads a file that may belong to others; nothing if there is none. A link is not followed, and a named
/// pipe is not waited for.
///
/// # Errors
///
/// It cannot be read, is not a file, or is larger than `limit` bytes.
pub(crate) fn read_plain(path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed();
    let file = match File::options().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
    }
    let mut content = Vec::new();
    file.take(limit + 1).read_to_end(&mut content)?;
    if content.len() as u64 > limit {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is too large"));
    }
    Ok(Some(content))
}
