// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane evidence attach` and `export`.

use std::fs;
use std::path::PathBuf;

use cabane_report::{IoContext, Kind, Report, Result};
use cabane_transfer::{attach_evidence, find_evidence, read_statements};
use clap::Args;

use super::ls::WhereArgs;
use crate::registry::RegistryArgs;
use crate::setup::Setup;

/// Attach signed statements to an image of a registry
#[derive(Debug, Args)]
#[command(after_help = "\
Without FILE, the statements that a repository keeps of this image are
attached, for example those of `cabane check --key FILE`. `cabane image push`
does the same for the image that it pushes.")]
pub(crate) struct AttachArgs {
    /// The image in the registry: a label, ID, or digest
    image: String,
    /// Files with signed statements: bundles of Sigstore, version 0.3
    files: Vec<PathBuf>,
    #[command(flatten)]
    registry: RegistryArgs,
}

pub(crate) fn attach(setup: &Setup, args: &AttachArgs) -> Result<()> {
    let connection = args.registry.connect(setup)?;
    let found = find_evidence(setup, Some(&connection), &args.image)?;
    let statements = match args.files.as_slice() {
        [] => cabane_evidence::kept(setup, &found.digest)?,
        files => read_statements(files)?,
    };
    if statements.is_empty() {
        let message = format!("no repository keeps evidence of {}", found.name);
        return Err(Report::new(Kind::NotFound, message).hinted(
            "`cabane check IMAGE --key FILE` tests an image and signs the results".to_owned(),
        ));
    }
    let before = found.statements.len();
    if let Some(image) = &found.remote {
        attach_evidence(&connection, image, &statements)?;
    }
    let new = statements.iter().filter(|one| !found.statements.contains(one)).count();
    setup.note(format_args!("{}: attached {new} statements; it had {before}", found.name));
    Ok(())
}

/// Write the signed statements of an image to files
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The image: a label, ID, digest, or path
    image: String,
    /// The directory for the files, one for each statement
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    #[command(flatten)]
    place: WhereArgs,
}

pub(crate) fn export(setup: &Setup, args: &ExportArgs) -> Result<()> {
    let (found, _) = args.place.find(setup, &args.image)?;
    let directory = &args.output;
    fs::create_dir_all(directory).or_failed(|| format!("make {}", directory.display()))?;
    for signed in &found.statements {
        let path = directory.join(format!("{}.sigstore.json", signed.id().id()));
        fs::write(&path, signed.to_bytes()).or_failed(|| format!("write {}", path.display()))?;
        setup.printer.data(format_args!("{}\n", path.display()));
    }
    Ok(())
}
