// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What web pages have in common: [`STYLE`], the [`policy()`] against scripts of others, and texts and
//! numbers as they are in HTML.

#![forbid(unsafe_code)]

mod limits;
mod page;
pub mod plot;
mod style;
mod text;

pub use limits::{is_outside, limits, permitted};
pub use page::{END, begin};
pub use style::{STYLE, base64, policy};
pub use text::{
    chip, class, counted, date, duration, last_lines, line, lines, number, with_unit, words,
};
