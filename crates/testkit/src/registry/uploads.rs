// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! How blobs come into a registry: at once, in pieces, or from another name.

use super::hostile::{Settings, State};
use super::http::{Answer, Request};
use super::store::digest_of;

/// Begins an upload; ends it at once if everything is there.
pub(super) fn begin(
    state: &mut State,
    name: &str,
    request: &Request,
    body: Vec<u8>,
    url: &str,
) -> Answer {
    if let Some(digest) = request.parameter("mount") {
        let from = request.parameter("from").unwrap_or_default();
        if state.settings.mounting && state.store.blob(&from, &digest).is_some() {
            state.store.mount(name, &digest);
            return created(name, &digest);
        }
    }
    if let Some(digest) = request.parameter("digest") {
        return store(state, name, &digest, body);
    }
    let number = state.store.begin_upload();
    let answer = Answer::new(202);
    let answer = match state.settings.minimum_chunk {
        Some(bytes) => answer.header("OCI-Chunk-Min-Length", bytes.to_string()),
        None => answer,
    };
    progress(answer, state, name, number, url)
}

/// Goes on with an upload, ends it, gives it up or tells how far it is.
pub(super) fn go_on(
    state: &mut State,
    name: &str,
    number: &str,
    request: &Request,
    body: Vec<u8>,
    url: &str,
) -> Answer {
    let number = number.parse().unwrap_or_default();
    let Some(received) = state.store.uploads.get_mut(&number) else {
        return Answer::failure(404, "BLOB_UPLOAD_UNKNOWN", "blob upload unknown to registry");
    };
    let fits = goes_on_where_it_ended(&state.settings, request, received);
    let invalid = Answer::failure(404, "BLOB_UPLOAD_INVALID", "blob upload invalid");
    let offset = request.parameter("_state");
    // Callers must keep the query of the place that they are given.
    if state.settings.upload_state && offset.is_none() {
        return invalid;
    }
    if !state.settings.cut_uploads && offset != Some(received.len().to_string()) {
        return invalid;
    }
    match request.method.as_str() {
        "GET" => progress(Answer::new(204), state, name, number, url),
        "PATCH" | "PUT" if !fits => progress(Answer::new(416), state, name, number, url),
        "PATCH" => {
            received.extend(body);
            progress(Answer::new(202), state, name, number, url)
        }
        "PUT" => {
            let digest = request.parameter("digest").unwrap_or_default();
            let content = [std::mem::take(received), body].concat();
            state.store.uploads.remove(&number);
            store(state, name, &digest, content)
        }
        "DELETE" => {
            state.store.uploads.remove(&number);
            Answer::new(204)
        }
        _ => Answer::failure(405, "UNSUPPORTED", "the operation is unsupported"),
    }
}

/// Remembers a part of what a request brought whose connection was cut.
pub(super) fn keep(state: &mut State, number: &str, request: &Request, part: &[u8]) {
    let number = number.parse().unwrap_or_default();
    if let Some(received) = state.store.uploads.get_mut(&number)
        && goes_on_where_it_ended(&state.settings, request, received)
    {
        received.extend(part);
    }
}

fn goes_on_where_it_ended(settings: &Settings, request: &Request, received: &[u8]) -> bool {
    let start = starts_at(request);
    !settings.ordered_pieces || start.is_none_or(|start| start == received.len())
}

/// The first number of a header such as `Content-Range: 0-99`.
fn starts_at(request: &Request) -> Option<usize> {
    let range = request.header("content-range")?;
    // Some send the form that answers have.
    let range = range.trim_start_matches("bytes ");
    range.split('-').next()?.parse().ok()
}

fn store(state: &mut State, name: &str, digest: &str, content: Vec<u8>) -> Answer {
    if digest_of(&content) != digest {
        return Answer::failure(400, "DIGEST_INVALID", "provided digest did not match");
    }
    state.store.put_blob(name, digest, content);
    created(name, digest)
}

fn created(name: &str, digest: &str) -> Answer {
    Answer::new(201)
        .header("Location", format!("/v2/{name}/blobs/{digest}"))
        .header("Docker-Content-Digest", digest)
}

/// With the place of an upload, and how far it is.
fn progress(answer: Answer, state: &State, name: &str, number: usize, url: &str) -> Answer {
    let size = state.store.uploads.get(&number).map_or(0, Vec::len);
    let host = if state.settings.absolute_locations { url } else { "" };
    let place = format!("{host}/v2/{name}/blobs/uploads/{number}?_state={size}");
    answer
        .header("Location", place)
        .header("Range", format!("0-{}", size.saturating_sub(1)))
        .header("Docker-Upload-UUID", number.to_string())
}
