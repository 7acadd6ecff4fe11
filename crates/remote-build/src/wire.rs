// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is said over a connection: questions and answers as lines of JSON, some followed by bytes.

use std::io::{self, BufRead, Read, Write};

use cabane_label::ImageId;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::directory::State;
use crate::ended::{Ended, Failed};

/// The version of these messages. A program with another one is refused.
pub(crate) const PROTOCOL: u32 = 1;
/// How the first line of the worker begins. Shells print what they like before it.
pub(crate) const GREETING: &str = "cabane-build-worker ";
/// The longest line, and the most bytes of a part of the events.
pub(crate) const LONGEST: u64 = 1 << 20;

/// The first line of the worker, after the greeting.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) version: String,
    pub(crate) protocol: u32,
}

/// A question.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Ask {
    /// What is known of a build?
    Look { id: ImageId },
    /// Build what is in the parcel that follows.
    Start { id: ImageId, bytes: u64, jobs: Option<usize> },
    /// Build what was carried before.
    Resume { id: ImageId, jobs: Option<usize> },
    /// What does the build report after this offset, until its end?
    Follow { id: ImageId, offset: u64 },
    /// The image after this offset.
    Image { id: ImageId, offset: u64 },
    /// The metadata of the image.
    Meta { id: ImageId },
    /// Stop the build.
    Cancel { id: ImageId },
    /// Remove the result of the build.
    Reset { id: ImageId },
    /// Remove the build and its result.
    Forget { id: ImageId },
}

/// An answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Answer {
    State(State),
    Done,
    /// This many bytes follow.
    Bytes(u64),
    /// Events, this many bytes of which follow; none is a sign of life.
    Events(u64),
    /// The build has ended.
    Ended(Ended),
    /// The build has ended without a result.
    Lost,
    Failed(Failed),
}

pub(crate) fn write_line(output: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    output.write_all(&line)?;
    output.flush()
}

/// Reads a line; `None` at the end.
pub(crate) fn read_line<T: DeserializeOwned>(input: &mut dyn BufRead) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    input.take(LONGEST).read_until(b'\n', &mut line)?;
    match line.pop() {
        None => Ok(None),
        Some(b'\n') => serde_json::from_slice(&line).map(Some).map_err(io::Error::from),
        Some(_) if line.len() as u64 + 1 >= LONGEST => {
            Err(io::Error::new(io::ErrorKind::InvalidData, "a line is too long"))
        }
        Some(_) => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
