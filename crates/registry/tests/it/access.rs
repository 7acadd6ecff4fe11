// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Credentials, and who gets them.

use cabane_registry::{Credential, CredentialSources, ErrorKind, Options, Secret};
use cabane_testkit::{Bearer, Fault, HostileRegistry};

use crate::bed::{Bed, MIB, REPOSITORY, noise, options};

fn as_alice() -> Options {
    Options {
        credentials: CredentialSources {
            given: Some(Credential::Password {
                username: "alice".to_owned(),
                password: Secret::new("secret"),
            }),
            ..CredentialSources::default()
        },
        ..options()
    }
}

#[test]
fn a_password_serves_where_one_is_wanted() {
    let bed = Bed::with(&as_alice());
    bed.server.want_password("alice", "secret");
    let content = bed.push_content(MIB);
    assert!(bed.fetch().unwrap() == content);
}

#[test]
fn tokens_are_got_kept_and_renewed() {
    let bed = Bed::with(&as_alice());
    bed.server.want_token(Bearer::account("alice", "secret"));
    let content = bed.push_content(MIB);
    bed.server.forget_tokens();
    assert!(bed.fetch().unwrap() == content);
}

#[test]
fn a_token_is_had_without_a_password_where_everybody_may_read() {
    let bed = Bed::new();
    bed.server.want_token(Bearer::account("alice", "secret").with_anonymous_pull());
    let error = bed.push(&noise(10), false).unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Unauthorized | ErrorKind::Forbidden), "{error}");
    let error = bed.image().unwrap_err();
    assert_eq!(error.kind, ErrorKind::NoSuchImage, "{error}");
}

#[test]
fn a_token_that_ends_in_the_middle_is_renewed() {
    let bed = Bed::with(&as_alice());
    bed.server.want_token(Bearer::account("alice", "secret").for_uses(3));
    let content = bed.push_content(20 * MIB);
    assert!(bed.fetch().unwrap() == content);
}

#[test]
fn a_wrong_password_is_refused_by_name_and_never_shown() {
    let bed = Bed::with(&as_alice());
    bed.server.want_password("alice", "another");
    let error = bed.image().unwrap_err();
    let text = format!("{error} {error:?}");
    assert!(text.contains("`alice`"), "{text}");
    assert!(!text.contains("secret"), "{text}");
}

#[test]
fn another_host_gets_no_password() {
    let bed = Bed::with(&as_alice());
    bed.server.want_password("alice", "secret");
    let content = bed.push_content(20 * MIB);
    let other = HostileRegistry::start();
    let digest = other.put_blob(REPOSITORY, &content);
    bed.server.on("GET", "/blobs/").does(Fault::redirect(&other.url()));
    assert!(bed.fetch().unwrap() == content);
    let requested = other.requests_of("GET", &digest);
    assert!(!requested.is_empty());
    assert!(requested.iter().all(|request| request.header("authorization").is_none()));
}
