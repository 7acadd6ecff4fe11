// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Environment files.

use std::path::Path;

use cabane_recipe::{FileContext, parse_environment_file};

use super::recipe::check;
use super::{Verdict, compare};

/// Reads an environment file; what is written again is read as the same.
pub fn run(bytes: &[u8]) -> Verdict {
    let variable = |name: &str| match name {
        "HOME" => Some("/home/ada".into()),
        "ODD" => Some("${HOME}:\"\n".into()),
        _ => None,
    };
    let surroundings = FileContext {
        directory: Path::new("/project"),
        working_directory: Path::new("/work"),
        variable: &variable,
    };
    let read = |text: &[u8]| parse_environment_file(Path::new("climate.toml"), text, &surroundings);
    match read(bytes) {
        Err(error) => check(error.diagnostics()),
        Ok(file) => {
            let printed = file.to_toml(&[]);
            let again = read(printed.as_bytes()).map(|mut again| {
                // The line that names a base is another one.
                if again.bases.len() == file.bases.len() {
                    again.bases.clone_from(&file.bases);
                }
                again
            });
            compare(&file, &printed, again)
        }
    }
}
