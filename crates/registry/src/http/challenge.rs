// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The header `WWW-Authenticate`: how a registry wants clients to authenticate.

/// How to answer a 401.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// With a name and a password.
    Basic,
    /// With a token, to be got elsewhere.
    Bearer {
        /// Where.
        realm: String,
        /// Whom the token is for.
        service: Option<String>,
        /// What the token must allow.
        scope: Option<String>,
    },
}

impl Challenge {
    /// Reads the headers of an answer; of several ways the one with tokens is taken.
    pub(crate) fn of<'a>(headers: impl Iterator<Item = &'a str>) -> Option<Self> {
        let challenges: Vec<Self> = headers.flat_map(read_header).collect();
        let is_bearer = |challenge: &&Self| matches!(challenge, Self::Bearer { .. });
        let bearer = challenges.iter().find(is_bearer);
        bearer.or_else(|| challenges.first()).cloned()
    }
}

/// A scheme, or the name of a parameter and its value.
type Piece = (String, Option<String>);

fn read_header(header: &str) -> Vec<Challenge> {
    let pieces = pieces(header);
    let challenges = pieces.chunk_by(|_, (_, value)| value.is_some());
    challenges.filter_map(|pieces| challenge(pieces.split_first()?)).collect()
}

/// Reads a scheme and the parameters that follow it.
fn challenge(((scheme, _), parameters): (&Piece, &[Piece])) -> Option<Challenge> {
    let value = |name: &str| {
        let found = parameters.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.and_then(|(_, value)| value.clone())
    };
    match scheme.to_ascii_lowercase().as_str() {
        "basic" => Some(Challenge::Basic),
        "bearer" => Some(Challenge::Bearer {
            realm: value("realm")?,
            service: value("service"),
            scope: value("scope"),
        }),
        _ => None,
    }
}

/// Takes a header apart: schemes and `name=value`, separated by blanks and commas, where a
/// value may be in quotes.
fn pieces(header: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = header.trim_start_matches([' ', '\t', ',']);
    while !rest.is_empty() {
        let end = rest.find([' ', '\t', ',', '=']).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        let (value, after) = match after.strip_prefix('=').map(read_value) {
            Some((value, after)) => (Some(value), after),
            None => (None, after),
        };
        pieces.push((name.to_owned(), value));
        rest = after.trim_start_matches([' ', '\t', ',']);
    }
    pieces
}

fn read_value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([' ', '\t', ',']).unwrap_or(text.len());
        let (value, rest) = text.split_at(end);
        return (value.to_owned(), rest);
    };
    let mut value = String::new();
    let mut letters = quoted.char_indices();
    while let Some((position, letter)) = letters.next() {
        match letter {
            '"' => return (value, &quoted[position + 1..]),
            '\\' => value.extend(letters.next().map(|(_, letter)| letter)),
            _ => value.push(letter),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_challenge_for_a_token_is_read() {
        let header = r#"Bearer realm="https://auth.example/token",service="r.example",scope="repository:a/b:pull,push""#;
        assert_eq!(
            Challenge::of([header].into_iter()),
            Some(Challenge::Bearer {
                realm: "https://auth.example/token".to_owned(),
                service: Some("r.example".to_owned()),
                scope: Some("repository:a/b:pull,push".to_owned()),
            })
        );
    }

    #[test]
    fn a_challenge_for_a_password_is_read() {
        assert_eq!(
            Challenge::of([r#"Basic realm="Registry Realm""#].into_iter()),
            Some(Challenge::Basic)
        );
    }

    #[test]
    fn of_two_ways_the_one_with_tokens_is_taken() {
        for headers in [
            vec![r#"Basic realm="x""#, r#"bearer REALM="https://t""#],
            vec![r#"Basic realm="x", Bearer realm="https://t""#],
        ] {
            let challenge = Challenge::of(headers.into_iter());
            assert!(
                matches!(challenge, Some(Challenge::Bearer { realm, .. }) if realm == "https://t")
            );
        }
    }

    #[test]
    fn other_ways_are_none() {
        assert_eq!(Challenge::of(["Negotiate abc=="].into_iter()), None);
    }

    proptest! {
        #[test]
        fn no_header_brings_the_reader_down(header in ".{0,200}") {
            let _ = Challenge::of([header.as_str()].into_iter());
        }
    }
}
