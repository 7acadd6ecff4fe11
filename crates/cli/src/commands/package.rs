// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane package`: views of an image become a package for Debian or Red Hat.

use std::path::PathBuf;

use cabane_label::escape;
use cabane_native_package::{Format, PackageRequest, Packaged, package as make_package};
use cabane_report::{Result, size};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde::Serialize;

use crate::setup::Setup;

/// Make a native package (.deb or .rpm) of a view
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane package site-tools/1.0 --format deb
  cabane package site-tools/1.0 --view default --format rpm --output packages/ \\
      --maintainer 'Our Site <hpc@example.org>'
  cabane package site-tools/1.0 --format deb --dry-run

The files are installed at the mount point of the image, so choose a mount point for such images
that no other image uses. The package contains what the view needs, depends on the libraries of
the system, and records the digest of the image. The same image gives the same bytes.")]
pub(crate) struct PackageArgs {
    /// The image: a label, ID, or digest
    #[arg(value_name = "IMAGE")]
    image: String,
    /// The views to install, separated by commas; default: the default view
    #[arg(long, value_name = "VIEWS")]
    view: Option<String>,
    /// The format
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    format: Format,
    /// The file to write, or the directory for it; default: the working directory
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// The name of the package; default: cabane-image- and the name of the image
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The version and release of the package, such as 1.0-2; default: version and tag of the image
    #[arg(long, value_name = "VERSION")]
    package_version: Option<String>,
    /// The maintainer of the package: a name and an address
    #[arg(long, value_name = "MAINTAINER")]
    maintainer: Option<String>,
    /// What the package is for, in one line; default: the description of the image
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// The license of the files; default: the licenses that the packages in the image declare
    #[arg(long, value_name = "LICENSE")]
    license: Option<String>,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    /// Print what the package would contain, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

fn formats() -> impl TypedValueParser<Value = Format> {
    PossibleValuesParser::new(["deb", "rpm"]).try_map(|text| text.parse())
}

pub(crate) fn package(setup: &Setup, args: &PackageArgs) -> Result<()> {
    let request = PackageRequest {
        image: args.image.clone(),
        view: args.view.clone(),
        format: args.format,
        output: args.output.clone(),
        name: args.name.clone(),
        version: args.package_version.clone(),
        maintainer: args.maintainer.clone(),
        description: args.description.clone(),
        license: args.license.clone(),
        force: args.force,
        dry_run: args.dry_run,
    };
    let made = make_package(setup, &request)?;
    print(setup, &made);
    if args.json {
        setup.printer.json(&json_of(args.format, &made));
    }
    Ok(())
}

fn print(setup: &Setup, made: &Packaged) {
    let file = made.file.to_string_lossy();
    let file = escape(&file);
    match made.size {
        Some(bytes) => setup.note(format_args!("{file} was written ({})", size(bytes))),
        None => setup.note(format_args!("{file} would be written")),
    }
    setup.note(format_args!(
        "  installs {} files ({}) at {}",
        made.files,
        size(made.installed_size),
        made.mount_point
    ));
    match &made.packages {
        Some(packages) => setup.note(format_args!(
            "  contains {} packages of the image, which the view needs",
            packages.len()
        )),
        None => setup.note(
            "  contains the whole image: the image does not record which files the view needs",
        ),
    }
    let (what, names) = match &made.depends {
        Some(depends) => ("depends on", depends),
        None => ("needs of the system", &made.needs),
    };
    // The versions of symbols are many, and belong to these libraries.
    let is_symbol = |one: &&String| one.contains(".so") && one.contains('(') && !one.contains("()");
    let names: Vec<&str> = names.iter().filter(|one| !is_symbol(one)).map(String::as_str).collect();
    if !names.is_empty() {
        setup.note(format_args!("  {what}: {}", escape(&names.join(", "))));
    }
    if let Some(processor) = &made.processor {
        setup.note(format_args!("  needs a processor as good as {}", escape(processor)));
    }
}

/// What was made, for programs.
#[derive(Serialize)]
struct Made<'a> {
    file: String,
    format: String,
    name: &'a str,
    version: String,
    architecture: &'a str,
    license: &'a str,
    image: Option<&'a str>,
    digest: &'a str,
    mount: &'a str,
    views: Vec<&'a str>,
    packages: Option<Vec<Part<'a>>>,
    files: u64,
    installed_size: u64,
    size: Option<u64>,
    processor: Option<&'a str>,
    needs: &'a [String],
    depends: Option<&'a [String]>,
}

#[derive(Serialize)]
struct Part<'a> {
    name: &'a str,
    version: &'a str,
}

fn json_of(format: Format, made: &Packaged) -> Made<'_> {
    let parts = made.packages.as_ref();
    Made {
        file: made.file.to_string_lossy().into_owned(),
        format: format.to_string(),
        name: &made.identity.name,
        version: made.identity.full_version(),
        architecture: &made.identity.architecture,
        license: &made.identity.license,
        image: made.label.as_deref(),
        digest: &made.digest,
        mount: made.mount_point.as_str(),
        views: made.views.iter().map(cabane_view::ViewName::as_str).collect(),
        packages: parts
            .map(|all| all.iter().map(|(name, version)| Part { name, version }).collect()),
        files: made.files,
        installed_size: made.installed_size,
        size: made.size,
        processor: made.processor.as_deref(),
        needs: &made.needs,
        depends: made.depends.as_deref(),
    }
}
