// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the search reads: all labels, the names of all packages, and a file for each package. Pure.

use std::collections::{BTreeMap, HashMap};

use cabane_web_page::words;
use serde::Serialize;

use crate::html::day;
use crate::model::{Model, Package, Row};
use crate::script_data::{numbers, script};

/// How many digits of a digest the pages of images have in their names.
const ID: usize = 16;

/// Texts that rows share.
#[derive(Default, Serialize)]
struct Column {
    texts: Vec<String>,
    rows: Vec<usize>,
}

impl Column {
    fn of(rows: &[Row<'_>], text: impl Fn(&Row<'_>) -> String) -> Self {
        let mut column = Self::default();
        let mut known: HashMap<String, usize> = HashMap::new();
        for row in rows {
            let text = text(row);
            let number = *known.entry(text).or_insert_with_key(|text| {
                column.texts.push(text.clone());
                column.texts.len() - 1
            });
            column.rows.push(number);
        }
        column
    }
}

/// All labels, the oldest first, a list for each part.
#[derive(Serialize)]
struct Images {
    /// The IDs, one behind the other.
    ids: String,
    /// Names of pages that are longer than an ID, by row.
    long: BTreeMap<usize, String>,
    /// The directories of the namespaces.
    folders: Column,
    namespace: Column,
    name: Column,
    version: Column,
    tag: Column,
    system: Column,
    uarch: Column,
    state: Column,
    tested: Column,
    size: Column,
    date: Column,
}

/// Writes all labels.
pub(crate) fn images(model: &Model<'_>) -> Vec<u8> {
    let rows = &model.rows;
    let mut ids = String::with_capacity(rows.len() * ID);
    let mut long = BTreeMap::new();
    for number in 0..rows.len() {
        let id = model.page_name(number).rsplit('/').next().unwrap_or_default();
        ids.push_str(id.get(..ID).unwrap_or(id));
        if id.len() != ID {
            long.insert(number, id.to_owned());
        }
    }
    let folder = |row: &Row<'_>| {
        let page = &model.pages[row.page].name;
        page.split('/').next().unwrap_or_default().to_owned()
    };
    let images = Images {
        ids,
        long,
        folders: Column::of(rows, folder),
        namespace: Column::of(rows, |row| row.image.namespace.to_string()),
        name: Column::of(rows, |row| row.image.label.name.to_string()),
        version: Column::of(rows, |row| row.image.label.version.to_string()),
        tag: Column::of(rows, |row| row.image.label.tag.to_string()),
        system: Column::of(rows, |row| row.image.label.system.to_string()),
        uarch: Column::of(rows, |row| row.image.label.uarch.to_string()),
        state: Column::of(rows, |row| row.state.words().to_owned()),
        tested: Column::of(rows, |row| {
            row.outcome.map(|outcome| words(Some(outcome)).to_owned()).unwrap_or_default()
        }),
        size: Column::of(rows, |row| cabane_report::size(row.image.size)),
        date: Column::of(rows, |row| day(row.image.date)),
    };
    script("images", &images)
}

/// The names of all packages.
#[derive(Serialize)]
struct Names<'a> {
    texts: Vec<&'a str>,
    counts: Vec<usize>,
    /// The names of files that are not those of their packages, by number.
    files: BTreeMap<usize, &'a str>,
}

/// Writes the names of all packages.
pub(crate) fn names(model: &Model<'_>) -> Vec<u8> {
    let packages = || model.packages.iter();
    let files = (0..).zip(packages()).filter(|(_, package)| package.file != package.name);
    let names = Names {
        texts: packages().map(|package| package.name).collect(),
        counts: packages().map(|package| package.count).collect(),
        files: files.map(|(number, package)| (number, package.file.as_str())).collect(),
    };
    script("names", &names)
}

/// Writes which labels have a package: version, variants, compilers, and numbers of rows.
pub(crate) fn package(package: &Package<'_>) -> Vec<u8> {
    let specs = package.specs.iter().map(|spec| {
        let line = &spec.package;
        (line.version, line.variants, line.compilers, numbers(spec.rows.iter().copied()))
    });
    script(&format!("package:{}", package.file), &specs.collect::<Vec<_>>())
}
