// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The manifest of a vendor's MPI.

use std::path::Path;

use cabane_recipe::{FileText, parse_vendor_manifest};

use super::recipe::check;
use super::{Target, Verdict};

pub(super) const TARGET: Target = Target {
    name: "vendor",
    run,
    dictionary: &[
        "files:\n",
        "from: ",
        "to: ",
        "except: ",
        "edit:\n",
        "links:\n",
        "compilers:\n",
        "gpu:\n",
        "wrappers:\n",
        "replace:\n",
        "find: ",
        "with: ",
        "**",
        "../",
        "/",
        "  ",
        "\n",
        "- ",
        "[",
        "]",
        "{",
        "}",
        ": ",
        ", ",
        "'",
        "\"",
        "%gcc",
        "@12:",
        "\u{1b}",
        "é",
    ],
};

fn run(bytes: &[u8]) -> Verdict {
    let path = Path::new("mpi.yaml");
    match parse_vendor_manifest(&FileText { path, text: bytes }) {
        Err(error) => check(error.diagnostics()),
        Ok(manifest) => {
            let rules = manifest
                .compilers
                .iter()
                .flat_map(|compiler| &compiler.files);
            let outside =
                |path: &str| path.starts_with('/') || path.split('/').any(|part| part == "..");
            match rules.map(|rule| &rule.to).find(|to| outside(to)) {
                Some(to) => Verdict::Wrong(format!("{to:?} leads out of the tarball")),
                None => Verdict::Accepted,
            }
        }
    }
}
