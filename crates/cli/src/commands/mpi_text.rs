// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What `cabane mpi` tells people.

use std::fmt::Write as _;
use std::path::Path;

use cabane_label::escape;
use cabane_mpi::{FileKind, Inspected, Inspection, Installation, Language, Library};

use crate::printer::style;

/// How wide the words in front of a line are.
const WIDTH: usize = 12;
/// The functions that are named; of most programs these are all.
const MOST_NAMES: usize = 6;

/// Tells about a file or directory.
pub(super) fn inspected(inspected: &Inspected) -> String {
    match inspected {
        Inspected::File(file) => inspection(file),
        Inspected::Directory(directory) => installation(directory),
    }
}

fn head(text: &mut String, path: &Path) {
    let path = path.to_string_lossy();
    let _ = writeln!(text, "{}{}{:#}", style::HEAD, escape(&path), style::HEAD);
}

fn line(text: &mut String, word: &str, value: &str) {
    let _ = writeln!(text, "  {word:<WIDTH$} {}", escape(value));
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn inspection(file: &Inspection) -> String {
    let mut text = String::new();
    head(&mut text, &file.path);
    let kind = match file.kind {
        FileKind::Program => "a program",
        FileKind::StaticProgram => "a static program",
        FileKind::Library => "a library",
    };
    line(
        &mut text,
        "is",
        &format!("{kind} for {}", file.architecture),
    );
    if file.is_set_id {
        line(
            &mut text,
            "rights",
            "those of its owner or group: the loader ignores variables",
        );
    }
    line(&mut text, "MPI", &role(file));
    if let Some(library) = file.library.as_ref().filter(|_| !file.is_mpi) {
        line(
            &mut text,
            "gets",
            &format!("{}, {}", library.title(), shown(&library.path)),
        );
    }
    if !file.functions.is_empty() {
        line(&mut text, "functions", &functions(file));
    }
    for user in &file.users {
        line(&mut text, "also used by", &shown(user));
    }
    for (word, value) in [("rpath", &file.rpath), ("runpath", &file.runpath)] {
        if let Some(value) = value {
            line(&mut text, word, value);
        }
    }
    let launchers = file.launchers();
    if !launchers.is_empty() {
        line(&mut text, "launchers", &launchers.join(", "));
    }
    if let (Some(version), Some(by)) = (&file.glibc, &file.glibc_needed_by) {
        line(
            &mut text,
            "C library",
            &format!("{version} or newer, for {}", shown(by)),
        );
    }
    let found = file.files.len();
    line(
        &mut text,
        "libraries",
        &format!("{found} found, {} missing", file.missing.len()),
    );
    for missing in &file.missing {
        let by = shown(&missing.needed_by);
        line(
            &mut text,
            "missing",
            &format!("{}, needed by {by}", missing.name),
        );
    }
    for unmet in &file.unmet {
        let (library, by) = (shown(&unmet.library), shown(&unmet.needed_by));
        let told = format!("{} in {library}, needed by {by}", unmet.version);
        line(&mut text, "lacks", &told);
    }
    text
}

fn role(file: &Inspection) -> String {
    let names = file.names.join(", ");
    match (&file.library, file.family) {
        (Some(library), Some(family)) if file.is_mpi => {
            let language = match library.language {
                Language::C => String::new(),
                other => format!(", for {other}"),
            };
            format!("is {} of {family}{language}", library.title())
        }
        (_, Some(family)) if !file.names.is_empty() => format!("needs {family}: {names}"),
        _ if file.has_mpi_inside => "has one in itself".to_owned(),
        _ if !file.functions.is_empty() => {
            "needs one, and does not say which: whoever loads it must have loaded one".to_owned()
        }
        _ if !file.mentions.is_empty() => {
            let names: Vec<&str> = file.mentions.iter().map(String::as_str).collect();
            format!("may load one while it runs: {}", names.join(", "))
        }
        _ => "needs none".to_owned(),
    }
}

fn functions(file: &Inspection) -> String {
    let languages: Vec<String> = file.languages.iter().map(ToString::to_string).collect();
    let names: Vec<&str> = file.functions.iter().map(String::as_str).collect();
    let shown = names.get(..MOST_NAMES).unwrap_or(&names).join(", ");
    let more = names.len().saturating_sub(MOST_NAMES);
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    format!(
        "{} for {}: {shown}{more}",
        names.len(),
        languages.join(", ")
    )
}

fn installation(directory: &Installation) -> String {
    let mut text = String::new();
    head(&mut text, &directory.prefix);
    if directory.libraries.is_empty() {
        line(&mut text, "MPI", "none here");
    }
    for one in &directory.libraries {
        line(&mut text, &one.soname, &library(one));
    }
    for launcher in &directory.launchers {
        let told = format!("{}, {}", launcher.kind.name(), shown(&launcher.path));
        line(&mut text, "launcher", &told);
    }
    text
}

fn library(library: &Library) -> String {
    let language = match library.language {
        Language::C => String::new(),
        other => format!(" for {other}"),
    };
    let (family, path) = (library.family, shown(&library.path));
    format!("{}{language}, of {family}, {path}", library.title())
}
