// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! netrc files, as curl reads them.
//!
//! Tokens are separated by blanks and ends of lines, a value may be in double quotes, and a
//! token that begins with `#` begins a comment. Other than in curl, a machine that is written
//! with a port is only that port, a macro may be inside the tokens of a machine, and a
//! password without a name is none.

use std::path::Path;

use cabane_label::shown;
use cabane_report::{Kind, Report, Result};

use super::{Credential, read};

/// Finds what a netrc file has for a host, which may have a port.
pub(super) fn find(path: &Path, host: &str) -> Result<Option<Credential>> {
    let Some(text) = read::text_if_there(path)? else {
        return Ok(None);
    };
    let entries = entries(&text).map_err(|line| {
        let message = format!("line {line} of {} has a quote that does not end", shown(path));
        let hint = "a value that begins with \" must end with one; \\\" stands for a quote inside";
        Report::new(Kind::Failure, message).hinted(hint.to_owned())
    })?;
    Ok(choose(&entries, host))
}

/// What a file says about one machine, or about all others.
#[derive(Default)]
struct Entry {
    machine: Option<String>,
    login: Option<String>,
    password: Option<String>,
}

impl Entry {
    fn is_for(&self, host: &str) -> bool {
        let machine = self.machine.as_deref();
        machine.is_some_and(|machine| machine.eq_ignore_ascii_case(host))
    }

    fn credential(&self) -> Option<Credential> {
        let (login, password) = (self.login.as_ref()?, self.password.as_ref()?);
        Some(Credential::password(login, password))
    }
}

/// The first entry that has a name and a password, for the port before the host.
fn choose(entries: &[Entry], host: &str) -> Option<Credential> {
    let name = without_port(host);
    let exact = entries.iter().filter(|entry| entry.is_for(host));
    let others = entries.iter().filter(|entry| entry.machine.is_none() || entry.is_for(name));
    exact.chain(others).find_map(Entry::credential)
}

/// The host of `host:port`. One without a port is found whole before this is looked at.
fn without_port(host: &str) -> &str {
    host.rsplit_once(':').map_or(host, |(name, _)| name)
}

/// What the next token is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Awaited {
    Keyword,
    Machine,
    Login,
    Password,
    Account,
    Macro,
}

/// Reads a file; the error is the line of a quote that does not end.
fn entries(text: &str) -> Result<Vec<Entry>, usize> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut awaited = Awaited::Keyword;
    let mut is_macro = false;
    for (index, line) in text.lines().enumerate() {
        if is_macro {
            is_macro = !line.trim().is_empty();
            continue;
        }
        let mut rest = line;
        while let Some(token) = take_token(&mut rest).map_err(|()| index + 1)? {
            match awaited {
                Awaited::Keyword => {
                    awaited = meaning(&token, !entries.is_empty());
                    if token.eq_ignore_ascii_case("default") {
                        entries.push(Entry::default());
                    }
                    continue;
                }
                Awaited::Machine => {
                    entries.push(Entry { machine: Some(token), ..Entry::default() });
                }
                Awaited::Login => set(&mut entries, |entry| entry.login = Some(token)),
                Awaited::Password => set(&mut entries, |entry| entry.password = Some(token)),
                Awaited::Account => {}
                Awaited::Macro => is_macro = true,
            }
            awaited = Awaited::Keyword;
        }
    }
    Ok(entries)
}

/// Tokens that mean nothing are passed over, as are those of an entry outside of any.
fn meaning(token: &str, is_in_entry: bool) -> Awaited {
    match token.to_ascii_lowercase().as_str() {
        "machine" => Awaited::Machine,
        "macdef" => Awaited::Macro,
        "login" if is_in_entry => Awaited::Login,
        "password" if is_in_entry => Awaited::Password,
        "account" if is_in_entry => Awaited::Account,
        _ => Awaited::Keyword,
    }
}

/// Changes the last entry, until it has both a name and a password: what comes then is no
/// part of it.
fn set(entries: &mut [Entry], change: impl FnOnce(&mut Entry)) {
    let last = entries.last_mut();
    if let Some(entry) = last.filter(|entry| entry.login.is_none() || entry.password.is_none()) {
        change(entry);
    }
}

/// Takes the next token off a line, up to a comment; the error is a quote that does not end.
fn take_token(line: &mut &str) -> Result<Option<String>, ()> {
    let rest = line.trim_start_matches(is_blank);
    if rest.is_empty() || rest.starts_with('#') {
        return Ok(None);
    }
    let (token, rest) = if let Some(inside) = rest.strip_prefix('"') {
        unquote(inside).ok_or(())?
    } else {
        let (token, rest) = rest.split_at(rest.find(is_blank).unwrap_or(rest.len()));
        (token.to_owned(), rest)
    };
    *line = rest;
    Ok(Some(token))
}

fn is_blank(character: char) -> bool {
    character <= ' '
}

/// Returns what is between two quotes, and what follows the second.
fn unquote(inside: &str) -> Option<(String, &str)> {
    let mut text = String::new();
    let mut characters = inside.chars();
    loop {
        match characters.next()? {
            '"' => return Some((text, characters.as_str())),
            '\\' => text.push(match characters.next()? {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                other => other,
            }),
            other => text.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `name:password` for a host, or nothing.
    fn found(text: &str, host: &str) -> Option<String> {
        match choose(&entries(text).unwrap(), host)? {
            Credential::Password { username, password } => {
                Some(format!("{username}:{}", password.reveal()))
            }
            _ => None,
        }
    }

    fn check(table: &[(&str, Option<&str>)]) {
        for (text, expected) in table {
            let found = found(text, "registry.example:5000");
            assert_eq!(found.as_deref(), *expected, "{text:?}");
        }
    }

    #[test]
    fn tokens_may_be_on_one_line_or_on_several() {
        check(&[
            ("machine registry.example login me password pw", Some("me:pw")),
            ("machine registry.example\n\tlogin me\n\tpassword pw\n", Some("me:pw")),
            ("machine\nregistry.example\r\npassword\r\npw\r\nlogin\r\nme\r\n", Some("me:pw")),
            ("MACHINE Registry.Example LOGIN me PASSWORD pw", Some("me:pw")),
            ("machine registry.example login me account x password pw", Some("me:pw")),
            ("machine registry.example login login password password", Some("login:password")),
            ("machine registry.example unknown login me password pw", Some("me:pw")),
            ("", None),
            ("machine", None),
            ("login me password pw", None),
            ("login machine registry.example login me password pw", Some("me:pw")),
        ]);
    }

    #[test]
    fn a_password_is_for_its_machine_and_for_no_other() {
        check(&[
            ("machine other.example login me password pw", None),
            ("machine example login me password pw", None),
            ("machine registry.example.evil login me password pw", None),
            ("machine registry.example:443 login me password pw", None),
            (
                "machine other.example login a password b machine registry.example login me password pw",
                Some("me:pw"),
            ),
            ("machine registry.example login me machine other.example password pw", None),
        ]);
    }

    #[test]
    fn a_machine_with_a_port_comes_before_one_without() {
        check(&[
            (
                "machine registry.example login a password b\n\
                 machine registry.example:5000 login me password pw",
                Some("me:pw"),
            ),
            (
                "machine registry.example login first password a\n\
                 machine registry.example login second password b",
                Some("first:a"),
            ),
        ]);
    }

    #[test]
    fn the_default_is_for_those_that_are_not_named() {
        check(&[
            ("default login me password pw", Some("me:pw")),
            (
                "machine registry.example login me password pw\ndefault login a password b",
                Some("me:pw"),
            ),
            (
                "machine other.example login a password b\ndefault login me password pw",
                Some("me:pw"),
            ),
            ("machine registry.example login a\ndefault login me password pw", Some("me:pw")),
        ]);
    }

    #[test]
    fn a_quoted_value_may_have_everything_in_it() {
        check(&[
            (
                r##"machine registry.example login "me too" password "#p \"w\" \\ \t.""##,
                Some("me too:#p \"w\" \\ \t."),
            ),
            (r#"machine "registry.example" login me password """#, Some("me:")),
            (r#"machine registry.example login me password p"w"#, Some("me:p\"w")),
        ]);
    }

    #[test]
    fn what_follows_a_hash_is_a_comment() {
        check(&[
            (
                "# machine registry.example login a password b\n\
                 machine registry.example # login a\n  login me password p#w # password b",
                Some("me:p#w"),
            ),
            ("machine registry.example login me password #pw\npw", Some("me:pw")),
        ]);
    }

    #[test]
    fn the_first_name_and_password_that_are_complete_are_taken() {
        check(&[
            ("machine registry.example login me password pw password b login a", Some("me:pw")),
            ("machine registry.example login a login me password pw", Some("me:pw")),
        ]);
    }

    #[test]
    fn a_macro_ends_at_an_empty_line() {
        check(&[
            (
                "macdef init\ncd a\nmachine registry.example login a password b\n\n\
                 machine registry.example login me password pw",
                Some("me:pw"),
            ),
            (
                "machine registry.example login me password pw\nmacdef init\npassword b\n",
                Some("me:pw"),
            ),
            (
                "machine registry.example login me macdef init\npassword b\n\r\npassword pw",
                Some("me:pw"),
            ),
        ]);
    }

    #[test]
    fn an_address_in_brackets_keeps_its_colons() {
        let text = "machine [::1] login me password pw";
        for host in ["[::1]", "[::1]:5000"] {
            assert_eq!(found(text, host).as_deref(), Some("me:pw"), "{host}");
        }
    }

    #[test]
    fn an_open_quote_is_named_by_its_line_and_not_shown() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("netrc");
        std::fs::write(&path, "machine a login b\npassword \"hunter2\n").unwrap();
        let error = find(&path, "a").unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("line 2 of {} has a quote that does not end", path.display())
        );
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange_to_be_read(
            text in prop_oneof![
                ".{0,200}",
                "((machine|default|login|password|account|macdef|a|b:1|\"|\\\\|#|\"c d\")[ \n]{0,2}){0,30}",
                proptest::collection::vec(any::<char>(), 0..200).prop_map(String::from_iter),
            ],
            host in prop_oneof!["[ab:.1\\[\\]]{0,8}", ".{0,10}"],
        ) {
            if let Ok(entries) = entries(&text) {
                let _ = choose(&entries, &host);
            }
        }

        #[test]
        fn every_password_can_be_written_in_quotes(password in ".{1,40}") {
            // A quoted value ends at the end of its line at the latest.
            let quoted = password
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n")
                .replace('\r', "\\r");
            let text = format!("machine a login b password \"{quoted}\"");
            prop_assert_eq!(found(&text, "a"), Some(format!("b:{password}")));
        }
    }
}
