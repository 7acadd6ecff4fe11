// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Whether numbers of several runs differ, or only their noise. Pure.
//!
//! The band of a figure is its median, and around it twice the spread of its own runs. The spread is the
//! median of the distances from the median, which one wild run does not change. With more than five runs,
//! the median is better known, and the band becomes narrower with the root of their number. Two figures
//! differ if their bands have nothing in common, and if nearly every run of one is on the same side of
//! nearly every run of the other: a median can jump between two usual values, and runs cannot. The
//! constants and what they are good for are in `docs/design/0018-evidence.md`.

use std::fmt;

use cabane_label::escape;
use serde::Serialize;

/// The fewest runs of a figure that say how much it varies.
pub const LEAST_RUNS: usize = 5;
/// The most runs of a figure that count, the newest.
pub const MOST_RUNS: usize = 20;
/// How many spreads a band reaches to each side, with five runs.
const SPREADS: f64 = 2.0;
/// The spread of normally distributed numbers, in medians of distances.
const OF_NORMAL: f64 = 1.4826;
/// A band is never narrower than this fraction of the median, to each side: runs that agree by chance, or
/// that are counted in whole seconds, have no spread.
const NARROWEST: f64 = 0.01;
/// Figures are the same only if their bands are not wider than this fraction of the median, to each side.
const WIDEST_OF_SAME: f64 = 0.05;
/// Which part of all pairs of runs must be on the same side.
const ON_ONE_SIDE: f64 = 0.95;
/// The largest number that counts; arithmetic with larger ones leaves the numbers.
const LARGEST: f64 = 1e100;

/// Whether a number can be compared: it is finite and not too large.
#[must_use]
pub(crate) fn is_comparable(number: f64) -> bool {
    number.abs() <= LARGEST
}

/// The median of the runs of a figure, and its band.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Band {
    /// The median.
    pub median: f64,
    /// How far the band reaches to each side; `None` if there are too few runs.
    pub half_width: Option<f64>,
    /// How many runs there are.
    pub runs: usize,
}

/// Which numbers are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// More is better: there is a lower limit and no upper one.
    More,
    /// Less is better: there is an upper limit and no lower one.
    Less,
}

/// What became of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// It differs, and that is good.
    Better,
    /// It differs, and that is bad.
    Worse,
    /// It is higher, and no limit says whether that is better.
    Higher,
    /// It is lower, and no limit says whether that is better.
    Lower,
    /// The bands are narrow, and the new median is in the band of the old one.
    Same,
    /// There are too few runs, or too much noise.
    CannotTell,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Higher => "higher",
            Self::Lower => "lower",
            Self::Same => "same",
            Self::CannotTell => "cannot tell",
        })
    }
}

impl Band {
    /// Returns the band of some runs; `None` if there is none. All numbers are comparable.
    #[must_use]
    pub(crate) fn of(runs: &[f64]) -> Option<Self> {
        let median = median(runs)?;
        let distances: Vec<f64> = runs.iter().map(|run| (run - median).abs()).collect();
        let count = count(runs);
        let half_width = (runs.len() >= LEAST_RUNS).then(|| {
            // Few runs are closer to their own median than to that of all.
            let spread = OF_NORMAL * median_or_zero(&distances) * count / (count - 0.8);
            let band = SPREADS * spread * (count_of(LEAST_RUNS) / count).sqrt();
            band.max(NARROWEST * median.abs())
        });
        Some(Self { median, half_width, runs: runs.len() })
    }

    /// Writes it with its unit: `23894 ± 210 MB/s (12 runs)`.
    #[must_use]
    pub fn with_unit(&self, unit: &str) -> String {
        let half = self.half_width.map(|half| format!(" ± {}", short(half))).unwrap_or_default();
        let space = if unit.is_empty() { "" } else { " " };
        let (median, unit, count) = (short(self.median), escape(unit), self.runs);
        let runs = if count == 1 { "run" } else { "runs" };
        format!("{median}{half}{space}{unit} ({count} {runs})")
    }

    /// Whether its median is known well enough to say that another one is the same.
    fn is_narrow(&self) -> bool {
        self.half_width.is_some_and(|half| half <= WIDEST_OF_SAME * self.median.abs())
    }

    /// Whether both bands have nothing in common; `None` if one has too few runs.
    fn is_apart(&self, other: &Self) -> Option<bool> {
        let reach = self.half_width? + other.half_width?;
        Some((self.median - other.median).abs() > reach)
    }
}

/// Writes a number with four digits that matter, and large ones without a fraction.
fn short(number: f64) -> String {
    let digits = match number.abs() {
        0.0 => return "0".to_owned(),
        size if !(1e-3..1e9).contains(&size) => return format!("{number:.3e}"),
        1000.0.. => return format!("{number:.0}"),
        100.0.. => 1,
        10.0.. => 2,
        1.0.. => 3,
        _ => 5,
    };
    let written = format!("{number:.digits$}");
    written.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Says what became of a figure. All numbers are comparable.
#[must_use]
pub(crate) fn answer(before: &[f64], now: &[f64], direction: Option<Direction>) -> Answer {
    let (Some(old), Some(new)) = (Band::of(before), Band::of(now)) else {
        return Answer::CannotTell;
    };
    let Some(is_apart) = old.is_apart(&new) else {
        return Answer::CannotTell;
    };
    let is_higher = new.median > old.median;
    let (lower, upper) = if is_higher { (before, now) } else { (now, before) };
    if is_apart && on_one_side(lower, upper) >= ON_ONE_SIDE {
        return match direction {
            None if is_higher => Answer::Higher,
            None => Answer::Lower,
            Some(direction) if is_higher == (direction == Direction::More) => Answer::Better,
            Some(_) => Answer::Worse,
        };
    }
    let is_within = old.half_width.is_some_and(|half| (new.median - old.median).abs() <= half);
    if is_within && old.is_narrow() && new.is_narrow() { Answer::Same } else { Answer::CannotTell }
}

/// Which part of all pairs has its lower number in `lower`. Equal numbers are one half.
fn on_one_side(lower: &[f64], upper: &[f64]) -> f64 {
    let of_pair = |low: f64, up: f64| match low.total_cmp(&up) {
        std::cmp::Ordering::Less => 1.0,
        std::cmp::Ordering::Equal => 0.5,
        std::cmp::Ordering::Greater => 0.0,
    };
    let pairs = lower.iter().flat_map(|low| upper.iter().map(move |up| of_pair(*low, *up)));
    pairs.sum::<f64>() / (count(lower) * count(upper))
}

fn median_or_zero(numbers: &[f64]) -> f64 {
    median(numbers).unwrap_or_default()
}

fn median(numbers: &[f64]) -> Option<f64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = *sorted.get(sorted.len() / 2 - 1)?;
    Some(lower / 2.0 + upper / 2.0)
}

fn count(numbers: &[f64]) -> f64 {
    count_of(numbers.len())
}

/// A count as a number; there are at most [`MOST_RUNS`] runs, and fewer than four billion anywhere.
fn count_of(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::from(u32::MAX), f64::from)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DIRECTIONS: [Option<Direction>; 3] = [None, Some(Direction::More), Some(Direction::Less)];

    fn differs(answer: Answer) -> bool {
        !matches!(answer, Answer::Same | Answer::CannotTell)
    }

    #[test]
    fn a_clear_change_is_named_in_its_direction() {
        let before = [100.0, 101.0, 99.0, 100.5, 99.5];
        let now = before.map(|run| run * 0.8);
        let said = DIRECTIONS.map(|direction| answer(&before, &now, direction));
        assert_eq!(said, [Answer::Lower, Answer::Worse, Answer::Better]);
        let said = DIRECTIONS.map(|direction| answer(&now, &before, direction));
        assert_eq!(said, [Answer::Higher, Answer::Better, Answer::Worse]);
        assert_eq!(answer(&before, &before, None), Answer::Same);
    }

    #[test]
    fn few_runs_and_noisy_ones_say_nothing() {
        let few = [100.0, 101.0, 99.0, 100.5];
        assert_eq!(answer(&few, &[10.0; 5], None), Answer::CannotTell);
        assert_eq!(answer(&[], &[], None), Answer::CannotTell);
        let noisy = [100.0, 150.0, 60.0, 120.0, 80.0];
        assert_eq!(answer(&noisy, &noisy.map(|run| run * 0.9), None), Answer::CannotTell);
        assert_eq!(answer(&noisy, &noisy, None), Answer::CannotTell);
    }

    #[test]
    fn runs_without_a_spread_are_the_same_within_one_percent() {
        assert_eq!(answer(&[100.0; 5], &[100.9; 5], None), Answer::Same);
        assert_eq!(answer(&[100.0; 5], &[103.0; 5], None), Answer::Higher);
        assert_eq!(answer(&[0.0; 5], &[0.0; 5], None), Answer::Same);
        assert_eq!(answer(&[0.0; 5], &[-0.0; 5], None), Answer::Same);
        assert_eq!(answer(&[3.0; 5], &[3.0, 3.0, 3.0, 4.0, 4.0], None), Answer::Same);
    }

    #[test]
    fn numbers_are_short_whatever_their_size() {
        let numbers = [0.0, -0.0, 0.001_234_56, -1.5, 23.894, 123.45, 23_894.4, 1e100, 1e-300];
        let expected =
            ["0", "0", "0.00123", "-1.5", "23.89", "123.5", "23894", "1.000e100", "1.000e-300"];
        assert_eq!(numbers.map(short), expected);
        let band = Band::of(&[100.0; 5]).unwrap();
        assert_eq!(band.with_unit("MB/s"), "100 ± 1 MB/s (5 runs)");
        assert_eq!(Band::of(&[2.0]).unwrap().with_unit(""), "2 (1 run)");
    }

    #[test]
    fn one_wild_run_changes_nothing() {
        let before = [100.0, 100.5, 99.5, 100.2, 99.8, 1700.0];
        assert_eq!(answer(&before, &[100.1, 100.0, 99.9, 100.3, 99.7], None), Answer::Same);
    }

    #[test]
    fn a_figure_with_two_usual_values_is_no_change() {
        // The median jumps; the runs do not.
        let before = [100.0, 100.0, 110.0, 110.0, 100.0];
        let now = [110.0, 110.0, 100.0, 110.0, 100.0];
        assert_eq!(answer(&before, &now, Some(Direction::Less)), Answer::CannotTell);
    }

    #[test]
    fn absurd_numbers_are_not_comparable() {
        for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e101, -1e308] {
            assert!(!is_comparable(number), "{number}");
        }
        for number in [0.0, -0.0, f64::MIN_POSITIVE, 1e100, -1e100] {
            assert!(is_comparable(number), "{number}");
        }
        let band = Band::of(&[1e100, -1e100, 1e100, -1e100, 0.0]).unwrap();
        assert!(band.half_width.unwrap().is_finite());
    }

    /// Anything, and runs around one number, which can differ from others.
    fn runs() -> impl Strategy<Value = Vec<f64>> {
        let usual = prop_oneof![1e-3..1e6, -1e3..1e3, Just(0.0), Just(-0.0), -1e100..1e100];
        let around = |center: f64| prop::collection::vec(center * 0.98..center * 1.02, 5..9);
        prop_oneof![
            prop::collection::vec(usual, 0..MOST_RUNS),
            prop_oneof![Just(50.0), Just(60.0), Just(1e9)].prop_flat_map(around),
        ]
    }

    proptest! {
        #[test]
        fn equal_samples_never_differ(runs in runs()) {
            for direction in DIRECTIONS {
                prop_assert!(!differs(answer(&runs, &runs, direction)));
            }
        }

        #[test]
        fn the_order_of_runs_does_not_matter(before in runs(), now in runs(), turn in 0_usize..20) {
            let mut turned = before.clone();
            let turn = turn.min(turned.len());
            turned.rotate_left(turn);
            prop_assert_eq!(answer(&before, &now, None), answer(&turned, &now, None));
        }

        #[test]
        fn the_unit_does_not_matter(before in runs(), now in runs(), exponent in -60_i32..60) {
            // A power of two is exact.
            let factor = f64::from(exponent).exp2();
            let scaled = |runs: &[f64]| runs.iter().map(|run| run * factor).collect::<Vec<_>>();
            let said = answer(&scaled(&before), &scaled(&now), Some(Direction::More));
            prop_assert_eq!(said, answer(&before, &now, Some(Direction::More)));
        }

        #[test]
        fn a_change_is_the_opposite_of_the_change_back(before in runs(), now in runs()) {
            let there = answer(&before, &now, None);
            let back = answer(&now, &before, None);
            prop_assert_eq!(there == Answer::Higher, back == Answer::Lower);
            prop_assert_eq!(there == Answer::Lower, back == Answer::Higher);
            prop_assert_eq!(differs(there), differs(answer(&before, &now, Some(Direction::Less))));
        }

        #[test]
        fn every_band_is_finite(runs in runs()) {
            if let Some(band) = Band::of(&runs) {
                prop_assert!(band.median.is_finite());
                prop_assert!(band.half_width.is_none_or(f64::is_finite));
            }
        }
    }

    /// Random numbers that are the same in each run, between 0 and 1.
    fn uniform() -> impl FnMut() -> f64 {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            f64::from(u32::try_from(state >> 32).unwrap()) / f64::from(u32::MAX)
        }
    }

    /// The sum of twelve is nearly normal, with the spread 1.
    fn normal(uniform: &mut impl FnMut() -> f64) -> f64 {
        (0..12).map(|_| uniform()).sum::<f64>() - 6.0
    }

    /// How many of a thousand pairs of samples are called different, where the second one differs by a
    /// number of spreads of single runs.
    fn called(count: usize, shift: f64, kind: &dyn Fn(f64) -> f64) -> usize {
        let mut uniform = uniform();
        let mut sample = |shift: f64| -> Vec<f64> {
            (0..count).map(|_| kind(normal(&mut uniform) + shift)).collect()
        };
        (0..1000).filter(|_| differs(answer(&sample(0.0), &sample(shift), None))).count()
    }

    #[test]
    fn noise_is_hardly_ever_a_change_and_real_changes_are_found() {
        let two_percent = |number: f64| 100.0 + 2.0 * number;
        let skewed = |number: f64| 100.0 * (0.3 * number).exp();
        for count in [5, 10, 20] {
            assert!(called(count, 0.0, &two_percent) <= 6, "{count}");
            assert!(called(count, 0.0, &skewed) <= 6, "{count}");
        }
        for (count, shift) in [(5, 8.0), (10, 5.0), (20, 4.0)] {
            assert!(called(count, shift, &two_percent) >= 900, "{count}");
        }
    }
}
