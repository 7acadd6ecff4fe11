// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which labels and images are to go, and why the others stay. Nothing is changed here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::num::NonZeroU32;
use std::time::Duration;

use cabane_label::{Digest, Label};
use jiff::Timestamp;
use serde::Serialize;

use crate::in_use::{Observer, last_read};
use crate::listing::Listing;
use crate::{Error, Record, Repository, bases, disk};

/// How long and how much is kept. At least one of the first three should be given; otherwise
/// everything is.
#[derive(Clone, Debug)]
pub struct Limits {
    /// What has not been used for so long goes.
    pub older_than: Option<Duration>,
    /// So many of each name, system and microarchitecture stay, the newest ones. Without
    /// another limit the rest goes.
    pub keep_last: Option<NonZeroU32>,
    /// As long as the images are larger together, the one goes that was not used for longest.
    pub max_size: Option<u64>,
    /// What was used or added within this time stays, whatever the limits say: on other hosts
    /// it may still be in use.
    pub spare: Duration,
}

/// What is to become of every label.
#[derive(Clone, Debug, Serialize)]
pub struct Retention {
    /// One for each label, sorted by label.
    pub labels: Vec<Verdict>,
    /// How many bytes the images have now.
    pub bytes_before: u64,
    /// How many they will have.
    pub bytes_after: u64,
    /// Whether the file system notes when an image is read. Otherwise what counts is when it
    /// was added.
    pub notes_use: bool,
    /// As in the limits.
    #[serde(skip)]
    pub(crate) spare: Duration,
    /// When the verdicts were reached.
    #[serde(skip)]
    pub(crate) now: Timestamp,
}

/// What is to become of a label.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// The label.
    pub label: Label,
    /// Its image.
    pub digest: Digest,
    /// The size of the image.
    pub size: u64,
    /// When the image was given the label.
    pub added: Timestamp,
    /// When the image was used last, or given the label if that is later or that is unknown.
    pub used: Timestamp,
    /// What is to become of it.
    #[serde(flatten)]
    pub fate: Fate,
    #[serde(skip)]
    pub(crate) record: Record,
}

/// What is to become of a label, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "fate", content = "why")]
pub enum Fate {
    /// It stays.
    Kept(Kept),
    /// It goes, and the image with its last label.
    Removed(Reason),
}

/// Why a label stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kept {
    /// It is pinned.
    Pinned,
    /// A name that follows a channel is this image.
    Followed,
    /// The image is open or mounted on this host.
    InUse,
    /// It was used or added a short while ago.
    Recent,
    /// It is one of the newest of its name.
    Newest,
    /// An image that stays is built on it.
    Base,
    /// No limit wants it to go.
    WithinLimits,
    /// This user may not look at the image.
    Closed,
}

/// Why a label goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The image was not used for too long.
    Unused,
    /// There are enough newer ones of its name.
    Surplus,
    /// The repository is too large, and the image was not used for longest.
    Size,
}

impl Repository {
    /// Works out what the limits want to go.
    pub fn retention(&self, limits: &Limits) -> Result<Retention, Error> {
        let records = self.records()?;
        let mut facts = Facts::new(self, limits)?;
        let newest = newest(&records, limits);
        let mut labels: Vec<Verdict> = Vec::with_capacity(records.len());
        for (place, record) in records.into_iter().enumerate() {
            labels.push(facts.verdict(record, newest.contains(&place)));
        }
        let unnamed = self.bytes_without_label()?;
        let bytes_before = bytes(&labels, |_| true) + unnamed;
        if let Some(max_size) = limits.max_size {
            shrink(&mut labels, max_size.saturating_sub(unnamed));
        }
        self.keep_bases(&mut labels);
        let stays = |one: &Verdict| matches!(one.fate, Fate::Kept(_));
        Ok(Retention {
            bytes_before,
            bytes_after: bytes(&labels, stays) + unnamed,
            labels,
            notes_use: disk::notes_access(&self.layout().images()),
            spare: limits.spare,
            now: facts.now,
        })
    }

    /// Keeps the images on which those that stay are built, also if the repository is then larger
    /// than wanted.
    fn keep_bases(&self, labels: &mut [Verdict]) {
        if !labels.iter().any(|one| matches!(one.fate, Fate::Removed(_))) {
            return;
        }
        let staying = labels.iter().filter(|one| matches!(one.fate, Fate::Kept(_)));
        let staying: BTreeSet<&Digest> = staying.map(|one| &one.digest).collect();
        let bases: BTreeSet<Digest> =
            staying.into_iter().flat_map(|one| bases::of_image(self.layout(), one)).collect();
        for one in labels.iter_mut().filter(|one| bases.contains(&one.digest)) {
            if matches!(one.fate, Fate::Removed(_)) {
                one.fate = Fate::Kept(Kept::Base);
            }
        }
    }

    fn bytes_without_label(&self) -> Result<u64, Error> {
        let listing = Listing::read(self.layout())?;
        let mut unnamed: BTreeSet<Digest> = listing.images().into_iter().collect();
        for record in listing.into_records() {
            unnamed.remove(&record.digest);
        }
        let size = |digest: &Digest| fs::metadata(self.image_path(digest)).map_or(0, |m| m.len());
        Ok(unnamed.iter().map(size).sum())
    }
}

/// What is known about the images, each looked at once.
struct Facts<'a> {
    repository: &'a Repository,
    limits: &'a Limits,
    observer: Observer<'a>,
    pins: BTreeSet<Label>,
    followed: BTreeSet<Digest>,
    now: Timestamp,
    images: BTreeMap<Digest, Option<(Timestamp, bool)>>,
}

impl<'a> Facts<'a> {
    fn new(repository: &'a Repository, limits: &'a Limits) -> Result<Self, Error> {
        Ok(Self {
            repository,
            limits,
            observer: Observer::new(repository.layout()),
            pins: repository.pins()?,
            followed: repository.followed_images()?,
            now: Timestamp::now(),
            images: BTreeMap::new(),
        })
    }

    /// Returns when an image was read last and whether it is in use.
    fn image(&mut self, digest: &Digest) -> Option<(Timestamp, bool)> {
        let (layout, observer) = (self.repository.layout(), &self.observer);
        let look = || Some((last_read(layout, digest).ok()?, observer.is_in_use(digest).ok()?));
        *self.images.entry(digest.clone()).or_insert_with(look)
    }

    fn verdict(&mut self, record: Record, is_newest: bool) -> Verdict {
        let image = self.image(&record.digest);
        let read = image.map_or(record.date, |(read, _)| read);
        // The clocks of other hosts may be ahead.
        let used = read.max(record.date).min(self.now.max(record.date));
        let age = seconds_between(used, self.now);
        let limits = self.limits;
        let is_older = |limit: Duration| age >= limit.as_secs();
        let fate = match image {
            None => Fate::Kept(Kept::Closed),
            Some((_, true)) => Fate::Kept(Kept::InUse),
            Some(_) if self.pins.contains(&record.label) => Fate::Kept(Kept::Pinned),
            Some(_) if self.followed.contains(&record.digest) => Fate::Kept(Kept::Followed),
            Some(_) if !is_older(limits.spare) => Fate::Kept(Kept::Recent),
            Some(_) if is_newest => Fate::Kept(Kept::Newest),
            Some(_) => match (limits.older_than, limits.keep_last, limits.max_size) {
                (Some(limit), _, _) if is_older(limit) => Fate::Removed(Reason::Unused),
                (None, Some(_), None) => Fate::Removed(Reason::Surplus),
                _ => Fate::Kept(Kept::WithinLimits),
            },
        };
        Verdict {
            label: record.label.clone(),
            digest: record.digest.clone(),
            size: record.size,
            added: record.date,
            used,
            fate,
            record,
        }
    }
}

/// Returns the places of the records that are among the newest of their name.
fn newest(records: &[Record], limits: &Limits) -> BTreeSet<usize> {
    let Some(count) = limits.keep_last else {
        return BTreeSet::new();
    };
    let mut groups: BTreeMap<_, Vec<(Timestamp, usize)>> = BTreeMap::new();
    for (place, record) in records.iter().enumerate() {
        let Label { name, system, uarch, .. } = &record.label;
        let group = groups.entry((name, system, uarch)).or_default();
        group.push((record.date, place));
    }
    let count = usize::try_from(count.get()).unwrap_or(usize::MAX);
    let newest = groups.into_values().flat_map(|mut group| {
        group.sort_unstable();
        group.into_iter().rev().take(count)
    });
    newest.map(|(_, place)| place).collect()
}

/// Lets images go that were not used for longest, until the others fit.
fn shrink(labels: &mut [Verdict], max_size: u64) {
    let stays = |one: &Verdict| matches!(one.fate, Fate::Kept(_));
    let mut images: BTreeMap<Digest, (Timestamp, u64, bool)> = BTreeMap::new();
    for one in labels.iter().filter(|one| stays(one)) {
        let may_go = one.fate == Fate::Kept(Kept::WithinLimits);
        let image = images.entry(one.digest.clone()).or_insert((one.used, one.size, true));
        *image = (image.0.max(one.used), one.size, image.2 && may_go);
    }
    let mut total: u64 = images.values().map(|(_, size, _)| size).sum();
    let mut candidates: Vec<_> = images
        .into_iter()
        .filter(|(_, (_, _, may_go))| *may_go)
        .map(|(digest, (used, size, _))| (used, digest, size))
        .collect();
    candidates.sort();
    let mut gone = BTreeSet::new();
    for (_, digest, size) in candidates {
        if total <= max_size {
            break;
        }
        total -= size;
        gone.insert(digest);
    }
    for one in labels.iter_mut().filter(|one| gone.contains(&one.digest)) {
        if stays(one) {
            one.fate = Fate::Removed(Reason::Size);
        }
    }
}

/// Returns the bytes of the images that have one of these labels.
fn bytes(labels: &[Verdict], wanted: impl Fn(&Verdict) -> bool) -> u64 {
    let images: BTreeMap<&Digest, u64> =
        labels.iter().filter(|one| wanted(one)).map(|one| (&one.digest, one.size)).collect();
    images.values().sum()
}

fn seconds_between(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.as_second().saturating_sub(from.as_second())).unwrap_or(0)
}
