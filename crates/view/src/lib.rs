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
mod builtin_checks;
mod checks;
mod document;
mod host_needs;
mod line_index;
mod meta;
mod name;
mod need_line;
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
mod shell_script;
mod write;

pub use builtin_checks::{BuiltinChange, RecipeChecks};
pub use cabane_label::ViewName;
pub use checks::{Check, CheckList, Decimal, Figure, is_name as is_check_name};
pub use document::MetaError;
pub use host_needs::{
    FileLinks, HostNeeds, NeededExternal, NeededGpu, NeededLibrary, ProvidedLibrary, ProvidedMpi,
    is_of_c_library,
};
pub use line_index::{LineIndex, LineKind, Lines};
pub use meta::{
    Container, ContainerSource, ImageBase, InterpreterNeed, LibraryNeed, Meta, MpiNeed, Needs,
    OutsideNeed, ProcessorNeed, View,
};
pub use name::{ViewDescription, ViewOwner, parse_view_list};
pub use need_line::{NeedIndex, NeedLine, NeedLines};
pub use package_index::{Answer, Found, PackageIndex, PackageLines};
pub use package_line::PackageLine;
pub use package_pattern::PackagePattern;
pub use package_version::version_order;
pub use packages::{PackageList, PackageRecord};
pub use patch::{Change, EnvPatch, ListOperation, is_variable_name};
pub use setting::{VariableSetting, VariableSettings};
