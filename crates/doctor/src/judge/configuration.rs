// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Configuration files and repositories.

use cabane_report::{shell_word, size};

use super::checks::{CONFIGURATION, REPOSITORY};
use crate::facts::{Facts, RepositoryEntry, RepositoryFacts};
use crate::finding::{Finding, State};

/// Less free space than this is reported: an image has some gigabytes.
const LITTLE: u64 = 1 << 30;

/// Judges the configuration and each repository.
pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    let configuration = &facts.configuration;
    let files = if configuration.files.is_empty() {
        "none; the built-in settings are in effect".to_owned()
    } else {
        configuration.files.join(", ")
    };
    let first = match &configuration.mistake {
        None => CONFIGURATION.ok(files),
        Some(mistake) => {
            let hint = mistake.hint.clone().map(|hint| format!("\n{hint}"));
            CONFIGURATION
                .problem("cannot be used, so no command works")
                .because(format!("{}{}", mistake.text, hint.unwrap_or_default()))
                .fixed_by("cabane config")
        }
    };
    let mut findings = vec![first];
    findings.extend(facts.repositories.iter().map(judge_repository));
    findings
}

fn judge_repository(entry: &RepositoryEntry) -> Finding {
    let path = &entry.path;
    let typed = shell_word(path);
    let finding = |state, found: String| {
        REPOSITORY.finding(state, found).named(format!("repository {}", entry.name))
    };
    if let Some(reason) = &entry.unusable {
        return finding(State::Note, format!("{path} is left out"))
            .because(format!("{reason} ({})", entry.origin));
    }
    let facts = match entry.facts.as_ref().map(Result::as_ref) {
        Some(Ok(facts)) => facts,
        Some(Err(reason)) => {
            return finding(State::Problem, format!("{path} does not answer: {reason}"))
                .because(
                    "its file system hangs, and every command that looks into it will; its \
                     server may be down",
                )
                .fixed_by(format!("timeout 5 df {typed}"));
        }
        None => return finding(State::Off, format!("{path} was not looked at")),
    };
    match facts {
        RepositoryFacts::Missing if entry.is_default => {
            finding(State::Off, format!("{path} does not exist yet"))
                .because("it is made when the first image is added")
                .fixed_by("cabane repo create")
        }
        RepositoryFacts::Missing => finding(State::Problem, format!("{path} does not exist"))
            .because(format!("it is named by {}", entry.origin))
            .fixed_by(format!("cabane repo create {typed}")),
        RepositoryFacts::Unusable { reason, hint } => {
            let unusable = finding(State::Problem, format!("{path} cannot be used"));
            let hint = hint.as_ref().map(|hint| format!("; {hint}"));
            unusable
                .because(format!("{reason}{}", hint.unwrap_or_default()))
                .fixed_by(format!("ls -la {typed}"))
        }
        RepositoryFacts::TooLong => {
            finding(State::Note, format!("{path}, too large to look through here"))
                .fixed_by(format!("cabane repo status {typed}"))
        }
        RepositoryFacts::Usable { .. } => judge_usable(entry, facts, &finding),
    }
}

fn judge_usable(
    entry: &RepositoryEntry,
    facts: &RepositoryFacts,
    finding: &dyn Fn(State, String) -> Finding,
) -> Finding {
    let RepositoryFacts::Usable { file_system, writable, labels, images, free, leftovers, damaged } =
        facts
    else {
        return finding(State::Off, entry.path.clone());
    };
    let access = if *writable { "" } else { ", read only" };
    let found = format!(
        "{}: {images} images, {labels} labels, on {file_system}{access}, {} free",
        entry.path,
        size(*free)
    );
    let update = format!("cabane repo update {}", shell_word(&entry.path));
    if let Some(first) = damaged.first() {
        let more = match damaged.len() {
            1 => String::new(),
            count => format!("; {} more", count - 1),
        };
        finding(State::Problem, found).because(format!("{first}{more}")).fixed_by(update)
    } else if *leftovers > 0 {
        finding(State::Note, found)
            .because(format!("{leftovers} temporary files of writers that are gone"))
            .fixed_by(update)
    } else if entry.is_default && !*writable {
        finding(State::Note, found)
            .because("no image can be added or built into it")
            .fixed_by(format!("ls -lad {}", shell_word(&entry.path)))
    } else if *writable && *free < LITTLE {
        finding(State::Note, found)
            .because("little space is left for images")
            .fixed_by("cabane clean")
    } else if file_system.contains("fuse") {
        finding(State::Note, found)
            .because("the helper mounts no images on FUSE; a user namespace is used")
    } else {
        finding(State::Ok, found)
    }
}
