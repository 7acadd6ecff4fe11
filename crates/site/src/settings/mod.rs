// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The settings in effect and where each comes from.
//!
//! Layers, the later one wins: built-in defaults, the site's configuration file, the
//! user's, variables, options.

mod channel;
mod container;
mod evidence;
mod machine;
mod mpi;
mod registry;
mod repositories;
mod trust;
mod uenv;
mod value;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use cabane_label::{System, Uarch};
use cabane_recipe::settings::table::{self, Setting};
use cabane_recipe::{MAX_FILE_SIZE, Mistakes, Settings, parse_settings, parse_uenv_settings};
use cabane_report::{IoContext, Report, Result};

use crate::env_vars;

pub use channel::ChannelSetting;
pub use container::ContainerSetting;
pub use evidence::EvidenceSetting;
pub use machine::{find_module_command, find_program, find_programs, processors};
pub use mpi::MpiSetting;
pub use registry::{RegistrySetting, bad_address};
pub use repositories::RepositorySetting;
pub use trust::{RestrictedSetting, TrustSetting};
use value::{NO_HOME, Variables, bad};
pub use value::{Origin, Value};

/// The settings in effect.
#[derive(Clone, Debug)]
pub struct Effective {
    /// When to use color.
    pub color: Value<ColorChoice>,
    /// This system, if only its images are wanted.
    pub system: Value<Option<System>>,
    /// The microarchitecture to build images for.
    pub uarch: Value<Uarch>,
    /// How to mount.
    pub backend: Value<BackendChoice>,
    /// The repositories, in the order of the search.
    pub repositories: Vec<RepositorySetting>,
    /// Where caches are; nowhere for who has no home and names no place.
    pub cache_directory: Value<Option<PathBuf>>,
    /// Where is noted what must not be forgotten; nowhere in the same case.
    pub state_directory: Option<PathBuf>,
    /// Where builds are kept; nowhere in the same case.
    pub build_directory: Value<Option<PathBuf>>,
    /// Where builds take place in memory.
    pub memory_directory: Value<PathBuf>,
    /// The file system of built images.
    pub image_format: Value<FormatChoice>,
    /// How many processes a build runs at once; as many as there are processors if
    /// nothing is set. Those are not counted at every start.
    pub jobs: Value<Option<usize>>,
    /// Options of `sbatch` for builds in jobs.
    pub sbatch: Value<Option<String>>,
    /// The path of this program on hosts that build.
    pub remote_program: Value<Option<String>>,
    /// Whether commands of container recipes, and downloads of EasyBuild, may use the network.
    pub command_network: Value<bool>,
    /// The cache directory of others that builds read, if one is named.
    pub shared_cache: Value<Option<PathBuf>>,
    /// Files with the public keys that sign its packages; none if no signature is needed.
    pub shared_cache_keys: Value<Vec<PathBuf>>,
    /// The Python that has Spack's solver, if one is named.
    pub spack_python: Value<Option<PathBuf>>,
    /// The Python that has EasyBuild, if one is named.
    pub easybuild_python: Value<Option<PathBuf>>,
    /// The `uv` program, if one is named.
    pub uv: Value<Option<PathBuf>>,
    /// The `reframe` program, if one is named.
    pub reframe: Value<Option<PathBuf>>,
    /// The directory of the suites that have a name here, if one is named.
    pub suites: Value<Option<PathBuf>>,
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
    /// Whose evidence counts.
    pub evidence: EvidenceSetting,
    /// Where new releases of Cabane are, and who signs them.
    pub update: UpdateSetting,
    /// The channels, those of the site first.
    pub channels: Vec<ChannelSetting>,
    /// Which images only a group may read.
    pub restricted: Vec<RestrictedSetting>,
    /// How container images are entered.
    pub container: ContainerSetting,
    /// Whether the plugin of Slurm adds the options of pyxis: `auto`, `yes`, or `no`.
    pub container_options: Value<String>,
    /// The MPIs of this machine that may take the place of others.
    pub mpi: Vec<MpiSetting>,
    /// The configuration files that were read, the site's first.
    pub files: Vec<PathBuf>,
    /// Whether the user's own repository is one of uenv.
    pub is_uenv: bool,
    /// The collector of the records of job steps that the configuration of uenv names.
    pub elastic: Option<String>,
}

/// Where new releases of Cabane are, and who signs them.
#[derive(Clone, Debug)]
pub struct UpdateSetting {
    /// A directory, or the URL of one.
    pub source: Value<Option<String>>,
    /// Files with the public keys of releases; none if no signature is needed.
    pub keys: Vec<PathBuf>,
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
    /// Whether the configuration of uenv counts, too, and its repository is the user's own.
    pub is_uenv: bool,
    /// With `is_uenv`: whether the repositories of Cabane are searched before those of uenv, as they are
    /// under the name `cabane`.
    pub cabane_first: bool,
}

impl Overrides {
    /// Returns the value of an option.
    fn get(&self, option: &str) -> Option<String> {
        match option {
            "--repo" => self.repo.clone(),
            "--system" => self.system.clone(),
            "--backend" => self.backend.map(|backend| backend.to_string()),
            // Commands have the other options.
            _ => None,
        }
    }
}

/// Declares an enumeration whose values have names in the configuration.
macro_rules! choices {
    ($(#[$attribute:meta])* $name:ident { $($(#[doc = $help:literal])+ $value:ident = $text:literal,)+ }) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[doc = $help])+ $value,)+ }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($text => Ok(Self::$value),)+
                    _ => Err(format!("use {}", cabane_label::enumerate(&[$($text),+], "or"))),
                }
            }
        }

        impl $name {
            /// Returns its name in the configuration.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $text,)+
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

choices! {
    /// How to mount, as users choose it.
    BackendChoice {
        /// The best way that works here.
        Auto = "auto",
        /// As root, by the kernel.
        Root = "root",
        /// By the kernel, through the set-uid helper cabane-mount.
        Helper = "helper",
        /// In a user namespace, through FUSE.
        UserNamespace = "user-namespace",
    }
}

choices! {
    /// When to color the output.
    ColorChoice {
        /// If the output is a terminal.
        Auto = "auto",
        /// Always.
        Always = "always",
        /// Never.
        Never = "never",
    }
}

choices! {
    /// The file system of built images.
    FormatChoice {
        /// Squashfs.
        Squashfs = "squashfs",
        /// EROFS.
        Erofs = "erofs",
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
        let of_uenv = args.is_uenv.then(|| uenv::files(&variables));
        let [site_of_uenv, user_of_uenv] = of_uenv.unwrap_or_default();
        for (own, of_uenv) in [(Some(site), site_of_uenv), (user, user_of_uenv)] {
            let own = own.map(|path| (path, parse_settings as Parse));
            let of_uenv = of_uenv.map(|path| (path, parse_uenv_settings as Parse));
            for (path, parse) in [own, of_uenv].into_iter().flatten() {
                if let Some(settings) = read_file(&path, parse)? {
                    files.push((path, settings));
                }
            }
        }
        let layers = Layers { files: files.iter().collect(), variables: &variables, args };
        let cache_directory = layers.cache_directory()?;
        let builds = cache_directory.value.as_ref().map(|cache| cache.join("builds"));
        let registry = layers.registry()?;
        Ok(Self {
            color: layers.value_or(&table::COLOR, ColorChoice::Auto)?,
            system: layers.system()?,
            uarch: layers.parsed_or(&table::UARCH, std::env::consts::ARCH)?,
            backend: layers.backend()?,
            repositories: layers.repositories()?,
            build_directory: layers.path_or(&table::BUILD_DIRECTORY, builds)?,
            memory_directory: layers.memory_directory()?,
            state_directory: variables
                .below_home(env_vars::XDG_STATE_HOME, ".local/state")
                .map(|state| state.join("cabane")),
            cache_directory,
            image_format: layers.value_or(&table::FORMAT, FormatChoice::Squashfs)?,
            jobs: layers.optional(&table::JOBS)?,
            sbatch: layers.optional(&table::SBATCH)?,
            remote_program: layers.optional(&table::REMOTE_PROGRAM)?,
            command_network: layers.command_network(),
            shared_cache: layers.path_or(&table::SHARED_CACHE, None)?,
            shared_cache_keys: layers.shared_cache_keys()?,
            spack_python: layers.path_or(&table::SPACK_PYTHON, None)?,
            easybuild_python: layers.path_or(&table::EASYBUILD_PYTHON, None)?,
            uv: layers.path_or(&table::UV, None)?,
            reframe: layers.path_or(&table::REFRAME, None)?,
            suites: layers.path_or(&table::SUITES, None)?,
            index_urls: layers.index_urls(),
            environment_directories: layers.environment_directories(),
            system_directories: layers.directories(env_vars::CABANE_SYSTEM_PATH, "systems"),
            channels: layers.channels(&registry.namespace.value)?,
            registry,
            evidence: layers.evidence()?,
            update: UpdateSetting {
                source: layers.optional(&table::UPDATE_SOURCE)?,
                keys: layers.keys(|file| file.update_keys.as_ref())?,
            },
            trust: layers.trust(),
            restricted: layers.restricted(),
            mpi: layers.mpi()?,
            container: layers.container()?,
            container_options: layers.value_or(&table::CONTAINER_OPTIONS, "auto".to_owned())?,
            files: files.iter().map(|(path, _)| path.clone()).collect(),
            is_uenv: args.is_uenv,
            elastic: layers.file_value(|file| file.elastic.clone()).map(|found| found.value),
        })
    }
}

/// Everything that can set a value, the weakest first.
struct Layers<'a> {
    files: Vec<&'a (PathBuf, Settings)>,
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

    /// Returns the text of a setting: of its option, its variable, or the strongest file.
    fn text(&self, setting: &Setting) -> Option<(String, Origin)> {
        let typed = setting
            .option
            .and_then(|option| Some((self.args.get(option)?, Origin::Option(option))));
        let of_variable = || self.variables.text(setting.variable?);
        typed.or_else(of_variable).or_else(|| {
            let found = self.file_value(|file| file.get(setting).map(str::to_owned))?;
            Some((found.value, found.origin))
        })
    }

    /// A site forbids it for all its users: what one file forbids, no other one allows.
    fn command_network(&self) -> Value<bool> {
        let forbids = self.files.iter().find(|(_, settings)| {
            settings.get(&table::COMMAND_NETWORK).is_some_and(|word| word == "forbid")
        });
        let origin = |(path, _): &(PathBuf, Settings)| Origin::File(path.clone());
        match (forbids, self.file_value(|file| file.get(&table::COMMAND_NETWORK).map(|_| ()))) {
            (Some(file), _) => Value::new(false, origin(file)),
            (None, Some(allowed)) => Value::new(true, allowed.origin),
            (None, None) => Value::new(true, Origin::Default),
        }
    }

    fn optional<T: FromStr<Err: fmt::Display>>(
        &self,
        setting: &Setting,
    ) -> Result<Value<Option<T>>> {
        match self.text(setting) {
            Some((text, origin)) => parse(&text, origin).map(Value::some),
            None => Ok(Value::new(None, Origin::Default)),
        }
    }

    fn value_or<T: FromStr<Err: fmt::Display>>(
        &self,
        setting: &Setting,
        default: T,
    ) -> Result<Value<T>> {
        match self.text(setting) {
            Some((text, origin)) => parse(&text, origin),
            None => Ok(Value::new(default, Origin::Default)),
        }
    }

    /// As [`Layers::value_or`], with the text of the default.
    fn parsed_or<T: FromStr<Err: fmt::Display>>(
        &self,
        setting: &Setting,
        default: &str,
    ) -> Result<Value<T>> {
        let found = self.text(setting);
        let (text, origin) = found.unwrap_or_else(|| (default.to_owned(), Origin::Default));
        parse(&text, origin)
    }

    /// Returns a path: of the variable, or of the strongest file. A variable that is not an
    /// absolute path is ignored.
    fn path(&self, setting: &Setting) -> Result<Option<Value<PathBuf>>> {
        let named = setting.variable.and_then(|name| Some((name, self.variables.directory(name)?)));
        if let Some((name, path)) = named {
            return Ok(Some(Value::new(path, Origin::Variable(name))));
        }
        let Some(found) = self.file_value(|file| file.get(setting).map(str::to_owned)) else {
            return Ok(None);
        };
        let template = parse(&found.value, found.origin.clone())?;
        let path = self.variables.resolve(&template.value, &found.origin)?;
        Ok(Some(Value::new(path, found.origin)))
    }

    fn path_or(
        &self,
        setting: &Setting,
        default: Option<PathBuf>,
    ) -> Result<Value<Option<PathBuf>>> {
        let found = self.path(setting)?;
        Ok(found.map_or_else(|| Value::new(default, Origin::Default), Value::some))
    }

    /// `*` is no system: images of all are wanted.
    fn system(&self) -> Result<Value<Option<System>>> {
        let cluster = || self.variables.text(env_vars::CLUSTER_NAME);
        match self.text(&table::SYSTEM).or_else(cluster) {
            Some((name, origin)) if name == "*" => Ok(Value::new(None, origin)),
            Some((name, origin)) => parse(&name, origin).map(Value::some),
            None => Ok(Value::new(None, Origin::Default)),
        }
    }

    fn backend(&self) -> Result<Value<BackendChoice>> {
        if let Some(backend) = self.args.backend {
            return Ok(Value::new(backend, Origin::Option("--backend")));
        }
        match self.variables.text(env_vars::CABANE_BACKEND) {
            Some((name, origin)) => parse(&name, origin),
            None => Ok(Value::new(BackendChoice::Auto, Origin::Default)),
        }
    }

    fn cache_directory(&self) -> Result<Value<Option<PathBuf>>> {
        let caches = self.variables.below_home(env_vars::XDG_CACHE_HOME, ".cache");
        self.path_or(&table::CACHE_DIRECTORY, caches.map(|caches| caches.join("cabane")))
    }

    fn memory_directory(&self) -> Result<Value<PathBuf>> {
        let found = self.path(&table::MEMORY_DIRECTORY)?;
        Ok(found.unwrap_or_else(|| Value::new(PathBuf::from("/dev/shm"), Origin::Default)))
    }

    fn shared_cache_keys(&self) -> Result<Value<Vec<PathBuf>>> {
        let Some(found) = self.file_value(|settings| settings.shared_cache_keys.clone()) else {
            return Ok(Value::new(Vec::new(), Origin::Default));
        };
        let keys = found.value.iter().map(|path| self.variables.resolve(path, &found.origin));
        Ok(Value::new(keys.collect::<Result<_>>()?, found.origin))
    }

    fn index_urls(&self) -> Value<Vec<String>> {
        self.file_value(|settings| settings.index_urls.clone())
            .unwrap_or(Value::new(Vec::new(), Origin::Default))
    }

    /// Returns where environment files are looked for. Those of container engines come before
    /// those of the site.
    fn environment_directories(&self) -> Value<Vec<PathBuf>> {
        let mut found = self.directories(env_vars::CABANE_ENVIRONMENT_PATH, "environments");
        let engine: Vec<PathBuf> = if let Some(list) = self.variables.get(env_vars::EDF_PATH) {
            std::env::split_paths(list).filter(|one| one.is_absolute()).collect()
        } else {
            let home = self.variables.directory(env_vars::HOME);
            home.map(|home| home.join(".edf")).into_iter().collect()
        };
        let own = found.value.len() - usize::from(found.origin == Origin::Default);
        found.value.splice(own..own, engine);
        found
    }

    /// Returns the user's and the site's directories of one kind, unless a variable names
    /// others.
    fn directories(&self, name: &'static str, kind: &str) -> Value<Vec<PathBuf>> {
        if let Some(list) = self.variables.get(name) {
            let directories = std::env::split_paths(list);
            let directories = directories.filter(|directory| !directory.as_os_str().is_empty());
            return Value::new(directories.collect(), Origin::Variable(name));
        }
        let own = self.variables.below_home(env_vars::XDG_CONFIG_HOME, ".config");
        let own = own.map(|directory| directory.join("cabane").join(kind));
        let site = Some(Path::new(SITE_DIRECTORY).join(kind));
        Value::new([own, site].into_iter().flatten().collect(), Origin::Default)
    }
}

/// Reads a value; the error says where it comes from.
fn parse<T: FromStr<Err: fmt::Display>>(text: &str, origin: Origin) -> Result<Value<T>> {
    match text.parse() {
        Ok(value) => Ok(Value::new(value, origin)),
        Err(error) => Err(bad(&origin, text, error)),
    }
}

/// Reads the text of a configuration file.
type Parse = fn(&Path, &[u8]) -> Result<Settings, Mistakes>;

/// Reads a configuration file; one that does not exist is none.
fn read_file(path: &Path, parse: Parse) -> Result<Option<Settings>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).or_failed(|| format!("read {}", path.display())),
    };
    let mut text = Vec::new();
    file.take(MAX_FILE_SIZE + 1)
        .read_to_end(&mut text)
        .or_failed(|| format!("read {}", path.display()))?;
    parse(path, &text).map(Some).map_err(Report::from)
}
