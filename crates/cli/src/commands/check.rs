// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane check`: whether images work on this machine, or on the nodes of Slurm.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use cabane_check::{
    CheckReport, CheckRequest, CheckResult, Place, Results, RowDescription, Subject, Suite,
    SuiteRequest, check as run, junit, rows, test_statement,
};
use cabane_evidence::{Outcome, SignedStatement, keep};
use cabane_label::escape;
use cabane_recipe::parse_time;
use cabane_registry::{RemoteImage, SigningKey};
use cabane_report::{IoContext, Kind, Report, Result};
use cabane_signature_policy::signing_key;
use cabane_transfer::{Connection, attach_evidence, find_evidence};
use clap::{Args, ValueEnum};

use crate::exit_codes::ExitCode;
use crate::registry::RegistryArgs;
use crate::results::{OtherFigures, colored, described, write_page};
use crate::setup::Setup;
use crate::table::Table;

/// Test whether images work here
#[derive(Debug, Args)]
#[command(after_help = "\
Each check has one of four outcomes. PASSED and FAILED describe the image.
ERROR means that the check could not run, for example because a node failed.
NOT TESTED means that there was nothing to test.

A recipe lists its own checks in `checks` of config.yaml. Built-in checks:
  starts     the image is mounted, and a shell starts in it
  libraries  the host has the libraries that the image needs
  programs   each program of the default view starts with --version
  compilers  each compiler makes a program that runs
  imports    Python imports the packages that the recipe asks for
  mpi        two ranks of the MPI in the image exchange messages

Examples:
  cabane check prgenv-gnu/25.6
  cabane check prgenv-gnu/25.6 --only mpi
  cabane check prgenv-gnu/25.6 --key tests.key --attach
  cabane check prgenv-gnu/25.6 --suite ~/hpc-tests --html results.html
  cabane check prgenv-gnu/25.6:v1 prgenv-gnu/25.6:v2 --key tests.key --repeat 5
  cabane check prgenv-gnu/25.6 --on slurm --srun=--partition=debug
  cabane check prgenv-gnu/25.6 --suite cscs-reframe-tests --on slurm
  cabane check prgenv-gnu/25.6 --suite papers --only papers

The exit code is 16 if a check failed, 17 if none failed and one is an ERROR,
and 18 if nothing was tested.")]
pub(crate) struct CheckArgs {
    /// The images: labels, IDs, digests, or paths
    #[arg(required = true, value_name = "IMAGE")]
    images: Vec<String>,
    /// Run only this check. Repeatable
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Also run this suite of ReFrame, with the environments of `extra/reframe.yaml` in the image: a
    /// directory, or the name of an installed suite such as `papers`. Repeatable
    #[arg(long = "suite", value_name = "DIR|NAME")]
    suites: Vec<PathBuf>,
    /// Pass this option to `reframe`, such as --reframe=--tag=production. Repeatable
    #[arg(
        long = "reframe",
        value_name = "OPTION",
        allow_hyphen_values = true,
        requires = "suites"
    )]
    reframe_options: Vec<String>,
    /// Where the checks run
    #[arg(long, value_name = "PLACE", default_value = "here")]
    on: On,
    /// Pass this option to `srun`, such as --srun=--partition=debug, and to the jobs of suites. Repeatable
    #[arg(long = "srun", value_name = "OPTION", allow_hyphen_values = true)]
    srun_options: Vec<String>,
    /// Run the checks that measure something N times; measure several images in turns
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=20),
        default_value = "1")]
    repeat: u8,
    /// The time limit of each check that has none of its own, such as 30s or 10m
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "10m")]
    limit: Duration,
    /// Run below this directory; with --on slurm, every node must see it. Default: that for temporary
    /// files, or the current directory with --on slurm
    #[arg(long, value_name = "DIR")]
    work_directory: Option<PathBuf>,
    /// Sign the results with this private key and keep them beside the image in its repository
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Also attach the signed results to the image in the registry
    #[arg(long, requires = "key")]
    attach: bool,
    #[command(flatten)]
    registry: RegistryArgs,
    /// Also write the results to this file, in the XML format that CI systems display
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Also write a page with the results and plots to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Where checks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum On {
    /// On this machine
    Here,
    /// In steps of Slurm
    Slurm,
}

pub(crate) fn check(setup: &Setup, args: &CheckArgs) -> Result<ExitCode> {
    let place = match args.on {
        On::Here => Place::Here,
        On::Slurm => Place::slurm(setup, args.srun_options.clone())?,
    };
    let options = &args.reframe_options;
    let suites = args.suites.iter().map(|typed| Suite::find(setup, typed, options.clone()));
    let suites: Vec<Suite> = suites.collect::<Result<_>>()?;
    let described = described(suites.iter().map(|suite| suite.directory.as_path()))?;
    let request = CheckRequest {
        only: args.only.clone(),
        place,
        limit: args.limit,
        work_directory: args.work_directory.clone(),
        suites: SuiteRequest::find(setup, suites)?,
    };
    let subjects: Vec<Subject> = args
        .images
        .iter()
        .map(|image| Subject::find(setup, image, args.key.is_some()))
        .collect::<Result<_>>()?;
    let key = args.key.as_deref().map(|path| signing_key(setup, path)).transpose()?;
    let connection = args.attach.then(|| args.registry.connect(setup)).transpose()?;
    let mut reports = Vec::new();
    let mut left: Vec<_> = subjects.iter().map(|subject| (subject, request.clone())).collect();
    // Several images are measured in turns: a machine that is slow for a minute is slow for each.
    for round in 0..args.repeat {
        for (subject, request) in std::mem::take(&mut left) {
            let report = run(setup, subject, &request, &mut |result| {
                setup.detail(line(result));
            })?;
            if !args.json {
                setup.printer.data(text(&report, &described, setup.is_verbose()));
            }
            if let Some(key) = &key {
                sign(setup, &report, key, connection.as_ref())?;
            }
            // What measures is found in the first run: a later one may fail.
            let next = if round == 0 { request.repeated(&report) } else { Some(request) };
            if next.is_none() && args.repeat > 1 {
                let image = escape(&subject.typed);
                setup.warning(format_args!("no check of {image} measured anything; it ran once"));
            }
            left.extend(next.map(|request| (subject, request)));
            reports.push(report);
        }
    }
    if args.json {
        setup.printer.json(&reports);
    }
    if let Some(path) = &args.junit {
        fs::write(path, junit(&reports)).or_failed(|| format!("write {}", path.display()))?;
    }
    if let Some(path) = &args.html {
        let of = |subject: &Subject| {
            let all: Vec<&CheckReport> =
                reports.iter().filter(|report| report.digest == subject.digest).collect();
            Results::of_reports(&all)
        };
        let results: Vec<Results> = subjects.iter().filter_map(of).collect();
        write_page(path, &results, &described)?;
    }
    let outcome = Outcome::of_all(reports.iter().map(|report| report.outcome));
    Ok(outcome.into())
}

/// Signs the results, attaches them to the image, and keeps them beside it.
fn sign(
    setup: &Setup,
    report: &CheckReport,
    key: &SigningKey,
    connection: Option<&Connection>,
) -> Result<()> {
    let generation = setup.settings.evidence.generation.as_deref();
    let remote = connection.map(|connection| in_registry(setup, connection, report)).transpose();
    let manifest = remote.as_ref().ok().and_then(|remote| Some(&remote.as_ref()?.manifest));
    let signed = SignedStatement::sign(&test_statement(report, manifest, generation), key)?;
    let id = signed.id().id();
    // One place that fails must not lose the results for the other.
    let kept = keep(setup, &report.digest, std::slice::from_ref(&signed));
    for name in kept.iter().flatten() {
        setup.note(format_args!("kept the statement {id} in the repository `{name}`"));
    }
    let remote = remote?;
    if let (Some(connection), Some(image)) = (connection, &remote) {
        attach_evidence(connection, image, &[signed])?;
        setup.note(format_args!("attached the statement {id} to {}", image.place));
    } else if kept?.is_empty() {
        setup.warning("no repository has this image; the signed results are lost");
        setup.hint("`cabane image add` puts it into a repository");
    }
    Ok(())
}

/// Finds the image that was tested in the registry. Its label may be another image there by now.
fn in_registry(
    setup: &Setup,
    connection: &Connection,
    report: &CheckReport,
) -> Result<RemoteImage> {
    let typed = report.label.as_ref().map_or_else(|| report.image.clone(), ToString::to_string);
    let found = find_evidence(setup, Some(connection), &typed)?;
    let name = &found.name;
    let tested = found.remote.filter(|image| image.digest == report.digest);
    tested.ok_or_else(|| {
        let (here, there) = (report.digest.id(), found.digest.id());
        let message = format!("{name} is the image {there} in the registry, and {here} was tested");
        Report::new(Kind::Failure, message)
            .hinted(format!("`cabane image push {typed}` pushes the image that was tested"))
    })
}

fn line(result: &CheckResult) -> String {
    let reason = result.reason.as_deref().unwrap_or_default();
    format!("{}: {} {}", escape(&result.name), result.outcome, escape(reason))
}

fn text(report: &CheckReport, described: &[RowDescription], is_verbose: bool) -> String {
    let results = Results::of_reports(&[report]);
    let rows = results.map(|results| rows(&results, described)).unwrap_or_default();
    let mut figures = OtherFigures::new(&rows, is_verbose);
    let mut table = Table::new(&["check", "outcome", ">time", "reason"]);
    for check in &report.checks {
        let said = figures.add(&check.name, check.reason.as_deref(), &check.figures);
        let time = format!("{:.1} s", check.seconds);
        table.push(&[&escape(&check.name), &check.outcome, &time, &said]);
    }
    let name = report
        .label
        .as_ref()
        .map_or_else(|| escape(&report.image).into_owned(), ToString::to_string);
    let (id, outcome) = (report.digest.id(), colored(report.outcome));
    format!("{table}{}{name} ({id}): {outcome}\n", figures.text())
}
