// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane import`: a container image becomes an image of the repository.

use std::path::PathBuf;

use cabane_container::{ImportRecord, Platform};
use cabane_label::{Digest, escape};
use cabane_recipe::parse_size;
use cabane_report::{Result, size};
use cabane_repository::Added;
use cabane_transfer::{
    CheckedSource, ImportRequest, Imported, PlannedImport, check_source, import as import_image,
};
use clap::Args;
use serde::Serialize;

use crate::added::print_changes;
use crate::exit_codes::{self, ExitCode};
use crate::interrupt::end_when_interrupted;
use crate::setup::Setup;
use crate::table::Table;

/// Import a container image into the repository
#[expect(clippy::struct_excessive_bools, reason = "each is an option that is given or not")]
#[derive(Debug, Args)]
#[command(override_usage = "\
cabane import [OPTIONS] <IMAGE> <LABEL>
       cabane import --check [--json] <LABEL>...")]
#[command(after_help = "\
Examples:
  cabane import quay.io/biocontainers/samtools:1.19.2--h50ea8bc_1 samtools/1.19
  cabane import nvcr.io/nvidia/pytorch:24.09-py3 pytorch/24.09 --platform linux/arm64
  cabane import oci:./layout:latest tool/1.0
  cabane import docker-archive:./saved.tar.gz tool/1.0
  cabane import ./image.sif tool/1.0

The image is mounted at `/`: commands see its files instead of those of this machine. The
import verifies and flattens the layers without unpacking them to disk. It drops set-user-ID
bits, capabilities, and device files, and reports what it changed. You do not need root.")]
pub(crate) struct ImportArgs {
    /// The container image: REGISTRY/NAME:TAG or REGISTRY/NAME@DIGEST, oci:DIR or oci-archive:FILE, docker-archive:FILE, sif:FILE, dir:DIR, or a path; :NAME after a path selects one of several images
    image: String,
    /// The label: name/version:tag@system%uarch
    #[arg(required_unless_present = "check")]
    label: Option<String>,
    #[arg(hide = true, requires = "check")]
    more_labels: Vec<String>,
    /// Import nothing; report whether the tags that these images came from have moved, with exit code 9 if one has
    #[arg(long, conflicts_with_all = ["force", "dry_run", "platform", "group"])]
    check: bool,
    /// The platform: OS/ARCHITECTURE or OS/ARCHITECTURE/VARIANT; default: this machine
    #[arg(long, value_name = "PLATFORM")]
    platform: Option<Platform>,
    /// Move the label from the image that has it
    #[arg(long)]
    force: bool,
    /// Let only members of this Unix group read the image here
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// A file with a token for the registry, or a directory with a file TOKEN
    #[arg(long, value_name = "PATH")]
    token: Option<PathBuf>,
    /// The user name for the token; default: your user name
    #[arg(long, value_name = "NAME")]
    username: Option<String>,
    /// Show what would be done, and stop
    #[arg(long)]
    dry_run: bool,
    /// The number of threads; default: one for each processor
    #[arg(short, long, value_name = "NUMBER")]
    jobs: Option<usize>,
    /// The largest size of all unpacked layers together, such as 500G; default: 256GiB
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_unpacked: Option<u64>,
    /// Print the result, or the plan, as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn import(setup: &Setup, args: &ImportArgs) -> Result<ExitCode> {
    let label = match &args.label {
        Some(label) if !args.check => label,
        label => {
            // With `--check` every argument is a label, also the first.
            let labels = std::iter::once(&args.image).chain(label);
            let labels: Vec<&str> = labels.chain(&args.more_labels).map(String::as_str).collect();
            return check(setup, &labels, args.json);
        }
    };
    let request = ImportRequest {
        image: args.image.clone(),
        label: label.clone(),
        platform: args.platform.clone(),
        force: args.force,
        group: args.group.clone(),
        token: args.token.clone(),
        username: args.username.clone(),
        dry_run: args.dry_run,
        jobs: args.jobs,
        max_unpacked: args.max_unpacked,
        interrupt: end_when_interrupted()?,
    };
    match import_image(setup, &request)? {
        Imported::Planned(plan) => print_plan(setup, &plan, args.json),
        Imported::Added(added, record) => print_added(setup, &added, record.as_deref(), args.json),
    }
    Ok(exit_codes::SUCCESS)
}

/// What was done, for programs.
#[derive(Serialize)]
struct Done<'a> {
    label: String,
    digest: &'a Digest,
    size: u64,
    /// Whether the image was there already, under whatever label.
    shared: bool,
    report: Option<&'a ImportRecord>,
}

fn print_plan(setup: &Setup, plan: &PlannedImport, as_json: bool) {
    setup.note(format_args!(
        "would import {} for {} as {}: {} layers, {}",
        escape(&plan.reference),
        plan.platform,
        plan.label,
        plan.layers,
        size(plan.bytes)
    ));
    if as_json {
        setup.printer.json(plan);
    }
}

fn print_added(setup: &Setup, added: &Added, record: Option<&ImportRecord>, as_json: bool) {
    print_changes(setup, added);
    if let Some(record) = record {
        for line in record.changed.lines() {
            setup.note(format_args!("  {}", escape(&line)));
        }
    }
    if as_json {
        setup.printer.json(&Done {
            label: added.record.label.to_string(),
            digest: &added.record.digest,
            size: added.record.size,
            shared: record.is_none(),
            report: record,
        });
    }
}

/// Checks for each label whether its reference still leads to the same image.
fn check(setup: &Setup, labels: &[&str], as_json: bool) -> Result<ExitCode> {
    let checked = labels.iter().map(|label| check_source(setup, label));
    let checked: Vec<CheckedSource> = checked.collect::<Result<_>>()?;
    if as_json {
        setup.printer.json(&checked);
    } else {
        let mut table = Table::new(&["label", "state", "was", "is"]);
        for one in &checked {
            let state = if one.moved { "moved" } else { "current" };
            table.push(&[&one.label, &state, &short(&one.before), &short(&one.now)]);
        }
        setup.printer.data(table.to_string());
    }
    let has_moved = checked.iter().any(|one| one.moved);
    Ok(if has_moved { exit_codes::DIFFERENT } else { exit_codes::SUCCESS })
}

fn short(digest: &str) -> String {
    let digits = digest.strip_prefix("sha256:").unwrap_or(digest);
    digits.chars().take(16).collect()
}
