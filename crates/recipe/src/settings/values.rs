// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Readers of single values.

use std::num::NonZeroU32;
use std::str::FromStr;

use cabane_label::{Namespace, ParseError, System, Uarch};

use super::PathTemplate;
use crate::ask::Field;
use crate::node::{Kind, Scalar, Value};

/// Reads a value; returns it as text, or notes why it is none.
pub(super) type Reader = fn(&Field<'_>) -> Option<String>;

pub(super) fn color(field: &Field<'_>) -> Option<String> {
    if let Value::Scalar(Scalar { kind: Kind::Boolean, .. }) = field.node.value {
        let word = if field.truth()? { "always" } else { "never" };
        return Some(word.to_owned());
    }
    choice(field, &["auto", "always", "never"])
}

pub(super) fn image_format(field: &Field<'_>) -> Option<String> {
    choice(field, &["squashfs", "erofs"])
}

pub(super) fn listing(field: &Field<'_>) -> Option<String> {
    choice(field, &["auto", "catalog", "index"])
}

pub(super) fn permission(field: &Field<'_>) -> Option<String> {
    choice(field, &["allow", "forbid"])
}

pub(super) fn container_options(field: &Field<'_>) -> Option<String> {
    choice(field, &["auto", "yes", "no"])
}

fn choice(field: &Field<'_>, choices: &[&str]) -> Option<String> {
    let choices: Vec<_> = choices.iter().map(|word| (*word, *word)).collect();
    field.choice(&choices).map(str::to_owned)
}

fn word<T: FromStr<Err = ParseError>>(field: &Field<'_>) -> Option<String> {
    field.word::<T>()?;
    text(field)
}

pub(super) fn system(field: &Field<'_>) -> Option<String> {
    word::<System>(field)
}

pub(super) fn uarch(field: &Field<'_>) -> Option<String> {
    word::<Uarch>(field)
}

pub(super) fn namespace(field: &Field<'_>) -> Option<String> {
    word::<Namespace>(field)
}

pub(super) fn text(field: &Field<'_>) -> Option<String> {
    field.string()
}

pub(super) fn path(field: &Field<'_>) -> Option<String> {
    path_template(field).map(|path| path.as_str().to_owned())
}

pub(super) fn jobs(field: &Field<'_>) -> Option<String> {
    let hint = "leave it out to use every core there is";
    number_from_one(field, hint).map(|jobs| jobs.to_string())
}

pub(super) fn registry_url(field: &Field<'_>) -> Option<String> {
    let is_odd = |c: char| c.is_whitespace() || c.is_control();
    let is_address = |text: &str| !text.is_empty() && !text.contains(is_odd);
    let hint = "write one such as `url = \"https://registry.example.org/uenv\"`";
    field.text_if(is_address, "is not the address of a registry", hint)
}

pub(super) fn container_registry(field: &Field<'_>) -> Option<String> {
    let is_odd = |c: char| c.is_whitespace() || c.is_control() || "@#".contains(c);
    let is_registry = |text: &str| {
        let place = text.strip_prefix("http://").unwrap_or(text);
        let host = place.split('/').next().unwrap_or_default();
        let is_host = host == "localhost" || host.contains(['.', ':']);
        is_host && !place.contains("://") && !text.contains(is_odd) && !text.ends_with('/')
    };
    let hint = "write a host such as `default_registry = \"docker.io\"`";
    field.text_if(is_registry, "is not a registry", hint)
}

pub(super) fn listing_url(field: &Field<'_>) -> Option<String> {
    let is_odd = |c: char| c.is_whitespace() || c.is_control();
    let is_address = |text: &str| {
        let mut starts = ["https://", "http://"].iter();
        let host = starts.find_map(|start| text.strip_prefix(start));
        host.is_some_and(|host| !host.is_empty() && !host.contains(is_odd))
    };
    let hint = "an address begins with `https://` or `http://`";
    field.text_if(is_address, "is not the address of a list", hint)
}

pub(super) fn host(field: &Field<'_>) -> Option<String> {
    let is_odd = |c: char| c.is_whitespace() || c.is_control() || "/@?#".contains(c);
    let is_host = |text: &str| !text.is_empty() && !text.contains(is_odd);
    field.text_if(is_host, "is not a host", "write one such as `auth.example.org`")
}

pub(super) fn number_from_one(field: &Field<'_>, hint: &str) -> Option<NonZeroU32> {
    let number = whole_number(field).and_then(|number| u32::try_from(number).ok());
    number
        .and_then(NonZeroU32::new)
        .or_else(|| field.wrong_type("a number of at least 1", Some(hint)))
}

pub(super) fn whole_number(field: &Field<'_>) -> Option<i64> {
    match &field.node.value {
        Value::Scalar(Scalar { text, kind: Kind::Integer }) => text.parse().ok(),
        _ => None,
    }
}

pub(super) fn path_template(field: &Field<'_>) -> Option<PathTemplate> {
    let text = field.text()?;
    let noted = |error: super::PathTemplateError| {
        field.report.note(Some(field.place()), &error.to_string(), error.hint().as_deref());
    };
    text.parse().map_err(noted).ok()
}
