// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane mpi inspect`: which MPI a program, a library or a directory needs or is.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cabane_label::escape;
use cabane_mount::ImageFile;
use cabane_mpi::{Inspected, Loader, Tree};
use cabane_resolve::ConcreteEnvironment;
use cabane_run::metadata::look_into;
use cabane_run::open_image;
use clap::Args;

use crate::commands::mpi::root::find_in;
use crate::commands::mpi::text;
use crate::commands::run::enter;
use crate::commands::sight::Sight;
use crate::exit_codes::{self, ExitCode};
use crate::format::json;
use crate::image_args::InsideArgs;
use crate::report::{CommandResult, Kind, Report};
use crate::setup::Setup;
use cabane_environment::{ImageRequest, RootOptions, find_environment};

/// Show which MPI a program, library, or directory needs or provides
#[derive(Debug, Args)]
#[command(after_help = "\
No program is run: the command reads the files and searches libraries as the loader does,
with the current LD_LIBRARY_PATH.

Examples:
  cabane mpi inspect ./solver
  cabane mpi inspect /opt/mpich                      a prefix, with its launchers
  cabane mpi inspect /usr/lib64/libmpi.so.40
  cabane mpi inspect --root /mnt/container /usr/bin/app
  cabane mpi inspect --in solver/1.0 solver --json")]
pub(crate) struct InspectArgs {
    /// Programs, libraries, Python extensions, or directories; a name without `/` is a program in PATH
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Take this directory as the root file system
    #[arg(long, value_name = "DIR", conflicts_with = "images")]
    root: Option<PathBuf>,
    #[command(flatten)]
    inside: InsideArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A path that tells nothing of MPI.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InspectError {
    #[error("there is no file or program `{}` here", escape(path))]
    NoFile { path: String },
    #[error("{} is no program or library", escape(path))]
    NoProgram { path: String },
    #[error(
        "there is no program, library or directory {} in the image",
        escape(path)
    )]
    NotInImage { path: String },
}

pub(crate) fn inspect(setup: &Setup, args: &InspectArgs) -> CommandResult<ExitCode> {
    if let Some(images) = &args.inside.request() {
        return inspect_inside(setup, args, images);
    }
    let tree = args.root.as_ref().map_or_else(Tree::here, Tree::below);
    let loader = Loader::new(&tree);
    // Below another root the variables of this one mean nothing.
    let loader = match setup.calling.get(OsStr::new("LD_LIBRARY_PATH")) {
        Some(value) if args.root.is_none() => loader.library_path(&value.to_string_lossy()),
        _ => loader,
    };
    let mut all = Vec::with_capacity(args.paths.len());
    for path in &args.paths {
        all.push(look(setup, args, &tree, &loader, path)?);
    }
    tell(setup, args, &all);
    Ok(exit_codes::SUCCESS)
}

fn tell(setup: &Setup, args: &InspectArgs, all: &[Inspected]) {
    if args.json {
        setup.printer.data(json(&all));
    } else {
        let texts: Vec<String> = all.iter().map(text::inspected).collect();
        setup.printer.data(texts.join("\n"));
    }
}

fn look(
    setup: &Setup,
    args: &InspectArgs,
    tree: &Tree,
    loader: &Loader<'_>,
    path: &Path,
) -> CommandResult<Inspected> {
    let text = path.to_string_lossy().into_owned();
    let found = if args.root.is_some() {
        Some(Path::new("/").join(path))
    } else {
        find_program(setup, path)
    };
    let found = found
        .filter(|path| tree.find(path).is_some())
        .ok_or_else(|| {
            let error = InspectError::NoFile { path: text.clone() };
            Report::new(Kind::NotFound, error)
                .hinted("what is in an image is asked for by `--in IMAGE PROGRAM`".to_owned())
        })?;
    cabane_mpi::inspect(tree, loader, &found).ok_or_else(|| {
        let error = InspectError::NoProgram { path: text };
        Report::new(Kind::BadInput, error)
            .hinted("of a script, name the program that it starts".to_owned())
    })
}

/// Finds a program as a shell would; a file or directory that is named is taken as it is.
pub(crate) fn find_program(setup: &Setup, name: &Path) -> Option<PathBuf> {
    if !name.to_string_lossy().contains('/') {
        let path = setup.calling.get(OsStr::new("PATH"));
        let directories = path.into_iter().flat_map(std::env::split_paths);
        let is_program = |path: &PathBuf| {
            std::fs::metadata(path)
                .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        };
        let found = directories.map(|one| one.join(name)).find(is_program);
        if found.is_some() {
            return found.and_then(|path| std::path::absolute(path).ok());
        }
    }
    std::path::absolute(name).ok()
}

/// Starts itself in the environment, where the images are mounted.
fn inspect_inside(
    setup: &Setup,
    args: &InspectArgs,
    images: &ImageRequest,
) -> CommandResult<ExitCode> {
    let mut command = setup.own_program()?;
    command.extend(["mpi".into(), "inspect".into()]);
    if args.json {
        command.push("--json".into());
    }
    command.push("--".into());
    command.extend(args.paths.iter().map(OsString::from));
    let (environment, mut additions) = find_environment(setup, images)?;
    if environment.root().is_some() {
        let root = cabane_environment::root_request(
            setup,
            &RootOptions::default(),
            &environment,
            &mut additions,
        )?;
        let sight = Sight::of(&setup.calling, &environment, &additions, &root);
        return inspect_root(setup, args, &environment, &sight);
    }
    enter(setup, images, command)
}

/// Looks into a container, which is not entered: this program may not run there.
fn inspect_root(
    setup: &Setup,
    args: &InspectArgs,
    environment: &ConcreteEnvironment,
    sight: &Sight,
) -> CommandResult<ExitCode> {
    let files = environment.images.iter();
    let files = files.map(|image| open_image(&image.path, image.format));
    let files: Vec<ImageFile> = files.collect::<Result<_, _>>()?;
    let answer = look_into(&files.iter().collect::<Vec<_>>(), &setup.ways(), |mounts| {
        let mut tree = Tree::below("/");
        for (image, mount) in environment.images.iter().zip(mounts) {
            let directory = format!("/proc/self/fd/{}", mount.as_raw_fd());
            tree = tree.with(image.mount_point.as_path(), directory);
        }
        for (target, source) in &sight.seen {
            tree = tree.with(target, source);
        }
        let loader = Loader::new(&tree).library_path(&sight.library_path);
        let look = |path: &PathBuf| {
            let found = if path.to_string_lossy().contains('/') {
                std::path::absolute(path).ok()?
            } else {
                find_in(&tree, &sight.path, path)?
            };
            cabane_mpi::inspect(&tree, &loader, &found)
        };
        let all: Vec<Option<Inspected>> = args.paths.iter().map(look).collect();
        serde_json::to_vec(&all).map_err(io::Error::other)
    })?;
    let all: Vec<Option<Inspected>> = serde_json::from_slice(&answer).unwrap_or_default();
    let mut found = Vec::with_capacity(all.len());
    for (path, inspected) in args.paths.iter().zip(all) {
        let path = path.to_string_lossy().into_owned();
        let error = InspectError::NotInImage { path };
        found.push(inspected.ok_or_else(|| Report::new(Kind::NotFound, error))?);
    }
    tell(setup, args, &found);
    Ok(exit_codes::SUCCESS)
}
