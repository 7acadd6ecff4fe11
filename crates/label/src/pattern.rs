// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Labels with parts missing, by which images are searched.

use std::fmt;
use std::str::FromStr;

use cabane_report::{Kind, Report};

use crate::segment::{find, parse_segments};
use crate::text::serde_as_string;
use crate::{
    Expected, Label, LabelDefaults, Name, Namespace, ParseError, System, Tag, Uarch, Version,
};

/// A label with parts missing: `cp2k`, `/24.11`, `:v1`, `@*`, `%zen3`,
/// `build::prgenv-gnu`.
///
/// What was read has at least one part.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LabelPattern {
    /// The part of the registry, before `::`.
    pub namespace: Option<Namespace>,
    /// What it is.
    pub name: Option<Name>,
    /// After `/`.
    pub version: Option<Version>,
    /// After `:`.
    pub tag: Option<Tag>,
    /// After `@`.
    pub system: Option<SystemPattern>,
    /// After `%`.
    pub uarch: Option<Uarch>,
}

/// Which systems a pattern asks for.
///
/// This is not the same as no system at all, for which the caller may take the
/// system it runs on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SystemPattern {
    /// `@*`: every system.
    Any,
    /// `@daint`: this one.
    Is(System),
}

/// How much of a name must be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameMatch {
    /// The whole name.
    Exact,
    /// Its beginning; all other parts are compared whole.
    Prefix,
}

impl LabelPattern {
    /// Tells whether a label has all parts that this pattern asks for.
    ///
    /// The namespace is not compared: a label has none, and where an image was
    /// found is known to who looked there.
    #[must_use]
    pub fn matches(&self, label: &Label, how: NameMatch) -> bool {
        let name = |wanted: &Name| match how {
            NameMatch::Exact => *wanted == label.name,
            NameMatch::Prefix => label.name.as_str().starts_with(wanted.as_str()),
        };
        let system = |wanted: &SystemPattern| match wanted {
            SystemPattern::Any => true,
            SystemPattern::Is(system) => *system == label.system,
        };
        self.name.as_ref().is_none_or(name)
            && self.version.as_ref().is_none_or(|version| *version == label.version)
            && self.tag.as_ref().is_none_or(|tag| *tag == label.tag)
            && self.system.as_ref().is_none_or(system)
            && self.uarch.as_ref().is_none_or(|uarch| *uarch == label.uarch)
    }

    /// Makes a label for a new image of what the user typed.
    ///
    /// The name and the version must be there. A namespace and `@*` are
    /// refused: nothing can be stored under them.
    pub fn complete(&self, defaults: &LabelDefaults) -> cabane_report::Result<Label> {
        let refused =
            |message: String, hint: String| Report::new(Kind::BadInput, message).hinted(hint);
        if let Some(namespace) = &self.namespace {
            let message = format!("`{namespace}::` is a part of a registry, not of a label");
            return Err(refused(message, format!("leave out `{namespace}::`")));
        }
        let system = match &self.system {
            None => defaults.system.clone(),
            Some(SystemPattern::Is(system)) => system.clone(),
            Some(SystemPattern::Any) => {
                let message = format!("`{self}` does not name an image: `@*` means every system");
                return Err(refused(message, "name one system, as in `@daint`".to_owned()));
            }
        };
        let missing = |part: Expected| {
            let hint = "give at least `name/version`; `name/version:tag@system%uarch` is all";
            let message = format!("`{self}` does not name an image: the {part} is missing");
            refused(message, hint.to_owned())
        };
        Ok(Label {
            name: self.name.clone().ok_or_else(|| missing(Expected::Name))?,
            version: self.version.clone().ok_or_else(|| missing(Expected::Version))?,
            tag: self.tag.as_ref().unwrap_or(&defaults.tag).clone(),
            system,
            uarch: self.uarch.as_ref().unwrap_or(&defaults.uarch).clone(),
        })
    }
}

impl FromStr for LabelPattern {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let segments = parse_segments(text, Expected::LabelPattern)?;
        let get = |part| find(&segments, part);
        Ok(Self {
            namespace: get(Expected::Namespace).map(Namespace::from_checked),
            name: get(Expected::Name).map(Name::from_checked),
            version: get(Expected::Version).map(Version::from_checked),
            tag: get(Expected::Tag).map(Tag::from_checked),
            system: get(Expected::System).map(SystemPattern::from_checked),
            uarch: get(Expected::Uarch).map(Uarch::from_checked),
        })
    }
}

impl SystemPattern {
    fn from_checked(text: &str) -> Self {
        match text {
            "*" => Self::Any,
            _ => Self::Is(System::from_checked(text)),
        }
    }
}

impl fmt::Display for SystemPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Is(system) => system.fmt(f),
        }
    }
}

impl fmt::Display for LabelPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}::")?;
        }
        if let Some(name) = &self.name {
            write!(f, "{name}")?;
        }
        if let Some(version) = &self.version {
            write!(f, "/{version}")?;
        }
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(system) = &self.system {
            write!(f, "@{system}")?;
        }
        if let Some(uarch) = &self.uarch {
            write!(f, "%{uarch}")?;
        }
        Ok(())
    }
}

impl From<&Label> for LabelPattern {
    /// The pattern that matches this label only.
    fn from(label: &Label) -> Self {
        Self {
            namespace: None,
            name: Some(label.name.clone()),
            version: Some(label.version.clone()),
            tag: Some(label.tag.clone()),
            system: Some(SystemPattern::Is(label.system.clone())),
            uarch: Some(label.uarch.clone()),
        }
    }
}

serde_as_string!(LabelPattern);
