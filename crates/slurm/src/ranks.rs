// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! On a node: a warning before ranks start that would not find each other.
//!
//! `srun` without a fitting `--mpi` starts each rank of MPICH as a program of its own, which succeeds
//! and does the work of all. The metadata of an image say what its MPI needs; whether the program of
//! the step uses that MPI is looked up by `cabane slurm node`, on one node, and only where the two do
//! not fit.

use std::ffi::OsString;
use std::time::Duration;

use cabane_mount::{JobImage, JobMounts, JobRoot};

use crate::query::lines_of;
use crate::spank::Spank;
use crate::substitute::{ImageView, On, arguments_about, handed_on, mpi_type};

/// A step is not held up for a warning, also where files hang.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// Returns what the user is warned of. What cannot be found out is no reason for a warning.
pub(crate) fn warn(
    spank: &dyn Spank,
    on: &On<'_>,
    mounts: &JobMounts,
    root: &JobRoot,
) -> Vec<String> {
    let Ok(step) = spank.step() else {
        return Vec::new();
    };
    let is_one_of_several = step.is_ordinary() && step.node == 0 && step.tasks > 1;
    let kind = mpi_type(spank);
    if !is_one_of_several || on.images.iter().all(|image| fits(image, &kind.to_string_lossy())) {
        return Vec::new();
    }
    let Ok(program) = spank.arguments() else {
        return Vec::new();
    };
    let mut arguments: Vec<OsString> = vec!["--check-ranks".into()];
    // Behind the root of an image there is no command to ask.
    let is_root = on.images.iter().any(|image| image.mount_point.as_os_str() == "/");
    let view = is_root.then(|| ImageView::make(on)).and_then(Result::ok);
    let namespace = match &view {
        Some(view) => {
            arguments.extend(view.arguments(root));
            view.namespace()
        }
        None if is_root => return Vec::new(),
        None => Some(mounts.namespace()),
    };
    if let Ok(Some(directory)) = spank.variable("PWD") {
        arguments.extend(["--directory".into(), directory]);
    }
    arguments.extend(arguments_about(spank, step));
    arguments.push("--".into());
    arguments.extend(program);
    let finished = on.query.ask(&arguments, &handed_on(spank), namespace, TIME_LIMIT);
    // A command of another version may not know the question.
    let finished = finished.ok().filter(|finished| finished.is_well);
    finished.map(|finished| lines_of(&finished.errors)).unwrap_or_default()
}

/// Whether ranks with the MPI of an image find each other; also if it has none.
fn fits(image: &JobImage, kind: &str) -> bool {
    image.mpi.is_empty() || image.mpi.iter().any(|name| kind.starts_with(name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_find_each_other_with_what_their_mpi_speaks() {
        let image = |mpi: &[&str]| JobImage {
            mpi: mpi.iter().map(|name| (*name).to_owned()).collect(),
            ..JobImage::new(cabane_mount::ImageFormat::Squashfs, "/a", "/b")
        };
        let cases = [
            (&["pmi2"][..], "pmi2", true),
            (&["pmi2"], "none", false),
            (&["pmi2", "pmix"], "pmix_v4", true),
            (&["unknown"], "pmi2", false),
            (&[], "none", true),
        ];
        for (mpi, kind, expected) in cases {
            assert_eq!(fits(&image(mpi), kind), expected, "{mpi:?} {kind}");
        }
    }
}
