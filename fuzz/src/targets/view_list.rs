// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Lists of views.

use cabane_view::parse_view_list;

use super::{Target, Verdict, check_error, compare};

pub(super) const TARGET: Target = Target {
    name: "view_list",
    run,
    dictionary: &[
        ":",
        ",",
        "::",
        ",,",
        "-",
        ".",
        " ",
        "\t",
        "default",
        "a:b",
        "/mnt/a:b",
        "a/1:v1@s%u:b",
        "\u{1b}",
        "é",
    ],
};

fn run(bytes: &[u8]) -> Verdict {
    let text = String::from_utf8_lossy(bytes);
    match parse_view_list(&text) {
        Err(error) => check_error(&error, &text),
        Ok(views) => {
            let words: Vec<String> = views.iter().map(ToString::to_string).collect();
            let printed = words.join(",");
            compare(&views, &printed, parse_view_list(&printed))
        }
    }
}
