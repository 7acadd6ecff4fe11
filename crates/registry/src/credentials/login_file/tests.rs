// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs;

use proptest::prelude::*;
use serde_json::json;

use super::*;

const PLACE: Place<'static> = Place {
    host: "registry.example:5000",
    repository: "deploy/daint/gh200/vasp/6.4",
    is_plain: false,
};

/// What a file gives without any helper installed, as `name:password` or `kind token`.
fn found(text: &str, place: &Place<'_>) -> Result<Option<String>, String> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("auth.json");
    fs::write(&path, text).unwrap();
    match find(&path, place, &[]) {
        Ok(found) => Ok(found.as_ref().map(describe)),
        Err(error) => Err(error.to_string().replace(&*path.to_string_lossy(), "FILE")),
    }
}

fn describe(credential: &Credential) -> String {
    match credential {
        Credential::Password { username, password } => {
            format!("{username}:{}", password.reveal())
        }
        Credential::Identity(token) => format!("identity {}", token.reveal()),
        Credential::Bearer(token) => format!("bearer {}", token.reveal()),
    }
}

fn entry(name: &str) -> Value {
    json!({"username": name, "password": "pw"})
}

#[test]
fn a_key_fits_its_host_and_port_and_what_is_below_its_path() {
    let table = [
        ("registry.example:5000", true),
        ("Registry.Example:5000", true),
        ("registry.example:5000/", true),
        ("https://registry.example:5000", true),
        ("http://registry.example:5000/", true),
        ("https://registry.example:5000/v1/", true),
        ("https://registry.example:5000/v2/", true),
        ("registry.example:5000/deploy", true),
        ("registry.example:5000/deploy/daint/", true),
        ("registry.example:5000/deploy/daint/gh200/vasp/6.4", true),
        ("registry.example:5000/dep", false),
        ("registry.example:5000/build", false),
        ("registry.example:5000/deploy/daint/gh200/vasp/6.4/x", false),
        ("registry.example", false),
        ("registry.example:500", false),
        ("registry.example:5000.evil", false),
        ("example:5000", false),
        ("ftp://registry.example:5000", false),
        ("evil/registry.example:5000", false),
        ("", false),
    ];
    for (key, fits) in table {
        let text = json!({"auths": {key: entry("me")}}).to_string();
        let expected = fits.then(|| "me:pw".to_owned());
        assert_eq!(found(&text, &PLACE), Ok(expected), "{key:?}");
    }
}

#[test]
fn the_longest_path_wins() {
    let text = json!({"auths": {
        "https://registry.example:5000/v1/": entry("address"),
        "registry.example:5000": entry("host"),
        "registry.example:5000/deploy": entry("namespace"),
        "registry.example:5000/deploy/daint/gh200/vasp": entry("vasp"),
    }})
    .to_string();
    let of = |repository| {
        let place = Place { repository, ..PLACE };
        found(&text, &place).unwrap().unwrap()
    };
    assert_eq!(
        [PLACE.repository, "deploy/daint/gh200/vasper", "deployed", "deploy", ""].map(of),
        ["vasp:pw", "namespace:pw", "host:pw", "namespace:pw", "host:pw"]
    );
}

#[test]
fn an_entry_has_its_secret_in_one_of_several_forms() {
    let table = [
        (json!({"auth": "bWU6cHc="}), Some("me:pw")),
        (json!({"auth": "bWU6cHc"}), Some("me:pw")),
        (json!({"auth": "bWU6cHc=="}), Some("me:pw")),
        (json!({"auth": "bWU6cHd="}), Some("me:pw")),
        (json!({"auth": " bWU6\ncHc=\n"}), Some("me:pw")),
        (json!({"auth": "bWU6cDp3"}), Some("me:p:w")),
        (json!({"auth": "bWU6cHcAAA=="}), Some("me:pw")),
        (json!({"auth": "bWU6Pz8/"}), Some("me:???")),
        (json!({"auth": "bWU6Pz8_"}), Some("me:???")),
        (json!({"auth": "bWU6cHc=", "username": "not", "password": "me"}), Some("me:pw")),
        (json!({"auth": "", "username": "me", "password": "pw"}), Some("me:pw")),
        (json!({"username": "me", "password": "p:w", "email": "x"}), Some("me:p:w")),
        (json!({"auth": "bWU6", "identitytoken": "t"}), Some("identity t")),
        (json!({"identitytoken": "t", "registrytoken": "r"}), Some("bearer r")),
        (json!({"username": "me"}), None),
        (json!({"email": "x"}), None),
        (json!({}), None),
        (json!(null), None),
    ];
    for (entry, expected) in table {
        let text = json!({"auths": {"registry.example:5000": entry}}).to_string();
        assert_eq!(found(&text, &PLACE).unwrap().as_deref(), expected, "{text}");
    }
}

#[test]
fn an_entry_that_cannot_be_understood_is_named_and_not_shown() {
    let table = [
        (json!("hunter2"), "it is not an object of texts"),
        (json!(["hunter2"]), "it is not an object of texts"),
        (json!({"auth": 2}), "it is not an object of texts"),
        (json!({"auth": "hunter2!"}), "its `auth` is not base64 of a text"),
        (json!({"auth": "/////w=="}), "its `auth` is not base64 of a text"),
        (json!({"auth": "aHVudGVyMg=="}), "its `auth` is not a name, a colon, and a password"),
    ];
    for (entry, problem) in table {
        let text = json!({"auths": {"registry.example:5000": entry}}).to_string();
        let expected = format!("FILE has an entry for `registry.example:5000`, but {problem}");
        assert_eq!(found(&text, &PLACE), Err(expected));
    }
}

#[test]
fn an_entry_that_cannot_be_understood_does_not_disturb_another_registry() {
    let text = json!({"auths": {"a.example": 7, "registry.example:5000": entry("me")}});
    assert_eq!(found(&text.to_string(), &PLACE).unwrap().as_deref(), Some("me:pw"));
}

#[test]
fn a_file_that_says_nothing_is_no_error() {
    for text in ["", " \n", "{}", "\u{feff}{}", r#"{"auths": null}"#, r#"{"HttpHeaders": {}}"#] {
        assert_eq!(found(text, &PLACE), Ok(None), "{text:?}");
    }
}

#[test]
fn a_file_that_cannot_be_parsed_is_named_and_not_shown() {
    let table = [
        ("{\"auths\":\n hunter2}", "line 2, column 2"),
        ("{\"auths\": \"hunter2\"}", "line 1, column 19"),
        ("hunter2", "line 1, column 1"),
    ];
    for (text, place) in table {
        let expected = format!("FILE is not a login file: {place} is not what is expected there");
        assert_eq!(found(text, &PLACE), Err(expected));
    }
}

/// What would be tried: keys of entries, and `helper<server`, with `!` if it must be there.
fn steps(text: &Value) -> Vec<String> {
    let file = LoginFile::parse(&text.to_string()).unwrap();
    let tell = |step| match step {
        Step::Entry(key, _) => key.to_owned(),
        Step::Ask { helper, server, is_promised } => {
            format!("{helper}{}<{server}", if is_promised { "!" } else { "" })
        }
    };
    file.steps(&PLACE).into_iter().map(tell).collect()
}

#[test]
fn the_helper_of_a_registry_comes_before_what_is_stored() {
    let text = json!({
        "auths": {"registry.example:5000": {}, "a.example": {}},
        "credHelpers": {"registry.example:5000": "own", "a.example": "other"},
        "credsStore": "all",
    });
    assert_eq!(steps(&text), ["own!<registry.example:5000", "registry.example:5000"]);
}

#[test]
fn the_helper_for_all_gets_the_name_under_which_the_user_logged_in() {
    let text = json!({
        "auths": {"https://registry.example:5000/v1/": {}},
        "credsStore": "all",
    });
    assert_eq!(
        steps(&text),
        ["https://registry.example:5000/v1/", "all!<https://registry.example:5000/v1/"]
    );
}

#[test]
fn the_helper_for_all_is_used_also_for_a_registry_that_is_not_named() {
    let text = json!({"auths": {"a.example": {}}, "credsStore": "all"});
    assert_eq!(steps(&text), ["all<registry.example:5000"]);
}

#[test]
fn a_helper_without_a_name_is_none() {
    let own = json!({
        "auths": {"registry.example:5000": {}},
        "credHelpers": {"registry.example:5000": ""},
        "credsStore": "all",
    });
    let all = json!({"credsStore": ""});
    assert_eq!((steps(&own), steps(&all)), (vec!["registry.example:5000".to_owned()], Vec::new()));
}

#[test]
fn a_helper_that_is_not_installed_matters_where_the_user_logged_in() {
    let text = json!({"auths": {"registry.example:5000": {}}, "credsStore": "all"}).to_string();
    let elsewhere = Place { host: "a.example", ..PLACE };
    let missing = "FILE says that the program `docker-credential-all` has the password of \
                   registry.example:5000, but it is nowhere in PATH";
    assert_eq!(
        (found(&text, &PLACE), found(&text, &elsewhere)),
        (Err(missing.to_owned()), Ok(None))
    );
}

#[test]
fn a_helper_is_a_plain_name() {
    for name in ["../evil", "/bin/sh", "a b", "a;b", "-x/", "..\u{1b}"] {
        let text = json!({"credHelpers": {"registry.example:5000": name}}).to_string();
        let error = found(&text, &PLACE).unwrap_err();
        assert!(error.ends_with("which cannot be the name of one"), "{name}: {error}");
    }
}

proptest! {
    #[test]
    fn no_text_is_too_strange_to_be_read(
        text in prop_oneof![
            ".{0,200}",
            "[\\[\\]{}\",:a1\\\\ ]{0,60}",
            proptest::collection::vec(any::<char>(), 0..200).prop_map(String::from_iter),
        ],
        host in ".{0,10}",
        repository in "[ab/]{0,6}",
    ) {
        let place = Place { host: &host, repository: &repository, is_plain: false };
        if let Ok(file) = LoginFile::parse(&text) {
            let _ = file.steps(&place).len();
        }
    }

    #[test]
    fn no_entry_is_too_strange_to_be_read(
        key in prop_oneof!["(https?://)?[ab:/]{0,8}", ".{0,12}"],
        auth in prop_oneof![".{0,40}", "[A-Za-z0-9+/=_-]{0,40}"],
        host in "[ab:]{0,3}",
        repository in "[ab/]{0,6}",
    ) {
        let _ = nearness(&key, &Place { host: &host, repository: &repository, is_plain: false });
        let _ = credential_of(&json!({"auth": auth, "identitytoken": null}));
    }

    #[test]
    fn what_a_login_writes_is_read_again(name in "[^:]{1,20}", password in "[^\0]{1,40}") {
        use base64::prelude::BASE64_STANDARD;
        let auth = BASE64_STANDARD.encode(format!("{name}:{password}"));
        let found = credential_of(&json!({"auth": auth}));
        prop_assert_eq!(found, Ok(Some(Credential::password(name, password))));
    }
}

#[test]
fn what_was_stored_for_an_encrypted_address_is_not_sent_to_a_plain_one() {
    let plain = Place { is_plain: true, ..PLACE };
    let host = PLACE.host;
    assert_eq!(nearness(&format!("https://{host}"), &plain), None);
    assert_eq!(nearness(&format!("https://{host}"), &PLACE), Some((0, false)));
    assert_eq!(nearness(&format!("http://{host}"), &plain), Some((0, false)));
    assert_eq!(nearness(host, &plain), Some((0, true)));
}
