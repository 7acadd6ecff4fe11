// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Writes the reference pages into a directory, and the manual pages into its folder `man`.

#![forbid(unsafe_code)]

use std::fs;
use std::io;
use std::path::Path;

use cabane_cli::reference;

fn main() -> io::Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(directory), None) = (arguments.next(), arguments.next()) else {
        return Err(io::Error::other("usage: cabane-reference DIRECTORY"));
    };
    let directory = Path::new(&directory);
    let manual = directory.join("man");
    fs::create_dir_all(&manual)?;
    reference::write_pages(directory)?;
    clap_mangen::generate_to(reference::command(), manual)
}
