// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Labels, patterns, digests, systems: parsed and printed.
//!
//! This crate defines the names of images. It reads them from
//! text, says at which character a text is wrong, and prints them again. It
//! does no I/O, knows no repository, and never decides which image is meant.

#![forbid(unsafe_code)]

mod channel;
mod corruption;
mod description;
mod digest;
mod error;
mod escape;
mod expected;
mod label;
mod list;
mod mount_point;
mod part;
mod pattern;
mod segment;
mod text;
mod version;

pub use channel::{ChannelName, ChannelPattern};
pub use corruption::corrupt_sum;
pub use description::{
    ImageDescription, UenvDescription, container_in, import_command, is_container, parse_uenv_list,
};
pub use digest::{Digest, ImageId};
pub use error::{ParseError, ParseErrorKind};
pub use escape::{enumerate, escape, escape_html, shown, shown_word};
pub use expected::Expected;
pub use label::{Label, LabelDefaults};
pub use list::parse_list;
pub use mount_point::MountPoint;
pub use part::{MAX_PART_LENGTH, Name, Namespace, System, Tag, Uarch, Version, ViewName};
pub use pattern::{LabelPattern, NameMatch, SystemPattern};
pub use text::MAX_TEXT_LENGTH;
