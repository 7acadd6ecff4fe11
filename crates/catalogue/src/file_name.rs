// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Names of files for names of others. Pure.

use cabane_label::Digest;
use sha2::{Digest as _, Sha256};

/// The longest name of a file, without its ending, in bytes.
const LONGEST: usize = 80;
/// How many bytes of a sum are in a name.
const SUM: usize = 16;

/// Returns a name of a file for a text: lower case, the same on every file system and in an address. A
/// text that has to be changed for that has a sum of it at the end, behind `~`, so that no two
/// texts have one name.
pub(crate) fn file_name(text: &str) -> String {
    let is_plain = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_' | b'.')
    };
    let starts_well = text.bytes().next().is_some_and(|first| !matches!(first, b'.' | b'-'));
    if text.len() <= LONGEST && starts_well && !text.ends_with('.') && text.bytes().all(is_plain) {
        return text.to_owned();
    }
    let lower = text.bytes().map(|byte| byte.to_ascii_lowercase());
    let plain = lower.map(|byte| if is_plain(byte) { char::from(byte) } else { '_' });
    let start: String = plain.take(LONGEST - 2 * SUM - 2).collect();
    let sum = Digest::from_bytes(Sha256::digest(text).into());
    let sum = sum.as_str().get(..2 * SUM).unwrap_or_default();
    format!("{}~{sum}", start.trim_start_matches(['.', '-']))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn plain_names_stay_as_they_are() {
        for name in ["hdf5", "py-numpy", "gcc-13.2", "7zip", "_x"] {
            assert_eq!(file_name(name), name);
        }
    }

    #[test]
    fn no_two_names_have_one_file() {
        let hdf5 = file_name("HDF5");
        let names = [
            "hdf5",
            "HDF5",
            "Hdf5",
            &hdf5,
            "..",
            ".",
            "",
            "-x",
            "_x",
            "../hdf5",
            "a/b",
            "a_b",
            "a\\b",
            "\u{2028}",
            "ä",
            "Ä",
            "x.",
            "</script>",
            &"x".repeat(80),
            &"x".repeat(81),
            &"x".repeat(4096),
            "%2e%2e",
            "a b",
            "a?b",
            "a#b",
            "con\0",
        ];
        let files: BTreeSet<String> =
            names.iter().map(|name| file_name(name).to_lowercase()).collect();
        assert_eq!(files.len(), names.len(), "{files:?}");
        for file in files {
            assert!(file.len() <= LONGEST && !file.is_empty() && !file.starts_with('.'), "{file}");
            let is_safe = |c: char| c.is_ascii_alphanumeric() || "-_.~".contains(c);
            assert!(file.chars().all(is_safe), "{file}");
        }
    }
}
