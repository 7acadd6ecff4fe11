// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The options that the plugin adds to `srun`, `sbatch`, and `salloc`, and what was given.

use std::ffi::CStr;

/// An option, as Slurm lists it with `--help`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opt {
    /// The name, without the dashes.
    pub(crate) name: &'static CStr,
    /// What its value is called, if it takes one.
    pub(crate) value: Option<&'static CStr>,
    /// What it is for.
    pub(crate) usage: &'static CStr,
    /// The option of `cabane slurm submit` that is the same.
    pub(crate) passed_as: &'static str,
    /// How the variable ends that stands for it, if there is one.
    pub(crate) variable: Option<&'static str>,
    /// Whether it says which images and views are wanted.
    pub(crate) is_about_images: bool,
}

/// The option that belongs to all commands.
const BEFORE: &str = "--repo";

/// All options; Slurm and the callback know them by their places here.
pub(crate) const ALL: [Opt; 13] = [
    Opt {
        name: c"uenv",
        value: Some(c"IMAGES"),
        usage: c"images to mount: labels or paths, each may be followed by :/mount/point",
        passed_as: "--uenv",
        variable: Some("_UENV"),
        is_about_images: true,
    },
    Opt {
        name: c"view",
        value: Some(c"VIEWS"),
        usage: c"views to load: VIEW or IMAGE:VIEW, separated by commas",
        passed_as: "--view",
        variable: Some("_UENV_VIEW"),
        is_about_images: true,
    },
    Opt {
        name: c"repo",
        value: Some(c"REPOSITORIES"),
        usage: c"where images are looked for: names or absolute paths",
        passed_as: "--repo",
        variable: Some("_UENV_REPO"),
        is_about_images: false,
    },
    Opt {
        name: c"environment",
        value: Some(c"FILE"),
        usage: c"an environment file, by path or name",
        passed_as: "--environment",
        variable: Some("_UENV_ENVIRONMENT"),
        is_about_images: true,
    },
    Opt {
        name: c"no-default-view",
        value: None,
        usage: c"load no view if none is named",
        passed_as: "--no-default-view",
        variable: None,
        is_about_images: true,
    },
    Opt {
        name: c"uenv-passthrough",
        value: Some(c"use|ignore|disable"),
        usage: c"what becomes of images that are loaded where the job is submitted",
        passed_as: "--uenv-passthrough",
        variable: Some("_UENV_PASSTHROUGH"),
        is_about_images: false,
    },
    Opt {
        name: c"uenv-unfit",
        value: Some(c"refuse|warn"),
        usage: c"what becomes of a step on a node that cannot run an image",
        passed_as: "--uenv-unfit",
        variable: Some("_UENV_UNFIT"),
        is_about_images: false,
    },
    Opt {
        name: c"uenv-stage",
        value: Some(c"no|memory|local"),
        usage: c"where each node copies the images first and mounts them from",
        passed_as: "--uenv-stage",
        variable: Some("_UENV_STAGE"),
        is_about_images: false,
    },
    Opt {
        name: c"uenv-bind",
        value: Some(c"SOURCE[:TARGET[:ro]]"),
        usage: c"what else is seen in a container image, separated by commas",
        passed_as: "--uenv-bind",
        variable: None,
        is_about_images: true,
    },
    Opt {
        name: c"uenv-no-home",
        value: None,
        usage: c"do not show the home directory in a container image",
        passed_as: "--uenv-no-home",
        variable: None,
        is_about_images: true,
    },
    Opt {
        name: c"uenv-device",
        value: Some(c"DEVICES"),
        usage: c"devices of the nodes that the images get: VENDOR/CLASS=NAME, separated by commas",
        passed_as: "--uenv-device",
        variable: Some("_UENV_DEVICE"),
        is_about_images: false,
    },
    Opt {
        name: c"uenv-mpi",
        value: Some(c"MPI"),
        usage: c"another MPI for programs: host, one of the configuration, a prefix, a library; or none",
        passed_as: "--uenv-mpi",
        variable: Some("_UENV_MPI"),
        is_about_images: false,
    },
    Opt {
        name: c"uenv-mpi-program",
        value: Some(c"FILE"),
        usage: c"the file that needs MPI, if the program does not itself",
        passed_as: "--uenv-mpi-program",
        variable: None,
        is_about_images: false,
    },
];

/// Returns the variables by which Slurm hands the options of a job on to what is submitted
/// in it, but for the one that only says where to look. Those options were meant for the
/// job: its images are loaded, and a label may mean another one by now.
pub(crate) fn inherited() -> impl Iterator<Item = String> {
    let names = ALL.iter().filter(|option| option.passed_as != BEFORE);
    names.flat_map(|option| {
        let name = option.name.to_string_lossy().replace('-', "_");
        // The second is what programs started in a job make the first one of.
        ["", "SLURM_SPANK_"].map(|before| format!("{before}_SLURM_SPANK_OPTION_cabane_{name}"))
    })
}

/// What was given of [`ALL`]. An option that is given twice has the last value, as those of
/// Slurm: what is typed comes after what a batch script says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Given([Option<String>; ALL.len()]);

impl Given {
    /// Returns nothing.
    pub(crate) const fn none() -> Self {
        Self([const { None }; ALL.len()])
    }

    /// Notes a value, or that an option without one was given.
    pub(crate) fn set(&mut self, place: usize, value: Option<String>) {
        if let Some(slot) = self.0.get_mut(place) {
            *slot = Some(value.unwrap_or_default());
        }
    }

    /// Tells whether nothing was given.
    pub(crate) fn is_none(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// Tells whether the answer names which images or views are wanted.
    pub(crate) fn has_images(&self) -> bool {
        let mut pairs = ALL.iter().zip(&self.0);
        pairs.any(|(option, value)| option.is_about_images && value.is_some())
    }

    /// Adds what variables say, the first prefix that has one. If anything about images was
    /// typed, what variables say about those means others.
    pub(crate) fn or_variables(
        &self,
        prefixes: &[&str],
        variable: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let mut all = self.clone();
        let has_images = self.has_images();
        for (option, slot) in ALL.iter().zip(&mut all.0) {
            let Some(ending) = option.variable else {
                continue;
            };
            if slot.is_none() && !(has_images && option.is_about_images) {
                let mut names = prefixes.iter().map(|prefix| format!("{prefix}{ending}"));
                *slot = names.find_map(|name| variable(&name));
            }
        }
        all
    }

    /// Returns the arguments for `cabane` that precede `slurm submit`.
    pub(crate) fn arguments_before(&self) -> impl Iterator<Item = String> {
        self.arguments_if(|option| option.passed_as == BEFORE)
    }

    /// Returns the arguments for `cabane slurm submit`.
    pub(crate) fn arguments(&self) -> impl Iterator<Item = String> {
        self.arguments_if(|option| option.passed_as != BEFORE)
    }

    fn arguments_if(&self, is_wanted: impl Fn(&Opt) -> bool) -> impl Iterator<Item = String> {
        let pairs = ALL.iter().zip(&self.0);
        let wanted = pairs.filter(move |(option, _)| is_wanted(option));
        wanted.filter_map(|(option, value)| {
            let (value, name) = (value.as_ref()?, option.passed_as);
            Some(match option.value {
                Some(_) => format!("{name}={value}"),
                None => name.to_owned(),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variables_of_slurm_are_named_as_it_names_them() {
        let names: Vec<_> = inherited().collect();
        assert!(
            names.contains(&"_SLURM_SPANK_OPTION_cabane_no_default_view".to_owned())
                && !names.iter().any(|name| name.ends_with("_repo")),
            "{names:?}"
        );
    }

    #[test]
    fn what_was_given_is_passed_on_and_the_last_value_counts() {
        let mut given = Given::none();
        given.set(0, Some("a/1:v1".to_owned()));
        given.set(0, Some("b/1:v1".to_owned()));
        given.set(4, None);
        let arguments: Vec<_> = given.arguments().collect();
        assert_eq!(arguments, ["--uenv=b/1:v1", "--no-default-view"]);
    }
}
