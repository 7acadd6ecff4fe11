// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Statements beside images: in the repositories, and in a registry.

use std::fmt::Display;

use cabane_label::Digest;
use cabane_registry::{Registry, RemoteImage};
use cabane_report::{Kind, Report, Result};
use cabane_repository::Repository;
use cabane_site::Context;
use jiff::Timestamp;

use crate::bundle::SignedStatement;

/// Returns the statements that the repositories have of an image, the newest last. Damaged ones are left
/// out.
///
/// # Errors
///
/// A repository that cannot be read.
pub fn kept(context: &Context, image: &Digest) -> Result<Vec<SignedStatement>> {
    let mut found: Vec<SignedStatement> = Vec::new();
    for named in context.repositories()? {
        let lines = named.repository.evidence(image).unwrap_or_else(|error| {
            context.warning(format_args!("the evidence of an image cannot be read: {error}"));
            Vec::new()
        });
        for statement in lines.iter().filter_map(|line| SignedStatement::from_bytes(line)) {
            if !found.contains(&statement) {
                found.push(statement);
            }
        }
    }
    Ok(found)
}

/// Keeps statements beside an image, in every repository that has it and that this user can write to.
/// Returns the names of these repositories.
///
/// # Errors
///
/// No repository can keep them, with the reason of the first.
pub fn keep(
    context: &Context,
    image: &Digest,
    statements: &[SignedStatement],
) -> Result<Vec<String>> {
    let kept = put(context, image, statements, true)?;
    Ok(kept.into_iter().map(|kept| kept.repository).collect())
}

/// What a repository has taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its name.
    pub repository: String,
    /// How many statements are new there.
    pub added: usize,
    /// How many it has not kept, since it has too many of this image.
    pub displaced: usize,
}

/// Keeps statements that were made elsewhere beside an image, in every repository that has it and that this
/// user can write to. As with those of a registry, none displaces one that was made here.
///
/// # Errors
///
/// As [`keep`].
pub fn keep_others(
    context: &Context,
    image: &Digest,
    statements: &[SignedStatement],
) -> Result<Vec<Kept>> {
    put(context, image, statements, false)
}

fn put(
    context: &Context,
    image: &Digest,
    statements: &[SignedStatement],
    is_own: bool,
) -> Result<Vec<Kept>> {
    let lines: Vec<Vec<u8>> = statements.iter().map(SignedStatement::to_bytes).collect();
    let (mut keeping, mut refused) = (Vec::new(), None);
    for named in context.repositories()? {
        if !named.repository.has_image(image) {
            continue;
        }
        let put = named.repository.add_evidence(image, &lines, is_own).and_then(|added| {
            let there = named.repository.evidence(image)?;
            let displaced = lines.iter().filter(|line| !there.contains(line)).count();
            let repository = named.name.clone();
            Ok(Kept { repository, added: added.saturating_sub(displaced), displaced })
        });
        match put {
            Ok(kept) => keeping.push(kept),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    match refused {
        Some(error) if keeping.is_empty() => Err(error.into()),
        _ => Ok(keeping),
    }
}

/// Returns the statements that are attached to an image of a registry, the newest first. Damaged ones are
/// left out.
///
/// # Errors
///
/// There are more statements than are read, so that the newest may be missing; and those of reading.
pub fn attached(registry: &Registry, image: &RemoteImage) -> Result<Vec<SignedStatement>> {
    let found = registry.attestations(image)?;
    if !found.is_complete {
        return Err(too_many(found.attestations.len(), &image.place));
    }
    Ok(found
        .attestations
        .iter()
        .filter_map(|one| SignedStatement::from_bytes(&one.bundle))
        .collect())
}

/// Returns the error for an image with more statements than the `count` that are read: the newest may be
/// missing, and nothing can be decided.
pub fn too_many(count: usize, image: &dyn Display) -> Report {
    let message = format!("more than {count} statements are attached to {image}");
    Report::new(Kind::Registry, message)
        .hinted(format!("`cabane evidence prune {image} --remote` removes those that do not count"))
}

/// Keeps in a repository the statements that are attached to an image, and returns how many are new.
///
/// # Errors
///
/// Those of reading and writing.
pub fn bring(registry: &Registry, image: &RemoteImage, repository: &Repository) -> Result<usize> {
    let mut statements = attached(registry, image)?;
    // The newest last.
    statements.reverse();
    let lines: Vec<Vec<u8>> = statements.iter().map(SignedStatement::to_bytes).collect();
    if lines.is_empty() {
        return Ok(0);
    }
    Ok(repository.add_evidence(&image.digest, &lines, false)?)
}

/// Attaches a statement to an image of a registry. The same one is attached once.
///
/// # Errors
///
/// That the registry refuses it.
pub fn attach(
    registry: &Registry,
    image: &RemoteImage,
    signed: &SignedStatement,
) -> Result<Digest> {
    let statement = signed.unverified();
    let kind = statement.as_ref().map_or("", |statement| statement.predicate_type.as_str());
    let finished = statement.as_ref().and_then(|statement| statement.details().finished);
    // Not the present time: the same statement has the same manifest whoever attaches it.
    let created = finished.or(image.created).unwrap_or(Timestamp::UNIX_EPOCH);
    Ok(registry.attest(image, kind, created, &signed.to_bytes())?)
}
