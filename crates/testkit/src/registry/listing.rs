// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Lists: names, tags, and what refers to a manifest.

use serde_json::Value;

use super::hostile::State;
use super::http::{Answer, Request};

/// The names of all repositories.
pub(super) fn catalogue(state: &State, request: &Request) -> Answer {
    if !state.settings.catalogue {
        return Answer::failure(404, "UNSUPPORTED", "there is no catalogue");
    }
    let names = state.store.repositories.keys();
    let (names, link) = page(names.cloned().collect(), state, request);
    let answer = Answer::new(200).json(&serde_json::json!({"repositories": names}));
    linked(answer, link)
}

/// The tags of a name.
pub(super) fn tags(state: &State, name: &str, request: &Request) -> Answer {
    let Some(repository) = state.store.repositories.get(name) else {
        return Answer::failure(404, "NAME_UNKNOWN", "repository name not known to registry");
    };
    let tags = repository.tags.keys().cloned().collect();
    let (tags, link) = page(tags, state, request);
    let answer = Answer::new(200).json(&serde_json::json!({"name": name, "tags": tags}));
    linked(answer, link)
}

/// The manifests whose subject is this one.
pub(super) fn referrers(state: &State, name: &str, digest: &str, request: &Request) -> Answer {
    if !state.settings.referrers {
        return Answer::failure(404, "NOT_FOUND", "page not found");
    }
    let kind = request.parameter("artifactType");
    let repository = state.store.repositories.get(name);
    let manifests = repository.into_iter().flat_map(|one| &one.manifests);
    let descriptors = manifests
        .filter(|(_, manifest)| manifest.subject().as_deref() == Some(digest))
        .map(|(digest, manifest)| manifest.descriptor(digest))
        .filter(|one| kind.is_none() || one["artifactType"].as_str() == kind.as_deref());
    let descriptors: Vec<Value> = descriptors.collect();
    let media_type = "application/vnd.oci.image.index.v1+json";
    let index = serde_json::json!({
        "schemaVersion": 2,
        "mediaType": media_type,
        "manifests": descriptors,
    });
    let answer = Answer::new(200).json(&index).header("Content-Type", media_type);
    match kind {
        Some(_) => answer.header("OCI-Filters-Applied", "artifactType"),
        None => answer,
    }
}

/// One page of sorted names, and where the next one is.
fn page(arguments: Vec<String>, state: &State, request: &Request) -> (Vec<String>, Option<String>) {
    let most = state.settings.page_size;
    let wanted = request.parameter("n").and_then(|n| n.parse().ok());
    let size = most.min(wanted.unwrap_or(most));
    let last = request.parameter("last");
    let is_after = |name: &String| last.as_ref().is_none_or(|last| name > last);
    let mut rest = arguments.into_iter().filter(is_after);
    let page: Vec<_> = rest.by_ref().take(size).collect();
    let link = rest.next().and(page.last()).map(|last| {
        let route = request.route();
        format!("<{route}?last={}&n={size}>; rel=\"next\"", escaped(last))
    });
    (page, link)
}

fn linked(answer: Answer, link: Option<String>) -> Answer {
    match link {
        Some(link) => answer.header("Link", link),
        None => answer,
    }
}

/// As in a query: names have slashes in them.
fn escaped(name: &str) -> String {
    name.replace('/', "%2F")
}
