// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images of a registry in a file, for sites without a network.
//!
//! A bundle is a registry that no server keeps: what can be read from a registry can be read from a bundle,
//! by the same code and with the same checks. The file is a tar archive with an image layout of OCI,
//! version 1.0, in it:
//!
//! ```text
//! oci-layout
//! blobs/sha256/<digest>       manifests, images, and what is attached to them
//! parts/sha256/<digest>       of an image, what others lack that the reader has
//! bundle.json                 the images, the channels, and the parts
//! index.json                  the tags; the last one, so that a file without it is not complete
//! ```
//!
//! It may be cut into pieces, `FILE.001` and so on, which are the archive when they are joined.

#![forbid(unsafe_code)]

mod answer;
mod archive;
mod contents;
mod layout;
mod pieces;

pub use archive::{Parts, WriteRequest};
pub use contents::{BundledChannel, BundledImage, Contents};
pub use layout::Layout;
