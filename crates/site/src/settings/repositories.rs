// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The repositories that are looked into.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use cabane_recipe::RetentionSettings;
use cabane_recipe::settings::table;
use cabane_report::Result;

use super::{Layers, NO_HOME, Origin, bad};
use crate::env_vars;

/// A repository that is looked into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepositorySetting {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// Those with a greater one are searched first.
    pub priority: i32,
    /// Whether it is the user's own, which is made when first written to.
    pub is_default: bool,
    /// What `cabane repo gc` removes there.
    pub retention: RetentionSettings,
    /// Whether a configuration file says where it is, or no one does, and not who types.
    pub is_configured: bool,
    /// Why it cannot be used here, such as a variable in its path that is not set.
    pub unusable: Option<String>,
    /// Where this comes from.
    pub origin: Origin,
}

/// The name of the user's own repository.
const DEFAULT_REPOSITORY: &str = "default";
/// The priority of the user's own repository: just below those of a configuration.
const DEFAULT_REPOSITORY_PRIORITY: i32 = 9;
/// The name of the repository that the user has with the tool uenv.
const REPOSITORY_OF_UENV: &str = "uenv";
/// Its priority: just below the user's own.
const PRIORITY_OF_UENV: i32 = 8;
/// Where uenv has it.
const ON_SCRATCH_OF_UENV: &str = ".uenv-images";
const AT_HOME_OF_UENV: &str = ".uenv/repo";
/// The name of the user's own repository where the program is called `uenv`.
const REPOSITORY_OF_CABANE: &str = "cabane";

impl Layers<'_> {
    pub(super) fn repositories(&self) -> Result<Vec<RepositorySetting>> {
        let configured = self.configured_repositories()?;
        let Some((list, origin)) = self.text(&table::REPOSITORIES) else {
            return Ok(configured);
        };
        list.split(',')
            .map(|element| typed_repository(element.trim(), &origin, &configured))
            .collect()
    }

    /// The repositories of the files and the user's own, by priority.
    fn configured_repositories(&self) -> Result<Vec<RepositorySetting>> {
        let later = self.searched_later();
        let is_later = |known: &RepositorySetting| match &known.origin {
            Origin::File(path) => later.contains(path),
            _ => false,
        };
        let mut repositories: Vec<RepositorySetting> = Vec::new();
        for (path, settings) in &self.files {
            for repository in &settings.repositories {
                let mut name = repository.name.clone();
                if later.contains(path) {
                    if name == DEFAULT_REPOSITORY {
                        REPOSITORY_OF_UENV.clone_into(&mut name);
                    }
                    if repositories.iter().any(|known| known.name == name && !is_later(known)) {
                        continue;
                    }
                }
                // The user's file may give another path to a name of the site's.
                repositories.retain(|known| known.name != name);
                let resolved =
                    repository.path.resolve(|name| self.variables.get(name).map(OsStr::to_owned));
                let (path_here, unusable) = match resolved {
                    Ok(path) => (path, None),
                    Err(error) => (repository.path.as_str().into(), Some(error.to_string())),
                };
                repositories.push(RepositorySetting {
                    // Who gives the user's own repository another place keeps its name.
                    is_default: name == DEFAULT_REPOSITORY,
                    is_configured: true,
                    name,
                    path: path_here,
                    priority: repository.priority,
                    retention: repository.retention.clone(),
                    unusable,
                    origin: Origin::File(path.clone()),
                });
            }
        }
        let is_uenv = self.args.is_uenv && !self.args.cabane_first;
        if !repositories.iter().any(|known| known.name == DEFAULT_REPOSITORY) {
            let own = if is_uenv { self.default_of_uenv() } else { self.default_repository() };
            repositories.push(own);
        }
        let other = if is_uenv { self.repository_of_cabane() } else { self.uenv_repository() };
        if let Some(other) = other {
            let is_known =
                |known: &RepositorySetting| known.name == other.name || known.path == other.path;
            if !repositories.iter().any(is_known) {
                repositories.push(other);
            }
        }
        // Stable: among equals the order of the files counts.
        repositories.sort_by_key(|known| (is_later(known), std::cmp::Reverse(known.priority)));
        Ok(repositories)
    }

    /// Returns the configuration files whose repositories are searched after all others.
    fn searched_later(&self) -> Vec<PathBuf> {
        let is_wanted = self.args.is_uenv && self.args.cabane_first;
        let files = is_wanted.then(|| super::uenv::files(self.variables));
        files.into_iter().flatten().flatten().collect()
    }

    fn default_repository(&self) -> RepositorySetting {
        let scratch = self
            .variables
            .directory(env_vars::SCRATCH)
            .filter(|path| path.is_dir())
            .map(|scratch| scratch.join(".cabane/repository"));
        let data = || self.variables.below_home(env_vars::XDG_DATA_HOME, ".local/share");
        let path = scratch.or_else(|| Some(data()?.join("cabane/repository")));
        RepositorySetting {
            name: DEFAULT_REPOSITORY.to_owned(),
            unusable: path.is_none().then(|| NO_HOME.to_owned()),
            path: path.unwrap_or_else(|| "~/.local/share/cabane/repository".into()),
            priority: DEFAULT_REPOSITORY_PRIORITY,
            retention: RetentionSettings::default(),
            is_default: true,
            is_configured: true,
            origin: Origin::Default,
        }
    }
}

impl Layers<'_> {
    /// Returns the user's own repository where the program is called `uenv`: the one that uenv uses,
    /// or would make.
    fn default_of_uenv(&self) -> RepositorySetting {
        let variables = &self.variables;
        let below = |name, place: &str| Some(variables.directory(name)?.join(place));
        let own = self.default_repository();
        if let Some(there) = self.uenv_repository() {
            return RepositorySetting { path: there.path, origin: there.origin, ..own };
        }
        let scratch = variables.directory(env_vars::SCRATCH).filter(|path| path.is_dir());
        let scratch = scratch.map(|path| path.join(ON_SCRATCH_OF_UENV));
        let path = scratch.or_else(|| below(env_vars::HOME, AT_HOME_OF_UENV));
        RepositorySetting { path: path.unwrap_or_else(|| own.path.clone()), ..own }
    }

    /// Returns the repository that the user has as `cabane`, if it is there.
    fn repository_of_cabane(&self) -> Option<RepositorySetting> {
        let own = Some(self.default_repository()).filter(|own| own.path.is_dir())?;
        let (name, priority) = (REPOSITORY_OF_CABANE.to_owned(), PRIORITY_OF_UENV);
        Some(RepositorySetting { name, priority, is_default: false, ..own })
    }

    /// Returns the repository that uenv uses for this user, if it is there.
    fn uenv_repository(&self) -> Option<RepositorySetting> {
        let variables = &self.variables;
        let below = |name, place: &str| Some(variables.directory(name)?.join(place));
        let places = [
            (
                variables.directory(env_vars::UENV_REPO_PATH),
                Origin::Variable(env_vars::UENV_REPO_PATH),
            ),
            (below(env_vars::SCRATCH, ON_SCRATCH_OF_UENV), Origin::Default),
            (below(env_vars::HOME, AT_HOME_OF_UENV), Origin::Default),
        ];
        let mut there = places.into_iter().filter_map(|(path, origin)| Some((path?, origin)));
        let (path, origin) = there.find(|(path, _)| has_database(path))?;
        Some(RepositorySetting {
            name: REPOSITORY_OF_UENV.to_owned(),
            path,
            priority: PRIORITY_OF_UENV,
            retention: RetentionSettings::default(),
            is_default: false,
            // Nobody vouches for what others may have put there.
            is_configured: false,
            unusable: None,
            origin,
        })
    }
}

/// Returns whether there is a database of SQLite that can be read. A repository that nobody named
/// must not be the reason why others are not searched.
fn has_database(repository: &Path) -> bool {
    const MAGIC: &[u8; 16] = b"SQLite format 3\0";
    let path = repository.join("index.db");
    let mut start = [0; MAGIC.len()];
    let file = Some(&path).filter(|path| path.is_file()).and_then(|path| File::open(path).ok());
    file.is_some_and(|mut file| file.read_exact(&mut start).is_ok()) && start == *MAGIC
}

fn typed_repository(
    element: &str,
    origin: &Origin,
    configured: &[RepositorySetting],
) -> Result<RepositorySetting> {
    if let Some(known) = configured.iter().find(|known| known.name == element) {
        return Ok(RepositorySetting { origin: origin.clone(), ..known.clone() });
    }
    let (name, path) = element.split_once('=').unwrap_or((element, element));
    if !Path::new(path).is_absolute() {
        let names = configured.iter().map(|known| format!("`{}`", known.name));
        let names = names.collect::<Vec<_>>().join(", ");
        return Err(bad(origin, element, "it is neither an absolute path nor a known name")
            .hinted(format!("the known names are {names}; `name=/path` gives a path a name")));
    }
    Ok(RepositorySetting {
        name: name.to_owned(),
        path: PathBuf::from(path),
        priority: DEFAULT_REPOSITORY_PRIORITY,
        retention: RetentionSettings::default(),
        is_default: false,
        is_configured: false,
        unusable: None,
        origin: origin.clone(),
    })
}
