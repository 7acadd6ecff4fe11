// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Fingerprints: whether a step would do the same again.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use cabane_label::Digest;
use sha2::{Digest as _, Sha256};

/// Goes up whenever a step does something else for the same inputs.
const VERSION: u32 = 1;

/// What goes into a step, by name: a digest, a version, a setting.
pub(crate) type Inputs = BTreeMap<String, String>;

/// Computes the fingerprint of a step from its own inputs and from the
/// fingerprint of the step before it.
pub(crate) fn of_step(name: &str, inputs: &Inputs, previous: Option<&Digest>) -> Digest {
    let version = VERSION.to_string();
    let previous = previous.map_or("", Digest::as_str);
    let head = [&version, env!("CARGO_PKG_VERSION"), name, previous];
    digest_of(head.into_iter().chain(texts_of(inputs)))
}

/// The names and values of inputs.
pub(crate) fn texts_of(inputs: &Inputs) -> impl Iterator<Item = &str> {
    inputs.iter().flat_map(|(name, value)| [name.as_str(), value])
}

/// Computes a digest over several texts.
pub(crate) fn digest_of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Digest {
    let mut hash = Hash::new();
    for text in texts {
        hash.bytes(text.as_bytes());
    }
    hash.finish()
}

/// Computes the digest of some bytes.
pub fn of_bytes(bytes: &[u8]) -> Digest {
    Digest::from_bytes(Sha256::digest(bytes).into())
}

/// Computes the digest of a file's content.
pub(crate) fn of_file(path: &Path) -> io::Result<Digest> {
    of_reader(File::open(path)?, || true)
}

/// Computes the digest of all that can be read; stops with `Interrupted` when
/// `go_on` says so.
pub(crate) fn of_reader(mut reader: impl Read, go_on: impl Fn() -> bool) -> io::Result<Digest> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    loop {
        let length = reader.read(&mut buffer)?;
        if length == 0 {
            return Ok(Digest::from_bytes(hash.finalize().into()));
        }
        hash.update(buffer.get(..length).unwrap_or_default());
        if !go_on() {
            return Err(io::ErrorKind::Interrupted.into());
        }
    }
}

/// A digest over several texts, each with its length, so that none runs into the
/// next.
pub(crate) struct Hash(Sha256);

impl Hash {
    pub(crate) fn new() -> Self {
        Self(Sha256::new())
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    pub(crate) fn number(&mut self, number: u64) {
        self.0.update(number.to_le_bytes());
    }

    pub(crate) fn finish(self) -> Digest {
        Digest::from_bytes(self.0.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(pairs: &[(&str, &str)]) -> Inputs {
        let owned = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        pairs.iter().map(owned).collect()
    }

    #[test]
    fn moving_a_letter_from_the_name_of_an_input_to_its_value_changes_the_fingerprint() {
        assert_ne!(
            of_step("lock", &inputs(&[("ab", "c")]), None),
            of_step("lock", &inputs(&[("a", "bc")]), None),
        );
    }

    #[test]
    fn a_step_changes_when_the_step_before_it_does() {
        let first = of_step("lock", &inputs(&[("a", "1")]), None);
        let other = of_step("lock", &inputs(&[("a", "2")]), None);
        assert_ne!(
            of_step("install", &inputs(&[]), Some(&first)),
            of_step("install", &inputs(&[]), Some(&other)),
        );
    }
}
