// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane evidence attach` and `export`.

use std::fs;
use std::path::PathBuf;

use cabane_registry::ReportKind;
use cabane_report::{IoContext, Kind, Report, Result};
use cabane_transfer::{
    ReportFile, attach_evidence, attach_report, attached_reports, find_evidence, read_report,
    read_statements,
};
use clap::Args;

use super::ls::WhereArgs;
use crate::registry::RegistryArgs;
use crate::setup::Setup;
use crate::table::counted;

/// Attach signed statements or reports to an image of a registry
#[derive(Debug, Args)]
#[command(after_help = "\
Without FILE, the statements that a repository keeps of this image are
attached, for example those of `cabane check --key FILE`. `cabane image push`
does the same for the image that it pushes.

With --junit or --reframe, the report of another tool is attached. It is not
signed: `cabane evidence ls` shows it, and it never counts as a test. To get
results of a ReFrame suite that count, use `cabane check IMAGE --suite DIR
--key FILE`.

Examples:
  cabane evidence attach prgenv-gnu/25.6
  cabane evidence attach prgenv-gnu/25.6 --junit report.xml")]
pub(crate) struct AttachArgs {
    /// The image in the registry: a label, ID, or digest
    image: String,
    /// Files with signed statements: bundles of Sigstore, version 0.3
    files: Vec<PathBuf>,
    /// Attach this report of ReFrame, without names of users, hosts, and directories. Repeatable
    #[arg(long = "reframe", value_name = "REPORT.json")]
    reframe_reports: Vec<PathBuf>,
    /// Attach this report in the XML format of JUnit, as it is. Repeatable
    #[arg(long = "junit", value_name = "REPORT.xml")]
    junit_reports: Vec<PathBuf>,
    #[command(flatten)]
    registry: RegistryArgs,
}

pub(crate) fn attach(setup: &Setup, args: &AttachArgs) -> Result<()> {
    let of_kind = |paths: &[PathBuf], kind: ReportKind| {
        let read = paths.iter().map(|path| ReportFile::read(path, kind));
        read.collect::<Result<Vec<_>>>()
    };
    let mut reports = of_kind(&args.reframe_reports, ReportKind::Reframe)?;
    reports.extend(of_kind(&args.junit_reports, ReportKind::Junit)?);
    let connection = args.registry.connect(setup)?;
    let found = find_evidence(setup, Some(&connection), &args.image)?;
    if let Some(image) = &found.remote {
        for report in &reports {
            let attached = attach_report(&connection, image, report)?;
            let (id, kind, name) = (attached.manifest.id(), attached.kind.name(), &found.name);
            let text = format!("{name}: attached the {kind} report {id}; it is not signed");
            setup.note(text);
        }
    }
    if !reports.is_empty() && args.files.is_empty() {
        return Ok(());
    }
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
    setup.note(format_args!(
        "{}: attached {}; it had {before}",
        found.name,
        counted(new, "statement")
    ));
    Ok(())
}

/// Write the signed statements and reports of an image to files
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
    let (found, connection) = args.place.find(setup, &args.image)?;
    let directory = &args.output;
    fs::create_dir_all(directory).or_failed(|| format!("make {}", directory.display()))?;
    for signed in &found.statements {
        let path = directory.join(format!("{}.sigstore.json", signed.id().id()));
        fs::write(&path, signed.to_bytes()).or_failed(|| format!("write {}", path.display()))?;
        setup.printer.data(format_args!("{}\n", path.display()));
    }
    let (Some(connection), Some(image)) = (&connection, &found.remote) else {
        return Ok(());
    };
    for report in attached_reports(connection, image)? {
        let (id, extension) = (report.manifest.id(), report.kind.extension());
        let Some(bytes) = read_report(connection, image, &report)? else {
            setup.warning(format_args!("the report {id} is damaged or too large"));
            continue;
        };
        let path = directory.join(format!("{id}.{extension}"));
        fs::write(&path, bytes).or_failed(|| format!("write {}", path.display()))?;
        setup.printer.data(format_args!("{}\n", path.display()));
    }
    Ok(())
}
