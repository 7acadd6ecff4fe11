// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The names of channels.

use std::fmt;
use std::str::FromStr;

use crate::part::check_part;
use crate::segment::namespace_length;
use crate::text::{serde_as_string, word};
use crate::{Expected, Namespace, ParseError, ParseErrorKind, System, Tag};

word! {
    /// The name of a channel: `stable`.
    ///
    /// It is a tag in lower-case letters without `.`, which separates it from a serial number.
    ChannelName, check_channel
}

fn check_channel(text: &str, part: Expected) -> Result<(), ParseError> {
    check_part(text, part)?;
    let is_odd = |one: &(usize, char)| one.1.is_ascii_uppercase() || one.1 == '.';
    match text.char_indices().find(is_odd) {
        None => Ok(()),
        Some((offset, character)) => {
            let kind = ParseErrorKind::Character { part, character };
            let hint = "use lower-case letters, digits, `-`, and `_`".to_owned();
            Err(ParseError::new(part, text, offset, kind).with_hint(Some(hint)))
        }
    }
}

impl ChannelName {
    /// Returns whether a tag is the name of this channel.
    #[must_use]
    pub fn is_tag(&self, tag: &Tag) -> bool {
        self.as_str() == tag.as_str()
    }

    /// Returns the name as a tag.
    #[must_use]
    pub fn to_tag(&self) -> Tag {
        Tag::from_checked(self.as_str())
    }
}

/// A channel as it is typed: `stable`, `deploy::stable@daint`, `stable.41`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelPattern {
    /// The part of the registry, before `::`.
    pub namespace: Option<Namespace>,
    /// The channel.
    pub name: ChannelName,
    /// An earlier state of it, after `.`.
    pub serial: Option<u64>,
    /// The system, after `@`.
    pub system: Option<System>,
}

impl FromStr for ChannelPattern {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        crate::text::check_length(text, Expected::ChannelName)?;
        let (namespace, start) = match namespace_length(text) {
            Some(length) => (Some(text[..length].parse()?), length + 2),
            None => (None, 0),
        };
        let (rest, system) = match text[start..].split_once('@') {
            Some((rest, system)) => {
                let offset = start + rest.len() + 1;
                let system: Result<System, ParseError> = system.parse();
                (rest, Some(system.map_err(|error| error.within(text, offset))?))
            }
            None => (&text[start..], None),
        };
        let (name, serial) = match rest.split_once('.') {
            Some((name, serial)) => (name, Some((serial, start + name.len() + 1))),
            None => (rest, None),
        };
        let name: Result<ChannelName, ParseError> = name.parse();
        let name = name.map_err(|error| error.within(text, start))?;
        let serial = serial.map(|(digits, offset)| {
            let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
            digits.parse::<u64>().ok().filter(|serial| is_number && *serial > 0).ok_or_else(|| {
                let problem = "a serial number is expected after `.`".to_owned();
                ParseError::new(Expected::ChannelName, text, offset, ParseErrorKind::Other(problem))
            })
        });
        Ok(Self { namespace, name, serial: serial.transpose()?, system })
    }
}

impl fmt::Display for ChannelPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}::")?;
        }
        self.name.fmt(f)?;
        if let Some(serial) = self.serial {
            write!(f, ".{serial}")?;
        }
        match &self.system {
            Some(system) => write!(f, "@{system}"),
            None => Ok(()),
        }
    }
}

serde_as_string!(ChannelPattern);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_of_a_channel_are_read_and_printed() {
        for text in ["stable", "deploy::stable", "stable.41", "deploy::stable.1@daint", "a-b_c@x.y"]
        {
            let pattern: ChannelPattern = text.parse().unwrap();
            assert_eq!(pattern.to_string(), text);
        }
    }

    #[test]
    fn texts_that_are_no_channels_are_refused_at_the_wrong_character() {
        let wrong = [
            ("", 0),
            ("Stable", 0),
            ("stAble", 2),
            ("stable.x", 7),
            ("stable.0", 7),
            ("stable.+1", 7),
            ("stable.18446744073709551616", 7),
            ("deploy::st/able", 10),
            ("stable@", 7),
            ("stable@*", 7),
            ("-stable", 0),
        ];
        for (text, position) in wrong {
            let error = text.parse::<ChannelPattern>().unwrap_err();
            assert_eq!(error.position(), position, "{text}: {error}");
        }
    }
}
