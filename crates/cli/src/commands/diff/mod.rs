// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane diff`: what changed between two images, views or environments.

use std::fs::File;
use std::io::{BufRead, BufReader, Seek};
use std::path::Path;

use cabane_environment::{ImageRequest, fill_in_metadata, find_environment, find_image};
use cabane_label::{Digest, ImageDescription};
use cabane_report::{IoContext, Kind, Report, Result};
use cabane_resolve::LocatedImage;
use cabane_run::difference::{
    EnvironmentSide, Field, FileDifference, ImageSide, PackageDifference, ViewDifference,
    compare_environments, compare_files, compare_metadata, compare_packages, compare_views,
    read_packages,
};
use cabane_run::open_image;
use cabane_view::{Meta, ViewName};
use clap::Args;
use serde::Serialize;

use crate::exit_codes::{self, ExitCode};
use crate::setup::Setup;

pub(crate) mod text;

/// Show what changed between two images, views, or environments
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cabane diff solver/1.0 solver/1.1
  cabane diff solver/1.0 solver/1.1 --files
  cabane diff solver/1.0 solver/1.1 --view=develop
  cabane diff solver/1.1 solver/1.1 --view=default,develop
  cabane diff solver/1.0,tools solver/1.1,tools

Lines with `-` are only in the first, lines with `+` only in the second, and lines with `~`
have changed.")]
pub(crate) struct DiffArgs {
    /// An image: label, ID, digest, or path; or an environment: several images, separated by commas, or an environment file
    #[arg(value_name = "FROM")]
    from: String,
    /// The image or environment to compare with
    #[arg(value_name = "TO")]
    to: String,
    /// Compare only this view of both images, or one view of the first with another of the second; for environments, load these views
    #[arg(long, value_name = "VIEW[,VIEW]")]
    view: Option<String>,
    /// Also compare the files in the images
    #[arg(long)]
    files: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Exit with code 9 if there is a difference
    #[arg(long)]
    exit_code: bool,
}

/// What differs between two images.
#[derive(Debug, Serialize)]
pub(crate) struct Difference {
    from: String,
    to: String,
    pub(crate) metadata: Vec<Field>,
    pub(crate) packages: Vec<PackageDifference>,
    pub(crate) views: Vec<ViewDifference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<Vec<FileDifference>>,
}

pub(crate) fn diff(setup: &Setup, args: &DiffArgs) -> Result<ExitCode> {
    let differs = if is_environment(&args.from) || is_environment(&args.to) {
        diff_environments(setup, args)?
    } else {
        diff_images(setup, args)?
    };
    if !differs && !args.json {
        setup.note("no difference");
    }
    Ok(if differs && args.exit_code { exit_codes::DIFFERENT } else { exit_codes::SUCCESS })
}

/// Whether this is more than one image: a list of them, or an environment file.
fn is_environment(text: &str) -> bool {
    text.contains(',') || Path::new(text).extension().is_some_and(|end| end == "toml")
}

fn diff_environments(setup: &Setup, args: &DiffArgs) -> Result<bool> {
    if args.files {
        let error =
            Report::new(Kind::Usage, "files are compared of two images, and not of environments");
        return Err(error.hinted("compare the images one by one".to_owned()));
    }
    let find = |text: &str| {
        let images = ImageRequest::new(text, args.view.as_deref(), false).telling_choice();
        find_environment(setup, &images)
    };
    let (from, to) = (find(&args.from)?, find(&args.to)?);
    let [one, other] =
        [&from, &to].map(|(environment, additions)| EnvironmentSide { environment, additions });
    let difference = compare_environments(one, other);
    let text = text::environments(&difference);
    if args.json {
        setup.printer.json(&difference);
    } else if !text.is_empty() {
        setup.printer.data(text::head(&args.from, &args.to) + &text);
    }
    Ok(!text.is_empty())
}

fn diff_images(setup: &Setup, args: &DiffArgs) -> Result<bool> {
    let (from, to) = (find(setup, &args.from)?, find(setup, &args.to)?);
    let views = views(args)?;
    let mut difference = Difference {
        from: title(&from),
        to: title(&to),
        metadata: Vec::new(),
        packages: Vec::new(),
        views: compare_named_views(&from, &to, &views)?,
        files: None,
    };
    // What has the same digest is the same, byte for byte.
    let is_same = from.digest.is_some() && from.digest == to.digest;
    let wants_all = views.is_empty() && !is_same;
    if wants_all {
        compare_whole(setup, &mut difference, &from, &to)?;
    }
    let text = text::images(&difference);
    let has_text = !text.is_empty();
    let head = text::head(&difference.from, &difference.to);
    if !args.json && has_text {
        setup.printer.data(head.clone() + &text);
    }
    let mut differs = has_text;
    if args.files && !is_same {
        let list = list_files(setup, &from, &to)?;
        if args.json {
            let all: Vec<FileDifference> = differences_in(list).collect();
            differs |= !all.is_empty();
            difference.files = Some(all);
        } else {
            let head = (!has_text).then_some(head);
            differs |= print_files(setup, list, head);
        }
    }
    if args.json {
        setup.printer.json(&difference);
    }
    Ok(differs)
}

fn find(setup: &Setup, text: &str) -> Result<LocatedImage> {
    let image: ImageDescription = text.parse()?;
    let mut located = find_image(setup, &image)?;
    fill_in_metadata(setup, &mut located)?;
    Ok(located)
}

fn title(image: &LocatedImage) -> String {
    let path = || image.path.display().to_string();
    image.label.as_ref().map_or_else(path, ToString::to_string)
}

fn views(args: &DiffArgs) -> Result<Vec<ViewName>> {
    let texts = args.view.iter().flat_map(|text| text.split(','));
    let views = texts.map(str::parse).collect::<Result<Vec<ViewName>, _>>()?;
    if views.len() > 2 {
        let error = "at most two views can be compared, one of each image";
        return Err(Report::new(Kind::Usage, error));
    }
    Ok(views)
}

fn compare_named_views(
    from: &LocatedImage,
    to: &LocatedImage,
    named: &[ViewName],
) -> Result<Vec<ViewDifference>> {
    let none = Meta::default();
    let (one, other) = (from.meta.as_ref().unwrap_or(&none), to.meta.as_ref().unwrap_or(&none));
    for view in named {
        if !one.views.contains_key(view) && !other.views.contains_key(view) {
            let error = format!("neither image has a view `{view}`");
            let known = one.views.keys().chain(other.views.keys());
            let mut known: Vec<String> = known.map(|name| format!("`{name}`")).collect();
            known.sort();
            known.dedup();
            let hint = (!known.is_empty()).then(|| format!("there are {}", known.join(", ")));
            return Err(Report::new(Kind::NotFound, error).hinted(hint));
        }
    }
    Ok(compare_views(one, other, named))
}

fn compare_whole(
    setup: &Setup,
    difference: &mut Difference,
    from: &LocatedImage,
    to: &LocatedImage,
) -> Result<()> {
    let none = Meta::default();
    let digests = [from, to].map(|image| image.digest.as_ref().map(Digest::to_string));
    let [one, other] = [(from, &digests[0]), (to, &digests[1])].map(|(image, digest)| ImageSide {
        digest: digest.as_deref(),
        path: &image.path,
        format: image.format,
        size: image.path.metadata().ok().map(|found| found.len()),
        meta: image.meta.as_ref().unwrap_or(&none),
    });
    difference.metadata = compare_metadata(one, other);
    let packages = |image: &LocatedImage| {
        let file = open_image(&image.path, image.format)?;
        // A repository keeps a copy of the metadata beside the image.
        read_packages(&file, image.metadata_directory().as_deref(), &setup.mount_methods())
    };
    difference.packages = compare_packages(&packages(from)?, &packages(to)?);
    Ok(())
}

/// Compares the files; the list goes through a file, so that its length does not matter.
fn list_files(setup: &Setup, from: &LocatedImage, to: &LocatedImage) -> Result<File> {
    let open = |image: &LocatedImage| open_image(&image.path, image.format);
    let failed = || "make a temporary file".to_owned();
    let mut list = tempfile::tempfile().or_failed(failed)?;
    compare_files(&open(from)?, &open(to)?, &setup.mount_methods(), &list)?;
    list.rewind().or_failed(failed)?;
    Ok(list)
}

fn differences_in(list: File) -> impl Iterator<Item = FileDifference> {
    let lines = BufReader::new(list).lines().map_while(Result::ok);
    lines.filter_map(|line| serde_json::from_str(&line).ok())
}

/// Prints the list in pieces; returns whether there is anything in it.
fn print_files(setup: &Setup, list: File, head: Option<String>) -> bool {
    const PIECE: usize = 64 << 10;
    let mut text = head.unwrap_or_default() + text::FILES;
    let mut differs = false;
    for difference in differences_in(list) {
        differs = true;
        text += &text::file(&difference);
        if text.len() > PIECE {
            setup.printer.data(&text);
            text.clear();
        }
    }
    if differs {
        setup.printer.data(text);
    }
    differs
}
