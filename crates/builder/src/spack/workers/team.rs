// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The worker processes of a build: starts them, sends them packages, reads their answers, and
//! gives the packages of lost workers to others.

use std::fs::File;
use std::io::BufReader;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use cabane_label::escape;
use cabane_report::{Kind, Report};

use super::queue::Queue;
use super::wire::{self, Answer, Question};
use crate::{
    BuildError, Failure, Origin, PackageChange, Result, WorkerCommand, WorkerTask, disk, process,
};

/// How long a worker may be silent.
const SILENCE: Duration = Duration::from_secs(60);
/// How long a worker may be alive without having begun. It says so at once if it understands its task.
const UNTIL_BEGUN: Duration = Duration::from_secs(30);
/// How long a worker may take to end.
const TO_END: Duration = Duration::from_secs(10);
/// How many workers may be lost with a package.
const MOST_LOSSES: usize = 2;
/// How often to look whether the user has interrupted the build.
const TICK: Duration = Duration::from_millis(100);
/// The name of the file with what a worker prints, in its directory.
const OUTPUT: &str = "output";

/// What hears of packages and workers.
pub(super) trait Listener {
    /// Something happened to a package on a node.
    fn package(&mut self, hash: &str, change: PackageChange<'_>, node: &str);

    /// A package is with no worker any more, and is not built. Returns its name and version.
    fn lost(&mut self, hash: &str) -> String;

    /// Something that the user should know.
    fn warning(&mut self, text: &str);

    /// Something that the user may want to know.
    fn remark(&mut self, text: &str);

    /// Fails if the user wants the build to stop.
    fn check_interrupt(&self) -> Result<()>;

    /// Makes an error of a package that failed.
    fn failed(&self, failure: Failure) -> BuildError;
}

/// What a worker said; nothing if its pipe has ended.
type Heard = (usize, Option<Answer>);

/// The workers of a build, and what they build.
pub(super) struct Team {
    workers: Vec<Worker>,
    heard: Receiver<Heard>,
    sender: Sender<Heard>,
    queue: Queue,
    /// Packages that were put into the cache.
    pub(super) built: Vec<String>,
    silence: Duration,
    until_begun: Duration,
}

struct Worker {
    /// The name of its node, as soon as that is known.
    name: String,
    /// Nothing if it is lost.
    process: Option<Running>,
    /// The file with what it prints.
    output: PathBuf,
    state: State,
    first_heard: Option<Instant>,
    last_heard: Instant,
    /// The most packages that it builds at once.
    most: usize,
    /// The number of finished packages that the build has announced to it.
    announced: usize,
}

struct Running {
    child: Child,
    questions: ChildStdin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It has not said yet that it understands its task.
    Starts,
    Prepares,
    Idle,
    Builds,
}

impl Team {
    pub(super) fn new(queue: Queue) -> Self {
        let (sender, heard) = mpsc::channel();
        let (workers, built) = (Vec::new(), Vec::new());
        let (silence, until_begun) = (SILENCE, UNTIL_BEGUN);
        Self { workers, heard, sender, queue, built, silence, until_begun }
    }

    /// Starts a worker. One that cannot be started is a warning: the others build.
    pub(super) fn start(
        &mut self,
        command: &WorkerCommand,
        directory: &Path,
        task: WorkerTask,
        listener: &mut dyn Listener,
    ) -> Result<()> {
        disk::make_directory(directory)?;
        let output = directory.join(OUTPUT);
        let process = start(command, &output, self.workers.len(), &self.sender);
        let process = process.map_err(|error| {
            let name = escape(&command.name);
            listener.warning(&format!("{name} builds no packages: {error}"));
        });
        let mut worker = Worker {
            name: command.name.clone(),
            process: process.ok(),
            output,
            state: State::Starts,
            first_heard: None,
            last_heard: Instant::now(),
            most: 1,
            announced: 0,
        };
        worker.ask(&Question::Begin(Box::new(task)));
        self.workers.push(worker);
        Ok(())
    }

    /// Returns the names of the workers.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.workers.iter().map(|worker| worker.name.as_str())
    }

    /// Shares out packages until all are built, or no worker is left.
    pub(super) fn work(&mut self, listener: &mut dyn Listener) -> Result<()> {
        while !self.queue.is_done() && self.workers.iter().any(|one| one.process.is_some()) {
            listener.check_interrupt()?;
            self.share_out();
            match self.heard.recv_timeout(TICK) {
                Ok((number, Some(answer))) => self.take(number, answer, listener)?,
                Ok((number, None)) => self.lose(number, "it ended", listener)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            for number in 0..self.workers.len() {
                if self.workers[number].last_heard.elapsed() > self.silence {
                    self.lose(number, "it does not answer", listener)?;
                }
                if self.workers[number].is_stuck(self.until_begun) {
                    let version = env!("CARGO_PKG_VERSION");
                    let reason =
                        format!("its version of cabane does not accept work from {version}");
                    self.lose(number, &reason, listener)?;
                }
            }
        }
        if !self.queue.is_done() {
            listener.warning("no worker is left: the other packages are built on one node");
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
            // Packages that it does not know yet.
            let from_others = self.built[worker.announced..].to_vec();
            worker.announced = self.built.len();
            worker.ask(&Question::Build { hashes, from_others });
        }
    }

    fn take(&mut self, number: usize, answer: Answer, listener: &mut dyn Listener) -> Result<()> {
        let worker = &mut self.workers[number];
        if worker.process.is_none() {
            // It was given up, and what it builds is built again.
            return Ok(());
        }
        worker.last_heard = Instant::now();
        worker.first_heard.get_or_insert(worker.last_heard);
        match answer {
            Answer::Beat => {}
            Answer::Begun => worker.state = State::Prepares,
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
                    listener.package(&hash, change, &worker.name);
                }
            }
            Answer::Remark(text) => {
                let name = escape(&worker.name);
                listener.remark(&format!("{name}: {}", escape(&text)));
            }
            Answer::Idle => {
                worker.state = State::Idle;
                // What was there before is not reported.
                for (hash, _) in self.queue.take_back(number, false) {
                    self.queue.finish(&hash);
                }
            }
            Answer::Failed(failed) => return Err(listener.failed(failed.into_failure())),
            Answer::Ended(reason) => return self.lose(number, &escape(&reason), listener),
        }
        Ok(())
    }

    /// Gives up a worker. Another one builds what it had.
    fn lose(&mut self, number: usize, reason: &str, listener: &mut dyn Listener) -> Result<()> {
        let worker = &mut self.workers[number];
        let Some(process) = worker.process.take() else { return Ok(()) };
        process.end(Duration::ZERO);
        let name = escape(&worker.name).into_owned();
        let taken = self.queue.take_back(number, true);
        let lost: Vec<String> = taken.iter().map(|(hash, _)| listener.lost(hash)).collect();
        let builds =
            if lost.is_empty() { String::new() } else { format!(" with {}", lost.join(", ")) };
        let printed = process::tail(&worker.output);
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
                .hinted("it may need more memory: try fewer processes with `--jobs N`".to_owned())
                .into());
        }
        listener.warning(&text);
        Ok(())
    }

    /// Ends all workers.
    pub(super) fn end(&mut self) {
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

impl Drop for Team {
    fn drop(&mut self) {
        self.end();
    }
}

impl Worker {
    /// Whether the worker is alive and has not understood its task within a time.
    fn is_stuck(&self, limit: Duration) -> bool {
        let since = self.first_heard.filter(|_| self.state == State::Starts);
        since.is_some_and(|since| since.elapsed() > limit)
    }

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

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    /// Says that it can begin, and builds what it is given; `$1` is its name, and `$2` what it does
    /// with the first package.
    const WORKER: &str = r#"
        while [ "$2" = older ]; do echo '"beat"'; sleep 0.1; done
        read -r begin; echo noise; echo '"begun"'; echo "{\"ready\":{\"node\":\"$1\",\"jobs\":2}}"
        while read -r line; do
            hash=${line#*hashes\":\[\"}; hash=${hash%%\"*}
            case $2 in
                dies) kill -9 $$ ;;
                hangs) exec sleep 1000 ;;
                gives-up) echo '{"ended":"no memory"}'; exit ;;
                fails) echo "{\"failed\":{\"package\":\"$hash\",\"command\":\"spack\",\"status\":256,\"log\":\"/x\",\"tail\":[]}}" ;;
            esac
            echo "{\"package\":{\"hash\":\"$hash\",\"change\":{\"built\":1.0}}}"
            echo '"idle"'
        done"#;

    #[derive(Default)]
    struct Heard(Vec<String>);

    impl Listener for Heard {
        fn package(&mut self, hash: &str, change: PackageChange<'_>, node: &str) {
            assert!(matches!(change, PackageChange::Done { origin: Origin::Built, .. }));
            self.0.push(format!("{hash} on {node}"));
        }

        fn lost(&mut self, hash: &str) -> String {
            format!("{hash}@1")
        }

        fn warning(&mut self, text: &str) {
            self.0.push(text.to_owned());
        }

        fn remark(&mut self, text: &str) {
            self.0.push(text.to_owned());
        }

        fn check_interrupt(&self) -> Result<()> {
            Ok(())
        }

        fn failed(&self, failure: Failure) -> BuildError {
            BuildError::StepFailed(Box::new(failure))
        }
    }

    /// Lets workers build `b`, and then `a`. Returns what was heard, and how it ended.
    fn built_by(workers: &[[&str; 2]], silence: Duration) -> (Vec<String>, Result<bool>) {
        let directory = tempfile::tempdir().unwrap();
        let needs = [("a", BTreeSet::from(["b".to_owned()])), ("b", BTreeSet::new())];
        let needs: BTreeMap<_, _> = needs.map(|(hash, needs)| (hash.to_owned(), needs)).into();
        let mut team = Team::new(Queue::new(needs, &|_| Duration::from_secs(1)));
        team.silence = silence;
        team.until_begun = silence;
        let mut heard = Heard::default();
        for (number, [name, what]) in workers.iter().enumerate() {
            let words = ["sh", "-c", WORKER, "sh", name, what];
            let words = words.map(Into::into).to_vec();
            let command = WorkerCommand { name: format!("node {number}"), words };
            let place = directory.path().join(number.to_string());
            team.start(&command, &place, WorkerTask::default(), &mut heard).unwrap();
            // The first one gets the first package.
            let is_first = number == 0 && *what != "older";
            while is_first && team.workers[0].state != State::Idle {
                let (number, answer) = team.heard.recv().unwrap();
                team.take(number, answer.expect("an answer"), &mut heard).unwrap();
            }
            team.share_out();
        }
        let ended = team.work(&mut heard).map(|()| team.queue.is_done());
        (heard.0, ended)
    }

    const PATIENT: Duration = Duration::from_secs(600);

    #[test]
    fn packages_are_built_one_after_the_other_by_two_workers() {
        let (heard, ended) = built_by(&[["n1", ""], ["n2", ""]], PATIENT);
        assert!(ended.unwrap());
        let names: Vec<_> = heard.iter().map(|line| &line[..1]).collect();
        assert_eq!(names, ["b", "a"]);
    }

    #[test]
    fn what_a_killed_worker_had_is_built_by_the_other_one() {
        let (heard, ended) = built_by(&[["n1", "dies"], ["n2", ""]], PATIENT);
        assert!(ended.unwrap());
        assert_eq!(heard, ["lost the worker on n1 with b@1: it ended", "b on n2", "a on n2"]);
    }

    #[test]
    fn a_worker_that_does_not_answer_is_given_up() {
        let second = Duration::from_secs(1);
        let (heard, ended) = built_by(&[["n1", "hangs"]], second);
        assert!(!ended.unwrap());
        let lost = "lost the worker on n1 with b@1: it does not answer";
        let rest = "no worker is left: the other packages are built on one node";
        assert_eq!(heard, [lost, rest]);
    }

    /// A worker of an older version, which ignores what it does not understand.
    #[test]
    fn a_worker_that_does_not_understand_its_task_is_given_up() {
        let (heard, ended) = built_by(&[["n1", "older"]], Duration::from_secs(2));
        assert!(!ended.unwrap());
        let version = env!("CARGO_PKG_VERSION");
        let lost = format!(
            "lost the worker on node 0: its version of cabane does not accept work from {version}"
        );
        assert_eq!(heard[0], lost);
    }

    #[test]
    fn a_package_with_which_two_workers_are_lost_is_an_error() {
        let workers = [["n1", "dies"], ["n2", "gives-up"], ["n3", "gives-up"]];
        let (heard, ended) = built_by(&workers, PATIENT);
        assert_eq!(heard.len(), 1, "{heard:?}");
        let error = ended.unwrap_err().to_string();
        assert_eq!(error, "b@1 was not built: 2 workers were lost with it");
    }

    #[test]
    fn the_first_package_that_fails_ends_all_workers() {
        let (heard, ended) = built_by(&[["n1", "fails"], ["n2", ""]], PATIENT);
        let error = ended.unwrap_err();
        let failed = error.failure().and_then(|failure| failure.package.as_deref());
        assert_eq!((failed, heard.len()), (Some("b"), 0));
    }

    #[test]
    fn a_program_that_is_missing_is_a_warning() {
        let directory = tempfile::tempdir().unwrap();
        let mut team = Team::new(Queue::new(BTreeMap::new(), &|_| Duration::ZERO));
        let mut heard = Heard::default();
        let words = vec!["/nonexistent/srun".into()];
        let command = WorkerCommand { name: "node 1".to_owned(), words };
        team.start(&command, directory.path(), WorkerTask::default(), &mut heard).unwrap();
        assert!(heard.0[0].starts_with("node 1 builds no packages: "), "{:?}", heard.0);
    }
}
