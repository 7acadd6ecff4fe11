// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What each target reads, and what must hold.

pub mod elf;
pub mod environment;
pub mod images;
pub mod job;
pub mod label;
pub mod layer;
mod memory;
pub mod metadata;
pub mod mount_table;
pub mod needs;
mod parts;
pub mod policy;
pub mod recipe;
pub mod registry;
pub mod request;
pub mod stack;
pub mod uenv;
pub mod vendor;
pub mod view_list;

use cabane_label::ParseError;

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
    let shown = [message.as_str(), hint.as_str()].into_iter().chain(lines.iter().copied());
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
