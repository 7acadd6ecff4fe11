// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Names of devices: `vendor.com/class=name`.

use std::fmt;
use std::str::FromStr;

use crate::diagnostic::quote;

/// The longest vendor, in bytes: the longest name of a domain.
const LONGEST_VENDOR: usize = 253;
/// The longest class or name of a device, in bytes.
const LONGEST: usize = 63;

/// Whose device it is, and of what class: `vendor.com/class`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceKind(String);

/// The whole name of a device: `vendor.com/class=name`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceName {
    /// Whose it is, and of what class.
    pub kind: DeviceKind,
    /// Which one of them.
    pub name: String,
}

/// Which devices are wanted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeviceRequest {
    /// All that there are.
    All,
    /// None, whatever was wanted before.
    None,
    /// One, or what its vendor sells under one name.
    Named(DeviceName),
}

/// A text that is no name of a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is not the name of a device: {reason}", quote(text))]
pub struct DeviceNameError {
    text: String,
    reason: &'static str,
}

impl DeviceNameError {
    fn new(text: &str, reason: &'static str) -> Self {
        let text = text.chars().take(80).collect();
        Self { text, reason }
    }

    /// Returns what could be typed instead.
    #[must_use]
    pub fn hint(&self) -> String {
        "write it as in `nvidia.com/gpu=all`; `cabane system devices` lists those of this machine"
            .to_owned()
    }
}

impl DeviceKind {
    /// Returns the kind as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.kind, self.name)
    }
}

impl fmt::Display for DeviceRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::None => f.write_str("none"),
            Self::Named(name) => name.fmt(f),
        }
    }
}

impl FromStr for DeviceKind {
    type Err = DeviceNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = |reason| DeviceNameError::new(text, reason);
        let (vendor, class) =
            text.split_once('/').ok_or_else(|| bad("there is no `/` between vendor and class"))?;
        if !is_word(vendor, "-_.", LONGEST_VENDOR) {
            return Err(bad("the vendor is a name such as `nvidia.com`"));
        }
        if !is_word(class, "-_.", LONGEST) {
            return Err(bad("the class is a word such as `gpu`"));
        }
        Ok(Self(text.to_owned()))
    }
}

impl FromStr for DeviceName {
    type Err = DeviceNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = |reason| DeviceNameError::new(text, reason);
        let (kind, name) =
            text.split_once('=').ok_or_else(|| bad("there is no `=` before the name"))?;
        if !is_device(name) {
            return Err(bad(
                "the name has letters, digits and, between them, `-`, `_`, `.`, and `:`",
            ));
        }
        let kind: DeviceKind = kind.parse().map_err(|error: DeviceNameError| bad(error.reason))?;
        Ok(Self { kind, name: name.to_owned() })
    }
}

impl FromStr for DeviceRequest {
    type Err = DeviceNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "all" => Ok(Self::All),
            "none" => Ok(Self::None),
            _ => text.parse().map(Self::Named),
        }
    }
}

/// Tells whether a text can be the last part of the name of a device.
pub(super) fn is_device(text: &str) -> bool {
    is_word(text, "-_.:", LONGEST_VENDOR)
}

fn is_word(text: &str, between: &str, longest: usize) -> bool {
    let is_end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let is_inner = |c: char| c.is_ascii_alphanumeric() || between.contains(c);
    text.len() <= longest
        && is_end(text.chars().next())
        && is_end(text.chars().next_back())
        && text.chars().all(is_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written_the_same() {
        for text in [
            "nvidia.com/gpu=all",
            "nvidia.com/gpu=0:1",
            "vendor.com/a.b-c_d=GPU-8dcd427f",
            "all",
            "none",
        ] {
            let request: DeviceRequest = text.parse().unwrap();
            assert_eq!(request.to_string(), text);
        }
    }

    #[test]
    fn other_texts_are_refused_with_what_is_wrong() {
        let reason = |text: &str| text.parse::<DeviceRequest>().unwrap_err().reason;
        assert_eq!(
            [
                "gpu",
                "gpu=0",
                "nvidia.com/gpu=",
                "/gpu=0",
                "nvidia.com/=0",
                "a/b/c=0",
                "nvidia.com/gpu=-1",
                "nvidia.com/gpu=a b",
            ]
            .map(reason)
            .map(|reason| reason.split(' ').take(5).collect::<Vec<_>>().join(" ")),
            [
                "there is no `=` before",
                "there is no `/` between",
                "the name has letters, digits",
                "the vendor is a name",
                "the class is a word",
                "the class is a word",
                "the name has letters, digits",
                "the name has letters, digits",
            ]
        );
    }
}
