// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane impact`: which images a change of the host breaks.

use std::fmt::Write as _;
use std::path::PathBuf;

use cabane_image_search::{Catalogue, CatalogueParts, SearchRequest};
use cabane_impact::{Assessment, ImageImpact, Verdict, assess};
use cabane_label::escape;
use cabane_pipeline::{Pipeline, Repairs};
use cabane_report::{Kind, Report, Result};
use clap::Args;
use serde_json::json;

use crate::exit_codes::{self, ExitCode};
use crate::host_change::HostChangeArgs;
use crate::printer::verdict_color;
use crate::registry::RegistryArgs;
use crate::setup::Setup;

/// Show which images a change to the host breaks, and why
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane impact --change glibc=2.31
  cabane impact --remove libpsm2.so.2 --remove libibverbs.so.1
  cabane impact --host new-node.json --from node.json
  cabane impact --package 'zlib@:1.3.0'
  cabane impact --base debian:13
  cabane impact --remove libpmi2.so.0 --remote 'build::'
  cabane impact --package 'zlib@:1.3.0' --remote 'deploy::' --pipeline pipeline.yaml

An image breaks if it needs something that disappears or becomes too old. A rebuild is
advised if it contains the package, or if a package of the host gets another version. An
image whose metadata do not say enough is `unknown`, not `unaffected`: it was built by an
earlier version or another tool.

If the name of this system is known, only its images are examined; `@*` examines those
of all systems.")]
#[expect(clippy::struct_excessive_bools, reason = "one for each option that has no value")]
pub(crate) struct ImpactArgs {
    /// Examine only these images: a label with parts left out, an ID, or a digest
    pattern: Option<String>,
    #[command(flatten)]
    change: HostChangeArgs,
    /// Examine the images in the registry
    #[arg(long)]
    remote: bool,
    /// Read the metadata of each image in the registry again
    #[arg(long, requires = "remote")]
    refresh: bool,
    /// Also list unaffected images
    #[arg(long)]
    all: bool,
    /// Print JSON, with all images
    #[arg(long)]
    json: bool,
    /// Exit with code 9 if an image breaks
    #[arg(long)]
    exit_code: bool,
    /// Also show how to change this pipeline so that it rebuilds these images
    #[arg(long, value_name = "FILE")]
    pipeline: Option<PathBuf>,
    #[command(flatten)]
    registry: RegistryArgs,
}

pub(crate) fn impact(setup: &Setup, args: &ImpactArgs) -> Result<ExitCode> {
    let changes = args.change.changes()?;
    if changes.is_empty() {
        let hint = "name a change, such as `--change glibc=2.31` or `--remove libibverbs.so.1`";
        let report = Report::new(Kind::Usage, "no change is named");
        return Err(report.hinted(hint.to_owned()));
    }
    let request = SearchRequest {
        pattern: args.pattern.clone(),
        refresh: args.refresh,
        ..SearchRequest::default()
    };
    let parts = CatalogueParts { packages: args.change.names_packages(), details: false };
    let catalogue = if args.remote {
        Catalogue::of_registry(setup, &args.registry.request(), &request, parts)?
    } else {
        Catalogue::of_repositories(setup, &request, parts)?
    };
    let assessment = assess(&catalogue, &changes);
    if assessment.images.is_empty() {
        let command = if args.remote { "find" } else { "ls" };
        return Err(Report::new(Kind::NotFound, "no image matches")
            .hinted(format!("`cabane image {command} '@*'` lists all images")));
    }
    for (name, meant) in &assessment.unused {
        setup.warning(format_args!("no image uses `{}`", escape(name)));
        if let Some(meant) = meant {
            setup.hint(format_args!("did you mean `{}`?", escape(meant)));
        }
    }
    let pipeline = args.pipeline.as_deref().map(Pipeline::open).transpose()?;
    let repairs = pipeline.as_ref().map(|pipeline| repairs(pipeline, &assessment)).transpose()?;
    if args.json {
        let mut answer = json!({
            "changes": assessment.changes,
            "images": assessment.images,
        });
        if let Some(repairs) = &repairs {
            answer["repairs"] = json!(repairs);
        }
        setup.printer.json(&answer);
    } else {
        setup.printer.data(text(&assessment, args.all));
        if let (Some(pipeline), Some(repairs)) = (&pipeline, &repairs) {
            setup.printer.data(text_of_repairs(pipeline, repairs));
        }
    }
    let breaks = assessment.count(Verdict::Breaks) > 0;
    // The process ends here, and its memory with it.
    std::mem::forget((catalogue, assessment));
    Ok(if breaks && args.exit_code { exit_codes::DIFFERENT } else { exit_codes::SUCCESS })
}

/// Returns what to change in a pipeline, so that it builds anew what is affected.
fn repairs(pipeline: &Pipeline, assessment: &Assessment) -> Result<Repairs> {
    let images = assessment.images.iter();
    let affected =
        images.filter(|image| matches!(image.verdict, Verdict::Breaks | Verdict::RebuildAdvised));
    pipeline.repairs(affected.map(|image| image.label.as_str()))
}

fn text_of_repairs(pipeline: &Pipeline, repairs: &Repairs) -> String {
    let file = escape(&pipeline.file.to_string_lossy()).into_owned();
    if repairs.revisions.is_empty() && repairs.changed.is_empty() {
        return format!("\nno cell of {file} builds an image that breaks or should be rebuilt\n");
    }
    let mut text = String::new();
    if !repairs.revisions.is_empty() {
        let _ = writeln!(
            text,
            "\nto rebuild them, add or replace these revisions in {file}, and run the pipeline:"
        );
    }
    for new in &repairs.revisions {
        let systems = new.revision.iter().map(|(system, word)| format!("{system}: {word}"));
        let systems = systems.collect::<Vec<_>>().join(", ");
        let _ = writeln!(text, "  below line {}: revision: {{{systems}}}", new.line);
    }
    for cell in &repairs.changed {
        let _ =
            writeln!(text, "\n{cell} has changed since; `cabane pipeline plan` shows what is left");
    }
    text
}

fn text(assessment: &Assessment, all: bool) -> String {
    let mut text = String::new();
    for image in &assessment.images {
        if all || image.verdict != Verdict::Unaffected {
            push_image(&mut text, image);
        }
    }
    if !text.is_empty() {
        text.push('\n');
    }
    let counts = Verdict::ALL.map(|verdict| (verdict, assessment.count(verdict)));
    let counts: Vec<String> = counts
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(verdict, count)| counted(*verdict, *count))
        .collect();
    let _ = writeln!(text, "{}", counts.join(", "));
    text
}

fn counted(verdict: Verdict, count: usize) -> String {
    match (verdict, count) {
        (Verdict::Breaks, 1) => "1 image breaks".to_owned(),
        (Verdict::Breaks, count) => format!("{count} images break"),
        (verdict, count) => format!("{count} {verdict}"),
    }
}

/// Writes the verdict of an image, and its reasons below.
fn push_image(text: &mut String, image: &ImageImpact) {
    let color = verdict_color(image.verdict);
    let label = escape(&image.label);
    let _ = writeln!(text, "{color}{:<15}{color:#}  {label}", image.verdict);
    for reason in &image.reasons {
        let reason = reason.to_string();
        let _ = writeln!(text, "{:17}{}", "", escape(&reason));
    }
}
