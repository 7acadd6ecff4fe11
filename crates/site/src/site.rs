// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a site and a user have configured, as one value for commands and engines.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cabane_label::System;
use cabane_mount::helper::{Helper, NAME, Unavailable};
use cabane_mount::{Backend, FusePrograms};
use cabane_recipe::DEFAULT_EPOCH;
use cabane_report::{Kind, Notices, Report, Result};
use cabane_repository::{Error, Repository};
use cabane_resolve::NamedRepository;
use cabane_run::metadata::MountMethods;

use crate::env_vars;
use crate::settings::{BackendChoice, Effective, Origin, Overrides, RepositorySetting};

/// What a site and a user have configured.
#[derive(Clone, Debug)]
pub struct Site {
    /// The variables of the caller.
    pub calling: BTreeMap<OsString, OsString>,
    /// The settings in effect.
    pub settings: Effective,
    /// How to mount.
    pub backend: Backend,
    /// The programs that serve images through FUSE.
    pub fuse: FusePrograms,
    program: Option<PathBuf>,
}

/// Returns the programs that serve images through FUSE, with those in the `PATH` of the caller.
pub fn fuse_programs(calling: &BTreeMap<OsString, OsString>) -> FusePrograms {
    let path = calling.get(OsStr::new(env_vars::PATH)).map(OsString::as_os_str);
    FusePrograms::of_user(path.unwrap_or_default())
}

impl Site {
    /// Reads the configuration files. Takes what was typed, the variables of the caller, and the
    /// path of the program that runs, beside which the helper is looked for.
    ///
    /// # Errors
    ///
    /// A malformed configuration file, with every mistake in it; a value that is none; a backend
    /// that this process cannot use.
    pub fn new(
        typed: &Overrides,
        calling: BTreeMap<OsString, OsString>,
        program: Option<PathBuf>,
    ) -> Result<Self> {
        let settings = Effective::read(typed, &calling)?;
        let possible = Backend::detect();
        let backend = match settings.backend.value {
            BackendChoice::Auto => possible,
            // Only what starts a command insists on the helper.
            BackendChoice::Helper | BackendChoice::UserNamespace => Backend::UserNamespace,
            BackendChoice::Root if possible == Backend::Root => Backend::Root,
            BackendChoice::Root => {
                return Err(Report::new(
                    Kind::Usage,
                    "the backend `root` needs to be root, with CAP_SYS_ADMIN",
                )
                .hinted("without `--backend` the best way is chosen".to_owned()));
            }
        };
        let fuse = fuse_programs(&calling);
        Ok(Self { calling, settings, backend, fuse, program })
    }

    /// Returns the set-uid helper, if this process can use it.
    ///
    /// # Errors
    ///
    /// Why not.
    pub fn helper(&self) -> Result<Helper, Unavailable> {
        Helper::find(&self.helper_paths())
    }

    /// Returns the ways in which images may be looked into.
    pub fn mount_methods(&self) -> MountMethods {
        let may_help = self.backend != Backend::Root
            && self.settings.backend.value != BackendChoice::UserNamespace;
        MountMethods {
            backend: self.backend,
            fuse: self.fuse.clone(),
            helper: may_help.then(|| self.helper().ok()).flatten(),
        }
    }

    /// Returns where the helper is looked for, the first place first.
    pub fn helper_paths(&self) -> Vec<PathBuf> {
        helper_places(&self.calling, self.program.as_deref())
    }

    /// Returns the file of this program, if it is known.
    pub fn program(&self) -> Option<&Path> {
        self.program.as_deref()
    }

    /// Returns the options with which another process of this program uses the repositories, the
    /// system, and the backend that were typed.
    pub fn typed_options(&self) -> Vec<OsString> {
        let is_typed = |origin: &Origin| matches!(origin, Origin::Option(_));
        let settings = &self.settings;
        let mut options = Vec::new();
        let repositories = settings.repositories.iter();
        let named: Vec<String> = repositories
            .filter(|one| is_typed(&one.origin))
            .map(|one| format!("{}={}", one.name, one.path.display()))
            .collect();
        if !named.is_empty() {
            options.push(format!("--repo={}", named.join(",")).into());
        }
        if is_typed(&settings.system.origin) {
            let system = settings.system.value.as_ref();
            let name = system.map_or_else(|| "*".to_owned(), ToString::to_string);
            options.push(format!("--system={name}").into());
        }
        if is_typed(&settings.backend.origin) {
            options.push(format!("--backend={}", settings.backend.value).into());
        }
        options
    }

    /// Returns this system's name, where images of other systems are not wanted.
    pub fn system(&self) -> Option<System> {
        self.settings.system.value.clone()
    }

    /// Opens the repositories, in the order of the search. The default
    /// repository may be missing; one that was named may not.
    ///
    /// # Errors
    ///
    /// A repository that is missing, damaged or not readable.
    pub fn repositories(&self, notices: &dyn Notices) -> Result<Vec<NamedRepository>> {
        let mut repositories = Vec::new();
        for setting in &self.settings.repositories {
            if let Some(reason) = &setting.unusable {
                let name = &setting.name;
                notices.warning(&format!("the repository `{name}` is left out: {reason}"));
                continue;
            }
            if setting.is_default && !setting.path.exists() {
                continue;
            }
            repositories.push(self.open(setting)?);
        }
        Ok(repositories)
    }

    /// Opens the repository that is written to. The user's default repository is made, with a note, if it does not exist.
    ///
    /// # Errors
    ///
    /// As [`Site::repositories`].
    pub fn repository_to_write(&self, notices: &dyn Notices) -> Result<NamedRepository> {
        if let Some(there) = self.repository_if_there()? {
            return Ok(there);
        }
        let setting = self.setting_to_write()?;
        let create =
            if self.settings.is_uenv { Repository::create_uenv } else { Repository::create };
        match create(&setting.path) {
            Ok(_) => notices.note(&format!("made the repository {}", setting.path.display())),
            // Another process may have made it at the same time.
            Err(error) => return self.open(setting).map_err(|_| error.into()),
        }
        self.open(setting)
    }

    /// Returns the repository that is written to; `None` if it would be made for that.
    ///
    /// # Errors
    ///
    /// There is none and none would be made, or it cannot be read.
    pub fn repository_if_there(&self) -> Result<Option<NamedRepository>> {
        let setting = self.setting_to_write()?;
        match Repository::open(&setting.path) {
            // What another process is making is not there yet either.
            Err(Error::NotARepository { .. }) if setting.is_default => Ok(None),
            _ => self.open(setting).map(Some),
        }
    }

    fn open(&self, setting: &RepositorySetting) -> Result<NamedRepository> {
        let cache = self.settings.cache_directory.value.as_ref();
        let assembly = cache.map(|cache| cache.join(ASSEMBLY_DIRECTORY));
        let repository = open_repository(&setting.path)?.with_assembly_directory(assembly);
        Ok(NamedRepository { name: setting.name.clone(), repository, priority: setting.priority })
    }

    /// Returns the path of the repository that a command without a path means.
    pub fn default_repository_path(&self) -> Result<PathBuf> {
        self.setting_to_write().map(|setting| setting.path.clone())
    }

    /// Returns the time that what is made has, in seconds since 1970, and whether the caller set
    /// so.
    ///
    /// # Errors
    ///
    /// A variable that is no number.
    pub fn epoch(&self) -> Result<(u32, bool)> {
        let Some(value) = self.calling.get(OsStr::new(env_vars::SOURCE_DATE_EPOCH)) else {
            return Ok((DEFAULT_EPOCH, false));
        };
        value.to_str().and_then(|text| text.parse().ok()).map(|epoch| (epoch, true)).ok_or_else(
            || Report::new(Kind::Usage, format!("invalid value `{value}` for SOURCE_DATE_EPOCH: it counts seconds since 1970", value = value.display())),
        )
    }

    /// The first one that was typed, or the user's own: those of a site are for
    /// reading unless they are named.
    fn setting_to_write(&self) -> Result<&RepositorySetting> {
        let is_meant = |setting: &&RepositorySetting| {
            setting.is_default || matches!(setting.origin, Origin::Option(_) | Origin::Variable(_))
        };
        let failed = |message: String| Report::new(Kind::Repository, message);
        let meant = self.settings.repositories.iter().find(is_meant);
        let meant = meant.ok_or_else(|| failed("there is no repository yet".to_owned()))?;
        match &meant.unusable {
            Some(reason) => {
                let name = &meant.name;
                Err(failed(format!("the repository `{name}` cannot be used: {reason}")))
            }
            None => Ok(meant),
        }
    }
}

/// Returns where the helper is looked for, the first place first.
pub fn helper_places(
    calling: &BTreeMap<OsString, OsString>,
    program: Option<&Path>,
) -> Vec<PathBuf> {
    if let Some(path) = calling.get(OsStr::new(env_vars::CABANE_HELPER)) {
        return vec![path.into()];
    }
    let prefix = program.and_then(|path| path.parent()?.parent());
    let prefixes = [prefix, Some(Path::new("/usr/local")), Some(Path::new("/usr"))];
    let mut places = Vec::new();
    for prefix in prefixes.into_iter().flatten() {
        let place = prefix.join("libexec/cabane").join(NAME);
        // The program may be in one of the usual places.
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places
}

/// The directory in the cache for images of other users that were deduplicated.
pub const ASSEMBLY_DIRECTORY: &str = "assembled";

/// How many days an image is kept after it has lost its label. Pending jobs may still refer to it.
pub const GRACE_DAYS: u64 = 7;

/// Opens a repository.
///
/// # Errors
///
/// There is none, or it cannot be read.
pub fn open_repository(path: &Path) -> Result<Repository, cabane_repository::Error> {
    let grace = Duration::from_secs(GRACE_DAYS * 24 * 60 * 60);
    Ok(Repository::open(path)?.with_grace(grace))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_helper_is_looked_for_in_each_place_once() {
        let places = |program: &str| {
            let places = helper_places(&BTreeMap::new(), Some(Path::new(program)));
            places.iter().map(|place| place.display().to_string()).collect::<Vec<_>>()
        };
        let below = |prefix: &str| format!("{prefix}/libexec/cabane/cabane-mount");
        let usual = ["/usr/local", "/usr"].map(below);
        assert_eq!(places("/usr/local/bin/cabane"), usual);
        assert_eq!(places("/usr/bin/cabane"), usual.clone().into_iter().rev().collect::<Vec<_>>());
        assert_eq!(places("/opt/cabane/bin/cabane").last(), usual.last());
    }
}
