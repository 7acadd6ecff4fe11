// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Container images, flattened into one image that is mounted at `/`.
//!
//! ```text
//! source  ─▶ layers ─▶ archive ─▶ mksquashfs ─▶ image
//!            verified     ▲
//!               └─▶ tree ─┘ who wins, in memory: names and numbers, no content
//! ```
//!
//! A source hands out documents and layers. Each layer is read, and never unpacked: files that
//! nothing above them hides are written while they pass, and what else is left when all layers lie
//! on top of each other afterwards. [`export`] is the way back. How this works and why is in
//! `docs/design/0011-containers.md`.

#![forbid(unsafe_code)]

mod added;
mod budget;
mod changes;
mod convert;
mod decompress;
pub mod digest;
mod document;
mod entries;
mod error;
pub mod export;
mod glibc;
mod image;
mod import_record;
mod layer;
mod metadata;
mod plan;
mod platform;
mod progress;
mod reference;
mod source;
mod speculative;
mod squash;
mod stream;
pub mod tar;
mod tree;
mod write;

pub use added::added;
pub use budget::MAX_UNPACKED;
pub use changes::{Moment, Times, changes};
pub use convert::{Request, convert, convert_with, library_of};
pub use document::{Config, Descriptor, Document, MAX_DOCUMENT, Manifest};
pub use error::{Error, LayerProblem};
pub use image::{Blobs, Chosen, ContainerImage, choose};
pub use import_record::{CONVERTER, Changed, Converted, ImportRecord, RecordedCommand};
pub use layer::{Bytes, Layer, Open};
pub use platform::{Platform, PlatformError};
pub use progress::Progress;
pub use source::{DockerArchive, Layout, Sif, directory};
pub use squash::check_program;
pub use stream::streamed;
