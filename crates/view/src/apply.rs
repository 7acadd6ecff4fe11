// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! How a patch turns one environment into another.
//!
//! Everything here works on bytes: the variables of the caller may hold text
//! in any encoding, and what no view names must come out as it went in.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use crate::{Change, EnvPatch, ListOperation, is_variable_name};

const OPENING: &str = "${@";
const CLOSING: &str = "@}";

type Environment = BTreeMap<OsString, OsString>;

/// What a value of a patch stands for.
type ValueOf<'a> = &'a dyn Fn(&str) -> Vec<u8>;

impl EnvPatch {
    /// Returns the whole environment that results.
    ///
    /// The changes happen one after the other, as if each patch that was
    /// merged were applied to the result of those before it. Only the values
    /// `${@VAR@}` come from `calling`, the environment before any patch.
    ///
    /// A list is taken apart at `:`; after its operations, empty elements and
    /// later duplicates are dropped. Only in `MANPATH` an empty element stays,
    /// where it means the pages of the system; not to be set means the same there. Every list operation but
    /// `Unset` leaves the variable set, be it to nothing. Variables that the
    /// patch does not name stay as they are, byte for byte.
    #[must_use]
    pub fn apply(&self, calling: &Environment) -> Environment {
        self.apply_with(calling, &|text| expand(text, calling))
    }

    /// Returns the environment that results when `${@VAR@}` means nothing and
    /// every value is taken as it is.
    #[must_use]
    pub fn apply_as_written(&self, calling: &Environment) -> Environment {
        self.apply_with(calling, &|text| text.as_bytes().to_vec())
    }

    fn apply_with(&self, calling: &Environment, value_of: ValueOf<'_>) -> Environment {
        let mut environment = calling.clone();
        for (variable, changes) in self.iter().filter(|(name, _)| is_variable_name(name)) {
            let mut state = State::of(variable, calling);
            for change in changes {
                state.apply(change, value_of);
            }
            match state.into_value() {
                Some(value) => environment.insert(variable.into(), OsString::from_vec(value)),
                None => environment.remove(OsStr::new(variable)),
            };
        }
        environment
    }
}

/// One variable while it changes.
struct State {
    value: Value,
    /// Whether an empty element means something.
    keeps_empty: bool,
}

enum Value {
    Unset,
    Text(Vec<u8>),
    /// Dropping duplicates can wait until the end: an operation on a list
    /// without them gives the same first occurrences.
    List(VecDeque<Vec<u8>>),
}

impl State {
    fn of(variable: &str, calling: &Environment) -> Self {
        let value = match calling.get(OsStr::new(variable)) {
            None => Value::Unset,
            Some(text) => Value::Text(text.as_bytes().to_vec()),
        };
        Self { value, keeps_empty: variable == "MANPATH" }
    }

    fn apply(&mut self, change: &Change, value_of: ValueOf<'_>) {
        match change {
            Change::Set(text) => self.value = Value::Text(value_of(text)),
            Change::Unset | Change::List { operation: ListOperation::Unset, .. } => {
                self.value = Value::Unset;
            }
            Change::List { operation, values } => {
                let mut values = values.iter().map(|value| value_of(value)).collect();
                values = self.elements(values);
                self.apply_to_list(*operation, values);
            }
        }
    }

    /// Takes texts apart; each may hold several elements.
    fn elements(&self, texts: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        let mut elements = Vec::with_capacity(texts.len());
        for text in texts {
            let parts = text.split(|&byte| byte == b':');
            elements
                .extend(parts.filter(|e| self.keeps_empty || !e.is_empty()).map(<[u8]>::to_vec));
        }
        elements
    }

    fn apply_to_list(&mut self, operation: ListOperation, values: Vec<Vec<u8>>) {
        let mut list = match std::mem::replace(&mut self.value, Value::Unset) {
            _ if operation == ListOperation::Set => VecDeque::new(),
            // Not to be set means the system's pages, as an empty element does; they
            // must not vanish when others are added.
            Value::Unset if self.keeps_empty => [Vec::new()].into(),
            Value::Unset => VecDeque::new(),
            Value::Text(text) => self.elements(vec![text]).into(),
            Value::List(list) => list,
        };
        if operation == ListOperation::Prepend {
            for value in values.into_iter().rev() {
                list.push_front(value);
            }
        } else {
            list.extend(values);
        }
        if list.is_empty() && self.keeps_empty {
            // A list without elements and a list with one that is empty are
            // written the same, and so must mean the same.
            list.push_back(Vec::new());
        }
        self.value = Value::List(list);
    }

    fn into_value(self) -> Option<Vec<u8>> {
        match self.value {
            Value::Unset => None,
            Value::Text(text) => Some(text),
            Value::List(list) => Some(join_first_occurrences(&list)),
        }
    }
}

fn join_first_occurrences(list: &VecDeque<Vec<u8>>) -> Vec<u8> {
    let mut seen = HashSet::new();
    let elements: Vec<&[u8]> =
        list.iter().map(Vec::as_slice).filter(|&element| seen.insert(element)).collect();
    elements.join(&b':')
}

/// Replaces every `${@VAR@}` by the value of `VAR`, or by nothing if there is
/// no such variable.
///
/// What does not have exactly this form, with a name that shells accept, stays
/// as it is. The text that is put in is not looked at again.
fn expand(text: &str, calling: &BTreeMap<OsString, OsString>) -> Vec<u8> {
    let mut expanded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(OPENING) {
        expanded.extend_from_slice(&rest.as_bytes()[..start]);
        rest = &rest[start + OPENING.len()..];
        let name = &rest[..shell_name_length(rest)];
        match rest[name.len()..].strip_prefix(CLOSING) {
            Some(after) if !name.is_empty() => {
                let value = calling.get(OsStr::new(name));
                expanded.extend_from_slice(value.map_or(b"", |value| value.as_bytes()));
                rest = after;
            }
            _ => expanded.extend_from_slice(OPENING.as_bytes()),
        }
    }
    expanded.extend_from_slice(rest.as_bytes());
    expanded
}

/// Returns how many bytes at the beginning of a text are a name that shells
/// accept: `[A-Za-z_][A-Za-z0-9_]*`.
fn shell_name_length(text: &str) -> usize {
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return 0;
    }
    text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len())
}
