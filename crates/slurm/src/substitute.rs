// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! On a node: another MPI for the program of a step.
//!
//! Whether and how that can be done is judged once for a step on each node, by
//! `cabane slurm node`, which sees the files as the tasks will: the images are mounted for it,
//! one that is the root at a mount point of the policy. What it answers is carried out before
//! there are tasks; what it refuses ends the step with its exit code.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cabane_mount::{JOB_MPI, JobImage, JobMounts, JobMpi, JobOwner, JobRoot, Stage, place_to_look};

use crate::hints::lines;
use crate::query::{Answer, Query, TIME_LIMIT, lines_of};
use crate::spank::{Spank, Step};

/// The list in which the loader looks for libraries before all others.
const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";
/// In which way Slurm lets ranks find each other; not set if in none.
const MPI_TYPE: &str = "SLURM_MPI_TYPE";
/// Names a library by which Intel MPI finds other ranks in its own way.
const OWN_PMI: &str = "I_MPI_PMI_LIBRARY";
/// Variables of the job by which the owner's configuration is found, and programs.
const HANDED_ON: [&str; 8] = [
    "HOME",
    "USER",
    "PATH",
    "SCRATCH",
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
    "CABANE_SITE_CONFIG",
    "CABANE_CACHE_DIR",
];
/// Where programs are looked for if nothing says so.
const USUAL_PATH: &str = "/usr/bin:/bin";

/// What a step on this node has.
pub(crate) struct On<'a> {
    pub(crate) query: Query<'a>,
    pub(crate) owner: &'a JobOwner,
    pub(crate) images: &'a [JobImage],
    pub(crate) stage: Option<Stage>,
}

/// Why a step does not get it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Lines for the user.
    pub(crate) lines: Vec<String>,
    /// With which the step ends.
    pub(crate) code: u8,
}

impl From<Vec<String>> for Refusal {
    fn from(lines: Vec<String>) -> Self {
        Self { lines, code: 1 }
    }
}

/// Finds out which MPI a step is to get. A batch script has its own: it is for the steps that
/// it starts.
///
/// # Errors
///
/// A variable that cannot be read.
pub(crate) fn wanted(spank: &dyn Spank) -> Result<Option<(JobMpi, Step)>, Vec<String>> {
    let failed = |error: crate::spank::SlurmError| {
        vec![format!("cannot read the variable {JOB_MPI}: {}", error.0)]
    };
    let text = spank.variable(JOB_MPI).map_err(failed)?;
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let step = spank.step().map_err(failed)?;
    if !step.is_ordinary() {
        return Ok(None);
    }
    let mpi = text.to_str().and_then(JobMpi::parse);
    let mpi = mpi.ok_or_else(|| vec![format!("the variable {JOB_MPI} is malformed")])?;
    Ok(Some((mpi, step)))
}

/// Gives the step another MPI: sets variables, and adds places of a root image. Returns what
/// the user sees it.
///
/// # Errors
///
/// That it cannot be done.
pub(crate) fn give(
    spank: &dyn Spank,
    on: &On<'_>,
    (mpi, step): &(JobMpi, Step),
    root: &mut JobRoot,
) -> Result<Vec<String>, Refusal> {
    let failed = |reason: String| {
        Refusal::from(vec![format!("cannot find out how the step gets another MPI: {reason}")])
    };
    let program = spank
        .arguments()
        .map_err(|error| failed(format!("its program is not known: {}", error.0)))?;
    let view = ImageView::make(on)?;
    let mut arguments = view.arguments(root);
    arguments.extend(arguments_for(mpi));
    arguments.extend(arguments_about(spank, *step));
    arguments.push("--".into());
    arguments.extend(program);
    let finished = on
        .query
        .ask(&arguments, &handed_on(spank), view.namespace(), TIME_LIMIT)
        .map_err(|error| failed(error.to_string()))?;
    let mut lines = lines_of(&finished.errors);
    if !finished.is_well {
        view.leave();
        if lines.is_empty() {
            lines.push("nothing says whether the step can have another MPI".to_owned());
        }
        let code = finished.code.and_then(|code| u8::try_from(code).ok());
        let code = code.filter(|code| *code != 0).unwrap_or(1);
        return Err(Refusal { lines, code });
    }
    let answer = Answer::parse(&finished.output).ok_or_else(|| {
        failed("the answer is malformed: is `cabane` another version?".to_owned())
    })?;
    answer.execute(spank, root)?;
    // All nodes say the same, as a rule.
    Ok(if step.node == 0 { lines } else { Vec::new() })
}

/// The files of a step, for one who looks at them.
pub(crate) struct ImageView {
    mounts: Option<JobMounts>,
    /// Where the image is that will be the root.
    root: Option<PathBuf>,
    /// Where others are.
    stacks: Vec<PathBuf>,
}

impl ImageView {
    pub(crate) fn make(on: &On<'_>) -> Result<Self, Vec<String>> {
        let is_root = |image: &&JobImage| image.mount_point == Path::new("/");
        let has_root = on.images.iter().any(|image| is_root(&image));
        let mut images = on.images.to_vec();
        let mut root = None;
        if has_root {
            let place = place_to_look(on.images).map_err(|error| lines(&error))?;
            images.retain(|image| image.mount_point != place);
            for image in &mut images {
                if is_root(&&*image) {
                    image.mount_point.clone_from(&place);
                }
            }
            root = Some(place);
        }
        let places = images.iter().map(|image| image.mount_point.clone());
        let stacks = places.filter(|place| Some(place) != root.as_ref()).collect();
        let nothing = JobRoot::default();
        let mounts = if images.is_empty() {
            None
        } else {
            let made = JobMounts::make(&images, &nothing, on.owner, on.stage);
            Some(made.map_err(|error| lines(&error))?)
        };
        Ok(Self { mounts, root, stacks })
    }

    pub(crate) fn namespace(&self) -> Option<&std::fs::File> {
        self.mounts.as_ref().map(JobMounts::namespace)
    }

    /// Gives up what is mounted: there will be no tasks.
    fn leave(self) {
        if let Some(mounts) = self.mounts {
            let _ = mounts.leave();
        }
    }

    /// Says what is seen where in a root image.
    pub(crate) fn arguments(&self, seen: &JobRoot) -> Vec<OsString> {
        let Some(root) = &self.root else {
            return Vec::new();
        };
        let mut arguments: Vec<OsString> = vec!["--root".into(), root.into()];
        for bind in &seen.binds {
            let (target, source) = (bind.target.clone(), bind.source.clone());
            arguments.extend(["--seen".into(), target.into(), source.into()]);
        }
        for place in &self.stacks {
            arguments.extend(["--stack".into(), place.into()]);
        }
        arguments
    }
}

fn arguments_for(mpi: &JobMpi) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec!["--mpi".into(), mpi.name()];
    for library in &mpi.libraries {
        arguments.extend(["--mpi-library".into(), library.into()]);
    }
    if let Some(program) = &mpi.program {
        arguments.extend(["--mpi-program".into(), program.into()]);
    }
    if let Some(directory) = &mpi.directory {
        arguments.extend(["--directory".into(), directory.into()]);
    }
    arguments
}

/// Describes the step: where its libraries are, how its ranks find each other, and how many there are.
pub(crate) fn arguments_about(spank: &dyn Spank, step: Step) -> Vec<OsString> {
    let value = |name| spank.variable(name).ok().flatten();
    let mut arguments = Vec::new();
    // One argument each: a value may begin with a dash.
    let mut path = OsString::from("--library-path=");
    path.push(value(LIBRARY_PATH).unwrap_or_default());
    arguments.push(path);
    if value(OWN_PMI).is_none() {
        let mut kind = OsString::from("--pmi=");
        kind.push(mpi_type(spank));
        arguments.push(kind);
    }
    arguments.extend(["--tasks".into(), step.tasks.to_string().into()]);
    arguments
}

/// Returns in which way Slurm lets ranks find each other, as `srun --mpi` names it.
pub(crate) fn mpi_type(spank: &dyn Spank) -> OsString {
    spank.variable(MPI_TYPE).ok().flatten().unwrap_or_else(|| "none".into())
}

/// The variables of the job that the answer depends on.
pub(crate) fn handed_on(spank: &dyn Spank) -> Vec<(&'static str, OsString)> {
    let value = |name: &'static str| Some((name, spank.variable(name).ok().flatten()?));
    let mut variables: Vec<_> = HANDED_ON.into_iter().filter_map(value).collect();
    if !variables.iter().any(|(name, _)| *name == "PATH") {
        variables.push(("PATH", USUAL_PATH.into()));
    }
    variables
}
