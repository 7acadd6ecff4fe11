// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What changes: a version, a library, a host, or what is known about a package.

use std::fmt;

use cabane_label::escape;
use cabane_report::{Kind, Report, Result};
use cabane_view::PackagePattern;

use crate::HostFacts;

/// A change.
#[derive(Clone, Debug)]
pub enum Change {
    /// Software of the host gets another version.
    Version {
        /// `glibc`, `python`, `nvidia-driver`, or a package as Spack calls it.
        name: String,
        /// The new version.
        version: String,
    },
    /// A library of the host disappears.
    Removed {
        /// Its soname.
        soname: String,
    },
    /// The host becomes another one.
    Host {
        /// What it has.
        facts: Box<HostFacts>,
        /// What it has at present, if only what changes counts.
        from: Option<Box<HostFacts>>,
    },
    /// A container image is not to be built upon any more.
    Base {
        /// Its name, or the end of it, or a digest of it.
        name: String,
        /// The digest that replaces it; images made from that one are not affected.
        newest: Option<String>,
    },
    /// A package must not be used any more.
    Package {
        /// Which one.
        pattern: PackagePattern,
    },
}

impl Change {
    /// Software of the host that is no package of Spack.
    pub const SOFTWARE: [&str; 3] = ["glibc", "nvidia-driver", "python"];

    /// Reads `NAME=VERSION`.
    ///
    /// # Errors
    ///
    /// A text that is no such change, with a hint.
    pub fn version(text: &str) -> Result<Self> {
        let refuse = |message: String, hint: &str| {
            Err(Report::new(Kind::Usage, message).hinted(hint.to_owned()))
        };
        let Some((name, version)) = text.split_once('=') else {
            let message = format!("invalid value `{text}` for `--change`");
            return refuse(message, "write NAME=VERSION, such as `--change glibc=2.31`");
        };
        let is_version = version.starts_with(|first: char| first.is_ascii_digit());
        let is_number = |part: &str| !part.is_empty() && part.parse::<u32>().is_ok();
        if name.contains(".so") {
            let message =
                format!("`{name}` in `--change` is a library, and libraries have no version");
            return refuse(message, "for a library that disappears, use `--remove`");
        }
        if name.is_empty() || !is_version {
            let message = format!("invalid version `{version}` in `--change {text}`");
            return refuse(message, "write NAME=VERSION, such as `--change glibc=2.31`");
        }
        if ["glibc", "python"].contains(&name) && !version.split('.').take(2).all(is_number)
            || name == "glibc" && !version.contains('.')
        {
            let message = format!("invalid version `{version}` of `{name}`");
            return refuse(message, "write two numbers, such as `glibc=2.31` or `python=3.11`");
        }
        Ok(Self::Version { name: name.to_owned(), version: version.to_owned() })
    }

    /// Reads the name of a container image, its digest, or `NAME@NEWDIGEST`.
    ///
    /// # Errors
    ///
    /// A text that is none, with a hint.
    pub fn base(text: &str) -> Result<Self> {
        let is_digest = |text: &str| {
            let digits = text.strip_prefix("sha256:").unwrap_or_default();
            digits.len() == 64 && digits.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'))
        };
        let (name, newest) = match text.split_once('@') {
            Some((name, newest)) => (name, Some(newest)),
            None => (text, None),
        };
        let is_usual = |c: char| c.is_ascii_alphanumeric() || "-_./:".contains(c);
        let is_name = !name.is_empty() && name.chars().all(is_usual);
        if !is_name || newest.is_some_and(|newest| !is_digest(newest)) {
            let message = format!("invalid value `{}` for `--base`", escape(text));
            let hint = "write the name of a container image, such as `debian:13`, a digest, or \
                        `debian:13@sha256:…` with the digest of the new one";
            return Err(Report::new(Kind::Usage, message).hinted(hint.to_owned()));
        }
        Ok(Self::Base { name: name.to_owned(), newest: newest.map(str::to_owned) })
    }

    /// Reads the soname of a library.
    ///
    /// # Errors
    ///
    /// A text that is none, with a hint.
    pub fn removed(text: &str) -> Result<Self> {
        let name = text.rsplit('/').next().unwrap_or(text);
        if !name.contains(".so") {
            let message = format!("`{text}` in `--remove` is not the name of a shared library");
            let hint = "write the name that programs need, such as `--remove libibverbs.so.1`";
            return Err(Report::new(Kind::Usage, message).hinted(hint.to_owned()));
        }
        Ok(Self::Removed { soname: name.to_owned() })
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version { name, version } => write!(f, "{name}={version}"),
            Self::Removed { soname } => write!(f, "without {soname}"),
            Self::Host { facts, .. } => match &facts.operating_system {
                Some(name) => write!(f, "host with {name}"),
                None => write!(f, "host"),
            },
            Self::Base { name, newest: None } => write!(f, "base {name} is replaced"),
            Self::Base { name, newest: Some(newest) } => write!(f, "base {name}@{newest}"),
            Self::Package { pattern } => write!(f, "package {pattern}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_a_name_and_a_version() {
        assert_eq!(Change::version("glibc=2.31").unwrap().to_string(), "glibc=2.31");
        assert_eq!(Change::version("libfabric=2.1.0").unwrap().to_string(), "libfabric=2.1.0");
    }

    #[test]
    fn a_base_has_a_name_or_a_digest() {
        let digest = format!("sha256:{}", "ab".repeat(32));
        for text in ["debian:13", "registry.example.org/library/debian:13", &digest] {
            assert_eq!(Change::base(text).unwrap().to_string(), format!("base {text} is replaced"));
        }
        let newest = Change::base(&format!("debian:13@{digest}")).unwrap();
        assert_eq!(newest.to_string(), format!("base debian:13@{digest}"));
        for text in ["", "@", "a b", "debian@", "debian:13@sha256:ab", "debian:13@latest"] {
            assert!(Change::base(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_no_change_is_refused() {
        for text in
            ["glibc", "glibc=", "=2.31", "glibc=new", "glibc=2", "python=3.x", "libz.so.1=1"]
        {
            assert!(Change::version(text).is_err(), "{text}");
        }
        assert!(Change::removed("libibverbs").is_err());
        assert_eq!(
            Change::removed("/usr/lib64/libz.so.1").unwrap().to_string(),
            "without libz.so.1"
        );
    }
}
