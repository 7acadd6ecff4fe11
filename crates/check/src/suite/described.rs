// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a suite says about itself, in a file of its directory.

use std::path::Path;

use cabane_label::shown;
use cabane_report::{Kind, Report, Result};
use serde::Deserialize;
use serde_json::Value;

use crate::bench::read_start;

/// The name of the file.
const FILE: &str = "suite.json";
/// The largest that is read, in bytes.
const MOST: u64 = 64 * 1024;

/// What a suite says about itself.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Described {
    /// Whether some of its tests run beside the image. Otherwise `valid_prog_environs = ['*']` means the
    /// environments of the image alone.
    #[serde(default)]
    pub(super) host: bool,
    /// What to know before it runs, such as how long it takes.
    #[serde(default)]
    pub(super) note: Option<String>,
}

/// Reads the file; a suite need not have one.
pub(super) fn read(suite: &Path) -> Result<Described> {
    let path = suite.join(FILE);
    if !path.exists() {
        return Ok(Described::default());
    }
    let bytes = read_start(&path, MOST).unwrap_or_default();
    // A list of values would be taken for the fields in their order.
    let fields = serde_json::from_slice(&bytes).map(Value::Object);
    fields.and_then(serde_json::from_value).map_err(|error| {
        let message = format!("{} does not describe a suite", shown(&path));
        Report::caused(Kind::BadInput, message, error)
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_suite_need_not_describe_itself_but_not_wrongly() {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(read(place.path()).unwrap(), Described::default());
        fs::write(place.path().join(FILE), r#"{"host": true, "note": "two minutes"}"#).unwrap();
        let expected = Described { host: true, note: Some("two minutes".to_owned()) };
        assert_eq!(read(place.path()).unwrap(), expected);
        for wrong in ["", "[]", r#"{"host": "yes"}"#, r#"{"hosts": true}"#] {
            fs::write(place.path().join(FILE), wrong).unwrap();
            assert!(read(place.path()).is_err(), "{wrong}");
        }
    }
}
