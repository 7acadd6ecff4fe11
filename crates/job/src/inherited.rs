// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Builds of images in the job around an `srun`, for the steps that it starts.
//!
//! On the node where `srun` is typed the variables are those of the builds that this node
//! has taken. The nodes of the step choose again: what they can choose from is in the list
//! of the job.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use cabane_mount::{JOB_IMAGES, JobBind, JobImage, JobImages, JobVariable};
use cabane_run::loaded::{CABANE_LOADED, Loaded, LoadedImage, UENV_MOUNT_LIST, UENV_VIEW};

type Variables = BTreeMap<OsString, OsString>;

/// What the list of the job around says about the images that are loaded.
#[derive(Debug, Default)]
pub(crate) struct Inherited {
    pub(crate) list: JobImages,
    /// The build of each image that is loaded here, or the first if none is.
    pub(crate) now: Vec<usize>,
}

impl Inherited {
    /// Reads the list. One that is malformed, or does not belong to what is loaded, is that of
    /// no one here.
    pub(crate) fn of(variables: &Variables) -> Self {
        let text = text_of(variables, JOB_IMAGES).unwrap_or_default();
        let Ok(list) = JobImages::parse(text) else {
            return Self::default();
        };
        let loaded = loaded_in(variables);
        if list.ways() != list.variables.len().max(1) {
            return Self::default();
        }
        let is_loaded = |build: &JobImage| loaded.images.iter().any(|one| is_same(one, build));
        let now = |builds: &Vec<JobImage>| builds.iter().position(is_loaded).unwrap_or(0);
        let now = list.images.iter().map(now).collect();
        Self { list, now }
    }

    /// Returns what was requested to be seen in a root image.
    pub(crate) fn binds(&self) -> Vec<JobBind> {
        let binds = self.list.root.binds.iter();
        binds.filter(|bind| bind.must_be).cloned().collect()
    }

    /// Finds the image that is loaded, and its builds.
    pub(crate) fn find(&self, loaded: &LoadedImage) -> Option<(usize, &[JobImage])> {
        let pairs = self.list.images.iter().zip(&self.now).enumerate();
        let mut found = pairs.filter(|(_, (builds, now))| {
            let build = builds.get(**now);
            build.is_some_and(|build| is_same(loaded, build))
        });
        found.next().map(|(position, (builds, _))| (position, builds.as_slice()))
    }

    /// Returns the variables as they were if these builds were loaded. What someone has
    /// changed since stays.
    pub(crate) fn variables_with(&self, variables: &Variables, places: &[usize]) -> Variables {
        let mut changed = variables.clone();
        let (old, new) = (self.list.variables_for(&self.now), self.list.variables_for(places));
        let ours = [CABANE_LOADED, UENV_MOUNT_LIST, UENV_VIEW].map(OsStr::new);
        for (name, value) in new.iter().filter(|(name, _)| !ours.contains(&name.as_os_str())) {
            if variables.get(name) == value_of(old, name) {
                match value {
                    Some(value) => changed.insert(name.clone(), value.clone()),
                    None => changed.remove(name),
                };
            }
        }
        let loaded = text_of(variables, CABANE_LOADED).and_then(Loaded::from_variable);
        let value = value_of(new, OsStr::new(CABANE_LOADED)).and_then(|value| value.to_str());
        if let (Some(mut loaded), Some(other)) = (loaded, value.and_then(Loaded::from_variable)) {
            self.exchange(&mut loaded, &other, places);
            changed.insert(CABANE_LOADED.into(), loaded.to_variable().into());
            changed.insert(UENV_MOUNT_LIST.into(), loaded.mount_list().into());
            changed.insert(UENV_VIEW.into(), loaded.view_list().into());
        } else if let Some(value) = text_of(variables, UENV_MOUNT_LIST) {
            // As where no variables were passed on to the node.
            let list = self.mount_list_with(Loaded::from_mount_list(value), places);
            changed.insert(UENV_MOUNT_LIST.into(), list.into());
        }
        changed
    }

    /// Returns the builds that are loaded, each with the one that takes its place.
    fn exchanged(&self, places: &[usize]) -> impl Iterator<Item = (&JobImage, &JobImage)> {
        let builds = self.list.images.iter().zip(self.now.iter().zip(places));
        builds.filter_map(|(builds, (old, new))| builds.get(*old).zip(builds.get(*new)))
    }

    fn mount_list_with(&self, mut loaded: Loaded, places: &[usize]) -> String {
        for (old, new) in self.exchanged(places) {
            if let Some(image) = loaded.images.iter_mut().find(|image| is_same(image, old)) {
                image.path.clone_from(&new.path);
                image.mount_point.clone_from(&new.mount_point);
            }
        }
        loaded.mount_list()
    }

    /// Puts other builds into the places of those that are loaded, as they were loaded in
    /// `other`.
    fn exchange(&self, loaded: &mut Loaded, other: &Loaded, places: &[usize]) {
        for (old, new) in self.exchanged(places) {
            let taken = other.images.iter().find(|image| is_same(image, new));
            let replaced = loaded.images.iter_mut().find(|image| is_same(image, old));
            let (Some(taken), Some(replaced)) = (taken, replaced) else {
                continue;
            };
            *replaced = taken.clone();
            let of_old = |place: &std::path::Path| place == old.mount_point;
            let at = loaded.views.iter().position(|view| of_old(&view.mount_point));
            loaded.views.retain(|view| !of_old(&view.mount_point));
            let views = other.views.iter();
            let views = views.filter(|view| view.mount_point == new.mount_point);
            let at = at.unwrap_or(loaded.views.len());
            loaded.views.splice(at..at, views.cloned());
        }
    }
}

fn is_same(loaded: &LoadedImage, build: &JobImage) -> bool {
    loaded.path == build.path && loaded.mount_point == build.mount_point
}

fn text_of<'a>(variables: &'a Variables, name: &str) -> Option<&'a str> {
    variables.get(OsStr::new(name))?.to_str()
}

fn value_of<'a>(variables: &'a [JobVariable], name: &OsStr) -> Option<&'a OsString> {
    let mut variables = variables.iter();
    variables.find(|(other, _)| other == name)?.1.as_ref()
}

/// Finds what is loaded, also by a tool that sets the list of mounts only.
pub(crate) fn loaded_in(variables: &Variables) -> Loaded {
    let mounted = || text_of(variables, UENV_MOUNT_LIST).unwrap_or_default();
    let loaded = text_of(variables, CABANE_LOADED).and_then(Loaded::from_variable);
    loaded.unwrap_or_else(|| Loaded::from_mount_list(mounted()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cabane_mount::ImageFormat;

    fn loaded(uarch: &str) -> Loaded {
        Loaded {
            images: vec![LoadedImage {
                name: "app".to_owned(),
                label: Some(format!("app/1:v1@here%{uarch}")),
                digest: None,
                path: format!("/{uarch}").into(),
                repository: None,
                mount_point: "/a".into(),
                views: Vec::new(),
            }],
            ..Loaded::default()
        }
    }

    /// The variables of a job on a node that has taken the build for zen2.
    fn on_zen2() -> Variables {
        let image = |uarch: &str| JobImage::new(ImageFormat::Squashfs, format!("/{uarch}"), "/a");
        let of_build = |uarch: &str| {
            vec![
                (CABANE_LOADED.into(), Some(loaded(uarch).to_variable().into())),
                ("BUILD".into(), Some(uarch.into())),
                ("CHANGED".into(), Some(uarch.into())),
            ]
        };
        let list = JobImages {
            images: vec![vec![image("zen3"), image("zen2")]],
            variables: vec![of_build("zen3"), of_build("zen2")],
            ..JobImages::default()
        };
        Variables::from([
            (JOB_IMAGES.into(), list.to_string().into()),
            (CABANE_LOADED.into(), loaded("zen2").to_variable().into()),
            ("BUILD".into(), "zen2".into()),
            ("CHANGED".into(), "by hand".into()),
        ])
    }

    #[test]
    fn the_builds_of_what_is_loaded_are_found() {
        let inherited = Inherited::of(&on_zen2());
        let found = inherited.find(&loaded("zen2").images[0]);
        assert_eq!(found.map(|(place, builds)| (place, builds.len())), Some((0, 2)));
    }

    #[test]
    fn another_build_brings_its_variables_but_for_what_was_changed_since() {
        let variables = Inherited::of(&on_zen2()).variables_with(&on_zen2(), &[0]);
        let found = [CABANE_LOADED, UENV_MOUNT_LIST, "BUILD", "CHANGED"]
            .map(|name| text_of(&variables, name).unwrap_or_default().to_owned());
        let expected = [
            loaded("zen3").to_variable(),
            "/zen3:/a".to_owned(),
            "zen3".to_owned(),
            "by hand".to_owned(),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn where_only_mounts_are_given_those_are_exchanged() {
        let mut variables = on_zen2();
        variables.remove(OsStr::new(CABANE_LOADED));
        variables.insert(UENV_MOUNT_LIST.into(), "/zen2:/a,/other:/b".into());
        let changed = Inherited::of(&variables).variables_with(&variables, &[0]);
        assert_eq!(text_of(&changed, UENV_MOUNT_LIST), Some("/zen3:/a,/other:/b"));
    }

    #[test]
    fn what_is_not_in_the_list_is_not_found() {
        let inherited = Inherited::of(&on_zen2());
        assert_eq!(inherited.find(&loaded("zen4").images[0]), None);
    }
}
