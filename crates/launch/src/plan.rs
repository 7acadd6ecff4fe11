// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is started, and in which environment.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use cabane_environment::{
    ImageRequest, JoinOptions, RootOptions, add_binds, find_environment, root_request,
};
use cabane_mount::JOB_TASK;
use cabane_mpi_swap::{
    ContainerQuestion, EnvironmentFiles, SubstituteImage, SubstituteRequest, substitute_image,
    substitute_in_container,
};
use cabane_report::{Kind, Report, Result};
use cabane_resolve::{ConcreteEnvironment, ConcreteImage};
use cabane_run::loaded::{Additions, Bind, Loaded, UENV_MOUNT_LIST, file_system_at};
use cabane_run::{RootRequest, RunRequest, whole_command};
use cabane_site::Context;
use cabane_transfer::keep_named;
use serde::{Deserialize, Serialize};

use crate::launch::Launch;
use crate::shell::{self, ShellSettings};
use crate::swap::swap_arguments;

/// The command of this program that carries out a plan in JSON.
const PLAN_COMMAND: &str = "run-plan";

/// The command of this program that shows conflicts, then becomes another command.
const CONFLICTS_COMMAND: &str = "explain-start";

/// An environment, and how it is entered. A process of this program that is already in another
/// environment gets it as JSON.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LaunchPlan {
    /// The images and views.
    pub images: ImageRequest,
    /// What else is visible in it.
    pub root: RootOptions,
    /// With which processes namespaces are shared.
    pub join: JoinOptions,
    /// The MPI that replaces that of the command.
    pub mpi: Option<String>,
    /// The file that needs MPI, if it is not the command.
    pub mpi_program: Option<PathBuf>,
    /// Whether the user only wants to see what would be done.
    pub is_dry_run: bool,
    /// Whether conflicts between views are shown, if details are.
    #[serde(skip)]
    pub shows_conflicts: bool,
    /// For a task of a job that enters the environment by itself: what is added beside the images,
    /// instead of what environment files say.
    #[serde(default)]
    pub of_task: Option<Additions>,
    /// Whether another environment is entered in this one. Then the helper does not mount: where it
    /// has, it does not do so again, and in the user namespaces that are left ranks would not find
    /// each other.
    pub is_nested: bool,
}

impl LaunchPlan {
    /// Prepares the start of a command of this program in images. An error keeps its kind: the user
    /// has typed no command that could not be started.
    ///
    /// # Errors
    ///
    /// The environment cannot be resolved.
    pub fn launch_own(
        context: &Context,
        images: &ImageRequest,
        command: Vec<OsString>,
    ) -> Result<Launch> {
        let plan = Self {
            join: JoinOptions { no_join: true, ..JoinOptions::default() },
            ..Self::default()
        };
        plan.enter(context, find_environment(context, images)?, command)
    }

    /// Checks whether images and views that were found can be entered.
    ///
    /// # Errors
    ///
    /// One cannot be read, or is for another kind of machine.
    pub fn check(context: &Context, environment: ConcreteEnvironment) -> Result<()> {
        let plan = Self {
            join: JoinOptions { no_join: true, ..JoinOptions::default() },
            is_dry_run: true,
            ..Self::default()
        };
        for warning in &environment.warnings {
            context.warning(warning);
        }
        let found = (environment, Additions::default());
        let entered = plan.enter(context, found, vec!["true".into()]);
        entered.map(drop).map_err(|error| match error.kind() {
            Kind::NotStarted => error.with_kind(Kind::NotFound),
            _ => error,
        })
    }

    /// Resolves the environment and prepares the start of a command.
    ///
    /// # Errors
    ///
    /// The environment cannot be resolved, the command gets no other MPI, or it is missing.
    pub fn launch(&self, context: &Context, mut command: Vec<OsString>) -> Result<Launch> {
        let plan = self.with_kept(context)?;
        let found = plan.resolve(context)?;
        if self.shows_conflicts {
            command = with_conflicts(context, &found.0, command)?;
        }
        plan.enter(context, found, command)
    }

    /// Imports the container images that are not kept yet.
    fn with_kept(&self, context: &Context) -> Result<Self> {
        let images = keep_named(context, &self.images, self.is_dry_run)
            .map_err(|error| error.with_kind(Kind::NotStarted))?;
        Ok(Self { images, ..self.clone() })
    }

    /// As [`LaunchPlan::launch`], for a shell. Where there is no such shell, as in some containers, it
    /// falls back to `bash` and `sh`. The directories of the environment are first in `PATH` when the shell
    /// has read its settings.
    ///
    /// Returns nothing if the calling shell is in this environment: one that its own settings start
    /// would start the next.
    ///
    /// # Errors
    ///
    /// The same.
    pub fn launch_shell(
        &self,
        context: &Context,
        shell: OsString,
        settings: ShellSettings,
    ) -> Result<Option<Launch>> {
        let plan = self.with_kept(context)?;
        let found = plan.resolve(context)?;
        if !self.is_dry_run && self.mpi.is_none() && self.is_around(context, &found)? {
            return Ok(None);
        }
        let (environment, additions) = &found;
        let mut variables = additions.variables.clone();
        variables.merge(&self.root.variables);
        let first = shell::first_of_path(&environment.patch, &variables);
        let is_of_host = environment.root().is_none();
        let mut command = shell::command(shell, first, settings, is_of_host);
        if is_of_host {
            command = with_conflicts(context, environment, command)?;
        }
        plan.enter(context, found, command).map(Some)
    }

    /// Whether this process is in an environment, and has entered no other since.
    fn is_around(
        &self,
        context: &Context,
        (environment, additions): &(ConcreteEnvironment, Additions),
    ) -> Result<bool> {
        if environment.root().is_some() {
            return Ok(false);
        }
        let mut additions = additions.clone();
        add_binds(context, &self.root.binds, &mut additions)?;
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let is_mounted =
            |image: &ConcreteImage| file_system_at(&mounts, image.mount_point.as_path()).is_some();
        // Variables alone may have come from elsewhere.
        let loaded = Loaded::of_variables(&context.calling);
        // Another tool that mounts something sets the list alone.
        let list = context.calling.get(OsStr::new(UENV_MOUNT_LIST));
        let is_whole = list.is_some_and(|list| *list == *loaded.mount_list());
        let is_entered = is_whole && loaded.has_entered(environment, &additions);
        Ok(is_entered && environment.images.iter().all(is_mounted))
    }

    fn resolve(&self, context: &Context) -> Result<(ConcreteEnvironment, Additions)> {
        find_environment(context, &self.images).map_err(|error| error.with_kind(Kind::NotStarted))
    }

    fn enter(
        &self,
        context: &Context,
        (environment, mut additions): (ConcreteEnvironment, Additions),
        mut command: Vec<OsString>,
    ) -> Result<Launch> {
        if let Some(with) = &self.mpi
            && environment.root().is_some()
            && let Some(image) = substitute_image(context, with)
        {
            return self.enter_inside(context, &image, command);
        }
        if let Some(own) = &self.of_task {
            additions.clone_from(own);
            additions.binds.extend(spool());
        }
        let mut root = root_request(context, &self.root, &environment, &mut additions)?;
        root.keeps_variables = self.of_task.is_some();
        if let Some(with) = &self.mpi {
            let request =
                SubstituteRequest { with, libraries: &[], program: self.mpi_program.as_deref() };
            if environment.root().is_some() {
                let found = (&environment, &mut additions);
                substitute(context, request, found, &mut root, &command).map_err(as_started)?;
            } else {
                command = swapped(context, request, &environment, command)?;
            }
        }
        let joining = self.join.joining(context);
        let joining = joining.map_err(|error| error.with_kind(Kind::NotStarted))?;
        let request = RunRequest {
            environment,
            additions,
            root,
            backend: context.backend,
            fuse: context.fuse.clone(),
            calling: self.calling(context),
            joining,
            command,
        };
        Launch::prepare(context, request, self.is_dry_run, self.is_nested)
    }

    /// Returns the variables of the caller. That which makes a task enter its environment is about
    /// that task alone.
    fn calling(&self, context: &Context) -> BTreeMap<OsString, OsString> {
        let mut calling = self.root.calling(context);
        if self.of_task.is_some() {
            calling.remove(OsStr::new(JOB_TASK));
        }
        calling
    }

    /// Starts the command from inside of an image with an MPI, whose files are then those of this
    /// machine for what is mounted next.
    fn enter_inside(
        &self,
        context: &Context,
        image: &SubstituteImage,
        command: Vec<OsString>,
    ) -> Result<Launch> {
        let outer = Self {
            images: image.images.clone(),
            join: self.join.clone(),
            is_nested: true,
            ..Self::default()
        };
        let found = outer.resolve(context)?;
        let mut arguments = context.own_program()?;
        check_is_visible(&found.0, Path::new(&arguments[0]))?;
        let inner = Self { mpi: Some(image.prefix.display().to_string()), ..self.clone() };
        let inner =
            serde_json::to_string(&inner).map_err(|error| Report::new(Kind::NotStarted, error))?;
        if context.is_verbose() {
            arguments.push("--verbose".into());
        }
        arguments.extend(context.typed_options());
        arguments.extend([PLAN_COMMAND, &inner, "--"].map(OsString::from));
        arguments.extend(command);
        outer.enter(context, found, arguments)
    }
}

/// Where Slurm keeps batch scripts, and what it needs to talk to parallel programs.
fn spool() -> Option<Bind> {
    const SPOOL: &str = "/var/spool/slurmd";
    let target = SPOOL.parse().ok().filter(|_| Path::new(SPOOL).is_dir())?;
    Some(Bind { source: SPOOL.into(), target, read_only: false })
}

/// Puts this program before a command if details are shown and the environment does not hide it.
///
/// Conflicts are visible only once the images are mounted, and the process that mounts them becomes
/// the command. So it becomes this program first, which shows them and becomes the command.
fn with_conflicts(
    context: &Context,
    environment: &ConcreteEnvironment,
    command: Vec<OsString>,
) -> Result<Vec<OsString>> {
    if !context.is_verbose() || environment.views.is_empty() {
        return Ok(command);
    }
    let mut arguments = context.own_program()?;
    if covering(environment, Path::new(&arguments[0])).is_some() {
        return Ok(command);
    }
    arguments.extend([CONFLICTS_COMMAND.into(), "--".into()]);
    arguments.extend(command);
    Ok(arguments)
}

/// Returns the image that is mounted over a file of the host, if there is one.
fn covering<'a>(environment: &'a ConcreteEnvironment, file: &Path) -> Option<&'a ConcreteImage> {
    let mut images = environment.images.iter();
    images.find(|image| file.starts_with(image.mount_point.as_path()))
}

/// Refuses an image that is mounted over this program, which is needed there.
fn check_is_visible(environment: &ConcreteEnvironment, program: &Path) -> Result<()> {
    let Some(image) = covering(environment, program) else {
        return Ok(());
    };
    let message =
        format!("{} covers this program, which is needed there for another MPI", image.mount_point);
    Err(Report::new(Kind::NotStarted, message))
}

/// Arranges that a command in a container gets another MPI.
fn substitute(
    context: &Context,
    request: SubstituteRequest<'_>,
    (environment, additions): (&ConcreteEnvironment, &mut Additions),
    root: &mut RootRequest,
    command: &[OsString],
) -> Result<()> {
    let files = EnvironmentFiles::new(context, environment, additions, root);
    let command = whole_command(environment, root, command.to_vec())?;
    let question =
        ContainerQuestion { request, files: &files, command: &command, is_launched: false };
    let binds = substitute_in_container(context, &question, additions)?;
    root.binds.extend(binds);
    Ok(())
}

/// Returns the command that starts another one with another MPI.
fn swapped(
    context: &Context,
    request: SubstituteRequest<'_>,
    environment: &ConcreteEnvironment,
    command: Vec<OsString>,
) -> Result<Vec<OsString>> {
    let mut arguments = swap_arguments(context, request.with.as_ref(), request.program)?;
    check_is_visible(environment, Path::new(&arguments[0]))?;
    arguments.push("--".into());
    arguments.extend(command);
    Ok(arguments)
}

/// Before the command starts, an error has one of the kinds that shells know.
fn as_started(error: Report) -> Report {
    match error.kind() {
        Kind::NotSwapped | Kind::NotStarted | Kind::NotExecutable | Kind::CommandNotFound => error,
        _ => error.with_kind(Kind::NotStarted),
    }
}
