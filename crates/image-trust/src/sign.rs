// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Signing the root hash of an image, for a kernel that has the certificate of the key.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cabane_label::Digest;
use cabane_mount::{RootHash, Verity, verity};
use cabane_process::Scratch;
use cabane_report::{IoContext, Kind, Report, Result};
use cabane_repository::Repository;
use cabane_resolve::LocatedImage;
use cabane_site::Context;

use crate::{in_one_step, name_of, root_hash_of, write_tree};

/// A private key and its certificate. `openssl` reads both, so that the key may be on a token.
#[derive(Clone, Copy, Debug)]
pub struct SigningKey<'a> {
    /// The private key, in PEM.
    pub key: &'a Path,
    /// The certificate, in PEM.
    pub certificate: &'a Path,
}

/// An image whose root hash was signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// Its label or path.
    pub name: String,
    /// Its root hash.
    pub root_hash: RootHash,
    /// Where the signature is.
    pub signature: PathBuf,
}

/// Signs the root hash of an image, and puts the signature beside it, and a hash tree if there is none.
///
/// # Errors
///
/// Those of finding and reading the image, of `openssl`, and of writing beside the image.
pub fn sign(context: &Context, image: &str, key: SigningKey<'_>) -> Result<Signed> {
    let (located, root_hash) = root_hash_of(context, image)?;
    let bytes = signature_of(&root_hash, key)?;
    let [tree, signature] = Verity::beside(&located.path);
    if let Some((repository, digest)) = repository_of(context, &located)? {
        repository.hash_tree(digest)?;
        repository.keep_root_signature(digest, &bytes)?;
    } else {
        if verity::root_hash_beside(&located.path).as_ref() != Some(&root_hash) {
            in_one_step(&tree, |new| write_tree(&located.path, new).map(drop))?;
        }
        in_one_step(&signature, |new| {
            fs::write(new, &bytes).or_failed(|| format!("write {}", new.display()))
        })?;
    }
    Ok(Signed { name: name_of(&located), root_hash, signature })
}

fn repository_of<'a>(
    context: &Context,
    located: &'a LocatedImage,
) -> Result<Option<(Repository, &'a Digest)>> {
    let (Some(name), Some(digest)) = (&located.repository, &located.digest) else {
        return Ok(None);
    };
    let repositories = context.repositories()?;
    let named = repositories.into_iter().find(|one| one.name == *name);
    Ok(named.map(|named| (named.repository, digest)))
}

/// Returns a detached signature without attributes, as the kernel wants it (`sign-file` of its sources
/// makes the same for modules).
fn signature_of(root_hash: &RootHash, key: SigningKey<'_>) -> Result<Vec<u8>> {
    let directory = Scratch::new().or_failed(|| "make a temporary directory".to_owned())?;
    let text = directory.path().join("root-hash");
    fs::write(&text, root_hash.as_str()).or_failed(|| format!("write {}", text.display()))?;
    let output = Command::new("openssl")
        .args(["cms", "-sign", "-binary", "-nocerts", "-noattr", "-nosmimecap", "-md", "sha256"])
        .args(["-outform", "DER", "-in"])
        .arg(&text)
        .arg("-inkey")
        .arg(key.key)
        .arg("-signer")
        .arg(key.certificate)
        .stdin(Stdio::inherit())
        .output()
        .or_failed(|| "run `openssl`, which signs".to_owned())?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let reason = String::from_utf8_lossy(&output.stderr);
    let reason = reason.lines().next().unwrap_or_default();
    let message = format!("`openssl cms` cannot sign with {}: {reason}", key.key.display());
    Err(Report::new(Kind::BadInput, message).hinted(
        "`openssl req -x509 -newkey rsa:4096 -nodes -keyout site.key -out site.pem -subj /CN=site` \
         makes a key and a certificate"
            .to_owned(),
    ))
}
