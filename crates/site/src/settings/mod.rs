// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The settings in effect and where each comes from.
//!
//! Layers, the later one wins: built-in defaults, the site's configuration file, the
//! user's, variables, options.

mod container;
mod machine;
mod mpi;
mod registry;
mod repositories;
mod restricted;
mod trust;
mod value;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use cabane_label::{System, Uarch};
use cabane_recipe::{
    BuildSettings, ColorChoice, FormatChoice, MAX_FILE_SIZE, PathTemplate, Settings, parse_settings,
};

use crate::env_vars;
use cabane_report::{IoContext, Report, Result};

pub use container::ContainerSetting;
pub use machine::{find_program, processors};
pub use mpi::MpiSetting;
pub use registry::{RegistrySetting, bad_address};
pub use repositories::RepositorySetting;
pub use restricted::RestrictedSetting;
pub use trust::TrustSetting;
pub use value::{Origin, Value};
use value::{SettingError, Variables, bad};

/// The settings in effect.
#[derive(Clone, Debug)]
pub struct Effective {
    /// When to use color.
    pub color: Value<ColorChoice>,
    /// This system, if only its images are wanted.
    pub system: Value<Option<System>>,
    /// The micro-architecture of what is built here.
    pub uarch: Value<Uarch>,
    /// How to mount.
    pub backend: Value<BackendChoice>,
    /// The repositories, the one asked first in front.
    pub repositories: Vec<RepositorySetting>,
    /// Where caches lie; nowhere for who has no home and names no place.
    pub cache_directory: Value<Option<PathBuf>>,
    /// Where builds are kept; nowhere in the same case.
    pub build_directory: Value<Option<PathBuf>>,
    /// Where builds take place in memory.
    pub memory_directory: Value<PathBuf>,
    /// The file system of built images.
    pub image_format: Value<FormatChoice>,
    /// How many processes a build runs at once; as many as there are processors if
    /// nothing is said. Those are not counted at every start.
    pub jobs: Value<Option<usize>>,
    /// The Python that has Spack's solver, if one is named.
    pub spack_python: Value<Option<PathBuf>>,
    /// The `uv` program, if one is named.
    pub uv: Value<Option<PathBuf>>,
    /// Where Python packages come from, the first before the others; empty for what
    /// `uv` itself does.
    pub index_urls: Value<Vec<String>>,
    /// Where environment files are looked for by name, the first one first.
    pub environment_directories: Value<Vec<PathBuf>>,
    /// Where configurations of systems are looked for by name, likewise.
    pub system_directories: Value<Vec<PathBuf>>,
    /// The registry, and how it is reached.
    pub registry: RegistrySetting,
    /// Whose signatures images must have.
    pub trust: Vec<TrustSetting>,
    /// Which images only a group may read.
    pub restricted: Vec<RestrictedSetting>,
    /// How container images are entered.
    pub container: ContainerSetting,
    /// The MPIs of this machine that may take the place of others.
    pub mpi: Vec<MpiSetting>,
    /// The configuration files that were read, the site's first.
    pub files: Vec<PathBuf>,
}

/// What was typed, and wins over variables and files.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Repositories: names, absolute paths, or `name=path`, separated by commas.
    pub repo: Option<String>,
    /// The name of this system, or `*` for images of all systems.
    pub system: Option<String>,
    /// How to mount.
    pub backend: Option<BackendChoice>,
}

/// How to mount, as users choose it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendChoice {
    /// The best way that works here.
    Auto,
    /// As root, by the kernel.
    Root,
    /// By the kernel, through the set-uid helper cabane-mount.
    Helper,
    /// In a user namespace, through FUSE.
    UserNamespace,
}

impl BackendChoice {
    const NAMES: [(&str, Self); 4] = [
        ("auto", Self::Auto),
        ("root", Self::Root),
        ("helper", Self::Helper),
        ("user-namespace", Self::UserNamespace),
    ];

    /// Returns the word for it.
    pub fn name(self) -> &'static str {
        let found = Self::NAMES.into_iter().find(|(_, choice)| *choice == self);
        found.map_or("", |(name, _)| name)
    }
}

impl FromStr for BackendChoice {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::NAMES.into_iter().find(|(name, _)| *name == text);
        let (_, choice) = known.ok_or("use `auto`, `root`, `helper` or `user-namespace`")?;
        Ok(choice)
    }
}

impl fmt::Display for BackendChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

const DEFAULT_SITE_CONFIG: &str = "/etc/cabane/config.toml";
/// Where a site keeps what is found by name, in directories of one kind each.
const SITE_DIRECTORY: &str = "/etc/cabane";

impl Effective {
    /// Works the settings out.
    ///
    /// # Errors
    ///
    /// A configuration file with mistakes, a variable or option with a value that
    /// is none.
    pub fn read(args: &Overrides, calling: &BTreeMap<OsString, OsString>) -> Result<Self> {
        let variables = Variables(calling);
        let site = variables
            .directory(env_vars::CABANE_SITE_CONFIG)
            .unwrap_or_else(|| PathBuf::from(DEFAULT_SITE_CONFIG));
        let user = variables
            .below_home(env_vars::XDG_CONFIG_HOME, ".config")
            .map(|directory| directory.join("cabane/config.toml"));
        let mut files = Vec::new();
        for path in [Some(site), user].into_iter().flatten() {
            if let Some(settings) = read_file(&path)? {
                files.push((path, settings));
            }
        }
        let layers = Layers {
            files: &files,
            variables: &variables,
            args,
        };
        let cache_directory = layers.cache_directory()?;
        Ok(Self {
            color: layers.color(),
            system: layers.system()?,
            uarch: layers.uarch()?,
            backend: layers.backend()?,
            repositories: layers.repositories()?,
            build_directory: layers.build_directory(cache_directory.value.as_deref())?,
            memory_directory: layers.memory_directory()?,
            cache_directory,
            image_format: layers.image_format(),
            jobs: layers.jobs(),
            spack_python: layers.program(env_vars::CABANE_SPACK_PYTHON, |build| {
                build.spack_python.clone()
            })?,
            uv: layers.program(env_vars::CABANE_UV, |build| build.uv.clone())?,
            index_urls: layers.index_urls(),
            environment_directories: layers
                .directories(env_vars::CABANE_ENVIRONMENT_PATH, "environments"),
            system_directories: layers.directories(env_vars::CABANE_SYSTEM_PATH, "systems"),
            registry: layers.registry()?,
            trust: layers.trust(),
            restricted: layers.restricted(),
            mpi: layers.mpi()?,
            container: layers.container(),
            files: files.iter().map(|(path, _)| path.clone()).collect(),
        })
    }
}

/// Everything that can set a value, the weakest first.
struct Layers<'a> {
    files: &'a [(PathBuf, Settings)],
    variables: &'a Variables<'a>,
    args: &'a Overrides,
}

impl Layers<'_> {
    /// Returns the value of the strongest file that has one.
    fn file_value<T>(&self, pick: impl Fn(&Settings) -> Option<T>) -> Option<Value<T>> {
        self.files.iter().rev().find_map(|(path, settings)| {
            pick(settings).map(|value| Value::new(value, Origin::File(path.clone())))
        })
    }

    fn file_path(
        &self,
        pick: impl Fn(&Settings) -> Option<PathTemplate>,
    ) -> Result<Option<Value<PathBuf>>> {
        let Some(found) = self.file_value(pick) else {
            return Ok(None);
        };
        let path = self.variables.resolve(&found.value, &found.origin)?;
        Ok(Some(Value::new(path, found.origin)))
    }

    fn color(&self) -> Value<ColorChoice> {
        // What options and NO_COLOR say is already in the printer.
        self.file_value(|settings| settings.color)
            .unwrap_or(Value::new(ColorChoice::Auto, Origin::Default))
    }

    fn system(&self) -> Result<Value<Option<System>>> {
        let typed = self
            .args
            .system
            .clone()
            .map(|name| (name, Origin::Option("--system")))
            .or_else(|| self.variables.text(env_vars::CABANE_SYSTEM));
        if let Some((name, origin)) = typed {
            return parse_system(&name, origin);
        }
        if let Some(found) = self.file_value(|settings| settings.system_name.clone()) {
            return Ok(Value::new(Some(found.value), found.origin));
        }
        match self.variables.text(env_vars::CLUSTER_NAME) {
            Some((name, origin)) => parse_system(&name, origin),
            None => Ok(Value::new(None, Origin::Default)),
        }
    }

    fn uarch(&self) -> Result<Value<Uarch>> {
        if let Some(found) = self.file_value(|settings| settings.default_uarch.clone()) {
            return Ok(found);
        }
        let name = std::env::consts::ARCH;
        let uarch = name
            .parse()
            .map_err(|error| bad(&Origin::Default, name, error))?;
        Ok(Value::new(uarch, Origin::Default))
    }

    fn backend(&self) -> Result<Value<BackendChoice>> {
        if let Some(backend) = self.args.backend {
            return Ok(Value::new(backend, Origin::Option("--backend")));
        }
        match self.variables.text(env_vars::CABANE_BACKEND) {
            Some((name, origin)) => match name.parse() {
                Ok(value) => Ok(Value::new(value, origin)),
                Err(reason) => Err(bad(&origin, &name, reason)),
            },
            None => Ok(Value::new(BackendChoice::Auto, Origin::Default)),
        }
    }

    fn cache_directory(&self) -> Result<Value<Option<PathBuf>>> {
        let variable = env_vars::CABANE_CACHE_DIR;
        if let Some(path) = self.variables.directory(variable) {
            return Ok(Value::new(Some(path), Origin::Variable(variable)));
        }
        let found = self.file_path(|settings| settings.build.cache.clone())?;
        let caches = || {
            self.variables
                .below_home(env_vars::XDG_CACHE_HOME, ".cache")
        };
        Ok(found.map_or_else(
            || {
                let caches = caches().map(|caches| caches.join("cabane"));
                Value::new(caches, Origin::Default)
            },
            Value::some,
        ))
    }

    fn build_directory(&self, cache: Option<&Path>) -> Result<Value<Option<PathBuf>>> {
        let variable = env_vars::CABANE_BUILD_DIR;
        if let Some(path) = self.variables.directory(variable) {
            return Ok(Value::new(Some(path), Origin::Variable(variable)));
        }
        let found = self.file_path(|settings| settings.build.directory.clone())?;
        let builds = cache.map(|cache| cache.join("builds"));
        Ok(found.map_or_else(|| Value::new(builds, Origin::Default), Value::some))
    }

    fn memory_directory(&self) -> Result<Value<PathBuf>> {
        let variable = env_vars::CABANE_MEMORY_DIR;
        if let Some(path) = self.variables.directory(variable) {
            return Ok(Value::new(path, Origin::Variable(variable)));
        }
        let found = self.file_path(|settings| settings.build.memory.clone())?;
        Ok(found.unwrap_or_else(|| Value::new(PathBuf::from("/dev/shm"), Origin::Default)))
    }

    fn image_format(&self) -> Value<FormatChoice> {
        self.file_value(|settings| settings.build.format)
            .unwrap_or(Value::new(FormatChoice::Squashfs, Origin::Default))
    }

    fn jobs(&self) -> Value<Option<usize>> {
        self.file_value(|settings| settings.build.jobs.map(|jobs| Some(jobs.get() as usize)))
            .unwrap_or(Value::new(None, Origin::Default))
    }

    fn program(
        &self,
        variable: &'static str,
        choose: impl Fn(&BuildSettings) -> Option<PathTemplate>,
    ) -> Result<Value<Option<PathBuf>>> {
        if let Some(path) = self.variables.directory(variable) {
            return Ok(Value::new(Some(path), Origin::Variable(variable)));
        }
        let found = self.file_path(|settings| choose(&settings.build))?;
        Ok(found.map_or_else(|| Value::new(None, Origin::Default), Value::some))
    }

    fn index_urls(&self) -> Value<Vec<String>> {
        self.file_value(|settings| settings.build.index_urls.clone())
            .unwrap_or(Value::new(Vec::new(), Origin::Default))
    }

    /// Returns the user's and the site's directories of one kind, unless a variable names
    /// others.
    fn directories(&self, name: &'static str, kind: &str) -> Value<Vec<PathBuf>> {
        if let Some(list) = self.variables.get(name) {
            let directories = std::env::split_paths(list);
            let directories = directories.filter(|directory| !directory.as_os_str().is_empty());
            return Value::new(directories.collect(), Origin::Variable(name));
        }
        let own = self
            .variables
            .below_home(env_vars::XDG_CONFIG_HOME, ".config");
        let own = own.map(|directory| directory.join("cabane").join(kind));
        let site = Some(Path::new(SITE_DIRECTORY).join(kind));
        Value::new([own, site].into_iter().flatten().collect(), Origin::Default)
    }
}

fn parse_system(name: &str, origin: Origin) -> Result<Value<Option<System>>> {
    if name == "*" {
        return Ok(Value::new(None, origin));
    }
    match name.parse() {
        Ok(system) => Ok(Value::new(Some(system), origin)),
        Err(error) => Err(bad(&origin, name, error)),
    }
}

/// Reads a configuration file; one that does not exist is none.
fn read_file(path: &Path) -> Result<Option<Settings>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).or_failed(|| format!("read {}", path.display())),
    };
    let mut text = Vec::new();
    file.take(MAX_FILE_SIZE + 1)
        .read_to_end(&mut text)
        .or_failed(|| format!("read {}", path.display()))?;
    parse_settings(path, &text).map(Some).map_err(Report::from)
}
