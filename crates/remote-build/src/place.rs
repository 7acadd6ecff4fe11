// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Where a build runs, as it is typed.

use std::fmt;
use std::str::FromStr;

use cabane_label::escape;
use cabane_report::{Kind, Report};
use serde::{Deserialize, Serialize};

/// Where a build runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Place {
    /// In a job of Slurm, in a partition if one is named.
    Slurm(Option<String>),
    /// On a host, named as for `ssh`.
    Host(String),
}

impl FromStr for Place {
    type Err = Report;

    /// Reads `slurm`, `slurm:PARTITION`, `HOST`, or `ssh:HOST`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "slurm" {
            return Ok(Self::Slurm(None));
        }
        if let Some(partition) = text.strip_prefix("slurm:") {
            let is_part = |c: char| c.is_ascii_alphanumeric() || "_-.,".contains(c);
            if partition.is_empty() || !partition.chars().all(is_part) {
                let message = format!("`{}` is not a Slurm partition", escape(partition));
                return Err(Report::new(Kind::Usage, message).hinted(
                    "`sinfo` lists the partitions; `--on ssh:HOST` names a host".to_owned(),
                ));
            }
            return Ok(Self::Slurm(Some(partition.to_owned())));
        }
        host(text).map(Self::Host)
    }
}

/// Reads the name of a host, as `ssh` takes it; `ssh:` may come before it.
///
/// # Errors
///
/// It is none.
pub fn host(text: &str) -> Result<String, Report> {
    let is_address = text.starts_with("ssh://");
    let host = if is_address { text } else { text.strip_prefix("ssh:").unwrap_or(text) };
    // `ssh` would read it as an option, or the shell would misread it.
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_-.@:%[]/".contains(c);
    let is_host = host.starts_with(|c: char| c.is_ascii_alphanumeric() || "_[:".contains(c))
        && host.chars().all(is_part)
        && !host.contains("@-")
        && !host.contains("/-")
        && (is_address || !host.contains('/'));
    if !is_host {
        let message = format!("`{}` is not a host", escape(host));
        return Err(Report::new(Kind::Usage, message).hinted(
            "write HOST, USER@HOST, or a name from `~/.ssh/config`; `--on slurm` builds in a job"
                .to_owned(),
        ));
    }
    Ok(host.to_owned())
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slurm(None) => f.write_str("slurm"),
            Self::Slurm(Some(partition)) => write!(f, "slurm:{partition}"),
            Self::Host(host) if host == "slurm" || host.starts_with("slurm:") => {
                write!(f, "ssh:{host}")
            }
            Self::Host(host) => f.write_str(host),
        }
    }
}

impl TryFrom<String> for Place {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse().map_err(|error: Report| error.to_string())
    }
}

impl From<Place> for String {
    fn from(place: Place) -> Self {
        place.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slurm_and_a_host_of_that_name_are_two_places() {
        let parse = |text: &str| text.parse::<Place>().unwrap();
        assert_eq!(parse("slurm"), Place::Slurm(None));
        assert_eq!(parse("slurm:gpu"), Place::Slurm(Some("gpu".to_owned())));
        assert_eq!(parse("ssh:slurm"), Place::Host("slurm".to_owned()));
        assert_eq!(parse("ssh:::1"), Place::Host("::1".to_owned()));
        assert_eq!(parse("me@eiger"), Place::Host("me@eiger".to_owned()));
        assert_eq!(parse("ssh://me@eiger:2222"), Place::Host("ssh://me@eiger:2222".to_owned()));
        for text in ["slurm", "slurm:gpu", "ssh:slurm", "eiger", "ssh://me@eiger:2222"] {
            assert_eq!(parse(text).to_string(), text);
        }
    }

    #[test]
    fn what_ssh_or_a_shell_would_misread_is_no_host() {
        for text in [
            "-oProxyCommand=x",
            "ssh:-v",
            "me@-v",
            "ssh://-v",
            "a b",
            "a;b",
            "$(x)",
            "a\nb",
            "",
            "a/b",
        ] {
            assert!(text.parse::<Place>().is_err(), "{text}");
        }
        assert!("slurm:".parse::<Place>().is_err() && "slurm:a b".parse::<Place>().is_err());
    }
}
