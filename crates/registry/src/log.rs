// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which label got which image when, and from whom.
//!
//! Each change of a line of the list is also an entry of a log, in the repository `cabane-log` of the
//! namespace. An entry is a manifest with annotations; its tag is `<time>-<random number>`, so that the
//! tags alone tell which entries belong to a time. Clients write them, and nobody signs them: they
//! are notes of people who trust each other, and channels are what can be proved.

use cabane_label::{Digest, Label, Namespace};
use jiff::Timestamp;
use ring::rand::{SecureRandom, SystemRandom};
use serde::Serialize;

use crate::document::{Annotations, Descriptor, EMPTY, MANIFEST, Manifest, to_bytes};
use crate::entry::LABEL;
use crate::parallel::side_by_side;
use crate::{ErrorKind, Place, Progress, Registry, Result};

/// The repository of the log, in every namespace.
const REPOSITORY: &str = "cabane-log";
/// What its manifests are.
const KIND: &str = "application/vnd.cabane.log-entry.v1";
const BEFORE: &str = "org.cabane.before";
const AFTER: &str = "org.cabane.after";
const BY: &str = "org.cabane.by";
/// The form of a time in a tag, in UTC.
const TIME: &str = "%Y%m%dT%H%M%SZ";
/// The longest name of a user that is kept, in bytes.
const MAX_BY: usize = 128;
/// The most entries that are read, the newest ones: anyone who may write can add as many as they like.
const MOST_ENTRIES: usize = 100_000;
/// How many entries are read between two reports of progress.
const BATCH: usize = 256;

/// A change of a label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogEntry {
    /// When, by the clock of the client.
    pub time: Timestamp,
    /// The label.
    pub label: Label,
    /// The image that had it before; none if no one had.
    pub before: Option<Digest>,
    /// The image that has it now; none if it was deleted.
    pub after: Option<Digest>,
    /// The user; none where the client found a change that nobody had noted.
    pub by: Option<String>,
}

impl Registry {
    /// Notes that a label got another image. A user who may not write there leaves no note.
    pub(crate) fn log(
        &self,
        place: &Place,
        before: Option<&Digest>,
        after: Option<&Digest>,
        is_ours: bool,
    ) -> Result<()> {
        let Some(actor) = &self.actor else {
            return Ok(());
        };
        // A list that is made anew is no news.
        if !is_ours && before.is_none() {
            return Ok(());
        }
        let mut annotations = Annotations::from([(LABEL.to_owned(), place.label.to_string())]);
        let by = actor.get(..MAX_BY).unwrap_or(actor).to_owned();
        let texts = [
            (BEFORE, before.map(ToString::to_string)),
            (AFTER, after.map(ToString::to_string)),
            (BY, is_ours.then_some(by)),
        ];
        for (name, text) in texts {
            annotations.extend(text.map(|text| (name.to_owned(), text)));
        }
        let repository = self.log_of(&place.namespace);
        let mut bytes = [0; 8];
        let filled = SystemRandom::new().fill(&mut bytes);
        filled.map_err(|_| self.client.odd("this system has no random numbers"))?;
        let time = Timestamp::now().strftime(TIME);
        let tag = format!("{time}-{:016x}", u64::from_le_bytes(bytes));
        let manifest = Manifest::artifact(KIND, vec![Descriptor::empty_config()], annotations);
        let written = self.put_small_blob(&repository, EMPTY).and_then(|()| {
            self.put_document(&repository, &tag, MANIFEST, &to_bytes(&manifest)).map(drop)
        });
        written.or_else(|error| match error.kind {
            ErrorKind::Forbidden | ErrorKind::Unauthorized => Ok(()),
            _ => Err(error),
        })
    }

    /// Returns the changes of labels that were noted since a time, the oldest first. What is no
    /// entry is left out. `progress` counts entries.
    ///
    /// # Errors
    ///
    /// Those of reading.
    pub fn log_since(
        &self,
        namespace: &Namespace,
        since: Option<Timestamp>,
        progress: &mut Progress<'_>,
    ) -> Result<Vec<LogEntry>> {
        let repository = self.log_of(namespace);
        let mut tags = self.tags(&repository)?;
        let is_wanted =
            |tag: &String| time_of(tag).is_some_and(|time| since.is_none_or(|since| time >= since));
        tags.retain(is_wanted);
        tags.sort();
        tags.drain(..tags.len().saturating_sub(MOST_ENTRIES));
        let total = tags.len() as u64;
        let (mut entries, mut done) = (Vec::new(), 0);
        for batch in tags.chunks(BATCH) {
            let read = side_by_side(batch, |tag| {
                let document = self.document(&repository, tag)?;
                Ok(document.and_then(|document| entry_of(tag, &document.bytes)))
            })?;
            entries.extend(read.into_iter().flatten());
            done += batch.len() as u64;
            progress(done, total);
        }
        Ok(entries)
    }

    fn log_of(&self, namespace: &Namespace) -> String {
        self.address().repository(&format!("{namespace}/{REPOSITORY}"))
    }
}

fn time_of(tag: &str) -> Option<Timestamp> {
    let (time, _) = tag.split_once('-')?;
    let time = jiff::civil::DateTime::strptime(TIME, time).ok()?;
    time.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|time| time.timestamp())
}

fn entry_of(tag: &str, bytes: &[u8]) -> Option<LogEntry> {
    let manifest: Manifest = serde_json::from_slice(bytes).ok()?;
    let text = |name: &str| manifest.annotations.get(name);
    let digest = |name: &str| text(name).and_then(|digest| digest.parse().ok());
    (manifest.kind() == KIND).then_some(())?;
    Some(LogEntry {
        time: time_of(tag)?,
        label: text(LABEL)?.parse().ok()?,
        before: digest(BEFORE),
        after: digest(AFTER),
        by: text(BY).filter(|by| by.len() <= MAX_BY).cloned(),
    })
}
