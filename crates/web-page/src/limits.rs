// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is permitted of a figure. Pure.

use cabane_evidence::Measured;

use crate::text::{number, with_unit};

/// Returns the smallest and the largest number that is permitted.
#[must_use]
pub fn limits(figure: &Measured) -> (Option<f64>, Option<f64>) {
    let limit = |fraction: Option<f64>| {
        let reference = figure.reference?;
        Some(reference + reference.abs() * fraction?).filter(|limit| limit.is_finite())
    };
    (limit(figure.lower), limit(figure.upper))
}

/// Whether a figure is not within its limits.
#[must_use]
pub fn is_outside(figure: &Measured) -> bool {
    let (lower, upper) = limits(figure);
    lower.is_some_and(|lower| figure.value < lower)
        || upper.is_some_and(|upper| figure.value > upper)
}

/// Returns the limits in words.
#[must_use]
pub fn permitted(figure: &Measured) -> String {
    match limits(figure) {
        (Some(lower), Some(upper)) => {
            format!("{} to {}", number(lower), with_unit(upper, &figure.unit))
        }
        (Some(lower), None) => format!("at least {}", with_unit(lower, &figure.unit)),
        (None, Some(upper)) => format!("at most {}", with_unit(upper, &figure.unit)),
        (None, None) => "any".to_owned(),
    }
}
