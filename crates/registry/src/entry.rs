// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The list of images that a registry keeps for us: one tag for each label, which says all.
//!
//! The specification lets everyone who may read a repository list its tags, and no one list
//! the repositories. So there is one repository in each namespace, `cabane-index`, of which
//! every tag is a line of the list:
//!
//! ```text
//! <name>_-<version>_-<tag>_-<system>_-<uarch>_.<size>.<date>.<digest>
//! ```
//!
//! `_` in a part is written `__`, so that nothing else looks like a separator; size and date
//! are hexadecimal, in bytes and in seconds since 1970; the digest is base64 without padding,
//! as for addresses. A label that is too long for a tag, which has 128 characters at most,
//! is in the manifest of the tag, and the tag has `h` and a sum in its place.
//!
//! The manifest of a line may have the packages of the image as its layer, see
//! [`crate::contents`].
//!
//! A line is written at once or not at all, and no two writers write the same: there is
//! nothing in it that could be lost when two push at the same time.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cabane_label::{Digest, Label};
use jiff::Timestamp;

use crate::sum;

/// The repository of the list, in every namespace.
pub(crate) const REPOSITORY: &str = "cabane-index";
/// What its manifests are.
pub(crate) const KIND: &str = "application/vnd.cabane.index-entry.v1";
/// The annotation that holds the label.
pub(crate) const LABEL: &str = "org.cabane.label";

/// The repository of the state of the list, in every namespace. It is another one because
/// Debian's registry looks at every tag of a repository when it deletes a manifest.
pub(crate) const STATE_REPOSITORY: &str = "cabane-state";
/// Its tag, which has another manifest after each change of a line.
pub(crate) const STATE: &str = "latest";
/// What its manifests are.
pub(crate) const STATE_KIND: &str = "application/vnd.cabane.index-state.v1";
/// The annotation by which they differ.
pub(crate) const STATE_VALUE: &str = "org.cabane.state";

/// The annotation that holds the tag.
pub(crate) const LINE: &str = "org.cabane.line";

/// The longest tag of the specification.
const LONGEST: usize = 128;
const SEPARATOR: &str = "_-";
const END: &str = "_.";

/// One line of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The label; `None` when it is too long to be in the tag.
    pub(crate) label: Option<Label>,
    pub(crate) digest: Digest,
    pub(crate) size: u64,
    pub(crate) date: Timestamp,
}

impl Entry {
    /// Returns the tag of this line.
    pub(crate) fn tag(label: &Label, digest: &Digest, size: u64, date: Timestamp) -> String {
        let tail = tail(digest, size, date);
        let head = head(label);
        if head.len() + tail.len() <= LONGEST {
            return head + &tail;
        }
        long_head(label) + &tail
    }

    /// Reads a tag; `None` for what is no line of the list.
    pub(crate) fn read(tag: &str) -> Option<Self> {
        let (parts, rest) = split(tag)?;
        let mut rest = rest.split('.');
        let size = u64::from_str_radix(rest.next()?, 16).ok()?;
        let date = i64::from_str_radix(rest.next()?, 16).ok()?;
        let bytes = URL_SAFE_NO_PAD.decode(rest.next()?).ok()?;
        if rest.next().is_some() {
            return None;
        }
        let label = match parts.as_slice() {
            [sum] if sum.starts_with('h') => None,
            [name, version, tag, system, uarch] => Some(Label {
                name: name.parse().ok()?,
                version: version.parse().ok()?,
                tag: tag.parse().ok()?,
                system: system.parse().ok()?,
                uarch: uarch.parse().ok()?,
            }),
            _ => return None,
        };
        Some(Self {
            label,
            digest: Digest::from_bytes(bytes.try_into().ok()?),
            size,
            date: Timestamp::from_second(date).ok()?,
        })
    }
}

/// Returns whether a tag is a line of this label.
pub(crate) fn is_of(tag: &str, label: &Label) -> bool {
    tag.starts_with(&head(label)) || tag.starts_with(&long_head(label))
}

fn head(label: &Label) -> String {
    let parts = [
        label.name.as_str(),
        label.version.as_str(),
        label.tag.as_str(),
        label.system.as_str(),
        label.uarch.as_str(),
    ];
    let parts = parts.map(|part| part.replace('_', "__"));
    parts.join(SEPARATOR) + END
}

fn long_head(label: &Label) -> String {
    format!("h{}{END}", sum::bytes(label.to_string().as_bytes()).id())
}

fn tail(digest: &Digest, size: u64, date: Timestamp) -> String {
    let digits = digest.as_str().as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Vec<u8> = digits.filter_map(byte).collect();
    let digest = URL_SAFE_NO_PAD.encode(bytes);
    format!("{size:x}.{:x}.{digest}", date.as_second().max(0))
}

/// Takes the head of a tag apart; what follows it is returned as it is.
fn split(tag: &str) -> Option<(Vec<String>, &str)> {
    let mut parts = vec![String::new()];
    let mut letters = tag.char_indices();
    while let Some((_, letter)) = letters.next() {
        if letter != '_' {
            parts.last_mut()?.push(letter);
            continue;
        }
        match letters.next()? {
            (_, '_') => parts.last_mut()?.push('_'),
            (_, '-') => parts.push(String::new()),
            (position, '.') => return Some((parts, tag.get(position + 1..)?)),
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn digest() -> Digest {
        "0123456789abcdef".repeat(4).parse().unwrap()
    }

    fn date() -> Timestamp {
        "2026-11-21T10:00:00Z".parse().unwrap()
    }

    fn tag_of(label: &str) -> String {
        Entry::tag(&label.parse().unwrap(), &digest(), 0x1234, date())
    }

    #[test]
    fn a_tag_can_be_read_by_people() {
        assert_eq!(
            tag_of("prgenv-gnu/24.11:v2@daint%gh200"),
            "prgenv-gnu_-24.11_-v2_-daint_-gh200_.1234.6b016ba0.ASNFZ4mrze8BI0VniavN7wEjRWeJq83vASNFZ4mrze8"
        );
    }

    #[test]
    fn what_a_tag_says_can_be_read_back() {
        let label = "prgenv_gnu/24.11:v_2@daint%x86_64";
        let entry = Entry::read(&tag_of(label)).unwrap();
        assert_eq!(
            entry,
            Entry {
                label: Some(label.parse().unwrap()),
                digest: digest(),
                size: 0x1234,
                date: date(),
            }
        );
    }

    #[test]
    fn a_label_that_is_too_long_is_left_to_the_manifest() {
        let part = "p".repeat(64);
        let label = format!("{part}/{part}:{part}@{part}%{part}");
        let tag = tag_of(&label);
        assert!(tag.len() <= LONGEST, "{tag}");
        assert_eq!(Entry::read(&tag).unwrap().label, None);
        assert!(is_of(&tag, &label.parse().unwrap()));
    }

    #[test]
    fn a_label_that_begins_like_another_is_not_taken_for_it() {
        let tag = tag_of("a/1:v1@s%u2");
        assert!(!is_of(&tag, &"a/1:v1@s%u".parse().unwrap()));
    }

    #[test]
    fn other_tags_are_none() {
        for tag in ["latest", "v1", "sha256-0000", "a_-b_.1.2.3", "", "_"] {
            assert_eq!(Entry::read(tag), None, "{tag}");
        }
    }

    proptest! {
        #[test]
        fn every_label_can_be_read_back(
            parts in proptest::array::uniform5("[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,10}"),
        ) {
            let [name, version, tag, system, uarch] = parts;
            let text = format!("{name}/{version}:{tag}@{system}%{uarch}");
            let label: Label = text.parse().unwrap();
            let tag = Entry::tag(&label, &digest(), 1, date());
            let read = Entry::read(&tag).unwrap();
            prop_assert!(tag.len() <= LONGEST);
            prop_assert!(read.label.is_none_or(|read| read == label));
        }

        #[test]
        fn no_tag_brings_the_reader_down(tag in "[a-z_.~-]{0,40}") {
            let _ = Entry::read(&tag);
        }
    }
}
