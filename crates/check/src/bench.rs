// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Where commands of checks run: in the image, on this machine or in a step of Slurm.
//!
//! This program starts them, as a user would. The first thing that runs in the image is a shell that
//! makes a file and becomes the command. Without that file the command was never started, and what is
//! wrong is not the image's.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use cabane_label::shown;
use cabane_mpi_audit::find::variables_of_run;
use cabane_mpi_audit::run::{Ended, PmiTypes, Runner, launcher_variables};
use cabane_report::{IoContext, Kind, Report, Result};
use cabane_site::{Context, env_vars};
use cabane_view::ViewName;

use crate::request::{CheckRequest, Place};
use crate::subject::Subject;

/// Makes the file and becomes the command.
const BEGIN: &str = r#": >"$0" && exec "$@""#;
/// The same for each rank of a step.
const BEGIN_RANK: &str = r#": >"$0.$SLURM_PROCID" && exec "$@""#;
/// Starts ranks with the launcher that `PATH` has in the image.
const LAUNCH: &str = r#": >"$0" || exit; n=$1; shift
launcher=$(command -v mpiexec || command -v mpirun) || { rm -f "$0.launcher"; exit 125; }
: >"$0.launcher" && exec "$launcher" -n "$n" "$@""#;

/// No check takes longer, whatever an image says.
pub(crate) const LONGEST: Duration = Duration::from_secs(7 * 24 * 60 * 60);
const TOLERANCE: Duration = Duration::from_secs(3);

/// What came of a command.
pub(crate) struct Run {
    pub(crate) ended: Ended,
    /// Whether it was started in the image, by every rank.
    pub(crate) has_begun: bool,
    /// Whether it was stopped before it had its time: a step waits for nodes first.
    pub(crate) has_waited: bool,
    /// Whether there is a program that starts ranks.
    pub(crate) has_launcher: bool,
}

/// A place to run commands in an image.
pub(crate) struct Bench<'a> {
    subject: &'a Subject,
    place: &'a Place,
    program: Vec<OsString>,
    runner: Runner,
    pmi: Option<String>,
    number: usize,
}

impl<'a> Bench<'a> {
    pub(crate) fn new(
        context: &Context,
        subject: &'a Subject,
        request: &'a CheckRequest,
    ) -> Result<Self> {
        let mut program = context.own_program()?;
        program.extend(context.typed_options());
        let parent = match (&request.work_directory, &request.place) {
            (Some(directory), _) => directory.clone(),
            (None, Place::Here) => std::env::temp_dir(),
            // Nodes have to see it.
            (None, Place::Slurm { .. }) => {
                std::env::current_dir().or_failed(|| "find the current directory".to_owned())?
            }
        };
        let runner = Runner::new(&parent, variables(context, &request.place), request.limit)
            .or_failed(|| format!("make a directory in {}", shown(&parent)))?;
        let pmi = match &request.place {
            Place::Here => None,
            Place::Slurm { srun, .. } => pmi(subject, srun)?,
        };
        let place = &request.place;
        Ok(Self { subject, place, program, runner, pmi, number: 0 })
    }

    /// The directory in which commands run.
    pub(crate) fn directory(&self) -> &Path {
        self.runner.directory()
    }

    pub(crate) fn runner(&self) -> &Runner {
        &self.runner
    }

    /// The value of `srun --mpi` for the MPI of the image, if it is known here.
    pub(crate) fn pmi(&self) -> Option<&str> {
        self.pmi.as_deref()
    }

    /// The command that starts another one in the image; options and `--` follow.
    pub(crate) fn enter(&self) -> Vec<String> {
        let words = self.program.iter().cloned();
        let words = words.chain(["run".into(), self.subject.argument()]);
        words.map(|word| word.to_string_lossy().into_owned()).collect()
    }

    /// The file of this program.
    pub(crate) fn own_program(&self) -> String {
        self.program.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// The options of a job of Slurm that runs beside the image; none on this machine.
    pub(crate) fn options_of_job_beside(&self) -> &[String] {
        match self.place {
            Place::Here => &[],
            Place::Slurm { options, .. } => options,
        }
    }

    /// The options of a job of Slurm that runs in the image; none on this machine.
    pub(crate) fn options_of_job(&self) -> Vec<String> {
        let Place::Slurm { options, .. } = self.place else {
            return Vec::new();
        };
        let repository = self.subject.repository();
        let repository = repository.map(|path| joined("--repo=", path.as_os_str()));
        let image = joined("--uenv=", &self.subject.argument());
        let own = repository.into_iter().chain([image]);
        let own = own.map(|option| option.to_string_lossy().into_owned());
        options.iter().cloned().chain(own).collect()
    }

    /// Runs a command outside of the image, which may take long.
    pub(crate) fn run_outside(&mut self, command: &mut Command, limit: Duration) -> Ended {
        let usual = self.runner.limit;
        self.runner.limit = limit;
        let ended = self.runner.run(command);
        self.runner.limit = usual;
        ended
    }

    /// Runs a command with some ranks in a view.
    pub(crate) fn run(
        &mut self,
        words: &[impl AsRef<OsStr>],
        view: Option<&ViewName>,
        ranks: u32,
        limit: Option<Duration>,
    ) -> Run {
        self.number += 1;
        let marker = self.runner.directory().join(format!("begun-{}", self.number));
        let launcher = marker.with_extension("launcher");
        let mut command = match self.place {
            Place::Here => self.here(&marker, view, ranks),
            Place::Slurm { srun, options, .. } => {
                let mut command = Command::new(srun);
                command.arg(format!("--ntasks={ranks}")).args(options);
                command.args(self.pmi.as_ref().map(|pmi| format!("--mpi={pmi}")));
                let repository = self.subject.repository();
                command.args(repository.map(|path| joined("--repo=", path.as_os_str())));
                command.arg(joined("--uenv=", &self.subject.argument()));
                command.args(view.map(|view| format!("--view={view}")));
                command.args(["sh", "-c", BEGIN_RANK]).arg(&marker);
                command
            }
        };
        command.args(words);
        let limit = limit.unwrap_or(self.runner.limit).min(LONGEST);
        let ended = self.run_outside(&mut command, limit);
        let markers: Vec<PathBuf> = match self.place {
            Place::Here => vec![marker],
            Place::Slurm { .. } => {
                let name = marker.to_string_lossy().into_owned();
                (0..ranks).map(|rank| PathBuf::from(format!("{name}.{rank}"))).collect()
            }
        };
        let has_waited = ended.is_late && !markers.iter().all(|path| is_older(path, limit));
        let needs_launcher = ranks > 1 && *self.place == Place::Here;
        Run {
            ended,
            has_begun: markers.iter().all(|path| path.exists()),
            has_waited,
            has_launcher: !needs_launcher || launcher.exists(),
        }
    }

    /// Asks, where the image would run, whether that host has what the image needs.
    pub(crate) fn ask_host(&mut self) -> Run {
        self.number += 1;
        let marker = self.runner.directory().join(format!("begun-{}", self.number));
        let begin = ["sh", "-c", BEGIN];
        let mut command = match self.place {
            Place::Here => Command::new(begin[0]),
            Place::Slurm { srun, options, .. } => {
                let mut command = Command::new(srun);
                command.arg("--ntasks=1").args(options).arg(begin[0]);
                command
            }
        };
        command.args(&begin[1..]).arg(&marker).args(&self.program);
        command.args(["doctor", "--json"]).arg(self.subject.argument());
        let ended = self.runner.run(&mut command);
        Run { ended, has_begun: marker.exists(), has_waited: false, has_launcher: true }
    }

    fn here(&self, marker: &Path, view: Option<&ViewName>, ranks: u32) -> Command {
        let mut words = self.program.iter();
        let mut command = Command::new(words.next().map(OsString::as_os_str).unwrap_or_default());
        command.args(words).arg("run").arg(self.subject.argument());
        command.args(view.map(|view| format!("--view={view}"))).arg("--");
        if ranks > 1 {
            command.envs(launcher_variables(ranks));
            command.args(["sh", "-c", LAUNCH]).arg(marker).arg(ranks.to_string());
        } else {
            command.args(["sh", "-c", BEGIN]).arg(marker);
        }
        command
    }
}

/// Whether a file was made about so long ago. Clocks of file servers differ a little.
fn is_older(path: &Path, limit: Duration) -> bool {
    let made = path.metadata().and_then(|file| file.modified()).ok();
    let age = made.and_then(|made| made.elapsed().ok());
    age.is_some_and(|age| age + TOLERANCE >= limit)
}

fn joined(option: &str, value: &OsStr) -> OsString {
    let mut option = OsString::from(option);
    option.push(value);
    option
}

/// What commands find of the variables of the caller.
fn variables(context: &Context, place: &Place) -> BTreeMap<String, String> {
    let is_slurm = *place != Place::Here;
    let of_slurm =
        |name: &str| is_slurm && (name.starts_with("SLURM") || name.starts_with("SBATCH"));
    let mut variables = variables_of_run(context, &of_slurm);
    if is_slurm {
        // The directory is far away, and the same for all nodes.
        variables.insert("TMPDIR".to_owned(), "/tmp".to_owned());
    }
    variables
}

/// Returns the value of `srun --mpi` that the image names first and this Slurm knows.
fn pmi(subject: &Subject, srun: &Path) -> Result<Option<String>> {
    if subject.pmi.is_empty() {
        return Ok(None);
    }
    let list = Command::new(srun).arg("--mpi=list").output();
    let list = list.or_failed(|| format!("run `{} --mpi=list`", shown(srun)))?;
    let known = PmiTypes::from_list(&String::from_utf8_lossy(&[list.stdout, list.stderr].concat()));
    Ok(subject.pmi.iter().find(|pmi| known.has(pmi)).cloned())
}

/// Finds `srun`.
///
/// # Errors
///
/// There is none in `PATH`.
pub(crate) fn srun(context: &Context) -> Result<PathBuf> {
    find_program(context, "srun").ok_or_else(|| {
        Report::new(Kind::NotFound, "there is no `srun` in PATH")
            .hinted("without `--on slurm`, checks run on this machine".to_owned())
    })
}

/// Finds a program in `PATH`.
pub(crate) fn find_program(context: &Context, name: &str) -> Option<PathBuf> {
    let path = context.calling.get(OsStr::new(env_vars::PATH));
    let mut directories = path.map(std::env::split_paths).into_iter().flatten();
    directories.find_map(|directory| {
        let program = directory.join(name);
        program.is_file().then_some(program)
    })
}

/// Reads the first bytes of a file; `None` if it cannot be read.
pub(crate) fn read_start(path: &Path, limit: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(limit).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
