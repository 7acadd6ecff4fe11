// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Lists of images on this machine, as the registry listed them last.
//!
//! They say what need not be read again, and never what is so: its user asks the
//! registry whether it still holds.
//!
//! ```text
//! <cache>/registry/<sum of the second line>.list
//!
//! cabane-list 1 <sum of all that follows> <digest of the state, or ->
//! <who> <namespace> <address>
//! <name> TAB <version> TAB <tag> TAB <system> TAB <uarch> TAB <digest> TAB <size> TAB
//!        <seconds since 1970, or -> TAB <digest of the manifest, or -> LF …
//! ```
//!
//! The lines are sorted by label. A file that is damaged or of another version is not there.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::{Duration, SystemTime};

use cabane_label::{Digest, Label, Namespace};
use jiff::Timestamp;

use crate::document::OciDigest;
use crate::files::write_at_once;
use crate::{Listed, Registry, sum};

/// Who has given the list that is kept.
pub(crate) const CATALOG: &str = "catalog";
pub(crate) const INDEX: &str = "index";

/// How many bytes of a list one thread reads at a time.
const PART: usize = 64 * 1024;

/// Whether a label is wanted.
type Fits<'a> = dyn Fn(&Label) -> bool + Sync + 'a;
/// What was read of a line: `None` if it is damaged, and `Some(None)` if its label does not fit.
type Read = Option<Option<Listed>>;

const MAGIC: &str = "cabane-list 1";
/// A writer that was killed between its line and the state leaves a state that says nothing of
/// the line. For so long that may not be seen.
const MOST_AGE: Duration = Duration::from_secs(600);

/// A list as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CachedList {
    /// The state of the index before the list was read.
    pub(crate) state: Option<OciDigest>,
    /// Sorted by label.
    pub(crate) images: Vec<Listed>,
}

impl Registry {
    /// Returns what is kept of the answers of someone; nothing, if there is nothing.
    pub(crate) fn cached_list(&self, namespace: &Namespace, who: &str) -> CachedList {
        self.cached_part(namespace, who, &|_| true)
    }

    /// As [`Self::cached_list`], with those images alone whose labels fit.
    pub(crate) fn cached_part(
        &self,
        namespace: &Namespace,
        who: &str,
        fits: &Fits<'_>,
    ) -> CachedList {
        let question = self.question(namespace, who);
        let path = self.kept_path(&question);
        let cached_list = path.and_then(|path| {
            let age = fs::metadata(&path).ok()?.modified().ok()?;
            let bytes = fs::read(&path).ok()?;
            let mut cached_list = read(&bytes, &question, fits)?;
            let is_young = SystemTime::now().duration_since(age);
            if is_young.is_ok_and(|age| age > MOST_AGE) {
                cached_list.state = None;
            }
            Some(cached_list)
        });
        cached_list.unwrap_or_default()
    }

    /// Keeps an answer. Where that cannot be, everything is requested again the next time.
    pub(crate) fn cache_list(&self, namespace: &Namespace, who: &str, cached_list: &CachedList) {
        let question = self.question(namespace, who);
        if let Some(path) = self.kept_path(&question) {
            let _ = write_at_once(&path, render(cached_list, &question).as_bytes());
        }
    }

    /// Returns the images of a part of this registry that were seen last, sorted by label; nothing is
    /// sent. They may be gone meanwhile.
    #[must_use]
    pub fn seen_last(&self, namespace: &Namespace) -> Vec<Listed> {
        let images = self.cached_list(namespace, INDEX).images;
        if images.is_empty() { self.cached_list(namespace, CATALOG).images } else { images }
    }

    /// Forgets the list that is kept of a part of this registry.
    pub fn forget_list(&self, namespace: &Namespace) {
        if let Some(path) = self.kept_path(&self.question(namespace, INDEX)) {
            let _ = fs::remove_file(path);
        }
    }

    fn question(&self, namespace: &Namespace, who: &str) -> String {
        format!("{who} {namespace} {}", self.address())
    }

    fn kept_path(&self, question: &str) -> Option<PathBuf> {
        let name = sum::bytes(question.as_bytes()).id();
        let directory = self.cache.as_ref()?;
        Some(directory.join(format!("{name}.list")))
    }
}

fn render(cached_list: &CachedList, question: &str) -> String {
    let mut body = format!("{question}\n");
    for image in &cached_list.images {
        push_line(&mut body, image);
    }
    let state = cached_list.state.as_ref().map_or("-", |state| state.0.as_str());
    format!("{MAGIC} {:016x} {state}\n{body}", cabane_label::corrupt_sum(body.as_bytes()))
}

fn push_line(lines: &mut String, image: &Listed) {
    let Listed { namespace: _, label, digest, size, date, manifest } = image;
    let Label { name, version, tag, system, uarch } = label;
    // Writing to a string does not fail.
    let _ = write!(lines, "{name}\t{version}\t{tag}\t{system}\t{uarch}\t{digest}\t{size}\t");
    let _ = match date {
        Some(date) => write!(lines, "{}\t", date.as_second()),
        None => write!(lines, "-\t"),
    };
    let _ = writeln!(lines, "{}", manifest.as_ref().map_or("-", Digest::as_str));
}

fn read(bytes: &[u8], question: &str, fits: &Fits<'_>) -> Option<CachedList> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (head, body) = text.split_once('\n')?;
    let (expected, state) = head.strip_prefix(MAGIC)?.strip_prefix(' ')?.split_once(' ')?;
    if u64::from_str_radix(expected, 16).ok()? != cabane_label::corrupt_sum(body.as_bytes()) {
        return None;
    }
    let state = match state {
        "-" => None,
        state => Some(OciDigest(state.parse().ok()?)),
    };
    let namespace: Namespace = question.split(' ').nth(1)?.parse().ok()?;
    let lines = body.strip_prefix(question)?.strip_prefix('\n')?;
    let images = read_lines(lines, &|line| read_line(&namespace, line, fits))?;
    Some(CachedList { state, images })
}

/// Reads all lines; `None` if any is damaged. Two threads take turns, because a list may have a
/// hundred thousand of them. What one has read ahead is bounded, and so is its memory.
fn read_lines(lines: &str, read: &(dyn Fn(&str) -> Read + Sync)) -> Option<Vec<Listed>> {
    // Memory that is not written to costs nothing; growing would need half as much again.
    let mut images = Vec::with_capacity(lines.lines().count());
    let mut parts = Vec::new();
    let mut rest = lines;
    while !rest.is_empty() {
        let end = rest.bytes().skip(PART).position(|byte| byte == b'\n');
        let (part, after) = rest.split_at(end.map_or(rest.len(), |end| PART + end + 1));
        parts.push(part);
        rest = after;
    }
    let read_part = |part: &str| -> Option<Vec<Listed>> {
        let mut images = Vec::new();
        for line in part.lines() {
            images.extend(read(line)?);
        }
        Some(images)
    };
    if parts.len() < 2 {
        return read_part(lines);
    }
    std::thread::scope(|scope| {
        let (ahead, others) = mpsc::sync_channel(2);
        let parts = &parts;
        let every_second = parts.iter().skip(1).step_by(2);
        scope.spawn(move || {
            every_second.take_while(|part| ahead.send(read_part(part)).is_ok()).count()
        });
        for part in parts.iter().step_by(2) {
            images.extend(read_part(part)?);
            // Nothing comes after the last.
            if let Ok(other) = others.recv() {
                images.extend(other?);
            }
        }
        Some(images)
    })
}

/// Reads a line; `None` if it is damaged, and `Some(None)` if its label does not fit.
fn read_line(namespace: &Namespace, line: &str, fits: &Fits<'_>) -> Read {
    let mut fields = line.split('\t');
    let mut next = || fields.next();
    let label = Label {
        name: next()?.parse().ok()?,
        version: next()?.parse().ok()?,
        tag: next()?.parse().ok()?,
        system: next()?.parse().ok()?,
        uarch: next()?.parse().ok()?,
    };
    if !fits(&label) {
        return Some(None);
    }
    Some(Some(Listed {
        namespace: namespace.clone(),
        label,
        digest: next()?.parse().ok()?,
        size: next()?.parse().ok()?,
        date: match next()? {
            "-" => None,
            seconds => Some(Timestamp::from_second(seconds.parse().ok()?).ok()?),
        },
        manifest: match next()? {
            "-" => None,
            digest => Some(digest.parse().ok()?),
        },
    }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const QUESTION: &str = "index deploy https://registry.example/uenv";

    fn digest(letter: &str) -> Digest {
        letter.repeat(64).parse().unwrap()
    }

    fn cached_list() -> CachedList {
        let image = Listed {
            namespace: "deploy".parse().unwrap(),
            label: "app/1.0:v1@daint%gh200".parse().unwrap(),
            digest: digest("a"),
            size: 17,
            date: Some("2026-11-21T10:00:00Z".parse().unwrap()),
            manifest: Some(digest("b")),
        };
        let other = Listed {
            label: "other/1.0:v1@daint%gh200".parse().unwrap(),
            date: None,
            manifest: None,
            ..image.clone()
        };
        CachedList { state: Some(OciDigest(digest("c"))), images: vec![image, other] }
    }

    #[test]
    fn what_is_kept_can_be_read_again() {
        for cached_list in [cached_list(), CachedList::default()] {
            let text = render(&cached_list, QUESTION);
            assert_eq!(read(text.as_bytes(), QUESTION, &|_| true), Some(cached_list));
        }
    }

    #[test]
    fn the_answer_to_another_question_is_none() {
        let text = render(&cached_list(), QUESTION);
        let other = "index build https://registry.example/uenv";
        assert_eq!(read(text.as_bytes(), other, &|_| true), None);
        assert_eq!(read(text.as_bytes(), "index deploy https://registry.example", &|_| true), None);
    }

    proptest! {
        #[test]
        fn what_is_cut_off_or_damaged_is_not_there(place: prop::sample::Index, byte in 1..128_u8) {
            let bytes = render(&cached_list(), QUESTION).into_bytes();
            let place = place.index(bytes.len());
            prop_assert_eq!(read(&bytes[..place], QUESTION, &|_| true), None);
            let mut damaged = bytes;
            damaged[place] ^= byte;
            // A leading zero of a sum may be lost; and the state is not part of it.
            let read = read(&damaged, QUESTION, &|_| true);
            prop_assert!(read.is_none_or(|read| read.images == cached_list().images));
        }
    }
}
