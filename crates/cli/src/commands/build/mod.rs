// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane build`: from a recipe to an image in the repository.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use cabane_builder::{
    BuildRequest, Built, ImageFormat, InMemory, Install, Part, Plan, Programs, carry_out, plan,
};
use cabane_container::Platform;
use cabane_label::{Label, LabelPattern, SystemPattern};
use cabane_recipe::FormatChoice;
use cabane_repository::{AddRequest, Transfer};
use clap::{Args, ValueEnum};

use crate::added::tell_added;
use crate::commands::build::containers::OwnContainers;
use crate::exit_codes::{self, ExitCode};
use crate::format::json;
use crate::interrupt::stop_when_interrupted;
use crate::progress::Shown;
use crate::report::{CommandResult, IoContext};
use crate::setup::Setup;
use crate::systems;
use cabane_environment::complete_label_for;
use cabane_report::size;
use cabane_site::env_vars;
use cabane_site::settings::{Origin, find_program, processors};

pub(crate) mod containers;

/// Build an image from a recipe and add it to the repository
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane build examples/mpi-python mpi-python/1.0
  cabane build --dry-run ./recipe app/2.1:rc1
  cabane build ./recipe --output app.squashfs
  cabane build --system ./systems/eiger ./prgenv-gnu prgenv-gnu/26.1
  cabane build --system eiger ./prgenv-gnu prgenv-gnu/26.1
  cabane build --system ./systems/eiger ./prgenv-gnu --until concretize
  cabane build --system eiger ./tools --install /apps/tools/26.1

An interrupted build resumes, and unchanged steps are not repeated. Defaults for
missing parts of the label: the tag v1; the system from --system, this system, or
`local`; the micro-architecture of this processor family.")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a word of its own on the command line"
)]
pub(crate) struct BuildArgs {
    /// The directory of the recipe
    recipe: PathBuf,
    /// The label: name/version:tag@system%uarch
    #[arg(required_unless_present_any = ["output", "install", "dry_run", "until"])]
    label: Option<String>,
    /// Write the image to a file instead of adding it to the repository
    #[arg(short, long, value_name = "FILE", conflicts_with = "label")]
    output: Option<PathBuf>,
    /// Build for this directory and install the packages there, instead of into an image
    #[arg(long, value_name = "DIR", conflicts_with_all = ["label", "output", "image_format"])]
    install: Option<PathBuf>,
    /// Replace the result of an earlier build
    #[arg(long, requires = "install")]
    replace: bool,
    /// Print the plan and stop
    #[arg(long)]
    dry_run: bool,
    /// Print the plan as JSON
    #[arg(long, requires = "dry_run")]
    json: bool,
    /// The file system of the image
    #[arg(long, value_name = "FORMAT", value_enum)]
    image_format: Option<FormatArg>,
    /// The system to build for, by name or as the directory of its configuration; recipes
    /// for Spack need one
    #[arg(long, value_name = "SYSTEM")]
    system: Option<PathBuf>,
    /// Mirrors and caches, instead of those of the system
    #[arg(long, value_name = "FILE")]
    mirrors: Option<PathBuf>,
    /// The directory for the build, which is kept; default: a temporary one, with large files in memory if they fit
    #[arg(long, value_name = "DIR")]
    build_dir: Option<PathBuf>,
    /// The number of parallel processes
    #[arg(short, long, value_name = "N")]
    jobs: Option<usize>,
    /// Repeat this step and all later ones, even if nothing changed
    #[arg(long, value_name = "STEP")]
    from: Option<String>,
    /// Stop after this step and add no image
    #[arg(long, value_name = "STEP")]
    until: Option<String>,
    /// Keep what is usually removed: files in memory, and the sources and object files of packages
    #[arg(long)]
    keep: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FormatArg {
    /// Compact; every system can mount it.
    Squashfs,
    /// Larger, faster to mount; needs Linux 6.12 or later.
    Erofs,
}

pub(crate) fn build(setup: &Setup, args: &BuildArgs) -> CommandResult<ExitCode> {
    let system = systems::find(setup, args.system.as_deref())?;
    let pattern = args
        .label
        .as_deref()
        .map(|text| pattern(text, system.as_ref()))
        .transpose()?;
    let request = request(setup, args, system)?;
    let plan = plan(&request)?;
    let label = pattern
        .map(|pattern| label_of(setup, &pattern, &plan))
        .transpose()?;
    if args.dry_run {
        setup.printer.data(if args.json {
            json(&plan)
        } else {
            format!("{}\n", plan.to_string().trim_end())
        });
        return Ok(exit_codes::SUCCESS);
    }
    let started = Instant::now();
    let mut progress = Shown::new(setup.printer);
    let interrupt = stop_when_interrupted()?;
    let built = carry_out(&plan, &mut progress, &interrupt)?;
    if args.until.is_some() {
        stopped(setup, args, &plan);
        return Ok(exit_codes::SUCCESS);
    }
    match (built, &label, &args.output) {
        (Some(built), Some(label), _) => add(setup, label, &built)?,
        (Some(built), None, Some(output)) => write(setup, &built, output)?,
        _ => {}
    }
    let seconds = started.elapsed().as_secs_f64();
    if progress.done_before() == plan.steps.len() {
        setup
            .printer
            .note("nothing has changed: it was built already");
    } else {
        setup.printer.note(format_args!("built in {seconds:.1} s"));
    }
    if let Some(directory) = &plan.install {
        setup
            .printer
            .note(format_args!("installed in {}", directory.display()));
    }
    if let Some(label) = &label {
        setup.printer.hint(&format!(
            "`cabane start {}/{}:{}`",
            label.name, label.version, label.tag
        ));
    }
    Ok(exit_codes::SUCCESS)
}

/// Reads a label; what is built for a system says so.
fn pattern(text: &str, system: Option<&systems::Found>) -> CommandResult<LabelPattern> {
    let mut pattern: LabelPattern = text.parse()?;
    if pattern.system.is_none() {
        let name = system.and_then(|found| found.name.clone());
        pattern.system = name.map(SystemPattern::Is);
    }
    Ok(pattern)
}

/// Fills in the parts of a label that were left out.
fn label_of(setup: &Setup, pattern: &LabelPattern, plan: &Plan) -> CommandResult<Label> {
    let platform = plan.platform.as_deref();
    let platform: Option<Platform> = platform.and_then(|text| text.parse().ok());
    let machine = platform
        .as_ref()
        .map_or(std::env::consts::ARCH, Platform::machine);
    complete_label_for(setup, pattern, machine)
}

/// Tells that a build stops where it was asked to.
fn stopped(setup: &Setup, args: &BuildArgs, plan: &Plan) {
    let step = args.until.as_deref().unwrap_or_default();
    setup.printer.note(format_args!(
        "stopped after `{step}`; the build is in {}",
        plan.build_dir.display()
    ));
    setup
        .printer
        .hint("the same command without `--until` goes on");
}

fn request(
    setup: &Setup,
    args: &BuildArgs,
    system: Option<systems::Found>,
) -> CommandResult<BuildRequest> {
    let recipe_dir = fs::canonicalize(&args.recipe)
        .or_failed(|| format!("find the recipe {}", args.recipe.display()))?;
    let path = setup
        .calling
        .get(OsStr::new(env_vars::PATH))
        .map(AsRef::as_ref);
    let format = match args.image_format {
        Some(FormatArg::Squashfs) => ImageFormat::Squashfs,
        Some(FormatArg::Erofs) => ImageFormat::Erofs,
        None => match setup.settings.image_format.value {
            FormatChoice::Squashfs => ImageFormat::Squashfs,
            FormatChoice::Erofs => ImageFormat::Erofs,
        },
    };
    let install = install(args)?;
    let settings = &setup.settings;
    let home = setup
        .calling
        .get(OsStr::new(env_vars::HOME))
        .map(PathBuf::from);
    Ok(BuildRequest {
        build_dir: match &args.build_dir {
            Some(directory) => std::path::absolute(directory)
                .or_failed(|| format!("find {}", directory.display()))?,
            None => settings
                .build_directory
                .directory()?
                .join(build_name(&recipe_dir, install.as_ref())),
        },
        install,
        system_dir: system.map(|found| found.directory),
        mirrors: args.mirrors.clone(),
        path_variables: path_variables(setup),
        recipe_dir,
        cache_dir: settings.cache_directory.directory()?.to_owned(),
        format,
        programs: Programs {
            uv: settings
                .uv
                .value
                .clone()
                .or_else(|| find_program("uv", path)),
            spack_python: settings.spack_python.value.clone(),
            git: find_program("git", path),
            tar: find_program("tar", path),
            curl: find_program("curl", path),
            mksquashfs: find_program("mksquashfs", path),
            mkfs_erofs: find_program("mkfs.erofs", path),
        },
        passed_variables: passed_variables(setup),
        hidden_home: home.filter(|home| home.is_absolute() && home.parent().is_some()),
        search_path: path
            .map(|path| std::env::split_paths(path).collect())
            .unwrap_or_default(),
        epoch: setup.epoch()?.0,
        jobs: args
            .jobs
            .or(settings.jobs.value)
            .unwrap_or_else(processors)
            .max(1),
        backend: setup.backend,
        containers: Some(Arc::new(OwnContainers::new(setup))),
        part: Part {
            from: args.from.clone(),
            until: args.until.clone(),
        },
        keep: args.keep,
        memory: in_memory(setup, args),
    })
}

/// Where a build may take place in memory: nowhere if a place on the disk was named.
fn in_memory(setup: &Setup, args: &BuildArgs) -> Option<InMemory> {
    let settings = &setup.settings;
    let is_default = matches!(settings.build_directory.origin, Origin::Default);
    let is_named = args.build_dir.is_some() || !is_default;
    (!is_named).then(|| InMemory {
        directory: settings.memory_directory.value.clone(),
        job_limit: job_limit(setup),
    })
}

/// The bytes that the job may use in which this command runs, as Slurm says it. A limit
/// of zero is none.
fn job_limit(setup: &Setup) -> Option<u64> {
    let number = |name: &str| -> Option<u64> {
        let value = setup.calling.get(OsStr::new(name))?.to_str()?;
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
fn install(args: &BuildArgs) -> CommandResult<Option<Install>> {
    let Some(directory) = &args.install else {
        return Ok(None);
    };
    let path =
        std::path::absolute(directory).or_failed(|| format!("find {}", directory.display()))?;
    let directory = path.to_string_lossy().parse()?;
    Ok(Some(Install {
        directory,
        replace: args.replace,
    }))
}

/// The name of a recipe's build directory: readable, and different for recipes of
/// the same name in different places, and for what is built for a directory.
fn build_name(recipe: &Path, install: Option<&Install>) -> String {
    let name = recipe.file_name().unwrap_or_default().to_string_lossy();
    let name: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(40)
        .collect();
    let mut place = recipe.as_os_str().as_encoded_bytes().to_vec();
    if let Some(install) = install {
        place.push(0);
        place.extend_from_slice(install.directory.as_str().as_bytes());
    }
    format!("{name}-{}", cabane_builder::digest_of(&place).id())
}

/// What the paths of mirrors may name.
fn path_variables(setup: &Setup) -> BTreeMap<String, String> {
    let calling = setup.calling.iter();
    let text = calling.filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)));
    text.map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn passed_variables(setup: &Setup) -> BTreeMap<String, String> {
    let value = |name: &str| {
        setup
            .calling
            .get(OsStr::new(name))?
            .to_str()
            .map(str::to_owned)
    };
    let mut passed: BTreeMap<String, String> = env_vars::PASSED_TO_BUILDS
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), value(name)?)))
        .collect();
    // The names by which `uv` knows the indexes of the configuration.
    if let Some((first, others)) = setup.settings.index_urls.value.split_first() {
        passed
            .entry("UV_DEFAULT_INDEX".to_owned())
            .or_insert_with(|| first.clone());
        if !others.is_empty() {
            passed
                .entry("UV_INDEX".to_owned())
                .or_insert_with(|| others.join(" "));
        }
    }
    passed
}

fn add(setup: &Setup, label: &Label, built: &Built) -> CommandResult<()> {
    let repository = setup.repository_to_write()?;
    // What is there already need not be read and compared again.
    let known = repository.repository.by_label(label)?;
    if known.is_some_and(|record| record.digest == built.digest) {
        setup.printer.note(format_args!(
            "{label} is the image {} already",
            built.digest.id()
        ));
        return Ok(());
    }
    let request = AddRequest {
        label: label.clone(),
        image: &built.image,
        meta: &built.meta,
        how: Transfer::Copy,
        // Who builds the same label again means the new image by it.
        replace: true,
    };
    let added = repository.repository.add(&request)?;
    tell_added(setup, &added);
    Ok(())
}

fn write(setup: &Setup, built: &Built, output: &Path) -> CommandResult<()> {
    let failed = || format!("write {}", output.display());
    let name = output.file_name().unwrap_or_default().to_string_lossy();
    let temporary = output.with_file_name(format!(".{name}.{}.partial", std::process::id()));
    let result = fs::copy(&built.image, &temporary)
        .and_then(|_| fs::File::open(&temporary)?.sync_all())
        .and_then(|()| fs::rename(&temporary, output));
    if result.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    result.or_failed(failed)?;
    setup.printer.note(format_args!(
        "wrote {} ({})",
        output.display(),
        size(built.size)
    ));
    Ok(())
}
