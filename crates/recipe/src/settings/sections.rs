// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Tables of the configuration, and their unknown keys.

use super::table;
use crate::ask::Section;

/// Returns the tables of a list of a file, in which unknown keys have been noted.
pub(super) fn sections<'n>(file: &Section<'n>, table: &str, item: &str) -> Vec<Section<'n>> {
    let mut sections = Vec::new();
    for field in file.items(table, item) {
        if let Some(section) = field.section() {
            refuse_unknown(&section, table);
            sections.push(section);
        }
    }
    sections
}

/// Notes every key that a table does not have, and the table that has it.
pub(super) fn refuse_unknown(section: &Section<'_>, table: &str) {
    // `index_url` is an abbreviation, which no one has to know.
    let known: Vec<&str> = table::settings_in(table).map(table::Setting::name).collect();
    section.refuse_unknown(&known, |key| {
        let is_meant = |one: &&table::Setting| one.name() == key;
        let hint = if table.is_empty() {
            let meant = table::ALL.iter().find(is_meant)?;
            let head = table::ALL.iter().find(|one| one.key == meant.table())?;
            format!("it belongs below a line `{}`", head.example)
        } else {
            table::settings_in("").find(|one| is_meant(one))?;
            "it belongs to the whole file: move it above the first line in brackets".to_owned()
        };
        Some((None, hint))
    });
}
