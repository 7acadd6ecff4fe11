// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Requests to a registry and its answers: manifests and blobs.
//!
//! Uploads are in `uploads`, lists in `listing`. Nothing goes wrong here: see `fault`.

use std::ops::Range;

use super::hostile::State;
use super::http::{Answer, Request};
use super::listing;
use super::store::{Manifest, Repository, digest_of};
use super::uploads;

/// The largest manifest that is taken.
const LARGEST_MANIFEST: usize = 4 * 1024 * 1024;

/// What a path stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route<'a> {
    Base,
    Catalogue,
    Tags { name: &'a str },
    Manifest { name: &'a str, reference: &'a str },
    Blob { name: &'a str, digest: &'a str },
    Uploads { name: &'a str },
    Upload { name: &'a str, number: &'a str },
    Referrers { name: &'a str, digest: &'a str },
    Nothing,
}

impl<'a> Route<'a> {
    /// Reads a path without its query.
    pub(super) fn of(path: &'a str) -> Self {
        let Some(path) = path.strip_prefix("/v2/") else {
            return Self::Nothing;
        };
        if path.is_empty() {
            return Self::Base;
        }
        if path == "_catalog" {
            return Self::Catalogue;
        }
        // Names have slashes in them, what comes after has none.
        let arguments =
            path.rsplit_once('/').and_then(|(path, last)| Some((path.rsplit_once('/')?, last)));
        let Some(((name, kind), last)) = arguments else {
            return Self::Nothing;
        };
        match (kind, last) {
            ("tags", "list") => Self::Tags { name },
            ("manifests", reference) => Self::Manifest { name, reference },
            ("referrers", digest) => Self::Referrers { name, digest },
            ("blobs", digest) => Self::Blob { name, digest },
            ("uploads", number) => match (name.strip_suffix("/blobs"), number) {
                (Some(name), "") => Self::Uploads { name },
                (Some(name), number) => Self::Upload { name, number },
                (None, _) => Self::Nothing,
            },
            _ => Self::Nothing,
        }
    }

    /// The name of the repository, as registries call it.
    pub(super) fn name(self) -> Option<&'a str> {
        match self {
            Self::Base | Self::Catalogue | Self::Nothing => None,
            Self::Tags { name }
            | Self::Manifest { name, .. }
            | Self::Blob { name, .. }
            | Self::Uploads { name }
            | Self::Upload { name, .. }
            | Self::Referrers { name, .. } => Some(name),
        }
    }
}

/// Answers a request. `url` is that of the registry.
pub(super) fn answer(state: &mut State, request: &Request, body: Vec<u8>, url: &str) -> Answer {
    let method = request.method.as_str();
    match (method, Route::of(request.route())) {
        ("GET" | "HEAD", Route::Base) => Answer::new(200).json(&serde_json::json!({})),
        ("GET", Route::Catalogue) => listing::catalogue(state, request),
        ("GET", Route::Tags { name }) => listing::tags(state, name, request),
        ("GET", Route::Referrers { name, digest }) => {
            listing::referrers(state, name, digest, request)
        }
        ("GET" | "HEAD", Route::Manifest { name, reference }) => {
            manifest(state, name, reference, request)
        }
        ("PUT", Route::Manifest { name, reference }) => {
            put_manifest(state, name, reference, request, body)
        }
        ("DELETE", Route::Manifest { name, reference }) => delete_manifest(state, name, reference),
        ("GET" | "HEAD", Route::Blob { name, digest }) => blob(state, name, digest, request),
        ("DELETE", Route::Blob { name, digest }) => delete_blob(state, name, digest),
        ("POST", Route::Uploads { name }) => uploads::begin(state, name, request, body, url),
        (_, Route::Upload { name, number }) => {
            uploads::go_on(state, name, number, request, body, url)
        }
        _ => Answer::failure(405, "UNSUPPORTED", "the operation is unsupported"),
    }
}

fn manifest(state: &State, name: &str, reference: &str, request: &Request) -> Answer {
    if !state.store.repositories.contains_key(name) {
        return Answer::failure(404, "NAME_UNKNOWN", "repository name not known to registry");
    }
    let Some((digest, manifest)) = state.store.manifest(name, reference) else {
        return Answer::failure(404, "MANIFEST_UNKNOWN", "manifest unknown");
    };
    let answer =
        Answer::new(200).header("Content-Type", manifest.media_type).body(manifest.content);
    unless_known(state, answer, &digest, request)
}

fn put_manifest(
    state: &mut State,
    name: &str,
    reference: &str,
    request: &Request,
    body: Vec<u8>,
) -> Answer {
    let digest = digest_of(&body);
    let media_type = request.header("content-type").unwrap_or_default();
    let manifest = Manifest { media_type: media_type.to_owned(), content: body.into() };
    if manifest.content.len() > LARGEST_MANIFEST {
        return Answer::failure(413, "SIZE_INVALID", "manifest too large");
    }
    if reference.contains(':') && reference != digest {
        return Answer::failure(400, "DIGEST_INVALID", "provided digest did not match");
    }
    if manifest.json().is_none() {
        return Answer::failure(400, "MANIFEST_INVALID", "manifest invalid");
    }
    let nothing = Repository::default();
    let repository = state.store.repositories.get(name).unwrap_or(&nothing);
    if let Some(part) = manifest.missing_part(repository) {
        let message = format!("blob unknown to registry: {part}");
        return Answer::failure(404, "MANIFEST_BLOB_UNKNOWN", &message);
    }
    let subject = manifest.subject().filter(|_| state.settings.referrers);
    state.store.put_manifest(name, reference, manifest);
    let answer = Answer::new(201)
        .header("Location", format!("/v2/{name}/manifests/{digest}"))
        .header("Docker-Content-Digest", digest);
    match subject {
        Some(subject) => answer.header("OCI-Subject", subject),
        None => answer,
    }
}

fn delete_manifest(state: &mut State, name: &str, reference: &str) -> Answer {
    if !state.settings.deletion {
        return Answer::failure(405, "UNSUPPORTED", "the operation is unsupported");
    }
    let Some((digest, _)) = state.store.manifest(name, reference) else {
        return Answer::failure(404, "MANIFEST_UNKNOWN", "manifest unknown");
    };
    let repository = state.store.repositories.entry(name.to_owned()).or_default();
    if reference == digest {
        repository.manifests.remove(&digest);
        repository.tags.retain(|_, tagged| *tagged != digest);
    } else if state.settings.tag_deletion {
        repository.tags.remove(reference);
    } else {
        return Answer::failure(405, "UNSUPPORTED", "the operation is unsupported");
    }
    Answer::new(202)
}

fn blob(state: &State, name: &str, digest: &str, request: &Request) -> Answer {
    let Some(content) = state.store.blob(name, digest) else {
        return Answer::failure(404, "BLOB_UNKNOWN", "blob unknown to registry");
    };
    let size = content.len();
    let mut answer = Answer::new(200)
        .header("Content-Type", "application/octet-stream")
        .header("Accept-Ranges", "bytes")
        .body(content);
    match request.header("range").and_then(|range| bounds(range, size)) {
        None => {}
        Some(part) if part.is_empty() => {
            return Answer::failure(416, "RANGE_INVALID", "there is no such range")
                .header("Content-Range", format!("bytes */{size}"));
        }
        Some(part) => {
            let range = format!("bytes {}-{}/{size}", part.start, part.end - 1);
            answer.status = 206;
            answer.part = part;
            answer = answer.header("Content-Range", range);
        }
    }
    unless_known(state, answer, digest, request)
}

/// The part that a header such as `bytes=3-9` asks for, empty if there is none. None for a
/// header that is to be ignored.
fn bounds(range: &str, size: usize) -> Option<Range<usize>> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    if first.is_empty() {
        return Some(size.saturating_sub(last.parse().ok()?)..size);
    }
    let first = first.parse().ok()?;
    let end = match last {
        "" => size,
        last => last.parse::<usize>().ok()?.saturating_add(1).min(size),
    };
    Some(first..end)
}

fn delete_blob(state: &mut State, name: &str, digest: &str) -> Answer {
    if !state.settings.deletion {
        return Answer::failure(405, "UNSUPPORTED", "the operation is unsupported");
    }
    let repository = state.store.repositories.get_mut(name);
    if repository.is_some_and(|repository| repository.blobs.remove(digest)) {
        Answer::new(202)
    } else {
        Answer::failure(404, "BLOB_UNKNOWN", "blob unknown to registry")
    }
}

/// With what names the content; without the content if the caller has it.
fn unless_known(state: &State, answer: Answer, digest: &str, request: &Request) -> Answer {
    let mark = format!("\"{digest}\"");
    let known = request.header("if-none-match").filter(|_| state.settings.validation);
    let answer =
        if known.is_some_and(|known| known.contains(&mark)) { Answer::new(304) } else { answer };
    answer.header("Docker-Content-Digest", digest).header("ETag", mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_have_the_words_of_paths_in_them() {
        let route = Route::of("/v2/deploy/blobs/tags/list/manifests/v1");
        let name = "deploy/blobs/tags/list";
        assert_eq!(route.name(), Some(name));
    }

    #[test]
    fn ranges_end_where_the_blob_does() {
        let ranges = ["bytes=2-99", "bytes=-3", "bytes=4-", "bytes=9-", "lines=1-2"];
        let parts = ranges.map(|range| bounds(range, 8));
        assert_eq!(parts[..3], [Some(2..8), Some(5..8), Some(4..8)]);
        assert_eq!(parts[3].as_ref().map(Range::is_empty), Some(true));
        assert_eq!(parts[4], None);
    }
}
