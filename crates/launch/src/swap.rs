// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A command with another MPI.
//!
//! If the program is in a container, the launcher stays on this machine and starts `cabane run --mpi`
//! for each rank, which does the work on its node. The judgment here is the first of two, so that
//! nothing starts that cannot work, and the test program is bound into the container.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use cabane_environment::ImageRequest;
use cabane_label::escape;
use cabane_mpi::{LauncherKind, Library, Places, Plan, Tree, Verdict};
use cabane_mpi_swap::{
    ContainerQuestion, ContainerSwap, EnvironmentFiles, Launchers, Loading, RingResult, RingTest,
    SubstituteImage, SubstituteRequest, With, accepted, check_launcher, judge_here, make_links,
    own_launcher, path_in_container, search, substitute_image, variable,
};
use cabane_report::{Kind, Report, Result};
use cabane_run::become_command;
use cabane_site::Context;

use crate::launch::Launch;
use crate::plan::LaunchPlan;

/// The directory of the test program in a container.
const PROBE: &str = "/run/cabane/probe";

/// A command that is to get another MPI.
#[derive(Clone, Debug)]
pub struct SwapRequest {
    /// The MPI.
    pub with: String,
    /// The file that needs MPI, if it is not in the command.
    pub program: Option<PathBuf>,
    /// The container image in which the program runs.
    pub image: Option<String>,
    /// Options for this program, if it starts again where the image of the MPI is mounted.
    pub options: Vec<OsString>,
    /// The command.
    pub command: Vec<OsString>,
}

/// How a command gets another MPI.
#[derive(Debug)]
pub enum Swapping {
    /// This program is started again where the image of the MPI is mounted.
    Inside(Box<Launch>),
    /// The command is judged.
    Ready(Box<Swap>),
}

/// A command and the MPI that it gets.
#[derive(Debug)]
pub struct Swap {
    /// Whether it is possible, and how.
    pub verdict: Verdict,
    /// The file that needs MPI.
    pub file: PathBuf,
    /// The launcher with which the command begins, if it does.
    launcher: Option<LauncherKind>,
    /// What starts ranks of the substitute.
    launchers: Launchers,
    /// The launcher and its options, if it is one of this machine.
    launcher_here: Vec<OsString>,
    /// The launcher and its options, if it is one of the container.
    launcher_inside: Vec<OsString>,
    /// The program that each rank runs, and its arguments.
    program: Vec<OsString>,
    /// How the program loads MPI, if that is known.
    loading: Option<Loading>,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Here(Places),
    Container(Container),
}

#[derive(Debug)]
struct Container {
    image: String,
    with: String,
    mpi_program: Option<PathBuf>,
    /// The arguments of this program.
    cabane: Vec<OsString>,
}

impl Swapping {
    /// Finds the program and the substitute, and judges.
    ///
    /// # Errors
    ///
    /// There is no such program, substitute, or image. That a substitution is refused is no error.
    pub fn judge(context: &Context, request: &SwapRequest) -> Result<Self> {
        let substitute = SubstituteRequest {
            with: &request.with,
            libraries: &[],
            program: request.program.as_deref(),
        };
        let swap = if let Some(image) = &request.image {
            Swap::in_container(context, request, substitute, image)?
        } else if let Some(image) = substitute_image(context, &request.with) {
            return Ok(Self::Inside(Box::new(inside(context, request, &image)?)));
        } else {
            Swap::here(context, request, substitute)?
        };
        Ok(Self::Ready(Box::new(swap)))
    }
}

/// Starts this program where the image of the substitute is mounted, for all that the command starts.
fn inside(context: &Context, request: &SwapRequest, image: &SubstituteImage) -> Result<Launch> {
    let mut command =
        swap_arguments(context, image.prefix.as_os_str(), request.program.as_deref())?;
    command.extend(request.options.iter().cloned());
    command.push("--".into());
    command.extend(request.command.iter().cloned());
    LaunchPlan::launch_own(context, &image.images, command)
}

/// Returns the command line of this program that starts a command with another MPI, without its
/// options and the command.
pub(crate) fn swap_arguments(
    context: &Context,
    with: &OsStr,
    program: Option<&Path>,
) -> Result<Vec<OsString>> {
    let mut arguments = context.own_program()?;
    arguments.extend(["mpi".into(), "swap".into(), "--with".into(), with.to_owned()]);
    if let Some(program) = program {
        arguments.extend(["--mpi-program".into(), program.into()]);
    }
    Ok(arguments)
}

impl Swap {
    fn here(
        context: &Context,
        request: &SwapRequest,
        substitute: SubstituteRequest<'_>,
    ) -> Result<Self> {
        let library_path = variable(context, "LD_LIBRARY_PATH");
        let judged = judge_here(context, substitute, &request.command, &library_path)?;
        let (line, to) = (judged.line, &judged.verdict.to);
        let loading = to.as_ref();
        let loading = loading.map(|library| Loading::of(&Tree::here(), &line.file, library));
        Ok(Self {
            file: line.file,
            launcher: line.launcher,
            launchers: judged.substitute.launchers,
            launcher_here: line.before,
            launcher_inside: Vec::new(),
            program: line.program,
            loading,
            verdict: judged.verdict,
            place: Place::Here(judged.places),
        })
    }

    fn in_container(
        context: &Context,
        request: &SwapRequest,
        substitute: SubstituteRequest<'_>,
        image: &str,
    ) -> Result<Self> {
        let images = ImageRequest::new(image, None, false).telling_choice();
        let files = EnvironmentFiles::of_images(context, &images)?;
        if !files.has_root() {
            let error =
                format!("`{}` is no container image: it has no root file system", escape(image));
            let hint = format!("write `cabane run {image} -- cabane mpi swap …`");
            return Err(Report::new(Kind::Usage, error).hinted(hint));
        }
        let launcher = launcher_here(context, &request.command);
        let question = ContainerQuestion {
            request: substitute,
            files: &files,
            command: &request.command,
            is_launched: launcher.is_some(),
        };
        let swap = ContainerSwap::judge(context, &question)?;
        let (before, program) = request.command.split_at(swap.begin);
        let (here, inside) = if launcher.is_some() { (before, &[][..]) } else { (&[][..], before) };
        let mut cabane = context.own_program()?;
        cabane.extend(context.typed_options());
        Ok(Self {
            file: swap.file,
            launcher: launcher.or(swap.launcher),
            launchers: swap.launchers,
            launcher_here: here.to_vec(),
            launcher_inside: inside.to_vec(),
            program: program.to_vec(),
            loading: swap.loading,
            verdict: swap.verdict,
            place: Place::Container(Container {
                image: image.to_owned(),
                with: request.with.clone(),
                mpi_program: request.program.clone(),
                cabane,
            }),
        })
    }

    /// Returns the plan.
    ///
    /// # Errors
    ///
    /// The substitution is refused, or the launcher cannot start ranks of the substitute.
    pub fn plan(&self) -> Result<&Plan> {
        let plan = accepted(&self.verdict)?;
        check_launcher(self.launcher, &self.verdict, &self.launchers)?;
        Ok(plan)
    }

    /// Returns the variables of a plan.
    pub fn variables(&self, context: &Context, plan: &Plan) -> Vec<(String, String)> {
        match &self.place {
            Place::Here(_) => plan.environment(|name| Some(variable(context, name))),
            Place::Container(_) => plan.environment(|_| None),
        }
    }

    /// Creates the links that a plan needs on this machine.
    ///
    /// # Errors
    ///
    /// There is no cache directory, or it cannot be written.
    pub fn make_links(&self, plan: &Plan) -> Result<()> {
        match &self.place {
            Place::Here(places) => make_links(plan, places),
            Place::Container(_) => Ok(()),
        }
    }

    /// Runs ranks of a test program in the place of the program. Returns `None` if the verdict has
    /// no substitute.
    ///
    /// # Errors
    ///
    /// As [`RingTest::run`] and [`own_launcher`].
    pub fn test(
        &self,
        context: &Context,
        plan: &Plan,
        measures: bool,
    ) -> Result<Option<RingResult>> {
        let (Some(to), Some(loading)) = (&self.verdict.to, &self.loading) else {
            return Ok(None);
        };
        let is_launched = !self.launcher_here.is_empty() || !self.launcher_inside.is_empty();
        let own = if is_launched {
            self.launcher_here.clone()
        } else {
            own_launcher(to, &self.launchers)?
        };
        let is_here = matches!(self.place, Place::Here(_));
        let is_known = |from: &&Library| {
            let mut kinds = self.launcher.into_iter();
            let is_same = is_here && from.file == to.file;
            !is_same && kinds.all(|kind| from.fits(kind) != Some(false))
        };
        let file = match &self.place {
            Place::Here(_) => to.file.clone(),
            Place::Container(_) => path_in_container(&to.path),
        };
        let test = RingTest {
            loading,
            to: (to, &file),
            from: self.verdict.from.as_ref().filter(is_known),
            ranks: (!is_launched).then_some(2),
            measures,
        };
        let variables = self.variables(context, plan);
        let result = test.run(context, |with, directory| match &self.place {
            Place::Here(_) => {
                let variables = match with {
                    With::Own => &[],
                    With::Substitute => variables.as_slice(),
                };
                let probe = directory.join("probe").into_os_string();
                with_variables(&own, variables, &[probe])
            }
            Place::Container(container) => {
                let probe = format!("{PROBE}/probe").into();
                let command = [self.launcher_inside.as_slice(), &[probe]].concat();
                container.line(&own, with, Some(directory), &command)
            }
        });
        result.map(Some)
    }

    /// The container image in which the ranks run, if they do.
    pub fn image(&self) -> Option<&str> {
        match &self.place {
            Place::Here(_) => None,
            Place::Container(container) => Some(&container.image),
        }
    }

    /// Replaces this process with the command. Returns only if that fails.
    #[must_use]
    pub fn exec(&self, context: &Context, plan: &Plan) -> Report {
        let line = match &self.place {
            Place::Here(_) => {
                let variables = self.variables(context, plan);
                with_variables(&self.launcher_here, &variables, &self.program)
            }
            Place::Container(container) => {
                let command = [self.launcher_inside.as_slice(), &self.program].concat();
                container.line(&self.launcher_here, With::Substitute, None, &command)
            }
        };
        become_command(line)
    }
}

/// Returns the launcher of this machine with which a command begins, if it does.
fn launcher_here(context: &Context, command: &[OsString]) -> Option<LauncherKind> {
    let files = Tree::here();
    let search = search(context, &files);
    let path = search.find(Path::new(command.first()?))?;
    search.launcher(&path)
}

/// Puts variables in front of a program, and both behind a launcher.
fn with_variables(
    before: &[OsString],
    variables: &[(String, String)],
    program: &[OsString],
) -> Vec<OsString> {
    let mut arguments = before.to_vec();
    if !variables.is_empty() {
        arguments.push("env".into());
        let each = variables.iter().map(|(name, value)| format!("{name}={value}"));
        arguments.extend(each.map(OsString::from));
    }
    arguments.extend(program.iter().cloned());
    arguments
}

impl Container {
    /// Returns the command line that starts a command in the container.
    fn line(
        &self,
        launcher: &[OsString],
        with: With,
        probe: Option<&Path>,
        command: &[OsString],
    ) -> Vec<OsString> {
        let mut arguments = launcher.to_vec();
        arguments.extend(self.cabane.iter().cloned());
        arguments.push("run".into());
        if with == With::Substitute {
            arguments.extend(["--mpi".into(), OsString::from(&self.with)]);
            // The test program needs MPI itself.
            if let (None, Some(program)) = (probe, &self.mpi_program) {
                arguments.extend(["--mpi-program".into(), program.into()]);
            }
        }
        if let Some(probe) = probe {
            let mut bind = probe.as_os_str().to_owned();
            bind.push(format!(":{PROBE}:ro"));
            arguments.extend(["--bind".into(), bind]);
        }
        arguments.extend([(&self.image).into(), "--".into()]);
        arguments.extend(command.iter().cloned());
        arguments
    }
}
