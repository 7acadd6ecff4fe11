// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The part of `config.toml` about channels: whose signature their documents must have, and what an
//! image must fulfill to be promoted.

use std::time::Duration;

use cabane_label::{ChannelName, Namespace};

use super::PathTemplate;
use super::read::amount;
use super::sections::sections;
use super::values::{number_from_one, path_template};
use super::{Labels, parse_time};
use crate::ask::{Field, Section, each};
use crate::diagnostic::quote;

/// A channel that a configuration file names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelRule {
    /// The channel.
    pub name: ChannelName,
    /// The part of the registry; that of the configuration if none is named.
    pub namespace: Option<Namespace>,
    /// Files with public keys, at least one. One of them must have signed each document.
    pub keys: Vec<PathTemplate>,
    /// What happens when a document has expired.
    pub expired: Labels,
    /// The lowest serial number that is accepted, where none was seen.
    pub minimum_serial: u64,
    /// What an image must fulfill to be promoted.
    pub gate: GateRules,
}

/// What an image must fulfill to be promoted to a channel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GateRules {
    /// It has a signature, for its label, that was made with one of these keys.
    pub signed_by: Vec<PathTemplate>,
    /// It is in this channel.
    pub from: Option<ChannelName>,
    /// It has been there for so long.
    pub age: Option<Duration>,
    /// Its checks passed within this time.
    pub tested_within: Option<Duration>,
    /// It was built from a recipe in one of these Git repositories; `*` is any recipe.
    pub built_from: Vec<String>,
    /// What happens if a figure of its checks is worse than that of the image that the channel releases.
    pub regressions: Option<Regressions>,
    /// Files with facts of hosts, on each of which it runs.
    pub runs_on: Vec<PathTemplate>,
    /// The suites of `ReFrame` that its newest results have.
    pub suites: Vec<String>,
}

/// What happens to an image with figures that are worse than those of the released image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Regressions {
    /// They are shown.
    Report,
    /// It is not promoted.
    Refuse,
    /// It is not promoted, and neither is one whose figures cannot be compared.
    RefuseUnknown,
}

impl Regressions {
    fn read(field: &Field<'_>) -> Option<Self> {
        field.choice(&[
            ("report", Self::Report),
            ("refuse", Self::Refuse),
            ("refuse-unknown", Self::RefuseUnknown),
        ])
    }
}

/// Reads the channels of a file; one with a mistake has been noted.
pub(super) fn read(file: &Section<'_>) -> Vec<ChannelRule> {
    let mut rules: Vec<ChannelRule> = Vec::new();
    for section in sections(file, "channel", "a channel") {
        let name = section.require("name", "add a line such as `name = \"stable\"`");
        let channel = name.as_ref().and_then(Field::word::<ChannelName>);
        let namespace = section.optional("namespace", Field::word::<Namespace>);
        let keys = keys(&section);
        let expired = section.given_or("expired", Labels::default(), Labels::read);
        let minimum_serial = section.given_or("minimum_serial", 0, |field| {
            let hint = "write the serial number that `cabane channel show` prints";
            number_from_one(field, hint).map(|number| u64::from(number.get()))
        });
        let gate = gate(&section);
        let (Some(name), Some(channel), Some(namespace)) = (name, channel, namespace) else {
            continue;
        };
        if rules.iter().any(|known| known.name == channel && known.namespace == namespace) {
            let message = format!("there are two channels {}", quote(channel.as_str()));
            let hint = "several keys for one channel are in the list `keys`";
            file.report.problem_with_hint(name.place(), &message, hint);
        } else if let (Some(keys), Some(expired), Some(minimum_serial), Some(gate)) =
            (keys, expired, minimum_serial, gate)
        {
            rules.push(ChannelRule {
                name: channel,
                namespace,
                keys,
                expired,
                minimum_serial,
                gate,
            });
        }
    }
    rules
}

fn keys(section: &Section<'_>) -> Option<Vec<PathTemplate>> {
    let example = "add a line such as `keys = [\"/etc/cabane/keys/release.pub\"]`";
    let keys = section.require("keys", example)?;
    let items = keys.items("a key")?;
    if items.is_empty() {
        return keys.refuse("a channel without keys cannot be trusted", example);
    }
    each(items, |item| path_template(&item))
}

fn gate(section: &Section<'_>) -> Option<GateRules> {
    let signed_by = list(section, "signed_by", "a key", path_template)?;
    let from = section.optional("from", Field::word::<ChannelName>)?;
    let age = section.optional("age", |field| amount(field, parse_time))?;
    if let (Some(field), None) = (section.get("age"), &from) {
        let hint = "add a line such as `from = \"testing\"`";
        return section.report.refuse(field.key_place, "`age` counts in another channel", hint);
    }
    let tested_within = section.optional("tested_within", |field| amount(field, parse_time))?;
    let built_from = list(section, "built_from", "an address", source)?;
    // Each mistake is named, not only the first one.
    let regressions = section.optional("regressions", Regressions::read);
    let runs_on = list(section, "runs_on", "a file", path_template);
    let suites = list(section, "suites", "a suite", suite);
    Some(GateRules {
        signed_by,
        from,
        age,
        tested_within,
        built_from,
        regressions: regressions?,
        runs_on: runs_on?,
        suites: suites?,
    })
}

/// Reads a list; an empty one if it is not there.
fn list<T>(
    section: &Section<'_>,
    key: &str,
    name: &str,
    read: fn(&Field<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    match section.get(key) {
        Some(field) => each(field.items(name)?, |item| read(&item)),
        None => Some(Vec::new()),
    }
}

/// The name of a suite, which is that of a directory.
fn suite(field: &Field<'_>) -> Option<String> {
    let is_name = |text: &str| {
        !matches!(text, "" | "." | "..") && !text.contains(|c: char| c == '/' || c.is_control())
    };
    let hint = "write the name of its directory, such as `hpc-tests` for `~/hpc-tests`";
    field.text_if(is_name, "is not a valid name of a suite", hint)
}

/// The address of a Git repository, or `*`.
fn source(field: &Field<'_>) -> Option<String> {
    let is_address = |text: &str| {
        let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("ssh://"));
        let is_usual = |c: char| c.is_ascii_graphic() && c != '@';
        text == "*" || rest.is_some_and(|rest| rest.contains('/') && rest.chars().all(is_usual))
    };
    let hint = "write an address such as `https://github.com/eth-cscs/alps-uenv`, or `*` for any";
    field.text_if(is_address, "is no address of a Git repository", hint)
}
