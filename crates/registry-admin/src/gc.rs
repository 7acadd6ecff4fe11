// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which labels of a registry nobody needs any more.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use cabane_label::{ChannelPattern, Digest, Label, LabelPattern, NameMatch, Namespace};
use cabane_registry::{ErrorKind, Listed, Place, Wanted};
use cabane_release::history;
use cabane_report::{Kind, Report, Result};
use cabane_site::Context;
use cabane_slurm_report::{Summary, read};
use cabane_transfer::{Connection, bases_of_listed, check_list};
use jiff::Timestamp;
use serde::Serialize;

/// How long and how much is kept. At least one of the first two should be given; otherwise everything
/// is.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// What was neither pushed nor used by a job for so long goes.
    pub older_than: Option<Duration>,
    /// So many labels of each name, system, and microarchitecture stay, the newest ones. Without the
    /// other limit the rest goes.
    pub keep_last: Option<NonZeroU32>,
    /// What was pushed or used within this time stays, whatever the limits say.
    pub spare: Duration,
    /// Labels that stay.
    pub pins: Vec<LabelPattern>,
    /// Files and directories with records of job steps.
    pub records: Vec<PathBuf>,
}

/// What is to become of a label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The label.
    pub label: Label,
    /// Its image.
    pub digest: Digest,
    /// The size of the image in bytes.
    pub size: u64,
    /// When it was pushed, or used by a job.
    pub used: Option<Timestamp>,
    /// What becomes of it.
    #[serde(flatten)]
    pub fate: Fate,
}

/// Whether a label stays, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", tag = "fate", content = "reason")]
pub enum Fate {
    /// It stays.
    Kept(String),
    /// It goes.
    Removed(String),
}

/// What is to become of every label.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// The namespace.
    pub namespace: Namespace,
    /// One for each label, sorted by label.
    pub labels: Vec<Verdict>,
    /// How many bytes the images have now, each counted once.
    pub bytes_before: u64,
    /// How many they will have.
    pub bytes_after: u64,
}

impl Plan {
    /// Returns the labels that go.
    pub fn removed(&self) -> impl Iterator<Item = &Verdict> {
        self.labels.iter().filter(|one| matches!(one.fate, Fate::Removed(_)))
    }
}

/// Says what is to become of the labels of a namespace that fit one of the patterns, or of all. Images
/// that channels of the configuration release, or released in the state before, always stay.
///
/// # Errors
///
/// A channel that is not trusted, since what it releases is unknown; records that cannot be read; and
/// those of asking the registry.
pub fn plan_gc(
    context: &Context,
    connection: &Connection,
    namespace: &Namespace,
    patterns: &[LabelPattern],
    limits: &Limits,
) -> Result<Plan> {
    // What is deleted is decided by what the registry has, whatever its list says.
    let mut images = check_list(context, connection, namespace)?.images;
    note_pushes(context, connection, namespace, &mut images)?;
    let rules = Rules {
        limits,
        released: released(context, connection, namespace, &images)?,
        used: used(&limits.records)?,
        newest: newest(&images, limits.keep_last),
        now: Timestamp::now(),
    };
    let is_meant = |image: &Listed| {
        patterns.is_empty()
            || patterns.iter().any(|one| one.matches(&image.label, NameMatch::Exact))
    };
    let mut labels: Vec<Verdict> =
        images.iter().filter(|image| is_meant(image)).map(|image| rules.judge(image)).collect();
    keep_bases(connection, &images, &mut labels)?;
    let goes = |image: &Listed| {
        let of_label = labels.iter().find(|one| one.label == image.label);
        of_label.is_some_and(|one| matches!(one.fate, Fate::Removed(_)))
    };
    let sum = |images: BTreeMap<&Digest, u64>| images.values().sum();
    let all = images.iter().map(|image| (&image.digest, image.size)).collect();
    let staying = images.iter().filter(|image| !goes(image));
    let staying = staying.map(|image| (&image.digest, image.size)).collect();
    Ok(Plan {
        namespace: namespace.clone(),
        bytes_before: sum(all),
        bytes_after: sum(staying),
        labels,
    })
}

/// Keeps the images on which those that stay are built. Their metadata decide: images that were pushed by an
/// earlier version have no tag of a base.
fn keep_bases(connection: &Connection, images: &[Listed], labels: &mut [Verdict]) -> Result<()> {
    let goes = |one: &&mut Verdict| matches!(one.fate, Fate::Removed(_));
    let gone: BTreeSet<Label> =
        labels.iter_mut().filter(goes).map(|one| one.label.clone()).collect();
    if gone.is_empty() {
        return Ok(());
    }
    let staying = images.iter().filter(|image| !gone.contains(&image.label));
    let by_digest: BTreeMap<&Digest, &Listed> =
        staying.map(|image| (&image.digest, image)).collect();
    let staying: Vec<Listed> = by_digest.into_values().cloned().collect();
    let (mut tops, mut unknown) = (BTreeMap::new(), None);
    for (top, bases) in staying.iter().zip(bases_of_listed(connection, &staying)?) {
        if bases.is_none() {
            unknown = unknown.or(Some(&top.label));
        }
        for base in bases.into_iter().flatten() {
            tops.entry(base.digest).or_insert(&top.label);
        }
    }
    for one in labels.iter_mut().filter(goes) {
        if let Some(top) = tops.get(&one.digest) {
            one.fate = Fate::Kept(format!("{top} is built on it"));
        } else if let Some(top) = unknown
            && may_be_base(connection, images, one)
        {
            one.fate = Fate::Kept(format!("the metadata of {top} cannot be read, and may name it"));
        }
    }
    Ok(())
}

/// Whether a push has marked an image as a base. Without an answer it may be one.
fn may_be_base(connection: &Connection, images: &[Listed], verdict: &Verdict) -> bool {
    let image = images.iter().find(|image| image.label == verdict.label);
    image.is_some_and(|image| {
        let held = connection.registry.held_base(&image.place(), &image.digest);
        held.map_or(true, |held| held.is_some())
    })
}

/// Deletes the labels that go, and calls `done` for each. A label that has another image by now stays.
///
/// # Errors
///
/// The registry does not delete; and those of asking it. What was deleted before is gone.
pub fn execute_gc(
    connection: &Connection,
    plan: &Plan,
    done: &mut dyn FnMut(&Verdict),
) -> Result<()> {
    for one in plan.removed() {
        let (namespace, label) = (plan.namespace.clone(), one.label.clone());
        let place = Place { namespace, label };
        match connection.registry.image_if_there(&place)? {
            Some(image) if image.digest == one.digest => {}
            _ => continue,
        }
        match connection.registry.delete(&place) {
            Ok(_) => done(one),
            // Someone else was faster.
            Err(error) if error.kind == ErrorKind::NoSuchImage => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

struct Rules<'a> {
    limits: &'a Limits,
    /// The images that channels release, and which ones.
    released: BTreeMap<Digest, String>,
    /// When jobs used images.
    used: BTreeMap<String, Timestamp>,
    newest: BTreeSet<&'a Label>,
    now: Timestamp,
}

impl Rules<'_> {
    fn judge(&self, image: &Listed) -> Verdict {
        let limits = self.limits;
        let by_job = self.used.get(image.digest.as_str()).copied();
        let used = by_job.max(image.date);
        let is_older = |limit: Duration| {
            let age = used.map(|used| self.now.duration_since(used).unsigned_abs());
            age.is_none_or(|age| age >= limit)
        };
        let label = &image.label;
        let is_pinned = limits.pins.iter().any(|pin| pin.matches(label, NameMatch::Exact));
        let kept = |reason: &str| Fate::Kept(reason.to_owned());
        let fate = if let Some(channel) = self.released.get(&image.digest) {
            Fate::Kept(format!("released by {channel}"))
        } else if is_pinned {
            kept("pinned")
        } else if !is_older(limits.spare) {
            kept("recent")
        } else if self.newest.contains(label) {
            kept("one of the newest")
        } else {
            match (limits.older_than, limits.keep_last, by_job) {
                (Some(limit), ..) if is_older(limit) => Fate::Removed("older".to_owned()),
                (None, Some(_), None) => Fate::Removed("surplus".to_owned()),
                (None, Some(_), Some(_)) => kept("used by jobs"),
                _ => kept("within the limits"),
            }
        };
        let (label, digest) = (label.clone(), image.digest.clone());
        Verdict { label, digest, size: image.size, used, fate }
    }
}

/// How many states of a channel keep their images: the one before is that of a rollback.
const STATES: usize = 2;

/// Finds the images that channels release, on all systems for which there are images.
fn released(
    context: &Context,
    connection: &Connection,
    namespace: &Namespace,
    images: &[Listed],
) -> Result<BTreeMap<Digest, String>> {
    let systems: BTreeSet<_> = images.iter().map(|image| &image.label.system).collect();
    let mut released = BTreeMap::new();
    let settings = context.settings.channels.iter();
    for setting in settings.filter(|one| one.namespace == *namespace) {
        for system in &systems {
            let channel = ChannelPattern {
                namespace: Some(namespace.clone()),
                name: setting.name.clone(),
                serial: None,
                system: Some((*system).clone()),
            };
            let states = match history(context, connection, &channel, STATES) {
                Err(error) if error.kind() == Kind::NotFound => continue,
                states => states.map_err(|error| unknown(&channel, &error))?,
            };
            for state in states {
                for entry in &state.channel.document.entries {
                    let name = format!("{}@{system}", setting.name);
                    released.entry(entry.digest.clone()).or_insert(name);
                }
            }
        }
    }
    Ok(released)
}

/// Lets images be as old as their labels, if those are younger: the list knows when they were pushed.
fn note_pushes(
    context: &Context,
    connection: &Connection,
    namespace: &Namespace,
    images: &mut [Listed],
) -> Result<()> {
    let wanted = Wanted { namespace, pattern: None, how: NameMatch::Exact };
    let listed = connection.registry.find(&wanted, context.settings.registry.listing.value)?;
    let dates: BTreeMap<_, _> =
        listed.into_iter().map(|one| ((one.label, one.digest), one.date)).collect();
    for image in images {
        let pushed = dates.get(&(image.label.clone(), image.digest.clone())).copied().flatten();
        image.date = image.date.max(pushed);
    }
    Ok(())
}

fn unknown(channel: &ChannelPattern, error: &Report) -> Report {
    let message = format!("what the channel {channel} releases is unknown: {error}");
    Report::new(error.kind(), message).hinted(error.hints().first().cloned())
}

fn used(records: &[PathBuf]) -> Result<BTreeMap<String, Timestamp>> {
    if records.is_empty() {
        return Ok(BTreeMap::new());
    }
    let summary = Summary::new(&read(records)?, None)?;
    let images = summary.images.into_iter();
    Ok(images.filter_map(|image| Some((image.image, image.last?))).collect())
}

/// Returns the labels that are among the newest of their name, system, and microarchitecture.
fn newest(images: &[Listed], keep_last: Option<NonZeroU32>) -> BTreeSet<&Label> {
    let Some(count) = keep_last else {
        return BTreeSet::new();
    };
    let mut groups: BTreeMap<_, Vec<(Option<Timestamp>, &Label)>> = BTreeMap::new();
    for image in images {
        let Label { name, system, uarch, .. } = &image.label;
        groups.entry((name, system, uarch)).or_default().push((image.date, &image.label));
    }
    let count = usize::try_from(count.get()).unwrap_or(usize::MAX);
    let newest = groups.into_values().flat_map(|mut group| {
        group.sort_unstable();
        group.into_iter().rev().take(count)
    });
    newest.map(|(_, label)| label).collect()
}
