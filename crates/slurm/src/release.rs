// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The release of Slurm that this object is for.
//!
//! Slurm loads plugins of its own release only, and a release is year and month: 22.05.8
//! takes every 22.05. Nothing else of Slurm is needed to build.

/// The release as Slurm writes it: one byte each for year, month and the rest.
///
/// It comes from `CABANE_SLURM_RELEASE` at build time, such as `22.05`. Without it the
/// object belongs to no release, and none takes it.
pub(crate) const RELEASE: u32 = match option_env!("CABANE_SLURM_RELEASE") {
    Some(text) => number(text.as_bytes()),
    None => 0,
};

/// Reads `YY.MM`; what follows does not matter.
const fn number(text: &[u8]) -> u32 {
    match text {
        [a, b, b'.', c, d, ..]
            if a.is_ascii_digit()
                && b.is_ascii_digit()
                && c.is_ascii_digit()
                && d.is_ascii_digit() =>
        {
            (two_digits(*a, *b) << 16) | (two_digits(*c, *d) << 8)
        }
        _ => 0,
    }
}

const fn two_digits(tens: u8, ones: u8) -> u32 {
    // A `const fn` has no `From`.
    (tens - b'0') as u32 * 10 + (ones - b'0') as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_written_as_slurm_writes_it() {
        let numbers = ["22.05.8", "24.11", "2.5", ""].map(|text| number(text.as_bytes()));
        assert_eq!(numbers, [0x16_05_00, 0x18_0b_00, 0, 0]);
    }
}
