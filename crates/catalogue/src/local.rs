// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a site shows, read from the repositories of the user.
//!
//! Images that only some users can read are left out: everybody can read the site.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use cabane_evidence::{EvidenceKeys, kept};
use cabane_image_search::{Catalogue, CatalogueParts, ImageDetails, SearchRequest, list};
use cabane_impact::{Assessment, assess};
use cabane_label::{Digest, Namespace};
use cabane_report::Result;
use cabane_repository::{Record, Repository};
use cabane_site::Context;

use crate::evidence::evidence_of;
use crate::gather::{GatherRequest, base_of};
use crate::input::{CatalogueImage, CatalogueInput, ImageEvidence, Source};

/// All images, of all systems.
const ALL: &str = "@*";
/// The file of metadata with the texts for people.
const ENV_JSON: &str = "env.json";

/// Reads what a site shows of the repositories.
///
/// # Errors
///
/// A repository or a key that cannot be read, an address that is none.
pub fn gather_local(context: &Context, request: &GatherRequest) -> Result<CatalogueInput> {
    let base = request.base.as_deref().map(base_of).transpose()?;
    let search = SearchRequest { pattern: Some(ALL.to_owned()), ..SearchRequest::default() };
    let keys = EvidenceKeys::of(context)?;
    let other = &context.settings.registry.namespace.value;
    let mut images = Vec::new();
    let mut closed: BTreeSet<Digest> = BTreeSet::new();
    for (named, records) in list(context, &search)?.repositories {
        let namespace = namespace_of(&named.name, other);
        for record in records {
            if !is_for_all(&named.repository, &record.digest) {
                closed.insert(record.digest);
                continue;
            }
            let evidence = evidence(context, request, &keys, &record.digest)?;
            images.push(image_of(&named.repository, namespace.clone(), record, evidence));
        }
    }
    if !closed.is_empty() {
        let count = closed.len();
        context.note(format_args!("images that only some users can read are left out: {count}"));
    }
    let parts = CatalogueParts { packages: true, details: false };
    let mut catalogue = Catalogue::of_repositories(context, &search, parts)?;
    catalogue.images.retain(|image| !closed.contains(&image.digest));
    for image in &mut catalogue.images {
        image.label = format!("{}::{}", namespace_of(&image.source, other), image.label);
    }
    let changes = request.changes.iter();
    let upgrades: Vec<Assessment> =
        changes.map(|change| assess(&catalogue, std::slice::from_ref(change))).collect();
    Ok(CatalogueInput {
        title: request.title(),
        source: Source::Repositories,
        base,
        day: cabane_channel::today(),
        images,
        packages: catalogue.packages.unwrap_or_default(),
        channels: Vec::new(),
        upgrades,
    })
}

/// Returns the name of a repository as the beginning of a label. For a name that cannot be one, `other`
/// is.
fn namespace_of(name: &str, other: &Namespace) -> Namespace {
    name.parse().unwrap_or_else(|_| other.clone())
}

/// Whether every user can read an image.
fn is_for_all(repository: &Repository, image: &Digest) -> bool {
    let meta = fs::metadata(repository.image_path(image));
    meta.is_ok_and(|meta| meta.permissions().mode() & 0o004 != 0)
}

fn evidence(
    context: &Context,
    request: &GatherRequest,
    keys: &EvidenceKeys,
    image: &Digest,
) -> Result<Option<ImageEvidence>> {
    if request.without_evidence {
        return Ok(None);
    }
    let statements = kept(context, image)?;
    let judged = statements.iter().filter_map(|one| keys.judge(one, image)).collect();
    Ok(Some(evidence_of(judged)))
}

fn image_of(
    repository: &Repository,
    namespace: Namespace,
    record: Record,
    evidence: Option<ImageEvidence>,
) -> CatalogueImage {
    let text = fs::read(repository.meta_path(&record.digest).join(ENV_JSON));
    let details = text.ok().and_then(|text| ImageDetails::from_json(&text));
    CatalogueImage {
        namespace,
        label: record.label,
        digest: record.digest,
        manifest: None,
        size: record.size,
        date: Some(record.date),
        details: details.unwrap_or_default(),
        signature: None,
        evidence,
    }
}
