// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Paths in `/proc/self/mountinfo` (`proc_pid_mountinfo(5)`).

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Undoes the octal numbers that the kernel writes for blanks and the like.
#[must_use]
pub fn unescaped(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..3).and_then(|digits| str::from_utf8(digits).ok());
        let number = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        let number = number.filter(|_| first == b'\\');
        bytes.push(number.unwrap_or(first));
        rest = after.get(if number.is_some() { 3 } else { 0 }..).unwrap_or_default();
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blank_in_a_path_is_understood() {
        assert_eq!(unescaped(b"/a\\040b\\1"), PathBuf::from("/a b\\1"));
    }
}
