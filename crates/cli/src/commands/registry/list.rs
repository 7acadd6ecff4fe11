// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane registry check` and `cabane registry reindex`: the list of images.

use std::fmt::Display;
use std::path::PathBuf;

use cabane_label::{Digest, Namespace};
use cabane_registry::{Comparison, Difference};
use cabane_report::Result;
use cabane_transfer::{add_chunk_lists, check_list, repair_list, static_list, write_static_list};
use clap::Args;
use serde_json::json;

use super::namespace;
use crate::exit_codes::{self, ExitCode};
use crate::registry::RegistryArgs;
use crate::setup::Setup;
use crate::table::Table;

/// Compare the list of images with the images in the registry
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane registry check
  cabane registry check build

`image push`, `copy`, and `delete` keep a list of the images in the registry, from which
`image find` answers with one request. Other tools do not update it. This command asks the
registry for each image and shows the labels for which the list is wrong; the exit code is
then 11. `cabane registry reindex` repairs the list.")]
pub(crate) struct CheckArgs {
    /// The namespace; default: that of the configuration
    namespace: Option<Namespace>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    registry: RegistryArgs,
}

/// Repair the list of images, or create it
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane registry reindex
  cabane registry reindex build --token TOKEN

The command needs the right to push. Others can push at the same time. An interrupted run
continues when you run it again.")]
pub(crate) struct ReindexArgs {
    /// The namespace; default: that of the configuration
    namespace: Option<Namespace>,
    #[command(flatten)]
    registry: RegistryArgs,
}

/// Add the packages of images that other tools pushed to the list
#[derive(Debug, Args)]
#[command(after_help = "\
`image push` puts the packages of an image into its line of the list, where `image find --package`
reads them with one request. For images that other tools pushed, this command reads them from the
metadata. It needs the right to push, and continues after an interruption.

With a chunk list, `image pull` downloads only what changed since an image that is in the repository.
`image push` attaches one to each image of 16 MiB and more.")]
pub(crate) struct EnrichArgs {
    /// The namespace; default: that of the configuration
    namespace: Option<Namespace>,
    /// Also attach chunk lists; downloads each image that has none and is in no repository
    #[arg(long)]
    chunks: bool,
    #[command(flatten)]
    registry: RegistryArgs,
}

/// Write the list of images for a web server
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane registry serve-list --output /srv/www/deploy.json
  cabane registry serve-list build > build.json

The format is that of uenv's listing service. To read the list, set `listing_url` below `[registry]`
in the configuration, as in `https://www.example.org/{namespace}.json`. The file is replaced as a
whole.")]
pub(crate) struct ServeListArgs {
    /// The namespace; default: that of the configuration
    namespace: Option<Namespace>,
    /// The file; default: standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    registry: RegistryArgs,
}

pub(crate) fn serve_list(setup: &Setup, args: &ServeListArgs) -> Result<ExitCode> {
    let connection = args.registry.connect(setup)?;
    let namespace = namespace(&connection, args.namespace.as_ref());
    let list = static_list(setup, &connection, &namespace)?;
    match &args.output {
        Some(output) => write_static_list(output, &list)?,
        None => setup.printer.data(String::from_utf8_lossy(&list)),
    }
    Ok(exit_codes::SUCCESS)
}

pub(crate) fn enrich(setup: &Setup, args: &EnrichArgs) -> Result<ExitCode> {
    let connection = args.registry.connect(setup)?;
    let namespace = namespace(&connection, args.namespace.as_ref());
    let enriched = cabane_image_search::enrich(setup, &connection, &namespace)?;
    let (added, all) = (enriched.added, labels(enriched.images));
    setup.note(format_args!("{namespace}: added the packages of {added} of {all} in the list"));
    for image in &enriched.silent {
        setup.detail(format_args!("{} does not list its packages", image.label));
    }
    if !enriched.silent.is_empty() {
        let count = labels(enriched.silent.len());
        setup.note(format_args!("{count} do not list their packages; `--verbose` names them"));
    }
    if args.chunks {
        add_chunk_lists(setup, &connection, &namespace, &mut |image| {
            setup.note(format_args!("attached a chunk list to {}", image.place));
        })?;
    }
    Ok(exit_codes::SUCCESS)
}

pub(crate) fn check(setup: &Setup, args: &CheckArgs) -> Result<ExitCode> {
    let connection = args.registry.connect(setup)?;
    let namespace = namespace(&connection, args.namespace.as_ref());
    let comparison = check_list(setup, &connection, &namespace)?;
    let differences = &comparison.differences;
    if args.json {
        setup.printer.json(&json!({
            "namespace": namespace.as_str(),
            "images": comparison.images.len(),
            "complete": comparison.is_complete,
            "differences": differences.iter().map(|one| json!({
                "label": one.place.label.to_string(),
                "listed": one.listed.as_ref().map(Digest::as_str),
                "registry": one.found.as_ref().map(Digest::as_str),
            })).collect::<Vec<_>>(),
        }));
    } else {
        summarize(setup, &namespace, &comparison);
        setup.printer.data(table(differences));
    }
    if differences.is_empty() {
        return Ok(exit_codes::SUCCESS);
    }
    if !args.json {
        setup.hint(format_args!("`cabane registry reindex {namespace}` repairs the list"));
    }
    Ok(exit_codes::REGISTRY)
}

pub(crate) fn reindex(setup: &Setup, args: &ReindexArgs) -> Result<ExitCode> {
    let connection = args.registry.connect(setup)?;
    let namespace = namespace(&connection, args.namespace.as_ref());
    let comparison = check_list(setup, &connection, &namespace)?;
    let differences = &comparison.differences;
    let left = repair_list(setup, &connection, &namespace, differences)?;
    summarize(setup, &namespace, &comparison);
    if !differences.is_empty() {
        let repaired = differences.len() - left.len();
        setup.note(format_args!("repaired {}", labels(repaired)));
        let repaired: Vec<_> = differences.iter().filter(|one| !left.contains(one)).collect();
        setup.printer.data(table(repaired));
    }
    if left.is_empty() {
        return Ok(exit_codes::SUCCESS);
    }
    setup.warning(format_args!(
        "the list is still wrong about {}: the registry does not delete lines, or others push",
        labels(left.len())
    ));
    setup.printer.data(table(&left));
    Ok(exit_codes::REGISTRY)
}

fn labels(count: usize) -> String {
    format!("{count} {}", if count == 1 { "label" } else { "labels" })
}

fn summarize(setup: &Setup, namespace: &Namespace, comparison: &Comparison) {
    let images = labels(comparison.images.len());
    let list = if !comparison.has_list {
        "there is no list".to_owned()
    } else if comparison.differences.is_empty() {
        "the list is right".to_owned()
    } else {
        format!("the list is wrong about {}", labels(comparison.differences.len()))
    };
    setup.note(format_args!("{namespace}: {images} in the registry; {list}"));
    if !comparison.is_complete {
        setup.note(
            "the registry does not name its repositories, so images that other tools pushed under \
             new labels are not known",
        );
    }
}

fn table<'a>(differences: impl IntoIterator<Item = &'a Difference>) -> Table {
    let mut table = Table::new(&["label", "in the list", "in the registry"]);
    for one in differences {
        let id = |digest: &Option<Digest>| match digest {
            Some(digest) => digest.id().to_string(),
            None => "-".to_owned(),
        };
        let (listed, found) = (id(&one.listed), id(&one.found));
        let cells: [&dyn Display; 3] = [&one.place.label, &listed, &found];
        table.push(&cells);
    }
    table
}
