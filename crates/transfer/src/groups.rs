// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The numbers of Unix groups.
//!
//! Where users come from a directory of the site, only `getent` knows them: a program that is
//! linked statically cannot ask by itself.

use std::fs;
use std::process::{Command, Stdio};

use cabane_report::{Kind, Report, Result};

const DATABASE: &str = "/etc/group";

/// Returns the number of a group, which may be given as such.
///
/// # Errors
///
/// A name that no one knows.
pub fn number_of(name: &str) -> Result<u32> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let found = requested(name).or_else(|| number_in(&fs::read_to_string(DATABASE).ok()?, name));
    found.ok_or_else(|| {
        let name = cabane_label::escape(name).into_owned();
        Report::new(Kind::Usage, format!("there is no group `{name}`"))
            .hinted("`id` lists your groups".to_owned())
    })
}

fn requested(name: &str) -> Option<u32> {
    let answer = Command::new("getent")
        .args(["group", "--", name])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    number_in(&String::from_utf8_lossy(&answer.stdout), name)
}

/// Takes the number of a group out of lines `name:password:number:members`.
fn number_in(text: &str, name: &str) -> Option<u32> {
    let mut lines = text.lines().map(|line| line.split(':'));
    lines.find_map(|mut fields| {
        (fields.next()? == name).then_some(())?;
        fields.nth(1)?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_found_by_its_whole_name() {
        let text = "vaspusers:x:12:\nvasp:x:13:alice,bob\n";
        assert_eq!(number_in(text, "vasp"), Some(13));
    }

    #[test]
    fn a_number_is_the_number_of_a_group() {
        assert_eq!(number_of("4711").ok(), Some(4711));
    }

    #[test]
    fn the_groups_of_this_machine_are_known() {
        assert_eq!(number_of("root").ok(), Some(0));
    }
}
