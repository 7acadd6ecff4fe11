// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Records of job steps, summed up.
//!
//! [`read()`] goes through files and gives each line to a [`Tally`], which keeps sums and no
//! records. A [`Summary`] is made of it: tables for people and programs, and [`page()`].

#![forbid(unsafe_code)]

mod names;
mod node_list;
mod page;
mod read;
mod record;
mod summary;
mod tally;
mod times;

pub use node_list::node_list;
pub use page::page;
pub use read::read;
pub use record::BrokenRecord;
pub use summary::{
    Broken, Counts, Day, Failure, ImageUse, NodeTimes, StartTimes, Summary, UnusedImage, Use,
};
pub use tally::Tally;
pub use times::Distribution;
