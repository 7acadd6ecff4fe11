// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What every command works with: settings in effect, repositories, variables.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cabane_label::System;
use cabane_mount::helper::{Helper, NAME, Unavailable};
use cabane_mount::{Backend, FusePrograms};
use cabane_repository::Repository;
use cabane_resolve::NamedRepository;
use cabane_run::metadata::Ways;

use crate::args::{BackendArg, GlobalArgs};
use crate::env_vars;
use crate::printer::Printer;
use crate::report::{CommandResult, Kind, Report};
use crate::settings::{Effective, Origin, RepositorySetting};

/// What every command works with.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// The way out.
    pub(crate) printer: Printer,
    /// The variables of the caller.
    pub(crate) calling: BTreeMap<OsString, OsString>,
    /// The settings in effect.
    pub(crate) settings: Effective,
    /// How to mount.
    pub(crate) backend: Backend,
    /// The programs that serve images through FUSE.
    pub(crate) fuse: FusePrograms,
}

#[derive(Debug, thiserror::Error)]
enum SetupError {
    #[error("there is no repository yet")]
    NoRepository,
    #[error("the repository `{name}` cannot be used: {reason}")]
    Unusable { name: String, reason: String },
    #[error("the backend `root` needs to be root, with CAP_SYS_ADMIN")]
    NotRoot,
}

impl Setup {
    /// Reads variables and configuration files.
    ///
    /// # Errors
    ///
    /// A malformed configuration file, with every mistake in it.
    pub(crate) fn new(args: &GlobalArgs, printer: Printer) -> CommandResult<Self> {
        let calling: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
        let settings = Effective::read(args, &calling)?;
        let possible = Backend::detect();
        let backend = match settings.backend.value {
            BackendArg::Auto => possible,
            // Only what starts a command insists on the helper.
            BackendArg::Helper | BackendArg::UserNamespace => Backend::UserNamespace,
            BackendArg::Root if possible == Backend::Root => Backend::Root,
            BackendArg::Root => {
                return Err(Report::new(Kind::Usage, SetupError::NotRoot)
                    .hinted("without `--backend` the best way is chosen".to_owned()));
            }
        };
        let printer = printer.with_setting(settings.color.value, args);
        Ok(Self {
            printer,
            calling,
            settings,
            backend,
            fuse: FusePrograms::default(),
        })
    }

    /// Returns the set-uid helper, if this process can use it.
    ///
    /// # Errors
    ///
    /// Why not.
    pub(crate) fn helper(&self) -> Result<Helper, Unavailable> {
        Helper::find(&self.helper_paths())
    }

    /// Returns the ways in which images may be looked into.
    pub(crate) fn ways(&self) -> Ways {
        let may_help = self.backend != Backend::Root
            && self.settings.backend.value != BackendArg::UserNamespace;
        Ways {
            backend: self.backend,
            fuse: self.fuse.clone(),
            helper: may_help.then(|| self.helper().ok()).flatten(),
        }
    }

    /// Returns where the helper is looked for, the first place first.
    pub(crate) fn helper_paths(&self) -> Vec<PathBuf> {
        helper_places(&self.calling)
    }

    /// Returns this system's name, where images of other systems are not wanted.
    pub(crate) fn system(&self) -> Option<System> {
        self.settings.system.value.clone()
    }

    /// Opens the repositories, the one to be asked first in front. The default
    /// repository may be missing; one that was named may not.
    ///
    /// # Errors
    ///
    /// A repository that is missing, damaged or not readable.
    pub(crate) fn repositories(&self) -> CommandResult<Vec<NamedRepository>> {
        let mut repositories = Vec::new();
        for setting in &self.settings.repositories {
            if let Some(reason) = &setting.unusable {
                let name = &setting.name;
                self.printer
                    .warning(&format!("the repository `{name}` is left out: {reason}"));
                continue;
            }
            if setting.is_default && !setting.path.exists() {
                continue;
            }
            repositories.push(open(setting)?);
        }
        Ok(repositories)
    }

    /// Opens the repository that is written to. The user's default repository is made, and that is said, if it does not exist.
    ///
    /// # Errors
    ///
    /// As [`Setup::repositories`].
    pub(crate) fn repository_to_write(&self) -> CommandResult<NamedRepository> {
        if let Some(there) = self.repository_if_there()? {
            return Ok(there);
        }
        let setting = self.setting_to_write()?;
        Repository::create(&setting.path)?;
        self.printer.note(format_args!(
            "made the repository {}",
            setting.path.display()
        ));
        open(setting)
    }

    /// Returns the repository that is written to; `None` if it would be made for that.
    ///
    /// # Errors
    ///
    /// There is none and none would be made, or it cannot be read.
    pub(crate) fn repository_if_there(&self) -> CommandResult<Option<NamedRepository>> {
        let setting = self.setting_to_write()?;
        if setting.is_default && !setting.path.exists() {
            return Ok(None);
        }
        open(setting).map(Some)
    }

    /// Returns the path of the repository that a command without a path means.
    pub(crate) fn default_repository_path(&self) -> CommandResult<PathBuf> {
        self.setting_to_write().map(|setting| setting.path.clone())
    }

    /// The first one that was typed, or the user's own: those of a site are for
    /// reading unless they are named.
    fn setting_to_write(&self) -> CommandResult<&RepositorySetting> {
        let is_meant = |setting: &&RepositorySetting| {
            setting.is_default || matches!(setting.origin, Origin::Option(_) | Origin::Variable(_))
        };
        let failed = |error| Report::new(Kind::Repository, error);
        let meant = self.settings.repositories.iter().find(is_meant);
        let meant = meant.ok_or_else(|| failed(SetupError::NoRepository))?;
        match &meant.unusable {
            Some(reason) => Err(failed(SetupError::Unusable {
                name: meant.name.clone(),
                reason: reason.clone(),
            })),
            None => Ok(meant),
        }
    }
}

/// Returns where the helper is looked for, the first place first.
pub(crate) fn helper_places(calling: &BTreeMap<OsString, OsString>) -> Vec<PathBuf> {
    if let Some(path) = calling.get(OsStr::new(env_vars::CABANE_HELPER)) {
        return vec![path.into()];
    }
    let own = std::env::current_exe().ok();
    let prefix = own.as_deref().and_then(|path| path.parent()?.parent());
    let places = [
        prefix,
        Some(Path::new("/usr/local")),
        Some(Path::new("/usr")),
    ];
    let below = |prefix: &Path| prefix.join("libexec/cabane").join(NAME);
    places.into_iter().flatten().map(below).collect()
}

/// How many days an image stays from which a label was taken: jobs that wait were told which
/// one is theirs.
pub(crate) const GRACE_DAYS: u64 = 7;

/// Opens a repository.
///
/// # Errors
///
/// There is none, or it cannot be read.
pub(crate) fn open_repository(path: &Path) -> Result<Repository, cabane_repository::Error> {
    let grace = Duration::from_secs(GRACE_DAYS * 24 * 60 * 60);
    Ok(Repository::open(path)?.with_grace(grace))
}

fn open(setting: &RepositorySetting) -> CommandResult<NamedRepository> {
    let repository = open_repository(&setting.path)?;
    Ok(NamedRepository {
        name: setting.name.clone(),
        repository,
        priority: setting.priority,
    })
}
