// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane cache push`: packages for any Spack.

use std::path::PathBuf;

use cabane_builder::{PushCache, push_cache};
use cabane_image_build::package_signer;
use cabane_label::shown;
use cabane_report::{Result, size};
use clap::Args;

use super::CacheArgs;
use crate::setup::Setup;

/// Copy packages into a build cache that any Spack can use
#[derive(Debug, Args)]
#[command(after_help = "\
Spack writes the index of the build cache, so that other Spacks find packages
there that they did not build. With --key, all packages are signed, and builds
can require a valid signature (`shared_cache_keys` in config.toml). Spack
ignores these signatures. Of a package that was built for several mount points,
the one with the longest path is copied, since Spack cannot move a package to a
longer path.

Examples:
  cabane cache push /apps/cabane/packages --key ~/.config/cabane/packages.key
  cabane cache push /shared/spack-cache --mount-point /user-environment hdf5 netcdf-c
  spack mirror add --unsigned cabane file:///shared/spack-cache")]
pub(crate) struct PushArgs {
    /// The directory of the build cache: a path, or file:// and a path
    mirror: String,
    /// The packages, by name; default: all
    #[arg(value_name = "PACKAGE")]
    names: Vec<String>,
    /// Copy only packages that were built for this mount point
    #[arg(long, value_name = "PATH")]
    mount_point: Option<PathBuf>,
    /// Sign the packages with this private key: ECDSA on the curve P-256, PKCS#8 in PEM, not encrypted
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    #[command(flatten)]
    cache: CacheArgs,
}

pub(super) fn push(setup: &Setup, args: &PushArgs) -> Result<()> {
    let signer = args.key.as_deref().map(|key| package_signer(setup, key)).transpose()?;
    let is_signed = signer.is_some();
    let python = setup.settings.spack_python.value.clone();
    let pushed = push_cache(&PushCache {
        cache: args.cache.directory(setup)?.to_owned(),
        target: args.mirror.clone(),
        mount_point: args.mount_point.clone(),
        names: args.names.clone(),
        python: python.unwrap_or_else(|| "/usr/bin/python3".into()),
        signer,
    })?;
    let (target, bytes) = (shown(&pushed.target), size(pushed.bytes));
    let (packages, present) = (pushed.packages, pushed.present);
    let signatures = if is_signed { format!("; signed: {}", pushed.signed) } else { String::new() };
    setup.note(format_args!(
        "packages copied to {target}: {packages} ({bytes}); already there: {present}{signatures}"
    ));
    Ok(())
}
