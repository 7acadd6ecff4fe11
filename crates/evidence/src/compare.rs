// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The figures of an image, compared with those of the image before it.
//!
//! Each statement about tests is a run. Only statements that count are compared: of a tester, about this
//! image, on this system, and of this generation. What a registry adds or repeats changes nothing.
//!
//! A machine is slower on some days and in some minutes, and another machine is another one. So only runs of
//! both images at about the same time and on hosts with the same facts are compared.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use cabane_label::escape;
use jiff::Timestamp;
use serde::Serialize;

use crate::figure::{Answer, Band, Direction, LEAST_RUNS, MOST_RUNS, answer, is_comparable};
use crate::judge::{AHEAD, Evidence, Standing, Wanted};
use crate::outcome::{Host, Measured, Outcome};

/// A number that a check measures in each run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct FigureName {
    /// The check.
    pub test: String,
    /// The number.
    pub variable: String,
}

impl fmt::Display for FigureName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{} {}", escape(&self.test), escape(&self.variable)))
    }
}

/// A run of a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct FigureRun {
    /// When it ended.
    pub finished: Timestamp,
    /// Its number.
    pub value: f64,
    /// Where it ran.
    pub host: Host,
}

/// The runs of a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct FigureRuns {
    /// The runs, the newest first.
    pub runs: Vec<FigureRun>,
    /// Their unit.
    pub unit: String,
    /// Which numbers are better, by the limits of the newest run.
    pub direction: Option<Direction>,
}

/// The figures of an image on a system.
pub type Figures = BTreeMap<FigureName, FigureRuns>;

/// What became of a figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedFigure {
    /// The figure.
    #[serde(flatten)]
    pub name: FigureName,
    /// Its unit.
    pub unit: String,
    /// The runs of the image before.
    pub before: Band,
    /// The runs of the image.
    pub now: Band,
    /// The new median divided by the old one, if that is not zero.
    pub ratio: Option<f64>,
    /// Which numbers are better, if that is known.
    pub direction: Option<Direction>,
    /// What became of it.
    pub answer: Answer,
    /// Why there is no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The figures of two images.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// The figures that both have.
    pub figures: Vec<ComparedFigure>,
    /// Those that only the image before has.
    pub missing: Vec<FigureName>,
    /// Those that only the image has.
    pub added: Vec<FigureName>,
}

impl Comparison {
    /// Returns the figures with an answer.
    pub fn with(&self, answer: Answer) -> impl Iterator<Item = &ComparedFigure> {
        self.figures.iter().filter(move |one| one.answer == answer)
    }
}

/// Returns the figures of an image from what is known of it. The system is the one that is asked for; if
/// none is named, only statements that name none have a say.
#[must_use]
pub fn figures(evidence: &[Evidence], wanted: &Wanted, now: Timestamp) -> Figures {
    // A run that ended with an ERROR says nothing about the image, and its numbers do not either.
    let is_result =
        |one: &&Evidence| matches!(one.outcome, Some(Outcome::Passed | Outcome::Failed));
    let runs = runs(evidence, wanted, now).into_iter().filter(is_result);
    let mut figures = Figures::new();
    for run in runs {
        let mut seen = BTreeSet::new();
        for one in &run.details.performance {
            let (test, variable) = (one.test.clone(), one.measured.variable.clone());
            let name = FigureName { test, variable };
            if is_comparable(one.measured.value) && seen.insert(name.clone()) {
                let finished = run.details.finished.unwrap_or(Timestamp::UNIX_EPOCH);
                let (value, host) = (one.measured.value, run.details.host.clone());
                add(&mut figures, name, FigureRun { finished, value, host }, &one.measured);
            }
        }
    }
    figures
}

/// Returns the statements about tests that count for what is asked for, the newest first. The system is the one that
/// is asked for; if none is named, only statements that name none have a say.
#[must_use]
pub fn runs<'e>(evidence: &'e [Evidence], wanted: &Wanted, now: Timestamp) -> Vec<&'e Evidence> {
    let mut runs: Vec<&Evidence> = evidence
        .iter()
        .filter(|one| matches!(one.standing, Standing::Counts(_)))
        .filter(|one| one.outcome.is_some())
        .filter(|one| one.details.system == wanted.system)
        .filter(|one| wanted.generation.is_none() || one.details.generation == wanted.generation)
        .filter(|one| one.details.finished.is_some_and(|time| time <= now + AHEAD))
        .filter(|one| wanted.since.is_none_or(|since| one.details.finished >= Some(since)))
        .collect();
    runs.sort_by(|one, other| {
        (other.details.finished, &other.id).cmp(&(one.details.finished, &one.id))
    });
    // A statement can be attached again with another signature of the same key: it stays one run.
    runs.dedup_by(|one, other| one.id == other.id);
    runs
}

/// Adds a run that is older than those before.
fn add(figures: &mut Figures, name: FigureName, run: FigureRun, measured: &Measured) {
    let known = figures.entry(name).or_insert_with(|| FigureRuns {
        runs: Vec::new(),
        unit: measured.unit.clone(),
        direction: direction(measured),
    });
    if known.unit == measured.unit {
        known.runs.push(run);
    }
}

/// A limit on one side says which side is bad.
fn direction(measured: &Measured) -> Option<Direction> {
    match (measured.lower, measured.upper) {
        (Some(_), None) => Some(Direction::More),
        (None, Some(_)) => Some(Direction::Less),
        _ => None,
    }
}

/// Compares the figures of an image with those of the image before it.
#[must_use]
pub fn compare(before: &Figures, now: &Figures) -> Comparison {
    let only = |of: &Figures, other: &Figures| {
        of.keys().filter(|name| !other.contains_key(*name)).cloned().collect()
    };
    let both = before.iter().filter_map(|(name, old)| {
        let new = now.get(name)?;
        one(name, old, new)
    });
    Comparison { figures: both.collect(), missing: only(before, now), added: only(now, before) }
}

fn one(name: &FigureName, old: &FigureRuns, new: &FigureRuns) -> Option<ComparedFigure> {
    // The recipe of the new image can neither turn a direction round nor take it away.
    let direction = old.direction.or(new.direction);
    let (old_runs, new_runs, obstacle) = match together(&old.runs, &new.runs) {
        Ok((old, new)) => (newest(&old), newest(&new), None),
        Err(obstacle) => {
            let all = |of: &FigureRuns| newest(&where_host(&of.runs, |_| true));
            (all(old), all(new), Some(obstacle))
        }
    };
    let (before, now) = (Band::of(&old_runs)?, Band::of(&new_runs)?);
    let too_few = |which: &str, band: &Band| {
        let runs = band.runs;
        (runs < LEAST_RUNS).then(|| format!("{runs} of {LEAST_RUNS} runs {which}"))
    };
    let has_same_unit = old.unit == new.unit;
    let reason = if has_same_unit {
        let too_few = too_few("now", &now).or_else(|| too_few("before", &before));
        too_few.or_else(|| obstacle.map(str::to_owned))
    } else {
        Some("another unit".to_owned())
    };
    let answer =
        if reason.is_none() { answer(&old_runs, &new_runs, direction) } else { Answer::CannotTell };
    let too_noisy = || (answer == Answer::CannotTell).then(|| "the runs vary too much".to_owned());
    let reason = reason.or_else(too_noisy);
    let ratio = Some(now.median / before.median).filter(|ratio| has_same_unit && ratio.is_finite());
    let (name, unit) = (name.clone(), new.unit.clone());
    Some(ComparedFigure { name, unit, before, now, ratio, direction, answer, reason })
}

/// The numbers of the newest runs.
fn newest(runs: &[(Timestamp, f64)]) -> Vec<f64> {
    runs.iter().take(MOST_RUNS).map(|(_, value)| *value).collect()
}

type Runs = Vec<(Timestamp, f64)>;

/// Returns the runs of two images that can be compared: on hosts with the same facts, and at about the same
/// time. If the image ran on several kinds of hosts, the first with enough runs counts, by the newest run.
///
/// # Errors
///
/// Why there are not enough.
fn together(old: &[FigureRun], new: &[FigureRun]) -> Result<(Runs, Runs), &'static str> {
    let has_enough = |old: &Runs, new: &Runs| old.len().min(new.len()) >= LEAST_RUNS;
    let mut hosts: Vec<&Host> = Vec::new();
    for run in new {
        if !hosts.contains(&&run.host) {
            hosts.push(&run.host);
        }
    }
    let mut obstacle = "measured on different hosts";
    for host in hosts {
        let [old, new] = [old, new].map(|runs| where_host(runs, |one| one == host));
        if has_enough(&old, &new) {
            let (old, new) = at_the_same_time(&old, &new);
            if has_enough(&old, &new) {
                return Ok((old, new));
            }
            obstacle = "measured at different times";
        }
    }
    Err(obstacle)
}

/// Returns the times and numbers of the runs on some hosts.
fn where_host(runs: &[FigureRun], is_wanted: impl Fn(&Host) -> bool) -> Runs {
    let wanted = runs.iter().filter(|run| is_wanted(&run.host));
    wanted.map(|run| (run.finished, run.value)).collect()
}

/// Returns the runs of two images that are at about the same time. Images that were measured in turns, or one
/// after the other, keep all runs.
fn at_the_same_time(old: &[(Timestamp, f64)], new: &[(Timestamp, f64)]) -> (Runs, Runs) {
    let old = near(old, new);
    let new = near(new, &old);
    (old, new)
}

/// Returns the runs near others: not farther from the middle half of them than 3.5 times the time that this
/// half took. A single run on another day does not matter then. All are sorted, the newest first.
fn near(runs: &[(Timestamp, f64)], others: &[(Timestamp, f64)]) -> Runs {
    let time_of = |quarters: usize| others.get(others.len() * quarters / 4).map(|(time, _)| *time);
    let (Some(last), Some(first)) = (time_of(1), time_of(3)) else {
        return Runs::new();
    };
    let distance = last.duration_since(first) * 7 / 2;
    let is_near = |time: Timestamp| {
        time.duration_since(last) <= distance && first.duration_since(time) <= distance
    };
    runs.iter().filter(|(time, _)| is_near(*time)).copied().collect()
}

#[cfg(test)]
mod tests {
    use cabane_label::Digest;
    use cabane_registry::SigningKey;

    use super::*;
    use crate::bundle::SignedStatement;
    use crate::statement::{Details, Performance, Statement, TEST_RESULT};

    const NOW: &str = "2026-11-26T12:00:00Z";

    fn measured(value: f64) -> Measured {
        Measured {
            variable: "bw".to_owned(),
            value,
            unit: "MB/s".to_owned(),
            reference: Some(100.0),
            lower: Some(-0.5),
            upper: None,
        }
    }

    /// A run that counts; its number is its day.
    fn run(day: u32, value: f64) -> Evidence {
        let id: Digest = format!("{day:064x}").parse().unwrap();
        let performance = Performance { test: "osu".to_owned(), measured: measured(value) };
        let details = Details {
            outcome: Some(Outcome::Passed),
            system: Some("daint".to_owned()),
            generation: Some("2".to_owned()),
            finished: Some(format!("2026-11-{day:02}T00:00:00Z").parse().unwrap()),
            performance: vec![performance],
            ..Details::default()
        };
        let image = "a".repeat(64).parse().unwrap();
        Evidence {
            id: id.clone(),
            bundle: id,
            statement: Statement::new(("app", &image, None), TEST_RESULT, serde_json::json!({})),
            outcome: details.outcome,
            details,
            standing: Standing::Counts("tests.pub".into()),
        }
    }

    fn runs(value: f64) -> Vec<Evidence> {
        (1..=6).map(|day| run(day, value + f64::from(day) / 10.0)).collect()
    }

    fn wanted() -> Wanted {
        Wanted { system: Some("daint".to_owned()), since: None, generation: Some("2".to_owned()) }
    }

    fn of(evidence: &[Evidence]) -> Figures {
        figures(evidence, &wanted(), NOW.parse().unwrap())
    }

    fn answer_of(before: &[Evidence], now: &[Evidence]) -> Option<Answer> {
        compare(&of(before), &of(now)).figures.first().map(|one| one.answer)
    }

    #[test]
    fn the_limits_say_what_is_worse() {
        assert_eq!(answer_of(&runs(100.0), &runs(50.0)), Some(Answer::Worse));
        assert_eq!(answer_of(&runs(50.0), &runs(100.0)), Some(Answer::Better));
        assert_eq!(answer_of(&runs(100.0), &runs(100.0)), Some(Answer::Same));
        let change = |mut evidence: Vec<Evidence>, lower, upper| {
            for one in &mut evidence {
                (one.details.performance[0].measured.lower) = lower;
                (one.details.performance[0].measured.upper) = upper;
            }
            evidence
        };
        let time = |value| change(runs(value), None, Some(0.5));
        assert_eq!(answer_of(&time(100.0), &time(50.0)), Some(Answer::Better));
        let both = |value| change(runs(value), Some(-0.1), Some(0.1));
        assert_eq!(answer_of(&both(100.0), &both(50.0)), Some(Answer::Lower));
        // A new recipe can neither turn the direction round nor hide it.
        assert_eq!(answer_of(&runs(100.0), &time(50.0)), Some(Answer::Worse));
        assert_eq!(answer_of(&time(50.0), &runs(100.0)), Some(Answer::Worse));
        assert_eq!(answer_of(&runs(100.0), &both(50.0)), Some(Answer::Worse));
        assert_eq!(answer_of(&runs(100.0), &change(runs(50.0), None, None)), Some(Answer::Worse));
    }

    #[test]
    fn what_does_not_count_changes_nothing() {
        let good = runs(100.0);
        let expected = of(&good);
        assert_eq!(expected.values().next().unwrap().runs.len(), 6);
        let changes: [fn(&mut Evidence); 9] = [
            |one| one.standing = Standing::Ignored("signed with another key".to_owned()),
            |one| one.details.system = Some("eiger".to_owned()),
            |one| one.details.system = None,
            |one| one.details.generation = Some("1".to_owned()),
            |one| one.details.finished = Some("2027-01-01T00:00:00Z".parse().unwrap()),
            |one| one.details.finished = None,
            |one| one.outcome = Some(Outcome::Error),
            |one| one.outcome = None,
            |one| one.details.performance[0].measured.value = 1e300,
        ];
        for change in changes {
            let mut evidence = good.clone();
            for day in 10..20 {
                let mut other = run(day, 1.0);
                change(&mut other);
                evidence.push(other);
            }
            assert_eq!(of(&evidence), expected);
        }
        // The same statements again, with other signatures.
        let mut again = good.clone();
        again.extend(good.iter().map(|one| {
            let bundle = "f".repeat(64).parse().unwrap();
            Evidence { bundle, ..one.clone() }
        }));
        assert_eq!(of(&again), expected);
    }

    #[test]
    fn a_statement_is_one_run_of_a_figure() {
        let mut one = run(1, 100.0);
        one.details.performance = vec![one.details.performance[0].clone(); 50];
        let figures = of(&[one]);
        let values: Vec<_> =
            figures.values().next().unwrap().runs.iter().map(|one| one.value).collect();
        assert_eq!(values, [100.0]);
    }

    #[test]
    fn a_signed_run_of_fifty_tests_is_small() {
        let mut one = run(1, 100.0);
        one.details.performance = (0..50)
            .map(|number| Performance {
                test: format!("hpc-tests/OsuBandwidth_{number:02}@daint:normal+default"),
                measured: measured(23_894.25 + f64::from(number)),
            })
            .collect();
        let names: Vec<&str> = one.details.performance.iter().map(|one| &*one.test).collect();
        let image = "a".repeat(64).parse().unwrap();
        let subject = ("prgenv-gnu/25.6:v2@daint%gh200", &image, Some(&image));
        let statement = Statement::of_checks(subject, (&names, &[]), &[], &one.details);
        let directory = tempfile::tempdir().unwrap();
        let (key, _) = SigningKey::generate(&directory.path().join("key")).unwrap();
        let size = SignedStatement::sign(&statement, &key).unwrap().to_bytes().len();
        assert!(size <= 16 * 1024, "{size} of {}", statement.to_bytes().len());
    }

    #[test]
    fn a_number_that_json_cannot_write_takes_its_statement_away() {
        for number in ["1e999", "-1e999", "NaN", "null", "\"3\""] {
            let performance = format!(
                "{{\"test\":\"osu\",\"variable\":\"bw\",\"value\":{number},\"unit\":\"MB/s\"}}"
            );
            let text = format!(
                "{{\"_type\":\"https://in-toto.io/Statement/v1\",\"subject\":[],\"predicateType\":\
                 \"{TEST_RESULT}\",\"predicate\":{{\"result\":\"PASSED\",\
                 \"https://cabane.dev/evidence/v1\":{{\"outcome\":\"PASSED\",\"system\":\"daint\",\
                 \"started\":null,\"finished\":\"2026-11-01T00:00:00Z\",\
                 \"performance\":[{performance}]}}}}}}"
            );
            let details = Statement::from_bytes(text.as_bytes()).map(|one| one.details());
            assert_eq!(details.unwrap_or_default(), Details::default(), "{number}");
        }
    }

    #[test]
    fn the_newest_runs_count() {
        let evidence: Vec<_> = (1..=25).map(|day| run(day, f64::from(day))).collect();
        let figures = of(&evidence);
        let values = newest(&where_host(&figures.values().next().unwrap().runs, |_| true));
        assert_eq!((values.len(), values[0], values[MOST_RUNS - 1]), (MOST_RUNS, 25.0, 6.0));
        assert_eq!(compare(&figures, &figures).figures[0].before.runs, MOST_RUNS);
    }

    /// The answer where the runs of both images are on certain days of the month.
    fn on_days(old: &[u32], new: &[u32]) -> (Answer, Option<String>, usize) {
        let runs = |days: &[u32], value: f64| -> Vec<_> {
            days.iter().map(|day| run(*day, value + f64::from(day % 3))).collect()
        };
        let compared = compare(&of(&runs(old, 100.0)), &of(&runs(new, 50.0))).figures.remove(0);
        (compared.answer, compared.reason, compared.before.runs)
    }

    #[test]
    fn only_runs_at_about_the_same_time_are_compared() {
        let apart = (Answer::CannotTell, Some("measured at different times".to_owned()));
        let said = |old: &[u32], new: &[u32]| {
            let (answer, reason, _) = on_days(old, new);
            (answer, reason)
        };
        // In turns, and one after the other.
        let worse = (Answer::Worse, None);
        assert_eq!(said(&[1, 3, 5, 7, 9], &[2, 4, 6, 8, 10]), worse);
        assert_eq!(said(&[1, 2, 3, 4, 5], &[6, 7, 8, 9, 10]), worse);
        assert_eq!(said(&[1, 2, 3, 4, 5, 6, 7, 8], &[9, 10, 11, 12, 13, 14, 15, 16]), worse);
        // The band of one day says nothing about another day, whichever image has more days.
        assert_eq!(said(&[1, 2, 3, 4, 5], &[16, 17, 18, 19, 20]), apart);
        assert_eq!(said(&[1, 4, 7, 10, 13, 16, 19], &[22, 23, 24, 25, 26]), apart);
        assert_eq!(said(&[1, 2, 3, 4, 5], &[8, 11, 14, 17, 20, 23]), apart);
        // A single run on another day brings no others near.
        assert_eq!(said(&[5, 6, 7, 8, 9], &[1, 22, 23, 24, 25, 26]), apart);
        // Of an image that was measured for long, the runs of those days count.
        let old = [1, 2, 3, 15, 17, 19, 21, 23];
        let (answer, reason, runs) = on_days(&old, &[16, 18, 20, 22, 24]);
        assert_eq!((answer, reason, runs), (Answer::Worse, None, 5));
    }

    #[test]
    fn only_runs_on_hosts_with_the_same_facts_are_compared() {
        let on = |mut evidence: Vec<Evidence>, kernels: &[&str]| {
            for (one, kernel) in evidence.iter_mut().zip(kernels.iter().cycle()) {
                one.details.host.kernel = Some((*kernel).to_owned());
            }
            evidence
        };
        let said = |before: &[Evidence], now: &[Evidence]| {
            let compared = compare(&of(before), &of(now)).figures.remove(0);
            (compared.answer, compared.reason, compared.now.runs)
        };
        let many = |value: f64| -> Vec<_> {
            (1..=12).map(|day| run(day, value + f64::from(day) / 10.0)).collect()
        };
        let [old, new] = [many(100.0), many(50.0)];
        let apart = Some("measured on different hosts".to_owned());
        let one = on(old.clone(), &["6.4"]);
        assert_eq!(said(&one, &on(new.clone(), &["6.4"])), (Answer::Worse, None, 12));
        assert_eq!(said(&one, &on(new.clone(), &["6.12"])).1, apart);
        assert_eq!(said(&one, &new).1, apart);
        assert_eq!(said(&one, &on(new.clone(), &["6.12", "6.12", "6.4"])).1, apart);
        // Of an image that ran on two kinds of hosts, the runs on the common one count.
        let mixed = on(new, &["6.4", "6.12"]);
        assert_eq!(said(&one, &mixed), (Answer::Worse, None, 6));
        assert_eq!(said(&mixed, &mixed).0, Answer::Same);
    }

    #[test]
    fn what_cannot_be_told_has_a_reason() {
        let said = |before: &[Evidence], now: &[Evidence]| {
            let compared = compare(&of(before), &of(now));
            compared.figures[0].reason.clone().unwrap_or_default()
        };
        assert_eq!(said(&runs(100.0), &runs(100.0)[..3]), "3 of 5 runs now");
        assert_eq!(said(&runs(100.0)[..4], &runs(100.0)), "4 of 5 runs before");
        let noisy: Vec<_> = (1..=6).map(|day| run(day, f64::from(day * day))).collect();
        assert_eq!(said(&noisy, &noisy), "the runs vary too much");
        let mut other = runs(100.0);
        for one in &mut other {
            one.details.performance[0].measured.unit = "GB/s".to_owned();
        }
        assert_eq!(said(&runs(100.0), &other), "another unit");
        let gone = compare(&of(&runs(1.0)), &Figures::new());
        assert_eq!((gone.figures.len(), gone.missing.len(), gone.added.len()), (0, 1, 0));
    }
}
