// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Checks that need no writing.

use std::fs;
use std::path::PathBuf;

use cabane_evidence::Outcome;
use cabane_impact::{Here, Verdict};
use cabane_mpi_audit::audit::{AuditRequest, audit};
use cabane_mpi_audit::find::FindRequest;
use cabane_mpi_audit::judge::{Class, Outcome as Ran, Reason};
use cabane_mpi_audit::run::first_meaningful;
use cabane_report::Kind;
use cabane_site::Context;

use crate::bench::{Bench, Run};
use crate::judge::{Judged, error_of, short};
use crate::request::{CheckRequest, Place};
use crate::subject::Subject;

/// A check that every image has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Builtin {
    /// The image is mounted and a shell starts in it.
    Starts,
    /// The host has what its libraries and programs need.
    Libraries,
    /// Every program of the default view starts.
    Programs,
    /// Every compiler of the default view makes a program that runs.
    Compilers,
    /// Python imports what was asked for.
    Imports,
    /// Two ranks of its MPI exchange messages.
    Mpi,
}

/// Returns all built-in checks in the order in which they run.
#[must_use]
pub fn builtins() -> Vec<Builtin> {
    vec![
        Builtin::Starts,
        Builtin::Libraries,
        Builtin::Programs,
        Builtin::Compilers,
        Builtin::Imports,
        Builtin::Mpi,
    ]
}

/// So many names of what fails are shown.
const SHOWN: usize = 3;

impl Builtin {
    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Starts => "starts",
            Self::Libraries => "libraries",
            Self::Programs => "programs",
            Self::Compilers => "compilers",
            Self::Imports => "imports",
            Self::Mpi => "mpi",
        }
    }

    /// Returns what it checks.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Self::Starts => "the image is mounted, and a command starts in it",
            Self::Libraries => "the host has the libraries that the image needs",
            Self::Programs => "every program of the default view starts",
            Self::Compilers => "every compiler of the default view makes a program that runs",
            Self::Imports => "Python imports the packages of the recipe",
            Self::Mpi => "two ranks of its MPI exchange messages",
        }
    }

    pub(crate) fn run(
        self,
        context: &Context,
        bench: &mut Bench<'_>,
        subject: &Subject,
        request: &CheckRequest,
    ) -> Judged {
        let is_root = subject.mount_point == std::path::Path::new("/");
        let change = subject.checks.change_of(self.name());
        if let Some(change) = change.filter(|change| change.skip && self != Self::Starts) {
            let reason = change.reason.as_deref().unwrap_or_default();
            return not_tested(&short(&format!("the recipe skips it: {reason}")));
        }
        let except = change.map_or(&[][..], |change| &change.except);
        match self {
            Self::Starts => starts(bench),
            Self::Libraries => libraries(&bench.ask_host(), request),
            // In a root image they are those of a whole distribution.
            Self::Programs | Self::Compilers if is_root => {
                not_tested("the image is a whole root file system; a check of the recipe can do it")
            }
            Self::Programs => {
                let text = include_str!("scripts/programs.sh");
                script(bench, subject, (text, except), "program", "start")
            }
            Self::Compilers => {
                let text = include_str!("scripts/compilers.sh");
                script(bench, subject, (text, except), "compiler", "work")
            }
            Self::Imports => imports(bench, subject, except),
            Self::Mpi => mpi(context, bench, subject, request),
        }
    }
}

fn not_tested(reason: &str) -> Judged {
    Judged::new(Outcome::NotTested, reason)
}

fn starts(bench: &mut Bench<'_>) -> Judged {
    // `:` alone would begin another component of a job for `srun`.
    let run = bench.run(&["sh", "-c", "true"], None, 1, None);
    match error_of(&run.ended, run.has_begun) {
        Some(reason) => Judged::new(Outcome::Error, reason),
        None if run.ended.code == Some(0) => {
            Judged { outcome: Outcome::Passed, reason: None, figures: Vec::new() }
        }
        None => Judged::new(Outcome::Failed, "the shell of the image does not work"),
    }
}

/// Judges what the command for this question said about the host.
fn libraries(run: &Run, request: &CheckRequest) -> Judged {
    if let Some(reason) = error_of(&run.ended, run.has_begun) {
        return Judged::new(Outcome::Error, reason);
    }
    let Ok(here) = serde_json::from_str::<Here>(&run.ended.output) else {
        let said = first_meaningful(&run.ended.messages).unwrap_or_default();
        let said = said.trim().trim_start_matches("error: ");
        return match (run.ended.code, &request.place) {
            // The shell has no such program on the node.
            (Some(126 | 127), Place::Slurm { .. }) => {
                not_tested(&short(&format!("the node has no `cabane`: {said}")))
            }
            _ => Judged::new(Outcome::Error, short(&format!("no answer about the host: {said}"))),
        };
    };
    let mut reasons = here.reasons.iter().filter(|reason| reason.verdict == here.verdict);
    let shown: Vec<String> = reasons.by_ref().take(SHOWN).map(ToString::to_string).collect();
    let more = reasons.count();
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    let shown = short(&format!("{}{more}", shown.join("; ")));
    match here.verdict {
        Verdict::Breaks => Judged::new(Outcome::Failed, shown),
        Verdict::Unknown => Judged::new(Outcome::NotTested, shown),
        Verdict::RebuildAdvised => Judged::new(Outcome::Passed, shown),
        Verdict::Unaffected => Judged::new(Outcome::Passed, "this host has what it needs"),
    }
}

fn script(
    bench: &mut Bench<'_>,
    subject: &Subject,
    (text, except): (&str, &[String]),
    what: &str,
    verb: &str,
) -> Judged {
    let mount_point = subject.mount_point.display().to_string();
    let fixed = ["sh", "-c", text, "sh", &mount_point];
    let words: Vec<&str> = fixed.into_iter().chain(except.iter().map(String::as_str)).collect();
    summary(&bench.run(&words, None, 1, None), what, verb)
}

fn imports(bench: &mut Bench<'_>, subject: &Subject, except: &[String]) -> Judged {
    let packages = subject.packages.packages.iter();
    let wanted = packages.filter(|one| one.manager == "python" && one.explicit);
    let names: Vec<&str> = wanted
        .map(|one| one.name.as_str())
        .filter(|name| !except.iter().any(|one| one == name))
        .collect();
    if names.is_empty() {
        let reason = if except.is_empty() {
            "the recipe asks for no Python package"
        } else {
            "the recipe asks for no other Python package"
        };
        return not_tested(reason);
    }
    let script = bench.directory().join("imports.py");
    if let Err(error) = fs::write(&script, include_str!("scripts/imports.py")) {
        return Judged::new(Outcome::Error, format!("cannot write a script: {error}"));
    }
    let script = script.display().to_string();
    let words: Vec<&str> = ["python3", script.as_str()].into_iter().chain(names).collect();
    summary(&bench.run(&words, None, 1, None), "module", "load")
}

/// Summarizes lines of exit code, name, and message for what failed, and a last one with the number of all.
fn summary(run: &Run, what: &str, verb: &str) -> Judged {
    if let Some(reason) = error_of(&run.ended, run.has_begun) {
        return Judged::new(Outcome::Error, reason);
    }
    if run.ended.is_late {
        return Judged::new(Outcome::Failed, "they did not end in time, or printed too much");
    }
    let lines = run.ended.output.lines();
    let end = lines.clone().find_map(|line| line.strip_prefix("end\t")?.parse::<usize>().ok());
    let Some(all) = end else {
        let how = run.ended.code.map_or_else(String::new, |code| format!(" with {code}"));
        let reason = format!("not all {what}s were tried: the test ended{how}: ");
        return Judged::new(Outcome::Failed, short(&(reason + &run.ended.messages)));
    };
    let failed: Vec<_> = lines
        .filter_map(|line| {
            let mut fields = line.splitn(3, '\t');
            let code: i32 = fields.next()?.parse().ok()?;
            Some((code, fields.next()?, fields.next().unwrap_or_default()))
        })
        .collect();
    if failed.is_empty() {
        let without = run.ended.output.lines().find_map(|line| line.strip_prefix("without\t"));
        let without = match without {
            None | Some("0") => String::new(),
            Some(count) => format!("; the recipe leaves out {}", short(count)),
        };
        return match all {
            0 if without.is_empty() => not_tested(&format!("the default view has no {what}")),
            0 => not_tested(&format!("the default view has no other {what}{without}")),
            1 => Judged::new(Outcome::Passed, format!("1 {what} {verb}s{without}")),
            _ => Judged::new(Outcome::Passed, format!("{all} {what}s {verb}{without}")),
        };
    }
    let shown = failed.iter().take(SHOWN).map(|(code, name, said)| {
        let name = name.rsplit('/').next().unwrap_or(name);
        if said.is_empty() {
            format!("{name}: exit code {code}")
        } else {
            format!("{name}: {said}")
        }
    });
    let shown = shown.collect::<Vec<_>>().join("; ");
    let more = if failed.len() > SHOWN { "; …" } else { "" };
    let reason = format!("{} of {all} {what}s fail: {shown}{more}", failed.len());
    Judged::new(Outcome::Failed, short(&reason))
}

/// What the audit of installations says about the MPI of the image.
fn mpi(context: &Context, bench: &Bench<'_>, subject: &Subject, request: &CheckRequest) -> Judged {
    if subject.pmi.is_empty() {
        return not_tested("the image has no MPI");
    }
    if let Place::Slurm { .. } = request.place {
        return not_tested("`cabane mpi audit --slurm --image` tests it in a job");
    }
    let image = subject.argument().to_string_lossy().into_owned();
    let wanted = AuditRequest {
        find: FindRequest {
            prefixes: Vec::new(),
            images: vec![image],
            all_images: false,
            all: false,
        },
        ranks: 2,
        nodes: None,
        reference: None,
        compare: None,
        keep: false,
        limit: request.limit,
        measure: 0.2,
        work_directory: Some(PathBuf::from(bench.runner().directory())),
    };
    let audited = match audit(context, &wanted) {
        Ok(audited) => audited,
        // Such as an image with the library of an MPI and without compilers.
        Err(error) if error.kind() == Kind::NotFound => return not_tested(&error.to_string()),
        Err(error) => return Judged::new(Outcome::Error, short(&error.to_string())),
    };
    let Some(tried) = audited.tried.first() else {
        return not_tested("the image has no MPI");
    };
    let verdict = format!("{}: {}", tried.verdict.class, tried.verdict.reason);
    match tried.verdict.class {
        Class::Nonfunctional
            if matches!(tried.verdict.reason, Reason::NoLauncher | Reason::NoCompiler) =>
        {
            not_tested(&tried.verdict.reason.to_string())
        }
        Class::Nonfunctional => Judged::new(Outcome::Failed, short(&verdict)),
        Class::Inconclusive if matches!(tried.outcome, Ran::Failed { .. }) => {
            Judged::new(Outcome::Error, short(&verdict))
        }
        Class::Working => Judged::new(Outcome::Passed, "2 ranks exchange messages"),
        _ => Judged::new(Outcome::Passed, short(&format!("2 ranks exchange messages; {verdict}"))),
    }
}

#[cfg(test)]
mod tests {
    use cabane_mpi_audit::run::Ended;

    use super::*;

    fn run(output: &str) -> Run {
        let ended = Ended {
            code: Some(0),
            is_late: false,
            output: output.to_owned(),
            messages: String::new(),
        };
        Run { ended, has_begun: true, has_waited: false, has_launcher: true }
    }

    #[test]
    fn what_failed_is_named_and_the_rest_is_counted() {
        assert_eq!(
            summary(&run("end\t3\n"), "program", "start").reason.as_deref(),
            Some("3 programs start")
        );
        let lost = "127\t/m/bin/a\ta: error while loading shared libraries: libx.so.1: cannot open";
        let output = format!("{lost}\n139\t/m/bin/b\t\nend\t3\n");
        let judged = summary(&run(&output), "program", "start");
        assert_eq!(judged.outcome, Outcome::Failed);
        let reason = judged.reason.unwrap();
        assert!(reason.starts_with("2 of 3 programs fail: a: a: error while"), "{reason}");
        assert!(reason.ends_with("b: exit code 139"), "{reason}");
    }

    fn slurm() -> CheckRequest {
        CheckRequest {
            suites: None,
            only: Vec::new(),
            place: Place::Slurm { srun: "srun".into(), options: Vec::new() },
            limit: std::time::Duration::from_secs(1),
            work_directory: None,
        }
    }

    #[test]
    fn a_host_is_judged_by_what_it_says_itself() {
        let here = CheckRequest { place: Place::Here, ..slurm() };
        let of = |verdict: &str| {
            let reasons = r#"[{"verdict": "breaks", "chain": ["libx.so.1 is missing", "bin/a"]},
                {"verdict": "unknown", "chain": ["no needs"]}]"#;
            let text = format!(r#"{{"image": "a", "verdict": "{verdict}", "reasons": {reasons}}}"#);
            let judged = libraries(&run(&text), &here);
            (judged.outcome, judged.reason.unwrap())
        };
        assert_eq!(of("breaks"), (Outcome::Failed, "libx.so.1 is missing: bin/a".to_owned()));
        assert_eq!(of("unknown"), (Outcome::NotTested, "no needs".to_owned()));
        assert_eq!(of("unaffected").0, Outcome::Passed);
        assert_eq!(of("rebuild-advised").0, Outcome::Passed);
    }

    #[test]
    fn a_node_without_the_program_is_not_judged() {
        let mut none = run("");
        none.ended.code = Some(127);
        none.ended.messages = "sh: 1: exec: /opt/cabane: not found".to_owned();
        let judged = libraries(&none, &slurm());
        assert_eq!(judged.outcome, Outcome::NotTested);
        assert!(judged.reason.unwrap().contains("the node has no `cabane`"));
        let here = CheckRequest { place: Place::Here, ..slurm() };
        assert_eq!(libraries(&none, &here).outcome, Outcome::Error);
        none.has_begun = false;
        assert_eq!(libraries(&none, &slurm()).outcome, Outcome::Error);
    }

    #[test]
    fn nothing_to_try_and_half_a_test_are_not_success() {
        assert_eq!(summary(&run("end\t0\n"), "compiler", "work").outcome, Outcome::NotTested);
        let lost = Run { has_begun: false, ..run("end\t1\n") };
        assert_eq!(summary(&lost, "compiler", "work").outcome, Outcome::Error);
        assert_eq!(summary(&run(""), "module", "load").outcome, Outcome::Failed);
    }
}
