// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images for whose content the site vouches, whoever owns the file.
//!
//! The kernel compares each block with the hash tree when it reads it. The tree may be the user's:
//! it is worth what its root hash is worth, which is in a list that belongs to root, or signed with a
//! key that the kernel has. No hash and no signature is computed or checked here.

use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::{Error, Policy, trusted};

/// How many hexadecimal digits a root hash has.
const DIGITS: usize = 64;
/// The size of a list, in bytes, beyond which it is refused: some 100,000 images with their labels.
const MAX_LIST: u64 = 16 << 20;

/// The root of a hash tree: the SHA-256 of its topmost block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootHash(String);

impl RootHash {
    /// Takes the hash itself.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(hexadecimal(&bytes))
    }

    /// Returns its 64 hexadecimal digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RootHash {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() == DIGITS && text.bytes().all(is_digit) {
            return Ok(Self(text.to_owned()));
        }
        Err("a root hash is 64 hexadecimal digits, in lower case")
    }
}

impl fmt::Display for RootHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Writes bytes as hexadecimal digits.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut digits, byte| {
        // Writing to a text cannot fail.
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

/// What an image is checked with while it is read.
#[derive(Debug)]
pub struct Verity {
    /// The hash tree, opened for reading with the rights of the user.
    pub tree: File,
    /// Its root.
    pub root_hash: RootHash,
    /// The root hash signed, PKCS#7 in DER; empty for none.
    pub signature: Vec<u8>,
}

impl Verity {
    /// What stands behind the name of an image for its hash tree.
    pub const SUFFIX: &'static str = ".verity";
    /// What stands behind the name of a hash tree for the signature of its root hash.
    pub const SIGNATURE: &'static str = ".p7s";
    /// The size of a signature, in bytes, beyond which it is not read.
    pub const MAX_SIGNATURE: u64 = 16 << 10;

    /// Returns where the hash tree of an image is, and the signature of its root hash.
    #[must_use]
    pub fn beside(image: &Path) -> [PathBuf; 2] {
        let mut tree = image.as_os_str().to_owned();
        tree.push(Self::SUFFIX);
        let mut signature = tree.clone();
        signature.push(Self::SIGNATURE);
        [tree.into(), signature.into()]
    }
}

/// Who vouches for a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Voucher {
    /// The list of the policy.
    List,
    /// The kernel, if it has the key of the signature.
    Signature,
}

/// Tells who vouches for the content of an image, as far as the policy says.
///
/// # Errors
///
/// [`Error::Refused`] if no one does; those of reading the list.
pub(crate) fn voucher(policy: &Policy, verity: &Verity, image: &Path) -> Result<Voucher, Error> {
    if is_listed(&policy.verified_images, &verity.root_hash)? {
        return Ok(Voucher::List);
    }
    if policy.verified_signatures && !verity.signature.is_empty() {
        return Ok(Voucher::Signature);
    }
    Err(Error::Refused {
        image: image.to_owned(),
        reason: format!(
            "its root hash {} is not in {}",
            verity.root_hash,
            policy.verified_images.display()
        )
        .into(),
    })
}

/// Tells whether a line of a list begins with a root hash. What follows it is for people.
fn is_listed(list: &Path, root_hash: &RootHash) -> Result<bool, Error> {
    let text = match trusted::read_file(list, MAX_LIST) {
        Err(Error::Step { source, .. }) if source.kind() == ErrorKind::NotFound => {
            return Ok(false);
        }
        read => read?,
    };
    let mut listed = text.lines().filter_map(|line| line.split_ascii_whitespace().next());
    Ok(listed.any(|listed| listed == root_hash.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_hash_has_one_spelling() {
        let plain = "0123456789abcdef".repeat(4);
        assert_eq!(plain.parse::<RootHash>().map(|hash| hash.to_string()), Ok(plain.clone()));
        let others =
            [plain[1..].to_owned(), plain.to_uppercase(), format!("{plain} "), String::new()];
        assert_eq!(others.map(|text| text.parse::<RootHash>().is_ok()), [false; 4]);
    }
}
