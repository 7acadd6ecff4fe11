// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Errors in the words of uenv, which scripts look for; below them is what Cabane says.

use std::collections::BTreeSet;

use cabane_environment::{ImageRequest, fill_in_metadata, find_image};
use cabane_label::{ParseError, ParseErrorKind, parse_uenv_list};
use cabane_report::{Kind, Report, Result};
use cabane_resolve::LocatedImage;
use cabane_view::parse_view_list;

use crate::setup::Setup;

/// The commands that uenv has, too.
const COMMANDS: [&str; 18] = [
    "start",
    "run",
    "status",
    "image ls",
    "image find",
    "image inspect",
    "image pull",
    "image push",
    "image add",
    "image rm",
    "image copy",
    "image delete",
    "repo create",
    "repo status",
    "repo update",
    "repo migrate",
    "config",
    "completion",
];

/// Names the commands in a text as they are called now: `uenv image ls`.
pub(crate) fn with_its_commands(text: &str) -> String {
    let mut text = text.to_owned();
    for command in COMMANDS {
        text = text.replace(&format!("cabane {command}"), &format!("uenv {command}"));
    }
    text
}

/// Puts a headline before an error, which becomes its cause.
pub(super) fn headed(headline: String, error: Report) -> Report {
    let (detail, hints) = (error.detail().map(str::to_owned), error.hints().to_vec());
    let mut headed = Report::caused(error.kind(), headline, error.into_error());
    if let Some(detail) = detail {
        headed = headed.detailed(detail);
    }
    hints.into_iter().fold(headed, Report::hinted)
}

/// Says that what was typed is not one image.
pub(super) fn not_found(typed: &str, error: Report) -> Report {
    match headline_of(typed, error.kind()) {
        Some(headline) => headed(headline, error),
        None => error,
    }
}

fn headline_of(typed: &str, kind: Kind) -> Option<String> {
    match kind {
        Kind::NotFound => Some(format!("no uenv matches '{typed}'")),
        Kind::Ambiguous => {
            Some(format!("more than one uenv matches the uenv description '{typed}'"))
        }
        _ => None,
    }
}

/// Refuses an image that is named more than once.
pub(super) fn refuse_duplicates(setup: &Setup, request: &ImageRequest) -> Result<()> {
    let text = request.images.as_deref().unwrap_or_default();
    let Ok(descriptions) = parse_uenv_list(text) else {
        return Ok(());
    };
    if descriptions.len() < 2 {
        return Ok(());
    }
    let mut seen = BTreeSet::new();
    for description in descriptions {
        let Ok(located) = find_image(setup, &description.image) else {
            continue;
        };
        let path = located.path.canonicalize().unwrap_or(located.path);
        if let Some(path) = seen.replace(path) {
            let error = format!("the '{}' uenv is mounted more than once", path.display());
            return Err(Report::new(Kind::BadInput, error));
        }
    }
    Ok(())
}

/// Says in the words of uenv what is wrong with images and views that could not be started.
pub(super) fn explained(setup: &Setup, request: &ImageRequest, error: Report) -> Report {
    match headline(setup, request) {
        Some(headline) => headed(headline, error),
        None => error,
    }
}

fn headline(setup: &Setup, request: &ImageRequest) -> Option<String> {
    let descriptions = match parse_uenv_list(request.images.as_deref()?) {
        Ok(descriptions) => descriptions,
        Err(error) => return Some(format!("invalid uenv description: {}", reason(&error))),
    };
    let mut images: Vec<LocatedImage> = Vec::new();
    let mut mounted = BTreeSet::new();
    for description in descriptions {
        let mut image = match find_image(setup, &description.image) {
            Ok(image) => image,
            Err(error) => return headline_of(&description.image.to_string(), error.kind()),
        };
        fill_in_metadata(setup, &mut image).ok()?;
        let own = image.meta.as_ref().and_then(|meta| meta.mount.clone());
        if let Some(place) = description.mount_point.or(own)
            && let Some(place) = mounted.replace(place)
        {
            return Some(format!("more than one image mounted at the mount point '{place}'"));
        }
        images.push(image);
    }
    missing_view(&images, request.view.as_deref()?)
}

fn reason(error: &ParseError) -> String {
    match error.kind() {
        ParseErrorKind::Character { character, .. } | ParseErrorKind::Start { character, .. } => {
            format!("unexpected symbol '{character}'")
        }
        // After the tag only a mount point may follow.
        ParseErrorKind::Twice { .. } => "expected a path, which must start with '/' or '.'".into(),
        other => other.to_string(),
    }
}

fn missing_view(images: &[LocatedImage], views: &str) -> Option<String> {
    let views = match parse_view_list(views) {
        Ok(views) => views,
        Err(error) => return Some(format!("invalid view description: {}", reason(&error))),
    };
    let metas = || images.iter().filter_map(|image| Some((image, image.meta.as_ref()?)));
    views.into_iter().find_map(|view| {
        let mut having = metas().filter(|(_, meta)| meta.views.contains_key(&view.view));
        let Some(owner) = view.uenv.as_ref().and_then(|owner| owner.name()) else {
            let is_missing = having.next().is_none();
            return is_missing.then(|| format!("the view '{}' does not exist", view.view));
        };
        let mut having = having.peekable();
        if having.peek().is_none() {
            return Some(format!("the view '{}' does not exist", view.view));
        }
        let is_owner = |(image, meta): (&LocatedImage, &cabane_view::Meta)| {
            let label = image.label.as_ref();
            label.map_or(meta.name.as_str(), |label| label.name.as_str()) == owner.as_str()
        };
        let is_there = having.any(is_owner);
        (!is_there).then(|| format!("the view '{owner}:{}' does not exist", view.view))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_both_programs_are_called_as_this_one_is() {
        let text = with_its_commands("`cabane image ls`, `cabane doctor`");
        assert_eq!(text, "`uenv image ls`, `cabane doctor`");
    }

    #[test]
    fn malformed_descriptions_have_the_reasons_of_uenv() {
        let reasons = ["a:b:c", "a?", "app/42.0:v1@arapiles%zen3+"]
            .map(|text| parse_uenv_list(text).map_err(|error| reason(&error)).unwrap_err());
        assert_eq!(
            reasons,
            [
                "expected a path, which must start with '/' or '.'",
                "unexpected symbol '?'",
                "unexpected symbol '+'"
            ]
        );
    }
}
