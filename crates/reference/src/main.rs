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
    clap_mangen::generate_to(reference::command(), &manual)?;
    for entry in fs::read_dir(manual)? {
        let path = entry?.path();
        let text = fs::read_to_string(&path)?;
        fs::write(&path, with_usual_sections(&text))?;
    }
    Ok(())
}

/// Gives what follows the options of a manual page the names of sections that readers look for.
fn with_usual_sections(page: &str) -> String {
    let Some((options, rest)) = page.split_once("\n.SH EXTRA\n") else {
        return page.to_owned();
    };
    let paragraphs = rest.trim_end().split("\n\n");
    let (examples, notes): (Vec<&str>, Vec<&str>) =
        paragraphs.partition(|paragraph| paragraph.starts_with("Examples:\n"));
    // Their lines stay as they are.
    let unfilled = |lines: &&str| format!(".nf\n{}\n.fi", lines.trim_start_matches("Examples:\n"));
    let examples: Vec<String> = examples.iter().map(unfilled).collect();
    let mut text = options.to_owned();
    for (name, section) in [("NOTES", notes.join("\n\n")), ("EXAMPLES", examples.concat())] {
        if !section.is_empty() {
            text += &format!("\n.SH {name}\n{section}");
        }
    }
    text + "\n"
}
