// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From the bytes of a file to what it says.

use std::path::Path;

use crate::diagnostic::{Diagnostic, Source};
use crate::language::Language;
use crate::node::Node;
use crate::report::Report;
use crate::{text, toml_tree, yaml};

/// Reads a file; the error is everything that is wrong with it.
pub(crate) fn read<T>(
    path: &Path,
    bytes: &[u8],
    language: Language,
    read: impl FnOnce(&Report<'_>, &Node) -> Option<T>,
) -> Result<T, Vec<Diagnostic>> {
    let text = text::check(path, bytes).map_err(|problem| vec![problem])?;
    let source = Source::new(path, text);
    let report = Report::new(&source, language);
    let root = match language {
        Language::Yaml => yaml::parse(&report),
        Language::Toml => toml_tree::parse(&report),
    };
    let value = root.and_then(|root| read(&report, &root));
    report.finish(value)
}
