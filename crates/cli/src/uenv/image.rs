// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `uenv image add`, `uenv image rm`, and `uenv image pull`.

use std::path::Path;

use cabane_environment::find_image;
use cabane_label::{Digest, ImageDescription, Label, LabelPattern, SystemPattern};
use cabane_report::{Kind, Report, Result};
use cabane_repository::{Repository, Transfer};
use cabane_transfer::{PullRequest, add_metadata, pull as pull_image};

use super::args::{AddArgs, PullArgs, RmArgs};
use super::{make_named, words};
use crate::commands::image::add::{add_file, tag};
use crate::commands::image::rm::remove;
use crate::setup::Setup;

pub(super) fn add(setup: &Setup, args: &AddArgs) -> Result<()> {
    let label = whole_label(&args.label)?;
    let source: ImageDescription = args.source.parse().map_err(|error| {
        words::headed("invalid uenv specification".to_owned(), Report::from(error))
    })?;
    make_named(setup)?;
    let written = setup.repository_to_write()?.repository;
    if written.by_label(&label)?.is_some() {
        let error = format!("image_add: a uenv already exists with the label {label}");
        return Err(Report::new(Kind::BadInput, error));
    }
    let how = if args.moves { Transfer::Move } else { Transfer::Copy };
    let added = match &source {
        ImageDescription::Path(path) => match image_in(&written, path) {
            Some(digest) => written.tag(&digest, label, false)?,
            None => add_file(setup, label, path, how, false)?,
        },
        _ => tag(setup, label, &source, false)?,
    };
    let record = &added.record;
    let (label, digest) = (&record.label, &record.digest);
    if written.by_digest(digest)?.len() > 1 {
        setup.warning(format_args!("a uenv with the same sha {digest} is already in the repo"));
    }
    let path = written.path().display();
    setup.printer.data(format_args!("the uenv {label} with sha {digest} was added to {path}\n"));
    Ok(())
}

fn whole_label(text: &str) -> Result<Label> {
    let pattern: LabelPattern = text.parse().map_err(|error| {
        words::headed(format!("the label {text} is not valid"), Report::from(error))
    })?;
    let LabelPattern {
        namespace: None,
        name: Some(name),
        version: Some(version),
        tag: Some(tag),
        system: Some(SystemPattern::Is(system)),
        uarch: Some(uarch),
    } = pattern
    else {
        let error = format!("the label {text} must provide name/version:tag@system%uarch");
        return Err(Report::new(Kind::BadInput, error));
    };
    Ok(Label { name, version, tag, system, uarch })
}

/// Returns which image of a repository a file is, if it is one.
fn image_in(repository: &Repository, path: &Path) -> Option<Digest> {
    let path = path.canonicalize().ok()?;
    let digest: Digest = path.parent()?.file_name()?.to_str()?.parse().ok()?;
    let image = repository.image_path(&digest).canonicalize().ok()?;
    (image == path).then_some(digest)
}

pub(super) fn rm(setup: &Setup, args: &RmArgs) -> Result<()> {
    let text = &args.label;
    let description: ImageDescription = text.parse().map_err(|error| {
        words::headed(format!("the label {text} is not valid"), Report::from(error))
    })?;
    let missing = || Report::new(Kind::NotFound, format!("no uenv matches {text}"));
    let is_named = match &description {
        ImageDescription::Pattern(pattern) => pattern.version.is_some() && pattern.tag.is_some(),
        _ => true,
    };
    if !is_named && find_image(setup, &description).is_ok_or_ambiguous() {
        let error = format!("the label {text} does not provide at least name/version:tag");
        return Err(Report::new(Kind::BadInput, error));
    }
    let removed = remove(setup, &description, false).map_err(|error| match error.kind() {
        Kind::NotFound => missing(),
        _ => error,
    })?;
    let verb = if removed.records.len() > 1 { "were" } else { "was" };
    let labels = removed.records.iter().map(|record| format!("{}\n", record.label));
    let labels: String = labels.collect();
    setup.printer.data(format_args!("the following uenv {verb} removed:\n{labels}"));
    Ok(())
}

/// Whether there is an image, or are several.
trait Exists {
    fn is_ok_or_ambiguous(&self) -> bool;
}

impl<T> Exists for Result<T> {
    fn is_ok_or_ambiguous(&self) -> bool {
        self.as_ref().err().is_none_or(|error| error.kind() == Kind::Ambiguous)
    }
}

pub(super) fn pull(setup: &Setup, args: &PullArgs) -> Result<()> {
    if args.build {
        let error = "the --build flag has been removed: the namespace is part of the label";
        return Err(Report::new(Kind::Usage, error)
            .hinted(format!("`uenv image pull build::{}`", args.uenv)));
    }
    let connection = args.registry().connect(setup)?;
    make_named(setup)?;
    if args.only_meta {
        let added = add_metadata(setup, &connection, &args.uenv)?;
        setup.printer.data(if added.unchanged {
            format!("id={} already has its metadata here\n", added.digest.id())
        } else {
            format!("the metadata of {} are in {}\n", added.label, added.path.display())
        });
        return Ok(());
    }
    let (image, force) = (args.uenv.clone(), args.force);
    let request = PullRequest { image, force, group: None };
    pull_image(setup, &connection, &request, &mut |added| {
        let (label, id) = (&added.record.label, added.record.digest.id());
        setup.printer.data(if added.unchanged {
            format!("id={id} already exists in the repository, skipping pull.\n")
        } else {
            format!("updating {label}\n")
        });
    })
}
