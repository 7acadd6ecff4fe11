// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Builds and checks as jobs of Slurm.
//!
//! Cells that need the same nodes are one array of builds and one of checks. Each check begins when the
//! build of its cell has succeeded (`aftercorr`); where that fails, Slurm removes the check instead of
//! leaving it pending forever (`--kill-on-invalid-dep`). What came of a task is read from the file that it
//! writes: without accounting, Slurm forgets a job after some minutes.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::Instant;

use cabane_batch::{ASK_SLURM, Absence, LOOK_FOR_RESULTS, Slurm, Submission};
use cabane_evidence::Outcome;
use cabane_label::{Digest, shown};
use cabane_recipe::Resources;
use cabane_report::{IoContext, Kind, Report, Result};
use cabane_site::{Context, env_vars};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cell::{Cell, CellName};
use crate::directory::{RunDirectory, write_json};
use crate::here::{Event, Processes};
use crate::plan::PlannedCell;
use crate::stage::{Stage, StageResult};

/// The most tasks of one array. Slurm's own limit is 1001 where a site has not changed it.
const MOST_TASKS: usize = 1000;

/// How jobs are submitted.
#[derive(Clone, Debug)]
pub struct JobOptions {
    slurm: Slurm,
    /// More options of `sbatch`.
    pub options: Vec<String>,
    /// How many tasks of an array may run at the same time.
    pub throttle: Option<usize>,
}

impl JobOptions {
    /// Finds the programs of Slurm.
    ///
    /// # Errors
    ///
    /// They are not in `PATH`.
    pub fn find(context: &Context, options: Vec<String>, throttle: Option<usize>) -> Result<Self> {
        let slurm = Slurm::find(context, "`--on here` builds and checks on this machine")?;
        Ok(Self { slurm, options, throttle })
    }
}

/// Jobs that were submitted, for the run that comes after a killed one.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Jobs {
    jobs: Vec<Job>,
}

/// An array.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Job {
    /// `None` while it is submitted: a run that is killed then does not know whether Slurm has it.
    id: Option<u64>,
    /// By which Slurm knows it as well.
    #[serde(default)]
    name: String,
    stage: Stage,
    /// The cells in the order of the tasks, and what they are built from.
    cells: Vec<(CellName, Digest)>,
}

impl Jobs {
    fn read(path: &Path) -> Self {
        let text = fs::read(path).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// Asks Slurm for the jobs that a run submitted when it was killed, and forgets those that it does
    /// not have. Returns whether there were any.
    fn find(&mut self, context: &Context, slurm: &Slurm) -> Result<bool> {
        let is_open = |job: &Job| job.id.is_none();
        if !self.jobs.iter().any(is_open) {
            return Ok(false);
        }
        for job in self.jobs.iter_mut().filter(|job| is_open(job)) {
            job.id = slurm.named(context, &job.name)?.first().copied();
        }
        self.jobs.retain(|job| !is_open(job));
        Ok(true)
    }
}

/// A task that is waited for.
struct Task<'p> {
    cell: &'p Cell,
    stage: Stage,
    name: String,
    absence: Absence,
}

/// Carries out a plan: builds and checks as jobs, the rest here.
pub(crate) fn all(
    processes: &Processes<'_>,
    slurm: &JobOptions,
    planned: &[PlannedCell<'_>],
    at_once: usize,
    report: &mut (dyn FnMut(Event<'_>) + Send),
) -> Result<()> {
    let queue = Queue { processes, slurm };
    let mut tasks = queue.adopt(planned)?;
    let adopted: BTreeSet<CellName> = tasks.iter().map(|task| task.cell.name.clone()).collect();
    let mut fresh: Vec<PlannedCell<'_>> = planned
        .iter()
        .filter(|one| !adopted.contains(&one.cell.name) && !one.stages.is_empty())
        .cloned()
        .collect();
    // Nodes need no way to the registry: what it has is pulled here.
    for one in fresh.iter_mut().filter(|one| one.is_published && one.stages.contains(&Stage::Build))
    {
        processes.cell(one.cell, &[Stage::Build], &mut |event| report(event))?;
        let has_image = processes.can_begin(one.cell, Stage::Check);
        one.stages.retain(|stage| has_image && *stage != Stage::Build);
    }
    fresh.retain(|one| !one.stages.is_empty());
    let fresh: Vec<&PlannedCell<'_>> = fresh.iter().collect();
    tasks.extend(queue.submit_all(&fresh, report)?);
    // What needs no node begins at once.
    let waiting: BTreeSet<&CellName> = tasks.iter().map(|task| &task.cell.name).collect();
    let ready: Vec<PlannedCell<'_>> = fresh
        .iter()
        .filter(|one| !waiting.contains(&one.cell.name))
        .map(|one| (*one).clone())
        .collect();
    processes.all(&ready, at_once, report)?;
    let stages: BTreeMap<&CellName, &[Stage]> =
        planned.iter().map(|one| (&one.cell.name, one.stages.as_slice())).collect();
    let mut asked = Instant::now();
    while !tasks.is_empty() {
        if processes.interrupt.load(Ordering::Relaxed) {
            processes.context.note(format_args!("{} tasks of Slurm go on", tasks.len()));
            processes
                .context
                .hint("the same command waits for them; `cabane pipeline cancel` cancels them");
            return Ok(());
        }
        let is_time = asked.elapsed() > ASK_SLURM;
        let names = tasks.iter().map(|task| &task.name);
        let active = if is_time { Some(queue.active(names)?) } else { None };
        if is_time {
            asked = Instant::now();
        }
        let mut rest = Vec::new();
        for mut task in tasks {
            let Some(result) = queue.result(&mut task, active.as_ref())? else {
                rest.push(task);
                continue;
            };
            report(Event::Finished(task.cell, &result));
            let later: &[Stage] = stages.get(&task.cell.name).copied().unwrap_or(&[]);
            let is_last = task.stage == Stage::Check || result.outcome != Outcome::Passed;
            if is_last {
                let later: Vec<Stage> =
                    later.iter().copied().filter(|stage| *stage > Stage::Check).collect();
                processes.cell(task.cell, &later, &mut |event| report(event))?;
            }
        }
        // A check whose build did not pass is never begun.
        rest.retain(|task: &Task<'_>| task.stage != Stage::Check || queue.may_come(task.cell));
        tasks = rest;
        sleep(LOOK_FOR_RESULTS);
    }
    Ok(())
}

struct Queue<'a> {
    processes: &'a Processes<'a>,
    slurm: &'a JobOptions,
}

impl Queue<'_> {
    fn run(&self) -> &RunDirectory {
        self.processes.run
    }

    fn jobs_file(&self) -> PathBuf {
        self.run().root().join("slurm/jobs.json")
    }

    fn jobs(&self) -> Jobs {
        Jobs::read(&self.jobs_file())
    }

    /// Whether the build of a cell has passed, or may yet.
    fn may_come(&self, cell: &Cell) -> bool {
        let build = self.run().result(cell, Stage::Build);
        build.is_none_or(|build| build.outcome == Outcome::Passed)
    }

    /// Takes over the tasks of an earlier run that are still there.
    fn adopt<'p>(&self, planned: &[PlannedCell<'p>]) -> Result<Vec<Task<'p>>> {
        let mut jobs = self.jobs();
        if jobs.find(self.processes.context, &self.slurm.slurm)? {
            write_json(&self.jobs_file(), &jobs)?;
        }
        let mut tasks = Vec::new();
        let mut outdated: Vec<String> = Vec::new();
        for (id, job) in jobs.jobs.iter().filter_map(|job| Some((job.id?, job))) {
            for (number, (name, inputs)) in job.cells.iter().enumerate() {
                let meant = planned.iter().find(|one| one.cell.name == *name);
                let meant = meant.filter(|one| one.stages.contains(&job.stage));
                let Some(meant) = meant else { continue };
                if meant.cell.inputs != *inputs {
                    outdated.push(format!("{id}_{number}"));
                    continue;
                }
                tasks.push(Task {
                    cell: meant.cell,
                    stage: job.stage,
                    name: format!("{id}_{number}"),
                    absence: Absence::default(),
                });
            }
        }
        if tasks.is_empty() && outdated.is_empty() {
            return Ok(tasks);
        }
        let active = self.active(tasks.iter().map(|task| &task.name).chain(&outdated))?;
        tasks.retain(|task| active.contains(&task.name));
        // A run that was killed may have submitted the build and not the check.
        let is_whole = |cell: &Cell| {
            let planned = planned.iter().find(|one| one.cell.name == cell.name);
            let stages = planned.map(|one| one.stages.as_slice()).unwrap_or_default();
            let on_nodes = stages.iter().filter(|stage| **stage <= Stage::Check);
            let has_task = |stage: &Stage| {
                tasks.iter().any(|task| task.cell.name == cell.name && task.stage == *stage)
            };
            on_nodes.into_iter().all(|stage| {
                has_task(stage)
                    || *stage == Stage::Build && self.run().result(cell, *stage).is_some()
            })
        };
        let (whole, halves): (Vec<_>, Vec<_>) = tasks.iter().partition(|task| is_whole(task.cell));
        let whole: BTreeSet<String> = whole.iter().map(|task| task.name.clone()).collect();
        outdated.retain(|name| active.contains(name));
        outdated.extend(halves.iter().map(|task| task.name.clone()));
        tasks.retain(|task| whole.contains(&task.name));
        if !outdated.is_empty() {
            self.slurm.slurm.cancel(&outdated)?;
        }
        if !tasks.is_empty() {
            let count = tasks.len();
            self.processes
                .context
                .note(format_args!("waiting for {count} tasks of an earlier run"));
        }
        Ok(tasks)
    }

    /// Submits builds and checks, as few arrays as their needs allow.
    fn submit_all<'p>(
        &self,
        fresh: &[&PlannedCell<'p>],
        report: &mut (dyn FnMut(Event<'_>) + Send),
    ) -> Result<Vec<Task<'p>>> {
        let mut groups: BTreeMap<Vec<String>, Vec<&PlannedCell<'p>>> = BTreeMap::new();
        for one in fresh {
            let needs = |stage| one.stages.contains(&stage);
            if !needs(Stage::Build) && !needs(Stage::Check) {
                continue;
            }
            let mut key = vec![one.cell.name.system.to_string(), needs(Stage::Build).to_string()];
            key.extend(sbatch_options(one.cell, Stage::Build));
            key.push(String::new());
            key.extend(sbatch_options(one.cell, Stage::Check));
            groups.entry(key).or_default().push(one);
        }
        let mut tasks = Vec::new();
        for group in groups.values() {
            for part in group.chunks(MOST_TASKS) {
                let mut build = None;
                for one in part {
                    // What is there from now on is the result of these jobs.
                    let first = one.stages.first().copied().unwrap_or(Stage::Check);
                    self.run().forget(&one.cell.name, first)?;
                }
                let is_built = part.iter().all(|one| !one.stages.contains(&Stage::Build));
                if !is_built {
                    let id = self.submit(part, Stage::Build, None, report)?;
                    tasks.extend(tasks_of(part, Stage::Build, id));
                    build = Some(id);
                }
                let id = self.submit(part, Stage::Check, build, report)?;
                tasks.extend(tasks_of(part, Stage::Check, id));
            }
        }
        Ok(tasks)
    }

    /// Submits an array.
    fn submit(
        &self,
        part: &[&PlannedCell<'_>],
        stage: Stage,
        after: Option<u64>,
        report: &mut (dyn FnMut(Event<'_>) + Send),
    ) -> Result<u64> {
        let Some(first) = part.first() else {
            return Err(Report::new(Kind::Failure, "there is nothing to submit"));
        };
        let directory = self.run().root().join("slurm");
        let cells = part.iter().map(|one| (one.cell.name.clone(), one.cell.inputs.clone()));
        let cells: Vec<(CellName, Digest)> = cells.collect();
        let lines: Vec<String> =
            cells.iter().map(|(name, inputs)| format!("{name} {inputs}")).collect();
        let lines = lines.join("\n");
        let list =
            directory.join(format!("{}.cells", cabane_builder::digest_of(lines.as_bytes()).id()));
        cabane_registry::write_at_once(&list, lines.as_bytes())
            .or_failed(|| format!("write {}", shown(&list)))?;
        let mut words = self.processes.beginning(&first.cell.name.system)?;
        words.extend([stage.as_str().into(), "--array".into(), list.into_os_string()]);
        words.extend(self.processes.options_of_job()?);
        words.extend(["--log".into()]);
        let end = part.len() - 1;
        let throttle = self.slurm.throttle.map(|most| format!("%{most}")).unwrap_or_default();
        let mut sbatch = vec![format!("--array=0-{end}{throttle}")];
        sbatch.extend(sbatch_options(first.cell, stage));
        sbatch.extend(self.slurm.options.iter().cloned());
        // It comes last, since the name must be ours. No two submissions have the same.
        let run = self.run().root().as_os_str().as_bytes();
        let now = Timestamp::now().to_string();
        let sum = [run, b"\0", lines.as_bytes(), b"\0", now.as_bytes()].concat();
        let sum = cabane_builder::digest_of(&sum);
        let name = format!("cabane-{stage}-{}", sum.id());
        sbatch.push(format!("--job-name={name}"));
        sbatch.push(format!("--output={}", directory.join("%A_%a.out").display()));
        if let Some(after) = after {
            sbatch.push(format!("--dependency=aftercorr:{after}"));
            sbatch.push("--kill-on-invalid-dep=yes".to_owned());
        }
        let submission = Submission {
            what: format!("the {stage} of {}", first.cell.name),
            hint: "change `resources` in the pipeline, or pass options with `--sbatch=OPTION`",
            options: sbatch,
            words: &words,
            variables: &first.cell.target.variables,
        };
        let mut jobs = self.jobs();
        // Those of the stage that were before are no longer needed for these cells.
        for job in jobs.jobs.iter_mut().filter(|job| job.stage == stage) {
            let is_here = |name: &CellName| cells.iter().any(|(one, _)| one == name);
            if job.cells.iter().all(|(name, _)| is_here(name)) {
                job.cells.clear();
            }
        }
        jobs.jobs.retain(|job| !job.cells.is_empty());
        let count = match cells.len() {
            1 => "1 cell".to_owned(),
            count => format!("{count} cells"),
        };
        jobs.jobs.push(Job { id: None, name, stage, cells });
        write_json(&self.jobs_file(), &jobs)?;
        let id = self.slurm.slurm.submit(self.processes.context, &submission)?;
        if let Some(job) = jobs.jobs.last_mut() {
            job.id = Some(id);
        }
        write_json(&self.jobs_file(), &jobs)?;
        report(Event::Submitted(&format!("job {id}: {stage} of {count}")));
        Ok(id)
    }

    /// Returns the tasks of which Slurm still knows something to do.
    fn active<'t>(
        &self,
        tasks: impl Iterator<Item = &'t String> + Clone,
    ) -> Result<BTreeSet<String>> {
        self.slurm.slurm.active(self.processes.context, tasks)
    }

    /// Returns what came of a task, if it has ended.
    fn result(
        &self,
        task: &mut Task<'_>,
        active: Option<&BTreeSet<String>>,
    ) -> Result<Option<StageResult>> {
        if let Some(result) = self.run().result(task.cell, task.stage) {
            return Ok(Some(result));
        }
        if let Some(active) = active {
            task.absence.note(active.contains(&task.name));
        }
        if !task.absence.is_certain() {
            return Ok(None);
        }
        let message = format!("job {} ended without a result", task.name);
        let output = self.run().root().join("slurm").join(format!("{}.out", task.name));
        let printed = fs::read(&output).unwrap_or_default();
        let printed = String::from_utf8_lossy(&printed).into_owned();
        let report = Report::new(Kind::Failure, message).detailed(printed);
        let result = StageResult::of_failure(task.stage, task.cell, Timestamp::now(), &report);
        self.run().keep(&task.cell.name, &result)?;
        Ok(Some(result))
    }
}

/// Ends the jobs that an interrupted run has left. Returns how many there were.
///
/// # Errors
///
/// Slurm does not answer.
pub fn cancel(context: &Context, options: &JobOptions, run: &RunDirectory) -> Result<usize> {
    let _lock = run.lock()?;
    let file = run.root().join("slurm/jobs.json");
    let mut jobs = Jobs::read(&file);
    jobs.find(context, &options.slurm)?;
    let ids = jobs.jobs.iter().filter_map(|job| job.id.map(|id| id.to_string()));
    let ids: Vec<String> = ids.collect();
    if ids.is_empty() {
        return Ok(0);
    }
    options.slurm.cancel(&ids)?;
    write_json(&file, &Jobs::default())?;
    Ok(ids.len())
}

/// Returns the cell of the task of an array in which this runs, and what it was built from when the task
/// was submitted.
///
/// # Errors
///
/// This is no task, or the list of cells cannot be read.
pub fn cell_of_task(context: &Context, list: &Path) -> Result<(CellName, Digest)> {
    let number = context.calling.get(OsStr::new(env_vars::SLURM_ARRAY_TASK_ID));
    let number: Option<usize> = number.and_then(|text| text.to_str()?.parse().ok());
    let number = number.ok_or_else(|| {
        Report::new(Kind::Usage, "this is no task of an array of Slurm")
            .hinted("name the cell instead of `--array FILE`".to_owned())
    })?;
    let text = fs::read_to_string(list).or_failed(|| format!("read {}", shown(list)))?;
    let line = text.lines().nth(number).ok_or_else(|| {
        let message = format!("{} has no line for task {number}", shown(list));
        Report::new(Kind::BadInput, message)
    })?;
    let (name, inputs) = line.split_once(' ').unwrap_or((line, ""));
    Ok((name.parse()?, inputs.parse()?))
}

fn tasks_of<'p>(
    part: &[&PlannedCell<'p>],
    stage: Stage,
    id: u64,
) -> impl Iterator<Item = Task<'p>> {
    part.iter().enumerate().map(move |(number, one)| Task {
        cell: one.cell,
        stage,
        name: format!("{id}_{number}"),
        absence: Absence::default(),
    })
}

/// Returns the options with which `sbatch` finds the nodes of a cell.
fn sbatch_options(cell: &Cell, stage: Stage) -> Vec<String> {
    let resources = if stage == Stage::Build { &cell.build } else { &cell.check };
    let Resources { partition, nodes, cpus, memory, time, options } = resources;
    let mut words: BTreeMap<&str, String> = BTreeMap::new();
    // What the jobs of a CI have as variables.
    for (variable, option) in [
        ("SLURM_ACCOUNT", "account"),
        ("SLURM_CONSTRAINT", "constraint"),
        ("SLURM_CPUS_PER_TASK", "cpus-per-task"),
        ("SLURM_TIMELIMIT", "time"),
    ] {
        if let Some(value) = cell.target.variables.get(variable) {
            words.insert(option, value.clone());
        }
    }
    let partition = partition.as_ref().or(cell.target.partition.as_ref());
    let mut put = |option, value: Option<String>| {
        if let Some(value) = value {
            words.insert(option, value);
        }
    };
    put("partition", partition.cloned());
    put("nodes", nodes.map(|nodes| nodes.to_string()));
    put("cpus-per-task", cpus.map(|cpus| cpus.to_string()));
    put("mem", memory.map(|memory| format!("{}M", memory.div_ceil(1 << 20))));
    put("time", time.map(|time| time.as_secs().div_ceil(60).to_string()));
    let words = words.into_iter().map(|(option, value)| format!("--{option}={value}"));
    words.chain(options.iter().cloned()).collect()
}
