// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Packages that are built on several nodes, before the installation takes them from the cache.
//!
//! ```text
//! <cache>/workers/<id>/     of one build, removed at its end
//! ├── inputs/               what was concretized
//! └── <number>/             of one worker: logs, and what is not in its memory
//!     └── output            what it prints
//! ```
//!
//! A worker is a process on a node. The build tells it over a pipe which packages to build, and reads there
//! what happens. So no file is a lock, and no clocks are compared. The end of a worker is the end of its pipe.
//! Only the cache directory must be on a file system that all nodes see.

mod queue;
mod wire;
mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::BufReader;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use cabane_label::escape;
use cabane_report::{Kind, Report};
use cabane_spack::SpackEnvironment;
use queue::Queue;
pub use wire::WorkerTask;
use wire::{Answer, Question};
pub use worker::work_on_packages;

use super::session::INPUTS;
use super::sources::RECORD;
use super::watch::Watch;
use super::{SpackEngine, fetch, hooks, lock};
use crate::build_context::BuildContext;
use crate::{
    BuildError, Origin, PackageChange, Result, WorkerCommand, disk, fingerprint, metadata, process,
};

/// How long a worker may be silent.
const SILENCE: Duration = Duration::from_secs(60);
/// How long a worker may take to end.
const TO_END: Duration = Duration::from_secs(10);
/// How long a package may take to be seen by another node. Network file systems remember for up to a minute
/// that a file is missing.
const UNTIL_VISIBLE: Duration = Duration::from_secs(70);
/// How many workers may be lost with a package.
const MOST_LOSSES: usize = 2;
/// How often to look whether the user has interrupted the build.
const TICK: Duration = Duration::from_millis(100);

/// Builds the missing packages of an environment with the workers of the build. Afterwards they are in the
/// cache. If no worker is left, the rest is missing, and the installation builds it.
pub(super) fn build(
    engine: &SpackEngine,
    environment: &SpackEnvironment,
    watch: &mut Watch<'_>,
    bench: &mut BuildContext<'_>,
) -> Result<()> {
    if engine.request.workers.is_empty() {
        return Ok(());
    }
    if let Some(reason) = obstacle(engine, environment) {
        bench.progress.remark(&format!("all packages are built on one node: {reason}"));
        return Ok(());
    }
    let missing = fetch::missing(engine, &environment.name, watch)?;
    if missing.len() < 2 {
        return Ok(());
    }
    let needs = needs(engine, environment, &missing)?;
    let queue = Queue::new(needs, &|hash| watch.expected(hash));
    let shared = Shared::prepare(engine, bench)?;
    let mut team = Team::start(engine, environment, &shared, queue, bench)?;
    let built = team.work(watch, bench);
    team.end();
    shared.keep_logs(&team, bench);
    built?;
    watch.wait_for(&team.built, UNTIL_VISIBLE, bench.interrupt);
    bench.check_interrupt()
}

/// Why packages cannot be built on several nodes, if so.
fn obstacle(engine: &SpackEngine, environment: &SpackEnvironment) -> Option<&'static str> {
    if hooks::exists(engine, hooks::PRE_INSTALL) {
        return Some("the recipe has a script `pre-install`");
    }
    if engine.guarded.has_packages() {
        return Some("packages come from a mirror with secrets");
    }
    let is_chained = !environment.needs.is_empty();
    is_chained.then_some("their compiler is in an environment of its own")
}

/// Returns for each missing package the other ones that must be built before.
fn needs(
    engine: &SpackEngine,
    environment: &SpackEnvironment,
    missing: &BTreeSet<String>,
) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let packages = lock::read(&super::inputs::lock_file(&engine.layout, &environment.name))?;
    let of = |hash: &String| {
        let mut found = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut open = vec![hash.as_str()];
        while let Some(next) = open.pop() {
            let Some(package) = packages.get(next).filter(|_| seen.insert(next)) else { continue };
            let is_first = next == hash;
            for need in &package.dependencies {
                if missing.contains(&need.hash) {
                    found.insert(need.hash.clone());
                } else if is_first || fetch::is_run_time(need) {
                    // It is in a cache, and needs less.
                    open.push(&need.hash);
                }
            }
        }
        found.remove(hash);
        (hash.clone(), found)
    };
    Ok(missing.iter().map(of).collect())
}

/// Copies what was concretized from one work directory to another.
fn copy_inputs(from: &Path, to: &Path) -> Result<()> {
    metadata::copy_all(&from.join(INPUTS), &to.join(INPUTS))?;
    metadata::copy_file(&from.join(RECORD), &to.join(RECORD))
}

/// The directory that all workers see.
struct Shared {
    path: PathBuf,
    is_kept: bool,
}

impl Shared {
    fn prepare(engine: &SpackEngine, bench: &BuildContext<'_>) -> Result<Self> {
        let root = engine.layout.root.to_string_lossy();
        let name = fingerprint::digest_of([&*worker::node(), &root]);
        let path = engine.request.cache_dir.join("workers").join(&name.as_str()[..16]);
        let shared = Self { path, is_kept: engine.request.keep };
        disk::make_empty(&shared.path)?;
        copy_inputs(&bench.layout.work(), &shared.inputs())?;
        for environment in &engine.stack.environments {
            // Locks of Spack, and what only belongs to this store.
            let own = shared.inputs().join("spack/env").join(&environment.name).join(".spack-env");
            disk::remove(&own)?;
        }
        Ok(shared)
    }

    fn inputs(&self) -> PathBuf {
        self.path.join("inputs")
    }

    fn worker(&self, number: usize) -> PathBuf {
        self.path.join(number.to_string())
    }

    /// Puts the logs of the workers beside that of the step.
    fn keep_logs(&self, team: &Team<'_>, bench: &BuildContext<'_>) {
        for (number, worker) in team.workers.iter().enumerate() {
            let from = self.worker(number).join("logs/install.log");
            let name = format!("install-{number}-{}.log", worker.name.replace('/', "-"));
            let _ = fs::copy(from, bench.layout.logs().join(name));
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The next build removes what cannot be removed now.
        let _ = if self.is_kept { Ok(()) } else { disk::remove(&self.path) };
    }
}

/// What a worker said; nothing if its pipe has ended.
type Heard = (usize, Option<Answer>);

/// The workers of a build, and what they build.
struct Team<'a> {
    workers: Vec<Worker>,
    heard: Receiver<Heard>,
    queue: Queue,
    shared: &'a Shared,
    /// Packages that were put into the cache.
    built: Vec<String>,
}

struct Worker {
    /// The name of its node, as soon as that is known.
    name: String,
    /// Nothing if it is lost.
    process: Option<Running>,
    state: State,
    last_heard: Instant,
    /// The most packages that it builds at once.
    most: usize,
}

struct Running {
    child: Child,
    questions: ChildStdin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Starts,
    Idle,
    Builds,
}

impl<'a> Team<'a> {
    fn start(
        engine: &SpackEngine,
        environment: &SpackEnvironment,
        shared: &'a Shared,
        queue: Queue,
        bench: &mut BuildContext<'_>,
    ) -> Result<Self> {
        let (sender, heard) = mpsc::channel();
        let mut team = Self { workers: Vec::new(), heard, queue, shared, built: Vec::new() };
        for (number, command) in engine.request.workers.iter().enumerate() {
            disk::make_directory(&shared.worker(number))?;
            let task = task(engine, environment, shared, number);
            let mut worker = Worker {
                name: command.name.clone(),
                process: None,
                state: State::Starts,
                last_heard: Instant::now(),
                most: 1,
            };
            match start(command, &shared.worker(number).join("output"), number, &sender) {
                Ok(process) => worker.process = Some(process),
                Err(error) => {
                    let name = escape(&worker.name);
                    bench.progress.warning(&format!("{name} builds no packages: {error}"));
                }
            }
            worker.ask(&Question::Begin(Box::new(task)));
            team.workers.push(worker);
        }
        Ok(team)
    }

    /// Shares out packages until all are built, or no worker is left.
    fn work(&mut self, watch: &mut Watch<'_>, bench: &mut BuildContext<'_>) -> Result<()> {
        while !self.queue.is_done() && self.workers.iter().any(|one| one.process.is_some()) {
            bench.check_interrupt()?;
            self.share_out();
            match self.heard.recv_timeout(TICK) {
                Ok((number, Some(answer))) => self.take(number, answer, watch, bench)?,
                Ok((number, None)) => self.lose(number, "it ended", watch, bench)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            for number in 0..self.workers.len() {
                if self.workers[number].last_heard.elapsed() > SILENCE {
                    self.lose(number, "it does not answer", watch, bench)?;
                }
            }
        }
        if !self.queue.is_done() {
            bench.progress.warning("no worker is left: the other packages are built on one node");
        }
        Ok(())
    }

    fn share_out(&mut self) {
        let is_idle = |one: &Worker| one.process.is_some() && one.state == State::Idle;
        for number in 0..self.workers.len() {
            let idle = self.workers.iter().filter(|one| is_idle(one)).count();
            let worker = &mut self.workers[number];
            if !is_idle(worker) {
                continue;
            }
            let hashes = self.queue.next(number, idle, worker.most);
            if hashes.is_empty() {
                return;
            }
            worker.state = State::Builds;
            worker.ask(&Question::Build { hashes, from_others: self.built.clone() });
        }
    }

    fn take(
        &mut self,
        number: usize,
        answer: Answer,
        watch: &mut Watch<'_>,
        bench: &mut BuildContext<'_>,
    ) -> Result<()> {
        let worker = &mut self.workers[number];
        if worker.process.is_none() {
            // It was given up, and what it builds is built again.
            return Ok(());
        }
        worker.last_heard = Instant::now();
        match answer {
            Answer::Beat => {}
            Answer::Ready { node, jobs } => {
                worker.name = node;
                // A package seldom keeps more than some processors busy.
                worker.most = (jobs / 2).max(1);
                worker.state = State::Idle;
            }
            Answer::Package { hash, change } => {
                if self.queue.is_with(&hash, number) {
                    let change = change.as_change();
                    if let PackageChange::Done { origin, .. } = change {
                        self.queue.finish(&hash);
                        self.built.extend((origin == Origin::Built).then(|| hash.clone()));
                    }
                    watch.note(&hash, change, &worker.name, bench.progress);
                }
            }
            Answer::Remark(text) => {
                let name = escape(&worker.name);
                bench.progress.remark(&format!("{name}: {}", escape(&text)));
            }
            Answer::Idle => {
                worker.state = State::Idle;
                // What was there before is not reported.
                for (hash, _) in self.queue.take_back(number, false) {
                    self.queue.finish(&hash);
                }
            }
            Answer::Failed(failed) => return Err(fail(failed.into_failure(), bench)),
            Answer::Ended(reason) => return self.lose(number, &escape(&reason), watch, bench),
        }
        Ok(())
    }

    /// Gives up a worker. Another one builds what it had.
    fn lose(
        &mut self,
        number: usize,
        reason: &str,
        watch: &mut Watch<'_>,
        bench: &mut BuildContext<'_>,
    ) -> Result<()> {
        let worker = &mut self.workers[number];
        let Some(process) = worker.process.take() else { return Ok(()) };
        process.end(Duration::ZERO);
        let name = escape(&worker.name).into_owned();
        let taken = self.queue.take_back(number, true);
        let lost: Vec<String> = taken.iter().map(|(hash, _)| watch.forget(hash)).collect();
        let builds =
            if lost.is_empty() { String::new() } else { format!(" with {}", lost.join(", ")) };
        let printed = process::tail(&self.shared.worker(number).join("output"));
        let printed = printed.last().map_or_else(String::new, |line| format!(" ({line})"));
        let text = format!("lost the worker on {name}{builds}: {reason}{printed}");
        if let Some((_, losses)) = taken.iter().find(|(_, losses)| *losses >= MOST_LOSSES) {
            let lost = lost.join(", ");
            let report = Report::new(
                Kind::Build,
                format!("{lost} was not built: {losses} workers were lost with it"),
            );
            return Err(report
                .detailed(text)
                .hinted("it may need more memory than the nodes have".to_owned())
                .into());
        }
        bench.progress.warning(&text);
        Ok(())
    }

    /// Ends all workers.
    fn end(&mut self) {
        let running: Vec<_> =
            self.workers.iter_mut().filter_map(|one| one.process.take()).collect();
        // All end at the same time.
        let children: Vec<Child> = running.into_iter().map(|one| one.child).collect();
        let begin = Instant::now();
        for child in children {
            wait_or_kill(child, TO_END.saturating_sub(begin.elapsed()));
        }
    }
}

impl Drop for Team<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

impl Worker {
    /// Asks the worker. One that does not listen is about to be lost.
    fn ask(&mut self, question: &Question) {
        if let Some(process) = &mut self.process {
            let _ = wire::send(&mut process.questions, question);
        }
    }
}

impl Running {
    fn end(self, patience: Duration) {
        drop(self.questions);
        wait_or_kill(self.child, patience);
    }
}

fn wait_or_kill(mut child: Child, patience: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < patience && matches!(child.try_wait(), Ok(None)) {
        thread::sleep(Duration::from_millis(20));
    }
    let _ = child.kill();
    let _ = child.wait();
}

fn task(
    engine: &SpackEngine,
    environment: &SpackEnvironment,
    shared: &Shared,
    number: usize,
) -> WorkerTask {
    WorkerTask {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        recipe: engine.recipe_dir.path.clone(),
        system: engine.request.system_dir.clone(),
        mirrors: engine.request.mirrors.clone(),
        cache: engine.request.cache_dir.clone(),
        shared_cache: engine.request.shared_cache.clone(),
        epoch: engine.request.epoch,
        mount_point: engine.store.to_string_lossy().into_owned(),
        inputs: shared.inputs(),
        directory: shared.worker(number).join("build"),
        environment: environment.name.clone(),
        machine: engine.host.clone(),
        python: engine.solver.program.clone(),
    }
}

/// Starts a worker. What it says arrives with its number.
fn start(
    command: &WorkerCommand,
    output: &Path,
    number: usize,
    sender: &Sender<Heard>,
) -> Result<Running> {
    let Some((program, arguments)) = command.words.split_first() else {
        return Err(BuildError::refused("there is no command", None));
    };
    let failed = || BuildError::file("start", Path::new(program));
    let errors = File::create(output).map_err(BuildError::file("write", output))?;
    let mut child = Command::new(program)
        .args(arguments)
        // Ctrl-C of the user does not reach it: the build ends it.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(errors)
        .spawn()
        .map_err(failed())?;
    let (Some(questions), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(failed()(std::io::Error::other("it has no pipes")));
    };
    let sender = sender.clone();
    thread::spawn(move || {
        let mut answers = BufReader::new(answers);
        while let Ok(Some(answer)) = wire::receive(&mut answers) {
            if sender.send((number, Some(answer))).is_err() {
                return;
            }
        }
        let _ = sender.send((number, None));
    });
    Ok(Running { child, questions })
}

/// Makes an error of a package that failed on a node. Its log is copied to those of the build.
fn fail(mut failure: crate::Failure, bench: &BuildContext<'_>) -> BuildError {
    let name = failure.log.file_name().unwrap_or_default();
    let kept = bench.layout.logs().join(name);
    if fs::copy(&failure.log, &kept).is_ok() {
        failure.log = kept;
    }
    BuildError::StepFailed(Box::new(failure))
}
