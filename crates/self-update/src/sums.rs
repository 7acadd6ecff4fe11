// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The list of sums beside the archives of a release, as `sha256sum` writes it.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::version::Version;

/// The name of the list.
pub(crate) const LIST: &str = "SHA256SUMS";
/// The name of its signature: ECDSA with P-256 and SHA-256, as `openssl dgst -sha256 -sign` and
/// `cosign sign-blob` write it.
pub(crate) const SIGNATURE: &str = "SHA256SUMS.sig";

/// Returns the sum of a file of the list, in small hexadecimal digits.
pub(crate) fn sum_of(list: &str, name: &str) -> Option<String> {
    entries(list).find(|(_, listed)| *listed == name).map(|(sum, _)| sum.to_owned())
}

/// Returns the newest version with an archive for this processor.
pub(crate) fn newest(list: &str) -> Option<Version> {
    entries(list).filter_map(|(_, name)| Version::of_archive(name)).max()
}

/// The sums and names of the lines that have both.
fn entries(list: &str) -> impl Iterator<Item = (&str, &str)> {
    list.lines().filter_map(|line| {
        let (sum, name) = line.split_once(' ')?;
        // A star says that the file was read as binary.
        let name = name.strip_prefix([' ', '*'])?;
        let is_sum = sum.len() == 64 && sum.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_sum.then_some((sum, name))
    })
}

/// Returns the bytes of a signature, which is in a file as it is or in Base64.
pub(crate) fn signature(file: &[u8]) -> Vec<u8> {
    // A sequence of two numbers begins with this byte, and no text in Base64 does.
    const SEQUENCE: u8 = 0x30;
    let is_binary = file.first() == Some(&SEQUENCE) && !file.is_ascii();
    let text = str::from_utf8(file).ok().filter(|_| !is_binary);
    text.and_then(|text| BASE64_STANDARD.decode(text.trim()).ok())
        .unwrap_or_else(|| file.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_archive_of_this_processor_is_found() {
        let sum = "0123456789abcdef".repeat(4);
        let names = [
            "cabane-0.9.0-linux-ARCH.tar.gz",
            "cabane-0.10.0-linux-ARCH.tar.gz",
            "cabane-0.11.0-linux-sparc.tar.gz",
            "cabane_0.12.0_amd64.deb",
        ];
        let lines = names.map(|name| format!("{sum}  {name}\n"));
        let list = lines.concat().replace("ARCH", std::env::consts::ARCH);
        let version = newest(&list).unwrap();
        assert_eq!(version.to_string(), "0.10.0");
        assert_eq!(sum_of(&list, &version.archive()).as_deref(), Some(&*sum));
    }

    #[test]
    fn lines_that_are_none_are_left_out() {
        let archive = Version::running().archive();
        for line in
            [format!("12  {archive}"), archive.clone(), format!("{}  {archive}", "g".repeat(64))]
        {
            assert_eq!((newest(&line), sum_of(&line, &archive)), (None, None), "{line}");
        }
    }
}
