// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What commands print with `--json`: the schemas, and the page that is made of them.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use serde_json::Value;

/// The JSON schemas of commands, by the words that are typed. The tests check each output of these
/// commands against them.
pub const JSON_SCHEMAS: &[(&str, &str)] = &[
    ("image ls", include_str!("json/image-ls.json")),
    ("image find", include_str!("json/image-find.json")),
    ("image verify", include_str!("json/image-verify.json")),
    ("status", include_str!("json/status.json")),
    ("repo status", include_str!("json/repo-status.json")),
    ("repo gc", include_str!("json/repo-gc.json")),
    ("repo pin", include_str!("json/repo-pin.json")),
    ("registry log", include_str!("json/registry-log.json")),
    ("registry check", include_str!("json/registry-check.json")),
    ("environment ls", include_str!("json/environment-ls.json")),
    ("config", include_str!("json/config.json")),
    ("cache ls", include_str!("json/cache-ls.json")),
];

const HEAD: &str = "\
<!-- Made by `make docs`; do not edit. -->

# JSON

Programs read the output of commands with `--json`. For the commands on this page, these promises hold in
all releases with the same major version:

- A field that is always there stays, with its type and its meaning.
- A field that is missing or `null` today may get a value.
- New fields can appear. Ignore the fields that you do not know.
- The order of fields has no meaning. Lists keep the order that the field describes.

A change that breaks a promise is in the [changelog](../../CHANGELOG.md), under *Changed*. Other commands with
`--json` print what their page describes, but their fields can change.

For each command there is a [JSON Schema](https://json-schema.org) beside this page. Exit codes are those of the
command without `--json`, and errors go to standard error as text.
";

/// Writes the page, and the schema of each command into the folder `json`.
pub(crate) fn write(directory: &Path) -> io::Result<()> {
    fs::write(directory.join("json.md"), page())?;
    fs::create_dir_all(directory.join("json"))?;
    for (name, schema) in JSON_SCHEMAS {
        fs::write(directory.join("json").join(file_name(name)), schema)?;
    }
    Ok(())
}

fn file_name(command: &str) -> String {
    format!("{}.json", command.replace(' ', "-"))
}

fn page() -> String {
    let mut text = HEAD.to_owned();
    for (name, schema) in JSON_SCHEMAS {
        let schema: Value = serde_json::from_str(schema).unwrap_or_default();
        let about = schema["description"].as_str().unwrap_or_default();
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "\n## `cabane {name} --json`\n\n{about} ([schema](json/{}))\n\n\
             | field | type | always there | meaning |\n|---|---|---|---|\n",
            file_name(name)
        );
        add_rows(&mut text, &schema, "");
    }
    text
}

/// Adds a row for each field of an object, and of those below it.
fn add_rows(text: &mut String, schema: &Value, parents: &str) {
    let each = |below: &Value| below.as_object().cloned().unwrap_or_default();
    for any in schema["anyOf"].as_array().into_iter().flatten() {
        add_rows(text, any, parents);
    }
    if schema["items"].is_object() {
        add_rows(text, &schema["items"], &format!("{parents}[]"));
    }
    if schema["additionalProperties"].is_object() {
        add_rows(text, &schema["additionalProperties"], &format!("{parents}.*"));
    }
    let required = schema["required"].as_array();
    for (key, field) in each(&schema["properties"]) {
        let path = format!("{parents}.{key}");
        let is_always = required.is_some_and(|keys| keys.iter().any(|one| *one == key));
        let always = if is_always { "yes" } else { "no" };
        let meaning = field["description"].as_str().unwrap_or_default();
        let shown = path.trim_start_matches('.');
        let _ = writeln!(text, "| `{shown}` | {} | {always} | {meaning} |", kind_of(&field));
        add_rows(text, &field, &path);
    }
}

fn kind_of(field: &Value) -> String {
    if let Some(values) = field["enum"].as_array() {
        let values = values.iter().map(|one| format!("`{one}`"));
        return values.collect::<Vec<_>>().join(", ");
    }
    match &field["type"] {
        Value::String(one) => one.clone(),
        Value::Array(several) => {
            several.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or ")
        }
        _ => "any".to_owned(),
    }
}
