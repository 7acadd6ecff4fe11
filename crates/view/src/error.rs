// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Why metadata was refused, and at which place in the file.

use cabane_label::{ParseError, escape};

/// Metadata that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {kind}")]
pub struct MetaError {
    /// The reason.
    pub kind: MetaErrorKind,
    /// The line of the file, from 1.
    pub line: usize,
    /// The character in this line, from 1.
    pub column: usize,
}

/// The reason why metadata was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetaErrorKind {
    /// The file is larger than [`crate::Meta::MAX_SIZE`].
    #[error("the file has {bytes} bytes, and at most {limit} are read")]
    TooLarge {
        /// How many bytes it has.
        bytes: usize,
        /// How many it may have.
        limit: u64,
    },
    /// The file is not text.
    #[error("the file is not UTF-8")]
    NotUtf8,
    /// The file is not JSON.
    #[error("the file is not JSON: {}", escape(message))]
    NotJson {
        /// What the JSON parser said.
        message: String,
    },
    /// Objects and arrays inside of each other, without end.
    #[error("values are nested more than {limit} deep")]
    TooDeep {
        /// How deep they may be.
        limit: usize,
    },
    /// A value has the wrong type.
    #[error("{} must be {expected}", escape(what))]
    WrongType {
        /// Which value.
        what: String,
        /// What it should be, with an article.
        expected: &'static str,
    },
    /// An object lacks a key.
    #[error("{} lacks `{key}`", escape(what))]
    Missing {
        /// Which object.
        what: String,
        /// The key.
        key: &'static str,
    },
    /// An object has the same key twice, so that its meaning depends on who
    /// reads it.
    #[error("{} has `{}` twice", escape(what), escape(key))]
    Duplicate {
        /// Which object.
        what: String,
        /// The key.
        key: String,
    },
    /// A list operation no one knows.
    #[error(
        "`{}` is not an operation on `{}`: it is `set`, `prepend`, `append` or `unset`",
        escape(operation),
        escape(variable)
    )]
    UnknownOperation {
        /// The variable to be changed.
        variable: String,
        /// What was to be done to it.
        operation: String,
    },
    /// A name that no variable can have.
    #[error("`{}` cannot be the name of a variable", escape(name))]
    VariableName {
        /// The name.
        name: String,
    },
    /// A text with a NUL in it, which no variable and no path can hold.
    #[error("{} contains a NUL character", escape(what))]
    Nul {
        /// Which text.
        what: String,
    },
    /// `mount` is not a mount point.
    #[error("{reason}")]
    MountPoint {
        /// Why it is none.
        reason: ParseError,
    },
    /// The name of a view is not a name.
    #[error("{reason}")]
    ViewName {
        /// Why it is none.
        reason: ParseError,
    },
    /// `default-view` names a view that does not exist.
    #[error("the default view `{}` is not one of the views", escape(name))]
    UnknownDefaultView {
        /// The name.
        name: String,
    },
    /// A part of the file was written in a form that is not known yet.
    #[error("{} has version {}, and only version 1 is known", escape(what), escape(found))]
    UnknownVersion {
        /// Which part.
        what: String,
        /// The version as it is written there.
        found: String,
    },
}
