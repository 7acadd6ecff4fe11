// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Where a registry is, and which of its repositories and tags stands for a label.

use std::fmt;
use std::str::FromStr;

use cabane_label::{Label, Namespace, Tag, escape};
use cabane_report::{Kind, Report};

/// The address of a registry and the beginning of the names of its repositories:
/// `https://registry.example.org/uenv`.
///
/// Without a scheme it is `https`. Passwords in an address are refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    is_plain: bool,
    host: String,
    prefix: String,
    /// What people call it, if that is not its address.
    shown: Option<String>,
}

const EXAMPLE: &str = "an address looks like `https://registry.example.org/uenv`";

impl Address {
    /// Returns the host, and the port if there is one.
    #[must_use]
    pub fn host(&self) -> &str {
        self.shown.as_deref().unwrap_or(&self.host)
    }

    /// Makes the address of a registry that no server keeps.
    pub(crate) fn of_backing(shown: &str) -> Self {
        let (host, prefix) = ("backing".to_owned(), String::new());
        Self { is_plain: true, host, prefix, shown: Some(shown.to_owned()) }
    }

    /// Returns whether nothing is encrypted.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// Returns the scheme and the host: `https://registry.example.org`.
    pub(crate) fn origin(&self) -> String {
        format!("{}://{}", self.scheme(), self.host)
    }

    /// Returns the same address at another host, encrypted.
    pub(crate) fn encrypted_at(&self, host: &str) -> String {
        format!("https://{host}/{}", self.prefix).trim_end_matches('/').to_owned()
    }

    fn scheme(&self) -> &'static str {
        if self.is_plain { "http" } else { "https" }
    }

    /// Returns the name of a repository below the prefix.
    pub(crate) fn repository(&self, rest: &str) -> String {
        match self.prefix.as_str() {
            "" => rest.to_owned(),
            prefix => format!("{prefix}/{rest}"),
        }
    }

    /// Takes the prefix off the name of a repository.
    pub(crate) fn below_prefix<'a>(&self, repository: &'a str) -> Option<&'a str> {
        match self.prefix.as_str() {
            "" => Some(repository),
            prefix => repository.strip_prefix(prefix)?.strip_prefix('/'),
        }
    }
}

impl FromStr for Address {
    type Err = Report;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused =
            |message, hint: &str| Err(Report::new(Kind::BadInput, message).hinted(hint.to_owned()));
        let (scheme, rest) = text.split_once("://").unwrap_or(("https", text));
        let is_plain = match scheme {
            "http" => true,
            "https" => false,
            _ => {
                let message = format!("`{}` is not a way to reach a registry", escape(scheme));
                return refused(message, "begin with `https://`, or with `http://` for a test");
            }
        };
        let (host, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if host.contains('@') {
            let message = "a user or a password is no part of the address of a registry".to_owned();
            let hint = "`docker login`, `podman login`, and `--token` say who you are";
            return refused(message, hint);
        }
        if !is_host(host) {
            return refused(format!("`{}` does not name a host", escape(host)), EXAMPLE);
        }
        let prefix = prefix.trim_end_matches('/');
        let mut components = prefix.split('/').filter(|_| !prefix.is_empty());
        if let Some(component) = components.find(|component| !is_component(component)) {
            let component = escape(component);
            let message = format!("`{component}` cannot be in the name of a repository");
            return refused(message, EXAMPLE);
        }
        let (host, prefix) = (host.to_ascii_lowercase(), prefix.to_owned());
        Ok(Self { is_plain, host, prefix, shown: None })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(shown) = &self.shown {
            return f.write_str(shown);
        }
        f.write_str(&self.origin())?;
        if !self.prefix.is_empty() {
            write!(f, "/{}", self.prefix)?;
        }
        Ok(())
    }
}

/// Whether a text may be a host and a port: what is in it decides who gets a password.
fn is_host(text: &str) -> bool {
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, Some(port)),
        _ => (text, None),
    };
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port != 0);
    let is_name = |name: &str| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
        !name.is_empty() && name.bytes().all(allowed) && !name.starts_with(['-', '.'])
    };
    let inside = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let is_six = inside.is_some_and(|name| name.parse::<std::net::Ipv6Addr>().is_ok());
    (is_six || is_name(name)) && port.is_none_or(is_port)
}

/// Whether a text may be one component of the name of a repository, as the OCI distribution
/// specification has it: `[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*`.
pub(crate) fn is_component(text: &str) -> bool {
    let is_lower_or_digit = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = |end: Option<u8>| end.is_some_and(is_lower_or_digit);
    let mut between =
        text.split(|letter: char| letter.is_ascii() && is_lower_or_digit(letter as u8));
    ends(text.bytes().next())
        && ends(text.bytes().last())
        && between.all(|separator| {
            matches!(separator, "" | "." | "_" | "__") || separator.bytes().all(|byte| byte == b'-')
        })
}

/// An image's place in a registry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The part of the registry.
    pub namespace: Namespace,
    /// The label of the image.
    pub label: Label,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::{}", self.namespace, self.label)
    }
}

impl Place {
    /// Returns the name of the repository below the prefix of a registry:
    /// `namespace/system/uarch/name/version`.
    pub(crate) fn repository(&self) -> cabane_report::Result<String> {
        let Label { name, version, system, uarch, tag: _ } = &self.label;
        let parts = [
            self.namespace.as_str(),
            system.as_str(),
            uarch.as_str(),
            name.as_str(),
            version.as_str(),
        ];
        match parts.iter().find(|part| !is_component(part)) {
            Some(part) => Err(unfit(part)),
            None => Ok(parts.join("/")),
        }
    }

    /// Reads the name of a repository below the prefix, with the tag of an image in it; `None`
    /// when it is not one of images.
    pub(crate) fn of_repository(text: &str, tag: Tag) -> Option<Self> {
        let mut parts = text.split('/');
        let namespace = parts.next()?.parse().ok()?;
        let label = Label {
            system: parts.next()?.parse().ok()?,
            uarch: parts.next()?.parse().ok()?,
            name: parts.next()?.parse().ok()?,
            version: parts.next()?.parse().ok()?,
            tag,
        };
        parts.next().is_none().then_some(Self { namespace, label })
    }

    /// Returns the place of another tag in the same repository.
    pub(crate) fn with_tag(&self, tag: Tag) -> Self {
        let label = Label { tag, ..self.label.clone() };
        Self { namespace: self.namespace.clone(), label }
    }

    /// Returns the tag in that repository.
    pub(crate) fn tag(&self) -> &str {
        self.label.tag.as_str()
    }
}

/// Returns why a part of a label cannot be in the name of a repository.
fn unfit(part: &str) -> Report {
    let lower = part.to_ascii_lowercase();
    let message = format!("a registry cannot have `{part}` in the name of an image");
    Report::new(Kind::BadInput, message).hinted(if is_component(&lower) {
        format!("registries have lower-case letters only: `{lower}`")
    } else {
        "between letters and digits, `.`, `_`, `__`, and any number of `-` are allowed".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_and_a_prefix() {
        let address: Address = "https://registry.example.org:5000/uenv/".parse().unwrap();
        let parts = (address.host(), address.prefix.as_str());
        assert_eq!(parts, ("registry.example.org:5000", "uenv"));
    }

    #[test]
    fn without_a_scheme_an_address_is_encrypted() {
        let address: Address = "registry.example.org/a/b".parse().unwrap();
        assert_eq!(address.to_string(), "https://registry.example.org/a/b");
    }

    #[test]
    fn texts_that_are_no_addresses_are_refused() {
        for text in [
            "ftp://host/x",
            "https://",
            "https:///x",
            "https://name:password@host/x",
            "https://host:0",
            "https://host:70000",
            "https://ho st",
            "https://host/Upper",
            "https://host/a//b",
            "https://host/../b",
            "https://host/a?b",
            "https://host/a#b",
            "https://[::1",
            "https://host\u{7}",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }

    #[test]
    fn an_address_of_version_six_is_one() {
        assert!("http://[::1]:5000/a".parse::<Address>().is_ok());
    }

    #[test]
    fn a_label_has_a_repository_and_a_tag() {
        let place = Place {
            namespace: "deploy".parse().unwrap(),
            label: "prgenv-gnu/24.11:v2@daint%gh200".parse().unwrap(),
        };
        assert_eq!(
            (place.repository().unwrap().as_str(), place.tag()),
            ("deploy/daint/gh200/prgenv-gnu/24.11", "v2")
        );
    }

    #[test]
    fn a_repository_gives_the_label_back() {
        let repository = "deploy/daint/gh200/prgenv-gnu/24.11";
        let place = Place::of_repository(repository, "v1".parse().unwrap()).unwrap();
        assert_eq!(
            place.with_tag("v2".parse().unwrap()).to_string(),
            "deploy::prgenv-gnu/24.11:v2@daint%gh200"
        );
    }

    #[test]
    fn upper_case_letters_are_refused_with_a_hint() {
        let place = Place {
            namespace: "deploy".parse().unwrap(),
            label: "PrgEnv/24.11:v2@daint%gh200".parse().unwrap(),
        };
        let error = place.repository().unwrap_err();
        assert!(error.hints()[0].ends_with("`prgenv`"), "{:?}", error.hints());
    }

    #[test]
    fn the_grammar_of_components_is_that_of_the_specification() {
        for good in ["a", "a.b", "a_b", "a__b", "a---b", "24.11", "x86_64"] {
            assert!(is_component(good), "{good}");
        }
        for bad in ["", ".", "a..b", "a___b", "-a", "a-", "a._b", "é", "aéb", "A"] {
            assert!(!is_component(bad), "{bad}");
        }
    }
}
