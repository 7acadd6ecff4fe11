// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane run`: one command in one or several images.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cabane_mount::Backend;
use cabane_resolve::ConcreteEnvironment;
use cabane_run::loaded::Additions;
use cabane_run::{Prepared, RootRequest, RunError, RunRequest, RunWarning, prepare, whole_command};
use clap::Args;

use crate::commands::explain::start::{covering, explained};
use crate::commands::mpi::root::{self, Question};
use crate::commands::mpi::substitute::{Asked, SubstituteImage, substitute_image};
use crate::commands::sight::Sight;
use crate::exit_codes::{self, ExitCode};
use crate::image_args::ImageArgs;
use crate::image_args::JoinArgs;
use crate::report::{CommandResult, Kind, Report};
use crate::setup::Setup;
use cabane_environment as environment;
use cabane_environment::{ImageRequest, JoinOptions, RootOptions};
use cabane_site::settings::BackendChoice;
use serde::{Deserialize, Serialize};

/// Run a command in images
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane run mpi-python -- mpiexec -n 4 python solver.py
  cabane run prgenv-gnu/24.11:v1,editors --view=prgenv-gnu:develop -- make
  cabane run ./image.squashfs:/user-environment -- cmake --version
  cabane run --environment climate -- make
  cabane run debian/12 -- cat /etc/os-release
  cabane run --bind /scratch/input:/data:ro samtools/1.19 -- samtools view /data/a.bam

The command gets standard input and all signals, and its exit code is returned. Exit code
125, 126, or 127 means that the command did not start.")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    images: ImageArgs,
    #[command(flatten)]
    join: JoinArgs,
    /// The command and its arguments, after `--`; default: the default command of the container image
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) fn run(setup: &Setup, args: &RunArgs) -> CommandResult<ExitCode> {
    run_command_in(setup, &args.images, &args.join, args.command.clone())
}

/// Finds the images, and becomes the command or tells what would be done.
pub(crate) fn run_command_in(
    setup: &Setup,
    args: &ImageArgs,
    join: &JoinArgs,
    command: Vec<OsString>,
) -> CommandResult<ExitCode> {
    let plan = Plan::of(args, join);
    let found = plan.find(setup)?;
    let command = explained(setup, &found.0, command)?;
    enter_environment(setup, &plan, found, command)
}

/// Finds the images, and becomes a shell. The images may have a root file system of their own,
/// and not this one.
pub(crate) fn run_shell_in(
    setup: &Setup,
    args: &ImageArgs,
    join: &JoinArgs,
    shell: OsString,
) -> CommandResult<ExitCode> {
    const FIRST_SHELL: &str = r#"
        for shell in "$0" /bin/bash; do
            if [ -x "$shell" ]; then SHELL=$shell exec "$shell"; fi
        done
        SHELL=/bin/sh exec /bin/sh"#;
    let plan = Plan::of(args, join);
    let found = plan.find(setup)?;
    let command = match found.0.root() {
        None => explained(setup, &found.0, vec![shell])?,
        Some(_) => ["/bin/sh", "-c", FIRST_SHELL]
            .map(OsString::from)
            .into_iter()
            .chain([shell])
            .collect(),
    };
    enter_environment(setup, &plan, found, command)
}

/// The same for a command of ours, so that what is not found has its own code.
pub(crate) fn enter(
    setup: &Setup,
    images: &ImageRequest,
    command: Vec<OsString>,
) -> CommandResult<ExitCode> {
    let plan = Plan {
        join: JoinOptions {
            no_join: true,
            ..JoinOptions::default()
        },
        ..Plan::default()
    };
    let found = environment::find_environment(setup, images)?;
    enter_environment(setup, &plan, found, command)
}

/// What a process of this program is to start that has entered another environment before.
#[derive(Debug, Args)]
pub(crate) struct RunPlanArgs {
    /// What is entered, and how
    plan: String,
    /// The command and its arguments
    #[arg(last = true)]
    command: Vec<OsString>,
}

pub(crate) fn run_plan(setup: &Setup, args: &RunPlanArgs) -> CommandResult<ExitCode> {
    let plan: Plan =
        serde_json::from_str(&args.plan).map_err(|error| Report::new(Kind::NotStarted, error))?;
    let found = plan.find(setup)?;
    enter_environment(setup, &plan, found, args.command.clone())
}

/// What is entered, and how. As a document it is handed to a process of this program that has
/// entered another environment before.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Plan {
    images: ImageRequest,
    root: RootOptions,
    join: JoinOptions,
    mpi: Option<String>,
    mpi_program: Option<PathBuf>,
    is_dry_run: bool,
    /// Whether another environment is entered in this one. Then the helper does not mount: where it
    /// has, it does not do so again, and in the user namespaces that are left ranks would not find
    /// each other.
    is_nested: bool,
}

impl Plan {
    fn of(args: &ImageArgs, join: &JoinArgs) -> Self {
        Self {
            images: args.request(),
            join: join.options(),
            root: args.root.options(),
            mpi: args.root.mpi.clone(),
            mpi_program: args.root.mpi_program.clone(),
            is_dry_run: args.dry_run,
            is_nested: false,
        }
    }

    fn find(&self, setup: &Setup) -> CommandResult<(ConcreteEnvironment, Additions)> {
        environment::find_environment(setup, &self.images)
            .map_err(|error| error.with_kind(Kind::NotStarted))
    }
}

fn enter_environment(
    setup: &Setup,
    plan: &Plan,
    (environment, mut additions): (ConcreteEnvironment, Additions),
    command: Vec<OsString>,
) -> CommandResult<ExitCode> {
    if let Some(with) = &plan.mpi
        && environment.root().is_some()
        && let Some(image) = substitute_image(setup, with)
    {
        return start_inside(setup, plan, &image, command);
    }
    let mut root = environment::root_request(setup, &plan.root, &environment, &mut additions)?;
    let mut command = command;
    if let Some(with) = &plan.mpi {
        let asked = Asked {
            with,
            libraries: &[],
            program: plan.mpi_program.as_deref(),
        };
        let found = (&environment, &mut additions);
        let code = substitute(setup, asked, found, &mut root, &mut command)
            .map_err(|error| error.with_kind(Kind::NotStarted))?;
        if let Some(code) = code {
            return Ok(code);
        }
    }
    let joining = plan.join.joining(setup);
    let joining = joining.map_err(|error| error.with_kind(Kind::NotStarted))?;
    let request = RunRequest {
        environment,
        additions,
        root,
        backend: setup.backend,
        fuse: setup.fuse.clone(),
        calling: setup.calling.clone(),
        joining,
        command,
    };
    let mut prepared = prepare(request).map_err(not_started)?;
    if !plan.is_nested {
        choose_helper(setup, &mut prepared).map_err(|error| error.with_kind(Kind::NotStarted))?;
    }
    for warning in prepared.warnings() {
        setup.printer.warning(&warning.to_string());
    }
    if plan.is_dry_run {
        setup.printer.data(describe(setup, &prepared));
        return Ok(exit_codes::SUCCESS);
    }
    let tell = |warning: &RunWarning| setup.printer.warning(&warning.to_string());
    Err(not_started(prepared.exec(tell)))
}

/// Starts the command from inside of an image with an MPI, whose files are then those of this
/// machine for what is mounted next.
fn start_inside(
    setup: &Setup,
    plan: &Plan,
    image: &SubstituteImage,
    command: Vec<OsString>,
) -> CommandResult<ExitCode> {
    let outer = Plan {
        images: image.images.clone(),
        join: plan.join.clone(),
        is_nested: true,
        ..Plan::default()
    };
    let found = outer.find(setup)?;
    let mut words = setup.own_program()?;
    check_is_seen(&found.0, Path::new(&words[0]))?;
    let inner = Plan {
        mpi: Some(image.prefix.display().to_string()),
        ..plan.clone()
    };
    let inner =
        serde_json::to_string(&inner).map_err(|error| Report::new(Kind::NotStarted, error))?;
    if setup.printer.is_verbose() {
        words.push("--verbose".into());
    }
    words.extend(setup.typed_options());
    words.extend(["run-plan", &inner, "--"].map(OsString::from));
    words.extend(command);
    enter_environment(setup, &outer, found, words)
}

/// Refuses an image that is mounted over this program, which is needed there.
fn check_is_seen(environment: &ConcreteEnvironment, program: &Path) -> CommandResult<()> {
    let Some(image) = covering(environment, program) else {
        return Ok(());
    };
    let message = format!(
        "{} covers this program, which is needed there for another MPI",
        image.mount_point
    );
    Err(Report::new(Kind::NotStarted, message))
}

/// Arranges that a command gets another MPI. Returns an exit code if that is refused, and the
/// reason was told.
fn substitute(
    setup: &Setup,
    asked: Asked<'_>,
    (environment, additions): (&ConcreteEnvironment, &mut Additions),
    root: &mut RootRequest,
    command: &mut Vec<OsString>,
) -> CommandResult<Option<ExitCode>> {
    let Some(image) = environment.root() else {
        let mut words = setup.own_program()?;
        check_is_seen(environment, Path::new(&words[0]))?;
        words.extend(["mpi", "swap", "--with", asked.with].map(OsString::from));
        if let Some(program) = asked.program {
            words.extend(["--mpi-program".into(), program.into()]);
        }
        words.push("--".into());
        words.append(command);
        *command = words;
        return Ok(None);
    };
    let sight = Sight::of(&setup.calling, environment, additions, root);
    let words = whole_command(environment, root, command.clone()).map_err(not_started)?;
    let question = Question {
        asked,
        image,
        sight: &sight,
        command: &words,
        is_launched: false,
    };
    let given = match root::give(setup, &question, additions)? {
        Ok(given) => given,
        Err(code) => return Ok(Some(not_given(code))),
    };
    for note in given.notes {
        setup.printer.detail(cabane_label::escape(&note));
    }
    root.binds.extend(given.binds);
    Ok(None)
}

/// Gives what was found wrong before a command was started its code.
fn not_given(code: ExitCode) -> ExitCode {
    let is_known = code == exit_codes::NOT_SWAPPED || code.code >= exit_codes::NOT_STARTED.code;
    if is_known {
        code
    } else {
        exit_codes::NOT_STARTED
    }
}

/// Gives an error the code that shells use.
pub(crate) fn not_started(error: RunError) -> Report {
    let kind = match &error {
        RunError::NotFound { .. } => Kind::CommandNotFound,
        RunError::Exec { .. } => Kind::NotExecutable,
        _ => Kind::NotStarted,
    };
    Report::from(error).with_kind(kind)
}

/// Mounts through the helper where that is wanted, or better and possible.
fn choose_helper(setup: &Setup, prepared: &mut Prepared) -> CommandResult<()> {
    let wanted = setup.settings.backend.value;
    let is_better = wanted == BackendChoice::Auto && setup.backend == Backend::UserNamespace;
    if wanted != BackendChoice::Helper && !is_better {
        return Ok(());
    }
    match setup
        .helper()
        .and_then(|helper| prepared.use_helper(helper))
    {
        Ok(()) => Ok(()),
        Err(reason) if wanted == BackendChoice::Helper => {
            Err(Report::new(Kind::NotStarted, reason)
                .hinted("use `cabane doctor` to diagnose the helper".to_owned()))
        }
        Err(reason) => {
            let printer = setup.printer;
            printer.detail(format_args!("mounting in a user namespace: {reason}"));
            Ok(())
        }
    }
}

/// The mount plan, then every variable that changes.
fn describe(setup: &Setup, prepared: &Prepared) -> String {
    let mut text = prepared.plan().to_string();
    if let Some(directory) = prepared.working_directory() {
        text += &format!("start in {}\n", directory.display());
    }
    for (name, value) in prepared.variables() {
        if setup.calling.get(name) != Some(value) {
            text += &format!("set {}={}\n", name.display(), value.display());
        }
    }
    for name in setup.calling.keys() {
        if !prepared.variables().contains_key(name) {
            text += &format!("unset {}\n", name.display());
        }
    }
    text
}
