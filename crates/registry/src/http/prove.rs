// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Answering the question who asks: with a password, or with a token that is got for one.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use ureq::http::header::{AUTHORIZATION, CONTENT_TYPE};
use ureq::http::{Method, Uri};

use super::challenge::Challenge;
use super::tokens::{Proof, life};
use super::url::{Origin, encoded, with_parameter};
use super::{Answer, Body, Client, Request, Scope};
use crate::Result;
use crate::credentials::{Credential, Secret};

const MAX_TOKEN: u64 = 1024 * 1024;
const CLIENT_ID: &str = "cabane";

impl Client {
    /// Finds out what proves to the registry who asks.
    pub(super) fn prove(&self, challenge: &Challenge, scope: &Scope) -> Result<Option<Proof>> {
        let host = self.address.host();
        let credential = self.credentials.find(host, scope.repository())?;
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
