// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The process on a node that builds packages for a build elsewhere, one after the other.
//!
//! It has its own sandbox with its own store, in memory if that fits. What a package needs comes from the
//! cache, and the package goes there.

use std::fs;
use std::io::{BufReader, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;

use cabane_label::{escape, shown};
use cabane_recipe::Recipe;
use cabane_report::Report;

use super::bases::Given;
use super::wire::{self, Answer, BEAT, Change, Failed, Question, WorkerTask};
use super::{UNTIL_VISIBLE, copy_inputs};
use crate::build_context::BuildContext;
use crate::engine::RecipeDir;
use crate::layout::Layout;
use crate::plan::read_recipe;
use crate::spack::keys::Keys;
use crate::spack::watch::Watch;
use crate::spack::{SpackEngine, inputs, install, session};
use crate::{
    BuildError, BuildRequest, PackageEvent, Progress, Result, Step, StepName, disk, place,
};

/// Builds packages until `input` ends, as a build elsewhere says. `request_of` makes the request of a build
/// on this machine.
///
/// # Errors
///
/// `input` cannot be read. A package that fails is an answer.
pub fn work_on_packages(
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
    request_of: &dyn Fn(&WorkerTask) -> Result<BuildRequest>,
    interrupt: &Arc<AtomicBool>,
) -> Result<()> {
    let answers =
        Answers { output: Arc::new(Mutex::new(output)), interrupt: Arc::clone(interrupt) };
    let questions = listen(input, interrupt);
    let _beat = beat(&answers);
    let Ok(Question::Begin(task)) = questions.recv() else {
        return Ok(());
    };
    answers.say(&Answer::Begun);
    let bench = match Bench::prepare(&task, request_of) {
        Ok(bench) => bench,
        Err(error) => {
            answers.say(&Answer::Ended(error.to_string()));
            return Ok(());
        }
    };
    if let Err(error) = bench.work(&task, &questions, &answers) {
        answers.say(&Answer::Ended(error.to_string()));
    }
    place::release(&bench.layout)
}

/// Reads what the build says. When it ends, so does the work.
fn listen(input: impl Read + Send + 'static, interrupt: &Arc<AtomicBool>) -> Receiver<Question> {
    let (sender, questions) = mpsc::channel();
    let interrupt = Arc::clone(interrupt);
    thread::spawn(move || {
        let mut input = BufReader::new(input);
        while let Ok(Some(question)) = wire::receive(&mut input) {
            if sender.send(question).is_err() {
                return;
            }
        }
        interrupt.store(true, Ordering::Relaxed);
    });
    questions
}

/// Shows that this process is alive, until the result is dropped.
fn beat<W: Write + Send + 'static>(answers: &Answers<W>) -> mpsc::Sender<()> {
    let (end, ended) = mpsc::channel();
    let answers = answers.clone();
    thread::spawn(move || {
        while ended.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
            answers.say(&Answer::Beat);
        }
    });
    end
}

/// Sends answers to the build.
struct Answers<W> {
    output: Arc<Mutex<W>>,
    interrupt: Arc<AtomicBool>,
}

impl<W> Clone for Answers<W> {
    fn clone(&self) -> Self {
        Self { output: Arc::clone(&self.output), interrupt: Arc::clone(&self.interrupt) }
    }
}

impl<W: Write> Answers<W> {
    /// Without a build that reads it, the work ends.
    fn say(&self, answer: &Answer) {
        let sent = self.output.lock().map(|mut output| wire::send(&mut *output, answer));
        if !matches!(sent, Ok(Ok(()))) {
            self.interrupt.store(true, Ordering::Relaxed);
        }
    }
}

/// What a worker has at hand.
struct Bench {
    request: BuildRequest,
    recipe: Recipe,
    layout: Layout,
    engine: SpackEngine,
    _claim: place::Claim,
}

impl Bench {
    fn prepare(
        task: &WorkerTask,
        request_of: &dyn Fn(&WorkerTask) -> Result<BuildRequest>,
    ) -> Result<Self> {
        check(task)?;
        let mut request = request_of(task)?;
        request.cache_dir.clone_from(&task.cache);
        request.shared_cache.clone_from(&task.shared_cache);
        request.build_dir.clone_from(&task.directory);
        request.epoch = task.epoch;
        request.containers = Some(Arc::new(Given(task.bases.clone())));
        request.programs.spack_python = Some(task.python.clone());
        let mut recipe = read_recipe(&task.recipe)?;
        recipe.store = task.mount_point.parse().map_err(Report::from)?;
        let path =
            fs::canonicalize(&task.recipe).map_err(BuildError::file("open", &task.recipe))?;
        let (layout, _) = place::decide(&request, recipe.name.as_str(), request.build_dir.clone());
        disk::make_empty(&layout.root)?;
        let claim = place::claim(&request, &layout)?;
        for private in [layout.tmp(), layout.home(), layout.logs(), layout.work()] {
            disk::make_empty(&private)?;
        }
        copy_inputs(&task.inputs, &layout.work())?;
        let engine = SpackEngine::prepare(&request, &recipe, &RecipeDir { path }, &layout)?;
        if engine.packages_digest != task.own_packages {
            let message = format!("its copy of {} has other packages", shown(&task.recipe));
            return Err(BuildError::refused(message, None));
        }
        inputs::write_store(&engine)?;
        Ok(Self { request, recipe, layout, engine, _claim: claim })
    }

    fn work<W: Write + Send>(
        &self,
        task: &WorkerTask,
        questions: &Receiver<Question>,
        answers: &Answers<W>,
    ) -> Result<()> {
        let keys = Keys::open(&self.engine)?;
        let mut watch = Watch::new(&self.engine);
        watch.expect(&inputs::lock_file(&self.layout, &task.environment))?;
        answers.say(&Answer::Ready { node: node(), jobs: self.request.jobs });
        while let Ok(question) = questions.recv() {
            let Question::Build { hashes, from_others } = question else { continue };
            watch.wait_for(&from_others, UNTIL_VISIBLE, &answers.interrupt);
            let mut reporter = Reporter { answers: answers.clone(), hashes: hashes.clone() };
            let step = Step::named(StepName::Install);
            let mut bench = BuildContext {
                request: &self.request,
                layout: &self.layout,
                recipe: &self.recipe,
                step: &step,
                progress: &mut reporter,
                interrupt: &answers.interrupt,
                gauge: None,
            };
            let wanted = (task.environment.as_str(), hashes.as_slice());
            match install::install_one(&self.engine, wanted, &keys, &mut watch, &mut bench) {
                Ok(()) => answers.say(&Answer::Idle),
                Err(BuildError::Interrupted) => return Ok(()),
                Err(BuildError::StepFailed(failure)) => {
                    answers.say(&Answer::Failed(Box::new(Failed::of(*failure))));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Fails if packages that are built here could not be used with those of the others.
fn check(task: &WorkerTask) -> Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    let hidden = task.bases.iter().find(|base| !base.file.is_file());
    let message = if task.version != version {
        format!("it has cabane {version} instead of {}", escape(&task.version))
    } else if session::host() != task.machine {
        "it has another distribution or another processor".to_owned()
    } else if !task.inputs.is_dir() {
        format!("it cannot access {}", shown(&task.inputs))
    } else if let Some(base) = hidden {
        format!("it cannot access the base {}: {}", escape(&base.label), shown(&base.file))
    } else {
        return Ok(());
    };
    Err(BuildError::refused(message, None))
}

/// The name of this machine.
pub(super) fn node() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Reports what happens to the packages that the build has asked for.
struct Reporter<W> {
    answers: Answers<W>,
    hashes: Vec<String>,
}

impl<W: Write> Progress for Reporter<W> {
    fn package(&mut self, event: &PackageEvent<'_>) {
        if self.hashes.iter().any(|hash| hash == event.hash) {
            let (hash, change) = (event.hash.to_owned(), Change::of(event.change));
            self.answers.say(&Answer::Package { hash, change });
        }
    }

    fn remark(&mut self, text: &str) {
        self.answers.say(&Answer::Remark(text.to_owned()));
    }

    fn warning(&mut self, text: &str) {
        self.answers.say(&Answer::Remark(text.to_owned()));
    }
}
