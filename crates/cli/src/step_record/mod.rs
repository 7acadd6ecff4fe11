// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Records of which images the steps of jobs have: one line of JSON for each step.
//!
//! The plugin of Slurm tells what there is to tell ([`told`]), of which a record is made
//! ([`record`]) that goes to a file, to syslog or to a collector ([`destination`],
//! [`deliver`]). Nobody waits for any of it.

pub(crate) mod deliver;
pub(crate) mod destination;
pub(crate) mod record;
pub(crate) mod told;
