// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The names and numbers of Unix groups.
//!
//! Where users come from a directory of the site, only `getent` knows them: a program that is
//! linked statically cannot ask by itself.

use std::fs;
use std::process::{Command, Stdio};

use cabane_label::escape;

const DATABASE: &str = "/etc/group";

/// Returns the number of a group, which may be given as such; `None` for a name that no one knows.
#[must_use]
pub fn number_of(name: &str) -> Option<u32> {
    name.parse().ok().or_else(|| find(name).map(|(_, number)| number))
}

/// Returns the name of a group, as it may be shown; its number if no one knows the name.
#[must_use]
pub fn name_of(number: u32) -> String {
    let number = number.to_string();
    find(&number).map_or(number, |(name, _)| escape(&name).into_owned())
}

/// Finds a group by its name or its number.
fn find(group: &str) -> Option<(String, u32)> {
    requested(group).or_else(|| find_in(&fs::read_to_string(DATABASE).ok()?, group))
}

fn requested(group: &str) -> Option<(String, u32)> {
    let answer = Command::new("getent")
        .args(["group", "--", group])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    find_in(&String::from_utf8_lossy(&answer.stdout), group)
}

/// Finds a group in lines `name:password:number:members`.
fn find_in(text: &str, group: &str) -> Option<(String, u32)> {
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let number = fields.nth(1)?;
        let is_it = name == group || number == group;
        is_it.then(|| Some((name.to_owned(), number.parse().ok()?))).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_found_by_its_whole_name_and_by_its_number() {
        let text = "vaspusers:x:12:\nvasp:x:13:alice,bob\n";
        let vasp = Some(("vasp".to_owned(), 13));
        assert_eq!(find_in(text, "vasp"), vasp);
        assert_eq!(find_in(text, "13"), vasp);
        assert_eq!(find_in(text, "1"), None);
    }

    #[test]
    fn a_number_is_the_number_of_a_group_and_stands_for_a_name_that_is_unknown() {
        assert_eq!(number_of("4294967290"), Some(4_294_967_290));
        assert_eq!(name_of(4_294_967_290), "4294967290");
    }

    #[test]
    fn the_groups_of_this_machine_are_known() {
        assert_eq!(number_of("root"), Some(0));
        assert_eq!(name_of(0), "root");
    }
}
