// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The database of a repository of uenv.

use cabane_uenv::UenvRepository;

use super::Verdict;
use super::memory::memory;

/// Reads a database; no one knows who wrote it.
pub fn run(bytes: &[u8]) -> Verdict {
    let place = tempfile::tempdir_in(memory());
    let Ok(place) = place else {
        return Verdict::Refused;
    };
    if std::fs::write(place.path().join("index.db"), bytes).is_err() {
        return Verdict::Refused;
    }
    let contents = UenvRepository::open(place.path()).and_then(|found| found.contents());
    let (verdict, shown) = match contents {
        Err(error) => (Verdict::Refused, vec![error.to_string()]),
        Ok(contents) if !contents.images.is_empty() => {
            return Verdict::Wrong("there are images without files".to_owned());
        }
        Ok(contents) => {
            let damaged = contents.damaged.iter();
            (Verdict::Accepted, damaged.map(ToString::to_string).collect())
        }
    };
    let is_shown = |text: &String| !text.chars().any(char::is_control);
    match shown.into_iter().find(|text| !is_shown(text)) {
        Some(text) => Verdict::Wrong(format!("this cannot be shown: {text:?}")),
        None => verdict,
    }
}
