// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Ranges of axes, and the numbers beside them. Pure.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::coord::types::RangedCoordf64;

/// Numbers farther from zero, or nearer to it, are not drawn: arithmetic with them leaves the numbers.
const LARGEST: f64 = 1e100;
/// The most numbers beside an axis.
const MOST: usize = 6;

/// An axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// What it shows, with the unit.
    pub name: String,
    /// How its numbers are written.
    pub format: fn(f64) -> String,
}

/// Whether a number can be drawn.
pub(super) fn is_drawable(number: f64) -> bool {
    number.abs() <= LARGEST
}

/// Whether a number can be drawn on a logarithmic axis.
pub(super) fn has_logarithm(number: f64) -> bool {
    (1.0 / LARGEST..=LARGEST).contains(&number)
}

/// Returns the smallest and the largest of some numbers.
pub(super) fn extent(numbers: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    numbers.fold(None, |known, number| {
        let (low, high) = known.unwrap_or((number, number));
        Some((low.min(number), high.max(number)))
    })
}

/// The range of an axis, and the numbers beside it.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    range: Range<f64>,
    points: Vec<f64>,
    is_logarithmic: bool,
}

impl Scale {
    /// Makes a linear scale with some space beside all numbers.
    pub(super) fn linear((low, high): (f64, f64)) -> Self {
        let space = match high - low {
            difference if difference > 0.0 => difference * 0.08,
            _ if high == 0.0 => 1.0,
            _ => high.abs() * 0.1,
        };
        Self::exact(low - space..high + space)
    }

    /// Makes a linear scale of a range.
    pub(super) fn exact(range: Range<f64>) -> Self {
        let points = RangedCoordf64::from(range.clone()).key_points(MOST);
        Self { range, points, is_logarithmic: false }
    }

    /// Makes a logarithmic scale with some space beside all numbers, which have a logarithm.
    pub(super) fn logarithmic((low, high): (f64, f64)) -> Self {
        let space = (high / low).powf(0.06).max(1.15);
        let range = low / space..high * space;
        Self { points: round_numbers(&range), range, is_logarithmic: true }
    }

    /// Replaces the numbers beside the axis, the smallest first. Those nearer to another one than a part of the
    /// axis are left out.
    pub(super) fn with_points(mut self, points: &[f64], part: f64) -> Self {
        let length = self.place(self.range.end) - self.place(self.range.start);
        self.points.clear();
        for point in points {
            let is_near = |last: &f64| self.place(*point) - self.place(*last) < part * length;
            if !self.points.last().is_some_and(is_near) {
                self.points.push(*point);
            }
        }
        self
    }

    fn place(&self, number: f64) -> f64 {
        let within = number.clamp(self.range.start, self.range.end);
        if self.is_logarithmic { within.ln() } else { within }
    }
}

impl Ranged for Scale {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, number: &f64, limit: (i32, i32)) -> i32 {
        let places = self.place(self.range.start)..self.place(self.range.end);
        RangedCoordf64::from(places).map(&self.place(*number), limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        // No lines between those with a number.
        if hint.weight().allow_light_points() { Vec::new() } else { self.points.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

/// Returns round numbers within a range of a logarithmic axis.
fn round_numbers(range: &Range<f64>) -> Vec<f64> {
    let within = |factors: &[f64]| -> Vec<f64> {
        // Of numbers that can be drawn, all powers can be counted.
        let powers = (-101..=101).map(|exponent| 10_f64.powi(exponent));
        let near = powers.filter(|power| (range.start / 10.0..=range.end).contains(power));
        let mut numbers: Vec<f64> =
            near.flat_map(|power| factors.iter().map(move |factor| factor * power)).collect();
        numbers.retain(|number| range.contains(number));
        numbers
    };
    let choices: [&[f64]; 3] =
        [&[1.0], &[1.0, 2.0, 5.0], &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0]];
    let enough = choices.into_iter().map(within).find(|numbers| numbers.len() > 2);
    match enough {
        Some(numbers) => few(&numbers),
        None => vec![range.start, (range.start * range.end).sqrt(), range.end],
    }
}

/// Leaves out numbers at equal distances until few are left.
fn few(numbers: &[f64]) -> Vec<f64> {
    let step = numbers.len().div_ceil(MOST).max(1);
    numbers.iter().step_by(step).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_beside_an_axis_are_few_and_within_it() {
        for (low, high) in [(0.14, 3869.0), (1.0, 1.0), (0.9, 1.1), (1e-100, 1e100), (3.0, 9.0)] {
            let Scale { range, points: numbers, .. } = Scale::logarithmic((low, high));
            assert!((2..=MOST).contains(&numbers.len()), "{low} {high}: {numbers:?}");
            assert!(
                numbers.iter().all(|one| (range.start..=range.end).contains(one)),
                "{numbers:?}"
            );
        }
    }

    #[test]
    fn a_range_is_never_empty() {
        for number in [0.0, -3.0, 1e100, 1e-100] {
            let range = Scale::linear((number, number)).range;
            assert!(range.start < range.end, "{range:?}");
        }
        let range = Scale::logarithmic((1.0, 1.0)).range;
        assert!(range.start < 1.0 && range.end > 1.0, "{range:?}");
    }
}
