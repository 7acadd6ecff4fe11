// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A registry that is no server: requests are answered in this process.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

use cabane_label::Digest;
use ureq::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};

use super::body::Body;
use super::client::Request;
use super::{Answer, FilePart};
use crate::Place;

/// What answers the requests of the OCI distribution specification, version 1.1, such as a file with
/// images.
pub trait Backing: fmt::Debug + Send + Sync {
    /// Answers a request.
    ///
    /// # Errors
    ///
    /// Those of reading and writing. What is not there is an answer.
    fn answer(&self, request: &BackingRequest<'_>) -> io::Result<BackingAnswer>;

    /// Returns the images with which a blob is complete that is there in part.
    fn bases(&self, digest: &Digest) -> Vec<BaseImage>;
}

/// An image that has parts of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseImage {
    /// A label under which it was.
    pub place: Place,
    /// The sha256 of the image.
    pub digest: Digest,
}

/// A request.
#[derive(Debug)]
pub struct BackingRequest<'a> {
    /// The method: `GET`.
    pub method: &'a str,
    /// The path below `/v2/`.
    pub path: &'a str,
    /// What follows `?`, decoded.
    pub parameters: Vec<(String, String)>,
    /// The header `Range`.
    pub range: Option<&'a str>,
    /// The header `If-None-Match`.
    pub known: Option<&'a str>,
    /// What is sent.
    pub body: BackingBody<'a>,
}

/// What is sent with a request.
#[derive(Debug)]
pub enum BackingBody<'a> {
    /// Nothing.
    None,
    /// Bytes in memory.
    Bytes(&'a [u8]),
    /// A part of a file: where it begins and how long it is, in bytes.
    Part(&'a Arc<File>, u64, u64),
}

/// An answer.
pub struct BackingAnswer {
    /// The status: 200.
    pub status: u16,
    /// The names of headers, in lower case, and their values.
    pub headers: Vec<(&'static str, String)>,
    /// The content.
    pub body: Box<dyn Read + Send + Sync>,
}

impl BackingAnswer {
    /// Makes an answer without content.
    #[must_use]
    pub fn new(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Box::new(io::empty()) }
    }

    /// Adds a header. Its name is in lower case.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Adds content and its length.
    #[must_use]
    pub fn content(mut self, length: u64, body: impl Read + Send + Sync + 'static) -> Self {
        self.body = Box::new(body);
        self.header("content-length", length.to_string())
    }
}

/// Sends a request to a backing.
pub(super) fn ask(backing: &dyn Backing, request: &Request, uri: &Uri) -> io::Result<Answer> {
    let header = |wanted: HeaderName| {
        let mut headers = request.headers.iter();
        headers.find(|(name, _)| *name == wanted).map(|(_, value)| value.as_str())
    };
    let decoded =
        |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
    let parameters = uri.query().unwrap_or_default().split('&').filter_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        Some((decoded(name), decoded(value)))
    });
    let answer = backing.answer(&BackingRequest {
        method: request.method.as_str(),
        path: uri.path().trim_start_matches("/v2/"),
        parameters: parameters.collect(),
        range: header(ureq::http::header::RANGE),
        known: header(ureq::http::header::IF_NONE_MATCH),
        body: match &request.body {
            Body::None => BackingBody::None,
            Body::Bytes(bytes) => BackingBody::Bytes(bytes),
            Body::Part(FilePart { file, offset, length, .. }) => {
                BackingBody::Part(file, *offset, *length)
            }
        },
    })?;
    let mut headers = HeaderMap::new();
    for (name, value) in answer.headers {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.append(HeaderName::from_static(name), value);
        }
    }
    Ok(Answer {
        status: StatusCode::from_u16(answer.status).unwrap_or_default(),
        headers,
        uri: uri.clone(),
        user: None,
        body: ureq::Body::builder().reader(answer.body),
    })
}
