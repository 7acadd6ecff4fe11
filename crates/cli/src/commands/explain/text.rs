// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What `cabane explain` prints for people.

use std::fmt::Write as _;

use cabane_label::escape;
use cabane_run::inside::{
    Conflicts, Element, Explanation, FileConflicts, Found, NeededLibrary, Origin, Package, Place,
    ProcessEnvironment, VariableConflict, VariableOrigin,
};

use crate::printer::style;
use crate::table::Table;

/// Shows where one thing comes from.
pub(crate) fn explanation(explanation: &Explanation) -> String {
    match explanation {
        Explanation::Command { name, found, hides } => {
            looked_up(name, "command", found, "hides", hides)
        }
        Explanation::Library { name, found, others } => {
            looked_up(name, "library", found, "also", others)
        }
        Explanation::Libraries { program, found, libraries } => {
            libraries_text(program, found, libraries)
        }
        Explanation::Variable(variable) => variable_text(variable),
        Explanation::File(found) => title(&found.path, "file") + &file(found),
    }
}

fn title(name: &str, kind: &str) -> String {
    let (name, accent, faint) = (escape(name), style::ACCENT, style::FAINT);
    format!("{accent}{name}{accent:#} {faint}({kind}){faint:#}\n")
}

fn line(text: &mut String, name: &str, value: &str) {
    let _ = writeln!(text, "  {name:<9} {}", escape(value));
}

fn looked_up(name: &str, kind: &str, found: &Found, mut label: &str, others: &[Found]) -> String {
    let mut text = title(name, kind);
    line(&mut text, "file", &found.path);
    text += &file(found);
    for other in others {
        let value = format!("{}, {}", other.path, short_place(other));
        line(&mut text, label, &value);
        label = "";
    }
    text
}

/// Everything about a file but its name.
fn file(found: &Found) -> String {
    let mut text = String::new();
    if let Some(through) = &found.through {
        let place = match through.position {
            0 if through.by == "rpath" => {
                format!("the programs of {}, by their rpath", through.directory)
            }
            0 => format!("{}: {}", through.by, through.directory),
            position => format!(
                "element {position} of {} in {}: {}",
                through.of, through.by, through.directory
            ),
        };
        line(&mut text, "found by", &place);
        if let Some(origin) = &through.origin {
            line(&mut text, "put there", &format!("by {}", by(origin)));
        }
    }
    for link in &found.links {
        line(&mut text, "link to", link);
    }
    if found.is_missing {
        line(&mut text, "", "which does not exist");
    }
    let place = &found.place;
    match &place.image {
        Some(image) => {
            let value = format!("{image} at {}", place.mount_point);
            line(&mut text, "image", &value);
        }
        None => line(&mut text, "host", &file_system(place)),
    }
    package_line(&mut text, place);
    if let Some(real) = found.real.as_ref().filter(|real| *real != place) {
        let value = match &real.image {
            Some(image) => format!("image {image} at {}", real.mount_point),
            None => format!("the host, {}", file_system(real)),
        };
        line(&mut text, "leads to", &value);
        package_line(&mut text, real);
    }
    text
}

fn file_system(place: &Place) -> String {
    format!("{} at {}", place.file_system, place.mount_point)
}

fn package_line(text: &mut String, place: &Place) {
    if let Some(package) = &place.package {
        line(text, "package", &package_text(package));
    }
}

fn libraries_text(program: &str, found: &Found, libraries: &[NeededLibrary]) -> String {
    let mut text = title(program, "libraries");
    line(&mut text, "file", &found.path);
    let mut table = Table::new(&["", "", ""]);
    for library in libraries {
        let name = escape(&library.name);
        match &library.found {
            Some(file) => table.push(&[&name, &escape(&file.path), &escape(&owner(file))]),
            None => table.push(&[&name, &"not found", &""]),
        }
    }
    text + &table.indented()
}

/// Whose a file is in the end.
fn owner(found: &Found) -> String {
    let place = found.real.as_ref().unwrap_or(&found.place);
    match (&place.package, &place.image) {
        (Some(package), Some(image)) => format!("{}, {image}", package_text(package)),
        (None, Some(image)) => image.clone(),
        (_, None) => "of the host".to_owned(),
    }
}

fn package_text(package: &Package) -> String {
    let hash = package.hash.as_deref().unwrap_or_default();
    let hash: String = hash.chars().take(7).collect();
    let slash = if hash.is_empty() { "" } else { " /" };
    let Package { name, version, manager, .. } = package;
    format!("{name} {version}{slash}{hash} ({manager})")
}

fn short_place(found: &Found) -> String {
    let origin = found.through.as_ref().and_then(|one| one.origin.as_ref());
    match (origin, &found.place.image) {
        (Some(Origin::View { view, .. }), _) => format!("view {view}"),
        (_, Some(image)) => format!("image {image}"),
        (_, None) => "of the host".to_owned(),
    }
}

fn by(origin: &Origin) -> String {
    match origin {
        Origin::View { view, image } => format!("view {view} of {image}"),
        Origin::EnvironmentFile => "the environment file".to_owned(),
        Origin::Cabane => "cabane".to_owned(),
        Origin::Caller => "the caller".to_owned(),
    }
}

fn variable_text(variable: &VariableOrigin) -> String {
    if !variable.elements.is_empty() {
        let kind = format!("variable, {} elements", variable.elements.len());
        return title(&variable.name, &kind) + &elements(&variable.elements);
    }
    let mut text = title(&variable.name, "variable");
    line(&mut text, "value", variable.value.as_deref().unwrap_or("not set"));
    if let Some(origin) = &variable.set_by {
        let verb = match (&variable.value, variable.changed_since) {
            (_, true) => "first set",
            (None, false) => "unset",
            (Some(_), false) => "set",
        };
        let since = if variable.changed_since { ", and changed since" } else { "" };
        line(&mut text, verb, &format!("by {}{since}", by(origin)));
    }
    for replaced in &variable.replaced {
        let value = replaced.value.as_deref().unwrap_or("(not set)");
        let of = by(&replaced.origin);
        line(&mut text, "replaced", &format!("{value} of {of}"));
    }
    text
}

fn elements(elements: &[Element]) -> String {
    let mut table = Table::new(&[">", "", ""]);
    for (position, element) in elements.iter().enumerate() {
        let shown = if element.text.is_empty() { "(empty)" } else { &element.text };
        table.push(&[&(position + 1), &escape(shown), &escape(&by(&element.origin))]);
    }
    table.indented()
}

/// Shows what is loaded.
pub(crate) fn overview(process_environment: &ProcessEnvironment) -> String {
    let mut text = String::from("Images\n");
    for image in &process_environment.images {
        let here = if image.is_mounted { "" } else { " (not mounted here)" };
        let at = image.loaded.mount_point.display().to_string();
        let _ = writeln!(text, "  {} at {}{here}", escape(&image.title()), escape(&at));
    }
    text += "Views, in the order in which they were applied\n";
    if process_environment.views.is_empty() {
        text += "  none\n";
    }
    for view in &process_environment.views {
        let names: Vec<&str> = view.patch.iter().map(|(name, _)| name).collect();
        let changes = if names.is_empty() { "no variable".to_owned() } else { names.join(", ") };
        let _ = writeln!(text, "  {} changes {}", escape(&view.name), escape(&changes));
    }
    text
}

/// Shows every conflict in full.
pub(crate) fn conflicts(conflicts: &Conflicts) -> String {
    if conflicts.is_empty() {
        return "Conflicts\n  none\n".to_owned();
    }
    let mut text = String::from("Conflicts\n");
    for conflict in &conflicts.variables {
        let _ = writeln!(text, "  {}", variable_conflict(conflict));
    }
    for conflict in &conflicts.files {
        let FileConflicts { variable, winner, loser, names } = conflict;
        let _ = writeln!(
            text,
            "  {variable}: {} comes before {} and hides {} of its files",
            escape(winner),
            escape(loser),
            names.len()
        );
        for name in names {
            let _ = writeln!(text, "    {}", escape(name));
        }
    }
    text
}

/// Shows the conflicts in at most this many lines.
pub(crate) fn short_conflicts(conflicts: &Conflicts, most: usize) -> Vec<String> {
    let variables = conflicts.variables.iter().map(variable_conflict);
    let files = conflicts.files.iter().map(file_conflict);
    let mut lines: Vec<String> = variables.chain(files).collect();
    if lines.len() > most {
        let more = lines.len() - most + 1;
        lines.truncate(most - 1);
        lines.push(format!("and {more} more: `cabane explain`"));
    }
    lines
}

fn variable_conflict(conflict: &VariableConflict) -> String {
    let quoted = |value: &Option<String>| match value {
        Some(value) => format!("`{}`", escape(value)),
        None => "(not set)".to_owned(),
    };
    let losers = conflict
        .losers
        .iter()
        .map(|loser| format!("{} of {}", quoted(&loser.value), escape(&loser.view)));
    format!(
        "{}: {} of {} replaces {}, which was applied before",
        escape(&conflict.variable),
        quoted(&conflict.value),
        escape(&conflict.winner),
        losers.collect::<Vec<_>>().join(" and ")
    )
}

fn file_conflict(conflict: &FileConflicts) -> String {
    const MOST: usize = 4;
    let names: Vec<String> = conflict.names.iter().take(MOST).cloned().collect();
    let mut names = names.join(", ");
    if conflict.names.len() > MOST {
        let _ = write!(names, " and {} more", conflict.names.len() - MOST);
    }
    format!(
        "{}: {} comes before {} and hides its {}",
        conflict.variable,
        escape(&conflict.winner),
        escape(&conflict.loser),
        escape(&names)
    )
}
