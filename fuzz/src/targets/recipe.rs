// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The `config.yaml` of a recipe, the configuration file, and the description of a pipeline.

use std::path::Path;

use cabane_recipe::{ConfigText, Diagnostic, parse_config, parse_pipeline, parse_settings};

use super::Verdict;

/// Reads the `config.yaml` of a recipe.
pub fn recipe(bytes: &[u8]) -> Verdict {
    let text = ConfigText { path: Path::new("config.yaml"), text: bytes };
    match parse_config(&text) {
        Ok(_) => Verdict::Accepted,
        Err(error) => check(error.diagnostics()),
    }
}

/// Reads a configuration file.
pub fn settings(bytes: &[u8]) -> Verdict {
    match parse_settings(Path::new("config.toml"), bytes) {
        Ok(_) => Verdict::Accepted,
        Err(error) => check(error.diagnostics()),
    }
}

/// Reads the description of a pipeline.
pub fn pipeline(bytes: &[u8]) -> Verdict {
    match parse_pipeline(Path::new("pipeline.yaml"), bytes) {
        Ok(_) => Verdict::Accepted,
        Err(error) => check(error.diagnostics()),
    }
}

/// Every mistake has a place and can be shown on a terminal.
pub(super) fn check(diagnostics: &[Diagnostic]) -> Verdict {
    if diagnostics.is_empty() {
        return Verdict::Wrong("it was refused without a reason".to_owned());
    }
    for diagnostic in diagnostics {
        let shown = diagnostic.to_string();
        let is_clean = !shown.chars().any(|c| c.is_control() && c != '\n');
        if diagnostic.line == 0 || diagnostic.column == 0 || !is_clean || shown.len() > 16_384 {
            return Verdict::Wrong(format!("this cannot be shown: {shown:?}"));
        }
    }
    Verdict::Refused
}
