// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Another MPI for a command in a container.
//!
//! The files of the container are read before it is entered. The libraries of the substitute are
//! then bound to a directory of their own in the container, each at its path below that, and
//! variables point there.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cabane_label::escape;
use cabane_mpi::{LauncherKind, Library, Outcome, Plan, Verdict};
use cabane_report::Result;
use cabane_run::loaded::{Additions, Bind};
use cabane_site::Context;
use cabane_view::VariableSetting;
use serde::{Deserialize, Serialize};

use crate::environment_files::with_mount_point;
use crate::judgment::{SwapCommand, accepted, check_launcher, judge_command};
use crate::ring_test::Loading;
use crate::substitute::refined;
use crate::{EnvironmentFiles, Launchers, Search, SubstituteRequest, SwapError, substitute_image};

/// A command in a container that is to get another MPI.
#[derive(Clone, Copy, Debug)]
pub struct ContainerQuestion<'a> {
    /// The substitute.
    pub request: SubstituteRequest<'a>,
    /// The container.
    pub files: &'a EnvironmentFiles,
    /// The command.
    pub command: &'a [OsString],
    /// Whether the command begins with a launcher of this machine.
    pub is_launched: bool,
}

/// How a command in a container gets another MPI.
#[derive(Debug, Serialize, Deserialize)]
pub struct ContainerSwap {
    /// The file that needs MPI.
    pub file: PathBuf,
    /// The index of the program in the command.
    pub begin: usize,
    /// The launcher in the container with which the command begins, if it does.
    pub launcher: Option<LauncherKind>,
    /// Whether it is possible, and how.
    pub verdict: Verdict,
    /// How a test program loads MPI as the program does.
    pub loading: Option<Loading>,
    /// What starts ranks of the substitute.
    pub launchers: Launchers,
}

impl ContainerSwap {
    /// Reads a container and judges.
    ///
    /// # Errors
    ///
    /// There is no such program or substitute, or the container cannot be read. That a substitution
    /// is refused is no error.
    pub fn judge(context: &Context, question: &ContainerQuestion<'_>) -> Result<Self> {
        let image = substitute_image(context, question.request.with);
        let prefix = image.as_ref().map(|image| image.prefix.to_string_lossy());
        let request = SubstituteRequest {
            with: prefix.as_deref().unwrap_or(question.request.with),
            ..question.request
        };
        let files = question.files;
        let swap = files.read(context, image.as_ref(), |tree, here| {
            let command = SwapCommand {
                search: Search { tree, path: &files.path },
                library_path: &files.library_path,
                command: question.command,
                is_launched: question.is_launched,
                is_contained: true,
            };
            let mut judged = judge_command(context, request, command, here)?;
            if let (Outcome::Possible(plan), Some(image)) = (&mut judged.verdict.outcome, &image) {
                with_mount_point(plan, here, image);
            }
            let library = judged.verdict.to.as_ref();
            Ok(Self {
                loading: library.map(|library| Loading::of(tree, &judged.line.file, library)),
                begin: judged.line.before.len(),
                launcher: judged.line.launcher,
                launchers: judged.substitute.launchers,
                file: judged.line.file,
                verdict: judged.verdict,
            })
        })?;
        swap.map_err(|error: SwapError| refined(context, error))
    }

    /// Returns the plan.
    ///
    /// # Errors
    ///
    /// The substitution is refused, or the launcher in the container cannot start its ranks.
    pub fn plan(&self) -> Result<&Plan> {
        let plan = accepted(&self.verdict)?;
        check_launcher(self.launcher, &self.verdict, &self.launchers)?;
        Ok(plan)
    }
}

/// Judges whether a command in a container can have a substitute, adds the variables, and returns
/// the binds.
///
/// # Errors
///
/// As [`ContainerSwap::judge`] and [`ContainerSwap::plan`].
pub fn substitute_in_container(
    context: &Context,
    question: &ContainerQuestion<'_>,
    additions: &mut Additions,
) -> Result<Vec<Bind>> {
    let swap = ContainerSwap::judge(context, question)?;
    let plan = swap.plan()?;
    for (name, value) in plan.environment(|_| None) {
        let setting = if is_list(&name) {
            VariableSetting { prepend: vec![value], ..VariableSetting::default() }
        } else {
            VariableSetting::to(&value)
        };
        additions.variables.0.insert(name, setting);
    }
    let title = |library: &Option<Library>| library.as_ref().map(Library::title);
    let (from, to) = (&swap.verdict.from, &swap.verdict.to);
    let note = format!(
        "{} gets {} in place of {}",
        swap.file.display(),
        title(to).unwrap_or_default(),
        title(from).unwrap_or_else(|| "nothing".to_owned())
    );
    context.detail(escape(&note));
    for warning in &swap.verdict.warnings {
        context.detail(escape(&warning.to_string()));
    }
    Ok(binds_of(plan))
}

/// Returns whether a variable is a list, to which a plan prepends its value.
pub(crate) fn is_list(name: &str) -> bool {
    matches!(name, "LD_PRELOAD" | "LD_LIBRARY_PATH")
}

/// Returns the binds that show a substitute in a container. A directory includes its files.
pub(crate) fn binds_of(plan: &Plan) -> Vec<Bind> {
    let mut pairs: Vec<(&Path, &Path)> =
        plan.carried.iter().map(|one| (one.target.as_path(), one.source.as_path())).collect();
    pairs.extend(plan.links.iter().filter_map(|(link, target)| {
        let carried = plan.carried.iter().find(|one| one.target == *target)?;
        Some((link.as_path(), carried.source.as_path()))
    }));
    pairs.sort();
    // What is in a directory comes right after it.
    pairs.dedup_by(|(target, _), (outer, _)| target.starts_with(outer));
    let bind = |(target, source): (&Path, &Path)| {
        Some(Bind {
            source: source.to_owned(),
            target: target.to_str()?.parse().ok()?,
            read_only: false,
        })
    };
    pairs.into_iter().filter_map(bind).collect()
}
