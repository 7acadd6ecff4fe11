// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Writes the reference pages, or with `--manual` the manual pages, into a directory.

#![forbid(unsafe_code)]

use std::io;
use std::path::Path;

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["--manual", directory] => cabane_cli::reference::write_manual(Path::new(directory)),
        [directory] => cabane_cli::reference::write_pages(Path::new(directory)),
        _ => Err(io::Error::other(
            "usage: cabane-reference [--manual] DIRECTORY",
        )),
    }
}
