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

/// How many options only this plugin has. Those of pyxis follow, in its words: with pyxis in the same
/// `plugstack.conf`, they are its own.
const OWN: usize = 13;

/// All options; Slurm and the callback know them by their places here.
pub(crate) const ALL: [Opt; 30] = [
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
    container(
        c"container-image",
        Some(c"[REGISTRY#]NAME[:TAG]|PATH"),
        c"container image to run in: a name in a registry, or the path of a file",
        "--container-image",
    ),
    container(
        c"container-mounts",
        Some(c"SRC:DST[:FLAGS],..."),
        c"files and directories of the nodes that are visible in the container; FLAGS: ro, rw",
        "--container-mounts",
    ),
    container(
        c"container-workdir",
        Some(c"PATH"),
        c"directory in the container in which tasks start",
        "--container-workdir",
    ),
    container(
        c"container-name",
        Some(c"NAME[:create|exec|no_exec|auto]"),
        c"name by which later steps and jobs find the container image again",
        "--container-name",
    ),
    container(
        c"container-save",
        Some(c"PATH"),
        c"squashfs file to which the container image is copied",
        "--container-save",
    ),
    container(
        c"container-mount-home",
        None,
        c"show the home directory in the container",
        "--container-mount-home",
    ),
    container(
        c"no-container-mount-home",
        None,
        c"do not show the home directory in the container",
        "--no-container-mount-home",
    ),
    container(
        c"container-env",
        Some(c"NAME,..."),
        c"variables that keep your values where the container image sets others",
        "--container-env",
    ),
    container(
        c"container-readonly",
        None,
        c"nothing in the container image can be changed; this is the default",
        "--container-readonly",
    ),
    container(
        c"container-writable",
        None,
        c"changes are kept in memory until the step ends; tasks appear as root",
        "--container-writable",
    ),
    container(
        c"container-remap-root",
        None,
        c"tasks appear as root in the container; the same as --container-writable",
        "--container-remap-root",
    ),
    container(
        c"no-container-remap-root",
        None,
        c"tasks run as the user of the job; this is the default",
        "--no-container-remap-root",
    ),
    container(
        c"container-entrypoint",
        None,
        c"run the entry point of the container image, with the program as its arguments",
        "--container-entrypoint",
    ),
    container(
        c"no-container-entrypoint",
        None,
        c"do not run the entry point of the container image; this is the default",
        "--no-container-entrypoint",
    ),
    container(
        c"container-entrypoint-log",
        None,
        c"accepted: what the entry point prints is always shown",
        "--container-entrypoint-log",
    ),
    container(
        c"container-unshare",
        Some(c"NS,..."),
        c"refused: tasks share the namespaces of the node",
        "--container-unshare",
    ),
    container(
        c"edf",
        Some(c"FILE"),
        c"an environment file, by path or name; the same as --environment",
        "--environment",
    ),
];

/// Where the options are that name a container: `--container-image` and `--container-name`.
const NAMES_CONTAINER: [usize; 2] = [OWN, OWN + 3];

const fn container(
    name: &'static CStr,
    value: Option<&'static CStr>,
    usage: &'static CStr,
    passed_as: &'static str,
) -> Opt {
    Opt { name, value, usage, passed_as, variable: None, is_about_images: true }
}

/// Returns whether an option has the name of one of another plugin, which may have it already.
pub(crate) const fn is_shared(place: usize) -> bool {
    place >= OWN
}

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
        all.add_variables_of_pyxis(&variable);
        let has_images = all.has_images();
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

    /// Adds the variables that stand for options of pyxis, unless images of this plugin were typed.
    /// Without an image, they mean nothing.
    fn add_variables_of_pyxis(&mut self, variable: &impl Fn(&str) -> Option<String>) {
        let has_own = ALL
            .iter()
            .zip(&self.0)
            .take(OWN)
            .any(|(option, value)| option.is_about_images && value.is_some());
        let mut filled = self.clone();
        for (place, option) in ALL.iter().enumerate().skip(OWN) {
            let name = option.name.to_string_lossy().to_uppercase().replace('-', "_");
            let value = variable(&format!("PYXIS_{name}")).filter(|value| {
                option.value.is_some() || matches!(value.as_str(), "1" | "true" | "yes" | "y")
            });
            if filled.0.get(place).is_some_and(Option::is_none) && value.is_some() {
                filled.set(place, value);
            }
        }
        let has_container =
            NAMES_CONTAINER.iter().any(|place| filled.0.get(*place).is_some_and(Option::is_some));
        if has_container && !has_own {
            *self = filled;
        }
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

    #[test]
    fn variables_of_pyxis_stand_for_its_options_where_a_container_is_named() {
        let variable = |name: &str| match name {
            "PYXIS_CONTAINER_MOUNTS" => Some("/a:/b".to_owned()),
            "PYXIS_CONTAINER_MOUNT_HOME" => Some("0".to_owned()),
            "SLURM_UENV" => Some("app/1:v1".to_owned()),
            _ => None,
        };
        let arguments = |given: &Given| -> Vec<String> {
            given.or_variables(&["SLURM"], variable).arguments().collect()
        };
        assert_eq!(arguments(&Given::none()), ["--uenv=app/1:v1"]);
        let mut typed = Given::none();
        typed.set(NAMES_CONTAINER[0], Some("debian:12".to_owned()));
        let expected = ["--container-image=debian:12", "--container-mounts=/a:/b"];
        assert_eq!(arguments(&typed), expected);
        typed.set(0, Some("tool/1:v1".to_owned()));
        assert_eq!(arguments(&typed), ["--uenv=tool/1:v1", "--container-image=debian:12"]);
    }

    #[test]
    fn the_options_that_name_a_container_are_where_they_are_looked_for() {
        let names = NAMES_CONTAINER.map(|place| ALL[place].name);
        assert_eq!(names, [c"container-image", c"container-name"]);
        assert!(is_shared(NAMES_CONTAINER[0]) && !is_shared(OWN - 1));
    }
}
