// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The requests of the OCI distribution specification, version 1.1, that a client makes.
//!
//! Blobs belong to all repositories. What refers to a manifest is found by its tag, as in registries without
//! the request for it.

use std::io::{self, Read};

use cabane_label::Digest;
use cabane_registry::{Backing, BackingAnswer, BackingBody, BackingRequest, BaseImage};
use serde::Serialize;
use serde_json::json;

use crate::Layout;
use crate::layout::{Blob, length_of};

const DIGEST: &str = "docker-content-digest";
/// A manifest is smaller than this; the specification asks registries for 4 MiB.
const MAX_DOCUMENT: u64 = 4 * 1024 * 1024;

impl Backing for Layout {
    fn answer(&self, request: &BackingRequest<'_>) -> io::Result<BackingAnswer> {
        let is_change = !matches!(request.method, "GET" | "HEAD");
        if is_change && !self.is_writable() {
            return Ok(refusal(
                405,
                "a bundle is not changed; `cabane bundle create` makes another",
            ));
        }
        match request.path {
            "" => Ok(BackingAnswer::new(200)),
            "_catalog" => {
                let repositories: Vec<String> = self.state().tags.keys().cloned().collect();
                Ok(page(&json!({ "repositories": repositories })))
            }
            path => match Target::of(path) {
                Some(Target::Tags(repository)) => Ok(self.list(repository)),
                Some(Target::Manifest(repository, reference)) => match request.method {
                    "PUT" => self.put_manifest(repository, reference, &request.body),
                    "GET" | "HEAD" => self.manifest(repository, reference, request),
                    _ => Ok(refusal(405, "nothing is removed from a bundle")),
                },
                Some(Target::Blob(digest)) => Ok(self.blob(digest, request)),
                Some(Target::Uploads(repository)) => {
                    let number = self.state().begin_upload();
                    Ok(upload(202, repository, number, 0))
                }
                Some(Target::Upload(repository, number)) => {
                    self.upload(repository, number, request)
                }
                None => Ok(refusal(404, "there is no such request")),
            },
        }
    }

    fn bases(&self, digest: &Digest) -> Vec<BaseImage> {
        let state = self.state();
        state.blobs.get(digest).map(|blob| blob.bases.clone()).unwrap_or_default()
    }
}

/// What a path is about.
enum Target<'a> {
    Tags(&'a str),
    Manifest(&'a str, &'a str),
    Blob(&'a str),
    Uploads(&'a str),
    Upload(&'a str, u64),
}

impl<'a> Target<'a> {
    fn of(path: &'a str) -> Option<Self> {
        if let Some(repository) = path.strip_suffix("/tags/list") {
            return Some(Self::Tags(repository));
        }
        if let Some((repository, rest)) = path.rsplit_once("/blobs/uploads/") {
            return match rest {
                "" => Some(Self::Uploads(repository)),
                number => Some(Self::Upload(repository, number.parse().ok()?)),
            };
        }
        if let Some((repository, reference)) = path.rsplit_once("/manifests/") {
            return Some(Self::Manifest(repository, reference));
        }
        path.rsplit_once("/blobs/").map(|(_, digest)| Self::Blob(digest))
    }
}

impl Layout {
    fn list(&self, repository: &str) -> BackingAnswer {
        let state = self.state();
        match state.tags.get(repository) {
            Some(tags) => page(&json!({ "tags": tags.keys().collect::<Vec<_>>() })),
            None => refusal(404, "there is no such repository"),
        }
    }

    fn manifest(
        &self,
        repository: &str,
        reference: &str,
        request: &BackingRequest<'_>,
    ) -> io::Result<BackingAnswer> {
        let state = self.state();
        let tagged = || state.tags.get(repository)?.get(reference).cloned();
        let digest = digest_of(reference).or_else(tagged);
        let found = digest.and_then(|digest| Some((state.blobs.get(&digest)?.clone(), digest)));
        drop(state);
        let Some((blob, digest)) = found.filter(|(blob, _)| blob.size <= MAX_DOCUMENT) else {
            return Ok(refusal(404, "there is no such manifest"));
        };
        let text = format!("sha256:{digest}");
        if request.known == Some(format!("\"{text}\"").as_str()) {
            return Ok(BackingAnswer::new(304));
        }
        Ok(content(request, &blob, 0, blob.size, BackingAnswer::new(200)).header(DIGEST, text))
    }

    fn put_manifest(
        &self,
        repository: &str,
        reference: &str,
        body: &BackingBody<'_>,
    ) -> io::Result<BackingAnswer> {
        let BackingBody::Bytes(bytes) = body else {
            return Ok(refusal(400, "there is no manifest"));
        };
        let state = &mut *self.state();
        let digest = self.keep_blob(state, bytes)?;
        let tags = state.tags.entry(repository.to_owned()).or_default();
        if digest_of(reference).is_none() {
            tags.insert(reference.to_owned(), digest.clone());
        }
        Ok(BackingAnswer::new(201).header(DIGEST, format!("sha256:{digest}")))
    }

    fn blob(&self, digest: &str, request: &BackingRequest<'_>) -> BackingAnswer {
        let found = digest_of(digest).and_then(|one| self.state().blobs.get(&one).cloned());
        let Some(blob) = found else {
            return refusal(404, "there is no such blob");
        };
        match request.range.map(range_of) {
            None => content(request, &blob, 0, blob.size, BackingAnswer::new(200)),
            Some(Some((start, end))) if start < end && end <= blob.size => {
                let range = format!("bytes {start}-{}/{}", end - 1, blob.size);
                let answer = BackingAnswer::new(206).header("content-range", range);
                content(request, &blob, start, end, answer)
            }
            Some(_) => refusal(416, "this range does not fit the blob"),
        }
    }

    fn upload(
        &self,
        repository: &str,
        number: u64,
        request: &BackingRequest<'_>,
    ) -> io::Result<BackingAnswer> {
        let state = &mut *self.state();
        let Some(mut pieces) = state.uploads.remove(&number) else {
            return Ok(refusal(404, "there is no such upload"));
        };
        let at = length_of(&pieces);
        match &request.body {
            BackingBody::None => {}
            BackingBody::Bytes(bytes) => pieces.push(self.keep(state, at, bytes)?),
            BackingBody::Part(file, offset, length) => pieces.push(crate::layout::Piece {
                at,
                length: *length,
                file: std::sync::Arc::clone(file),
                offset: *offset,
            }),
        }
        let length = length_of(&pieces);
        match request.method {
            "PUT" => {
                let mut parameters = request.parameters.iter();
                let digest = parameters.find(|(name, _)| name == "digest");
                let Some(digest) = digest.and_then(|(_, digest)| digest_of(digest)) else {
                    return Ok(refusal(400, "there is no digest"));
                };
                // The digest is checked when the archive is written.
                state.blobs.insert(digest, Blob::new(length, pieces));
                Ok(BackingAnswer::new(201))
            }
            "DELETE" => Ok(BackingAnswer::new(204)),
            method => {
                state.uploads.insert(number, pieces);
                let status = if method == "GET" { 204 } else { 202 };
                Ok(upload(status, repository, number, length))
            }
        }
    }
}

/// Adds a part of a blob to an answer, or says why it is not there.
fn content(
    request: &BackingRequest<'_>,
    blob: &Blob,
    start: u64,
    end: u64,
    answer: BackingAnswer,
) -> BackingAnswer {
    if request.method == "HEAD" {
        return answer.content(end - start, io::empty());
    }
    if let Some(reader) = blob.reader(start, end) {
        return answer.content(end - start, reader.take(end - start));
    }
    let bases: Vec<String> = blob.bases.iter().map(|base| base.digest.id().to_string()).collect();
    refusal(416, &format!("it has only what differs from {}", bases.join(" and ")))
}

fn upload(status: u16, repository: &str, number: u64, length: u64) -> BackingAnswer {
    BackingAnswer::new(status)
        .header("location", format!("/v2/{repository}/blobs/uploads/{number}"))
        .header("range", format!("0-{}", length.saturating_sub(1)))
}

fn page(value: &impl Serialize) -> BackingAnswer {
    let bytes = serde_json::to_vec(value).unwrap_or_default();
    BackingAnswer::new(200).content(bytes.len() as u64, io::Cursor::new(bytes))
}

fn refusal(status: u16, reason: &str) -> BackingAnswer {
    let errors = json!({ "errors": [{ "message": reason }] });
    let BackingAnswer { headers, body, .. } = page(&errors);
    BackingAnswer { status, headers, body }
}

fn digest_of(text: &str) -> Option<Digest> {
    text.strip_prefix("sha256:")?.parse().ok()
}

/// Reads `bytes=0-99`; the end is that of the range, and no part of it.
fn range_of(text: &str) -> Option<(u64, u64)> {
    let (start, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    Some((start.parse().ok()?, last.parse::<u64>().ok()?.checked_add(1)?))
}
