// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What goes wrong, and when.

use std::fmt;

use super::hostile::HostileRegistry;
use super::http::{Answer, Request};

/// Something that goes wrong with a request. Several may befall one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Closes the connection after so many bytes of the head of the answer.
    CutHead(usize),
    /// Closes the connection after so many bytes of the body of the answer.
    CutSending(usize),
    /// Closes the connection after so many bytes of the body of the request. As many of
    /// them as `kept` count as uploaded.
    CutReceiving {
        /// How many bytes are received.
        after: usize,
        /// How many of them the registry remembers.
        kept: usize,
    },
    /// Does what is requested, and closes the connection instead of answering.
    LoseAnswer,
    /// Reads the request, and answers nothing.
    Hang,
    /// Answers, and stops after so many bytes of the body.
    HangSending(usize),
    /// Stops reading after so many bytes of the body of the request.
    HangReceiving(usize),
    /// Lets so many bytes a second through, in both directions.
    Slow(usize),
    /// Answers with the whole when a range is requested.
    IgnoreRange,
    /// Says that it sends another range than it does: the next one.
    WrongContentRange,
    /// Announces so many bytes more than it sends.
    AnnounceMore(usize),
    /// Announces so many bytes less than it sends.
    AnnounceLess(usize),
    /// Changes the byte at this offset of a blob or manifest, if it is in what is sent.
    CorruptByte(usize),
    /// Names the digest of something else.
    WrongDigest,
    /// Sets a header of the answer to something else.
    Header(String, String),
    /// Leaves out a header of the answer.
    NoHeader(String),
    /// Answers something else; the registry does nothing.
    Answer {
        /// The status.
        status: u16,
        /// Its headers.
        headers: Vec<(String, String)>,
        /// Its body.
        body: String,
    },
    /// Does so without having read the body of the request, and closes the connection.
    AnswerEarly {
        /// The status.
        status: u16,
    },
    /// Sends the caller to the same path, with a signature, at another address, such as
    /// `http://127.0.0.1:5000`.
    Redirect {
        /// The status: 301, 302, 303, 307 or 308.
        status: u16,
        /// The address.
        to: String,
    },
}

impl Fault {
    /// Answers with a status and the text that registries send with it.
    pub fn answer(status: u16) -> Self {
        let (code, message) = match status {
            401 => ("UNAUTHORIZED", "authentication required"),
            403 => ("DENIED", "requested access to the resource is denied"),
            404 => ("NAME_UNKNOWN", "repository name not known to registry"),
            405 => ("UNSUPPORTED", "the operation is unsupported"),
            413 => ("SIZE_INVALID", "too large"),
            429 => ("TOOMANYREQUESTS", "too many requests"),
            _ => ("UNKNOWN", "unknown error"),
        };
        let answer = Answer::failure(status, code, message);
        Self::Answer {
            status,
            body: String::from_utf8_lossy(&answer.content).into_owned(),
            headers: answer.headers,
        }
    }

    /// Answers with a status, and when to come again.
    pub fn answer_later(status: u16, seconds: u32) -> Self {
        Self::answer(status).with_header("Retry-After", &seconds.to_string())
    }

    /// Adds a header to an answer.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        if let Self::Answer { headers, .. } = &mut self {
            headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    /// Sets a header of the answer to something else.
    pub fn header(name: &str, value: &str) -> Self {
        Self::Header(name.to_owned(), value.to_owned())
    }

    /// Sends the caller elsewhere with status 307.
    pub fn redirect(to: &str) -> Self {
        let to = to.to_owned();
        Self::Redirect { status: 307, to }
    }

    /// What is answered in the place of what was requested.
    pub(super) fn instead(&self, request: &Request) -> Option<Answer> {
        match self {
            Self::Answer { status, headers, body } => {
                let answer = Answer::new(*status).body(body.clone().into_bytes());
                let add = |answer: Answer, (name, value): &(String, String)| {
                    answer.header(name, value.as_str())
                };
                Some(headers.iter().fold(answer, add))
            }
            Self::AnswerEarly { status } => Self::answer(*status).instead(request),
            Self::Redirect { status, to } => {
                let mark = if request.path.contains('?') { '&' } else { '?' };
                let place = format!("{to}{}{mark}signature=abc", request.path);
                Some(Answer::new(*status).header("Location", place))
            }
            _ => None,
        }
    }
}

type Condition = Box<dyn Fn(&Request) -> bool + Send>;

/// A fault that waits for its requests.
pub(super) struct Armed {
    method: String,
    path: String,
    condition: Option<Condition>,
    spared: usize,
    left: Option<usize>,
    fault: Fault,
}

impl Armed {
    fn befalls(&mut self, request: &Request) -> bool {
        let condition = self.condition.as_ref();
        let is_meant = (self.method.is_empty() || self.method == request.method)
            && request.path.contains(&self.path)
            && condition.is_none_or(|condition| condition(request));
        if !is_meant || self.left == Some(0) {
            return false;
        }
        if self.spared > 0 {
            self.spared -= 1;
            return false;
        }
        self.left = self.left.map(|left| left - 1);
        true
    }
}

/// The faults that befall a request; they count as used.
pub(super) fn faults_for(request: &Request, armed: &mut [Armed]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for one in armed {
        if one.befalls(request) {
            faults.push(one.fault.clone());
        }
    }
    faults
}

/// Which requests something befalls: made by [`HostileRegistry::on`].
#[must_use = "nothing goes wrong without `does`"]
pub struct When<'a> {
    registry: &'a HostileRegistry,
    armed: Armed,
}

impl fmt::Debug for When<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "on {} {}", self.armed.method, self.armed.path)
    }
}

impl<'a> When<'a> {
    pub(super) fn new(registry: &'a HostileRegistry, method: &str, path: &str) -> Self {
        Self {
            registry,
            armed: Armed {
                method: method.to_owned(),
                path: path.to_owned(),
                condition: None,
                spared: 0,
                left: None,
                fault: Fault::Hang,
            },
        }
    }

    /// So many times; without it, always.
    pub fn times(mut self, times: usize) -> Self {
        self.armed.left = Some(times);
        self
    }

    /// Once.
    pub fn once(self) -> Self {
        self.times(1)
    }

    /// Spares the first so many requests that are meant.
    pub fn after(mut self, spared: usize) -> Self {
        self.armed.spared = spared;
        self
    }

    /// Only if the request is so.
    pub fn if_request(mut self, condition: impl Fn(&Request) -> bool + Send + 'static) -> Self {
        self.armed.condition = Some(Box::new(condition));
        self
    }

    /// Arms the fault.
    pub fn does(mut self, fault: Fault) {
        self.armed.fault = fault;
        self.registry.arm(self.armed);
    }
}
