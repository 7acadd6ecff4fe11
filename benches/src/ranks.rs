// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Two ranks of a real MPI on this machine: the library, their program and how they are started.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::bed::Bed;
use crate::measure::{NotMeasured, finish};

/// Where `scripts/setup test` puts libraries of MPI.
pub(crate) const LIBRARIES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../.cabane/mpi");

/// Copies a library to a place in the bed, where every user may read it, and compiles a source to
/// `bin/program` in the copy. Returns the copy.
pub(crate) fn library_with_program(
    bed: &Bed,
    name: &str,
    source: &str,
    place: &str,
) -> Result<PathBuf, NotMeasured> {
    let installed = Path::new(LIBRARIES).join(name);
    if !installed.join("bin/mpiexec").exists() {
        return Err(format!("{name} is not there; `scripts/setup test` brings it"));
    }
    let copy = bed.path(place);
    finish(bed.command("cp").arg("-r").arg(installed).arg(&copy))?;
    let mut compiler = Command::new("cc");
    compiler
        .args(["-O2", "-std=gnu99", source, "-o"])
        .arg(program_in(&copy))
        .arg("-I")
        .arg(copy.join("include"))
        .arg("-L")
        .arg(copy.join("lib"))
        .args(["-Wl,-rpath,$ORIGIN/../lib", "-lmpi"]);
    finish(&mut compiler)?;
    Ok(copy)
}

/// Where the program is in a library, wherever that is.
pub(crate) fn program_in(library: &Path) -> PathBuf {
    library.join("bin/program")
}

/// A command line that starts two ranks of what follows.
pub(crate) fn two_ranks(bed: &Bed, library: &Path) -> Command {
    // Ranks that cannot read each other's memory may wait for ever.
    let mut command = bed.command("timeout");
    command.arg("60").arg(library.join("bin/mpiexec"));
    command.args(["-n", "2"]);
    command
}
