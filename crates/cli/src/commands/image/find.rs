// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane image find`: the images of a registry.

use std::collections::{BTreeMap, BTreeSet};

use cabane_label::{Digest, ImageDescription, LabelPattern, NameMatch};
use cabane_registry::{Listed, Said};
use cabane_run::difference::{PACKAGE_FILES, packages_in_metadata};
use clap::Args;

use crate::commands::image::find_shown::{FoundImage, KEYS, Shown, table};
use crate::exit_codes::{self, ExitCode};
use crate::format::{fill, json};
use crate::packages::{PackageArgs, PackageSearch, names};
use crate::registry::RegistryArgs;
use crate::report::{CommandResult, Report};
use crate::setup::Setup;
use cabane_signature_policy::KnownKeys;
use cabane_transfer::{Connection, look_up};

/// List the images in a registry
#[derive(Debug, Args)]
#[command(after_help = "\
Search by any part of a label: `cp2k`, `/24.11`, `:v1`, `%zen3`, optionally in a
namespace of the registry: `build::cp2k`. A name also matches longer names that begin
with it. If the name of this system is known, only its images are listed; `@*` lists
those of all systems.

Write packages as Spack specs: `hdf5`, `hdf5@1.14:`, `hdf5@1.12:1.14+mpi`,
`hdf5@=1.14.3 api=v110 target=zen3`, `hdf5%gcc@13`, `hdf5/abc123`. For a dependency, add
another `--package` instead of `^`.

The keys of a template are namespace, name, version, tag, system, uarch, label,
id, digest, size, date, packages, signed.")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "one for each option that has no value"
)]
pub(crate) struct FindArgs {
    /// A label with parts left out, an ID, or a digest
    pattern: Option<String>,
    /// Match only the exact name, not longer names that begin with it
    #[arg(long)]
    no_partials: bool,
    #[command(flatten)]
    packages: PackageArgs,
    /// Show who signed each image; needs several requests for each
    #[arg(long)]
    signatures: bool,
    /// Download the whole list again, without asking whether the cached one is current
    #[arg(long)]
    refresh: bool,
    /// Omit the table header
    #[arg(long)]
    no_header: bool,
    /// Print JSON
    #[arg(long, conflicts_with_all = ["format", "no_header"])]
    json: bool,
    /// Print one line for each image from a template such as `{name}/{version} {digest}`
    #[arg(long, value_name = "TEMPLATE")]
    format: Option<String>,
    #[command(flatten)]
    registry: RegistryArgs,
}

pub(crate) fn find(setup: &Setup, args: &FindArgs) -> CommandResult<ExitCode> {
    let description = args.pattern.as_deref().map(read_description).transpose()?;
    let patterns = args.packages.read()?;
    let connection = args.registry.connect(setup)?;
    let registry = connection.registry.address().to_string();
    let search = PackageSearch::new(setup, patterns, &registry);
    let how = if args.no_partials {
        NameMatch::Exact
    } else {
        NameMatch::Prefix
    };
    let listed = look_up(setup, &connection, description.as_ref(), how, args.refresh)?;
    let mut found = match search {
        Some(search) => with_packages(setup, &connection, search, listed, args.refresh)?,
        None => listed.into_iter().map(FoundImage::of).collect(),
    };
    if args.signatures {
        add_signatures(setup, &connection, &mut found)?;
    }
    if args.json {
        let shown: Vec<_> = found.iter().map(Shown::of).collect();
        setup.printer.data(json(&shown));
    } else if let Some(template) = &args.format {
        let mut lines = String::new();
        for image in &found {
            lines += &fill(template, KEYS, |key| Shown::of(image).value(key))?;
            lines.push('\n');
        }
        setup.printer.data(lines);
    } else {
        if found.is_empty() {
            setup.printer.note("no image matches");
        }
        setup.printer.data(table(&found, !args.no_header));
    }
    // The process ends here, and its memory with it.
    std::mem::forget(found);
    Ok(exit_codes::SUCCESS)
}

/// After so many images what they say is kept.
const AT_ONCE: usize = 1000;

/// Keeps the images that have the packages; asks those that are not known yet.
fn with_packages(
    setup: &Setup,
    connection: &Connection,
    mut search: PackageSearch,
    mut listed: Vec<Listed>,
    refresh: bool,
) -> CommandResult<Vec<FoundImage>> {
    // Several labels may have one image.
    let missing: BTreeMap<&Digest, &Listed> = listed
        .iter()
        .filter(|image| search.is_missing(&image.digest, refresh))
        .map(|image| (&image.digest, image))
        .collect();
    let missing: Vec<Listed> = missing.into_values().cloned().collect();
    if missing.len() > AT_ONCE {
        setup.printer.note(format_args!(
            "asking {} images which packages they have; the answers are kept",
            missing.len()
        ));
    }
    let all: BTreeSet<_> = listed.iter().map(|image| &image.digest).collect();
    // Whoever is interrupted has not asked in vain.
    for some in missing.chunks(AT_ONCE) {
        search.learn(&ask_for_packages(setup, connection, some)?, &all);
    }
    let images = listed.iter().map(|image| (&image.label, &image.digest));
    let packages = search.look_for(setup, images);
    listed.retain(|image| packages.contains_key(&image.digest));
    let found = listed.into_iter().map(|image| FoundImage {
        packages: packages.get(&image.digest).cloned(),
        ..FoundImage::of(image)
    });
    Ok(found.collect())
}

/// Returns what images say, in lines. Those that cannot be asked are named.
fn ask_for_packages(
    setup: &Setup,
    connection: &Connection,
    images: &[Listed],
) -> CommandResult<Vec<(Digest, Option<String>)>> {
    let said = connection.registry.contents(images, &PACKAGE_FILES);
    let said = said?;
    let mut known = Vec::with_capacity(images.len());
    let mut failed = Vec::new();
    for (image, said) in images.iter().zip(said) {
        let lines = match said {
            Ok(Said::Lines(lines)) => Some(lines),
            Ok(Said::Files(mut files)) => {
                let files = std::cell::RefCell::new(&mut files);
                let list = packages_in_metadata(|name| files.borrow_mut().remove(name));
                list.map(|list| list.to_lines())
            }
            Ok(Said::Nothing) => None,
            Err(error) => {
                failed.push((&image.label, error));
                continue;
            }
        };
        known.push((image.digest.clone(), lines));
    }
    if let Some((_, error)) = failed.first() {
        let labels = names(setup, failed.iter().map(|(label, _)| label));
        setup.printer.warning(&format!(
            "it is not known which packages are in {labels}: {error}"
        ));
    }
    Ok(known)
}

fn add_signatures(
    setup: &Setup,
    connection: &Connection,
    found: &mut [FoundImage],
) -> CommandResult<()> {
    let Some(first) = found.first() else {
        return Ok(());
    };
    // All are of one part of the registry.
    let keys = KnownKeys::of(setup, &first.image.place());
    let images: Vec<Listed> = found.iter().map(|one| one.image.clone()).collect();
    let signatures = connection.registry.signatures_of_listed(&images);
    for (one, signatures) in found.iter_mut().zip(signatures?) {
        let signatures = signatures?;
        one.signature = Some(keys.judge(&signatures));
    }
    Ok(())
}

fn read_description(text: &str) -> CommandResult<ImageDescription> {
    // Where an image is run this would be a path; a registry has none.
    if text.starts_with('/') {
        let pattern: LabelPattern = text.parse()?;
        return Ok(ImageDescription::Pattern(pattern));
    }
    text.parse().map_err(Report::from)
}
