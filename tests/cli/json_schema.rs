// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Whatever a command prints with `--json` is what its schema promises. Each run of a test is checked.

use std::collections::BTreeSet;

use cabane_cli::reference::{command, json_schemas};
use serde_json::{Map, Value};

/// Fails if a command printed JSON that its schema does not describe.
pub(crate) fn check(arguments: &[&str], printed: &str) {
    if !arguments.contains(&"--json") {
        return;
    }
    if let (Some(schema), Ok(value)) = (schema_of(arguments), serde_json::from_str(printed)) {
        let mistakes = mistakes(&schema, &value, "$");
        assert!(mistakes.is_empty(), "{arguments:?}: {mistakes:#?}\n{printed}");
    }
}

/// Returns the schema of the command that was typed.
fn schema_of(arguments: &[&str]) -> Option<Value> {
    let mut words = Vec::new();
    let mut arguments = arguments.iter();
    while let Some(word) = arguments.next() {
        match *word {
            "--repo" | "--system" | "--color" | "--backend" => drop(arguments.next()),
            option if option.starts_with('-') => {}
            word => words.push(word),
        }
    }
    let typed = words.join(" ") + " ";
    let mut schemas = json_schemas().into_iter();
    schemas.find(|(name, _)| typed.starts_with(&format!("{name} "))).map(|(_, schema)| schema)
}

/// Says where a value differs from a schema. A key that the schema does not name is a mistake here,
/// though programs must accept it.
fn mistakes(schema: &Value, value: &Value, place: &str) -> Vec<String> {
    if let Some(any) = schema["anyOf"].as_array() {
        let each: Vec<_> = any.iter().map(|one| mistakes(one, value, place)).collect();
        return if each.iter().any(Vec::is_empty) { Vec::new() } else { each.concat() };
    }
    let types = match &schema["type"] {
        Value::String(one) => vec![one.as_str()],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        // Anything.
        _ => return Vec::new(),
    };
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let is_number = kind == "integer" && types.contains(&"number");
    if !types.contains(&kind) && !is_number {
        return vec![format!("{place}: {kind} instead of {types:?}")];
    }
    if schema["enum"].as_array().is_some_and(|values| !values.contains(value)) {
        return vec![format!("{place}: {value} is no value of the enumeration")];
    }
    match value {
        Value::Array(items) => items
            .iter()
            .enumerate()
            .flat_map(|(number, item)| {
                mistakes(&schema["items"], item, &format!("{place}[{number}]"))
            })
            .collect(),
        Value::Object(fields) => in_object(schema, fields, place),
        _ => Vec::new(),
    }
}

fn in_object(schema: &Value, fields: &Map<String, Value>, place: &str) -> Vec<String> {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let missing = required.filter(|key| !fields.contains_key(*key));
    let mut found: Vec<String> = missing.map(|key| format!("{place}.{key} is missing")).collect();
    for (key, value) in fields {
        let below = match &schema["properties"][key] {
            Value::Null => &schema["additionalProperties"],
            one => one,
        };
        let place = format!("{place}.{key}");
        match below {
            Value::Null if schema["properties"].is_object() => {
                found.push(format!("{place} is not in the schema"));
            }
            schema => found.extend(mistakes(schema, value, &place)),
        }
    }
    found
}

/// Collects the commands that have the option `--json`, by the words that are typed.
fn collect(command: &clap::Command, parents: &str, found: &mut BTreeSet<String>) {
    for child in command.get_subcommands() {
        let name = format!("{parents}{}", child.get_name());
        if child.get_arguments().any(|argument| argument.get_long() == Some("json")) {
            found.insert(name.clone());
        }
        collect(child, &format!("{name} "), found);
    }
}

#[test]
fn each_command_with_json_has_a_schema() {
    let mut root = command();
    root.build();
    let mut commands = BTreeSet::new();
    collect(&root, "", &mut commands);
    let schemas = json_schemas().into_iter().map(|(name, _)| name.to_owned());
    assert_eq!(schemas.collect::<BTreeSet<_>>(), commands);
}

#[test]
fn each_schema_is_one_and_describes_every_field() {
    fn undescribed(schema: &Value, place: &str, found: &mut Vec<String>) {
        for (key, below) in schema["properties"].as_object().into_iter().flatten() {
            let place = format!("{place}.{key}");
            if below["description"].as_str().is_none_or(str::is_empty) {
                found.push(place.clone());
            }
            undescribed(below, &place, found);
        }
        for below in ["items", "additionalProperties"] {
            if schema[below].is_object() {
                undescribed(&schema[below], place, found);
            }
        }
        schema["anyOf"].as_array().into_iter().flatten().for_each(|one| {
            undescribed(one, place, found);
        });
    }
    let mut names = BTreeSet::new();
    for (name, schema) in json_schemas() {
        assert_eq!(schema["title"], format!("cabane {name} --json"));
        assert!(names.insert(name), "{name}");
        // What it refers to is in it.
        assert!(!schema.to_string().contains("$ref"), "{name}");
        let mut found = Vec::new();
        undescribed(&schema, name, &mut found);
        assert_eq!(found, [""; 0]);
    }
}

#[test]
fn what_differs_from_a_schema_is_noticed() {
    let schema = serde_json::json!({"type": "array", "items": {"type": "object",
        "required": ["name"], "properties": {
            "name": {"type": "string"}, "size": {"type": ["integer", "null"]},
            "kind": {"type": "string", "enum": ["a", "b"]}}}});
    let cases = [
        (r#"[{"name": "x", "size": null, "kind": "a"}, {"name": "y", "size": 1}]"#, None),
        (r"[{}]", Some("$[0].name is missing")),
        (r#"[{"name": 1}]"#, Some(r#"$[0].name: integer instead of ["string"]"#)),
        (
            r#"[{"name": "x", "kind": "c"}]"#,
            Some(r#"$[0].kind: "c" is no value of the enumeration"#),
        ),
        (r#"[{"name": "x", "more": 1}]"#, Some("$[0].more is not in the schema")),
        (r"{}", Some(r#"$: object instead of ["array"]"#)),
    ];
    for (text, expected) in cases {
        let found = mistakes(&schema, &serde_json::from_str(text).unwrap(), "$");
        assert_eq!(found.first().map(String::as_str), expected, "{text}");
    }
}
