// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane build`: from a recipe to an image in the repository.

use std::path::{Path, PathBuf};
use std::time::Instant;

use cabane_builder::{Built, ImageFormat, Pins, WorkerCommand, execute};
use cabane_image_build::{
    BuildOptions, PlannedBuild, SignedBuild, Signer, add_built, plan_build, write_built,
};
use cabane_label::{Label, Namespace, escape, import_command};
use cabane_remote_build::workers_on_hosts;
use cabane_report::{Kind, Report, Result, size};
use cabane_transfer::{Connection, Upload, push};
use clap::{ArgGroup, Args};

use crate::added::print_changes;
use crate::args::{Choice, one_of};
use crate::format::json;
use crate::interrupt::end_when_interrupted;
use crate::progress::Shown;
use crate::registry::{RegistryArgs, print_pushed};
use crate::setup::Setup;

mod elsewhere;
mod worker;

use elsewhere::ElsewhereArgs;
pub(crate) use worker::{BuildWorkerCommand, build_worker};

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
  cabane build --key build.key ./recipe app/2.1:rc1
  cabane build --debug-symbols ./recipe app/2.1:rc1
  cabane build --on slurm:debug ./recipe app/2.1:rc1
  cabane build --on eiger ./recipe app/2.1:rc1 --push dev
  cabane build --on slurm --nodes 4 --system eiger ./prgenv-gnu prgenv-gnu/26.1
  cabane build --attach 4f1c9a0e2b7d6358

With --on, the build runs in a Slurm job or on a host over ssh. It continues
when the connection is cut or when you press Ctrl-C; the same command follows it again.

An interrupted build resumes, and unchanged steps are not repeated. Defaults for
missing parts of the label: the tag v1; the system from --system, this system, or
`local`; the microarchitecture of this processor family. Recipes for Spack need a system.")]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
#[command(group = ArgGroup::new("machines").args(["on", "with"]))]
pub(crate) struct BuildArgs {
    /// The directory of the recipe
    #[arg(required_unless_present_any = ["attach", "cancel", "list"])]
    recipe: Option<PathBuf>,
    /// The label: name/version:tag@system%uarch
    #[arg(required_unless_present_any = ["output", "install", "dry_run", "until", "attach", "cancel", "list"])]
    label: Option<String>,
    /// Write the image to a file instead of adding it to the repository
    #[arg(short, long, value_name = "FILE", conflicts_with = "label")]
    output: Option<PathBuf>,
    /// Build for this directory and install the packages there, instead of into an image
    #[arg(long, value_name = "DIR", conflicts_with_all = ["label", "output", "image_format"])]
    install: Option<PathBuf>,
    /// With --install: replace the result of an earlier build
    #[arg(long, requires = "install")]
    replace: bool,
    /// Print the plan and stop
    #[arg(long)]
    dry_run: bool,
    /// With --dry-run: print the plan as JSON
    #[arg(long, requires = "dry_run")]
    json: bool,
    /// The file system of the image
    #[arg(long, value_name = "FORMAT", value_parser = one_of(FORMATS))]
    image_format: Option<ImageFormat>,
    /// Mirrors and caches, instead of those of the system
    #[arg(long, value_name = "FILE")]
    mirrors: Option<PathBuf>,
    /// Use this build directory and keep it; default: one below `build.directory`, with large files in memory if they fit
    #[arg(long, value_name = "DIR")]
    build_dir: Option<PathBuf>,
    /// The number of parallel processes
    #[arg(short, long, value_name = "N")]
    jobs: Option<usize>,
    /// Repeat this step and all later ones, even if nothing changed; --dry-run lists the steps
    #[arg(long, value_name = "STEP")]
    from: Option<String>,
    /// Stop after this step and add no image
    #[arg(long, value_name = "STEP")]
    until: Option<String>,
    /// Sign the provenance of the image with this private key and keep it beside the image; with
    /// --output, in FILE.sigstore.json
    #[arg(long, value_name = "FILE", conflicts_with_all = ["install", "until", "dry_run"])]
    key: Option<PathBuf>,
    /// Keep what is usually removed: files in memory, and the sources and object files of packages
    #[arg(long)]
    keep: bool,
    /// Also make an image of the debug symbols, NAME-debug. The recipe must say `debug-symbols: separate`
    #[arg(long, conflicts_with = "install")]
    debug_symbols: bool,
    /// Push the image to this namespace of the registry
    #[arg(long, value_name = "NAMESPACE", conflicts_with_all = ["output", "install", "until", "dry_run"])]
    push: Option<Namespace>,
    /// Also build packages of a stack on this host, over ssh. It must have the recipe, its base, the cache
    /// directory, and the configuration of the system at the same paths. Repeatable
    #[arg(long, value_name = "HOST", value_parser = host)]
    with: Vec<String>,
    #[command(flatten)]
    registry: RegistryArgs,
    #[command(flatten)]
    elsewhere: ElsewhereArgs,
}

const FORMATS: &[Choice<ImageFormat>] = &[
    ("squashfs", "Compact; every system can mount it", ImageFormat::Squashfs),
    (
        "erofs",
        "Larger, faster to mount; before Linux 6.12, needs a loop device or FUSE",
        ImageFormat::Erofs,
    ),
];

impl BuildArgs {
    /// Connects to the registry, if the image is pushed: a mistake shows before the build.
    fn connection(&self, setup: &Setup) -> Result<Option<Connection>> {
        self.push.as_ref().map(|_| self.registry.connect(setup)).transpose()
    }

    /// Pushes the image that has a label.
    fn push(&self, setup: &Setup, connection: &Connection, label: &Label) -> Result<()> {
        let Some(namespace) = &self.push else { return Ok(()) };
        let upload = Upload {
            image: label.to_string(),
            label: Some(format!("{namespace}::{label}")),
            force: false,
            sign: None,
        };
        let (pushed, _) = push(setup, connection, &upload)?;
        print_pushed(setup, &pushed);
        Ok(())
    }

    fn recipe(&self) -> Result<&Path> {
        let missing = || Report::new(Kind::Usage, "the recipe is missing");
        self.recipe.as_deref().ok_or_else(missing)
    }

    /// The processes that build packages, if other hosts do so, too.
    fn workers(&self, setup: &Setup) -> Result<Vec<WorkerCommand>> {
        let program = self.elsewhere.program(setup);
        workers_on_hosts(setup, &self.with, program, self.jobs)
    }

    fn options(&self, setup: &Setup) -> Result<BuildOptions> {
        Ok(BuildOptions {
            recipe: self.recipe()?.to_owned(),
            label: self.label.clone(),
            install: self.install.clone(),
            replace: self.replace,
            format: self.image_format,
            system: setup.named_system.clone(),
            mirrors: self.mirrors.clone(),
            build_dir: self.build_dir.clone(),
            variant: None,
            origin: None,
            pins: Pins::default(),
            jobs: self.jobs,
            from: self.from.clone(),
            until: self.until.clone(),
            keep: self.keep,
            debug_symbols: self.debug_symbols,
            workers: self.workers(setup)?,
        })
    }
}

fn host(text: &str) -> Result<String, String> {
    cabane_remote_build::host(text)
        .map_err(|error| format!("{error}: {}", error.hints().join("; ")))
}

/// Refuses what `apptainer build` takes.
fn refuse_habits(args: &BuildArgs) -> Result<()> {
    let recipe = args.recipe.as_deref().and_then(Path::to_str).unwrap_or_default();
    let words = [recipe, args.label.as_deref().unwrap_or_default()];
    let report = |what: &str, hint: String| {
        Report::new(Kind::Usage, format!("`cabane build` builds recipes, and {what}")).hinted(hint)
    };
    if let Some(file) =
        words.iter().find(|word| word.strip_suffix(".def").is_some() && Path::new(word).is_file())
    {
        let what = format!("`{}` is a definition file of Apptainer", escape(file));
        let stem = escape(file.strip_suffix(".def").unwrap_or(file)).to_string();
        let hint = format!(
            "write a recipe, as `cabane build --help` shows; or type `apptainer build {stem}.sif \
             {}`, then `{}`",
            escape(file),
            import_command(&format!("{stem}.sif"))
        );
        return Err(report(&what, hint));
    }
    if let Some(image) = words.iter().find(|word| word.contains("://")) {
        let what = format!("`{}` is a container image", escape(image));
        return Err(report(&what, format!("type `{}`", import_command(image))));
    }
    Ok(())
}

pub(crate) fn build(setup: &Setup, args: &BuildArgs) -> Result<()> {
    refuse_habits(args)?;
    if args.elsewhere.is_meant() {
        return elsewhere::build(setup, args);
    }
    let planned = plan_build(setup, &args.options(setup)?)?;
    let plan = &planned.plan;
    if args.dry_run {
        for warning in &plan.warnings {
            setup.warning(warning);
        }
        let text = || format!("{}\n", plan.to_string().trim_end());
        setup.printer.data(if args.json { json(plan) } else { text() });
        return Ok(());
    }
    let connection = args.connection(setup)?;
    let of_symbols = planned.label.as_ref().filter(|_| args.debug_symbols);
    let mut debug_label = of_symbols.map(Label::of_debug_symbols).transpose()?;
    let started = Instant::now();
    let signer = args.key.as_deref().map(|key| Signer::new(setup, key)).transpose()?;
    let mut progress = Shown::new(setup);
    let interrupt = end_when_interrupted()?;
    let built = execute(plan, &mut progress, &interrupt)?;
    if let Some(step) = &args.until {
        let place = plan.build_dir.display();
        setup.note(format_args!("stopped after `{step}`; the build is in {place}"));
        setup.hint("the same command without `--until` continues");
        return Ok(());
    }
    let keep = Keep { setup, planned: &planned, signer, is_whole: progress.done_before == 0 };
    if let Some(built) = &built {
        keep.keep(built, planned.label.as_ref(), args.output.as_deref())?;
        let symbols = built.debug_symbols.as_deref();
        if let Some(symbols) = symbols {
            let output = args.output.as_deref().map(of_debug_symbols);
            keep.keep(symbols, debug_label.as_ref(), output.as_deref())?;
        } else if args.debug_symbols {
            debug_label = None;
            setup.warning(
                "there is no image of debug symbols: no program or library has debug symbols and a build ID",
            );
            setup.hint("compile with `-g`, and link with `-Wl,--build-id`");
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    say_time(setup, Some(seconds).filter(|_| progress.done_before != plan.steps.len()));
    if let Some(directory) = &plan.install {
        setup.note(format_args!("installed in {}", directory.display()));
    }
    if let Some(label) = &planned.label {
        if let Some(connection) = &connection {
            args.push(setup, connection, label)?;
            if let Some(label) = &debug_label {
                args.push(setup, connection, label)?;
            }
        }
        say_start(setup, label);
        if let Some(debug) = &debug_label {
            let names = format!(
                "{0}/{1}:{2},{3}/{1}:{2}",
                label.name, label.version, label.tag, debug.name
            );
            setup.hint(format_args!("`cabane run {names} -- gdb PROGRAM` shows its source lines"));
        }
    }
    Ok(())
}

/// Puts what was built where it belongs.
struct Keep<'a> {
    setup: &'a Setup,
    planned: &'a PlannedBuild,
    signer: Option<Signer>,
    /// Whether no step had been done before.
    is_whole: bool,
}

impl Keep<'_> {
    fn keep(&self, built: &Built, label: Option<&Label>, output: Option<&Path>) -> Result<()> {
        let (setup, is_whole) = (self.setup, self.is_whole);
        if let Some(label) = label {
            if let Some(added) = add_built(setup, label, built)? {
                print_changes(setup, &added);
            } else {
                let id = built.digest.id();
                setup.note(format_args!("{label} already names the image {id}"));
            }
            if let Some(signer) = &self.signer {
                let statement = signer.sign_added(setup, (self.planned, built), label, is_whole)?;
                signed(setup, &statement);
            }
        } else if let Some(output) = output {
            write_built(built, output)?;
            let (path, size) = (output.display(), size(built.size));
            setup.note(format_args!("wrote {path} ({size})"));
            if let Some(signer) = &self.signer {
                let statement =
                    signer.sign_written(setup, (self.planned, built), output, is_whole)?;
                signed(setup, &statement);
            }
        }
        Ok(())
    }
}

/// The file for the debug symbols beside that of the image: `app-debug.squashfs` for `app.squashfs`.
fn of_debug_symbols(output: &Path) -> PathBuf {
    let mut name = output.file_stem().unwrap_or_default().to_os_string();
    name.push("-debug");
    if let Some(extension) = output.extension() {
        name.push(".");
        name.push(extension);
    }
    output.with_file_name(name)
}

/// Says how long a build took; none if nothing was built.
fn say_time(setup: &Setup, seconds: Option<f64>) {
    match seconds {
        None => setup.note("nothing has changed: the image is already built"),
        Some(seconds) => setup.note(format_args!("built in {seconds:.1} s")),
    }
}

fn say_start(setup: &Setup, label: &Label) {
    setup.hint(format_args!("`cabane start {}/{}:{}`", label.name, label.version, label.tag));
}

fn signed(setup: &Setup, build: &SignedBuild) {
    let id = build.statement.id();
    for name in &build.kept {
        setup.note(format_args!("kept the provenance {id} in the repository `{name}`"));
    }
    if let Some(file) = &build.file {
        setup.note(format_args!("wrote the provenance {id} to {}", file.display()));
    }
}
