// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From the report of `ReFrame`, and what was seen beside it, to the outcomes of its tests. Pure.
//!
//! `ReFrame` reports a test that never ran as failed, in the phase `sanity`: the expected output is
//! missing. What the nodes did wrong is an ERROR here.

use std::collections::BTreeMap;

use cabane_evidence::{Outcome, ReframeReport, Testcase};
use cabane_mpi_audit::run::Ended;

use super::seen::{Seen, Witness};
use crate::judge::{error_of, short};
use crate::outcome::{CheckResult, Source};

/// How lines of Slurm begin.
const SPEAKERS: [&str; 2] = ["srun: error: ", "slurmstepd"];

/// Judges all tests of a report. A test that was run again has the outcome of its last run; if the runs
/// only repeat each other (`is_repeated`), it has passed if it passed each time.
pub(super) fn results(
    suite: &str,
    report: &ReframeReport,
    is_repeated: bool,
    witness: &dyn Witness,
) -> Vec<CheckResult> {
    let mut order: Vec<String> = Vec::new();
    let mut by_name: BTreeMap<String, CheckResult> = BTreeMap::new();
    for (index, run) in report.runs.iter().enumerate() {
        for case in &run.testcases {
            let name = short(&format!("{suite}/{}", case.name()));
            let seen = witness.seen(case);
            let (outcome, reason) = judge(case, &seen);
            let again = (index > 0 && !is_repeated && outcome == Outcome::Passed)
                .then(|| format!("passed in run {}", index + 1));
            let result = CheckResult {
                name: name.clone(),
                source: Source::Suite,
                outcome,
                reason: reason.or(again).map(|reason| short(&reason)),
                seconds: case.time_total.filter(|time| time.is_finite()).unwrap_or_default(),
                figures: case.figures(),
                unmeasured: seen.left_out,
            };
            let before = by_name.get(&name);
            if before.is_none() {
                order.push(name.clone());
            }
            let stays = before.is_some_and(|before| {
                is_repeated && Outcome::of_all([before.outcome, outcome]) == before.outcome
            });
            if !stays {
                by_name.insert(name, result);
            }
        }
    }
    order.iter().filter_map(|name| by_name.remove(name)).collect()
}

fn judge(case: &Testcase, seen: &Seen) -> (Outcome, Option<String>) {
    let reason = || reason_of(case);
    let or = |text: &str| Some(reason().unwrap_or_else(|| text.to_owned()));
    match case.result.as_str() {
        "pass" if seen.has_built || seen.has_run => (Outcome::Passed, None),
        "pass" => (Outcome::Error, Some("nothing of the test ran in the image".to_owned())),
        "fail" | "xpass" => failed(case, seen),
        // It says nothing new, and must count neither as a success nor as a failure.
        "xfail" => (Outcome::NotTested, Some("it fails, as the suite expects".to_owned())),
        "fail_deps" => {
            let reason = "a test on which it depends did not pass".to_owned();
            (Outcome::NotTested, Some(reason))
        }
        "skip" => (Outcome::NotTested, or("the test was skipped")),
        "abort" => (Outcome::Error, or("the test was aborted")),
        other => (Outcome::Error, Some(format!("ReFrame says `{other}`"))),
    }
}

/// The reason that `ReFrame` gives; lines of the source of the test follow the first line.
fn reason_of(case: &Testcase) -> Option<String> {
    let reason = case.fail_reason.as_deref()?.lines().next()?.trim_end_matches(':');
    (!reason.is_empty()).then(|| reason.to_owned())
}

/// Whether a test failed, or the machine.
fn failed(case: &Testcase, seen: &Seen) -> (Outcome, Option<String>) {
    let reason = reason_of(case).unwrap_or_else(|| "it failed".to_owned());
    let error = |reason: String| (Outcome::Error, Some(reason));
    let phase = case.fail_phase.as_deref().unwrap_or_default();
    match phase {
        // The test could not be prepared, or its files could not be removed.
        "startup" | "setup" | "cleanup" => return error(format!("{phase}: {reason}")),
        _ if phase.starts_with("compile") => {
            let ended = ended(&seen.of_build);
            if let Some(said) = error_of(&ended, seen.has_built) {
                return error(if ended.messages.is_empty() { reason } else { said });
            }
        }
        _ => {
            let ended = ended(&seen.of_job);
            if let Some(said) = error_of(&ended, seen.has_run) {
                return error(if ended.messages.is_empty() { reason } else { said });
            }
            if let Some(said) = refused(&seen.of_job, &seen.ranks) {
                return error(said);
            }
        }
    }
    (Outcome::Failed, Some(reason))
}

fn ended(messages: &str) -> Ended {
    Ended {
        code: None,
        is_late: false,
        output: String::new(),
        messages: messages.trim().to_owned(),
    }
}

/// What Slurm or its plugin said where not all ranks of a step began.
fn refused(messages: &str, ranks: &[u32]) -> Option<String> {
    // Ranks are numbered from zero: without one of them, the highest number is too large.
    let count = u32::try_from(ranks.len()).unwrap_or(u32::MAX);
    let is_gap = ranks.iter().any(|rank| *rank >= count);
    let of_slurm = |line: &&str| SPEAKERS.iter().any(|speaker| line.starts_with(speaker));
    let of_plugin = messages.lines().filter(of_slurm).find(|line| line.contains("error: cabane:"));
    if let Some(line) = of_plugin {
        return Some(short(line));
    }
    // A program that ends with an exit code has begun.
    let of_task = |line: &&str| line.contains(": task") || line.contains("Exited with exit code");
    let other = messages.lines().filter(of_slurm).find(|line| !of_task(line));
    other.filter(|_| ranks.is_empty() || is_gap).map(short)
}

#[cfg(test)]
mod tests {
    use cabane_evidence::ReframeRun;

    use super::*;

    struct Fixed(Seen);

    impl Witness for Fixed {
        fn seen(&self, _: &Testcase) -> Seen {
            self.0.clone()
        }
    }

    fn case(result: &str, phase: &str) -> Testcase {
        Testcase {
            unique_name: "Hello".to_owned(),
            system: Some("here".to_owned()),
            partition: Some("p".to_owned()),
            environ: Some("default".to_owned()),
            result: result.to_owned(),
            fail_phase: Some(phase.to_owned()),
            fail_reason: Some("sanity error: pattern not found".to_owned()),
            ..Testcase::default()
        }
    }

    fn begun() -> Seen {
        Seen { has_run: true, has_built: true, ..Seen::default() }
    }

    fn said(case: &Testcase, seen: &Seen) -> (Outcome, String) {
        let (outcome, reason) = judge(case, seen);
        (outcome, reason.unwrap_or_default())
    }

    #[test]
    fn what_ran_in_the_image_passes_or_fails() {
        assert_eq!(judge(&case("pass", ""), &begun()), (Outcome::Passed, None));
        for phase in ["compile", "compile_wait", "run", "run_wait", "sanity", "performance"] {
            let (outcome, reason) = said(&case("fail", phase), &begun());
            assert_eq!(
                (outcome, reason.as_str()),
                (Outcome::Failed, "sanity error: pattern not found")
            );
        }
        assert_eq!(said(&case("xpass", "sanity"), &begun()).0, Outcome::Failed);
    }

    #[test]
    fn what_did_not_run_in_the_image_is_an_error() {
        assert_eq!(said(&case("pass", ""), &Seen::default()).0, Outcome::Error);
        let of_job = "error: no image matches `app`\n".to_owned();
        let seen = Seen { of_job, ..Seen::default() };
        let expected = (Outcome::Error, "no image matches `app`".to_owned());
        assert_eq!(said(&case("fail", "sanity"), &seen), expected);
        // The build ran, the job did not.
        let seen = Seen { has_built: true, ..Seen::default() };
        assert_eq!(said(&case("fail", "run"), &seen).0, Outcome::Error);
        assert_eq!(said(&case("fail", "compile"), &seen).0, Outcome::Failed);
        for phase in ["startup", "setup", "cleanup"] {
            assert_eq!(said(&case("fail", phase), &begun()).0, Outcome::Error);
        }
        assert_eq!(said(&case("abort", "run"), &begun()).0, Outcome::Error);
        assert_eq!(said(&case("new", ""), &begun()).0, Outcome::Error);
    }

    #[test]
    fn a_step_that_was_refused_is_an_error() {
        let seen = |text: &str, ranks: &[u32]| Seen {
            of_job: text.to_owned(),
            ranks: ranks.to_vec(),
            ..begun()
        };
        let failed = case("fail", "sanity");
        let refusals = [
            ("slurmstepd: error: cabane: n2 cannot see the image", &[0][..]),
            ("slurmstepd-n2: error: cabane: n2 cannot see the image", &[]),
            ("srun: error: Unable to create step for job 7: Requested nodes are busy", &[]),
            ("slurmstepd: error: *** JOB 5 ON n1 CANCELLED AT noon DUE TO TIME LIMIT ***", &[0, 1]),
            ("srun: error: Task launch for StepId=7.0 failed on node n2", &[0, 2]),
        ];
        for (text, ranks) in refusals {
            assert_eq!(said(&failed, &seen(text, ranks)).0, Outcome::Error, "{text}");
        }
        let failures = [
            ("srun: error: n1: task 0: Exited with exit code 1", &[0, 1][..]),
            ("srun: error: n1: tasks 0-1: Exited with exit code 1", &[]),
            ("srun: error: n1: task 1: Segmentation fault", &[1, 0]),
            // The program cannot talk like Slurm.
            ("hello: srun: error: Unable to create step", &[0]),
            ("", &[]),
        ];
        for (text, ranks) in failures {
            assert_eq!(said(&failed, &seen(text, ranks)).0, Outcome::Failed, "{text}");
        }
    }

    #[test]
    fn what_was_not_tried_is_not_tested() {
        for result in ["fail_deps", "skip", "xfail"] {
            assert_eq!(said(&case(result, "setup"), &Seen::default()).0, Outcome::NotTested);
        }
    }

    #[test]
    fn the_last_run_decides_unless_runs_only_repeat_each_other() {
        let run = |result: &str| ReframeRun { testcases: vec![case(result, "sanity")] };
        let report = |results: &[&str]| ReframeReport {
            runs: results.iter().map(|result| run(result)).collect(),
            ..ReframeReport::default()
        };
        let outcome = |results: &[&str], is_repeated| {
            let results = super::results("tests", &report(results), is_repeated, &Fixed(begun()));
            assert_eq!(results.len(), 1);
            assert_eq!(results[0].name, "tests/Hello@here:p+default");
            (results[0].outcome, results[0].reason.clone().unwrap_or_default())
        };
        let retried = (Outcome::Passed, "passed in run 2".to_owned());
        assert_eq!(outcome(&["fail", "pass"], false), retried);
        assert_eq!(outcome(&["fail", "fail"], false).0, Outcome::Failed);
        for results in [["fail", "pass"], ["pass", "fail"]] {
            assert_eq!(outcome(&results, true).0, Outcome::Failed);
        }
        assert_eq!(outcome(&["pass", "pass"], true).0, Outcome::Passed);
    }
}
