// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! How long a mount takes on a machine whose processors are all busy, as those of a
//! node are on which the ranks of a job wait for messages.

use std::process::{Child, Stdio};
use std::thread::available_parallelism;

use crate::bed::Bed;
use crate::comparison::{not_measured, verdict};
use crate::goal::Goal;
use crate::images::Format::{Erofs, Squashfs};
use crate::images::Images;
use crate::measure::{Candidate, NotMeasured};
use crate::options::Options;
use crate::report::{Section, Table};
use crate::starters::Before::{self, Alone, First, Held};
use crate::starters::{Starters, Through};
use crate::statistics::Summary;
use crate::users::{as_ordinary_user, is_root};

/// What a mount may take, in milliseconds.
const TARGET: f64 = 1.0;
const TITLE: &str = "Mounting on a busy machine";

const METHOD: &str = "\
One program per processor computes without pause, at ordinary priority. A small program notes \
the time and executes the one that mounts; that one executes a small program in the image, which \
prints how much time has passed. Waiting for the end of the program is therefore not counted. \
The first row does the same with a program in the middle that mounts nothing. Every round runs \
each way once. The cost of mounting, in milliseconds, is the difference from the first row of \
the same round.";

/// One way to mount, and the times it took.
struct Way {
    candidate: Candidate,
    /// What must be so when it starts, if that matters.
    before: Option<Before>,
    as_root: bool,
    target: Option<f64>,
    times: Result<Vec<f64>, NotMeasured>,
}

pub(crate) fn sections(bed: &Bed, options: &Options) -> Vec<Section> {
    let result = bed.images().and_then(|images| {
        let _site = bed.with_helper()?;
        let _spinners = Spinners::start(bed)?;
        measure(bed, images, options.busy_rounds())
    });
    let (table, goals) = match result {
        Ok(result) => result,
        Err(reason) => return vec![Section::not_measured(TITLE, &reason)],
    };
    vec![Section {
        title: TITLE,
        method: METHOD.to_owned(),
        tables: vec![table],
        goals,
        remarks: Vec::new(),
    }]
}

/// Programs that keep all processors busy, until this is dropped.
struct Spinners(Vec<Child>);

impl Spinners {
    fn start(bed: &Bed) -> Result<Self, NotMeasured> {
        let count = available_parallelism().map_or(1, usize::from);
        let mut spinners = Self(Vec::new());
        let mut command = bed.small("spin")?;
        for _ in 0..count {
            let child = command.stdout(Stdio::null()).spawn();
            let failed = |error| format!("cannot keep the processors busy: {error}");
            spinners.0.push(child.map_err(failed)?);
        }
        Ok(spinners)
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn measure(bed: &Bed, images: &Images, rounds: usize) -> Result<(Table, Vec<Goal>), NotMeasured> {
    let start = Starters::of_nothing(bed, images).within("elapsed")?;
    let mut ways = ways(&start);
    for _ in 0..rounds {
        for way in &mut ways {
            way.once(bed);
        }
    }
    let mut table = Table::new(&[
        "command",
        "to the command, ms: median",
        "90 %",
        "largest",
        "mounting: median",
        "90 %",
        "largest",
        "target",
        "reached",
        "rounds",
    ]);
    let floor = match ways.first().map(|way| &way.times) {
        Some(Ok(times)) => times.clone(),
        _ => return Err("the first row could not be measured".to_owned()),
    };
    let mut costs = Vec::new();
    for way in &ways {
        let (row, cost) = way.row(&floor);
        table.push(row);
        costs.push(cost);
    }
    let cost = |position: usize| costs.get(position).copied().flatten();
    let peer = |name: &str, position| {
        cost(position).map_or(String::new(), |cost| format!("{name} {:.1} ms", cost.median))
    };
    let goal = Goal::at_most("a mount while all processors are busy", TARGET, "ms")
        .reached_by("held", cost(1))
        .reached_by("EROFS, alone", cost(2))
        .beside(format!("{}; {}", peer("squashfs-mount", 5), peer("`mount -o loop`", 6)));
    Ok((table, vec![goal]))
}

fn ways(start: &Starters<'_>) -> Vec<Way> {
    let way = |candidate, before, target| Way {
        candidate,
        before,
        as_root: false,
        target,
        times: Ok(Vec::new()),
    };
    let other = |candidate| way(start.stamped(candidate), None, None);
    let cabane = start.stamped(start.cabane(Through::Helper, Squashfs, Held));
    vec![
        other(start.through_static(1)),
        way(start.asker(Squashfs, Held), Some(Held), Some(TARGET)),
        way(start.asker(Erofs, Alone), Some(Alone), Some(TARGET)),
        way(start.asker(Squashfs, Alone), Some(Alone), None),
        way(cabane, Some(Held), None),
        other(start.squashfs_mount()),
        Way { as_root: true, ..other(start.unshare()) },
    ]
}

impl Way {
    /// Tries once; after a failure no more.
    fn once(&mut self, bed: &Bed) {
        let Ok(times) = &mut self.times else {
            return;
        };
        let candidate = &mut self.candidate;
        let prepared = match self.before {
            Some(First | Alone) => bed.have_policy(true),
            Some(Held) => as_ordinary_user(|| candidate.probe()),
            None => Ok(()),
        };
        let result = prepared.and_then(|()| match (self.as_root, is_root()) {
            (true, false) => Err("this needs root".to_owned()),
            (true, true) => elapsed(candidate),
            (false, _) => as_ordinary_user(|| elapsed(candidate)),
        });
        match result {
            Ok(time) => times.push(time),
            Err(reason) => self.times = Err(reason),
        }
    }

    fn row(&self, floor: &[f64]) -> (Vec<String>, Option<Summary>) {
        let name = self.candidate.name.clone();
        let times = match &self.times {
            Ok(times) => times,
            Err(reason) => return (vec![name, not_measured(reason)], None),
        };
        let above: Vec<f64> = times.iter().zip(floor).map(|(time, floor)| time - floor).collect();
        let Some((total, cost)) = Summary::of(times).zip(Summary::of(&above)) else {
            return (vec![name, not_measured("no rounds")], None);
        };
        let row = vec![
            name,
            format!("{:.2}", total.median),
            format!("{:.2}", ninth_tenth(times)),
            format!("{:.2}", largest(times)),
            format!("**{:.2}**", cost.median),
            format!("{:.2}", ninth_tenth(&above)),
            format!("{:.2}", largest(&above)),
            self.target.map_or(String::new(), |target| format!("≤ {target:.1}")),
            self.target.map_or("", |target| verdict(cost, target)).to_owned(),
            times.len().to_string(),
        ];
        (row, Some(cost))
    }
}

/// Runs the command and reads how many milliseconds it says have passed.
fn elapsed(candidate: &mut Candidate) -> Result<f64, NotMeasured> {
    let printed = candidate.output()?;
    let printed = String::from_utf8_lossy(&printed);
    let nanoseconds: f64 =
        printed.trim().parse().map_err(|_| format!("no number: {}", printed.trim()))?;
    Ok(nanoseconds / 1e6)
}

/// Returns the number that nine of ten do not exceed.
fn ninth_tenth(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let position = (sorted.len() * 9).div_ceil(10).saturating_sub(1);
    sorted.get(position).copied().unwrap_or(f64::NAN)
}

fn largest(numbers: &[f64]) -> f64 {
    numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nine_of_ten_are_not_above_it() {
        let numbers: Vec<f64> = (1..=10).map(f64::from).collect();
        assert!((ninth_tenth(&numbers) - 9.0).abs() < 1e-12);
    }
}
