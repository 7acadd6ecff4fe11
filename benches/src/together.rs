// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What it costs when many start at the same moment in the same image, as the ranks of
//! a job do.

#![expect(
    clippy::redundant_closure_for_method_calls,
    reason = "the methods themselves are those of one lifetime"
)]

use crate::bed::Bed;
use crate::comparison::{not_measured, verdict};
use crate::crowd::{Rendezvous, gather};
use crate::goal::Goal;
use crate::images::Format::{Erofs, Squashfs};
use crate::images::Images;
use crate::measure::{Candidate, NotMeasured};
use crate::options::Options;
use crate::report::{Section, Table};
use crate::starters::Before::{self, Alone, Held};
use crate::starters::{Starters, Through};
use crate::statistics::Summary;
use crate::users::{as_user, is_root, some_users};

/// What 64 starts of Python may cost over those of squashfs-mount.
const PYTHON: f64 = 0.85;
/// What many processes may add to the page cache over what one does. The figure is that
/// of the whole machine, so that it is not exactly one.
const ONE_COPY: f64 = 1.25;
/// How many users come at once where it is more than one.
const USERS: u32 = 4;

/// The way that the others are over.
const PEER: &str = "squashfs-mount";
const DIRECTORY: &str = "from a directory";
const SQUASHFS_HELD: &str = "`cabane run`, squashfs, held";
const SQUASHFS_ALONE: &str = "`cabane run`, squashfs, alone";
const EROFS_HELD: &str = "`cabane run`, erofs, held";
const EROFS_ALONE: &str = "`cabane run`, erofs, alone";
const LOOPS: &str = "`unshare -m`, `mount -o loop`, as root";
const OWN_LOOPS: &str = "a loop device each, as root";
const ONE: &str = "`cabane run`, squashfs, alone, one start";

const METHOD: &str = "\
Each start mounts, runs the command in the image, reports that it is ready, and waits until all \
are; with the complete command line. The time is from the first start until the last one is \
ready; the starts themselves follow one another. Every round runs each way once, and the ratio \
is that of each round. *Alone*: nothing was held before. *Held*: an earlier start mounted and \
read the image. Loop devices are those in use for the image while all commands were running. The \
page cache is the growth of that of the whole machine. The files of images were in it before, so \
the growth is what was decompressed from them; `from a directory` shows the influence of the \
rest of the machine.";

/// A crowd: what they start, how many, and by how many users.
struct Crowd<'a> {
    bed: &'a Bed,
    images: &'a Images,
    script: Option<&'static str>,
    count: usize,
    users: Vec<u32>,
}

/// One way to start all of them.
struct Way {
    name: String,
    candidate: fn(&Starters<'_>) -> Candidate,
    before: Before,
    /// Whether only root can go this way.
    as_root: bool,
    /// Whether images are shared, as the policy of a site says.
    has_policy: bool,
    /// Whether only one of the crowd does.
    is_single: bool,
    results: Result<Vec<Rendezvous>, NotMeasured>,
}

pub(crate) fn sections(bed: &Bed, options: &Options) -> Vec<Section> {
    const TITLE: &str = "Many starts at once";
    let images = match bed.images() {
        Ok(images) => images,
        Err(reason) => {
            let reason = format!("there is no image: {reason}");
            return vec![Section::not_measured(TITLE, &reason)];
        }
    };
    let _site = match bed.with_helper() {
        Ok(site) => site,
        Err(reason) => return vec![Section::not_measured(TITLE, &reason)],
    };
    let mut section = Section::new(TITLE, METHOD);
    let (some, many) = if options.quick { (8, 16) } else { (64, 256) };
    let rounds = options.crowd_rounds();
    let crowd =
        |script, count, users| Crowd { bed, images, script, count, users: some_users(users) };
    let python = Some("pass");
    section.add(&crowd(None, some, 1), all_ways(), rounds, None);
    let ways = section.add(&crowd(python, some, 1), all_ways(), rounds, Some(PYTHON));
    section.goals.push(python_goal(some, &ways));
    for script in [None, python] {
        let ways =
            section.add(&crowd(script, many, USERS), kernel_ways(), rounds.div_ceil(2), None);
        section.goals.push(failure_goal(many, script, &ways));
    }
    match bed.numpy() {
        Ok(images) => {
            let crowd = Crowd { images, ..crowd(Some("import numpy"), some, 1) };
            let ways = section.add(&crowd, numpy_ways(), rounds.div_ceil(2), None);
            section.goals.push(cache_goal(some, &ways));
        }
        Err(reason) => {
            let remark = format!("`import numpy`: not measured: {reason}.");
            section.remarks.push(remark);
        }
    }
    vec![section]
}

impl Section {
    /// Measures a crowd and adds a table.
    fn add(
        &mut self,
        crowd: &Crowd<'_>,
        mut ways: Vec<Way>,
        rounds: usize,
        target: Option<f64>,
    ) -> Vec<Way> {
        let table = crowd.measure(&mut ways, rounds, target);
        self.tables.push(table.captioned(crowd.name()));
        ways
    }
}

fn python_goal(count: usize, ways: &[Way]) -> Goal {
    let ratio = |name: &str| {
        let (one, peer) = (find(ways, name)?, find(ways, PEER)?);
        ratios(one, peer, |one| one.milliseconds)
    };
    let beside = ratio(DIRECTORY)
        .map_or(String::new(), |ratio| format!("from a directory {:.2}", ratio.median));
    let what = format!("{count} starts of Python at once, over those of squashfs-mount");
    Goal::ratio(&what, PYTHON)
        .reached_by("squashfs, held", ratio(SQUASHFS_HELD))
        .reached_by("squashfs, alone", ratio(SQUASHFS_ALONE))
        .beside(beside)
}

fn failure_goal(count: usize, script: Option<&str>, ways: &[Way]) -> Goal {
    let failures = |name: &str| {
        let results = find(ways, name)?.iter();
        Summary::of(&[results.map(|one| number(one.failures)).fold(0.0, f64::max)])
    };
    let program = if script.is_some() { "Python" } else { "`true`" };
    let what = format!("failures among {count} starts of {program} by {USERS} users");
    Goal::at_most(&what, 0.0, "")
        .reached_by("squashfs, held", failures(SQUASHFS_HELD))
        .reached_by("squashfs, alone", failures(SQUASHFS_ALONE))
        .beside(
            failures(PEER)
                .map_or(String::new(), |most| format!("squashfs-mount {:.0}", most.median)),
        )
}

/// How many copies of what a process reads are in memory.
fn cache_goal(count: usize, ways: &[Way]) -> Goal {
    let copies = |name: &str| {
        let (all, one) = (find(ways, name)?, find(ways, ONE)?);
        ratios(all, one, |one| one.cached)
    };
    let beside = [PEER, OWN_LOOPS].map(|name| {
        let copies =
            copies(name).map_or("not measured".to_owned(), |ratio| format!("{:.1}", ratio.median));
        format!("{name} {copies}")
    });
    let what = format!(
        "page cache that {count} processes with numpy add, over that of one: one copy of what they read"
    );
    Goal::ratio(&what, ONE_COPY)
        .reached_by("squashfs, alone", copies(SQUASHFS_ALONE))
        .beside(beside.join("; "))
}

fn find<'a>(ways: &'a [Way], name: &str) -> Option<&'a [Rendezvous]> {
    let way = ways.iter().find(|way| way.name == name)?;
    way.results.as_deref().ok()
}

/// Summarises the ratios within the rounds.
fn ratios(
    ones: &[Rendezvous],
    others: &[Rendezvous],
    figure: fn(&Rendezvous) -> f64,
) -> Option<Summary> {
    let pairs = ones.iter().zip(others);
    let ratios: Vec<f64> = pairs.map(|(one, other)| figure(one) / figure(other)).collect();
    Summary::of(&ratios)
}

fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

fn way(name: &str, before: Before, candidate: fn(&Starters<'_>) -> Candidate) -> Way {
    Way {
        name: name.to_owned(),
        candidate,
        before,
        as_root: false,
        has_policy: true,
        is_single: false,
        results: Ok(Vec::new()),
    }
}

fn squashfs(name: &str, before: Before) -> Way {
    way(name, before, |start| start.cabane(Through::Helper, Squashfs, Held))
}

fn erofs(name: &str, before: Before) -> Way {
    way(name, before, |start| start.cabane(Through::Helper, Erofs, Held))
}

fn loops() -> Way {
    Way { as_root: true, ..way(LOOPS, Alone, |start| start.unshare()) }
}

/// Those in which the kernel reads the image.
fn kernel_ways() -> Vec<Way> {
    vec![
        way(PEER, Alone, |start| start.squashfs_mount()),
        way(DIRECTORY, Held, |start| start.bare(DIRECTORY)),
        squashfs(SQUASHFS_HELD, Held),
        squashfs(SQUASHFS_ALONE, Alone),
        erofs(EROFS_HELD, Held),
        erofs(EROFS_ALONE, Alone),
    ]
}

fn all_ways() -> Vec<Way> {
    let mut ways = kernel_ways();
    ways.extend([
        loops(),
        way("`cabane run`, squashfs, through FUSE", Alone, |start| {
            start.cabane(Through::UserNamespace, Squashfs, Held)
        }),
        way("squashfuse_ll and bubblewrap", Alone, |start| start.bubblewrap_by_many()),
        way("Charliecloud", Alone, |start| start.charliecloud()),
    ]);
    ways
}

/// With one that starts alone, to tell how much one copy is, and mounts that share
/// nothing: `mount -o loop` finds the device of another, if it does not come at the same
/// moment.
fn numpy_ways() -> Vec<Way> {
    let mut ways = kernel_ways();
    ways.extend([
        loops(),
        Way {
            as_root: true,
            has_policy: false,
            ..way(OWN_LOOPS, Alone, |start| start.mounter(Squashfs))
        },
        Way { is_single: true, ..squashfs(ONE, Alone) },
    ]);
    ways
}

impl Crowd<'_> {
    fn starters(&self) -> Result<Starters<'_>, NotMeasured> {
        let start = match self.script {
            Some(script) => Starters::of_script(self.bed, self.images, script),
            None => Starters::of_true(self.bed, self.images),
        };
        start.within("ready")
    }

    fn name(&self) -> String {
        let what = match self.script {
            None => "`true`".to_owned(),
            Some("pass") => "`python3 -c pass`".to_owned(),
            Some(script) => format!("`{script}`"),
        };
        let users = match self.users.len() {
            1 => "one user".to_owned(),
            users => format!("{users} users"),
        };
        format!("{} × {what}, {users}", self.count)
    }

    /// Lets every way have its turn in each round.
    fn measure(&self, ways: &mut [Way], rounds: usize, target: Option<f64>) -> Table {
        for _ in 0..rounds {
            for way in &mut *ways {
                let result = self.once(way);
                match (&mut way.results, result) {
                    (Ok(results), Ok(result)) => results.push(result),
                    (results, Err(reason)) => *results = Err(reason),
                    (Err(_), Ok(_)) => {}
                }
            }
        }
        let mut table = Table::new(&[
            "command",
            "all ready, ms: min / median",
            "over squashfs-mount",
            "target",
            "reached",
            "failures",
            "loop devices",
            "page cache, MB",
            "rounds",
        ]);
        let peer = find(ways, PEER).unwrap_or_default();
        for way in &*ways {
            let is_ours = way.name.starts_with("`cabane run`") && !way.name.ends_with("FUSE");
            table.push(way.row(peer, target.filter(|_| is_ours)));
        }
        table
    }

    fn once(&self, way: &Way) -> Result<Rendezvous, NotMeasured> {
        if let Err(reason) = &way.results {
            return Err(reason.clone());
        }
        if way.as_root && !is_root() {
            return Err("this needs root".to_owned());
        }
        let start = self.starters()?;
        let make = || (way.candidate)(&start).into_command();
        let users = if way.as_root { &[0][..] } else { &self.users };
        let image = self.images.file(Squashfs)?;
        let gather = |count: usize, users: &[u32]| gather(make, count, users, image);
        self.bed.have_policy(way.has_policy)?;
        if way.before == Held {
            // Everything is read once before.
            gather(1, users.get(..1).unwrap_or_default())?;
        }
        let count = if way.is_single { 1 } else { self.count };
        let rendezvous = gather(count, users)?;
        if rendezvous.failures == count {
            let user = users.first().copied().unwrap_or_default();
            let reason = as_user(user, || (way.candidate)(&start).probe());
            return Err(reason.err().unwrap_or("all of them failed".to_owned()));
        }
        Ok(rendezvous)
    }
}

impl Way {
    fn row(&self, peer: &[Rendezvous], target: Option<f64>) -> Vec<String> {
        let name = || self.name.clone();
        let results = match &self.results {
            Ok(results) => results,
            Err(reason) => return vec![name(), not_measured(reason)],
        };
        let of = |figure: fn(&Rendezvous) -> f64| {
            Summary::of(&results.iter().map(figure).collect::<Vec<_>>())
        };
        let Some((time, cached)) = of(|one| one.milliseconds).zip(of(|one| one.cached)) else {
            return vec![name(), not_measured("no rounds")];
        };
        let peer = if self.is_single { &[] } else { peer };
        let ratio = ratios(results, peer, |one| one.milliseconds);
        let judged = ratio.zip(target);
        let most = |figure: fn(&Rendezvous) -> usize| results.iter().map(figure).max().unwrap_or(0);
        let least = results.iter().map(|one| one.loop_devices).min().unwrap_or(0);
        vec![
            name(),
            format!("{:.0} / **{:.0}**", time.minimum, time.median),
            ratio.map_or(String::new(), |ratio| format!("{:.2}", ratio.median)),
            judged.map_or(String::new(), |(_, target)| format!("≤ {target:.2}")),
            judged.map_or("", |(ratio, target)| verdict(ratio, target)).to_owned(),
            most(|one| one.failures).to_string(),
            range(least, most(|one| one.loop_devices)),
            format!("{:.0}", cached.median),
            results.len().to_string(),
        ]
    }
}

fn range(least: usize, most: usize) -> String {
    if least == most { most.to_string() } else { format!("{least} to {most}") }
}
