// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Builds that run elsewhere: in a job of Slurm, or on a host by ssh.
//!
//! [`start`] carries the recipe to a [`Place`] and starts the build, or finds the one that runs there.
//! [`RemoteBuild::finish`] follows it and brings the image back. At the other end, [`serve()`] answers over
//! a connection, and [`work()`] builds. The design is in `docs/design/0021-build-service.md`.

#![forbid(unsafe_code)]

mod build;
mod directory;
mod ended;
mod event;
mod host;
mod nodes;
mod parcel;
mod place;
mod record;
mod request;
mod serve;
mod slurm;
mod ssh;
mod wire;
mod work;
mod worker;

pub use build::{Cancelled, Done, Found, ReachOptions, RemoteBuild, cancel, find, start};
pub use directory::leftovers;
pub use nodes::workers_on_hosts;
pub use place::{Place, host};
pub use record::{DoneImage, Record, unfinished};
pub use request::BuildRequest;
pub use serve::serve;
pub use work::{WorkOptions, work};
