// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Content that neither repeats nor can be compressed.

/// Returns so many bytes, always the same for a seed: Marsaglia's generator `xorshift64` with the shifts 13, 7, and 17
/// (<https://doi.org/10.18637/jss.v008.i14>).
#[must_use]
pub fn noise(seed: u64, size: usize) -> Vec<u8> {
    // Zero would stay zero.
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = vec![0; size];
    // Tests make many megabytes without optimization: a word at a time.
    for word in bytes.chunks_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_le_bytes()[..word.len()]);
    }
    bytes
}
