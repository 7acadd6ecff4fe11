// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a process inside an environment knows about the images around it.
//!
//! It is carried by variables, as with the tools our users come from:
//! `UENV_MOUNT_LIST` (`FILE:MOUNT_POINT,…`) and `UENV_VIEW`
//! (`MOUNT_POINT:NAME:VIEW,…`) for scripts that read those, and `CABANE_LOADED`, a
//! line of JSON with everything `cabane status` shows.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use cabane_label::MountPoint;
use cabane_mount::{ImageDigest, UnpackedTree};
use cabane_resolve::{ConcreteEnvironment, Effect, effect};
use cabane_view::VariableSettings;
use serde::{Deserialize, Serialize};

use crate::mountinfo::unescaped;

/// Names the variable with everything `cabane status` shows, a line of JSON.
pub const CABANE_LOADED: &str = "CABANE_LOADED";
/// Names the variable with the mounted images, `FILE:MOUNT_POINT,…`.
pub const UENV_MOUNT_LIST: &str = "UENV_MOUNT_LIST";
/// Names the variable with the views in use, `MOUNT_POINT:NAME:VIEW,…`.
pub const UENV_VIEW: &str = "UENV_VIEW";

/// One image that is loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadedImage {
    /// The name by which views are qualified: that of the label or the metadata.
    pub name: String,
    /// The label under which it was found, if it was.
    pub label: Option<String>,
    /// The sha256 of the image, where it is known without reading the image.
    pub digest: Option<String>,
    /// The image file.
    pub path: PathBuf,
    /// The repository in which it was found.
    pub repository: Option<String>,
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// The views in use, in the order in which they were applied.
    pub views: Vec<String>,
}

/// A file or directory that appears at another place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    /// Where it is, an absolute path.
    pub source: PathBuf,
    /// Where it appears.
    pub target: MountPoint,
    /// Whether writing is refused there.
    pub read_only: bool,
}

/// A view in use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadedView {
    /// Where its image is mounted.
    pub mount_point: PathBuf,
    /// Its name.
    pub view: String,
}

/// What an environment file adds to images and views.
#[expect(clippy::struct_excessive_bools, reason = "each is asked for by itself")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Additions {
    /// Files and directories that appear at other places.
    pub binds: Vec<Bind>,
    /// Devices of the machine that a container has, by their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    /// Devices that a container has where the machine has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub optional_devices: Vec<String>,
    /// What becomes of variables, after the views.
    pub variables: VariableSettings,
    /// The directory in which the command starts.
    pub working_directory: Option<PathBuf>,
    /// Whether the command starts in the directory that a container names, if none is named here.
    #[serde(default, skip_serializing_if = "is_false")]
    pub starts_in_image: bool,
    /// Whether the tasks of a job get the variables by which `PyTorch` knows its ranks.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ranks_for_pytorch: bool,
    /// Whether the entry point of a container is run.
    #[serde(default, skip_serializing_if = "is_false")]
    pub entry_point: bool,
    /// Whether the root file system of a container is writable, in memory.
    #[serde(default, skip_serializing_if = "is_false")]
    pub writable: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
fn is_false(value: &bool) -> bool {
    !value
}

fn add_new(list: &mut Vec<String>, later: &[String]) {
    for item in later {
        if !list.contains(item) {
            list.push(item.clone());
        }
    }
}

/// All images around a process, those of the outermost environment first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loaded {
    /// The images.
    pub images: Vec<LoadedImage>,
    /// The views of all images, in the order in which they were applied.
    #[serde(default)]
    pub views: Vec<LoadedView>,
    /// What environment files added.
    #[serde(default)]
    pub additions: Additions,
    /// The caller's values of variables to which a view gave another one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub replaced: BTreeMap<String, String>,
}

/// The longest value of the caller that is remembered, in bytes.
const LONGEST_REPLACED: usize = 1024;

impl Loaded {
    /// Reads the value of `CABANE_LOADED`. A value that is none of ours counts as
    /// none: the variable may have been set by anyone.
    pub fn from_variable(value: &str) -> Option<Self> {
        serde_json::from_str(value).ok()
    }

    /// Reads the value of `UENV_MOUNT_LIST`, which other tools set, too. What has another
    /// form is left out.
    pub fn from_mount_list(value: &str) -> Self {
        let image = |item: &str| {
            let (path, mount_point) = item.rsplit_once(':')?;
            let path = path.strip_prefix("file://").unwrap_or(path);
            let is_whole = path.starts_with('/') && mount_point.starts_with('/');
            is_whole.then(|| LoadedImage {
                name: path.rsplit('/').next().unwrap_or(path).to_owned(),
                path: path.into(),
                mount_point: mount_point.into(),
                ..LoadedImage::default()
            })
        };
        Self { images: value.split(',').filter_map(image).collect(), ..Self::default() }
    }

    /// Reads what is around a process from its variables.
    pub fn of_variables(variables: &BTreeMap<OsString, OsString>) -> Self {
        let value = variables.get(OsStr::new(CABANE_LOADED)).and_then(|value| value.to_str());
        value.and_then(Self::from_variable).unwrap_or_default()
    }

    /// Tells whether there is nothing around the process.
    pub fn is_empty(&self) -> bool {
        self.images.is_empty() && self.additions == Additions::default()
    }

    /// Returns the value for `CABANE_LOADED`.
    pub fn to_variable(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns the value for `UENV_MOUNT_LIST`.
    pub fn mount_list(&self) -> String {
        let item = |image: &LoadedImage| {
            format!("{}:{}", image.path.display(), image.mount_point.display())
        };
        self.images.iter().map(item).collect::<Vec<_>>().join(",")
    }

    /// Returns the value for `UENV_VIEW`.
    pub fn view_list(&self) -> String {
        let views = self.images.iter().flat_map(|image| {
            let (mount, name) = (image.mount_point.display(), &image.name);
            image.views.iter().map(move |view| format!("{mount}:{name}:{view}"))
        });
        views.collect::<Vec<_>>().join(",")
    }

    /// Remembers what the caller had where a view sets something else.
    pub fn remember_replaced(
        &mut self,
        environment: &ConcreteEnvironment,
        calling: &BTreeMap<OsString, OsString>,
    ) {
        for (variable, changes) in environment.patch.iter() {
            let Some(Effect::Set(new)) = effect(changes) else {
                continue;
            };
            let old = calling.get(OsStr::new(variable)).and_then(|old| old.to_str());
            if let Some(old) = old.filter(|old| *old != new && old.len() <= LONGEST_REPLACED) {
                // In an environment inside another, the first one had the caller's.
                self.replaced.entry(variable.to_owned()).or_insert_with(|| old.to_owned());
            }
        }
    }

    /// Adds the images of an environment entered from this one. An image at the
    /// same mount point covers the one that was there.
    pub fn enter(&mut self, environment: &ConcreteEnvironment, additions: &Additions) {
        if environment.root().is_some() {
            // Nothing of what was mounted around it is seen in it.
            *self = Self { replaced: std::mem::take(&mut self.replaced), ..Self::default() };
        }
        for bind in &additions.binds {
            self.cover(bind.target.as_path());
            self.additions.binds.push(bind.clone());
        }
        add_new(&mut self.additions.devices, &additions.devices);
        add_new(&mut self.additions.optional_devices, &additions.optional_devices);
        self.additions.variables.merge(&additions.variables);
        if let Some(directory) = &additions.working_directory {
            self.additions.working_directory = Some(directory.clone());
        }
        for (position, image) in environment.images.iter().enumerate() {
            let mount_point = image.mount_point.as_path().to_owned();
            self.cover(&mount_point);
            let views = environment.views.iter().filter(|view| view.image == position);
            self.images.push(LoadedImage {
                name: image.name().to_owned(),
                label: image.label.as_ref().map(ToString::to_string),
                digest: image.digest.as_ref().map(ToString::to_string),
                path: image.path.clone(),
                repository: image.repository.clone(),
                mount_point,
                views: views.map(|view| view.name.to_string()).collect(),
            });
        }
        for view in &environment.views {
            if let Some(image) = environment.images.get(view.image) {
                self.views.push(LoadedView {
                    mount_point: image.mount_point.as_path().to_owned(),
                    view: view.name.to_string(),
                });
            }
        }
    }

    /// Whether entering an environment would change nothing: all of it was entered last.
    #[must_use]
    pub fn has_entered(&self, environment: &ConcreteEnvironment, additions: &Additions) -> bool {
        let mut entered = self.clone();
        entered.enter(environment, additions);
        !environment.images.is_empty() && entered == *self
    }

    /// Forgets what was mounted at a place.
    fn cover(&mut self, place: &Path) {
        self.images.retain(|loaded| loaded.mount_point != place);
        self.views.retain(|view| view.mount_point != place);
        let binds = &mut self.additions.binds;
        binds.retain(|bind| bind.target.as_path() != place);
    }
}

/// Returns the type of the file system at a mount point, from the text of
/// `/proc/self/mountinfo`. There may be none: the variables may have travelled to a
/// process outside, for example through `ssh`.
#[must_use]
pub fn file_system_at<'a>(mounts: &'a str, mount_point: &Path) -> Option<[&'a str; 2]> {
    // The last one covers those before it.
    let is_there = |field: &str| unescaped(field.as_bytes()) == mount_point;
    let line = mounts.lines().rfind(|line| line.split(' ').nth(4).is_some_and(is_there))?;
    let mut fields = line.split(" - ").nth(1)?.split(' ');
    Some([fields.next()?, fields.next()?])
}

/// Tells whether an image that root has unpacked on this node is at a mount point, from the same text.
#[must_use]
pub fn is_unpacked_at(mounts: &str, mount_point: &Path) -> bool {
    let is_there = |field: &str| unescaped(field.as_bytes()) == mount_point;
    let line = mounts.lines().rfind(|line| line.split(' ').nth(4).is_some_and(is_there));
    let root = line.and_then(|line| line.split(' ').nth(3));
    let Some(root) = root.map(|field| unescaped(field.as_bytes())) else {
        return false;
    };
    // Its name ends in a number where the image was unpacked and removed again.
    let name = root.parent().and_then(Path::file_name).and_then(OsStr::to_str).unwrap_or_default();
    let digits = name.split('.').next().unwrap_or_default();
    root.ends_with(UnpackedTree::TREE) && digits.parse::<ImageDigest>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded() -> Loaded {
        Loaded {
            images: vec![LoadedImage {
                name: "app".to_owned(),
                label: Some("app/1:v1@here%x86_64".to_owned()),
                digest: None,
                path: "/images/app".into(),
                repository: None,
                mount_point: "/user-environment".into(),
                views: vec!["default".to_owned(), "develop".to_owned()],
            }],
            ..Loaded::default()
        }
    }

    #[test]
    fn what_is_written_can_be_read_again() {
        assert_eq!(Loaded::from_variable(&loaded().to_variable()), Some(loaded()));
    }

    #[test]
    fn a_value_that_is_not_ours_counts_as_none() {
        assert_eq!(Loaded::from_variable("yes"), None);
    }

    #[test]
    fn the_lists_have_the_form_that_scripts_know() {
        assert_eq!(
            (loaded().mount_list().as_str(), loaded().view_list().as_str()),
            (
                "/images/app:/user-environment",
                "/user-environment:app:default,/user-environment:app:develop"
            )
        );
    }

    #[test]
    fn a_mount_point_is_found_by_its_whole_path() {
        let mounts = "36 35 0:1 / /user-environment/sub ro - squashfs /dev/loop0 ro\n";
        assert_eq!(file_system_at(mounts, Path::new("/user-environment")), None);
    }

    #[test]
    fn an_unpacked_image_is_known_by_the_directory_that_is_bound() {
        let digest = "0a".repeat(32);
        let roots = [
            (format!("/var/lib/cabane/unpacked/trees/{digest}/tree"), true),
            (format!("/removed/{digest}.2/tree"), true),
            (format!("/trees/{digest}"), false),
            ("/trees/app/tree".to_owned(), false),
        ];
        for (root, is_unpacked) in roots {
            let mounts = format!("36 35 8:1 {root} /env ro,nosuid,nodev - ext4 /dev/sda1 rw\n");
            assert_eq!(is_unpacked_at(&mounts, Path::new("/env")), is_unpacked, "{root}");
        }
    }

    #[test]
    fn a_mount_point_with_a_blank_is_found() {
        let mounts = "36 35 0:1 / /user\\040environment ro - squashfs /dev/loop0 ro\n";
        assert_eq!(
            file_system_at(mounts, Path::new("/user environment")),
            Some(["squashfs", "/dev/loop0"])
        );
    }
}
