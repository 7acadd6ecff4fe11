// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What `image ls` and `image find` search for.

use cabane_image_search::SearchRequest;
use clap::Args;

/// What is searched for.
#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    /// A label with parts left out, an ID, or a digest
    pattern: Option<String>,
    /// Match only the exact name, not longer names that begin with it
    #[arg(long)]
    no_partials: bool,
    /// List only images with this package: `hdf5@1.14: +mpi`; repeatable
    #[arg(long = "package", value_name = "SPEC")]
    packages: Vec<String>,
}

impl SearchArgs {
    /// Returns what was typed.
    pub(crate) fn request(&self) -> SearchRequest {
        SearchRequest {
            pattern: self.pattern.clone(),
            exact: self.no_partials,
            packages: self.packages.clone(),
            ..SearchRequest::default()
        }
    }
}
