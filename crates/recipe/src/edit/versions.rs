// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Versions of Python packages, as PEP 440 writes them: `2!1.0rc1.post2.dev3+local.1`.

/// What can mark a version before its release, the longer words first.
const PRE: [&str; 8] = ["alpha", "beta", "preview", "pre", "rc", "a", "b", "c"];
/// What can mark a version after its release, the longer words first.
const POST: [&str; 3] = ["post", "rev", "r"];

/// Tells whether a version can follow a comparison.
pub(super) fn fits(comparison: &str, version: &str) -> bool {
    if comparison == "===" {
        return !version.is_empty() && !version.contains(|c: char| c.is_whitespace() || c == ';');
    }
    let text = version.to_ascii_lowercase();
    let is_equality = matches!(comparison, "==" | "!=");
    if let Some(prefix) = text.strip_suffix(".*") {
        return is_equality && Version::read(prefix).is_some_and(|one| one.is_prefix());
    }
    Version::read(&text).is_some_and(|one| {
        (is_equality || !one.has_local) && (comparison != "~=" || one.numbers > 1)
    })
}

/// What is in a version.
struct Version {
    /// How many numbers its release has.
    numbers: usize,
    is_development: bool,
    has_local: bool,
}

impl Version {
    fn is_prefix(&self) -> bool {
        !self.is_development && !self.has_local
    }

    /// Reads a version in lower case.
    fn read(text: &str) -> Option<Self> {
        let (public, local) = match text.split_once('+') {
            Some((public, local)) => (public, Some(local)),
            None => (text, None),
        };
        let is_part =
            |part: &str| !part.is_empty() && part.chars().all(|one| one.is_ascii_alphanumeric());
        if local.is_some_and(|local| !local.split(['.', '-', '_']).all(is_part)) {
            return None;
        }
        let mut rest = public.strip_prefix('v').unwrap_or(public);
        if let Some((epoch, release)) = rest.split_once('!') {
            rest = release;
            after_number(epoch).filter(|rest| rest.is_empty())?;
        }
        let mut numbers = 1;
        rest = after_number(rest)?;
        while let Some(next) = rest.strip_prefix('.').and_then(after_number) {
            rest = next;
            numbers += 1;
        }
        rest = after_word(rest, &PRE).unwrap_or(rest);
        let implicit_post = rest.strip_prefix('-').and_then(after_number);
        rest = implicit_post.or_else(|| after_word(rest, &POST)).unwrap_or(rest);
        let development = after_word(rest, &["dev"]);
        rest = development.unwrap_or(rest);
        let (is_development, has_local) = (development.is_some(), local.is_some());
        rest.is_empty().then_some(Self { numbers, is_development, has_local })
    }
}

/// Returns what follows a number, if there is one.
fn after_number(text: &str) -> Option<&str> {
    let rest = text.trim_start_matches(|one: char| one.is_ascii_digit());
    (rest.len() < text.len()).then_some(rest)
}

/// Returns what follows one of the words, with the number behind it, if there is one.
fn after_word<'t>(text: &'t str, words: &[&str]) -> Option<&'t str> {
    const SEPARATORS: [char; 3] = ['.', '-', '_'];
    let start = text.strip_prefix(SEPARATORS).unwrap_or(text);
    let rest = words.iter().find_map(|word| start.strip_prefix(word))?;
    let number = rest.strip_prefix(SEPARATORS).unwrap_or(rest);
    Some(after_number(number).unwrap_or(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_told_from_other_texts() {
        let right = [
            "1",
            "v1.0",
            "2026.1",
            "1!1.0",
            "1.0a1",
            "1.0-beta.2",
            "1.0rc",
            "1.0-1",
            "1.0.post2",
            "1.0.DEV3",
            "1.0+cu12.1",
        ];
        for version in right {
            assert!(fits("==", version), "{version}");
        }
        for version in [
            "", "b", "+mpi", "1.", ".1", "1.0-", "1..0", "1.0+", "1.0+a..b", "1.0 2", "1:2",
            "1.dev1.*", "1é",
        ] {
            assert!(!fits("==", version), "{version}");
        }
        assert!(fits("!=", "1.*") && !fits(">=", "1.*"));
        assert!(fits("~=", "1.2") && !fits("~=", "1"));
        assert!(!fits(">=", "1.0+local"));
    }
}
