// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Answering the question who asks: with a password, or with a token that is got for one.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cabane_label::escape;
use cabane_report::{Kind, Report};
use serde::Deserialize;
use ureq::http::header::{AUTHORIZATION, CONTENT_TYPE};
use ureq::http::{Method, Uri};

use super::challenge::Challenge;
use super::tokens::{Proof, life};
use super::url::{Origin, encoded, with_parameter};
use super::{Answer, Body, Client, Request, Scope};
use crate::credentials::{Credential, Secret};
use crate::{Error, ErrorKind, Result};

const MAX_TOKEN: u64 = 1024 * 1024;
const CLIENT_ID: &str = "cabane";
/// How the host is called beside a registry that issues tokens for it: that of the largest public registry
/// is `auth.…` where the registry is `registry-1.…`.
const SIBLING: &str = "auth";

/// Whether a host may get the password for a registry: the registry itself, a host above it, or the one beside
/// it that is called so.
fn may_issue_tokens(registry: &Origin, service: &Origin) -> bool {
    if registry == service {
        return true;
    }
    let is_name =
        service.host.contains('.') && !service.host.ends_with(|last: char| last.is_ascii_digit());
    let is_above =
        registry.host.strip_suffix(&service.host).is_some_and(|rest| rest.ends_with('.'));
    let above = registry.host.split_once('.').map(|(_, above)| above);
    let is_beside = service
        .host
        .split_once('.')
        .is_some_and(|(first, rest)| first == SIBLING && rest.contains('.') && above == Some(rest));
    service.has_usual_port() && registry.has_usual_port() && is_name && (is_above || is_beside)
}

impl Client {
    /// Finds out what proves to the registry who asks.
    pub(super) fn prove(&self, challenge: &Challenge, scope: &Scope) -> Result<Option<Proof>> {
        let host = self.address.host();
        let credential = self.credentials.find(host, scope.repository(), self.origin.is_plain)?;
        let user = credential.as_ref().map(|credential| match credential {
            Credential::Password { username, .. } => username.clone(),
            Credential::Identity(_) | Credential::Bearer(_) => "token".to_owned(),
        });
        let (header, life) = match (challenge, credential) {
            (_, Some(Credential::Bearer(token))) => (bearer(&token), None),
            (Challenge::Basic, Some(Credential::Password { username, password })) => {
                (basic(&username, &password), None)
            }
            (Challenge::Basic, Some(Credential::Identity(token))) => {
                (basic("<token>", &token), None)
            }
            (Challenge::Basic, None) => return Ok(None),
            (Challenge::Bearer { .. }, credential) => {
                let (token, life) = self.token(challenge, scope, credential.as_ref())?;
                (bearer(&token), Some(life))
            }
        };
        let proof = Proof { header, user };
        self.tokens.keep(scope, proof.clone(), life);
        Ok(Some(proof))
    }

    /// Fails if a token service is another host than the registry, and nobody has said that it may get
    /// the password: a registry could send it anywhere.
    fn check_token_service(&self, realm: &Uri, origin: &Origin) -> Result<()> {
        let named = realm.authority().map_or("", |authority| authority.as_str());
        let is_same = |one: &String| one.eq_ignore_ascii_case(named);
        if may_issue_tokens(&self.origin, origin) || self.token_services.iter().any(is_same) {
            return Ok(());
        }
        let (host, named) = (self.address.host(), escape(named));
        let message = format!("the registry {host} asks for your password to be sent to {named}");
        let report = Report::new(Kind::Untrusted, message).hinted(format!(
            "if that host issues tokens for it, add to config.toml:\n  [registry]\n  token_services = \
             [\"{named}\"]"
        ));
        Err(Error::new(ErrorKind::Unauthorized, report))
    }

    /// Gets a token from where the registry says, and how long it lives.
    fn token(
        &self,
        challenge: &Challenge,
        scope: &Scope,
        credential: Option<&Credential>,
    ) -> Result<(Secret, Duration)> {
        let Challenge::Bearer { realm, service, scope: wanted } = challenge else {
            return Err(self.odd("it does not say where tokens are got"));
        };
        let no_place = || self.odd("the address of its token service is invalid");
        let realm: Uri = realm.parse().map_err(|_| no_place())?;
        let origin = Origin::of(&realm).ok_or_else(no_place)?;
        self.check_encryption(&origin)?;
        if credential.is_some() {
            self.check_token_service(&realm, &origin)?;
        }
        // What the registry asks for, and what will be needed next.
        let mut scopes: Vec<&str> = scope.parts().collect();
        let wanted = wanted.as_deref();
        scopes.extend(wanted.filter(|wanted| !scope.parts().any(|one| covers(one, wanted))));
        let request = if let Some(Credential::Identity(token)) = credential {
            let mut form = format!(
                "grant_type=refresh_token&client_id={CLIENT_ID}&refresh_token={}",
                encoded(token.reveal())
            );
            if let Some(service) = service {
                form += &format!("&service={}", encoded(service));
            }
            form += &format!("&scope={}", encoded(&scopes.join(" ")));
            let mut request = Request::new(Method::POST, realm, Scope::default());
            request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
            request.body = Body::Bytes(form.into_bytes());
            request
        } else {
            let mut uri = realm;
            let parameters = service.iter().map(|service| ("service", service.as_str()));
            let parameters = parameters.chain(scopes.iter().map(|scope| ("scope", *scope)));
            for (name, value) in parameters {
                uri = with_parameter(&uri, name, value).ok_or_else(no_place)?;
            }
            let mut request = Request::new(Method::GET, uri, Scope::default());
            if let Some(Credential::Password { username, password }) = credential {
                let header = basic(username, password);
                request = request.header(AUTHORIZATION, header.reveal());
            }
            request
        };
        let answer = self.send_bare(&request)?;
        if answer.status == 401 || answer.status == 403 {
            let user = match credential {
                Some(Credential::Password { username, .. }) => Some(username.as_str()),
                _ => None,
            };
            return Err(self.unauthorized(user, &answer.details()));
        }
        if !answer.status.is_success() {
            return Err(self.refused(answer, "get a token"));
        }
        self.read_token(answer)
    }

    fn read_token(&self, answer: Answer) -> Result<(Secret, Duration)> {
        let bytes = self.read("token", answer, MAX_TOKEN)?;
        let read: TokenAnswer = self.parse("a token", &bytes)?;
        let token = read.token.or(read.access_token).filter(|token| !token.is_empty());
        let token = token.ok_or_else(|| self.odd("it gives no token where tokens are got"))?;
        Ok((Secret::new(token), life(read.expires_in)))
    }
}

#[derive(Deserialize)]
struct TokenAnswer {
    token: Option<String>,
    access_token: Option<String>,
    expires_in: Option<u64>,
}

fn bearer(token: &Secret) -> Secret {
    Secret::new(format!("Bearer {}", token.reveal()))
}

fn basic(username: &str, password: &Secret) -> Secret {
    let both = format!("{username}:{}", password.reveal());
    Secret::new(format!("Basic {}", STANDARD.encode(both)))
}

/// Whether a scope allows what another asks for.
fn covers(scope: &str, wanted: &str) -> bool {
    let (scope, wanted) = (scope.rsplit_once(':'), wanted.rsplit_once(':'));
    scope.zip(wanted).is_some_and(|((what, has), (other, wants))| {
        let is_allowed = |action| has.split(',').any(|one| one == action);
        what == other && wants.split(',').all(is_allowed)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_goes_to_the_registry_a_host_above_it_or_the_one_beside_it() {
        let origin = |text: &str| Origin::of(&format!("https://{text}").parse().unwrap()).unwrap();
        let table = [
            ("r.example.org", "r.example.org", true),
            ("r.example.org:5000", "r.example.org:5000", true),
            ("r.example.org", "R.Example.org:443", true),
            ("registry.example.com", "example.com", true),
            ("registry-1.example.org", "auth.example.org", true),
            ("r.example.org", "auth.example.com", false),
            ("r.example.org", "login.example.org", false),
            ("example.org", "auth.org", false),
            ("r.example.org", "xample.org", false),
            ("r.example.org", "org", false),
            ("example.org", "r.example.org", false),
            ("r.example.org", "r.example.org:8443", false),
            ("r.example.org", "example.org:8443", false),
            ("r.example.org:8443", "example.org", false),
            ("10.0.0.1", "0.0.1", false),
        ];
        for (registry, service, expected) in table {
            let answer = may_issue_tokens(&origin(registry), &origin(service));
            assert_eq!(answer, expected, "{registry} {service}");
        }
    }
}
