// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane catalogue build`: the images of a registry as a website.

use std::path::PathBuf;
use std::time::Duration;

use cabane_catalogue::{GatherRequest, OtherEntries, gather, gather_local};
use cabane_label::{Namespace, shown};
use cabane_recipe::parse_time;
use cabane_report::Result;
use clap::Args;

use crate::host_change::HostChangeArgs;
use crate::registry::RegistryArgs;
use crate::setup::Setup;
use crate::table::counted;

/// Write the images of a registry or of the repositories as a website
#[derive(Debug, Args)]
#[command(after_help = "\
The site has a page for each image, package, and system, a search, a list of changes with
an Atom feed, and the same content as JSON in api/v1. It consists of files: put it on any
web server, or open index.html. Only files that changed are written.

All readers of the site see the namespaces that you name, and nothing of others.
With --change, --remove, --host, --base, or --package, the site shows the effects on
the images.

Examples:
  cabane catalogue build -o site
  cabane catalogue build -o site --namespace deploy --url https://software.example.org/
  cabane catalogue build -o site --local
  cabane catalogue build -o site --change glibc=2.31 --package 'zlib@:1.3.0'")]
#[expect(clippy::struct_excessive_bools, reason = "one for each option that has no value")]
pub(crate) struct BuildArgs {
    /// The directory: a new or empty one, or that of a catalog, which is replaced
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Also remove files in DIR that no build has written
    #[arg(long)]
    replace: bool,
    /// A namespace of the registry whose images are shown; default: that of the configuration. Repeatable
    #[arg(short, long, value_name = "NAME")]
    namespace: Vec<Namespace>,
    /// The address that the site will have: feed readers need it
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The title of the site; default: Software images
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Leave out signatures and results of tests: they need several requests for each image
    #[arg(long)]
    without_evidence: bool,
    /// Reuse signatures and results of tests that were read no longer ago than this, such as 1h;
    /// default: read all of them
    #[arg(long, value_name = "TIME", value_parser = parse_time, conflicts_with = "without_evidence")]
    evidence_age: Option<Duration>,
    /// Query the registry for each image instead of using its list
    #[arg(long)]
    refresh: bool,
    /// Show the images of the repositories instead, as far as every user can read them
    #[arg(long, conflicts_with_all = ["namespace", "refresh", "evidence_age", "registry", "token", "username"])]
    local: bool,
    #[command(flatten)]
    change: HostChangeArgs,
    #[command(flatten)]
    registry: RegistryArgs,
}

pub(crate) fn build(setup: &Setup, args: &BuildArgs) -> Result<()> {
    let request = GatherRequest {
        namespaces: args.namespace.clone(),
        title: args.title.clone(),
        base: args.url.clone(),
        without_evidence: args.without_evidence,
        evidence_age: args.evidence_age.unwrap_or_default(),
        refresh: args.refresh,
        changes: args.change.changes()?,
    };
    let input = if args.local {
        gather_local(setup, &request)?
    } else {
        gather(setup, &args.registry.request(), &request)?
    };
    let others = if args.replace { OtherEntries::Remove } else { OtherEntries::Refuse };
    let written = cabane_catalogue::build(&input, &args.output, others)?;
    let (output, images) = (shown(&args.output), counted(input.images.len(), "image"));
    let files = counted(written.files, "file");
    setup.note(format_args!(
        "{output}: {images} in {files}; {} written, {} removed",
        written.written, written.removed
    ));
    // The process ends here, and its memory with it.
    std::mem::forget(input);
    Ok(())
}
