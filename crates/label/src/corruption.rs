// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A sum for files that are kept to save work, and made again when they are damaged.

/// Returns a sum by which corruption is seen; it costs next to nothing. No one is kept from
/// making other bytes with the same.
#[must_use]
pub fn corrupt_sum(bytes: &[u8]) -> u64 {
    let mut sum = 0xcbf2_9ce4_8422_2325_u64;
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        sum = (sum ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
    sum ^ bytes.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_that_changes_place_or_value_and_one_that_is_gone_are_seen() {
        let whole = corrupt_sum(b"0123456789");
        let others = [&b"0123456798"[..], b"0123456788", b"012345678", b"012345678\0\0"];
        assert!(others.iter().all(|other| corrupt_sum(other) != whole));
    }
}
