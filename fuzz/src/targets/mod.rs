// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is fed, and what must hold.

mod environment;
mod label;
mod layer;
mod metadata;
mod policy;
mod recipe;
mod request;
mod stack;
mod vendor;
mod view_list;

use cabane_label::ParseError;

/// One reader of text from outside.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, also that of the directory of its seeds.
    pub name: &'static str,
    /// The function that is fed.
    pub run: fn(&[u8]) -> Verdict,
    /// Pieces of text that mean something to it.
    pub dictionary: &'static [&'static str],
}

/// What became of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was read, printed and read again.
    Accepted,
    /// It was refused with an error that can be shown.
    Refused,
    /// Something that must hold does not; the text says what.
    Wrong(String),
}

/// All targets.
pub const TARGETS: [Target; 11] = [
    label::TARGET,
    view_list::TARGET,
    metadata::TARGET,
    recipe::RECIPE,
    recipe::SETTINGS,
    environment::TARGET,
    stack::TARGET,
    vendor::TARGET,
    request::TARGET,
    policy::TARGET,
    layer::TARGET,
];

/// Compares what was read first with what was read from its printed form.
fn compare<T: PartialEq, E: std::fmt::Display>(
    first: &T,
    printed: &str,
    second: Result<T, E>,
) -> Verdict {
    match second {
        Ok(second) if second == *first => Verdict::Accepted,
        Ok(_) => Verdict::Wrong(format!("{printed:?} is read as something else")),
        Err(error) => Verdict::Wrong(format!("{printed:?} is not read again: {error}")),
    }
}

/// Checks that an error can be shown on a terminal.
fn check_error(error: &ParseError, input: &str) -> Verdict {
    let (message, pointer) = (error.to_string(), error.pointer());
    let hint = error.hint().unwrap_or_default();
    let lines: Vec<&str> = pointer.split('\n').collect();
    let shown = [message.as_str(), hint.as_str()]
        .into_iter()
        .chain(lines.iter().copied());
    if error.input() != input {
        return Verdict::Wrong("the error does not hold the input".to_owned());
    }
    if error.position() > input.chars().count() {
        return Verdict::Wrong(format!("the place {} is behind the end", error.position()));
    }
    if lines.len() != 2 || lines[1].chars().count() > lines[0].chars().count() + 1 {
        return Verdict::Wrong(format!("the pointer points nowhere: {pointer:?}"));
    }
    for text in shown {
        if text.chars().any(char::is_control) || text.len() > 4096 {
            return Verdict::Wrong(format!("this cannot be shown: {text:?}"));
        }
    }
    Verdict::Refused
}
