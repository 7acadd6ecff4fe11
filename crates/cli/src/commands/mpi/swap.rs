// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane mpi swap`: a command with another MPI in the place of its own.

use std::ffi::OsString;
use std::path::PathBuf;

use cabane_launch::{SwapRequest, Swapping};
use cabane_mpi_swap::warn;
use cabane_report::Result;
use clap::Args;

use crate::commands::mpi::text;
use crate::launch::finish;
use crate::setup::Setup;

/// Run a command with a different MPI
#[derive(Debug, Args)]
#[command(after_help = "\
If the command begins with a launcher, only its ranks use the other MPI. A combination that
cannot work is refused with exit code 14: another MPI family, missing functions, an older C
library, missing Fortran support, or a launcher that cannot start the ranks. With
`--probe`, a small program runs first in the same way. If its ranks load another library, do
not find each other, or lose a message, the exit code is 15 and the command does not run.

Examples:
  cabane mpi swap --with /opt/mpich -- mpiexec -n 4 ./solver
  cabane mpi swap --with host --probe -- srun --mpi=pmi2 ./solver
  cabane mpi swap --with host --mpi-program MPI.so -- mpiexec -n 4 python3 solver.py
  cabane mpi swap --with host --in solver/1.0 --probe -- srun --mpi=pmi2 -n 8 solver
  cabane mpi swap --with /opt/mpich --measure -- mpiexec -n 2 ./solver
  cabane mpi swap --with /opt/mpich --dry-run -- ./solver")]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub(crate) struct SwapArgs {
    /// The MPI to use: a prefix or a library, a name from the configuration, an image with an MPI, or `host` for the first one of this machine that fits
    #[arg(long, value_name = "MPI", default_value = "host")]
    with: String,
    /// The file that needs MPI, if the command does not: for example a Python extension
    #[arg(long = "mpi-program", visible_alias = "program", value_name = "PATH")]
    program: Option<PathBuf>,
    /// Run the program in this container image: a launcher starts `cabane run` for each rank
    #[arg(long = "in", value_name = "IMAGE")]
    image: Option<String>,
    /// Test the MPI before the command runs
    #[arg(long)]
    probe: bool,
    /// Test the MPI, and measure latency and bandwidth with it and with the program's own
    #[arg(long)]
    measure: bool,
    /// Show what would be done, and stop
    #[arg(long)]
    dry_run: bool,
    /// Print the verdict as JSON
    #[arg(long, requires = "dry_run")]
    json: bool,
    /// The command and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl SwapArgs {
    fn request(&self) -> SwapRequest {
        let options = [
            ("--probe", self.probe),
            ("--measure", self.measure),
            ("--dry-run", self.dry_run),
            ("--json", self.json),
        ];
        let given = options.iter().filter(|(_, is_given)| *is_given);
        SwapRequest {
            with: self.with.clone(),
            program: self.program.clone(),
            image: self.image.clone(),
            options: given.map(|(option, _)| OsString::from(option)).collect(),
            command: self.command.clone(),
        }
    }
}

pub(crate) fn swap(setup: &Setup, args: &SwapArgs) -> Result<()> {
    let swap = match Swapping::judge(setup, &args.request())? {
        Swapping::Inside(launch) => return finish(setup, *launch),
        Swapping::Ready(swap) => swap,
    };
    if args.json {
        setup.printer.json(&swap.verdict);
    }
    let plan = swap.plan()?;
    warn(setup, &swap.verdict);
    if args.dry_run {
        if !args.json {
            let variables = swap.variables(setup, plan);
            let text = text::plan(&swap.verdict, plan, &variables, &swap.file);
            setup.printer.data(text);
        }
        return Ok(());
    }
    swap.make_links(plan)?;
    if args.probe || args.measure {
        let result = swap.test(setup, plan, args.measure)?;
        if let (Some(to), Some(result)) = (&swap.verdict.to, result) {
            setup.note(text::proven(to, &result.after, swap.image()));
            if args.measure {
                let figures = text::figures(result.before.as_ref(), &result.after);
                setup.note(figures.trim_end());
            }
        }
    }
    Err(swap.exec(setup, plan))
}
