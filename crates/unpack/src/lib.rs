// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images that root unpacks on a node. Equal files are hard links of one file, so that they are in the
//! page cache once, whatever image they are read from.
//!
//! ```text
//! STORE/lock                 held by whoever changes the store
//! STORE/objects/AB/…         one file for each content, mode, and time of a file
//! STORE/trees/SHA256/tree/   the files of an image: hard links of objects
//! STORE/trees/SHA256/record  its label and sizes, in JSON
//! STORE/staging/             what is being unpacked; the next run removes what a killed one leaves
//! STORE/removed/             trees that were removed while a process used them
//! ```
//!
//! Everyone can reach the trees. So every file belongs to root, no one else can write to it, and no
//! file has more rights than the ordinary ones. `docs/design/0030-stored-once.md` has the reasons.

#![forbid(unsafe_code)]

mod in_use;
mod objects;
mod record;
mod removal;
mod source;
mod store;
mod tree;
mod unpack;

pub use record::Record;
pub use removal::Removal;
pub use store::{Store, UnpackedImage, list};
pub use unpack::{NewTree, Unpacked};
