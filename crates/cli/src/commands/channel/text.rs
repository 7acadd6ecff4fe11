// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Changes of a channel as text and in JSON.

use cabane_channel::Change;
use cabane_label::escape;
use serde_json::{Value, json};

/// Returns a line for a change, which begins with `+`, `-`, or `~`.
pub(super) fn line(change: &Change<'_>) -> String {
    match change {
        Change::Added(entry) => format!("+ {}", entry.label),
        Change::Removed(entry) => format!("- {}", entry.label),
        Change::Replaced(old, new) if old.label == new.label => {
            format!("~ {}: {} instead of {}", new.label, new.digest.id(), old.digest.id())
        }
        Change::Replaced(old, new) => format!("~ {} instead of :{}", new.label, old.label.tag),
        Change::Default(entry, before) => {
            let (name, version) = (&entry.label.name, &entry.label.version);
            match before {
                Some(before) => format!("~ {name} means {version} instead of {}", before.version),
                None => format!("~ {name} means {version}"),
            }
        }
        Change::Retirement(entry) => match &entry.retirement {
            Some(retirement) => {
                let replacement = retirement.replacement.as_ref();
                let replacement = replacement.map(|one| format!(", use {one}"));
                let replacement = replacement.unwrap_or_default();
                format!("~ {} is retired on {}{replacement}", entry.label, retirement.date)
            }
            None => format!("~ {} is not retired", entry.label),
        },
        Change::Waived(waiver) => {
            let (rule, by) = (escape(&waiver.rule), escape(&waiver.by));
            format!("~ {rule} is waived for {} until {}, by {by}", waiver.label, waiver.until)
        }
        Change::Revoked(revoked) => {
            format!("- {} ({}) is revoked", revoked.label, revoked.digest.id())
        }
    }
}

/// Returns a change for programs.
pub(super) fn value(change: &Change<'_>) -> Value {
    match change {
        Change::Added(entry) => json!({ "added": entry }),
        Change::Removed(entry) => json!({ "removed": entry }),
        Change::Replaced(before, after) => json!({ "replaced": before, "by": after }),
        Change::Default(entry, before) => json!({ "default": entry.label, "before": before }),
        Change::Retirement(entry) => {
            json!({ "label": entry.label, "retirement": entry.retirement })
        }
        Change::Waived(waiver) => json!({ "waived": waiver }),
        Change::Revoked(revoked) => json!({ "revoked": revoked }),
    }
}
