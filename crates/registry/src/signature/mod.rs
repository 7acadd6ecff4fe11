// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Signatures of images, as cosign makes them with a key.
//!
//! What is signed is a short text that names the manifest of the image, the label and the time. The signatures of a
//! manifest are in another one, under a tag made of the digest of the first. Who must have
//! signed what is for the caller to say. The design is in `docs/design/0008-registries.md`.

mod attached;
mod envelope;
mod key;
mod payload;
mod pem;
mod record;
mod verdict;

pub(crate) use attached::signatures_tag;
pub use envelope::Envelope;
pub use key::{PublicKey, SigningKey};
pub use payload::Statement;
pub use record::{MAX_RECORD, SignatureRecord};
pub use verdict::{Distrust, Signatures};
