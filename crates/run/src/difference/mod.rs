// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What differs between two images, two of their views, or two environments.
//!
//! Metadata, views and environments are compared as they were read; packages and
//! files by looking into the images, as [`crate::metadata`] does.

mod environments;
mod files;
mod images;
mod package_list;
mod packages;
mod variables;

pub use environments::{
    EnvironmentDifference, EnvironmentSide, MountDifference, compare_environments,
};
pub use files::{FileDifference, FileState, compare_files};
pub use images::{Field, ImageSide, ViewDifference, compare_metadata, compare_views};
pub use package_list::{
    PACKAGE_FILES, lines_beside, list_packages, packages_beside, packages_in_metadata,
    read_meta_file, read_package_list, read_packages,
};
pub use packages::{PackageDifference, compare_packages};
pub use variables::{VariableDifference, compare_variables};
