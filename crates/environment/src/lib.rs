// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From what was typed to an environment.
//!
//! [`find_environment`] takes an [`ImageRequest`] and finds images, builds and views;
//! [`root_request`] adds what else is seen in them, such as devices.

#![forbid(unsafe_code)]

mod bases;
mod builds;
mod channels;
mod devices;
mod files;
mod images;
mod joining;
mod metadata_cache;
mod missing;
mod root;

pub use devices::{GivenDevices, give, newer_in_image};
pub use files::{announce_ignored, finder, load, reference};
pub use images::{
    FoundImage, FoundImages, ImageRequest, complete_label, complete_label_for, fill_in_metadata,
    find_builds, find_environment, find_image, find_image_record, named_containers,
};
pub use joining::{JoinOptions, directories};
pub use missing::{Checked, MissingPart, check_file};
pub use root::{RootOptions, add_binds, no_root, root_request};
