// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Errors in the words of uenv, which scripts look for; below them is what Cabane says.

use std::collections::BTreeSet;

use cabane_environment::{ImageRequest, fill_in_metadata, find_image};
use cabane_label::{ParseError, ParseErrorKind, parse_uenv_list};
use cabane_report::{Kind, Report, Result};
use cabane_resolve::LocatedImage;
use cabane_view::parse_view_list;
use clap::error::ErrorKind;

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

/// Names the commands in a text as they are called now: `uenv image ls`. A command that uenv does not have,
/// or not with these options, keeps the name `cabane`.
pub(crate) fn with_its_commands(text: &str) -> String {
    let mut parts = text.split('`');
    let mut named = parts.next().unwrap_or_default().to_owned();
    for (number, part) in parts.enumerate() {
        let is_code = number % 2 == 0;
        let command = part.strip_prefix("cabane ").filter(|command| is_code && exists(command));
        named.push('`');
        match command {
            Some(command) => named.extend(["uenv ", command]),
            None => named.push_str(part),
        }
    }
    named
}

/// Whether uenv has a command with these options. Arguments may be left out or stand for others.
fn exists(command: &str) -> bool {
    let words: Vec<&str> = command.split_whitespace().collect();
    let is_known = |known: &&str| words.starts_with(&known.split(' ').collect::<Vec<_>>());
    if !COMMANDS.iter().any(is_known) {
        return false;
    }
    match super::args::command().try_get_matches_from(["uenv"].into_iter().chain(words)) {
        Ok(_) => true,
        Err(error) => matches!(
            error.kind(),
            ErrorKind::MissingRequiredArgument
                | ErrorKind::InvalidValue
                | ErrorKind::ValueValidation
        ),
    }
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
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn commands_of_both_programs_are_called_as_this_one_is() {
        let same = ["doctor", "image rm --force app", "image find --refresh", "repo gc", "build x"];
        let ours = ["image ls", "image rm app/1.0:v1", "image pull", "run IMAGE -- COMMAND"];
        for command in same {
            let text = format!("a, `cabane {command}`: b");
            assert_eq!(with_its_commands(&text), text);
        }
        for command in ours {
            let text = format!("`b`: `cabane {command}` c");
            assert_eq!(with_its_commands(&text), format!("`b`: `uenv {command}` c"));
        }
    }

    /// The commands in the texts of all crates, with a label in place of what is filled in.
    fn commands_in_texts() -> BTreeSet<String> {
        fn read(directory: &Path, found: &mut BTreeSet<String>) {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    read(&path, found);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    let text = fs::read_to_string(&path).unwrap();
                    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
                    // A text continues on the next line.
                    let code: String = code
                        .map(|line| match line.strip_suffix('\\') {
                            Some(line) => line.trim_start().to_owned(),
                            None => format!("{}\n", line.trim_start()),
                        })
                        .collect();
                    let spans = code.split("`cabane ").skip(1);
                    found.extend(spans.filter_map(|rest| Some(filled_in(rest.split_once('`')?.0))));
                }
            }
        }
        let mut found = BTreeSet::new();
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for entry in fs::read_dir(crates).unwrap() {
            let source = entry.unwrap().path().join("src");
            if source.is_dir() {
                read(&source, &mut found);
            }
        }
        found
    }

    fn filled_in(command: &str) -> String {
        let mut parts = command.split('{');
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |text, part| {
            let (_, rest) = part.split_once('}').unwrap_or_default();
            format!("{text}app/1.0:v1@here%x86_64{rest}")
        })
    }

    #[test]
    fn each_command_in_a_hint_exists_under_the_name_that_it_gets() {
        let commands = commands_in_texts();
        let is_ours = |command: &&String| {
            with_its_commands(&format!("`cabane {command}`")) == format!("`uenv {command}`")
        };
        let ours: Vec<&String> = commands.iter().filter(is_ours).collect();
        assert!(ours.len() > 15 && commands.len() > 100, "{ours:?}");
        for command in ours {
            let known = super::super::args::command();
            let mut known = &known;
            for word in command.split_whitespace() {
                if let Some(next) = known.find_subcommand(word) {
                    known = next;
                } else if word == "--" {
                    break;
                } else if let Some(option) = word.strip_prefix("--") {
                    let option = option.split('=').next();
                    let mut options = known.get_arguments();
                    assert!(options.any(|one| one.get_long() == option), "uenv {command}");
                }
            }
            assert!(!known.has_subcommands(), "uenv {command}");
        }
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
