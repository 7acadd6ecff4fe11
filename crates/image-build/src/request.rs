// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is built, and how: from options, settings, and variables to the request of a build.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cabane_builder::{
    BuildRequest, ImageFormat, InMemory, Install, Part, Pins, Plan, Programs, WorkerCommand,
    WorkerTask,
};
use cabane_container::Platform;
use cabane_environment::complete_label_for;
use cabane_label::{Label, LabelPattern, System, SystemPattern};
use cabane_report::{IoContext, Result};
use cabane_site::settings::FormatChoice;
use cabane_site::settings::{Origin, find_module_command, find_program, processors};
use cabane_site::{Context, SystemDirectory, env_vars, find_system};

use crate::containers::OwnContainers;
use crate::package_keys::package_keys;

/// What is built, and how.
#[derive(Clone, Debug)]
pub struct BuildOptions {
    /// The directory of the recipe.
    pub recipe: PathBuf,
    /// The label, as it is typed.
    pub label: Option<String>,
    /// The directory into which packages are installed, instead of into an image.
    pub install: Option<PathBuf>,
    /// Whether the result of an earlier build is replaced there.
    pub replace: bool,
    /// The file system of the image, instead of that of the settings.
    pub format: Option<ImageFormat>,
    /// The system to build for: a name, or the directory of its configuration.
    pub system: Option<PathBuf>,
    /// Mirrors and caches, instead of those of the system.
    pub mirrors: Option<PathBuf>,
    /// The directory for the build, instead of a temporary one.
    pub build_dir: Option<PathBuf>,
    /// What distinguishes this build from others of the same recipe, which have directories of their own.
    pub variant: Option<String>,
    /// What the recipe is known by instead of its path, if it is a copy: copies of the same recipe share
    /// a build directory.
    pub origin: Option<String>,
    /// What some bases of the recipe mean.
    pub pins: Pins,
    /// The number of parallel processes, instead of that of the settings.
    pub jobs: Option<usize>,
    /// The first step that is repeated.
    pub from: Option<String>,
    /// The last step.
    pub until: Option<String>,
    /// Whether files are kept that are usually removed.
    pub keep: bool,
    /// Whether the debug symbols become an image of their own.
    pub debug_symbols: bool,
    /// How processes are started that build packages on other nodes.
    pub workers: Vec<WorkerCommand>,
}

impl BuildOptions {
    /// Builds a recipe as the settings say.
    #[must_use]
    pub fn of(recipe: &Path) -> Self {
        Self {
            pins: Pins::default(),
            recipe: recipe.to_owned(),
            label: None,
            install: None,
            replace: false,
            format: None,
            system: None,
            mirrors: None,
            build_dir: None,
            variant: None,
            origin: None,
            jobs: None,
            from: None,
            until: None,
            keep: false,
            debug_symbols: false,
            workers: Vec::new(),
        }
    }
}

/// A build that is planned.
#[derive(Debug)]
pub struct PlannedBuild {
    /// The steps.
    pub plan: Plan,
    /// The label of the image, if it is to have one.
    pub label: Option<Label>,
    /// The system that is built for, if its name is known.
    pub system: Option<System>,
}

/// Plans a build.
///
/// # Errors
///
/// The recipe, the configuration of the system, or an option cannot be used.
pub fn plan_build(context: &Context, options: &BuildOptions) -> Result<PlannedBuild> {
    let system = find_system(context, options.system.as_deref())?;
    let pattern =
        options.label.as_deref().map(|text| pattern(text, system.as_ref())).transpose()?;
    let named = system.as_ref().and_then(|found| found.name.clone());
    let request = request(context, options, system)?;
    let plan = cabane_builder::plan(&request)?;
    let label = pattern.map(|pattern| label_of(context, &pattern, &plan)).transpose()?;
    let system = label.as_ref().map(|label| label.system.clone()).or(named);
    Ok(PlannedBuild { plan, label, system })
}

/// Returns the request of a process that builds packages for a build elsewhere. `jobs` is the number of
/// parallel processes, instead of that of the settings.
///
/// # Errors
///
/// The recipe or the configuration of the system is not found.
pub fn worker_request(
    context: &Context,
    task: &WorkerTask,
    jobs: Option<usize>,
) -> Result<BuildRequest> {
    let options = BuildOptions {
        system: task.system.clone(),
        mirrors: task.mirrors.clone(),
        jobs,
        ..BuildOptions::of(&task.recipe)
    };
    request(context, &options, find_system(context, options.system.as_deref())?)
}

/// Returns the request with which the packages of a recipe are resolved for its lock file, in a build
/// directory of its own. `system` is the name of a system, or the directory of its configuration.
///
/// # Errors
///
/// The recipe or the system is not found, or the settings cannot be used.
pub fn lock_request(
    context: &Context,
    recipe: &Path,
    system: Option<&Path>,
) -> Result<BuildRequest> {
    // Of this process alone: it is removed in the end.
    let variant = Some(format!("lock {}", std::process::id()));
    let options = BuildOptions { variant, ..BuildOptions::of(recipe) };
    request(context, &options, find_system(context, system)?)
}

/// Reads a label; what is built for a system says so.
fn pattern(text: &str, system: Option<&SystemDirectory>) -> Result<LabelPattern> {
    let mut pattern: LabelPattern = text.parse()?;
    if pattern.system.is_none() {
        let name = system.and_then(|found| found.name.clone());
        pattern.system = name.map(SystemPattern::Is);
    }
    Ok(pattern)
}

/// Fills in the parts of a label that were left out.
fn label_of(context: &Context, pattern: &LabelPattern, plan: &Plan) -> Result<Label> {
    let platform = plan.platform.as_deref();
    let platform: Option<Platform> = platform.and_then(|text| text.parse().ok());
    let machine = platform.as_ref().map_or(std::env::consts::ARCH, Platform::machine);
    complete_label_for(context, pattern, machine)
}

fn request(
    context: &Context,
    options: &BuildOptions,
    system: Option<SystemDirectory>,
) -> Result<BuildRequest> {
    let recipe_dir = fs::canonicalize(&options.recipe)
        .or_failed(|| format!("find the recipe {}", options.recipe.display()))?;
    let path = context.calling.get(OsStr::new(env_vars::PATH)).map(AsRef::as_ref);
    let format = options.format.unwrap_or(match context.settings.image_format.value {
        FormatChoice::Squashfs => ImageFormat::Squashfs,
        FormatChoice::Erofs => ImageFormat::Erofs,
    });
    let install = install(options)?;
    let settings = &context.settings;
    let home = context.calling.get(OsStr::new(env_vars::HOME)).map(PathBuf::from);
    Ok(BuildRequest {
        build_dir: match &options.build_dir {
            Some(directory) => std::path::absolute(directory)
                .or_failed(|| format!("find {}", directory.display()))?,
            None => settings.build_directory.directory()?.join(build_name(
                options.origin.as_deref().map_or(recipe_dir.as_path(), Path::new),
                install.as_ref(),
                options.variant.as_deref(),
            )),
        },
        install,
        system_dir: system.map(|found| found.directory),
        mirrors: options.mirrors.clone(),
        path_variables: path_variables(context),
        recipe_dir,
        cache_dir: settings.cache_directory.directory()?.to_owned(),
        shared_cache: settings.shared_cache.value.clone(),
        package_keys: match settings.shared_cache.value {
            Some(_) => package_keys(&settings.shared_cache_keys.value)?,
            None => None,
        },
        format,
        programs: Programs {
            uv: settings.uv.value.clone(),
            spack_python: settings.spack_python.value.clone(),
            easybuild_python: settings.easybuild_python.value.clone(),
            git: find_program("git", path),
            tar: find_program("tar", path),
            curl: find_program("curl", path),
            mksquashfs: find_program("mksquashfs", path),
            mkfs_erofs: find_program("mkfs.erofs", path),
            modules: find_module_command(&context.calling),
            objcopy: find_program("objcopy", path),
        },
        passed_variables: passed_variables(context),
        hidden_home: home.filter(|home| home.is_absolute() && home.parent().is_some()),
        search_path: path.map(|path| std::env::split_paths(path).collect()).unwrap_or_default(),
        epoch: context.epoch()?.0,
        jobs: options.jobs.or(settings.jobs.value).unwrap_or_else(processors).max(1),
        backend: context.backend,
        fuse: context.fuse.clone(),
        pins: options.pins.clone(),
        containers: Some(Arc::new(OwnContainers { context: context.clone() })),
        command_network: settings.command_network.value,
        part: Part { from: options.from.clone(), until: options.until.clone() },
        keep: options.keep,
        debug_symbols: options.debug_symbols,
        memory: in_memory(context, options),
        workers: options.workers.clone(),
    })
}

/// Where a build may take place in memory: nowhere if a place on the disk was named.
fn in_memory(context: &Context, options: &BuildOptions) -> Option<InMemory> {
    let settings = &context.settings;
    let is_default = matches!(settings.build_directory.origin, Origin::Default);
    let is_named = options.build_dir.is_some() || !is_default;
    (!is_named).then(|| InMemory {
        directory: settings.memory_directory.value.clone(),
        job_limit: job_limit(context),
    })
}

/// The bytes that the job may use in which this command runs, as Slurm says it. A limit
/// of zero is none.
fn job_limit(context: &Context) -> Option<u64> {
    let number = |name: &str| -> Option<u64> {
        let value = context.calling.get(OsStr::new(name))?.to_str()?;
        value.parse().ok().filter(|&number| number > 0)
    };
    let of_processors = || {
        let each = number(env_vars::SLURM_MEM_PER_CPU)?;
        each.checked_mul(number(env_vars::SLURM_CPUS_ON_NODE)?)
    };
    let megabytes = number(env_vars::SLURM_MEM_PER_NODE).or_else(of_processors)?;
    megabytes.checked_mul(1 << 20)
}

/// The directory that gets the packages, in the spelling of mount points: they will know
/// it by that.
fn install(options: &BuildOptions) -> Result<Option<Install>> {
    let Some(directory) = &options.install else {
        return Ok(None);
    };
    let path =
        std::path::absolute(directory).or_failed(|| format!("find {}", directory.display()))?;
    let directory = path.to_string_lossy().parse()?;
    Ok(Some(Install { directory, replace: options.replace }))
}

/// The name of a recipe's build directory: readable, and different for recipes of
/// the same name in different places, for what is built for a directory, and for variants.
fn build_name(recipe: &Path, install: Option<&Install>, variant: Option<&str>) -> String {
    let name = recipe.file_name().unwrap_or_default().to_string_lossy();
    let name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(40).collect();
    let mut place = recipe.as_os_str().as_encoded_bytes().to_vec();
    if let Some(install) = install {
        place.push(0);
        place.extend_from_slice(install.directory.as_str().as_bytes());
    }
    if let Some(variant) = variant {
        place.extend([0, 0]);
        place.extend_from_slice(variant.as_bytes());
    }
    format!("{name}-{}", cabane_builder::digest_of(&place).id())
}

/// What the paths of mirrors may name.
fn path_variables(context: &Context) -> BTreeMap<String, String> {
    let calling = context.calling.iter();
    let text = calling.filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)));
    text.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn passed_variables(context: &Context) -> BTreeMap<String, String> {
    let value = |name: &str| context.calling.get(OsStr::new(name))?.to_str().map(str::to_owned);
    let mut passed: BTreeMap<String, String> = env_vars::PASSED_TO_BUILDS
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), value(name)?)))
        .collect();
    // The names by which `uv` knows the indexes of the configuration.
    if let Some((first, others)) = context.settings.index_urls.value.split_first() {
        passed.entry("UV_DEFAULT_INDEX".to_owned()).or_insert_with(|| first.clone());
        if !others.is_empty() {
            passed.entry("UV_INDEX".to_owned()).or_insert_with(|| others.join(" "));
        }
    }
    passed
}
