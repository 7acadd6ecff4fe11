// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Who may do what: everyone, who knows a password, who has a token.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::api::Route;
use super::http::{Answer, Request, parameters};

/// Where tokens are handed out.
pub(super) const TOKENS: &str = "/token";
const SERVICE: &str = "a test";
/// For how long tokens are valid, as they say.
const LIFETIME: Duration = Duration::from_secs(300);

/// How a registry hands out tokens. Registries with clones of one know the same tokens.
#[derive(Clone, Debug)]
pub struct Bearer {
    account: Option<(String, String)>,
    anonymous_pull: bool,
    uses: Option<usize>,
    realm: Option<String>,
    refresh_token: Option<String>,
    tokens: Arc<Mutex<BTreeMap<String, Token>>>,
}

impl Bearer {
    /// To everyone, for everything.
    pub fn anonymous() -> Self {
        Self {
            account: None,
            anonymous_pull: false,
            uses: None,
            realm: None,
            refresh_token: None,
            tokens: Arc::default(),
        }
    }

    /// To one user with a password.
    pub fn account(user: &str, password: &str) -> Self {
        let account = Some((user.to_owned(), password.to_owned()));
        let anonymous = Self::anonymous();
        Self { account, ..anonymous }
    }

    /// Also to everyone, for reading.
    #[must_use]
    pub fn with_anonymous_pull(mut self) -> Self {
        self.anonymous_pull = true;
        self
    }

    /// Also to anyone who sends this token of identity with a `POST`, as `docker login` does.
    #[must_use]
    pub fn with_refresh_token(mut self, token: &str) -> Self {
        self.refresh_token = Some(token.to_owned());
        self
    }

    /// Tokens are valid for so many requests, and do not say so.
    #[must_use]
    pub fn for_uses(mut self, uses: usize) -> Self {
        self.uses = Some(uses);
        self
    }

    /// They are handed out elsewhere, by the registry at this URL.
    #[must_use]
    pub fn at(mut self, url: &str) -> Self {
        self.realm = Some(format!("{url}{TOKENS}"));
        self
    }

    fn tokens(&self) -> MutexGuard<'_, BTreeMap<String, Token>> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which scopes a caller gets of those it asks for.
    fn granted(
        &self,
        request: &Request,
        form: &str,
        requested: Vec<String>,
    ) -> Option<Vec<String>> {
        let refresh = parameters(form, "refresh_token").into_iter().next();
        let knows_token = refresh.is_some() && refresh == self.refresh_token;
        let is_known = self.account.as_ref().is_none_or(|(user, password)| {
            let form_is_right = parameters(form, "username").contains(user)
                && parameters(form, "password").contains(password);
            form_is_right || request.header("authorization") == Some(basic(user, password).as_str())
        });
        if knows_token || is_known {
            return Some(requested);
        }
        let is_anonymous = request.header("authorization").is_none() && form.is_empty();
        (is_anonymous && self.anonymous_pull)
            .then(|| requested.iter().map(|scope| only_pull(scope)).collect())
    }
}

/// What a token is good for.
#[derive(Debug)]
struct Token {
    scopes: Vec<String>,
    until: Instant,
    left: Option<usize>,
}

impl Token {
    fn admits(&self, scopes: &[String]) -> bool {
        let is_granted = |scope: &String| {
            let (resource, actions) = scope.rsplit_once(':').unwrap_or((scope, ""));
            actions.split(',').all(|action| {
                let mut granted = self.scopes.iter().filter_map(|scope| scope.rsplit_once(':'));
                granted.any(|(to, may)| to == resource && may.split(',').any(|may| may == action))
            })
        };
        Instant::now() < self.until && self.left != Some(0) && scopes.iter().all(is_granted)
    }
}

/// Who is let in.
#[derive(Debug, Default)]
pub(super) enum Access {
    #[default]
    Open,
    Basic {
        user: String,
        password: String,
    },
    Bearer(Bearer),
}

impl Access {
    /// What is answered to someone who is not let in. `url` is that of the registry.
    pub(super) fn refusal(&self, request: &Request, url: &str) -> Option<Answer> {
        let authorization = request.header("authorization");
        match self {
            Self::Open => None,
            Self::Basic { user, password } => {
                let is_right = authorization == Some(basic(user, password).as_str());
                (!is_right).then(|| unauthorized(r#"Basic realm="a test""#))
            }
            Self::Bearer(bearer) => {
                let mut tokens = bearer.tokens();
                let scopes = scopes_of(request);
                let key = authorization.and_then(|value| value.strip_prefix("Bearer "));
                let token = key.and_then(|key| tokens.get_mut(key));
                let token = token.filter(|token| token.admits(&scopes));
                if let Some(token) = token {
                    token.left = token.left.map(|left| left - 1);
                    return None;
                }
                let realm = bearer.realm.clone();
                let realm = realm.unwrap_or_else(|| format!("{url}{TOKENS}"));
                let mut challenge = format!(r#"Bearer realm="{realm}",service="{SERVICE}""#);
                if !scopes.is_empty() {
                    challenge.push_str(&format!(r#",scope="{}""#, scopes.join(" ")));
                }
                if key.is_some() {
                    challenge.push_str(r#",error="invalid_token""#);
                }
                Some(unauthorized(&challenge))
            }
        }
    }

    /// Hands out a token, to a `GET` as registries do and to a `POST` with a form.
    pub(super) fn hand_out(&self, request: &Request, form: &[u8]) -> Answer {
        let Self::Bearer(bearer) = self else {
            return Answer::failure(404, "NOT_FOUND", "no tokens here");
        };
        let form = String::from_utf8_lossy(form);
        let requested = [request.query("scope"), parameters(&form, "scope")].concat();
        let requested = requested.iter().flat_map(|scopes| scopes.split(' '));
        let requested = requested.map(str::to_owned).collect();
        let Some(scopes) = bearer.granted(request, &form, requested) else {
            return unauthorized(r#"Basic realm="tokens of a test""#);
        };
        let mut tokens = bearer.tokens();
        let key = format!("token-{}", tokens.len() + 1);
        let token = Token { scopes, until: Instant::now() + LIFETIME, left: bearer.uses };
        tokens.insert(key.clone(), token);
        Answer::new(200).json(&serde_json::json!({
            "token": key,
            "access_token": key,
            "expires_in": LIFETIME.as_secs(),
        }))
    }

    /// Makes all tokens invalid that were handed out.
    pub(super) fn forget_tokens(&self) {
        if let Self::Bearer(bearer) = self {
            let now = Instant::now();
            let mut tokens = bearer.tokens();
            tokens.values_mut().for_each(|token| token.until = now);
        }
    }
}

fn unauthorized(challenge: &str) -> Answer {
    Answer::failure(401, "UNAUTHORIZED", "authentication required")
        .header("WWW-Authenticate", challenge)
}

/// What a token must be good for to make a request.
fn scopes_of(request: &Request) -> Vec<String> {
    let route = Route::of(request.route());
    if matches!(route, Route::Catalogue) {
        return vec!["registry:catalog:*".to_owned()];
    }
    let actions = match request.method.as_str() {
        "GET" | "HEAD" => "pull",
        "DELETE" => "delete",
        _ => "pull,push",
    };
    let own = route.name().map(|name| (name.to_owned(), actions));
    let other = request.parameter("from").map(|from| (from, "pull"));
    let both = own.into_iter().chain(other);
    both.map(|(name, actions)| format!("repository:{name}:{actions}")).collect()
}

/// A scope without the right to write.
fn only_pull(scope: &str) -> String {
    let (resource, actions) = scope.rsplit_once(':').unwrap_or((scope, ""));
    let may_pull = actions.split(',').any(|action| action == "pull");
    format!("{resource}:{}", if may_pull { "pull" } else { "" })
}

/// The header that tells a user and a password.
fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", base64(format!("{user}:{password}").as_bytes()))
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let bits = (byte(0) << 16) | (byte(1) << 8) | byte(2);
        for digit in 0..4 {
            let place = (bits >> (18 - 6 * digit)) & 63;
            let is_filler = digit > three.len();
            text.push(if is_filler { '=' } else { DIGITS[place as usize].into() });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_fills_up() {
        let texts = ["f", "fo", "foo", "foob"].map(|text| base64(text.as_bytes()));
        assert_eq!(texts, ["Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]);
    }

    #[test]
    fn a_token_for_reading_does_not_write() {
        let token = Token {
            scopes: vec!["repository:a/b:pull".to_owned()],
            until: Instant::now() + Duration::from_secs(9),
            left: None,
        };
        let admits = |actions| token.admits(&[format!("repository:a/b:{actions}")]);
        assert_eq!([admits("pull"), admits("pull,push")], [true, false]);
    }
}
