// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A sum for files that are kept to save work, and made again when they are damaged.

/// Returns a sum by which corruption is seen; it costs next to nothing. No one is kept from
/// making other bytes with the same.
#[must_use]
pub fn corrupt_sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut sum = words.iter().fold(0xcbf2_9ce4_8422_2325, |sum, word| with_word(sum, *word));
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        sum = with_word(sum, word);
    }
    sum ^ bytes.len() as u64
}

fn with_word(sum: u64, word: [u8; 8]) -> u64 {
    (sum ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_that_changes_place_or_value_and_one_that_is_gone_are_seen() {
        let whole = corrupt_sum(b"0123456789");
        let others = [&b"0123456798"[..], b"0123456788", b"012345678", b"012345678\0\0"];
        assert!(others.iter().all(|other| corrupt_sum(other) != whole));
        // Files of earlier versions are read.
        assert_eq!(whole, 0x5222_79ee_5261_f092);
    }
}
