// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Channels of a registry: which images are released, as a signed document says.
//!
//! [`read_channel`] gets the document and applies the rules of clients; [`ChannelDocument::released`]
//! finds the image for a label such as `prgenv-gnu:stable`. The design is in
//! `docs/design/0015-channels.md`.

#![forbid(unsafe_code)]

mod changes;
mod document;
mod lookup;
mod memory;
mod read;
mod revoked;
mod verified;

pub use changes::{Change, changes};
pub use document::{
    ChannelDocument, Entry, MAX_REASON, Retirement, Revocation, State, Waiver, today,
};
pub use lookup::{channel_of, place_of, setting_of};
pub use memory::{Memory, Seen};
pub use read::{Newest, PUBLISHING, current_document, document_of, newest, read_channel};
pub use revoked::known_revocation;
pub use verified::{VerifiedChannel, channel_keys};
