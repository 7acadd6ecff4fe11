// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane mpi audit`: tries every MPI of a system, and sorts them by what they can do.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use cabane_check::benchmark;
use cabane_check::judge::{Class, LATENCIES, Reason, Reference, Way, short, way};
use cabane_check::run::{
    Manner, OtherBenchmark, PmiTypes, Progress, Settings, Tried, Workshop, audit as try_all,
    other_benchmarks,
};
use cabane_check::{Installation, Origin, report};
use cabane_label::escape;
use clap::Args;
use serde::Serialize;

use crate::commands::mpi::audit_found::find;
use crate::exit_codes::{self, ExitCode};
use crate::format::json;
use crate::report::{CommandResult, IoContext, Kind, Report};
use crate::setup::Setup;
use crate::table::{Align, Table};
use cabane_site::env_vars;

/// Test every MPI of this system and sort them by what works
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own"
)]
#[command(after_help = "\
The audit compiles a small program with each installation, runs it, and measures whether
its ranks find each other, whether messages arrive, and how long they take. The verdict is
working, suboptimal, non-performant, misplaced (the ranks share one processor), or
nonfunctional, with the reason. Latencies are compared with the median of the healthy
installations, or with a file from --save-reference.

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
    pub(crate) prefixes: Vec<PathBuf>,
    /// Also search the usual places and modules when prefixes or images are given
    #[arg(long)]
    pub(crate) all: bool,
    /// Test the MPI in this image; repeatable
    #[arg(long = "image", value_name = "IMAGE")]
    pub(crate) images: Vec<String>,
    /// Test the MPIs in all images of the repositories for this system
    #[arg(long = "images")]
    pub(crate) all_images: bool,
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

#[derive(Debug, thiserror::Error)]
enum AuditError {
    #[error("no MPI installation was found")]
    Nothing,
    #[error("cannot measure for {0} seconds")]
    Measure(f64),
    #[error("there is no `srun` in PATH")]
    NoSlurm,
    #[error("the references are for {kept} nodes, and these ranks are on {wanted}")]
    OtherNodes { kept: u32, wanted: u32 },
    #[error("no installation is healthy, and nothing can be kept")]
    NoReference,
    #[error("{} cannot be used", escape(&path.display().to_string()))]
    Reference {
        path: PathBuf,
        source: cabane_check::judge::ReferenceError,
    },
}

/// What is printed for programs.
#[derive(Serialize)]
struct Outcome<'a> {
    ranks: u32,
    nodes: u32,
    installations: Vec<Row<'a>>,
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
    program: Option<&'a cabane_check::run::Program>,
    pmi: Option<&'a str>,
    runs: usize,
    failed_once: Option<&'a Reason>,
    advice: Option<&'a cabane_check::run::Advice>,
    ways: Vec<Way>,
    places: &'a [cabane_check::benchmark::Place],
    figures: &'a [cabane_check::benchmark::Figure],
    others: &'a [OtherBenchmark],
}

pub(crate) fn audit(setup: &Setup, args: &AuditArgs) -> CommandResult<ExitCode> {
    if !(args.measure > 0.0 && args.measure <= 600.0) {
        return Err(Report::new(Kind::Usage, AuditError::Measure(args.measure)));
    }
    let settings = settings(setup, args)?;
    let workshop = workshop(setup, args)?;
    let installations = find(setup, args, &workshop)?;
    if installations.is_empty() {
        let hint = "name a prefix: cabane mpi audit /opt/mpich".to_owned();
        return Err(Report::new(Kind::NotFound, AuditError::Nothing).hinted(hint));
    }
    let mut tried = try_everything(setup, &installations, &workshop, &settings)?;
    tried.sort_by_key(|one| one.verdict.class);
    let others: Vec<_> = tried
        .iter()
        .map(|one| other(one, &workshop, &settings.manner))
        .collect();
    print(setup, args, &tried, &others);
    write_files(setup, args, &tried)?;
    let is_broken = tried
        .iter()
        .any(|one| one.verdict.class == Class::Nonfunctional);
    Ok(if args.strict && is_broken {
        exit_codes::FAILURE
    } else {
        exit_codes::SUCCESS
    })
}

fn settings(setup: &Setup, args: &AuditArgs) -> CommandResult<Settings> {
    let available = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Ok(Settings {
        ranks: args.ranks,
        measure: Duration::from_secs_f64(args.measure),
        manner: manner(setup, args)?,
        processors: available,
        reference: args
            .reference
            .as_deref()
            .map(|path| reference(path, args.nodes))
            .transpose()?,
    })
}

fn reference(path: &Path, nodes: u32) -> CommandResult<Reference> {
    let text = fs::read_to_string(path).or_failed(|| {
        format!(
            "read the references `{}`",
            escape(&path.display().to_string())
        )
    })?;
    let reference = Reference::from_json(&text).map_err(|source| {
        let path = path.to_owned();
        Report::new(Kind::BadInput, AuditError::Reference { path, source })
    })?;
    if (reference.nodes == 1) != (nodes == 1) {
        let (kept, wanted) = (reference.nodes, nodes);
        let error = AuditError::OtherNodes { kept, wanted };
        return Err(Report::new(Kind::BadInput, error));
    }
    Ok(reference)
}

fn manner(setup: &Setup, args: &AuditArgs) -> CommandResult<Manner> {
    if !args.slurm {
        return Ok(Manner::Launcher);
    }
    let path = setup.calling.get(OsStr::new(env_vars::PATH));
    let directories = path.map(std::env::split_paths).into_iter().flatten();
    let srun = directories
        .map(|directory| directory.join("srun"))
        .find(|srun| srun.exists());
    let srun = srun.ok_or_else(|| Report::new(Kind::NotFound, AuditError::NoSlurm))?;
    let list = Command::new(&srun).arg("--mpi=list").output();
    let list = list.or_failed(|| format!("run `{} --mpi=list`", srun.display()))?;
    // Releases disagree about where they say it.
    let said = [list.stdout, list.stderr].concat();
    Ok(Manner::Slurm {
        srun,
        nodes: args.nodes,
        types: PmiTypes::from_list(&String::from_utf8_lossy(&said)),
    })
}

fn workshop(setup: &Setup, args: &AuditArgs) -> CommandResult<Workshop> {
    let parent = args
        .work_directory
        .clone()
        .unwrap_or_else(std::env::temp_dir);
    let is_slurms = |name: &OsString| args.slurm && name.as_encoded_bytes().starts_with(b"SLURM");
    let mut variables: BTreeMap<_, _> = (setup.calling.iter())
        .filter(|(name, _)| is_slurms(name))
        .filter_map(|(name, value)| Some((name.to_str()?.to_owned(), value.to_str()?.to_owned())))
        .collect();
    if args.slurm {
        // The directory may be far away, and is the same for all nodes.
        variables.insert("TMPDIR".to_owned(), "/tmp".to_owned());
    }
    let limit = Duration::from_secs(args.time_limit);
    Workshop::new(&parent, variables, limit).or_failed(|| {
        format!(
            "make a directory in `{}`",
            escape(&parent.display().to_string())
        )
    })
}

fn try_everything(
    setup: &Setup,
    installations: &[Installation],
    workshop: &Workshop,
    settings: &Settings,
) -> CommandResult<Vec<Tried>> {
    let count = installations.len();
    let runs = if count == 1 {
        "installation"
    } else {
        "installations"
    };
    setup.printer.note(format_args!("trying {count} {runs}"));
    let mut tell = |progress: Progress<'_>| match progress {
        Progress::Compiling(name) => {
            setup
                .printer
                .detail(format_args!("compiling for {}", escape(name)));
        }
        Progress::Running(name, time) => {
            setup
                .printer
                .detail(format_args!("run {time} of {}", escape(name)));
        }
        Progress::Changing(name) => {
            setup
                .printer
                .detail(format_args!("run of {} with other settings", escape(name)));
        }
    };
    try_all(installations, workshop, settings, &mut tell)
        .or_failed(|| "write the program that is compiled".to_owned())
}

/// Benchmarks of others are asked only where the library works: they have no limits.
fn other(one: &Tried, workshop: &Workshop, manner: &Manner) -> Vec<OtherBenchmark> {
    match one.verdict.class {
        Class::Nonfunctional | Class::Misplaced => Vec::new(),
        _ => other_benchmarks(&one.installation, workshop, manner, one.pmi.as_deref()),
    }
}

fn print(setup: &Setup, args: &AuditArgs, tried: &[Tried], others: &[Vec<OtherBenchmark>]) {
    if args.json {
        let rows = tried
            .iter()
            .zip(others)
            .map(|(one, others)| row(one, others));
        setup.printer.data(json(&Outcome {
            ranks: args.ranks,
            nodes: args.nodes,
            installations: rows.collect(),
        }));
        return;
    }
    setup.printer.data(table(tried));
    for (one, others) in tried.iter().zip(others) {
        for other in others {
            let (name, program) = (&one.installation.name, other.program.display().to_string());
            let at = |bytes| other.latencies.iter().find(|(size, _)| *size == bytes);
            let figures = LATENCIES
                .iter()
                .filter_map(|bytes| Some(short(at(*bytes)?.1)));
            let figures: Vec<_> = figures.collect();
            setup.printer.note(format_args!(
                "{}: {} says {} µs",
                escape(name),
                escape(&program),
                figures.join(", ")
            ));
        }
    }
}

fn row<'a>(one: &'a Tried, others: &'a [OtherBenchmark]) -> Row<'a> {
    let said = one.outcome.said();
    Row {
        name: &one.installation.name,
        origin: &one.installation.origin,
        class: one.verdict.class,
        reason: &one.verdict.reason,
        explanation: one.verdict.reason.to_string(),
        library: said.library.as_deref(),
        loaded: &said.loaded,
        wrapper: one.installation.wrapper.as_deref(),
        launcher: one.installation.launcher.as_deref(),
        program: one.program.as_ref(),
        pmi: one.pmi.as_deref(),
        runs: one.runs,
        failed_once: one.once.as_ref(),
        advice: one.advice.as_ref(),
        ways: (LATENCIES.iter())
            .filter_map(|bytes| way(said, *bytes))
            .collect(),
        places: &said.places,
        figures: &said.figures,
        others,
    }
}

fn table(tried: &[Tried]) -> Table {
    let mut table = Table::new(
        &[
            ("installation", Align::Left),
            ("class", Align::Left),
            ("8 B", Align::Right),
            ("4 KiB", Align::Right),
            ("32 KiB", Align::Right),
            ("1 MiB", Align::Right),
            ("why", Align::Left),
        ],
        true,
    );
    for one in tried {
        let best = LATENCIES.map(|bytes| {
            let best = one.outcome.said().best(benchmark::Kind::Latency, bytes);
            best.map_or_else(|| "-".to_owned(), |figure| short(figure.p10))
        });
        let (name, why) = (&one.installation.name, why(one));
        let [a, b, c, d] = &best;
        table.push([&escape(name), &one.verdict.class, a, b, c, d, &escape(&why)]);
    }
    table
}

fn why(one: &Tried) -> String {
    let mut why = one.verdict.reason.to_string();
    if let Some(advice) = &one.advice {
        why += &format!("; {advice}");
    }
    if let Some(cabane_check::run::Program::OfPeer(name)) = &one.program {
        why += &format!("; no compiler wrapper: run with the program of {name}");
    }
    if let Some(reason) = &one.once {
        why += &format!("; failed at another time: {reason}");
    }
    why
}

fn write_files(setup: &Setup, args: &AuditArgs, tried: &[Tried]) -> CommandResult<()> {
    let system = setup.settings.system.value.as_ref();
    let system = system.map_or_else(|| "this system".to_owned(), ToString::to_string);
    let write = |path: &Path, text: String| {
        fs::write(path, text)
            .or_failed(|| format!("write `{}`", escape(&path.display().to_string())))
    };
    if let Some(path) = &args.html {
        write(path, report::html(&format!("MPI on {system}"), tried))?;
    }
    if let Some(path) = &args.save_reference {
        let latencies: Vec<_> = tried
            .iter()
            .filter(|one| one.verdict.class < Class::NonPerformant)
            .filter_map(|one| one.outcome.latencies())
            .collect();
        let latencies: Vec<_> = latencies.iter().collect();
        let reference = Reference::new(&system, args.nodes, &latencies)
            .ok_or_else(|| Report::new(Kind::Failure, AuditError::NoReference))?;
        write(path, reference.to_json())?;
    }
    Ok(())
}
