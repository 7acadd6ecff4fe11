// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Many times in little memory.

use serde::Serialize;

/// Each place counts times up to 1.08 times as long as those of the place before, from a
/// microsecond to twelve minutes and beyond.
const PLACES: u16 = 265;
const RATIO: f64 = 1.08;

/// Times, counted in steps of eight per cent.
#[derive(Clone, Debug)]
pub(crate) struct Times {
    counts: Box<[u32]>,
    count: u64,
    least: f64,
    most: f64,
}

/// What is said of many times, in milliseconds. Median and 95 % are exact to four per cent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Distribution {
    /// How many there are.
    pub count: u64,
    /// Half of them are shorter.
    pub median_ms: f64,
    /// Ninety-five of a hundred are shorter.
    pub p95_ms: f64,
    /// The longest one.
    pub max_ms: f64,
}

impl Default for Times {
    fn default() -> Self {
        Self { counts: vec![0; PLACES.into()].into(), count: 0, least: f64::INFINITY, most: 0.0 }
    }
}

impl Times {
    /// Adds a time in milliseconds. What is no time is left out.
    pub(crate) fn add(&mut self, milliseconds: f64) {
        if !milliseconds.is_finite() || milliseconds < 0.0 {
            return;
        }
        let microseconds = (milliseconds * 1000.0).max(1.0);
        let place = (microseconds.ln() / RATIO.ln()).min(f64::from(PLACES - 1));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is within the list"
        )]
        if let Some(count) = self.counts.get_mut(place as usize) {
            *count = count.saturating_add(1);
            self.count += 1;
            self.least = self.least.min(milliseconds);
            self.most = self.most.max(milliseconds);
        }
    }

    /// Says something of them, if there are any.
    pub(crate) fn distribution(&self) -> Option<Distribution> {
        (self.count > 0).then(|| Distribution {
            count: self.count,
            median_ms: self.below(50),
            p95_ms: self.below(95),
            max_ms: rounded(self.most),
        })
    }

    /// Returns the time below which so many of a hundred are.
    fn below(&self, percent: u64) -> f64 {
        let wanted = (self.count * percent).div_ceil(100);
        let mut seen = 0;
        for (place, count) in (0..PLACES).zip(&self.counts) {
            seen += u64::from(*count);
            if seen >= wanted {
                let middle = RATIO.powf(f64::from(place) + 0.5) / 1000.0;
                return rounded(middle.clamp(self.least, self.most));
            }
        }
        rounded(self.most)
    }
}

/// More digits would not be true.
fn rounded(milliseconds: f64) -> f64 {
    let digits = if milliseconds < 10.0 { 100.0 } else { 1.0 };
    (milliseconds * digits).round() / digits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distribution(times: impl IntoIterator<Item = f64>) -> Distribution {
        let mut all = Times::default();
        times.into_iter().for_each(|time| all.add(time));
        all.distribution().unwrap()
    }

    #[test]
    fn median_and_tail_are_near_the_exact_ones() {
        let found = distribution((1..=1000).map(f64::from));
        assert!((found.median_ms / 500.0 - 1.0).abs() < 0.05, "{found:?}");
        assert!((found.p95_ms / 950.0 - 1.0).abs() < 0.05, "{found:?}");
        assert_eq!((found.count, found.max_ms), (1000, 1000.0));
    }

    #[test]
    fn one_time_is_its_own_median() {
        let found = distribution([3.0]);
        assert_eq!((found.median_ms, found.p95_ms, found.max_ms), (3.0, 3.0, 3.0));
        let found = distribution([40.0]);
        assert_eq!((found.median_ms, found.count), (40.0, 1));
    }

    #[test]
    fn what_is_no_time_does_not_count() {
        let mut times = Times::default();
        for time in [f64::NAN, f64::INFINITY, -1.0] {
            times.add(time);
        }
        assert_eq!(times.distribution(), None);
        times.add(0.0);
        times.add(1e30);
        assert_eq!(times.distribution().unwrap().count, 2);
    }
}
