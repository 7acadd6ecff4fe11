// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The list `checks:`, which every recipe can have.

use std::collections::{BTreeMap, BTreeSet};

use cabane_label::{System, ViewName};
use cabane_view::{BuiltinChange, Check, Decimal, Figure, RecipeChecks, is_check_name};
use regex_lite::Regex;

use crate::ask::{Field, Section, each, instead};
use crate::diagnostic::quote;
use crate::node::{Kind, Node, Scalar, Value};
use crate::settings::parse_time;
use crate::suggest::suggestion;

pub(crate) const KEYS: &[&str] =
    &["name", "command", "view", "ranks", "exit-code", "expect", "limit", "figures"];
pub(crate) const BUILTIN_KEYS: &[&str] = &["builtin", "except", "skip", "reason"];
pub(crate) const FIGURE_KEYS: &[&str] = &["name", "pattern", "unit", "reference", "lower", "upper"];

const ADD_NAME: &str = "add a line such as `name: numpy`";
const ADD_COMMAND: &str = "add a line such as `command: python -c 'import numpy'`";
/// The checks that need no recipe.
const BUILT_IN: [&str; 6] = ["starts", "libraries", "programs", "compilers", "imports", "mpi"];
/// Those that try things with names, which can be left out one by one.
const WITH_NAMES: [&str; 3] = ["programs", "compilers", "imports"];

/// Reads the checks; `None` if any of them is wrong.
pub(super) fn read(file: &Section<'_>) -> Option<RecipeChecks> {
    let Some(field) = file.given("checks") else {
        return Some(RecipeChecks::default());
    };
    let items = field.items("the check")?;
    let read: Vec<Item> = each(items.iter(), item)?;
    let mut seen = BTreeSet::new();
    let mut checks = RecipeChecks::default();
    for (one, item) in read.into_iter().zip(&items) {
        let (message, hint) = match &one {
            Item::Command(check) => {
                let name = quote(&check.name);
                (format!("there are two checks {name}"), "give one of them another name")
            }
            Item::Builtin(change) => {
                let name = quote(&change.builtin);
                (format!("{name} is changed twice"), "put all exceptions into one list")
            }
        };
        if !seen.insert(one.name().to_owned()) {
            return item.refuse(&message, hint);
        }
        match one {
            Item::Command(check) => checks.commands.push(check),
            Item::Builtin(change) => checks.builtins.push(change),
        }
    }
    Some(checks)
}

/// A command, or the change of a built-in check.
enum Item {
    Command(Check),
    Builtin(BuiltinChange),
}

impl Item {
    fn name(&self) -> &str {
        match self {
            Self::Command(check) => &check.name,
            Self::Builtin(change) => &change.builtin,
        }
    }
}

fn item(item: &Field<'_>) -> Option<Item> {
    let section = item.section()?;
    if let Some(builtin) = section.get("builtin") {
        return change(item, &section, &builtin).map(Item::Builtin);
    }
    check(&section).map(Item::Command)
}

fn change(item: &Field<'_>, section: &Section<'_>, builtin: &Field<'_>) -> Option<BuiltinChange> {
    section.refuse_unknown(BUILTIN_KEYS, |key| {
        KEYS.contains(&key)
            .then(|| instead("give a command and its keys an item of their own"))
            .flatten()
    });
    let name = builtin.text().and_then(|text| {
        if BUILT_IN.contains(&text) {
            return Some(text.to_owned());
        }
        let message = format!("there is no built-in check {}", quote(text));
        let known = suggestion(text, &BUILT_IN, "the built-in checks are");
        builtin.refuse(&message, known.as_str())
    });
    let except = section.given_or("except", Vec::new(), |field| {
        each(field.items("the name")?, |item| {
            let is_name = |text: &str| !text.is_empty() && !text.contains('/');
            item.text_if(is_name, "is no name", "write the name without a directory")
        })
    });
    let skip = section.given_or("skip", false, Field::truth);
    let reason = section.optional("reason", |field| {
        let hint = "write a sentence such as `reason: needs a license server`";
        field.text_if(|text| !text.trim().is_empty(), "is no reason", hint)
    });
    let change = BuiltinChange { builtin: name?, except: except?, skip: skip?, reason: reason? };
    let name = quote(&change.builtin);
    if change.builtin == "starts" {
        let message = format!("{name} cannot be changed: without it, no other check can run");
        return item.refuse(&message, "remove the item");
    }
    if change.skip && change.reason.is_none() {
        let message = format!("the key `reason` is missing: why is {name} skipped?");
        return item.refuse(&message, "add a line such as `reason: needs a license server`");
    }
    if change.skip && !change.except.is_empty() {
        let message = format!("{name} is skipped, so `except` has no effect");
        return item.refuse(&message, "remove `skip` or `except`");
    }
    if !change.skip && change.except.is_empty() {
        let message = format!("nothing of {name} is changed");
        return item.refuse(&message, "add a line such as `except: [matlab]` or `skip: true`");
    }
    if !change.except.is_empty() && !WITH_NAMES.contains(&change.builtin.as_str()) {
        let message = format!("{name} has no exceptions");
        return item.refuse(&message, "`except` is for `programs`, `compilers`, and `imports`");
    }
    Some(change)
}

fn check(section: &Section<'_>) -> Option<Check> {
    section.refuse_unknown(KEYS, |key| match key {
        "timeout" | "time" => instead("write `limit: 5m`"),
        "expected" | "output" => instead("write `expect:` and a regular expression"),
        "run" | "script" | "cmd" => instead("write `command:`"),
        "np" | "tasks" | "ntasks" => instead("write `ranks: 2`"),
        "exit" | "exit_code" => instead("write `exit-code: 0`"),
        "performance" => instead("write `figures:`"),
        _ => None,
    });
    let name = section.needed("name", ADD_NAME, check_name);
    let command = section.needed("command", ADD_COMMAND, command);
    let view = section.optional("view", Field::word::<ViewName>);
    let ranks = section.given_or("ranks", 1, ranks);
    let exit_code = section.given_or("exit-code", 0, exit_code);
    let expect = section.optional("expect", regular_expression);
    let limit = section.optional("limit", |field| {
        let limit = parse_time(field.text()?);
        limit.map_err(|error| field.refuse::<()>(&error.to_string(), None)).ok()
    });
    let figures = section.given_or("figures", Vec::new(), figures);
    Some(Check {
        name: name?,
        command: command?,
        view: view?,
        ranks: ranks?,
        exit_code: exit_code?,
        expect: expect?,
        limit: limit?.map(|limit| limit.as_secs()),
        figures: figures?,
    })
}

fn name_of(field: &Field<'_>) -> Option<String> {
    let hint = "use at most 64 letters, digits, `.`, `_`, and `-`";
    field.text_if(is_check_name, "is no name of a check or a figure", hint)
}

fn check_name(field: &Field<'_>) -> Option<String> {
    let name = name_of(field)?;
    if BUILT_IN.contains(&name.as_str()) {
        let message = format!("{} is the name of a built-in check", quote(&name));
        return field.refuse(&message, "choose another name");
    }
    Some(name)
}

/// A text is for the shell; a list is a program and its arguments.
fn command(field: &Field<'_>) -> Option<Vec<String>> {
    if !matches!(field.node.value, Value::List(_)) {
        let text = field.text_if(
            |text| !text.trim().is_empty(),
            "is no command",
            "write a command such as `python -c 'import numpy'`",
        )?;
        return Some(["sh", "-c", &text].map(str::to_owned).to_vec());
    }
    let items = field.items("the argument")?;
    if items.is_empty() {
        return field.refuse("a command cannot be empty", ADD_COMMAND);
    }
    each(items, |item| item.string())
}

fn ranks(field: &Field<'_>) -> Option<u32> {
    let number = integer(field).and_then(|number| u32::try_from(number).ok());
    let number = number.filter(|number| (1..=Check::MOST_RANKS).contains(number));
    number.or_else(|| field.wrong_type("a number from 1 to 100000", None))
}

fn exit_code(field: &Field<'_>) -> Option<i32> {
    let number = integer(field).and_then(|number| i32::try_from(number).ok());
    let number = number.filter(|number| (0..=255).contains(number));
    number.or_else(|| field.wrong_type("a number from 0 to 255", None))
}

fn integer(field: &Field<'_>) -> Option<i64> {
    match &field.node.value {
        Value::Scalar(Scalar { text, kind: Kind::Integer }) => text.parse().ok(),
        _ => None,
    }
}

fn regular_expression(field: &Field<'_>) -> Option<String> {
    let text = field.text()?;
    match Regex::new(text) {
        Ok(_) => Some(text.to_owned()),
        Err(error) => {
            let message = format!("{} is no regular expression: {error}", quote(text));
            field.refuse(&message, "write a `\\` before each sign that means itself")
        }
    }
}

fn figures(field: &Field<'_>) -> Option<Vec<Figure>> {
    let items = field.items("the figure")?;
    let figures: Vec<Figure> = each(items.iter(), figure)?;
    let mut seen = BTreeSet::new();
    for (figure, item) in figures.iter().zip(&items) {
        if !seen.insert(&figure.name) {
            let message = format!("there are two figures {}", quote(&figure.name));
            return item.refuse(&message, "give one of them another name");
        }
    }
    Some(figures)
}

fn figure(item: &Field<'_>) -> Option<Figure> {
    let section = item.section_with(FIGURE_KEYS)?;
    let name = section.needed("name", "add a line such as `name: bandwidth`", name_of);
    let hint = "add a line such as `pattern: 'bandwidth: ([0-9.]+)'`";
    let pattern = section.needed("pattern", hint, |field| {
        let text = regular_expression(field)?;
        let groups = Regex::new(&text).map_or(0, |pattern| pattern.captures_len());
        if groups < 2 {
            let message = format!("{} has no group around the number", quote(&text));
            return field.refuse(&message, "put parentheses around it: `([0-9.]+)`");
        }
        Some(text)
    });
    let unit = section.given_or("unit", String::new(), Field::string);
    let reference = section.given_or("reference", BTreeMap::new(), references);
    let lower = section.optional("lower", |field| fraction(field, -1.0));
    let upper = section.optional("upper", |field| fraction(field, 1.0));
    let figure = Figure {
        name: name?,
        pattern: pattern?,
        unit: unit?,
        reference: reference?,
        lower: lower?,
        upper: upper?,
    };
    let has_limit = figure.lower.is_some() || figure.upper.is_some();
    if has_limit == figure.reference.is_empty() {
        let (message, hint) = if has_limit {
            ("a limit needs a reference", "add a line such as `reference: 1000`")
        } else {
            ("a reference needs a limit", "add a line such as `lower: -10%`")
        };
        return item.refuse(message, hint);
    }
    Some(figure)
}

/// A number for every system, or one for each.
fn references(field: &Field<'_>) -> Option<BTreeMap<String, Decimal>> {
    let Value::Section(entries) = &field.node.value else {
        let wrong = || field.wrong_type("a number, or a number for each system", None);
        return number(field.node).or_else(wrong).map(|number| [("*".to_owned(), number)].into());
    };
    each(entries, |entry| {
        let field = Field::named(field.report, "the reference of", entry);
        let is_system = entry.key == "*" || entry.key.parse::<System>().is_ok();
        if !is_system {
            let message = format!("{} is no name of a system", quote(&entry.key));
            return field.report.refuse(entry.key_place, &message, "`'*'` is any other system");
        }
        let number = number(&entry.value).or_else(|| field.wrong_type("a number", None));
        Some((entry.key.clone(), number?))
    })
}

/// A limit below or above the reference: `-10%` or `-0.1`, `10%` or `0.1`.
fn fraction(field: &Field<'_>, sign: f64) -> Option<Decimal> {
    let percent = match &field.node.value {
        Value::Scalar(scalar) => scalar.text.strip_suffix('%'),
        _ => None,
    };
    let percent = percent.and_then(|text| text.parse::<f64>().ok());
    let value = match percent {
        Some(percent) => Decimal::try_from(percent / 100.0).ok(),
        None => number(field.node),
    };
    let example = if sign < 0.0 { "`-10%`" } else { "`10%`" };
    let value = value.filter(|value| value.get() * sign >= 0.0);
    value.or_else(|| field.wrong_type(&format!("a part of the reference such as {example}"), None))
}

fn number(node: &Node) -> Option<Decimal> {
    match &node.value {
        Value::Scalar(Scalar { text, kind: Kind::Integer | Kind::Float }) => {
            Decimal::try_from(text.parse::<f64>().ok()?).ok()
        }
        _ => None,
    }
}
