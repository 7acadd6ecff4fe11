// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Recipes and configuration files: parsed, checked, defaulted.
//!
//! [`parse_config`] reads the `config.yaml` of a recipe, [`parse_settings`] a
//! `config.toml`, [`parse_environment_file`] an environment file. All take bytes, of
//! which nothing is assumed, and return either data without anything left to check, or a [`Diagnostic`] for
//! everything that is wrong: file, line, column, the line itself, and what to
//! type instead.
//!
//! ```
//! use std::path::Path;
//!
//! use cabane_recipe::{ConfigText, parse_config};
//!
//! let text = b"name: mpi-python\nengine: pyhton\n";
//! let error = parse_config(&ConfigText { path: Path::new("config.yaml"), text }).unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "config.yaml:2:9: there is no engine `pyhton`
//!   | engine: pyhton
//!   |         ^^^^^^
//!   hint: write `engine: python`"
//! );
//! ```
//!
//! [`parse_device_specification`] reads what vendors say about their devices.
//!
//! A recipe for Spack has more files: [`parse_stack`] reads them all, and
//! [`parse_system`] the configuration of a system.
//!
//! This crate opens no file, reads no variable, prints nothing, and knows no
//! build engine: what a recipe names may not exist.

#![forbid(unsafe_code)]

mod ask;
mod config;
mod device;
mod diagnostic;
mod edit;
mod environment;
mod file;
mod language;
mod node;
mod pipeline;
mod recipe;
mod report;
pub mod settings;
mod stack;
mod suggest;
mod text;
mod toml_tree;
mod yaml;

pub use config::{ConfigText, PATH_LISTS, parse_config};
pub use device::{
    ContainerEdits, DeviceHook, DeviceKind, DeviceMount, DeviceName, DeviceNameError, DeviceNode,
    DeviceRequest, DeviceSpecification, SpecifiedDevice, parse_device_specification,
};
pub use diagnostic::{Diagnostic, Mistakes, malformed};
pub use edit::{ListFormat, ListedPackage, PackageList, environment_names, python_name};
pub use environment::{
    BaseReference, EnvironmentFile, EnvironmentReference, FileContext, MountEntry, Part, Places,
    container_image, is_idle_mount_flag, parse_environment_file,
};
pub use pipeline::{
    CatalogueTarget, Cluster, PipelineFile, PromoteTarget, Resources, Revision, SuiteEntry, Target,
    UenvEntry, parse_pipeline,
};
pub use recipe::{
    Cleanup, CommandLine, ContainerConfig, EasyBuildConfig, EngineConfig, EnvVars, FormatVersion,
    GitSource, InterpreterRequest, ModuleView, NamedPath, PackageRepository, PythonConfig,
    PythonSource, Recipe, RunCommand, SpackConfig, TreeConfig, ViewRecipe,
};
pub use settings::{
    AmountError, AtStart, BindSetting, ChannelRule, ContainerSettings, EvidenceSettings, GateRules,
    Labels, MpiRule, Namespaces, PathTemplate, PathTemplateError, Regressions, RepositorySettings,
    Requirement, RestrictedRule, RetentionSettings, Settings, TrustPolicy, TrustRule,
    parse_settings, parse_size, parse_time, parse_uenv_settings,
};
pub use stack::{
    AccessPair, BuildCache, CompilerName, CompilerRequest, CompilerSource, Compilers, Connection,
    Conversion, ConvertTo, Duplicates, FileText, Link, MirrorFlags, Mirrors, ModuleKind,
    MpiDefaults, MpiRequest, Placed, Replacement, SourceMirror, SpackSettings, SpackVersion,
    SpecPurpose, StackEnvironment, StackFile, StackFiles, StackModules, StackOptions, StackRecipe,
    StackView, SystemConfig, SystemFiles, Unify, UnknownVariable, VendorCompiler, VendorEdit,
    VendorFiles, VendorGpu, VendorLanguage, VendorManifest, VendorPackage, VendorWrapper,
    WrittenPackage, WrittenSpec, WrittenVariant, WrittenWord, Yaml, YamlMap, convert_stack,
    package_name, parse_mirrors, parse_stack, parse_system, parse_vendor_manifest,
};
pub use suggest::nearest;
pub use text::MAX_FILE_SIZE;

/// The time that every file in an image carries if nothing else is requested:
/// the first of January 1980, the earliest that zip files can hold.
pub const DEFAULT_EPOCH: u32 = 315_532_800;
