// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The document of a channel: version 1 of `application/vnd.cabane.channel.v1+json`.
//!
//! ```json
//! {"version":1,"namespace":"deploy","channel":"stable","system":"daint","serial":42,
//!  "previous":"<sha256 of the document before>","issued":"…Z","expires":"…Z","by":"…",
//!  "entries":[{"label":"prgenv-gnu/25.6:v2@daint%gh200","manifest":"…","digest":"…","size":…,
//!    "since":41,"promoted":"…Z","default":true}]}
//! ```

use cabane_label::{ChannelName, Digest, Label, LabelPattern, NameMatch, Namespace, System};
use cabane_registry::{ChannelPlace, Place, RemoteImage};
use cabane_report::{Kind, Report, Result};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

const KIND: &str = "application/vnd.cabane.channel.v1+json";
const VERSION: u32 = 1;
/// Enough for a document every second for some million years, and numbers in JSON are exact.
const MAX_SERIAL: u64 = 1 << 50;
/// The longest reason and the longest name of a person, in bytes.
pub const MAX_REASON: usize = 512;

/// Which images of a system are released.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelDocument {
    version: u32,
    /// The part of the registry.
    pub namespace: Namespace,
    /// The channel.
    pub channel: ChannelName,
    /// The system.
    pub system: System,
    /// Grows by one with each document.
    pub serial: u64,
    /// The sha256 of the document before; none for the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<Digest>,
    /// When it was signed, by the clock of the signer.
    pub issued: Timestamp,
    /// Until when it should have been replaced or renewed.
    pub expires: Timestamp,
    /// The person, as they call themselves.
    pub by: String,
    /// Why, in the words of that person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The images, sorted by label; one for each name, version, and microarchitecture.
    pub entries: Vec<Entry>,
    /// Which rules do not apply to which image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waivers: Vec<Waiver>,
    /// Images that nobody should use any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub revoked: Vec<Revocation>,
}

/// A released image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its label, with the tag under which it was pushed.
    pub label: Label,
    /// The sha256 of its manifest.
    pub manifest: Digest,
    /// The sha256 of the image.
    pub digest: Digest,
    /// The size of the image in bytes.
    pub size: u64,
    /// The serial number of the document that promoted it.
    pub since: u64,
    /// When it was promoted.
    pub promoted: Timestamp,
    /// Whether the name without a version means this version.
    #[serde(default, rename = "default", skip_serializing_if = "std::ops::Not::not")]
    pub is_default: bool,
    /// The sha256 of each signed statement that the gate asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Digest>,
    /// That it is going to be withdrawn, or is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retirement: Option<Retirement>,
}

/// That an image is withdrawn on a day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retirement {
    /// The first day, in UTC, on which it is no longer released.
    pub date: Date,
    /// What to use instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacement: Option<LabelPattern>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// That a rule of the gate does not apply to an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiver {
    /// The manifest of the image.
    pub manifest: Digest,
    /// Its label.
    pub label: Label,
    /// The rule.
    pub rule: String,
    /// Why.
    pub reason: String,
    /// The person who decided it.
    pub by: String,
    /// The last day, in UTC, on which it counts.
    pub until: Date,
}

/// That nobody should use an image any more, whatever its label is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revocation {
    /// The sha256 of the image.
    pub digest: Digest,
    /// The label that it had.
    pub label: Label,
    /// Why.
    pub reason: String,
    /// When that was decided.
    pub date: Date,
}

/// What is to be expected of a released image on a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It stays.
    Current,
    /// It will be retired.
    Deprecated,
    /// It is no longer released.
    Retired,
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Current => "current",
            Self::Deprecated => "deprecated",
            Self::Retired => "retired",
        })
    }
}

/// Returns the day in UTC.
pub fn today() -> Date {
    TimeZone::UTC.to_datetime(Timestamp::now()).date()
}

impl Entry {
    /// Makes the entry of an image, which later is promoted by a document.
    pub fn of(image: &RemoteImage) -> Self {
        Self {
            label: image.place.label.clone(),
            manifest: image.manifest.clone(),
            digest: image.digest.clone(),
            size: image.size,
            since: 0,
            promoted: Timestamp::now(),
            is_default: false,
            evidence: Vec::new(),
            retirement: None,
        }
    }

    /// Returns its state on a day.
    pub fn state(&self, day: Date) -> State {
        match &self.retirement {
            None => State::Current,
            Some(retirement) if day < retirement.date => State::Deprecated,
            Some(_) => State::Retired,
        }
    }

    /// Whether both are releases of one thing, so that one replaces the other.
    pub fn is_same_thing(&self, label: &Label) -> bool {
        self.label.name == label.name
            && self.label.version == label.version
            && self.label.uarch == label.uarch
    }

    fn shares_default(&self, label: &Label) -> bool {
        self.label.name == label.name && self.label.uarch == label.uarch
    }
}

impl ChannelDocument {
    /// The type of the document, which is signed with it.
    pub const KIND: &str = KIND;

    /// Makes the document before the first one of a channel.
    pub fn empty(place: &ChannelPlace) -> Self {
        Self {
            version: VERSION,
            namespace: place.namespace.clone(),
            channel: place.name.clone(),
            system: place.system.clone(),
            serial: 0,
            previous: None,
            issued: Timestamp::UNIX_EPOCH,
            expires: Timestamp::UNIX_EPOCH,
            by: String::new(),
            reason: None,
            entries: Vec::new(),
            waivers: Vec::new(),
            revoked: Vec::new(),
        }
    }

    /// Reads a document.
    ///
    /// # Errors
    ///
    /// What is wrong with it, as the end of a sentence.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let document: Self = serde_json::from_slice(bytes)
            .map_err(|error| format!("it cannot be understood: {error}"))?;
        document.check()?;
        Ok(document)
    }

    /// Returns the document as it is signed.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Strings, numbers, and lists of them are always JSON.
        serde_json::to_vec(self).unwrap_or_default()
    }

    fn check(&self) -> Result<(), String> {
        if self.version != VERSION {
            return Err(format!("it has the version {}, and this program knows 1", self.version));
        }
        let reasons = self.reason.iter().chain([&self.by]);
        if !(1..=MAX_SERIAL).contains(&self.serial)
            || reasons.map(String::len).any(|length| length > MAX_REASON)
        {
            return Err("its serial number or a text in it is out of bounds".to_owned());
        }
        for (number, entry) in self.entries.iter().enumerate() {
            let label = &entry.label;
            let others = &self.entries[..number];
            if label.system != self.system {
                return Err(format!("`{label}` is for another system"));
            }
            if others.iter().any(|other| other.is_same_thing(label)) {
                return Err(format!("it has two images for `{label}`"));
            }
            let is_rival = |other: &Entry| other.is_default && other.shares_default(label);
            if entry.is_default && others.iter().any(is_rival) {
                return Err(format!("it has two defaults for `{}`", label.name));
            }
        }
        Ok(())
    }

    /// Returns the entry of what a label is a release of.
    pub fn entry(&self, label: &Label) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.is_same_thing(label))
    }

    /// Adds an entry, which replaces that of the same name, version, and microarchitecture. If
    /// `is_default`, the name without a version means it.
    pub fn promote(&mut self, mut entry: Entry, is_default: bool) {
        let label = entry.label.clone();
        self.entries.retain(|other| !other.is_same_thing(&label));
        if is_default {
            for other in self.entries.iter_mut().filter(|other| other.shares_default(&label)) {
                other.is_default = false;
            }
        }
        entry.is_default = is_default;
        self.entries.push(entry);
        self.entries.sort_by(|one, other| one.label.cmp(&other.label));
    }

    /// Lets a name mean its newest version that is not retired, if it means none.
    pub fn choose_default(&mut self, label: &Label) {
        let day = today();
        if self.default_beside(label).is_some_and(|now| now.state(day) != State::Retired) {
            return;
        }
        let rivals = self.entries.iter().filter(|entry| entry.shares_default(label));
        let rivals = rivals.filter(|entry| entry.state(day) != State::Retired);
        let order =
            |one: &&Entry, other: &&Entry| one.label.version.natural_order(&other.label.version);
        if let Some(best) = rivals.max_by(order).map(|entry| entry.label.clone()) {
            for entry in self.entries.iter_mut().filter(|entry| entry.shares_default(label)) {
                entry.is_default = entry.label == best;
            }
        }
    }

    /// Returns the version that a name without a version means, beside a label.
    pub fn default_beside(&self, label: &Label) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.is_default && entry.shares_default(label))
    }

    /// Finds the image that is released for a label without its tag, on a day.
    ///
    /// # Errors
    ///
    /// None or several are, or it is retired.
    pub fn released(&self, pattern: &LabelPattern, day: Date) -> Result<&Entry> {
        let asked = LabelPattern { tag: None, namespace: None, system: None, ..pattern.clone() };
        let mut fits: Vec<&Entry> = self.entries.iter().collect();
        fits.retain(|entry| asked.matches(&entry.label, NameMatch::Exact));
        if asked.version.is_none() {
            fits.retain(|entry| entry.is_default);
        }
        match fits.as_slice() {
            [] => Err(self.not_released(pattern)),
            [entry] if entry.state(day) == State::Retired => Err(self.retired(entry)),
            [entry] => Ok(entry),
            several => Err(self.ambiguous(pattern, several)),
        }
    }

    /// Returns that the image for a label is withdrawn, if it is.
    pub fn retirement_of(&self, pattern: &LabelPattern) -> Option<&Retirement> {
        // A day before all retirements.
        let entry = self.released(pattern, Date::MIN).ok()?;
        entry.retirement.as_ref()
    }

    /// Says that a text stands for several images of the channel.
    pub fn ambiguous(&self, typed: &dyn std::fmt::Display, several: &[&Entry]) -> Report {
        let lines: Vec<_> = several.iter().map(|entry| format!("  {}", entry.label)).collect();
        let error = format!("several images of the channel {} match `{typed}`", self.place());
        Report::new(Kind::Ambiguous, error)
            .detailed(lines.join("\n"))
            .hinted("name the one you mean".to_owned())
    }

    fn not_released(&self, pattern: &LabelPattern) -> Report {
        let channel = self.place();
        let error = format!("the channel {channel} has no image `{pattern}`");
        let hint = format!("`cabane channel show {channel}` lists its images");
        Report::new(Kind::NotFound, error).hinted(hint)
    }

    fn retired(&self, entry: &Entry) -> Report {
        let (channel, label) = (self.place(), &entry.label);
        let retirement = entry.retirement.as_ref();
        let date = retirement.map(|one| format!(" on {}", one.date)).unwrap_or_default();
        let reason = retirement.and_then(|one| one.reason.as_deref());
        let reason = reason.map(|one| format!(": {}", cabane_label::escape(one)));
        let reason = reason.unwrap_or_default();
        let error = format!("{label} was retired from the channel {channel}{date}{reason}");
        let replacement = retirement.and_then(|one| one.replacement.as_ref());
        let without = || {
            let place = self.place_of(entry);
            format!("`cabane image pull {place}` gets it without the channel")
        };
        let hint = replacement.map_or_else(without, |other| format!("use `{other}` instead"));
        Report::new(Kind::NotFound, error).hinted(hint)
    }

    /// Returns where the document belongs.
    pub fn place(&self) -> ChannelPlace {
        ChannelPlace {
            namespace: self.namespace.clone(),
            name: self.channel.clone(),
            system: self.system.clone(),
        }
    }

    /// Returns the place of an image of the channel.
    pub fn place_of(&self, entry: &Entry) -> Place {
        Place { namespace: self.namespace.clone(), label: entry.label.clone() }
    }

    /// Returns why nobody should use an image, if that was decided.
    pub fn revocation(&self, digest: &Digest) -> Option<&Revocation> {
        self.revoked.iter().find(|one| one.digest == *digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(labels: &[(&str, bool)]) -> ChannelDocument {
        let place = ChannelPlace {
            namespace: "deploy".parse().unwrap(),
            name: "stable".parse().unwrap(),
            system: "daint".parse().unwrap(),
        };
        let mut document = ChannelDocument { serial: 1, ..ChannelDocument::empty(&place) };
        for (label, is_default) in labels {
            document.promote(entry(label), *is_default);
        }
        document
    }

    fn entry(label: &str) -> Entry {
        Entry {
            label: label.parse().unwrap(),
            manifest: "a".repeat(64).parse().unwrap(),
            digest: "b".repeat(64).parse().unwrap(),
            size: 1,
            since: 1,
            promoted: Timestamp::UNIX_EPOCH,
            is_default: false,
            evidence: Vec::new(),
            retirement: None,
        }
    }

    const OLD: &str = "app/1.0:v1@daint%gh200";
    const NEW: &str = "app/2.0:v1@daint%gh200";

    fn day(text: &str) -> Date {
        text.parse().unwrap()
    }

    fn found(document: &ChannelDocument, typed: &str) -> Result<String, Kind> {
        let released = document.released(&typed.parse().unwrap(), day("2026-06-01"));
        released.map(|entry| entry.label.to_string()).map_err(|error| error.kind())
    }

    #[test]
    fn a_name_means_the_default_and_a_version_itself() {
        let document = document(&[(OLD, true), (NEW, true)]);
        assert_eq!(found(&document, "app:stable"), Ok(NEW.to_owned()));
        assert_eq!(found(&document, "app/1.0:stable"), Ok(OLD.to_owned()));
        assert_eq!(found(&document, "app/3.0:stable"), Err(Kind::NotFound));
        assert_eq!(found(&document, "other:stable"), Err(Kind::NotFound));
    }

    #[test]
    fn of_two_processors_one_must_be_named() {
        let other = "app/2.0:v1@daint%zen3";
        let document = document(&[(NEW, true), (other, true)]);
        assert_eq!(found(&document, "app:stable"), Err(Kind::Ambiguous));
        assert_eq!(found(&document, "app:stable%zen3"), Ok(other.to_owned()));
    }

    #[test]
    fn a_new_tag_of_a_version_replaces_the_one_before() {
        let mut document = document(&[(OLD, true)]);
        let newer = "app/1.0:v2@daint%gh200";
        document.promote(entry(newer), true);
        assert_eq!(document.entries.len(), 1);
        assert_eq!(found(&document, "app:stable"), Ok(newer.to_owned()));
    }

    #[test]
    fn a_retired_image_is_released_until_its_day() {
        let mut document = document(&[(OLD, true)]);
        let replacement = Some("app/2.0".parse().unwrap());
        let retirement = |date| Retirement { date: day(date), replacement, reason: None };
        document.entries[0].retirement = Some(retirement("2026-06-02"));
        assert_eq!(found(&document, "app:stable"), Ok(OLD.to_owned()));
        assert_eq!(document.entries[0].state(day("2026-06-01")), State::Deprecated);
        document.entries[0].retirement.as_mut().unwrap().date = day("2026-06-01");
        assert_eq!(found(&document, "app:stable"), Err(Kind::NotFound));
        let error = document.released(&"app:stable".parse().unwrap(), day("2026-06-01"));
        assert_eq!(error.unwrap_err().hints(), ["use `app/2.0` instead"]);
    }

    #[test]
    fn a_document_that_contradicts_itself_is_refused() {
        let good = document(&[(OLD, true), (NEW, false)]);
        assert_eq!(ChannelDocument::from_bytes(&good.to_bytes()), Ok(good.clone()));
        let mut two_defaults = good.clone();
        two_defaults.entries.iter_mut().for_each(|entry| entry.is_default = true);
        let mut twice = good.clone();
        twice.entries.push(entry("app/1.0:v7@daint%gh200"));
        let mut elsewhere = good.clone();
        elsewhere.entries.push(entry("app/1.0:v7@eiger%gh200"));
        let later = ChannelDocument { version: 2, ..good.clone() };
        let without = ChannelDocument { serial: 0, ..good };
        for bad in [two_defaults, twice, elsewhere, later, without] {
            assert!(ChannelDocument::from_bytes(&bad.to_bytes()).is_err(), "{bad:?}");
        }
    }
}
