// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The audit: finds installations, runs the benchmark with each, and sorts them.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use cabane_label::{escape, shown};
use cabane_report::{IoContext, Kind, Report, Result};
use cabane_site::{Context, env_vars};

use crate::benchmark::NodeType;
use crate::find::{FindRequest, find};
use crate::judge::{AuditChange, Class, ComparedInstallation, EarlierAudit, Floor, Reference};
use crate::kept_files::KeptFiles;
use crate::run::{
    Manner, OtherBenchmark, PmiTypes, Runner, Settings, Tried, allowed_processors,
    audit as try_all, other_benchmarks,
};

/// What is audited, and how.
#[derive(Clone, Debug)]
pub struct AuditRequest {
    /// Where to look for installations.
    pub find: FindRequest,
    /// The number of ranks.
    pub ranks: u32,
    /// The number of nodes, if Slurm starts the ranks instead of the launchers of the
    /// installations.
    pub nodes: Option<u32>,
    /// A file with latencies to compare with. By default, those of the healthy installations are
    /// compared with each other.
    pub reference: Option<PathBuf>,
    /// A file with the JSON output of an earlier audit, to find what has changed since.
    pub compare: Option<PathBuf>,
    /// Whether the results are kept for later audits on nodes of the same type, and compared with
    /// those of earlier ones.
    pub keep: bool,
    /// The time limit of each compilation and run.
    pub limit: Duration,
    /// How long each run measures, in seconds.
    pub measure: f64,
    /// The directory below which programs are compiled and run, instead of that for temporary files.
    pub work_directory: Option<PathBuf>,
}

/// What was found.
#[derive(Debug)]
pub struct Audited {
    /// The installations, the best first.
    pub tried: Vec<Tried>,
    /// Of each installation, the results of benchmarks of others.
    pub others: Vec<Vec<OtherBenchmark>>,
    /// The type of the node of the first rank, as far as it is known.
    pub node_type: Option<NodeType>,
    /// What the node did without MPI in the meantime; nothing over several nodes.
    pub floor: Floor,
    /// What has changed since the audit that was named, or since the day before today on which a
    /// result was kept for the installation; `None` without an earlier audit.
    pub changes: Option<Vec<AuditChange>>,
}

/// Audits installations of MPI.
///
/// # Errors
///
/// Nothing was found, or something that was named cannot be used.
pub fn audit(context: &Context, request: &AuditRequest) -> Result<Audited> {
    if !(request.measure > 0.0 && request.measure <= 600.0) {
        let error = format!("cannot measure for {} seconds", request.measure);
        return Err(Report::new(Kind::Usage, error));
    }
    let files = KeptFiles::new(context, request.ranks, request.nodes.unwrap_or(1));
    let settings = settings(context, request, &files)?;
    let earlier = request.compare.as_deref().map(|path| earlier(path, request)).transpose()?;
    let runner = runner(context, request)?;
    let installations = find(context, &request.find, &runner)?;
    if installations.is_empty() {
        let hint = "name a prefix: cabane mpi audit /opt/mpich".to_owned();
        return Err(Report::new(Kind::NotFound, "no MPI installation was found").hinted(hint));
    }
    let count = installations.len();
    let runs = if count == 1 { "installation" } else { "installations" };
    context.note(format_args!("trying {count} {runs}"));
    let note = |text: &str| context.detail(escape(text));
    let (mut tried, floor) = try_all(&installations, &runner, &settings, &note)
        .or_failed(|| "write the program that is compiled".to_owned())?;
    tried.sort_by_key(|one| one.verdict.class);
    let others = tried.iter().map(|one| other(one, &runner, &settings.manner)).collect();
    let now: Vec<_> = tried.iter().map(for_comparison).collect();
    let heard = || tried.iter().find_map(|one| one.outcome.output().node_type.as_ref());
    let node_type = settings.node_type.as_ref().or_else(heard).cloned();
    let keep = |node| files.keep(context, node, &now);
    let kept = node_type.as_ref().filter(|_| request.keep).map(keep);
    let changes = earlier.map(|earlier| earlier.changes(&now)).or(kept);
    Ok(Audited { tried, others, node_type, floor, changes })
}

fn for_comparison(one: &Tried) -> ComparedInstallation {
    ComparedInstallation {
        name: one.installation.name.clone(),
        class: one.verdict.class,
        figures: one.outcome.output().figures.clone(),
    }
}

impl Audited {
    /// Returns whether an installation is of a class.
    pub fn has(&self, class: Class) -> bool {
        self.tried.iter().any(|one| one.verdict.class == class)
    }

    /// Returns the latencies of the healthy installations, to compare others with.
    ///
    /// # Errors
    ///
    /// None is healthy.
    pub fn reference(&self, system: &str, nodes: u32) -> Result<Reference> {
        let healthy = self.tried.iter();
        let healthy = healthy.filter(|one| one.verdict.class.is_healthy());
        let latencies: Vec<_> = healthy.filter_map(|one| one.outcome.latencies()).collect();
        Reference::new(system, nodes, &latencies).ok_or_else(|| {
            Report::new(Kind::Failure, "no installation is healthy, and nothing can be kept")
        })
    }
}

/// Reads an earlier audit.
///
/// # Errors
///
/// It cannot be read, or cannot be compared with.
fn earlier(path: &Path, request: &AuditRequest) -> Result<EarlierAudit> {
    let text =
        fs::read_to_string(path).or_failed(|| format!("read the audit `{}`", shown(path)))?;
    EarlierAudit::from_json(&text, request.ranks, request.nodes.unwrap_or(1)).map_err(|error| {
        let text = format!("the audit `{}` cannot be compared", shown(path));
        Report::caused(Kind::BadInput, text, error.into_error())
    })
}

fn settings(context: &Context, request: &AuditRequest, files: &KeptFiles) -> Result<Settings> {
    let kept = if request.keep { files.all() } else { Vec::new() };
    Ok(Settings {
        ranks: request.ranks,
        measure: Duration::from_secs_f64(request.measure),
        manner: manner(context, request)?,
        node_type: request.nodes.is_none().then(NodeType::of_this_node).flatten(),
        processors: allowed_processors().len(),
        reference: request
            .reference
            .as_deref()
            .map(|path| reference(path, request.nodes.unwrap_or(1)))
            .transpose()?,
        kept: kept
            .into_iter()
            .filter_map(|one| Some((one.node_type.clone(), one.reference()?)))
            .collect(),
    })
}

fn reference(path: &Path, nodes: u32) -> Result<Reference> {
    let text =
        fs::read_to_string(path).or_failed(|| format!("read the references `{}`", shown(path)))?;
    let reference = Reference::from_json(&text).map_err(|error| {
        let text = format!("{} cannot be used", shown(path));
        Report::caused(Kind::BadInput, text, error.into_error())
    })?;
    if (reference.nodes == 1) != (nodes == 1) {
        let (kept, wanted) = (reference.nodes, nodes);
        let error = format!("the references are for {kept} nodes, and these ranks are on {wanted}");
        return Err(Report::new(Kind::BadInput, error));
    }
    Ok(reference)
}

fn manner(context: &Context, request: &AuditRequest) -> Result<Manner> {
    let Some(nodes) = request.nodes else {
        return Ok(Manner::Launcher);
    };
    let path = context.calling.get(OsStr::new(env_vars::PATH));
    let directories = path.map(std::env::split_paths).into_iter().flatten();
    let srun = directories.map(|directory| directory.join("srun")).find(|srun| srun.exists());
    let srun = srun.ok_or_else(|| Report::new(Kind::NotFound, "there is no `srun` in PATH"))?;
    let list = Command::new(&srun).arg("--mpi=list").output();
    let list = list.or_failed(|| format!("run `{} --mpi=list`", srun.display()))?;
    // Releases disagree about where they say it.
    let output = [list.stdout, list.stderr].concat();
    Ok(Manner::Slurm { srun, nodes, types: PmiTypes::from_list(&String::from_utf8_lossy(&output)) })
}

fn runner(context: &Context, request: &AuditRequest) -> Result<Runner> {
    let parent = request.work_directory.clone().unwrap_or_else(std::env::temp_dir);
    let is_slurms =
        |name: &OsString| request.nodes.is_some() && name.as_encoded_bytes().starts_with(b"SLURM");
    let mut variables: BTreeMap<_, _> = (context.calling.iter())
        .filter(|(name, _)| is_slurms(name))
        .filter_map(|(name, value)| Some((name.to_str()?.to_owned(), value.to_str()?.to_owned())))
        .collect();
    if request.nodes.is_some() {
        // The directory may be far away, and is the same for all nodes.
        variables.insert("TMPDIR".to_owned(), "/tmp".to_owned());
    }
    Runner::new(&parent, variables, request.limit)
        .or_failed(|| format!("make a directory in `{}`", shown(&parent)))
}

/// Benchmarks of others are run only where the library works: they have no limits.
fn other(one: &Tried, runner: &Runner, manner: &Manner) -> Vec<OtherBenchmark> {
    match one.verdict.class {
        Class::Nonfunctional | Class::Misplaced => Vec::new(),
        _ => other_benchmarks(&one.installation, runner, manner, one.pmi.as_deref()),
    }
}
