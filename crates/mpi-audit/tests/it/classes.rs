// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Real installations on one machine, with what was measured there: the class of each
//! was known beforehand.

use cabane_mpi_audit::benchmark::BenchmarkOutput;
use cabane_mpi_audit::judge::Class::{
    Inconclusive, Misplaced, NonPerformant, Nonfunctional, Suboptimal, Working,
};
use cabane_mpi_audit::judge::{Against, Class, Outcome, Reason, Reference, change};

use crate::made::{classes, ran, ran_at, verdicts};

type Row = (&'static str, [f64; 4], Class);

const HEALTHY: [Row; 14] = [
    ("distribution, mpich 4.0.2", [0.34, 1.08, 2.56, 33.0], Working),
    ("mpich 3.4.3", [0.34, 1.37, 6.17, 58.0], Suboptimal),
    ("mpich 4.0.3", [0.49, 1.24, 4.59, 77.0], Suboptimal),
    ("mpich 4.3.2", [0.48, 1.18, 5.60, 69.0], Suboptimal),
    ("mpich 5.0.2", [0.69, 1.43, 2.89, 37.0], Suboptimal),
    ("impi-rt 2021.13", [0.23, 0.82, 3.89, 59.0], Working),
    ("distribution, openmpi 4.1.4", [0.23, 1.48, 2.24, 37.0], Working),
    ("openmpi 4.1.8", [0.22, 1.51, 2.44, 38.0], Working),
    ("openmpi 5.0.11", [0.21, 1.40, 2.37, 37.0], Working),
    ("newer mpich 4.2.1", [0.36, 1.17, 2.86, 39.0], Working),
    ("newest mpich 5.0.2", [0.72, 1.53, 3.13, 39.0], Suboptimal),
    ("newer openmpi 5.0.7", [0.22, 1.35, 2.46, 37.0], Working),
    ("newest openmpi 6.0.0", [0.21, 1.37, 2.35, 37.0], Working),
    ("impi-rt without its root", [0.28, 0.96, 4.2, 60.0], Working),
];

const SLOW: [Row; 6] = [
    ("openmpi, tcp forced", [3.93, 5.44, 11.8, 114.0], NonPerformant),
    ("mpich, tcp of ucx", [3.58, 4.78, 32.3, 130.0], NonPerformant),
    ("mpich, tcp of ofi", [4.04, 6.76, 12.1, 171.0], NonPerformant),
    ("impi-rt, tcp of ofi", [3.54, 4.44, 9.0, 103.0], NonPerformant),
    ("a namespace of processes per rank", [0.60, 1.5, 22.8, 123.0], NonPerformant),
    ("openmpi, single copy off", [0.21, 1.77, 7.0, 88.0], Suboptimal),
];

fn rows() -> Vec<Row> {
    HEALTHY.into_iter().chain(SLOW).collect()
}

fn outcomes(rows: &[Row]) -> Vec<Outcome> {
    rows.iter().map(|(_, latencies, _)| ran(*latencies)).collect()
}

fn failed(reason: Reason, output: &str) -> Outcome {
    Outcome::Failed { reason, output: Box::new(BenchmarkOutput::from_output(output)) }
}

#[test]
fn installations_are_sorted_as_they_are_known_to_be() {
    let rows = rows();
    let found = classes(&outcomes(&rows));
    let found: Vec<_> = rows.iter().zip(found).map(|(row, class)| (row.0, class)).collect();
    let known: Vec<_> = rows.iter().map(|row| (row.0, row.2)).collect();
    assert_eq!(found, known);
}

#[test]
fn the_reason_for_being_slow_is_the_worst_latency() {
    let rows = rows();
    let all = verdicts(&outcomes(&rows), None);
    let Reason::Slow(worst) = all[rows.len() - 1].reason else {
        panic!("{all:?}");
    };
    assert_eq!((worst.bytes, worst.measured, worst.peers), (32768, 7.0, Some(15)));
}

/// What three libraries reached on a virtual machine whose processors shared a core, and
/// when they did not.
const NEAR: [[f64; 4]; 3] =
    [[0.19, 0.67, 5.0, 91.0], [0.26, 0.75, 1.97, 40.5], [0.19, 0.78, 5.4, 89.3]];
const FAR: [[f64; 4]; 3] =
    [[0.31, 2.99, 4.96, 90.3], [0.51, 2.12, 7.17, 182.5], [0.64, 2.28, 6.63, 92.4]];

#[test]
fn ranks_farther_apart_are_not_slower_than_they_should_be() {
    let near = NEAR.map(|row| ran_at(0.065, row));
    let far = FAR.map(|row| ran_at(0.235, row));
    let found = classes(&[near, far].concat());
    assert!(!found.contains(&NonPerformant), "{found:?}");
}

#[test]
fn who_was_measured_at_another_distance_than_all_others_is_compared_with_the_node() {
    let mut all = NEAR.map(|row| ran_at(0.065, row)).to_vec();
    all.push(ran_at(0.235, FAR[0]));
    let last = verdicts(&all, None).pop().unwrap();
    let against = match last.reason {
        Reason::Compared(comparison) => comparison.against,
        reason => panic!("{reason}"),
    };
    assert_eq!((last.class, against, last.is_incomplete), (Working, Against::Floor, true));
}

#[test]
fn what_was_measured_while_the_ranks_took_turns_on_one_processor_does_not_count() {
    let mut all = NEAR.map(|row| ran_at(0.065, row)).to_vec();
    let turns = [194.0, 193.0, 892.0, 23991.0];
    all.push(ran_at(13.0, turns));
    all.push(ran_at(13.0, turns));
    all.push(ran_at(13.0, turns));
    let last = verdicts(&all, None).pop().unwrap();
    let busy = Reason::Load { waited: None };
    assert_eq!((last.class, last.reason, last.is_incomplete), (Inconclusive, busy, true));
}

#[test]
fn one_size_that_goes_another_way_than_elsewhere_is_no_sign_of_an_illness() {
    let mut all = outcomes(&HEALTHY);
    all.push(ran([0.22, 4.5, 3.0, 38.0]));
    all.push(ran([1.9, 1.5, 3.0, 38.0]));
    assert_eq!(classes(&all)[HEALTHY.len()..], [Suboptimal; 2]);
}

#[test]
fn where_most_are_slow_nothing_is_certain_without_the_node() {
    let rows: Vec<_> = HEALTHY.into_iter().take(2).chain(SLOW.into_iter().take(4)).collect();
    let found = classes(&outcomes(&rows));
    assert_eq!(found, [Inconclusive; 6]);
}

#[test]
fn where_most_are_slow_a_reference_shows_who() {
    let healthy = outcomes(&HEALTHY);
    let latencies: Vec<_> = healthy.iter().filter_map(Outcome::latencies).collect();
    let kept = Reference::new("here", 1, &latencies).unwrap();
    let kept = Reference::from_json(&kept.to_json()).unwrap();
    let slow = outcomes(&SLOW[..4]);
    let found = verdicts(&slow, Some(&kept));
    let is_slow = |class| class == NonPerformant;
    assert!(found.iter().all(|verdict| is_slow(verdict.class)), "{found:?}");
}

#[test]
fn a_reference_shows_who_is_slow_also_at_another_distance() {
    let healthy = NEAR.map(|row| ran_at(0.065, row));
    let latencies = healthy.iter().filter_map(Outcome::latencies);
    let latencies: Vec<_> = latencies.collect();
    let kept = Reference::new("here", 1, &latencies).unwrap();
    let slow = ran_at(0.235, [7.31, 9.93, 18.4, 177.0]);
    let far = FAR.map(|row| ran_at(0.235, row));
    let all: Vec<_> = far.into_iter().chain([slow]).collect();
    let found = verdicts(&all, Some(&kept));
    let are_slow: Vec<_> = found.iter().map(|one| one.class == NonPerformant).collect();
    assert_eq!(are_slow, [false, false, false, true]);
}

#[test]
fn ranks_on_one_processor_are_a_class_of_their_own_even_when_they_took_too_long() {
    let reason = Reason::TooLate { seconds: 30, stage: "measure".to_owned() };
    let output = "size 2\nrank 0 vm 0 0-0\nrank 1 vm 0 0-0\nsum ok\n";
    let mut all = outcomes(&HEALTHY);
    all.push(failed(reason, output));
    assert_eq!(classes(&all).last(), Some(&Misplaced));
}

#[test]
fn what_did_not_start_is_nonfunctional_with_its_message() {
    let reason =
        Reason::NotStarted { code: 127, message: "version `FABRIC_1.9' not found".to_owned() };
    let mut all = outcomes(&HEALTHY);
    all.push(failed(reason.clone(), ""));
    let last = verdicts(&all, None).pop().unwrap();
    assert_eq!((last.class, last.reason), (Nonfunctional, reason));
}

#[test]
fn latencies_of_nothing_are_no_references() {
    let text = r#"{"version":1,"system":"x","nodes":1,"latency":{"8":{"microseconds":0.0}}}"#;
    let error = Reference::from_json(text).unwrap_err();
    assert_eq!(error.to_string(), "it has a latency of 0 microseconds for 8 bytes");
}

/// An installation with what was counted for its messages, on two processors of one core.
fn counted(latencies: [f64; 4], ways: &str) -> Outcome {
    let Outcome::Ran(mut output) = ran_at(0.065, latencies) else {
        panic!("it ran");
    };
    output.add(&BenchmarkOutput::from_output(ways));
    Outcome::Ran(output)
}

/// What three libraries reached that poll and copy by themselves.
fn polling() -> Vec<Outcome> {
    let rows = [[0.15, 0.35, 1.21, 26.6], [0.15, 0.35, 1.25, 26.1], [0.2, 0.4, 0.86, 22.3]];
    rows.map(|row| ran_at(0.065, row)).to_vec()
}

fn last_verdict(one: Outcome) -> (Class, String) {
    let all = [polling(), vec![one]].concat();
    let last = verdicts(&all, None).pop().unwrap();
    (last.class, last.reason.to_string())
}

/// What MPICH 5.0.2 took and did: it yields in each turn of its loop.
const YIELDING: [f64; 4] = [0.82, 0.91, 4.95, 75.2];
const YIELDS: &str = "way 8 20000 62692 0 0\nway 4096 17120 61859 0 0\n\
    way 32768 4000 46574 4000 0\nway 1048576 270 44459 270 0\n";

#[test]
fn who_yields_while_it_waits_is_slower_by_choice_and_the_reason_says_so() {
    let expected = "8 B take 0.82 µs, 4.7 times the median of 4: a rank that waits gives its \
                    processor back";
    assert_eq!(last_verdict(counted(YIELDING, YIELDS)), (Suboptimal, expected.to_owned()));
}

#[test]
fn the_same_figures_of_who_is_not_known_to_have_chosen_are_an_illness() {
    assert_eq!(last_verdict(counted(YIELDING, "")).0, NonPerformant);
}

#[test]
fn who_has_the_kernel_copy_is_slower_by_choice() {
    let copies = "way 4096 9050 0 9050 0\nway 32768 4460 0 4460 0\n";
    let (class, why) = last_verdict(counted([0.1, 2.17, 4.04, 75.0], copies));
    let says = why.ends_with("the kernel copies them from process to process");
    assert!(class == Suboptimal && says, "{class}: {why}");
}

#[test]
fn who_sends_over_tcp_is_ill_however_it_waits() {
    let ways = "way 8 3460 24583 0 72660\nway 4096 3230 24557 0 13272070\n";
    let (class, why) = last_verdict(counted([0.9, 2.0, 24.3, 684.0], ways));
    assert_eq!(class, NonPerformant, "{why}");
}

/// Where the kernel may not copy, a library that yields does so for each piece of a message.
const PIECES: &str = "way 8 20000 62692 0 0\nway 4096 17120 61859 0 0\n\
    way 32768 4000 46574 0 0\nway 1048576 270 44459 0 0\n";

#[test]
fn who_yields_for_each_piece_of_a_message_does_it_by_choice() {
    let (class, why) = last_verdict(counted([0.92, 0.99, 4.57, 105.0], PIECES));
    assert_eq!(class, Suboptimal, "{why}");
}

#[test]
fn yielding_explains_no_more_than_a_wait_for_each_piece() {
    let (class, why) = last_verdict(counted([0.92, 0.99, 22.8, 300.0], PIECES));
    assert_eq!(class, NonPerformant, "{why}");
}

#[test]
fn who_is_fast_for_small_messages_is_not_slow_for_large_ones_because_of_yielding() {
    let (class, why) = last_verdict(counted([0.15, 0.35, 9.0, 150.0], PIECES));
    assert_eq!(class, NonPerformant, "{why}");
}

#[test]
fn settings_are_worth_telling_if_they_help_and_nothing_else_suffers() {
    let output = |latencies| match ran_at(0.065, latencies) {
        Outcome::Ran(output) => output,
        failed @ Outcome::Failed { .. } => panic!("{failed:?}"),
    };
    let before = output([0.1, 2.17, 4.04, 75.0]);
    let helps = |after| change(4096, &before, &output(after)).is_some();
    let all = [[0.1, 0.29, 0.98, 75.0], [0.1, 1.9, 4.0, 75.0], [0.1, 0.29, 0.98, 160.0]];
    assert_eq!(all.map(helps), [true, false, false]);
}

#[test]
fn settings_are_not_judged_at_another_distance() {
    let Outcome::Ran(near) = ran_at(0.065, [0.3, 1.0, 3.0, 50.0]) else {
        panic!("it ran");
    };
    let Outcome::Ran(far) = ran_at(0.25, [0.1, 0.2, 0.5, 9.0]) else {
        panic!("it ran");
    };
    assert_eq!(change(8, &near, &far), None);
}
