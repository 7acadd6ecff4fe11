// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane vendor-mpi`: the packages of a vendor's MPI become a package for Spack.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use cabane_label::escape;
use cabane_recipe::{FileText, MAX_FILE_SIZE, VendorManifest, malformed, parse_vendor_manifest};
use cabane_report::{IoContext, Result};
use cabane_vendor_mpi::{Packed, Request, Tarball};
use clap::Args;
use serde::Serialize;

use crate::setup::Setup;

/// Turn a vendor's MPI packages into a package for Spack
#[derive(Debug, Args)]
#[command(after_help = "\
The manifest names RPM or Debian packages with their SHA-256 digests, the files to take,
and the replacements that make the compiler wrappers relocatable. The result is one tarball
for each compiler in a Spack source mirror; the same packages always give the same bytes.
Versions that the package already has are kept. Nothing is downloaded, and no program of
the packages is run.

Examples:
  cabane vendor-mpi mpi.yaml --packages rpms --output systems/here/spack_repo/vendor \\
      --mirror /srv/sources")]
pub(crate) struct VendorMpiArgs {
    /// The manifest
    #[arg(value_name = "MANIFEST")]
    manifest: PathBuf,
    /// The directory with the vendor's packages [default: that of the manifest]
    #[arg(long, value_name = "DIR")]
    packages: Option<PathBuf>,
    /// The package repository to write to
    #[arg(short, long, value_name = "DIR", default_value = "spack_repo/vendor")]
    output: PathBuf,
    /// The source mirror for the tarballs
    #[arg(long, value_name = "DIR", default_value = "mirror")]
    mirror: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What is printed for programs.
#[derive(Serialize)]
struct Outcome<'a> {
    name: &'a str,
    version: &'a str,
    arch: &'a str,
    package: &'a Path,
    mirror: &'a Path,
    tarballs: &'a [Tarball],
}

pub(crate) fn vendor_mpi(setup: &Setup, args: &VendorMpiArgs) -> Result<()> {
    let manifest = read(&args.manifest)?;
    let beside = args.manifest.parent().filter(|path| !path.as_os_str().is_empty());
    let beside = beside.unwrap_or(Path::new("."));
    let request = Request {
        manifest: &manifest,
        packages: args.packages.as_deref().unwrap_or(beside),
        output: &args.output,
        mirror: &args.mirror,
    };
    let packed = cabane_vendor_mpi::pack(&request)?;
    print(setup, args, &manifest, &packed);
    Ok(())
}

fn read(path: &Path) -> Result<VendorManifest> {
    let failed = || format!("read the manifest `{}`", path.display());
    let mut text = Vec::new();
    // One byte more shows that it is too large.
    File::open(path)
        .and_then(|file| file.take(MAX_FILE_SIZE + 1).read_to_end(&mut text))
        .or_failed(failed)?;
    let file = FileText { path, text: &text };
    parse_vendor_manifest(&file).map_err(|error| malformed("the manifest", error.diagnostics()))
}

fn print(setup: &Setup, args: &VendorMpiArgs, manifest: &VendorManifest, packed: &Packed) {
    if args.json {
        setup.printer.json(&Outcome {
            name: &manifest.name,
            version: &manifest.version,
            arch: &manifest.arch,
            package: &packed.package,
            mirror: &args.mirror,
            tarballs: &packed.tarballs,
        });
        return;
    }
    for tarball in &packed.tarballs {
        setup.printer.data(format!("{}  {}\n", tarball.sha256, tarball.file));
    }
    let package = packed.package.display().to_string();
    setup.note(format_args!("wrote {}", escape(&package)));
    let mirror = args.mirror.display().to_string();
    setup.note(format_args!("the tarballs are in the source mirror {}", escape(&mirror)));
}
