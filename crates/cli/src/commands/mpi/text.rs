// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The output of `cabane mpi` for people.

use std::fmt::Write as _;
use std::path::Path;

use cabane_label::escape;
use cabane_mpi::{
    Figure, FileKind, Inspected, Inspection, Installation, Language, Library, Plan, ProbeSeen,
    Verdict, Way,
};

use crate::printer::style;
use crate::table::Table;

/// The width of the names in front of values.
const WIDTH: usize = 12;
/// The functions that are named; of most programs these are all.
const MOST_NAMES: usize = 6;

/// Shows the MPI of a file or directory.
pub(crate) fn inspected(inspected: &Inspected) -> String {
    match inspected {
        Inspected::File(file) => inspection(file),
        Inspected::Directory(directory) => installation(directory),
    }
}

fn head(text: &mut String, path: &Path) {
    let path = path.to_string_lossy();
    let _ = writeln!(text, "{}{}{:#}", style::HEAD, escape(&path), style::HEAD);
}

fn line(text: &mut String, name: &str, value: &str) {
    let _ = writeln!(text, "  {name:<WIDTH$} {}", escape(value));
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn found(library: &Library) -> String {
    format!("{}, {}", library.title(), shown(&library.path))
}

fn inspection(file: &Inspection) -> String {
    let mut text = String::new();
    head(&mut text, &file.path);
    let kind = match file.kind {
        FileKind::Program => "a program",
        FileKind::StaticProgram => "a static program",
        FileKind::Library => "a library",
    };
    line(&mut text, "is", &format!("{kind} for {}", file.architecture));
    if file.is_set_id {
        line(&mut text, "rights", "those of its owner or group: the loader ignores variables");
    }
    line(&mut text, "MPI", &role(file));
    if let Some(library) = file.library.as_ref().filter(|_| !file.is_mpi) {
        line(&mut text, "gets", &found(library));
    }
    if !file.functions.is_empty() {
        line(&mut text, "functions", &functions(file));
    }
    for user in &file.users {
        line(&mut text, "also used by", &shown(user));
    }
    for (name, value) in [("rpath", &file.rpath), ("runpath", &file.runpath)] {
        if let Some(value) = value {
            line(&mut text, name, value);
        }
    }
    if let Some(library) = file.library.as_ref().filter(|one| !one.protocols.is_empty()) {
        let protocols: Vec<&str> = library.protocols.iter().map(|one| one.name()).collect();
        line(&mut text, "PMI", &protocols.join(", "));
    }
    let launchers = file.launchers();
    if !launchers.is_empty() {
        line(&mut text, "launchers", &launchers.join(", "));
    }
    if let (Some(version), Some(by)) = (&file.glibc, &file.glibc_needed_by) {
        line(&mut text, "C library", &format!("{version} or newer, for {}", shown(by)));
    }
    let (count, missing) = (file.files.len(), file.missing.len());
    line(&mut text, "libraries", &format!("{count} found, {missing} missing"));
    for missing in &file.missing {
        let by = shown(&missing.needed_by);
        line(&mut text, "missing", &format!("{}, needed by {by}", missing.name));
    }
    for unmet in &file.unmet {
        let (library, by) = (shown(&unmet.library), shown(&unmet.needed_by));
        let value = format!("{} in {library}, needed by {by}", unmet.version);
        line(&mut text, "lacks", &value);
    }
    text
}

fn role(file: &Inspection) -> String {
    let names = file.names.join(", ");
    match (&file.library, file.family) {
        (Some(library), Some(family)) if file.is_mpi => {
            format!("is {} of {family}{}", library.title(), language(library, ", for "))
        }
        (_, Some(family)) if !file.names.is_empty() => format!("needs {family}: {names}"),
        _ if file.has_mpi_inside => "has one in itself".to_owned(),
        _ if !file.functions.is_empty() => {
            "needs one, and does not say which: the program that loads it must have loaded one"
                .to_owned()
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
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{} for {}: {shown}{more}", names.len(), languages.join(", "))
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
        let value = format!("{}, {}", launcher.kind.name(), shown(&launcher.path));
        line(&mut text, "launcher", &value);
    }
    text
}

fn library(library: &Library) -> String {
    let (family, path) = (library.family, shown(&library.path));
    format!("{}{}, of {family}, {path}", library.title(), language(library, " for "))
}

/// Names the language after this text, unless it is the usual one.
fn language(library: &Library, before: &str) -> String {
    match library.language {
        Language::C => String::new(),
        other => format!("{before}{other}"),
    }
}

/// Shows what would be done.
pub(crate) fn plan(
    verdict: &Verdict,
    plan: &Plan,
    variables: &[(String, String)],
    file: &Path,
) -> String {
    let mut text = String::new();
    head(&mut text, file);
    if let Some(from) = &verdict.from {
        line(&mut text, "gets", &found(from));
    }
    if let Some(to) = &verdict.to {
        line(&mut text, "would get", &found(to));
    }
    let way = match plan.way {
        Way::Nothing => "nothing is to be done",
        Way::LibraryPath => "a directory in front of the search path",
        Way::Preload => "the real file is loaded first",
    };
    line(&mut text, "how", way);
    for (link, target) in &plan.links {
        line(&mut text, "link", &format!("{} to {}", shown(link), shown(target)));
    }
    for (name, value) in variables {
        line(&mut text, "sets", &format!("{name}={value}"));
    }
    text
}

/// Shows what the ranks of the test program have proven.
pub(crate) fn proven(library: &Library, seen: &ProbeSeen, image: Option<&str>) -> String {
    let version = seen.ranks.first().map(|one| one.version.as_str()).unwrap_or_default();
    let version = version.split(',').next().unwrap_or_default();
    let count = seen.ranks.len();
    let ranks = if count == 1 { "one rank".to_owned() } else { format!("{count} ranks") };
    let place = image.map(|image| format!(" in {image}")).unwrap_or_default();
    let path = shown(&library.file);
    let text =
        format!("proven: {ranks}{place} got {path}, {version}; sums and large messages were right");
    escape(&text).into_owned()
}

/// Shows what was measured.
pub(crate) fn figures(before: Option<&ProbeSeen>, after: &ProbeSeen) -> String {
    let mut table = Table::new(&["", ">bytes", ">before", ">after"]);
    for figure in &after.figures {
        let same = |one: &&Figure| one.kind == figure.kind && one.bytes == figure.bytes;
        let old = before.and_then(|before| before.figures.iter().find(same));
        let (kind, digits) = match figure.kind.as_str() {
            "latency" => ("latency, us", 2),
            _ => ("bandwidth, MB/s", 0),
        };
        let shown = |value: f64| format!("{value:.digits$}");
        let old = old.map_or_else(|| "-".to_owned(), |old| shown(old.value));
        let bytes = figure.bytes.to_string();
        table.push(&[&kind, &bytes, &old, &shown(figure.value)]);
    }
    table.to_string()
}
