// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From the end of a command to the outcome of its check. Pure.

use cabane_evidence::{Measured, Outcome};
use cabane_label::escape;
use cabane_mpi_audit::run::{Ended, first_meaningful};
use cabane_view::{Check, Figure};
use regex_lite::RegexBuilder;

use crate::bench::Run;

/// What Slurm says where a node, the controller, or a limit of the job ended a step.
const OF_SLURM: [&str; 9] = [
    "DUE TO TIME LIMIT",
    "DUE TO PREEMPTION",
    "DUE TO NODE FAILURE",
    "DUE TO JOB REQUEUE",
    "Node failure on",
    "Unable to allocate resources",
    "Unable to create step",
    "Job has been cancelled",
    "Slurmd could not",
];
/// How its lines begin. A command in the image could print the same words.
const SPEAKERS: [&str; 2] = ["srun: ", "slurmstepd: "];
/// The most of a message that is shown.
const LONGEST: usize = 300;
/// The largest compiled pattern, in bytes: it comes from the image, and a large one is slow.
const MOST_OF_PATTERN: usize = 64 * 1024;

/// What came of a command.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Judged {
    pub(crate) outcome: Outcome,
    pub(crate) reason: Option<String>,
    pub(crate) figures: Vec<Measured>,
}

impl Judged {
    pub(crate) fn new(outcome: Outcome, reason: impl Into<String>) -> Self {
        Self { outcome, reason: Some(reason.into()), figures: Vec::new() }
    }
}

/// Judges the end of a command.
pub(crate) fn judge(check: &Check, run: &Run, system: &str) -> Judged {
    let Run { ended, has_begun, has_waited, .. } = run;
    let (has_begun, has_waited) = (*has_begun, *has_waited);
    if let Some(reason) = error_of(ended, has_begun) {
        return Judged::new(Outcome::Error, reason);
    }
    if ended.is_late && has_waited {
        let reason = "the step waited for nodes; `--limit` includes that time";
        return Judged::new(Outcome::Error, reason);
    }
    if ended.is_late {
        let reason = with_message("it did not end in time, or printed too much", ended);
        return Judged::new(Outcome::Failed, reason);
    }
    if ended.code != Some(check.exit_code) {
        let how = match ended.code {
            Some(code) if code < 0 => format!("signal {}", -code),
            Some(code) => format!("exit code {code}"),
            None => "no exit code".to_owned(),
        };
        return Judged::new(Outcome::Failed, with_message(&how, ended));
    }
    let pattern = check.expect.as_deref();
    match pattern.map(|pattern| (pattern, found(pattern, &ended.output))) {
        Some((pattern, Ok(None))) => {
            let reason = format!("the output does not match `{}`", escape(pattern));
            return Judged::new(Outcome::Failed, reason);
        }
        Some((_, Err(reason))) => return Judged::new(Outcome::Error, reason),
        _ => {}
    }
    measure(check, ended, system)
}

/// Why a command was not started, or what ended it from outside.
pub(crate) fn error_of(ended: &Ended, has_begun: bool) -> Option<String> {
    let lines = || ended.messages.lines();
    if !has_begun {
        let of_cabane =
            |line: &&str| line.starts_with("error: ") || line.contains("error: cabane:");
        let said = lines().find(of_cabane).map(str::to_owned);
        let said = said.or_else(|| first_meaningful(&ended.messages));
        let said = said.as_deref().unwrap_or("the command was not started").trim();
        return Some(short(said.strip_prefix("error: ").unwrap_or(said)));
    }
    let by_slurm = |line: &&str| SPEAKERS.iter().any(|speaker| line.starts_with(speaker));
    let of_slurm = |line: &&str| by_slurm(line) && OF_SLURM.iter().any(|part| line.contains(part));
    // Without the exit of a task before it, somebody cancelled the step.
    let is_cancelled = !lines().any(|line| line.contains("Exited with exit code"));
    let cancelled = |line: &&str| is_cancelled && by_slurm(line) && line.contains(" CANCELLED AT ");
    lines().find(of_slurm).or_else(|| lines().find(cancelled)).map(short)
}

fn measure(check: &Check, ended: &Ended, system: &str) -> Judged {
    let mut judged = Judged { outcome: Outcome::Passed, reason: None, figures: Vec::new() };
    for figure in &check.figures {
        let value = match number(figure, &ended.output) {
            Ok(value) => value,
            Err(judgment) => return Judged { figures: judged.figures, ..judgment },
        };
        let reference = figure.reference_for(system);
        let measured = Measured {
            variable: figure.name.clone(),
            value,
            unit: figure.unit.clone(),
            reference,
            lower: figure.lower.filter(|_| reference.is_some()).map(Into::into),
            upper: figure.upper.filter(|_| reference.is_some()).map(Into::into),
        };
        judged.figures.push(measured);
        if let Some(reference) = reference.filter(|one| !figure.is_within(value, *one)) {
            let Figure { name, unit, .. } = figure;
            let unit = format!("{}{unit}", if unit.is_empty() { "" } else { " " });
            let reason = format!("{name} is {value}{unit}, and the reference is {reference}{unit}");
            judged.outcome = Outcome::Failed;
            judged.reason.get_or_insert(reason);
        }
    }
    judged
}

fn number(figure: &Figure, output: &str) -> Result<f64, Judged> {
    let text = match found(&figure.pattern, output) {
        Ok(text) => text,
        Err(reason) => return Err(Judged::new(Outcome::Error, reason)),
    };
    let number = text.as_deref().and_then(|text| text.parse::<f64>().ok());
    number.filter(|number| number.is_finite()).ok_or_else(|| {
        let (name, pattern) = (&figure.name, escape(&figure.pattern));
        let reason = format!("the output has no number for {name}: `{pattern}`");
        Judged::new(Outcome::Failed, reason)
    })
}

/// Returns what the first group matches, or the whole expression if it has none. `^` and `$` match at
/// each line.
fn found(pattern: &str, output: &str) -> Result<Option<String>, String> {
    let pattern =
        RegexBuilder::new(pattern).multi_line(true).size_limit(MOST_OF_PATTERN).build().map_err(
            |error| format!("the image has a check with a malformed regular expression: {error}"),
        )?;
    let captures = pattern.captures(output);
    let group = captures.and_then(|found| found.get(1).or_else(|| found.get(0)));
    Ok(group.map(|group| group.as_str().to_owned()))
}

fn with_message(how: &str, ended: &Ended) -> String {
    // What `cabane run` says before the command is no message of the command.
    let is_ours = |line: &&str| line.starts_with("warning: ") || line.starts_with("hint: ");
    let messages: Vec<&str> = ended.messages.lines().filter(|line| !is_ours(line)).collect();
    let message =
        first_meaningful(&messages.join("\n")).or_else(|| first_meaningful(&ended.output));
    match message {
        Some(message) => short(&format!("{how}: {}", message.trim())),
        None => how.to_owned(),
    }
}

pub(crate) fn short(text: &str) -> String {
    let text = escape(text);
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check() -> Check {
        let text = r#"{"name": "bw", "command": ["osu_bw"],
            "expect": "^# Bandwidth", "figures": [
                {"name": "bandwidth", "pattern": "^8\\s+(\\S+)", "unit": "MB/s",
                 "reference": {"daint": 100, "*": 10}, "lower": -0.1}]}"#;
        serde_json::from_str(text).unwrap()
    }

    fn ended(code: i32, output: &str, messages: &str) -> Ended {
        let (output, messages) = (output.to_owned(), messages.to_owned());
        Ended { code: Some(code), is_late: false, output, messages }
    }

    fn run(ended: Ended, has_begun: bool) -> Run {
        Run { ended, has_begun, has_waited: false, has_launcher: true }
    }

    const OUTPUT: &str = "hello\n# Bandwidth\n1 2.5\n8 95.5\n";

    #[test]
    fn a_command_passes_with_its_figures() {
        let judged = judge(&check(), &run(ended(0, OUTPUT, ""), true), "daint");
        assert_eq!((judged.outcome, judged.reason), (Outcome::Passed, None));
        let figure = &judged.figures[0];
        assert_eq!((figure.value, figure.reference, figure.lower), (95.5, Some(100.0), Some(-0.1)));
    }

    #[test]
    fn each_way_to_fail_has_its_reason() {
        let cases = [
            (
                ended(1, OUTPUT, "osu_bw: undefined symbol: x"),
                "exit code 1: osu_bw: undefined symbol",
            ),
            (ended(-11, OUTPUT, ""), "signal 11"),
            (ended(0, "8 95.5\n", ""), "the output does not match `^# Bandwidth`"),
            (ended(0, "# Bandwidth\n", ""), "no number for bandwidth"),
            (ended(0, "# Bandwidth\n8 nan\n", ""), "no number for bandwidth"),
            (
                ended(0, "# Bandwidth\n8 89\n", ""),
                "bandwidth is 89 MB/s, and the reference is 100 MB/s",
            ),
            (Ended { code: None, is_late: true, ..ended(0, OUTPUT, "") }, "did not end in time"),
        ];
        for (ended, expected) in cases {
            let judged = judge(&check(), &run(ended, true), "daint");
            let reason = judged.reason.unwrap_or_default();
            assert_eq!(judged.outcome, Outcome::Failed, "{reason}");
            assert!(reason.contains(expected), "{reason}");
        }
    }

    #[test]
    fn a_command_that_was_not_started_is_an_error() {
        let messages = "srun: job 7 queued\nslurmstepd: error: cabane: no image matches `x`\n";
        let judged = judge(&check(), &run(ended(1, "", messages), false), "daint");
        assert_eq!(judged.outcome, Outcome::Error);
        assert!(judged.reason.unwrap().contains("no image matches"));
        let messages = "warning: slow\nerror: no image matches `x`\nhint: find it\n";
        let judged = judge(&check(), &run(ended(125, "", messages), false), "daint");
        assert_eq!(judged.reason.as_deref(), Some("no image matches `x`"));
        // The exit code of success does not help.
        assert_eq!(
            judge(&check(), &run(ended(0, OUTPUT, ""), false), "daint").outcome,
            Outcome::Error
        );
    }

    #[test]
    fn what_slurm_ends_is_an_error() {
        let messages = "slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT … DUE TO TIME LIMIT ***";
        let judged = judge(&check(), &run(ended(143, "", messages), true), "daint");
        assert_eq!(judged.outcome, Outcome::Error);
    }

    #[test]
    fn a_step_that_waited_for_nodes_is_an_error() {
        let late = Ended { code: None, is_late: true, ..ended(0, "", "") };
        let waited = Run { has_waited: true, ..run(late, true) };
        assert_eq!(judge(&check(), &waited, "daint").outcome, Outcome::Error);
    }

    #[test]
    fn a_command_cannot_talk_like_slurm() {
        let messages = "Node failure on n1\n1.0 CANCELLED AT noon\n";
        let judged = judge(&check(), &run(ended(1, "", messages), true), "daint");
        assert_eq!(judged.outcome, Outcome::Failed);
    }

    #[test]
    fn another_system_has_its_own_reference() {
        assert_eq!(
            judge(&check(), &run(ended(0, OUTPUT, ""), true), "x").figures[0].reference,
            Some(10.0)
        );
    }

    #[test]
    fn a_message_has_no_control_characters_and_an_end() {
        let long = "error: \u{1b}[31m".to_owned() + &"x".repeat(1000);
        let reason = error_of(&ended(1, "", &long), false).unwrap();
        assert!(reason.chars().count() <= LONGEST + 1 && !reason.contains('\u{1b}'), "{reason}");
    }
}
