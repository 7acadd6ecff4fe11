// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Sums of records. No record is kept, so memory grows with the number of users, images, and
//! nodes, and not with that of steps.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::names::Names;
use crate::record::{BrokenRecord, Kind, Record};
use crate::summary::Broken;
use crate::times::Times;

/// So many broken lines are named; all are counted.
const NAMED: usize = 10;
/// So many pairs of users and images, and days, are kept.
const MOST: usize = 500_000;

/// Records, summed up.
#[derive(Debug, Default)]
pub struct Tally {
    pub(crate) users: Names,
    pub(crate) images: Names,
    pub(crate) labels: Names,
    pub(crate) nodes: Names,
    pub(crate) reasons: Names,
    pub(crate) steps: u64,
    pub(crate) ends: u64,
    pub(crate) node_failures: u64,
    pub(crate) ignored: u64,
    pub(crate) broken: u64,
    pub(crate) broken_lines: Vec<Broken>,
    pub(crate) first: Option<Timestamp>,
    pub(crate) last: Option<Timestamp>,
    /// For each image.
    pub(crate) image_sums: HashMap<u32, ImageSum>,
    /// For each user and image.
    pub(crate) uses: HashMap<(u32, u32), UseSum>,
    /// For each reason.
    pub(crate) failures: HashMap<u32, FailureSum>,
    /// For each node, how long mounting took.
    pub(crate) starts: HashMap<u32, Times>,
    pub(crate) lookup: Times,
    pub(crate) open: Times,
    pub(crate) mount: Times,
    /// For each day, how many steps began, and how many of them without their images.
    pub(crate) days: BTreeMap<Date, [u64; 2]>,
}

/// How an image was used.
#[derive(Debug, Default)]
pub(crate) struct ImageSum {
    /// The last label.
    pub(crate) label: Option<u32>,
    pub(crate) sums: UseSum,
    pub(crate) users: BTreeSet<u32>,
}

/// How something was used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UseSum {
    pub(crate) steps: u64,
    /// Those that did not get it.
    pub(crate) unmounted: u64,
    /// Those that got it and ended with another exit code than 0.
    pub(crate) failed: u64,
    pub(crate) last: Option<Timestamp>,
}

/// What failed for one reason.
#[derive(Debug, Default)]
pub(crate) struct FailureSum {
    pub(crate) steps: u64,
    pub(crate) nodes: BTreeSet<u32>,
    pub(crate) users: BTreeSet<u32>,
    pub(crate) last: Option<Timestamp>,
}

impl Tally {
    /// Counts the record in a line, which is named so if it is broken.
    pub(crate) fn add_line(&mut self, line: &[u8], place: impl FnOnce() -> (String, u64)) {
        match Record::in_line(line) {
            Ok(Some((kind, record))) => match record.time() {
                Some(time) => self.add(kind, &record, time),
                None => self.add_broken(BrokenRecord::Malformed, place),
            },
            Ok(None) => self.ignored += 1,
            Err(why) => self.add_broken(why, place),
        }
    }

    pub(crate) fn add_broken(&mut self, why: BrokenRecord, place: impl FnOnce() -> (String, u64)) {
        self.broken += 1;
        if self.broken_lines.len() < NAMED {
            let (file, line) = place();
            self.broken_lines.push(Broken { file, line, why: why.to_string() });
        }
    }

    fn add(&mut self, kind: Kind, record: &Record<'_>, time: Timestamp) {
        self.first = Some(self.first.map_or(time, |first| first.min(time)));
        self.last = self.last.max(Some(time));
        let user = self.users.number(&record.user());
        let node = self.nodes.number(&record.node);
        match kind {
            Kind::Begin => {
                self.steps += 1;
                self.add_begin(record, user, node, time);
            }
            Kind::End => {
                self.ends += 1;
                let is_bad = !matches!(record.exit_code, Some(0) | None);
                if is_bad && record.failure().is_none() {
                    self.add_use(record, user, |sums| sums.failed += 1);
                }
            }
            Kind::NodeFailure => {
                self.node_failures += 1;
                self.add_failure(record, user, node, time, false);
            }
        }
    }

    fn add_begin(&mut self, record: &Record<'_>, user: u32, node: u32, time: Timestamp) {
        let is_unmounted = record.failure().is_some();
        let unmounted = u64::from(is_unmounted);
        self.add_use(record, user, |sums| {
            sums.steps += 1;
            sums.unmounted += unmounted;
            sums.last = sums.last.max(Some(time));
        });
        let day = TimeZone::UTC.to_datetime(time).date();
        if self.days.len() < MOST || self.days.contains_key(&day) {
            let [steps, without] = self.days.entry(day).or_default();
            *steps += 1;
            *without += unmounted;
        }
        if is_unmounted {
            self.add_failure(record, user, node, time, true);
            return;
        }
        let times = record.times_ms;
        if let Some(time) = times.lookup {
            self.lookup.add(time);
        }
        if let (Some(open), Some(mount)) = (times.open, times.mount) {
            self.open.add(open);
            self.mount.add(mount);
            self.starts.entry(node).or_default().add(open + mount);
        }
    }

    fn add_use(&mut self, record: &Record<'_>, user: u32, change: impl Fn(&mut UseSum)) {
        for image in &record.images {
            let number = self.images.number(image.key());
            let label = image.label.as_deref().map(|label| self.labels.number(label));
            let sum = self.image_sums.entry(number).or_default();
            sum.label = label.or(sum.label);
            change(&mut sum.sums);
            let pair = (user, number);
            if self.uses.len() < MOST || self.uses.contains_key(&pair) {
                sum.users.insert(user);
                change(self.uses.entry(pair).or_default());
            }
        }
    }

    fn add_failure(
        &mut self,
        record: &Record<'_>,
        user: u32,
        node: u32,
        time: Timestamp,
        is_step: bool,
    ) {
        let reason = self.reasons.number(record.failure().unwrap_or("unknown"));
        let sum = self.failures.entry(reason).or_default();
        sum.steps += u64::from(is_step);
        sum.nodes.insert(node);
        sum.users.insert(user);
        sum.last = sum.last.max(Some(time));
    }
}
