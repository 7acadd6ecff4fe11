// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a registry answered.

use std::io::Read;
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use ureq::http::{HeaderMap, StatusCode, Uri};

use crate::error::is_passing;

/// The largest part of an error that is shown.
const MAX_ERROR: u64 = 16 * 1024;
const MAX_DETAILS: usize = 300;

/// An answer whose body is still to be read.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// Where it came from, after all redirects.
    pub(crate) uri: Uri,
    /// Whose password was sent, if one was.
    pub(crate) user: Option<String>,
    pub(crate) body: ureq::Body,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns the pause that the registry asks for: `Retry-After`, in seconds or as a date.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let text = self.header("retry-after")?.trim();
        if let Ok(seconds) = text.parse() {
            return Some(Duration::from_secs(seconds));
        }
        let date = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
        let pause = date.duration_since(Timestamp::now());
        Some(Duration::try_from(pause).unwrap_or_default())
    }

    /// Returns whether the same request may succeed in a moment.
    pub(crate) fn is_passing(&self) -> bool {
        is_passing(self.status.as_u16())
    }

    /// Returns how many bytes come, if the registry says so.
    pub(crate) fn length(&self) -> Option<u64> {
        self.header("content-length")?.parse().ok()
    }

    /// Reads what the registry says went wrong, on one line.
    pub(crate) fn details(mut self) -> String {
        let mut bytes = Vec::new();
        // Half of an explanation is one, too.
        let _ = self.body.as_reader().take(MAX_ERROR).read_to_end(&mut bytes);
        let Ok(errors) = serde_json::from_slice::<Errors>(&bytes) else {
            return String::new();
        };
        let lines: Vec<String> = errors.errors.into_iter().map(OneError::line).collect();
        let mut details = lines.join("; ");
        if let Some((end, _)) = details.char_indices().nth(MAX_DETAILS) {
            details.truncate(end);
            details.push('…');
        }
        details
    }
}

/// Errors as the distribution specification writes them.
#[derive(Deserialize)]
struct Errors {
    #[serde(default)]
    errors: Vec<OneError>,
}

#[derive(Deserialize)]
struct OneError {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

impl OneError {
    fn line(self) -> String {
        let Self { code, message } = self;
        match (code.as_str(), message.as_str()) {
            (code, "") => code.to_owned(),
            ("", message) => message.to_owned(),
            (code, message) => format!("{code}: {message}"),
        }
    }
}
