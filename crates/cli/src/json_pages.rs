// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What commands print with `--json`: the schemas, and the page that is made of them.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use serde_json::Value;

/// The JSON schemas of commands, by the words that are typed: each command with `--json` has one.
const JSON_SCHEMAS: &[(&str, &str)] = &[
    ("image ls", include_str!("json/image-ls.json")),
    ("image find", include_str!("json/image-find.json")),
    ("image inspect", include_str!("json/image-inspect.json")),
    ("image unpack", include_str!("json/image-unpack.json")),
    ("image verify", include_str!("json/image-verify.json")),
    ("search", include_str!("json/search.json")),
    ("info", include_str!("json/info.json")),
    ("status", include_str!("json/status.json")),
    ("explain", include_str!("json/explain.json")),
    ("diff", include_str!("json/diff.json")),
    ("repo status", include_str!("json/repo-status.json")),
    ("repo gc", include_str!("json/repo-gc.json")),
    ("repo pin", include_str!("json/repo-pin.json")),
    ("repo import", include_str!("json/repo-import.json")),
    ("registry check", include_str!("json/registry-check.json")),
    ("registry log", include_str!("json/registry-log.json")),
    ("registry usage", include_str!("json/registry-usage.json")),
    ("registry gc", include_str!("json/registry-gc.json")),
    ("upgrade", include_str!("json/upgrade.json")),
    ("channel ls", include_str!("json/channel-ls.json")),
    ("channel show", include_str!("json/channel-show.json")),
    ("channel log", include_str!("json/channel-log.json")),
    ("channel diff", include_str!("json/channel-diff.json")),
    ("channel promote", include_str!("json/channel-promote.json")),
    ("bundle ls", include_str!("json/bundle-ls.json")),
    ("import", include_str!("json/import.json")),
    ("export", include_str!("json/export.json")),
    ("package", include_str!("json/package.json")),
    ("share", include_str!("json/share.json")),
    ("add", include_str!("json/add.json")),
    ("remove", include_str!("json/remove.json")),
    ("lock", include_str!("json/lock.json")),
    ("update", include_str!("json/update.json")),
    ("build", include_str!("json/build.json")),
    ("recipe check", include_str!("json/recipe-check.json")),
    ("recipe convert", include_str!("json/recipe-convert.json")),
    ("recipe show", include_str!("json/recipe-show.json")),
    ("kernel ls", include_str!("json/kernel-ls.json")),
    ("kernel install", include_str!("json/kernel-install.json")),
    ("kernel remove", include_str!("json/kernel-remove.json")),
    ("environment ls", include_str!("json/environment-ls.json")),
    ("system probe", include_str!("json/system-probe.json")),
    ("system devices", include_str!("json/system-devices.json")),
    ("vendor-mpi", include_str!("json/vendor-mpi.json")),
    ("mpi inspect", include_str!("json/mpi-inspect.json")),
    ("mpi swap", include_str!("json/mpi-swap.json")),
    ("mpi audit", include_str!("json/mpi-audit.json")),
    ("slurm report", include_str!("json/slurm-report.json")),
    ("config", include_str!("json/config.json")),
    ("impact", include_str!("json/impact.json")),
    ("doctor", include_str!("json/doctor.json")),
    ("check", include_str!("json/check.json")),
    ("evidence ls", include_str!("json/evidence-ls.json")),
    ("evidence compare", include_str!("json/evidence-compare.json")),
    ("evidence report", include_str!("json/evidence-report.json")),
    ("pipeline check", include_str!("json/pipeline-check.json")),
    ("pipeline plan", include_str!("json/pipeline-plan.json")),
    ("pipeline lock", include_str!("json/pipeline-lock.json")),
    ("pipeline status", include_str!("json/pipeline-status.json")),
    ("cache ls", include_str!("json/cache-ls.json")),
    ("cache verify", include_str!("json/cache-verify.json")),
    ("cache gc", include_str!("json/cache-gc.json")),
];

/// What several schemas use, by name. A schema refers to it as `definitions.json#/NAME`.
const DEFINITIONS: &str = include_str!("json/definitions.json");

/// Returns the schemas of all commands with `--json`, by the words that are typed. They are complete:
/// none refers to another file.
#[must_use]
pub fn json_schemas() -> Vec<(&'static str, Value)> {
    let definitions: Value = serde_json::from_str(DEFINITIONS).unwrap_or_default();
    let schema = |text| {
        let mut schema = serde_json::from_str(text).unwrap_or_default();
        complete(&mut schema, &definitions);
        schema
    };
    JSON_SCHEMAS.iter().map(|(name, text)| (*name, schema(text))).collect()
}

/// Replaces each reference by what it refers to; fields beside it override those of the definition.
fn complete(schema: &mut Value, definitions: &Value) {
    let name = schema["$ref"].as_str().and_then(|name| name.strip_prefix("definitions.json#/"));
    if let Some(Value::Object(defined)) = name.map(|name| definitions[name].clone()) {
        let mut whole = defined;
        whole.extend(schema.as_object_mut().map(std::mem::take).unwrap_or_default());
        whole.remove("$ref");
        *schema = whole.into();
    }
    match schema {
        Value::Object(fields) => fields.values_mut().for_each(|one| complete(one, definitions)),
        Value::Array(items) => items.iter_mut().for_each(|one| complete(one, definitions)),
        _ => {}
    }
}

const HEAD: &str = "\
<!-- Made by `make docs`; do not edit. -->

# JSON

Programs read the output of commands with `--json`. These promises hold in all releases with the same major
version:

- A field that is always there stays, with its type and its meaning.
- A field that is missing or `null` today may get a value.
- New fields can appear, and new values in a list of values. Ignore those that you do not know.
- The order of fields has no meaning. Lists keep the order that the field describes.

A change that breaks a promise is in the [changelog](../../CHANGELOG.md), under *Changed*. An `object`
without fields in its table has keys that depend on the data, or the format that the table names. Commands typed as
`uenv` print the JSON of uenv.

For each command there is a [JSON Schema](https://json-schema.org) beside this page. Exit codes are those of the
command without `--json`, and errors go to standard error as text.
";

/// Writes the page, and the schema of each command into the folder `json`.
pub(crate) fn write(directory: &Path) -> io::Result<()> {
    fs::write(directory.join("json.md"), page())?;
    fs::create_dir_all(directory.join("json"))?;
    for (name, schema) in json_schemas() {
        fs::write(directory.join("json").join(file_name(name)), format!("{schema:#}\n"))?;
    }
    Ok(())
}

fn file_name(command: &str) -> String {
    format!("{}.json", command.replace(' ', "-"))
}

fn page() -> String {
    let mut text = HEAD.to_owned();
    for (name, schema) in json_schemas() {
        let about = schema["description"].as_str().unwrap_or_default();
        let _ = write!(
            text,
            "\n## `cabane {name} --json`\n\n{about} ([schema](json/{}))\n",
            file_name(name)
        );
        match schema["anyOf"].as_array() {
            None => add_table(&mut text, &schema),
            Some(forms) => {
                for form in forms {
                    let _ =
                        write!(text, "\n{}:\n", form["description"].as_str().unwrap_or_default());
                    add_table(&mut text, form);
                }
            }
        }
    }
    text
}

fn add_table(text: &mut String, schema: &Value) {
    let mut rows = String::new();
    add_rows(&mut rows, schema, "");
    if !rows.is_empty() {
        *text += "\n| field | type | always there | meaning |\n|---|---|---|---|\n";
        *text += &rows;
    }
}

/// Adds a row for each field of an object, and of those below it.
fn add_rows(text: &mut String, schema: &Value, parents: &str) {
    let each = |below: &Value| below.as_object().cloned().unwrap_or_default();
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
