// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The sum at the head of a file: it tells whether a person has changed the rest.

use sha2::{Digest, Sha256};

const MARK: &str = "# sum of all lines below: ";

/// Returns a file with a head and the sum of `text`.
pub(super) fn signed(title: &str, text: &str) -> String {
    let sum = sum(text);
    format!(
        "# {title} Written by `cabane system probe`, which replaces\n\
         # this file only as long as the sum is right: what you change, it leaves alone.\n\
         {MARK}{sum}\n{text}"
    )
}

/// Tells whether a file is as it was written.
pub(super) fn is_untouched(file: &str) -> bool {
    let after_mark = file.split_once(MARK).map(|(_, rest)| rest);
    let parts = after_mark.and_then(|rest| rest.split_once('\n'));
    // The lines above the sum are ours as well, as long as they are comments.
    let head = file.lines().take_while(|line| !line.starts_with(MARK));
    parts.is_some_and(|(written, text)| written == sum(text)) && head.count() == 2
}

fn sum(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    let bytes = digest.iter().take(16);
    bytes.map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_line_and_an_added_one_are_noticed() {
        let file = signed("Title.", "packages:\n  a: {}\n");
        let others = [
            file.clone(),
            file.replace("a:", "b:"),
            format!("{file}\n"),
            format!("# mine\n{file}"),
            "packages: {}\n".to_owned(),
        ];
        let untouched = others.map(|other| is_untouched(&other));
        assert_eq!(untouched, [true, false, false, false, false]);
    }
}
