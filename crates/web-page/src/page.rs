// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The frame of a page that needs nothing from elsewhere and runs no script.

use cabane_label::escape_html;

use crate::style::{STYLE, policy};

/// Begins a page up to its body.
#[must_use]
pub fn begin(title: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n",
        policy(),
        escape_html(title)
    )
}

/// The end of a page.
pub const END: &str = "</body>\n</html>\n";
