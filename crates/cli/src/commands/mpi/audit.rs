// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane mpi audit`: tries every MPI of a system, and sorts them by what they can do.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cabane_label::{escape, shown};
use cabane_mpi_audit::audit::{AuditRequest, Audited, audit as run};
use cabane_mpi_audit::benchmark::{self, NodeType};
use cabane_mpi_audit::find::FindRequest;
use cabane_mpi_audit::judge::{
    AuditChange, Class, Floor, LATENCIES, Reason, Spread, Way, short, spread, way,
};
use cabane_mpi_audit::run::{OtherBenchmark, Tried};
use cabane_mpi_audit::{Origin, report};
use cabane_report::{IoContext, Result, shell_word};
use clap::Args;
use serde::Serialize;

use crate::exit_codes::{self, ExitCode};
use crate::setup::Setup;
use crate::table::Table;

/// Test every MPI of this system and sort them by what works
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
#[command(after_help = "\
The audit compiles a small program with each installation, runs it, and measures whether
its ranks find each other, whether messages arrive, and how long they take. The verdict is
working, suboptimal, non-performant, misplaced (the ranks share one processor),
nonfunctional, or inconclusive (the node was busy), with the reason. Latencies are compared
with what the node does without MPI, and with the median of the healthy installations or
a file from --save-reference.

An inconclusive result says nothing about the installation. The exit code is then 19:
repeat the audit on a quiet node.

Without PREFIX, the audit searches the usual places, modules, and the active Python
environment.

Examples:
  cabane mpi audit
  cabane mpi audit /opt/mpich-4.3 /opt/openmpi-5
  cabane mpi audit --image prgenv-gnu/24.11 --html mpi.html
  cabane mpi audit --slurm --nodes 2 --work-directory $SCRATCH")]
pub(crate) struct AuditArgs {
    /// Installation prefixes, directories of prefixes, or Spack stores
    #[arg(value_name = "PREFIX")]
    prefixes: Vec<PathBuf>,
    /// Also search the usual places and modules when prefixes or images are given
    #[arg(long)]
    all: bool,
    /// Test the MPI in this image; repeatable
    #[arg(long = "image", value_name = "IMAGE")]
    images: Vec<String>,
    /// Test the MPIs in all images of the repositories for this system
    #[arg(long = "images")]
    all_images: bool,
    /// The number of ranks
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=4096))]
    ranks: u32,
    /// Start the ranks with Slurm instead of the launchers of the installations
    #[arg(long)]
    slurm: bool,
    /// The number of nodes; with Slurm
    #[arg(long, value_name = "N", default_value_t = 1, requires = "slurm", value_parser = clap::value_parser!(u32).range(1..))]
    nodes: u32,
    /// Compare with the latencies in this file
    #[arg(long, value_name = "FILE")]
    reference: Option<PathBuf>,
    /// Save the latencies of the healthy installations to this file
    #[arg(long, value_name = "FILE")]
    save_reference: Option<PathBuf>,
    /// Show what has changed since the audit in this file, an earlier --json output
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
    /// Do not keep the results, and do not compare with kept ones
    #[arg(long)]
    no_keep: bool,
    /// The time limit of each compilation and run, in seconds; a run over the limit is repeated before it counts
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(3..=3600))]
    time_limit: u64,
    /// How long each run measures, in seconds; each installation runs at least twice
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    measure: f64,
    /// Compile and run below this directory, which all nodes must share
    #[arg(long, value_name = "DIR")]
    work_directory: Option<PathBuf>,
    /// Write a page with plots to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Exit with code 1 if an installation does not work
    #[arg(long)]
    strict: bool,
}

/// What is printed for programs.
#[derive(Serialize)]
struct Outcome<'a> {
    ranks: u32,
    nodes: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_type: Option<&'a NodeType>,
    floor: &'a Floor,
    installations: Vec<Row<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<&'a [AuditChange]>,
}

#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    origin: &'a Origin,
    class: Class,
    reason: &'a Reason,
    explanation: String,
    library: Option<&'a str>,
    loaded: &'a [PathBuf],
    wrapper: Option<&'a Path>,
    launcher: Option<&'a Path>,
    program: Option<&'a cabane_mpi_audit::run::Program>,
    pmi: Option<&'a str>,
    runs: usize,
    failed_once: Option<&'a Reason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    library_of: Option<&'a Path>,
    advice: Option<&'a cabane_mpi_audit::run::Advice>,
    ways: Vec<Way>,
    spread: Vec<Spread>,
    throttled: u64,
    places: &'a [cabane_mpi_audit::benchmark::Place],
    figures: &'a [cabane_mpi_audit::benchmark::Figure],
    others: &'a [OtherBenchmark],
}

pub(crate) fn audit(setup: &Setup, args: &AuditArgs) -> Result<ExitCode> {
    let audited = run(setup, &args.request())?;
    print(setup, args, &audited);
    write_files(setup, args, &audited)?;
    say_what_to_repeat(setup, &audited);
    Ok(if args.strict && audited.has(Class::Nonfunctional) {
        exit_codes::FAILURE
    } else if audited.has(Class::Inconclusive) {
        exit_codes::INCONCLUSIVE
    } else {
        exit_codes::SUCCESS
    })
}

impl AuditArgs {
    fn request(&self) -> AuditRequest {
        AuditRequest {
            find: FindRequest {
                prefixes: self.prefixes.clone(),
                images: self.images.clone(),
                all_images: self.all_images,
                all: self.all,
            },
            ranks: self.ranks,
            nodes: self.slurm.then_some(self.nodes),
            reference: self.reference.clone(),
            compare: self.compare.clone(),
            keep: !self.no_keep,
            limit: Duration::from_secs(self.time_limit),
            measure: self.measure,
            work_directory: self.work_directory.clone(),
        }
    }
}

fn print(setup: &Setup, args: &AuditArgs, audited: &Audited) {
    let Audited { tried, others, floor, changes, .. } = audited;
    if args.json {
        let rows = tried.iter().zip(others).map(|(one, others)| row(one, others));
        setup.printer.json(&Outcome {
            ranks: args.ranks,
            nodes: args.nodes,
            node_type: audited.node_type.as_ref(),
            floor: &audited.floor,
            installations: rows.collect(),
            changes: audited.changes.as_deref(),
        });
        return;
    }
    setup.printer.data(table(tried, floor));
    for (one, others) in tried.iter().zip(others) {
        for other in others {
            let (name, program) = (&one.installation.name, other.program.display().to_string());
            let at = |bytes| other.latencies.iter().find(|(size, _)| *size == bytes);
            let figures = LATENCIES.iter().filter_map(|bytes| Some(short(at(*bytes)?.1)));
            let figures: Vec<_> = figures.collect();
            setup.note(format_args!(
                "{}: {} says {} µs",
                escape(name),
                escape(&program),
                figures.join(", ")
            ));
        }
    }
    let changes = changes.as_deref().unwrap_or_default();
    let many = if changes.is_empty() { "nothing has" } else { "this has" };
    if let Some(file) = &args.compare {
        setup.note(format_args!("{many} changed since the audit in {}", shown(file)));
    } else if !changes.is_empty() {
        setup.note("this has changed since earlier audits of this type of node");
    }
    for change in changes {
        setup.note(format_args!("  {}", escape(&change.to_string())));
    }
}

fn row<'a>(one: &'a Tried, others: &'a [OtherBenchmark]) -> Row<'a> {
    let output = one.outcome.output();
    Row {
        name: &one.installation.name,
        origin: &one.installation.origin,
        class: one.verdict.class,
        reason: &one.verdict.reason,
        explanation: one.verdict.reason.to_string(),
        library: output.library.as_deref(),
        loaded: &output.loaded,
        wrapper: one.installation.wrapper.as_deref(),
        launcher: one.installation.launcher.as_deref(),
        program: one.program.as_ref(),
        pmi: one.pmi.as_deref(),
        runs: one.runs,
        failed_once: one.once.as_ref(),
        library_of: one.library_of.as_deref(),
        advice: one.advice.as_ref(),
        ways: (LATENCIES.iter()).filter_map(|bytes| way(output, *bytes)).collect(),
        spread: spread(output),
        throttled: output.throttled,
        places: &output.places,
        figures: &output.figures,
        others,
    }
}

fn table(tried: &[Tried], floor: &Floor) -> Table {
    let mut table =
        Table::new(&["installation", "class", ">8 B", ">4 KiB", ">32 KiB", ">1 MiB", "why"]);
    for one in tried {
        let best = LATENCIES.map(|bytes| {
            let best = one.outcome.output().best(benchmark::Kind::Latency, bytes);
            best.map_or_else(|| "-".to_owned(), |figure| short(figure.p10))
        });
        let (name, why) = (&one.installation.name, why(one));
        let [a, b, c, d] = &best;
        table.push(&[&escape(name), &one.verdict.class, a, b, c, d, &escape(&why)]);
    }
    for (name, figures) in floor.ways() {
        let [a, b, c, d] = LATENCIES.map(|bytes| {
            let best = Floor::best(figures, bytes);
            best.map_or_else(|| "-".to_owned(), |figure| short(figure.p10))
        });
        let name = format!("({name})");
        table.push(&[&name, &"-", &a, &b, &c, &d, &"what this node does without MPI"]);
    }
    table
}

/// Names the installations about which nothing certain was found, in a command that tries them.
fn say_what_to_repeat(setup: &Setup, audited: &Audited) {
    let doubtful = || {
        let all = audited.tried.iter().zip(&audited.others).map(|(one, _)| one);
        all.filter(|one| one.verdict.class == Class::Inconclusive)
    };
    let count = doubtful().count();
    if count == 0 {
        return;
    }
    let what = if count == 1 { "1 result is" } else { &format!("{count} results are") };
    setup.warning(format_args!("{what} inconclusive, which is neither good nor bad"));
    let is_alone =
        doubtful().all(|one| matches!(one.verdict.reason, Reason::NothingToCompare { .. }));
    if is_alone {
        setup.hint("--reference FILE names latencies to compare with");
        return;
    }
    let mut arguments: Vec<String> = Vec::new();
    for one in doubtful() {
        let argument = match &one.installation.origin {
            Origin::Prefix(prefix) => shell_word(&prefix.to_string_lossy()).into_owned(),
            Origin::Image(image) => format!("--image {}", shell_word(image)),
            Origin::Module(_) | Origin::Spack(_) => "--all".to_owned(),
        };
        if !arguments.contains(&argument) {
            arguments.push(argument);
        }
    }
    let arguments = arguments.join(" ");
    setup.hint(format_args!(
        "repeat on a quiet node: srun --exclusive --nodes=1 cabane mpi audit {}",
        escape(&arguments)
    ));
}

fn why(one: &Tried) -> String {
    let mut why = one.verdict.reason.to_string();
    if let Some(advice) = &one.advice {
        why += &format!("; {advice}");
    }
    if let Some(cabane_mpi_audit::run::Program::OfPeer(name)) = &one.program {
        why += &format!("; no compiler wrapper: run with the program of {name}");
    }
    if let Some(prefix) = &one.library_of {
        why += &format!("; the library that is loaded belongs to {}", prefix.display());
    }
    if let Some(reason) = &one.once {
        why += &format!("; failed at another time: {reason}");
    }
    why
}

fn write_files(setup: &Setup, args: &AuditArgs, audited: &Audited) -> Result<()> {
    let write = |path: &Path, text: String| {
        fs::write(path, text)
            .or_failed(|| format!("write `{}`", escape(&path.display().to_string())))
    };
    let system = setup.settings.system.value.as_ref();
    let system = system.map_or_else(|| "this system".to_owned(), ToString::to_string);
    if let Some(path) = &args.html {
        write(path, report::html(&format!("MPI on {system}"), audited))?;
    }
    if let Some(path) = &args.save_reference {
        write(path, audited.reference(&system, args.nodes)?.to_json())?;
    }
    Ok(())
}
