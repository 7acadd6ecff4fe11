// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The manifest of a vendor's MPI.

use std::path::Path;

use cabane_recipe::{FileText, parse_vendor_manifest};

use super::Verdict;
use super::recipe::check;

/// Reads the manifest of an MPI; none of its files leaves the tarball.
pub fn run(bytes: &[u8]) -> Verdict {
    let path = Path::new("mpi.yaml");
    match parse_vendor_manifest(&FileText { path, text: bytes }) {
        Err(error) => check(error.diagnostics()),
        Ok(manifest) => {
            let rules = manifest.compilers.iter().flat_map(|compiler| &compiler.files);
            let outside =
                |path: &str| path.starts_with('/') || path.split('/').any(|part| part == "..");
            match rules.map(|rule| &rule.to).find(|to| outside(to)) {
                Some(to) => Verdict::Wrong(format!("{to:?} leads out of the tarball")),
                None => Verdict::Accepted,
            }
        }
    }
}
