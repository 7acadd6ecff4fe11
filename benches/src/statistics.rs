// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Minimum, median and quartiles: what is reported about a row of numbers.
//!
//! No means and no deviations: one sample that met a busy moment of the machine
//! would move them.

/// What is reported about a row of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Summary {
    pub(crate) minimum: f64,
    pub(crate) lower_quartile: f64,
    pub(crate) median: f64,
    pub(crate) upper_quartile: f64,
}

impl Summary {
    /// Summarises numbers; `None` where there are none.
    pub(crate) fn of(numbers: &[f64]) -> Option<Self> {
        let mut sorted = numbers.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            minimum: *sorted.first()?,
            lower_quartile: quantile(&sorted, 1)?,
            median: quantile(&sorted, 2)?,
            upper_quartile: quantile(&sorted, 3)?,
        })
    }
}

/// Returns the number below which so many quarters lie, between two neighbours
/// where it falls between them.
fn quantile(sorted: &[f64], quarters: usize) -> Option<f64> {
    let fourfold = sorted.len().checked_sub(1)? * quarters;
    let low = *sorted.get(fourfold / 4)?;
    let high = *sorted.get((fourfold / 4 + 1).min(sorted.len() - 1))?;
    let part = [0.0, 0.25, 0.5, 0.75][fourfold % 4];
    Some(low + (high - low) * part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_count_lies_between_the_two_in_the_middle() {
        let summary = Summary::of(&[4.0, 1.0, 3.0, 2.0]).unwrap();
        assert!((summary.median - 2.5).abs() < 1e-12, "{summary:?}");
    }

    #[test]
    fn one_slow_sample_does_not_move_the_quartiles() {
        let calm = Summary::of(&[1.0, 1.0, 1.0, 1.0, 1.0]).unwrap();
        let disturbed = Summary::of(&[1.0, 1.0, 1000.0, 1.0, 1.0]).unwrap();
        assert_eq!(calm, disturbed);
    }

    #[test]
    fn quartiles_come_in_order() {
        let summary = Summary::of(&[5.0, 9.0, 1.0, 7.0, 3.0]).unwrap();
        let expected =
            Summary { minimum: 1.0, lower_quartile: 3.0, median: 5.0, upper_quartile: 7.0 };
        assert_eq!(summary, expected);
    }

    #[test]
    fn no_numbers_give_no_statistics() {
        assert_eq!(Summary::of(&[]), None);
    }
}
