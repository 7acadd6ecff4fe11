// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The terms that messages use for what a text should have been.

use std::fmt;

/// What a text, or a part of it, was meant to be.
///
/// The parts of a label are in the order in which they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Expected {
    /// `deploy::`, the part of a registry.
    Namespace,
    /// The first part of a label.
    Name,
    /// `/24.11`
    Version,
    /// `:v1`
    Tag,
    /// `@daint`
    System,
    /// `%gh200`
    Uarch,
    /// A label with all five parts.
    Label,
    /// A label with parts missing.
    LabelPattern,
    /// The 64 digits of an image.
    Digest,
    /// The 16 digits of an image.
    ImageId,
    /// Where an image is mounted.
    MountPoint,
    /// The path of an image.
    Path,
    /// A label, an id, a digest or a path.
    Image,
    /// An image, maybe with a mount point.
    Uenv,
    /// Several of them, separated by commas.
    UenvList,
    /// `stable`, the name of a channel.
    ChannelName,
    /// The name of a view.
    ViewName,
    /// `view` or `uenv:view`
    View,
    /// Several of them, separated by commas.
    ViewList,
    /// `hdf5@1.14: +mpi`, a package that is looked for.
    Package,
    /// `+mpi` or `languages=c,c++`
    Variant,
    /// What stands after `=`.
    Value,
    /// `%gcc@13`
    Compiler,
    /// `/abc123`
    Hash,
}

impl Expected {
    /// Returns the word with its article: `a label`, `an image id`.
    #[must_use]
    pub fn with_article(self) -> &'static str {
        match self {
            Self::Namespace => "a namespace",
            Self::Name => "a name",
            Self::Version => "a version",
            Self::Tag => "a tag",
            Self::System => "a system",
            Self::Uarch => "a uarch",
            // Users type both, and call both by one word.
            Self::Label | Self::LabelPattern => "a label",
            Self::Digest => "a digest",
            Self::ImageId => "an image id",
            Self::MountPoint => "a mount point",
            Self::Path => "a path",
            Self::Image => "an image",
            Self::Uenv => "a uenv",
            Self::UenvList => "a list of uenvs",
            Self::ChannelName => "a channel",
            Self::ViewName => "the name of a view",
            Self::View => "a view",
            Self::ViewList => "a list of views",
            Self::Package => "a package",
            Self::Variant => "a variant",
            Self::Value => "a value",
            Self::Compiler => "a compiler",
            Self::Hash => "a hash",
        }
    }

    /// Returns the word as it is in a label, with its separator.
    pub(crate) fn in_label(self) -> &'static str {
        match self {
            Self::Namespace => "namespace::",
            Self::Version => "/version",
            Self::Tag => ":tag",
            Self::System => "@system",
            Self::Uarch => "%uarch",
            _ => "name",
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let term = self.with_article();
        let article = term.find(' ').map_or(0, |space| space + 1);
        f.write_str(&term[article..])
    }
}
