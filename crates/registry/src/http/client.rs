// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Sending requests to one registry.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cabane_label::escape;
use cabane_report::{Kind, Report};
use serde::de::DeserializeOwned;
use ureq::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use ureq::http::{self, HeaderName, HeaderValue, Method, Uri};

use super::agents::Agents;
use super::backing::{Backing, ask};
use super::body::Body;
use super::challenge::Challenge;
use super::tokens::{Proof, Tokens};
use super::url::{Origin, follow};
use super::{Answer, Scope};
use crate::address::Address;
use crate::credentials::CredentialSources;
use crate::files::read_up_to;
use crate::options::Options;
use crate::retry_policy::{Retries, RetryPolicy};
use crate::{Error, ErrorKind, Result};

const MAX_REDIRECTS: usize = 5;
const HOW_TO_REACH: &str =
    "`cabane config` shows which registry is used, and `env | grep -i proxy` a proxy";
const OF_PROXY: &str = "tell the operators of the registry: a proxy in front of it must pass on `Host` and \
                        `X-Forwarded-Proto`, and a store for blobs needs `https`";
const OF_LIMIT: &str = "a proxy in front of the registry limits the size of a request; for nginx, its operators \
                        set `client_max_body_size 0;`";

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
    /// What answers in place of a server.
    pub(crate) backing: Option<Arc<dyn Backing>>,
    pub(crate) address: Address,
    pub(super) origin: Origin,
    pub(super) credentials: CredentialSources,
    pub(super) tokens: Tokens,
    /// Hosts that may get the password.
    pub(super) token_services: Vec<String>,
    pub(crate) retry_policy: RetryPolicy,
    /// Whether anything was ever answered: a name that is mistyped will not be there later.
    was_reached: AtomicBool,
}

impl Client {
    pub(crate) fn new(address: Address, options: &Options) -> Result<Self> {
        let base: Option<Uri> = address.origin().parse().ok();
        let origin = base.as_ref().and_then(Origin::of);
        let origin = origin.ok_or_else(|| {
            let message = format!("`{}` is no address", escape(&address.to_string()));
            Report::new(Kind::Failure, message)
        })?;
        Ok(Self {
            agents: Agents::new(origin.is_plain, options)?,
            backing: None,
            address,
            origin,
            credentials: options.credentials.clone(),
            tokens: Tokens::default(),
            token_services: options.token_services.clone(),
            retry_policy: options.retry_policy,
            was_reached: AtomicBool::new(false),
        })
    }

    /// Returns the address of a path below `/v2/`.
    pub(crate) fn uri(&self, path: &str) -> Result<Uri> {
        let text = format!("{}/v2/{path}", self.address.origin());
        let wrong = |_| Report::new(Kind::Failure, "this name does not make an address").into();
        text.parse().map_err(wrong)
    }

    /// Sends a request without more than its path below `/v2/`.
    pub(crate) fn ask(&self, method: Method, path: &str, scope: Scope) -> Result<Answer> {
        self.send(&Request::new(method, self.uri(path)?, scope))
    }

    /// Sends a request, again if that may help, and follows where the registry leads.
    ///
    /// What is answered at last is returned, whatever its status.
    pub(crate) fn send(&self, request: &Request) -> Result<Answer> {
        self.persist(|| self.send_once(request))
    }

    /// Sends a request, again if that may help, without a question who asks.
    pub(super) fn send_bare(&self, request: &Request) -> Result<Answer> {
        self.persist(|| self.exchange(request, &request.uri, None))
    }

    fn persist(&self, send: impl Fn() -> Result<Answer>) -> Result<Answer> {
        let mut retries = Retries::new(self.retry_policy);
        loop {
            let outcome = send();
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
        match error.kind {
            // Who was never there is not likely to come.
            ErrorKind::Unreachable(
                io::ErrorKind::ConnectionRefused
                | io::ErrorKind::NotFound
                | io::ErrorKind::TimedOut,
            ) => was_reached,
            ErrorKind::Unreachable(_) | ErrorKind::Silent => true,
            _ => false,
        }
    }

    /// Sends a request once, but for the question who asks.
    pub(crate) fn send_once(&self, request: &Request) -> Result<Answer> {
        let mut proof = self.tokens.get(&request.scope);
        let mut is_new = false;
        loop {
            let answer = self.follow(request, proof.as_ref())?;
            if answer.status != 401 || !self.is_own(&answer.uri) {
                return Ok(answer);
            }
            self.tokens.forget(&request.scope);
            let headers = answer.headers.get_all(WWW_AUTHENTICATE);
            let headers = headers.iter().filter_map(|value| value.to_str().ok());
            let new = match Challenge::of(headers) {
                Some(challenge) if !is_new => self.prove(&challenge, &request.scope)?,
                _ => None,
            };
            if new.is_none() {
                let user = proof.as_ref().and_then(|proof| proof.user.as_deref());
                return Err(self.unauthorized(user, &answer.details()));
            }
            (proof, is_new) = (new, true);
        }
    }

    pub(super) fn unauthorized(&self, user: Option<&str>, details: &str) -> Error {
        let (host, details) = (self.address.host(), in_parentheses(details));
        let message = match user.map(escape) {
            Some(user) => {
                format!("the registry {host} does not accept the password of `{user}`{details}")
            }
            None => format!("the registry {host} requires you to log in{details}"),
        };
        let report = Report::new(Kind::Registry, message).hinted(format!(
            "log in with `podman login {host}` or `docker login {host}`, or use \
             `--username NAME --token FILE`"
        ));
        Error::new(ErrorKind::Unauthorized, report)
    }

    fn follow(&self, request: &Request, proof: Option<&Proof>) -> Result<Answer> {
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
    fn exchange(&self, request: &Request, uri: &Uri, proof: Option<&Proof>) -> Result<Answer> {
        if let Some(backing) = &self.backing {
            let failed = |source| {
                let report = format!("failed to use {}", self.address.host());
                Error::new(ErrorKind::File, Report::caused(Kind::Failure, report, source))
            };
            return ask(backing.as_ref(), request, uri).map_err(failed);
        }
        let to = Origin::of(uri).ok_or_else(|| self.odd("it leads to a place that is none"))?;
        self.check_encryption(&to)?;
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
            let mut value = value.map_err(|_| {
                Report::new(Kind::Failure, "the password has characters that cannot be sent")
            })?;
            value.set_sensitive(true);
            builder = builder.header(AUTHORIZATION, value);
        }
        let built = builder
            .body(request.body.to_send())
            .map_err(|_| Report::new(Kind::Failure, "this does not make a request"))?;
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

    /// Neither images nor passwords leave the encrypted road.
    pub(super) fn check_encryption(&self, to: &Origin) -> Result<()> {
        if !to.is_plain || self.origin.is_plain {
            return Ok(());
        }
        let (host, target) = (self.address.host(), &to.host);
        let message = format!("the registry {host} refers to {target}, which is not encrypted");
        Err(Report::new(Kind::Registry, message).hinted(OF_PROXY.to_owned()).into())
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
        let host = self.host_of(uri);
        let source = match error {
            ureq::Error::Timeout(ureq::Timeout::Connect | ureq::Timeout::Resolve) => {
                io::Error::new(io::ErrorKind::TimedOut, "it does not answer")
            }
            ureq::Error::Timeout(ureq::Timeout::Global) => {
                let seconds = self.retry_policy.answer.as_secs();
                let reason = format!(
                    "its answer is not complete after {seconds} seconds, which is the limit"
                );
                return Error::odd(host, &reason);
            }
            ureq::Error::Timeout(_) => return self.silent(host),
            ureq::Error::HostNotFound => {
                io::Error::new(io::ErrorKind::NotFound, "no host has this name")
            }
            ureq::Error::Rustls(error) => return certificate_problem(host, &error),
            ureq::Error::Io(error) => match of_tls(&error) {
                Some(problem) => return certificate_problem(host, problem),
                None => error,
            },
            ureq::Error::Protocol(error) => return Error::odd(host, &error.to_string()),
            other => io::Error::other(other.to_string()),
        };
        unreachable(host, source)
    }

    fn host_of<'a>(&'a self, uri: &'a Uri) -> &'a str {
        uri.authority().map_or(self.address.host(), |authority| authority.as_str())
    }

    fn silent(&self, host: &str) -> Error {
        let seconds = self.retry_policy.silence.as_secs();
        let message = format!("the registry {host} has not answered for {seconds} seconds");
        let report = Report::new(Kind::Registry, message).hinted(HOW_TO_REACH.to_owned());
        Error::new(ErrorKind::Silent, report)
    }

    /// Reads a body up to a limit.
    pub(crate) fn read(&self, what: &str, mut answer: Answer, limit: u64) -> Result<Vec<u8>> {
        let read = read_up_to(limit, answer.body.as_reader());
        let read = read.map_err(|error| self.failed_reading(&answer.uri, error))?;
        read.ok_or_else(|| {
            self.odd(&format!("its {what} has more than {limit} bytes, which is the limit"))
        })
    }

    pub(crate) fn parse<D: DeserializeOwned>(&self, what: &str, bytes: &[u8]) -> Result<D> {
        serde_json::from_slice(bytes).map_err(|source| {
            let host = self.address.host();
            let message = format!("the registry {host} sent {what} that cannot be understood");
            Error::new(ErrorKind::Document, Report::caused(Kind::Registry, message, source))
        })
    }

    /// Turns an error of a body into one of ours.
    pub(crate) fn failed_reading(&self, uri: &Uri, error: io::Error) -> Error {
        match error.downcast::<ureq::Error>() {
            Ok(error) => self.failed(uri, error),
            Err(source) => unreachable(self.host_of(uri), source),
        }
    }

    pub(crate) fn odd(&self, reason: &str) -> Error {
        Error::odd(self.address.host(), reason)
    }

    /// Turns an answer that does not help into an error.
    pub(crate) fn refused(&self, answer: Answer, action: &str) -> Error {
        let (status, user) = (answer.status.as_u16(), answer.user.clone());
        let is_own = self.is_own(&answer.uri);
        let hint = self.hint(&answer);
        let retry_after = answer.retry_after();
        let place = self.place_of(&answer.uri);
        let details = answer.details();
        match status {
            401 if is_own => return self.unauthorized(user.as_deref(), &details),
            403 if is_own => return self.forbidden(user.as_deref(), action, &details),
            _ => {}
        }
        let details = in_parentheses(&details);
        let message = format!("{place} answers {status} to the attempt to {action}{details}");
        let report = Report::new(Kind::Registry, message).hinted(hint);
        Error::new(ErrorKind::Status(status), report).after(retry_after)
    }

    /// Returns who has answered.
    fn place_of(&self, uri: &Uri) -> String {
        let host = self.address.host();
        if self.is_own(uri) {
            return format!("the registry {host}");
        }
        format!("{}, to which the registry {host} refers,", escape(self.host_of(uri)))
    }

    fn hint(&self, answer: &Answer) -> Option<String> {
        let target = answer.header("location").and_then(|location| follow(&answer.uri, location));
        if let Some(address) = self.encrypted_address(target.as_ref().unwrap_or(&answer.uri)) {
            return Some(format!("use the address to which it redirects: `{address}`"));
        }
        let seconds = answer.retry_after().map(|pause| pause.as_secs()).filter(|pause| *pause > 0);
        match (answer.status.as_u16(), seconds) {
            (400, _) if self.origin.is_plain && is_page(answer) => Some(format!(
                "use `https://{}/…` if the registry is encrypted",
                self.address.host()
            )),
            (413, _) => Some(OF_LIMIT.to_owned()),
            (429 | 503, Some(seconds)) => Some(format!(
                "it is busy, and requests a pause of {seconds} seconds; try again later"
            )),
            (429 | 500..=599, _) => {
                Some("the registry has trouble or is busy; try again later".to_owned())
            }
            _ => None,
        }
    }

    /// Returns the address of this registry at an encrypted place on the same host, to which an
    /// unencrypted one redirects.
    fn encrypted_address(&self, target: &Uri) -> Option<String> {
        let to = Origin::of(target)?;
        let is_upgrade = self.origin.is_plain && !to.is_plain && to.host == self.origin.host;
        is_upgrade
            .then(|| self.address.encrypted_at(target.authority().map_or("", |at| at.as_str())))
    }

    fn forbidden(&self, user: Option<&str>, action: &str, details: &str) -> Error {
        let (host, details) = (self.address.host(), in_parentheses(details));
        let (who, hint) = match user {
            Some(user) => (
                format!("`{}`", escape(user)),
                "ask the operators of the registry for access".to_owned(),
            ),
            None => (
                "you".to_owned(),
                format!(
                    "no credentials for {host}: use `podman login {host}`, or `--username NAME --token FILE`"
                ),
            ),
        };
        let message = format!("the registry {host} does not let {who} {action}{details}");
        Error::new(ErrorKind::Forbidden, Report::new(Kind::Registry, message).hinted(hint))
    }
}

/// Whether an answer is a page for people, which comes from a proxy.
fn is_page(answer: &Answer) -> bool {
    answer.header("content-type").is_some_and(|kind| kind.starts_with("text/html"))
}

/// Shows what a registry says about an error.
pub(crate) fn in_parentheses(details: &str) -> String {
    if details.is_empty() { String::new() } else { format!(" ({})", escape(details)) }
}

fn unreachable(host: &str, source: io::Error) -> Error {
    let kind = ErrorKind::Unreachable(source.kind());
    let report =
        Report::caused(Kind::Registry, format!("cannot reach the registry {host}"), source);
    Error::new(kind, report.hinted(HOW_TO_REACH.to_owned()))
}

/// Returns what rustls says, where it is hidden in an error of reading or writing.
fn of_tls(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// Tells a certificate that is not accepted from an answer that is not encrypted.
fn certificate_problem(host: &str, error: &rustls::Error) -> Error {
    let (message, hint) = match error {
        rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType) => (
            format!("{host} answers without encryption"),
            format!("`http://{host}/…` is its address, if you trust the network on the way"),
        ),
        error => (
            format!("the certificate of {host} is not accepted: {}", escape(&error.to_string())),
            "a site's own authority is named by `ca` in `[registry]` of the configuration"
                .to_owned(),
        ),
    };
    Error::new(ErrorKind::Insecure, Report::new(Kind::Registry, message).hinted(hint))
}
