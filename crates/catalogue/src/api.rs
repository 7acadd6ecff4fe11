// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The same content as JSON, in files. Pure.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use crate::differences::differences;
use crate::html::Frame;
use crate::input::ImageEvidence;
use crate::model::{ImageView, Line, Model, Package, Release, Row, State};

/// The version of the format. Keys are added without a new one.
const VERSION: u32 = 1;

/// Writes what there is.
pub(crate) fn index(frame: &Frame, model: &Model<'_>) -> Vec<u8> {
    bytes(&json!({
        "version": VERSION,
        "title": frame.title,
        "registry": frame.registry(),
        "images": model.rows.len(),
        "packages": model.packages.len(),
        "files": {
            "images": "images.json",
            "image": "images/{page}.json",
            "packages": "packages.json",
            "package": "packages/{file}.json",
            "channels": "channels.json",
            "changes": "changes.json",
        },
    }))
}

/// A label in a list.
#[derive(Serialize)]
struct Listed<'a> {
    namespace: &'a str,
    label: String,
    name: &'a str,
    version: &'a str,
    tag: &'a str,
    system: &'a str,
    uarch: &'a str,
    digest: &'a str,
    size: u64,
    date: Option<Timestamp>,
    state: State,
    tested: Option<cabane_evidence::Outcome>,
    page: &'a str,
}

impl<'a> Listed<'a> {
    fn of(model: &'a Model<'_>, number: usize, row: &'a Row<'_>) -> Self {
        let (image, label) = (row.image, &row.image.label);
        Self {
            namespace: image.namespace.as_str(),
            label: label.to_string(),
            name: label.name.as_str(),
            version: label.version.as_str(),
            tag: label.tag.as_str(),
            system: label.system.as_str(),
            uarch: label.uarch.as_str(),
            digest: image.digest.as_str(),
            size: image.size,
            date: image.date,
            state: row.state,
            tested: row.outcome,
            page: model.page_name(number),
        }
    }
}

/// Writes all labels, the newest first.
pub(crate) fn images(model: &Model<'_>) -> Vec<u8> {
    let rows = model.rows.iter().enumerate().rev();
    bytes(&rows.map(|(number, row)| Listed::of(model, number, row)).collect::<Vec<_>>())
}

/// Writes an image.
pub(crate) fn image(view: &ImageView<'_>) -> Vec<u8> {
    let Some(first) = view.rows.first() else { return Vec::new() };
    let image = first.image;
    let labels = view.rows.iter().map(|row| {
        let releases: &[Release] = row.releases;
        json!({
            "namespace": row.image.namespace.as_str(),
            "label": row.image.label.to_string(),
            "state": row.state,
            "releases": releases,
        })
    });
    let revoked = view.rows.iter().find_map(|row| row.revocation);
    let before = view.before.as_ref().map(|before| {
        let changed = match (&before.lines, &view.lines) {
            (Some(old), Some(new)) => {
                let found = differences(&old.lines, &new.lines).into_iter();
                let shown = found
                    .map(|one| json!({"name": one.name, "before": one.before, "now": one.now}));
                Some(shown.collect::<Vec<_>>())
            }
            _ => None,
        };
        json!({"label": before.label, "page": before.page, "changed": changed})
    });
    let packages =
        view.lines.as_ref().map(|list| list.lines.iter().map(|line| package_of(line)).collect());
    let packages: Option<Vec<Value>> = packages;
    bytes(&json!({
        "version": VERSION,
        "labels": labels.collect::<Vec<_>>(),
        "digest": image.digest,
        "manifest": image.manifest,
        "size": image.size,
        "date": image.date,
        "details": image.details,
        "signature": image.signature,
        "evidence": evidence_of(image.evidence.as_ref()),
        "revoked": revoked.map(|(date, reason)| json!({"date": date, "reason": reason})),
        "before": before,
        "bases": view.bases,
        "dependents": view.dependents,
        "packages": { "columns": COLUMNS, "rows": packages },
    }))
}

/// Returns the statements without what an image was built on: the site may not have it.
fn evidence_of(evidence: Option<&ImageEvidence>) -> Value {
    let mut value = json!(evidence);
    let built = value.get_mut("built").and_then(Value::as_array_mut);
    for one in built.into_iter().flatten().filter_map(Value::as_object_mut) {
        one.remove("bases");
    }
    value
}

/// The columns of the packages of an image. With keys, there would be twice as many bytes.
const COLUMNS: [&str; 6] = ["name", "version", "variants", "compilers", "target", "external"];

fn package_of(line: &Line<'_>) -> Value {
    let package = &line.package;
    json!([
        package.name,
        package.version,
        package.variants,
        package.compilers,
        package.target,
        package.external
    ])
}

/// Writes the names of all packages.
pub(crate) fn packages(model: &Model<'_>) -> Vec<u8> {
    let packages = model.packages.iter().map(
        |package| json!({"name": package.name, "images": package.count, "file": package.file}),
    );
    bytes(&packages.collect::<Vec<_>>())
}

/// Writes a package with all its images.
pub(crate) fn package(model: &Model<'_>, package: &Package<'_>) -> Vec<u8> {
    let builds = package.specs.iter().map(|spec| {
        let pages = spec.rows.iter().map(|row| model.page_name(*row));
        let compilers: Vec<&str> = spec.package.compilers.split_terminator(',').collect();
        json!({
            "version": spec.package.version,
            "variants": spec.package.variants,
            "compilers": compilers,
            "external": spec.package.external,
            "images": pages.collect::<Vec<_>>(),
        })
    });
    bytes(&json!({"version": VERSION, "name": package.name, "builds": builds.collect::<Vec<_>>()}))
}

/// Writes what the channels release.
pub(crate) fn channels(model: &Model<'_>) -> Vec<u8> {
    let newest = model.input.channels.iter().filter_map(|documents| documents.first());
    let channels = newest.map(|document| {
        let label = |entry: &cabane_channel::Entry| {
            json!({"label": entry.label, "digest": entry.digest, "default": entry.is_default,
                   "promoted": entry.promoted, "retirement": entry.retirement})
        };
        json!({
            "channel": document.place().to_string(),
            "serial": document.serial,
            "issued": document.issued,
            "expires": document.expires,
            "images": document.entries.iter().map(label).collect::<Vec<_>>(),
            "revoked": document.revoked,
        })
    });
    bytes(&channels.collect::<Vec<_>>())
}

/// Writes a value in one line.
pub(crate) fn bytes(value: &impl Serialize) -> Vec<u8> {
    // Maps with keys that are text, lists, texts, and numbers are always JSON.
    let mut bytes = serde_json::to_vec(value).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}
