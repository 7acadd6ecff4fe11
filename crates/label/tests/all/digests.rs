// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Digests and ids.

use cabane_label::{Digest, ImageId};

#[test]
fn the_bytes_of_a_digest_are_written_in_lower_case() {
    let mut bytes = [0; 32];
    bytes[0] = 0xAB;
    let text = format!("ab{}", "0".repeat(62));
    assert_eq!(Digest::from_bytes(bytes).as_str(), text);
}

#[test]
fn an_id_is_the_beginning_of_its_digest() {
    let digest: Digest = "0123456789abcdef".repeat(4).parse().unwrap();
    assert_eq!(digest.id().as_str(), "0123456789abcdef");
}

#[test]
fn a_digest_has_one_spelling() {
    let error = "A3".repeat(32).parse::<Digest>().unwrap_err();
    assert_eq!(error.hint().unwrap(), format!("write `{}`", "a3".repeat(32)));
}

#[test]
fn a_digit_too_few_is_counted() {
    let error = "abcdef012345678".parse::<ImageId>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "`abcdef012345678` is not an image id: an image id has 16 digits, but this has 15",
    );
}

#[test]
fn what_is_no_digit_is_shown() {
    let error = "abcdefg".parse::<ImageId>().unwrap_err();
    assert_eq!(error.pointer(), "abcdefg\n      ^");
}
