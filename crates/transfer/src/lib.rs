// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images in and out.
//!
//! [`pull()`] downloads images from a registry, [`push()`] uploads them. [`import()`] converts a
//! container image to an image, [`keep`] does so when one is first used, [`check_source`] asks whether the source of an image has changed
//! since, and [`export()`] converts images to a container image. [`share()`] says how others get an image.
//! [`RegistryRequest`] selects the registry.

#![forbid(unsafe_code)]

mod bases;
mod bundle;
mod channel;
mod chunk_lists;
mod copy;
mod evidence;
mod export;
mod import;
mod list;
mod mirror;
mod mirror_to_repository;
mod pull;
mod push;
mod registry;
mod report;
mod scratch;
mod share;
mod upgrade;

pub use bases::{built_on_remote, of_listed as bases_of_listed, of_remote as bases_of};
pub use bundle::{
    BundleRequest, InstallPlan, InstallRequest, OpenedBundle, PlannedImage, WrittenBundle,
    create_bundle, open_bundle, plan_install,
};
pub use chunk_lists::add_chunk_lists;
pub use copy::{CopiedImage, copy};
pub use evidence::{
    FoundEvidence, add_statements, attach_evidence, find_evidence, prune_evidence, read_statements,
};
pub use export::base::{ContainerQuery, Use};
pub use export::tree::{Found, layer_of};
pub use export::{ExportRequest, Exported, MadeImage, NeededInterpreter, export};
pub use import::{
    CheckedSource, ImportRequest, Imported, Kept, PlannedImport, Reference, Remote, check_source,
    directory_of, find_kept, import, keep, keep_named, restrict,
};
pub use list::{check_list, repair_list, static_list, write_static_list};
pub use mirror::{MirrorRequest, MirrorSummary, mirror};
pub use mirror_to_repository::{
    RepositoryMirrorRequest, RepositoryMirrorSummary, mirror_to_repository,
};
pub use pull::{
    AddedMetadata, PullRequest, add_metadata, find_remote, look_up, pull, pull_metadata,
    refuse_container,
};
pub use push::{Upload, push};
pub use registry::{Connection, RegistryRequest, of_containers};
pub use report::{ReportFile, attach_report, attached_reports, read_report};
pub use scratch::scratch_place;
pub use share::{SharedImage, share};
pub use upgrade::{
    Fate, NewImage, Nothing, PlannedUpgrade, RolledBack, Unchanged, plan_upgrade, roll_back,
    upgrade,
};
