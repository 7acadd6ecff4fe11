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
    for (name, usage) in reference::usages() {
        let path = manual.join(format!("{}.1", name.replace(' ', "-")));
        let text = fs::read_to_string(&path)?;
        fs::write(&path, with_usual_sections(&with_synopsis(&text, &usage)))?;
    }
    Ok(())
}

/// Gives a manual page the synopsis of the help, with `--` and `...`.
fn with_synopsis(page: &str, usage: &str) -> String {
    const SECTION: &str = "\n.SH SYNOPSIS\n";
    const NEXT: &str = "\n.SH ";
    let Some((before, rest)) = page.split_once(SECTION) else {
        return page.to_owned();
    };
    let rest = rest.find(NEXT).map_or("", |end| &rest[end..]);
    let usage = usage.trim_start_matches("Usage:").lines();
    let lines: Vec<String> = usage.map(|line| formatted(line.trim())).collect();
    format!("{before}{SECTION}{}{rest}", lines.join("\n.br\n"))
}

/// Formats a line of a usage: the names of commands and options are bold, those of values are italic.
fn formatted(usage: &str) -> String {
    let mut is_name = true;
    let words = usage.split(' ').map(|word| {
        is_name &= word.starts_with(|first: char| first.is_ascii_lowercase());
        let is_option = word.starts_with("--") && word.len() > 2;
        let word = word.replace('-', "\\-").replace('<', "<\\fI").replace('>', "\\fR>");
        if is_name || is_option { format!("\\fB{word}\\fR") } else { word }
    });
    words.collect::<Vec<_>>().join(" ")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_synopsis_is_the_usage_of_the_help() {
        let page = ".SH NAME\na\n.SH SYNOPSIS\nold\n.SH OPTIONS\nb\n";
        let usage = "Usage: cabane attach [OPTIONS] --key <FILE> <PID|JOB> [-- <COMMAND>...]";
        let expected = ".SH NAME\na\n.SH SYNOPSIS\n\\fBcabane\\fR \\fBattach\\fR [OPTIONS] \
            \\fB\\-\\-key\\fR <\\fIFILE\\fR> <\\fIPID|JOB\\fR> [\\-\\- <\\fICOMMAND\\fR>...]\n.SH OPTIONS\nb\n";
        assert_eq!(with_synopsis(page, usage), expected);
    }
}
