// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Sending requests to one registry.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ureq::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use ureq::http::{self, HeaderName, HeaderValue, Method, Uri};

use super::agents::Agents;
use super::body::Body;
use super::challenge::Challenge;
use super::tokens::{Proof, Tokens};
use super::url::{Origin, follow};
use super::{Answer, Scope};
use crate::Error;
use crate::address::Address;
use crate::credentials::CredentialSources;
use crate::options::Options;
use crate::retry_policy::{Retries, RetryPolicy};

const MAX_REDIRECTS: usize = 5;

/// A request to the registry, or to where it has sent us.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: Vec<(HeaderName, String)>,
    pub(crate) body: Body,
    pub(crate) scope: Scope,
    /// How long the registry may think, when that is longer than usual.
    pub(crate) thinking: Option<Duration>,
    /// Whether the answer is the content of an image, which takes as long as it takes.
    pub(crate) is_content: bool,
}

impl Request {
    pub(crate) fn new(method: Method, uri: Uri, scope: Scope) -> Self {
        Self {
            method,
            uri,
            headers: Vec::new(),
            body: Body::None,
            scope,
            thinking: None,
            is_content: false,
        }
    }

    #[must_use]
    pub(crate) fn header(mut self, name: HeaderName, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

/// A connection to one registry, for any number of threads.
#[derive(Debug)]
pub(crate) struct Client {
    agents: Agents,
    address: Address,
    pub(super) origin: Origin,
    pub(super) credentials: CredentialSources,
    pub(super) tokens: Tokens,
    pub(crate) retry_policy: RetryPolicy,
    /// Whether anything was ever answered: a name that is mistyped will not be there later.
    was_reached: AtomicBool,
}

impl Client {
    pub(crate) fn new(address: Address, options: &Options) -> Result<Self, Error> {
        let base: Option<Uri> = address.origin().parse().ok();
        let origin = base.as_ref().and_then(Origin::of);
        let origin = origin
            .ok_or_else(|| Error::Settings { reason: format!("`{address}` is no address") })?;
        Ok(Self {
            agents: Agents::new(origin.is_plain, options)?,
            address,
            origin,
            credentials: options.credentials.clone(),
            tokens: Tokens::default(),
            retry_policy: options.retry_policy,
            was_reached: AtomicBool::new(false),
        })
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    pub(crate) fn host(&self) -> String {
        self.address.host().to_owned()
    }

    /// Returns the address of a path below `/v2/`.
    pub(crate) fn uri(&self, path: &str) -> Result<Uri, Error> {
        let text = format!("{}/v2/{path}", self.address.origin());
        text.parse().map_err(|_| Error::Settings {
            reason: "this name does not make an address".to_owned(),
        })
    }

    /// Sends a request, again if that may help, and follows where the registry leads.
    ///
    /// What is answered at last is returned, whatever its status.
    pub(crate) fn send(&self, request: &Request) -> Result<Answer, Error> {
        let mut retries = Retries::new(self.retry_policy);
        loop {
            let outcome = self.send_once(request);
            let pause = match &outcome {
                Ok(answer) if answer.is_passing() => answer.retry_after(),
                Err(error) if self.may_pass(error) => None,
                _ => return outcome,
            };
            if !retries.wait(pause) {
                return outcome;
            }
        }
    }

    /// Returns whether the same may succeed in a moment.
    pub(crate) fn may_pass(&self, error: &Error) -> bool {
        let was_reached = self.was_reached.load(Ordering::Relaxed);
        match error {
            Error::Silent { .. } => true,
            Error::Unreachable { source, .. } => {
                // Who was never there is not likely to come.
                let never = matches!(
                    source.kind(),
                    io::ErrorKind::ConnectionRefused
                        | io::ErrorKind::NotFound
                        | io::ErrorKind::TimedOut
                );
                was_reached || !never
            }
            _ => false,
        }
    }

    /// Sends a request once, but for the question who asks.
    pub(crate) fn send_once(&self, request: &Request) -> Result<Answer, Error> {
        let mut proof = self.tokens.get(&request.scope);
        for attempt in 0..2 {
            let answer = self.follow(request, proof.as_ref())?;
            if answer.status != 401 || !self.is_own(&answer.uri) {
                return Ok(answer);
            }
            self.tokens.forget(&request.scope);
            let headers = answer.headers.get_all(WWW_AUTHENTICATE);
            let headers = headers.iter().filter_map(|value| value.to_str().ok());
            let challenge = Challenge::of(headers);
            if attempt > 0 {
                return Err(self.unauthorized(proof, answer));
            }
            proof = match challenge {
                Some(challenge) => match self.prove(&challenge, &request.scope)? {
                    Some(new) => Some(new),
                    None => return Err(self.unauthorized(proof, answer)),
                },
                None => return Err(self.unauthorized(proof, answer)),
            };
        }
        // The second attempt has returned.
        Err(self.odd("it asks who we are again and again"))
    }

    fn unauthorized(&self, proof: Option<Proof>, answer: Answer) -> Error {
        Error::Unauthorized {
            host: self.host(),
            user: proof.and_then(|proof| proof.user),
            details: answer.details(),
        }
    }

    fn follow(&self, request: &Request, proof: Option<&Proof>) -> Result<Answer, Error> {
        let mut uri = request.uri.clone();
        for _ in 0..=MAX_REDIRECTS {
            let mut answer = self.exchange(request, &uri, proof)?;
            answer.user = proof.and_then(|proof| proof.user.clone());
            let is_read = matches!(request.method, Method::GET | Method::HEAD);
            let leads_on = matches!(answer.status.as_u16(), 301 | 302 | 303 | 307 | 308);
            if !is_read || !leads_on {
                return Ok(answer);
            }
            let target = answer.header("location");
            let target = target.and_then(|location| follow(&uri, location));
            uri = target.ok_or_else(|| self.odd("it leads to a place that is none"))?;
        }
        Err(self.odd("it leads in circles"))
    }

    /// Sends one request to one place.
    fn exchange(
        &self,
        request: &Request,
        uri: &Uri,
        proof: Option<&Proof>,
    ) -> Result<Answer, Error> {
        let to = Origin::of(uri).ok_or_else(|| self.odd("it leads to a place that is none"))?;
        // Neither images nor passwords leave the encrypted road.
        if to.is_plain && !self.origin.is_plain {
            return Err(Error::Downgrade { host: self.host(), target: to.host().to_owned() });
        }
        let mut builder = http::Request::builder().method(request.method.clone()).uri(uri.clone());
        for (name, value) in &request.headers {
            builder = builder.header(name, value);
        }
        if !matches!(request.method, Method::GET | Method::HEAD | Method::DELETE) {
            builder = builder.header(http::header::CONTENT_LENGTH, request.body.length());
        }
        // A password is for the registry alone, wherever it leads us.
        if let (Some(proof), true) = (proof, to == self.origin) {
            let value = HeaderValue::from_str(proof.header.reveal());
            let mut value = value.map_err(|_| Error::Settings {
                reason: "the password has characters that cannot be sent".to_owned(),
            })?;
            value.set_sensitive(true);
            builder = builder.header(AUTHORIZATION, value);
        }
        let built = builder
            .body(request.body.to_send())
            .map_err(|_| Error::Settings { reason: "this does not make a request".to_owned() })?;
        let silence = request.thinking.unwrap_or(self.retry_policy.silence);
        let agent = self.agents.agent_for(uri)?;
        let configured = agent
            .configure_request(built)
            .timeout_per_read(Some(silence))
            .timeout_global(self.time_for(request))
            .build();
        let response = agent.run(configured).map_err(|error| self.failed(uri, error))?;
        self.was_reached.store(true, Ordering::Relaxed);
        let (parts, body) = response.into_parts();
        Ok(Answer {
            status: parts.status,
            headers: parts.headers,
            uri: uri.clone(),
            user: None,
            body,
        })
    }

    /// How long a request may take in all. Without this a registry that sends a byte now and
    /// then is never silent.
    fn time_for(&self, request: &Request) -> Option<Duration> {
        let is_content = request.is_content || matches!(request.body, Body::Part(_));
        let thinking = request.thinking.unwrap_or_default();
        (!is_content).then(|| self.retry_policy.answer.saturating_add(thinking))
    }

    /// Whether an address is one of the registry itself.
    pub(crate) fn is_own(&self, uri: &Uri) -> bool {
        Origin::of(uri).as_ref() == Some(&self.origin)
    }

    /// Turns what went wrong on the way into an error.
    pub(crate) fn failed(&self, uri: &Uri, error: ureq::Error) -> Error {
        let authority = uri.authority().map(ToString::to_string);
        let host = authority.unwrap_or_else(|| self.host());
        let source = match error {
            ureq::Error::Timeout(ureq::Timeout::Connect | ureq::Timeout::Resolve) => {
                io::Error::new(io::ErrorKind::TimedOut, "it does not answer")
            }
            ureq::Error::Timeout(ureq::Timeout::Global) => {
                let seconds = self.retry_policy.answer.as_secs();
                let reason = format!(
                    "its answer is not complete after {seconds} seconds, which is the limit"
                );
                return Error::NotARegistry { host, reason };
            }
            ureq::Error::Timeout(_) => {
                let after = self.retry_policy.silence;
                return Error::Silent { host, after };
            }
            ureq::Error::HostNotFound => {
                io::Error::new(io::ErrorKind::NotFound, "no host has this name")
            }
            ureq::Error::Rustls(error) => return certificate_problem(host, &error),
            ureq::Error::Io(error) => match of_tls(&error) {
                Some(problem) => return certificate_problem(host, problem),
                None => error,
            },
            ureq::Error::Protocol(error) => {
                let reason = error.to_string();
                return Error::NotARegistry { host, reason };
            }
            other => io::Error::other(other.to_string()),
        };
        Error::Unreachable { host, source }
    }

    /// Turns an error of a body into one of ours.
    pub(crate) fn failed_reading(&self, uri: &Uri, error: io::Error) -> Error {
        match error.downcast::<ureq::Error>() {
            Ok(error) => self.failed(uri, error),
            Err(source) => {
                let authority = uri.authority().map(ToString::to_string);
                let host = authority.unwrap_or_else(|| self.host());
                Error::Unreachable { host, source }
            }
        }
    }

    pub(crate) fn odd(&self, reason: &str) -> Error {
        Error::NotARegistry { host: self.host(), reason: reason.to_owned() }
    }

    /// Turns an answer that does not help into an error.
    pub(crate) fn refused(&self, answer: Answer, action: &str) -> Error {
        let (host, action) = (self.host(), action.to_owned());
        let (status, user) = (answer.status.as_u16(), answer.user.clone());
        let details = answer.details();
        match status {
            401 => Error::Unauthorized { host, user, details },
            403 => Error::Forbidden { host, action, user, details },
            _ => Error::Status { host, action, status, details },
        }
    }

    /// Sends a request, again if that may help, without a question who asks.
    pub(super) fn send_bare(&self, request: &Request) -> Result<Answer, Error> {
        let mut retries = Retries::new(self.retry_policy);
        loop {
            let outcome = self.exchange(request, &request.uri, None);
            let pause = match &outcome {
                Ok(answer) if answer.is_passing() => answer.retry_after(),
                Err(error) if self.may_pass(error) => None,
                _ => return outcome,
            };
            if !retries.wait(pause) {
                return outcome;
            }
        }
    }
}

/// Returns what rustls says, where it is hidden in an error of reading or writing.
fn of_tls(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// Tells a certificate that is not accepted from an answer that is not encrypted.
fn certificate_problem(host: String, error: &rustls::Error) -> Error {
    match error {
        rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType) => {
            Error::NoTls { host }
        }
        error => Error::Certificate { host, reason: error.to_string() },
    }
}
