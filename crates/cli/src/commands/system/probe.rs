// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane system probe`: describes the machine it runs on as a system configuration.

use std::path::{Path, PathBuf};

use cabane_label::escape;
use cabane_mpi_swap::{HostMpi, configuration, find_installed};
use cabane_probe::{Found, Limits, Request, SaveError, SystemText, TargetChoice, TryWith, try_out};
use cabane_report::{Kind, Report, Result};
use cabane_site::env_vars;
use clap::Args;
use serde::Serialize;

use crate::commands::system::text::text;
use crate::setup::Setup;

/// Detect the hardware and software of this machine, for building
#[derive(Debug, Args)]
#[command(after_help = "\
The command searches the usual places for compilers, tools, MPIs, the fabric, Slurm, GPUs,
and the processor. It does not search your home or additions to your PATH. With --output, it
writes a system configuration: packages.yaml and network.yaml, with comments on the source
of each entry and what to check, and mpi.toml with `[[mpi]]` entries for the configuration.
With --facts, it writes the libraries, interpreters, packages, and drivers of this host to a
file. `cabane impact --host FILE` compares images with it, on any machine.
With --spack and --packages, Spack decides which of these packages it takes. The others
are left out, with the reason of Spack. This takes about a minute.
Run it on a compute node if compute nodes differ from this one.")]
pub(crate) struct ProbeArgs {
    /// Write a system configuration to this directory
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Build for this target instead of the one that fits most nodes, such as `x86_64_v4`
    #[arg(long, value_name = "NAME")]
    target: Option<String>,
    /// Leave out packages that the Spack in this directory rejects
    #[arg(long, value_name = "DIR", requires = "packages")]
    spack: Option<PathBuf>,
    /// The packages of Spack, for `--spack`: a clone of spack-packages
    #[arg(long, value_name = "DIR", requires = "spack")]
    packages: Option<PathBuf>,
    /// Also replace files that were edited by hand
    #[arg(long, requires = "output")]
    force: bool,
    /// Write what this host has to a file, for `cabane impact --host`
    #[arg(long, value_name = "FILE")]
    facts: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Take this directory as the root file system of the machine
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    root: PathBuf,
}

/// What is printed for programs.
#[derive(Serialize)]
struct Outcome<'a> {
    #[serde(flatten)]
    found: &'a Found,
    host_mpi: &'a [HostMpi],
    written: Vec<String>,
}

pub(crate) fn probe(setup: &Setup, args: &ProbeArgs) -> Result<()> {
    let target = args.target.as_deref().map(str::parse::<TargetChoice>);
    let target = target.transpose().map_err(|error| {
        let hint = error.hint();
        Report::new(Kind::Usage, error).hinted(hint)
    })?;
    let home = std::env::var_os(env_vars::HOME).map(PathBuf::from);
    let mut found = cabane_probe::probe(&Request {
        root: args.root.clone(),
        homes: home.into_iter().collect(),
        target,
        limits: Limits::default(),
    });
    if let (Some(spack), Some(packages)) = (&args.spack, &args.packages) {
        try_with(setup, spack, packages, &mut found)?;
    }
    if let Some(path) = &args.facts {
        cabane_impact::collect(&args.root, Some(&found), &[]).write(path)?;
        setup.note(format_args!("wrote {}", escape(&path.display().to_string())));
        if !args.json && args.output.is_none() {
            return Ok(());
        }
    }
    let host_mpi = find_installed(&args.root, &found);
    let written = match &args.output {
        None => Vec::new(),
        Some(directory) => {
            let mut files = SystemText::of(&found);
            if !host_mpi.is_empty() {
                files = files.with_mpi(&configuration(&host_mpi));
            }
            files.save(directory, args.force).map_err(save_error)?
        }
    };
    if args.json {
        let written = written.iter().map(|path| path.display().to_string()).collect();
        setup.printer.json(&Outcome { found: &found, host_mpi: &host_mpi, written });
    } else if args.output.is_none() {
        setup.printer.data(text(&found, &host_mpi));
    }
    for path in &written {
        setup.note(format_args!("wrote {}", escape(&path.display().to_string())));
    }
    if !args.json || args.output.is_some() {
        for note in &found.notes {
            let (subject, text) = (escape(&note.subject), escape(&note.text));
            setup.note(format_args!("{subject}: {text}"));
        }
    }
    Ok(())
}

/// Removes what Spack does not take.
fn try_with(setup: &Setup, spack: &Path, packages: &Path, found: &mut Found) -> Result<()> {
    let with = TryWith {
        spack: spack.to_owned(),
        packages: packages.to_owned(),
        python: setup.settings.spack_python.value.clone(),
    };
    let tried = try_out(found, &with).map_err(|error| {
        let hint = error.hint().map(str::to_owned);
        Report::new(Kind::Failure, error).hinted(hint)
    })?;
    let (version, all) = (escape(&tried.version), tried.taken + tried.refused);
    setup.note(format_args!("Spack {version} accepts {} of {all} packages", tried.taken));
    Ok(())
}

fn save_error(error: SaveError) -> Report {
    let hint = error.hint();
    Report::new(Kind::Failure, error).hinted(hint)
}
