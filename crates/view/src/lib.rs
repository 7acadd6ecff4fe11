// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Metadata of images, views, and the environment patches they make.
//!
//! A view says which variables change when an image is entered; this crate
//! reads views from an image's `env.json`, puts them in order, and computes
//! the variables that result. It does no I/O, and it never looks at the
//! variables of the process it runs in: the caller hands them over.

#![forbid(unsafe_code)]

mod apply;
mod checks;
mod document;
mod meta;
mod name;
mod package_index;
mod package_line;
mod package_pattern;
mod package_version;
mod packages;
mod patch;
mod read;
mod read_patch;
mod read_section;
mod relocate;
mod setting;
mod write;

pub use cabane_label::ViewName;
pub use checks::{Check, CheckList, Decimal, Figure};
pub use document::MetaError;
pub use meta::{
    Container, ContainerSource, InterpreterNeed, Meta, MpiNeed, Needs, OutsideNeed, ProcessorNeed,
    View,
};
pub use name::{ViewDescription, ViewOwner, parse_view_list};
pub use package_index::{Answer, Found, PackageIndex};
pub use package_line::PackageLine;
pub use package_pattern::PackagePattern;
pub use packages::{PackageList, PackageRecord};
pub use patch::{Change, EnvPatch, ListOperation, is_variable_name};
pub use setting::{VariableSetting, VariableSettings};
