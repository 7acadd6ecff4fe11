// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Lists of views.

use cabane_view::parse_view_list;

use super::{Verdict, check_error, compare};

/// Reads a list of views.
pub fn run(bytes: &[u8]) -> Verdict {
    let text = String::from_utf8_lossy(bytes);
    match parse_view_list(&text) {
        Err(error) => check_error(&error, &text),
        Ok(views) => {
            let arguments: Vec<String> = views.iter().map(ToString::to_string).collect();
            let printed = arguments.join(",");
            compare(&views, &printed, parse_view_list(&printed))
        }
    }
}
