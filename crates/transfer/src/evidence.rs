// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Statements about an image that was typed: of the repositories, or of a registry.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use cabane_environment::find_image_record;
use cabane_evidence::{
    Evidence, EvidenceKeys, Kept, SignedStatement, attach, keep_others, kept, too_many,
};
use cabane_label::{Digest, ImageDescription, escape, shown};
use cabane_registry::{Distrust, MAX_BUNDLE, PublicKey, RemoteImage};
use cabane_report::{IoContext, Kind, Report, Result};
use cabane_site::Context;

use crate::pull::find_remote;
use crate::push::digest_of;
use crate::registry::Connection;

/// An image and the statements about it.
#[derive(Debug)]
pub struct FoundEvidence {
    /// Its label, or what was typed.
    pub name: String,
    /// Its sha256.
    pub digest: Digest,
    /// The image of the registry, where it was asked.
    pub remote: Option<RemoteImage>,
    /// The statements, whether they count or not.
    pub statements: Vec<SignedStatement>,
    /// Whether these are all.
    is_complete: bool,
}

impl FoundEvidence {
    /// Reads the statements that are attached to an image of a registry.
    ///
    /// # Errors
    ///
    /// Those of reading.
    pub fn of(connection: &Connection, image: RemoteImage) -> Result<Self> {
        let found = connection.registry.attestations(&image)?;
        let bundles = found.attestations.iter();
        Ok(Self {
            name: image.place.to_string(),
            digest: image.digest.clone(),
            statements: bundles
                .filter_map(|one| SignedStatement::from_bytes(&one.bundle))
                .collect(),
            is_complete: found.is_complete,
            remote: Some(image),
        })
    }

    /// Judges the statements, the newest first.
    ///
    /// # Errors
    ///
    /// There are more than are read, so that the newest may be missing; a key of the configuration that
    /// cannot be read.
    pub fn judged(&self, context: &Context) -> Result<Vec<Evidence>> {
        if self.is_complete {
            return self.judged_in_part(context);
        }
        Err(too_many(self.statements.len(), &self.name))
    }

    fn judged_in_part(&self, context: &Context) -> Result<Vec<Evidence>> {
        let keys = EvidenceKeys::of(context)?;
        let judged = self.statements.iter().filter_map(|one| keys.judge(one, &self.digest));
        let mut judged: Vec<_> = judged.collect();
        judged.sort_by(|one, other| {
            (other.details.finished, &other.id).cmp(&(one.details.finished, &one.id))
        });
        judged.dedup_by(|one, other| one.bundle == other.bundle);
        Ok(judged)
    }
}

/// Finds an image and the statements about it: in the repositories, or in a registry if one is given.
///
/// # Errors
///
/// Nothing, or several, are what was typed; and those of reading.
pub fn find_evidence(
    context: &Context,
    connection: Option<&Connection>,
    typed: &str,
) -> Result<FoundEvidence> {
    let description: ImageDescription = typed.parse()?;
    let Some(connection) = connection else {
        let located = find_image_record(context, &description)?;
        let digest = digest_of(context, &located)?;
        let name = located.label.map_or_else(|| typed.to_owned(), |label| label.to_string());
        let statements = kept(context, &digest)?;
        return Ok(FoundEvidence { name, digest, remote: None, statements, is_complete: true });
    };
    let image = find_remote(context, connection, typed, &description)?.into_iter().next();
    let image = image.ok_or_else(|| {
        Report::new(Kind::NotFound, format!("no image in the registry matches `{}`", escape(typed)))
    })?;
    FoundEvidence::of(connection, image)
}

/// Reads files with signed statements.
///
/// # Errors
///
/// A file that cannot be read, or that is none.
pub fn read_statements(paths: &[PathBuf]) -> Result<Vec<SignedStatement>> {
    paths.iter().map(|path| read_statement(path)).collect()
}

fn read_statement(path: &Path) -> Result<SignedStatement> {
    let name = shown(path);
    let mut bytes = Vec::new();
    let file = File::open(path).or_failed(|| format!("read {name}"))?;
    // What is longer is cut off, and then no JSON.
    file.take(MAX_BUNDLE).read_to_end(&mut bytes).or_failed(|| format!("read {name}"))?;
    let statement = SignedStatement::from_bytes(&bytes);
    statement.filter(|one| one.unverified().is_some()).ok_or_else(|| {
        let message = format!("{name} is no signed statement: a bundle of Sigstore, version 0.3");
        Report::new(Kind::BadInput, message).hinted(
            "`cabane check IMAGE --key FILE` makes one, and `cabane evidence export` writes it"
                .to_owned(),
        )
    })
}

/// Keeps statements of files beside an image, in the repositories that have it, as a pull keeps those of a
/// registry. `more` are public keys that are accepted besides those of testers and builders. Nothing is kept
/// if one of the files is refused.
///
/// # Errors
///
/// A file that is about another image, or signed with a key that is not accepted; no repository has the
/// image, or none can keep the statements.
pub fn add_statements(
    context: &Context,
    found: &FoundEvidence,
    files: &[PathBuf],
    more: &[PublicKey],
) -> Result<Vec<Kept>> {
    let mut keys = EvidenceKeys::of(context)?.all().to_vec();
    keys.extend_from_slice(more);
    let mut statements: Vec<SignedStatement> = Vec::new();
    for path in files {
        let signed = read_statement(path)?;
        verify(&signed, path, found, &keys)?;
        if !statements.contains(&signed) {
            statements.push(signed);
        }
    }
    // The newest last, as a repository has them.
    statements.sort_by_key(|one| one.unverified().and_then(|one| one.details().finished));
    let all = keep_others(context, &found.digest, &statements)?;
    if all.is_empty() {
        let message = format!("no repository has the image {}", escape(&found.name));
        return Err(Report::new(Kind::NotFound, message)
            .hinted("`cabane image add LABEL FILE` adds an image to a repository".to_owned()));
    }
    if let Some(full) = all.iter().find(|kept| kept.displaced > 0) {
        let (name, repository) = (escape(&found.name), escape(&full.repository));
        let message = format!("the repository `{repository}` has too many statements of {name}");
        return Err(Report::new(Kind::Failure, message)
            .hinted(format!("`cabane evidence prune {name}` removes old statements")));
    }
    Ok(all)
}

/// Checks that a statement of a file is about an image, and signed with one of some keys.
fn verify(
    signed: &SignedStatement,
    path: &Path,
    found: &FoundEvidence,
    keys: &[PublicKey],
) -> Result<()> {
    let file = shown(path);
    let (statement, _) = signed.open(keys).map_err(|reason| {
        let hint = format!("`cabane evidence add {} {file} --key KEY.pub`", escape(&found.name));
        match reason {
            Distrust::UnknownKey => {
                let message = format!(
                    "{file} is signed with another key than those of the testers and builders"
                );
                Report::new(Kind::Untrusted, message)
                    .hinted(format!("{hint} also accepts this public key"))
            }
            other => Report::new(Kind::Untrusted, format!("{file} cannot be verified: {other}")),
        }
    })?;
    if statement.is_about(&found.digest) {
        return Ok(());
    }
    let subject = statement.subject.first();
    let other = subject.and_then(|one| one.digest.get("sha256")?.parse::<Digest>().ok());
    let (name, id) = (escape(&found.name), found.digest.id());
    let about = other.as_ref().map_or_else(String::new, |other| format!(", {}", other.id()));
    let message = format!("{file} is about another image{about}, and {name} is {id}");
    let report = Report::new(Kind::BadInput, message);
    Err(match other {
        Some(other) => report.hinted(format!("`cabane evidence add {} {file}`", other.id())),
        None => report,
    })
}

/// Attaches statements to an image of a registry.
///
/// # Errors
///
/// One that is about another image; and those of writing.
pub fn attach_evidence(
    connection: &Connection,
    image: &RemoteImage,
    statements: &[SignedStatement],
) -> Result<()> {
    for signed in statements {
        let is_about =
            signed.unverified().is_some_and(|statement| statement.is_about(&image.digest));
        if !is_about {
            let (id, place) = (signed.id().id(), &image.place);
            let message = format!("the statement {id} is about another image than {place}");
            return Err(Report::new(Kind::BadInput, message));
        }
        attach(&connection.registry, image, signed)?;
    }
    Ok(())
}

/// Removes statements about an image but the newest `keep_last` of each type, system, and outcome.
/// Failures that are newer than the last success stay. Returns how many are gone.
///
/// # Errors
///
/// A registry that does not delete; and those of writing.
pub fn prune_evidence(
    context: &Context,
    connection: Option<&Connection>,
    found: &FoundEvidence,
    keep_last: usize,
) -> Result<usize> {
    let surplus = cabane_evidence::surplus(&found.judged_in_part(context)?, keep_last);
    if let (Some(connection), Some(image)) = (connection, &found.remote) {
        let attached = connection.registry.attestations(image)?.attestations;
        let is_surplus = |bundle: &[u8]| {
            SignedStatement::from_bytes(bundle).is_some_and(|one| surplus.contains(&one.digest()))
        };
        let gone = attached.iter().filter(|one| is_surplus(&one.bundle));
        let mut count = 0;
        for one in gone {
            connection.registry.remove_attestation(image, &one.manifest)?;
            count += 1;
        }
        return Ok(count);
    }
    let mut count = 0;
    for named in context.repositories()? {
        if named.repository.has_image(&found.digest) {
            count += named.repository.retain_evidence(&found.digest, &|line| {
                SignedStatement::from_bytes(line).is_none_or(|one| !surplus.contains(&one.digest()))
            })?;
        }
    }
    Ok(count)
}
