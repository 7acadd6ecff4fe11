// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Recorded figures of a node that was busy, and of one on which all installations are slow: no
//! installation is called working because the others are as slow, and none is called slow because
//! others had the processors.

use cabane_mpi_audit::benchmark::{BenchmarkOutput, Figure};
use cabane_mpi_audit::judge::{Class, Floor, LATENCIES, Outcome, Reason, Verdict};
use proptest::prelude::*;

use crate::made::{ran, ran_at, verdicts, verdicts_with};

/// What two threads took for each size on a virtual machine with two processors.
const SHARED: [f64; 4] = [0.065, 0.37, 3.29, 63.5];
const TCP: [f64; 4] = [3.78, 4.41, 6.53, 96.4];
const OVER_TCP: &str = "way 8 3460 24583 0 72660\n";

fn figures(distance: f64, values: [f64; 4]) -> Vec<Figure> {
    match ran_at(distance, values) {
        Outcome::Ran(output) => output.figures,
        failed @ Outcome::Failed { .. } => panic!("{failed:?}"),
    }
}

fn floor() -> Floor {
    Floor { shared: figures(0.065, SHARED), tcp: figures(0.0, TCP) }
}

/// A run during which a rank waited for its processor in this part of the time.
fn waiting(waited: f64, distance: f64, latencies: [f64; 4], ways: &str) -> Outcome {
    let Outcome::Ran(mut output) = ran_at(distance, latencies) else {
        panic!("it ran");
    };
    for figure in &mut output.figures {
        figure.waited = Some(waited);
    }
    output.add(&BenchmarkOutput::from_output(ways));
    Outcome::Ran(output)
}

fn one(outcome: Outcome) -> Verdict {
    verdicts_with(&[outcome], &floor()).pop().unwrap()
}

const GOOD: [f64; 4] = [0.18, 0.57, 3.0, 38.9];
const TURNS: [f64; 4] = [3869.0, 3911.0, 4120.0, 9005.0];

#[test]
fn an_installation_without_peers_is_compared_with_the_node() {
    let fast = one(ran_at(0.065, GOOD));
    let slow = one(ran_at(0.065, [3.93, 5.44, 11.8, 214.0]));
    assert_eq!((fast.class, slow.class), (Class::Working, Class::NonPerformant));
    let expected = "8 B take 3.93 µs, 60.5 times what shared memory takes without MPI";
    assert_eq!(slow.reason.to_string(), expected);
}

#[test]
fn slow_peers_make_no_installation_working() {
    let all: Vec<_> = (0..5).map(|_| ran_at(0.065, [3.93, 5.44, 21.8, 214.0])).collect();
    let found = verdicts_with(&all, &floor());
    assert!(found.iter().all(|one| one.class == Class::NonPerformant), "{found:?}");
}

#[test]
fn what_took_turns_is_inconclusive_however_slow_the_others_are() {
    let all: Vec<_> = (0..4).map(|_| waiting(0.48, 9.0, TURNS, "")).collect();
    for verdict in verdicts_with(&all, &floor()) {
        assert_eq!(verdict.class, Class::Inconclusive);
        let expected = "the processors were busy: a rank waited 48 % of the time for one";
        assert_eq!(verdict.reason.to_string(), expected);
    }
}

#[test]
fn what_was_slow_only_while_others_had_the_processors_is_inconclusive() {
    let busy = one(waiting(0.31, 0.065, [3.93, 5.44, 11.8, 214.0], ""));
    assert_eq!(busy.reason, Reason::Load { waited: Some(0.31) });
    let quiet = one(waiting(0.01, 0.065, [3.93, 5.44, 11.8, 214.0], ""));
    assert_eq!((busy.class, quiet.class), (Class::Inconclusive, Class::NonPerformant));
}

#[test]
fn one_quiet_run_is_enough_to_know_that_it_is_slow() {
    let slow = [3.93, 5.44, 11.8, 214.0];
    let Outcome::Ran(mut all) = waiting(0.31, 0.065, slow, "") else { panic!("it ran") };
    all.add(waiting(0.0, 0.065, slow, "").output());
    assert_eq!(one(Outcome::Ran(all)).class, Class::NonPerformant);
}

#[test]
fn what_was_fast_beside_others_is_working() {
    assert_eq!(one(waiting(0.5, 0.065, GOOD, "")).class, Class::Working);
}

#[test]
fn messages_through_the_network_of_the_node_are_a_fault_on_a_busy_node_as_well() {
    let slow = one(waiting(0.5, 0.065, [5.93, 9.44, 18.8, 214.0], OVER_TCP));
    let turns = one(waiting(0.5, 9.0, TURNS, OVER_TCP));
    assert_eq!((slow.class, turns.class), (Class::NonPerformant, Class::NonPerformant));
    let expected = "8 B take 3869 µs: they go through TCP sockets";
    assert_eq!(turns.reason.to_string(), expected);
}

#[test]
fn a_limit_of_processor_time_is_named() {
    let Outcome::Ran(mut output) = waiting(0.6, 9.0, TURNS, "") else { panic!("it ran") };
    output.throttled = 812;
    let expected = "the processor limit of the control group stopped the ranks for 812 ms";
    let verdict = one(Outcome::Ran(output));
    assert_eq!((verdict.class, verdict.reason.to_string()), (Class::Inconclusive, expected.into()));
}

#[test]
fn one_processor_says_nothing_about_a_library() {
    let text = "size 2\nrank 0 vm 0 0-0\nrank 1 vm 0 0-0\nsum ok\ndone\n";
    let outcome = Outcome::Ran(Box::new(BenchmarkOutput::from_output(text)));
    let node = Floor::default();
    let yardsticks = cabane_mpi_audit::judge::Yardsticks {
        reference: None,
        kept: None,
        floor: &node,
        processors: 1,
    };
    let found = cabane_mpi_audit::judge::judge(std::slice::from_ref(&outcome), &yardsticks);
    assert_eq!(found[0].class, Class::Inconclusive);
    assert_eq!(found[0].reason.to_string(), "the ranks have only one processor: 0 of vm");
    // Where there are two, the launcher has put them together.
    assert_eq!(one(outcome).class, Class::Misplaced);
}

#[test]
fn a_run_that_was_too_late_on_a_busy_node_is_no_fault() {
    let reason = Reason::TooLate { seconds: 60, stage: "while starting".to_owned() };
    let late = || Outcome::Failed { reason: reason.clone(), output: Box::default() };
    let mut busy = floor();
    for figure in &mut busy.shared {
        figure.waited = Some(0.4);
    }
    let class = |floor: &Floor| verdicts_with(&[late()], floor)[0].class;
    assert_eq!([class(&floor()), class(&busy)], [Class::Nonfunctional, Class::Inconclusive]);
}

#[test]
fn nothing_to_compare_with_is_no_success() {
    let found = verdicts(&[ran(GOOD)], None);
    let is_so = found[0].class == Class::Inconclusive
        && found[0].reason == Reason::NothingToCompare { peers: 1 };
    assert!(is_so, "{found:?}");
}

#[test]
fn the_best_of_all_measurements_of_the_node_counts() {
    let mut busy = Floor { shared: figures(0.065, [0.07, 9.0, 90.0, 900.0]), tcp: Vec::new() };
    let slow = || [ran_at(0.065, [0.2, 6.0, 40.0, 60.0])];
    let before = verdicts_with(&slow(), &busy)[0].class;
    busy.add(floor());
    let after = verdicts_with(&slow(), &busy)[0].class;
    assert_eq!((before, after), (Class::Working, Class::NonPerformant));
}

proptest! {
    #[test]
    fn load_never_makes_an_installation_slow_and_never_makes_a_slow_one_working(
        waited in 0.06..1.0_f64, times in prop::array::uniform4(1.0..5000.0_f64),
        distance in 0.065..30.0_f64, count in 1_usize..6,
    ) {
        let slower = |row: [f64; 4]| [0, 1, 2, 3].map(|size| row[size] * times[size]);
        let all: Vec<_> = (0..count)
            .map(|_| waiting(waited, distance, slower(GOOD), ""))
            .collect();
        for verdict in verdicts_with(&all, &floor()) {
            let is_honest = matches!(verdict.class, Class::Working | Class::Inconclusive);
            prop_assert!(is_honest, "{verdict:?}");
        }
        let slow = [3.93, 5.44, 33.0, 640.0];
        let all: Vec<_> = (0..count).map(|_| waiting(waited, 0.065, slower(slow), "")).collect();
        for verdict in verdicts_with(&all, &floor()) {
            prop_assert_eq!(verdict.class, Class::Inconclusive);
        }
    }

    #[test]
    fn a_node_that_was_measured_calls_no_installation_working_that_is_far_from_it(
        times in 10.1..1000.0_f64, count in 1_usize..8,
    ) {
        let slow = [0, 1, 2, 3].map(|size| SHARED[size] * times);
        let all: Vec<_> = (0..count).map(|_| ran_at(0.065, slow)).collect();
        for verdict in verdicts_with(&all, &floor()) {
            prop_assert_eq!(verdict.class, Class::NonPerformant);
        }
    }

    #[test]
    fn a_word_is_compared_with_that_of_the_ranks(distance in 0.03..1.9_f64) {
        let latencies = LATENCIES.map(|_| distance * 2.0);
        let found = one(ran_at(distance, latencies));
        prop_assert_eq!(found.class, Class::Working);
    }
}
