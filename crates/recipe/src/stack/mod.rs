// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Recipes for Spack: several files that belong together, and the system they
//! are built for.
//!
//! [`parse_stack`] reads `config.yaml`, `compilers.yaml`, `environments.yaml`,
//! `modules.yaml` and `packages.yaml` of a recipe, [`parse_system`] what a site
//! says about a system. The formats 1 and 2 are read into the types of
//! format 3. Problems of all files are reported at once; what one file says is
//! checked against the others. What Spack gets is made elsewhere.

mod compiler_name;
mod compilers;
mod context;
mod convert;
mod environments;
mod expand;
mod files;
mod format_one;
mod keys;
mod mirrors;
mod modules;
mod network;
mod packages;
mod recipe;
mod schema;
mod settings;
mod spec;
mod spec_fields;
mod system;
mod value;
mod vendor;
mod version;
mod views;
mod written;

pub use compiler_name::CompilerName;
pub use convert::{Conversion, ConvertTo, convert_stack};
pub use expand::UnknownVariable;
pub use files::{
    FileText, StackFiles, StackOptions, SystemFiles, parse_mirrors, parse_stack, parse_system,
    parse_vendor_manifest,
};
pub use mirrors::{AccessPair, BuildCache, Connection, MirrorFlags, Mirrors, SourceMirror};
pub use recipe::{
    CompilerRequest, CompilerSource, Compilers, Duplicates, Link, ModuleKind, MpiRequest,
    StackEnvironment, StackModules, StackRecipe, StackView, Unify,
};
pub use schema::StackFile;
pub use settings::SpackSettings;
pub use spec::package_name;
pub(crate) use spec::read as read_spec;
pub use system::{MpiDefaults, SystemConfig};
pub use value::{Yaml, YamlMap};
pub use vendor::{
    Placed, Replacement, VendorCompiler, VendorEdit, VendorFiles, VendorGpu, VendorLanguage,
    VendorManifest, VendorPackage, VendorWrapper,
};
pub use version::SpackVersion;
pub use written::{SpecPurpose, WrittenPackage, WrittenSpec, WrittenVariant, WrittenWord};
