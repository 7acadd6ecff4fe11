// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Numbers that look random and are the same for the same seed.

/// A generator of the kind known as `SplitMix64`.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below a limit, or 0 if the limit is 0.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        // Numbers that are not quite even do no harm here.
        let number = usize::try_from(self.next() >> 32).unwrap_or_default();
        number.checked_rem(limit).unwrap_or_default()
    }

    /// Returns one byte.
    pub(crate) fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[7]
    }
}
