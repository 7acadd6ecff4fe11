// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Pipelines: recipes are built, checked, published and promoted for several systems.
//!
//! A [`Pipeline`] has a [`Cell`] for each recipe and system. [`plan()`] says which [`Stage`]s of which
//! cells are left and why, [`run()`] carries them out here or through Slurm, and [`step()`] is one stage of
//! one cell, which somebody else's CI may call. What came of them is in a [`RunDirectory`]. The design
//! is in `docs/design/0019-pipelines.md`.

#![forbid(unsafe_code)]

mod catalogue;
mod cell;
mod directory;
mod generate;
mod git;
mod here;
mod inputs;
mod lock;
mod page;
mod pipeline;
mod plan;
mod registry;
mod repair;
mod run;
mod slurm;
mod stage;
mod step;
mod summary;

pub use catalogue::{PublishedCatalogue, catalogue};
pub use cell::{Cell, CellName};
pub use directory::{DIRECTORY, RunDirectory};
pub use generate::{Client, GenerateRequest, generate};
pub use here::Event;
pub use lock::LockedBase;
pub use page::Page;
pub use pipeline::{FILES, Pipeline, Selection};
pub use plan::{PlanRequest, PlannedCell, plan};
pub use registry::Publishing;
pub use repair::{NewRevision, Repairs};
pub use run::{Place, Ran, RunOptions, run};
pub use slurm::{JobOptions, cancel, cell_of_task};
pub use stage::{Stage, StageResult};
pub use step::{StepOptions, step};
pub use summary::CellSummary;
