// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `uenv image ls` and `uenv image find`.

use cabane_image_search::{SearchRequest, find as find_in_registry, list};
use cabane_label::{Digest, ImageId, Label};
use cabane_report::Result;
use cabane_transfer::RegistryRequest;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::args::LsArgs;
use super::fill::{Fields, fill};
use crate::setup::Setup;
use crate::table::Table;

/// What uenv shows of an image.
struct Row<'a> {
    label: &'a Label,
    digest: &'a Digest,
    size: u64,
    date: Option<Timestamp>,
}

/// Returns a time as uenv writes it.
pub(super) fn date(time: Option<Timestamp>) -> String {
    let civil = time.map(|time| time.to_zoned(TimeZone::UTC));
    civil.map(|time| time.strftime("%F %T").to_string()).unwrap_or_default()
}

impl Row<'_> {
    fn fields(&self) -> Fields {
        let label = self.label;
        vec![
            ("name", label.name.to_string()),
            ("version", label.version.to_string()),
            ("tag", label.tag.to_string()),
            ("system", label.system.to_string()),
            ("uarch", label.uarch.to_string()),
            ("id", self.digest.id().to_string()),
            ("digest", self.digest.to_string()),
            ("sha256", self.digest.to_string()),
            ("size", self.size.to_string()),
            ("date", date(self.date)),
        ]
    }

    fn json(&self) -> JsonRow<'_> {
        let label = self.label;
        JsonRow {
            date: date(self.date),
            digest: self.digest,
            id: self.digest.id(),
            name: label.name.as_str(),
            size: self.size,
            system: label.system.as_str(),
            tag: label.tag.as_str(),
            uarch: label.uarch.as_str(),
            version: label.version.as_str(),
        }
    }
}

/// An image in JSON, with the keys of uenv.
#[derive(Serialize)]
struct JsonRow<'a> {
    date: String,
    digest: &'a Digest,
    id: ImageId,
    name: &'a str,
    size: u64,
    system: &'a str,
    tag: &'a str,
    uarch: &'a str,
    version: &'a str,
}

/// The list in JSON.
#[derive(Serialize)]
struct Records<'a> {
    records: Vec<JsonRow<'a>>,
}

fn request(args: &LsArgs) -> SearchRequest {
    let (pattern, exact) = (args.uenv.clone(), args.no_partials);
    SearchRequest { pattern, exact, ..SearchRequest::default() }
}

pub(super) fn ls(setup: &Setup, args: &LsArgs) -> Result<()> {
    let images = list(setup, &request(args))?;
    let found: Vec<_> = images.repositories.iter().filter(|(_, all)| !all.is_empty()).collect();
    let groups = found.iter().map(|(repository, records)| {
        let rows = records.iter().map(|record| Row {
            label: &record.label,
            digest: &record.digest,
            size: record.size,
            date: Some(record.date),
        });
        let path = repository.repository.path().display();
        (format!("{} ({path})", repository.name), rows.collect())
    });
    print(setup, args, &groups.collect::<Vec<_>>())
}

pub(super) fn find(setup: &Setup, args: &LsArgs) -> Result<()> {
    let found = find_in_registry(setup, &RegistryRequest::default(), &request(args))?;
    let rows = found.iter().map(|one| Row {
        label: &one.image.label,
        digest: &one.image.digest,
        size: one.image.size,
        date: one.image.date,
    });
    print(setup, args, &[(String::new(), rows.collect())])
}

/// Prints the images of each repository. Where there are several, each has its name above it.
fn print(setup: &Setup, args: &LsArgs, groups: &[(String, Vec<Row<'_>>)]) -> Result<()> {
    let rows = || groups.iter().flat_map(|(_, rows)| rows);
    if args.json {
        setup.printer.json_line(&Records { records: rows().map(Row::json).collect() });
    } else if let Some(template) = &args.format {
        let lines = rows().map(|row| fill(template, &row.fields()).map(|line| line + "\n"));
        setup.printer.data(lines.collect::<Result<String>>()?);
    } else if args.no_header {
        setup.printer.data(groups.iter().map(|(_, rows)| table(rows, false)).collect::<String>());
    } else if rows().next().is_none() {
        setup.printer.data("no matching uenv\n");
    } else {
        let has_titles = groups.len() > 1;
        let text = groups.iter().map(|(title, rows)| {
            let title = if has_titles { format!("{title}\n") } else { String::new() };
            title + &table(rows, true)
        });
        setup.printer.data(text.collect::<Vec<_>>().join(if has_titles { "\n" } else { "" }));
    }
    Ok(())
}

fn table(rows: &[Row<'_>], has_head: bool) -> String {
    let mut table = Table::new(&["uenv", "arch", "system", "id", ">size(MB)", "date"]);
    if !has_head {
        table = table.without_head();
    }
    for row in rows {
        let label = row.label;
        let name = format_args!("{}/{}:{}", label.name, label.version, label.tag);
        let day: String = date(row.date).chars().take(10).collect();
        table.push(&[
            &name,
            &label.uarch,
            &label.system,
            &row.digest.id(),
            &megabytes(row.size),
            &day,
        ]);
    }
    table.to_string()
}

/// Returns a size as uenv shows it: one word, with commas.
fn megabytes(bytes: u64) -> String {
    let digits = (bytes >> 20).to_string();
    let mut text = String::new();
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::megabytes;

    #[test]
    fn sizes_are_in_megabytes_with_commas() {
        let sizes = [0, 999, 1000, 12_345_678].map(|size: u64| megabytes(size << 20));
        assert_eq!(sizes, ["0", "999", "1,000", "12,345,678"]);
    }
}
