// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Changing files where they must be changed, by lines.
//!
//! Only what is written in blocks is understood here. The caller reads the
//! result again, so that a change in the wrong place is noticed.

use std::ops::Range;
use std::path::Path;

use super::{BUILTIN, PACKAGES, SPACK_REPOSITORY, Target, fresh};
use crate::diagnostic::Source;
use crate::language::Language;
use crate::node::{Entry, Node, Value};
use crate::recipe::FormatVersion;
use crate::report::Report;
use crate::stack::recipe::StackRecipe;
use crate::stack::value::Yaml;

/// Changes of a text, which do not overlap.
#[derive(Default)]
struct Changes(Vec<(Range<usize>, String)>);

impl Changes {
    fn replace(&mut self, place: Range<usize>, text: impl Into<String>) {
        self.0.push((place, text.into()));
    }

    fn insert(&mut self, at: usize, text: impl Into<String>) {
        self.replace(at..at, text);
    }

    fn apply(mut self, text: &str) -> Option<String> {
        // What is inserted comes before what is replaced in the same place.
        self.0.sort_by_key(|(place, _)| (place.start, place.end));
        let mut result = String::with_capacity(text.len());
        let mut done = 0;
        for (place, new) in &self.0 {
            result.push_str(text.get(done..place.start)?);
            result.push_str(new);
            done = place.end;
        }
        result.push_str(text.get(done..)?);
        Some(result)
    }
}

/// Reads a file that has been read before.
fn with_entries<T>(text: &str, use_entries: impl FnOnce(&[Entry]) -> Option<T>) -> Option<T> {
    let source = Source::new(Path::new("file"), text);
    let report = Report::new(&source, Language::Yaml);
    let root = crate::yaml::parse(&report)?;
    use_entries(entries_of(&root)?)
}

fn entries_of(node: &Node) -> Option<&[Entry]> {
    match &node.value {
        Value::Section(entries) => Some(entries),
        _ => None,
    }
}

fn find<'n>(entries: &'n [Entry], key: &str) -> Option<&'n Entry> {
    entries.iter().find(|entry| entry.key == key)
}

/// The lines of an entry in a block, and how far they are indented.
struct Lines {
    place: Range<usize>,
    indent: usize,
}

impl Lines {
    /// Finds the lines of an entry; `None` if it does not begin its line.
    fn of(text: &str, entry: &Entry) -> Option<Self> {
        let key = entry.key_place.start;
        let start = text.get(..key)?.rfind('\n').map_or(0, |end| end + 1);
        let before = text.get(start..key)?;
        if !before.chars().all(|c| c == ' ') {
            return None;
        }
        let indent = before.len();
        let mut end = line_end(text, key);
        let mut at = end;
        while at < text.len() {
            let next = line_end(text, at);
            let line = text.get(at..next)?;
            let content = line.trim_start();
            let depth = line.len() - content.len();
            let is_item = depth == indent && content.starts_with("- ");
            if content.is_empty() || content.starts_with('#') && depth <= indent {
                at = next;
                continue;
            }
            if depth <= indent && !is_item {
                break;
            }
            (at, end) = (next, next);
        }
        Some(Self { place: start..end, indent })
    }

    /// Returns the comments that have lines of their own.
    fn comments(&self, text: &str) -> String {
        let lines = text.get(self.place.clone()).unwrap_or_default().lines();
        let comments = lines.filter(|line| line.trim_start().starts_with('#'));
        comments.map(|line| line.to_owned() + "\n").collect::<Vec<_>>().concat()
    }
}

/// Returns where the line ends that holds a byte, with its new line.
fn line_end(text: &str, at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    rest.find('\n').map_or(text.len(), |end| at + end + 1)
}

/// Ends the last line of a file, so that others can come behind it.
fn ended(text: &str) -> String {
    let mut text = text.to_owned();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

pub(super) fn config(text: &str, recipe: &StackRecipe, target: &Target) -> Option<String> {
    let text = &ended(text);
    let changes = with_entries(text, |entries| {
        let mut changes = Changes::default();
        if let Some(entry) = find(entries, "version") {
            changes.replace(entry.value.place.into(), "3");
        } else {
            let name = Lines::of(text, find(entries, "name")?)?;
            changes.insert(name.place.end, "version: 3\n");
        }
        for key in ["modules", "mirror"] {
            if let Some(entry) = find(entries, key) {
                changes.replace(Lines::of(text, entry)?.place, "");
            }
        }
        let spack = find(entries, "spack")?;
        let inner = entries_of(&spack.value)?;
        let last = Lines::of(text, inner.last()?)?;
        let indent = " ".repeat(last.indent);
        if let Some(commit) = &target.new_spack {
            change_commit(text, inner, commit, &mut changes)?;
        }
        if target.left_fork.is_some() {
            changes.replace(find(inner, "repo")?.value.place.into(), SPACK_REPOSITORY);
        }
        if target.moves_packages {
            let packages = entries_of(&find(inner, "packages")?.value)?;
            let one = match find(packages, BUILTIN) {
                Some(builtin) => entries_of(&builtin.value)?,
                None => packages,
            };
            change_commit(text, one, &target.packages_commit, &mut changes)?;
        }
        if target.has_new_packages {
            changes.insert(
                last.place.end,
                format!(
                    "{indent}packages:\n{indent}  repo: {PACKAGES}\n{indent}  commit: {}\n",
                    target.packages_commit
                ),
            );
        }
        Some(changes)
    })?;
    debug_assert!(
        recipe.config.format < FormatVersion::V3
            || target.new_spack.is_some()
            || target.moves_packages
    );
    changes.apply(text)
}

/// Writes another commit into a section with `repo`.
fn change_commit(text: &str, section: &[Entry], commit: &str, changes: &mut Changes) -> Option<()> {
    let is_given = |entry: &&Entry| !matches!(entry.value.value, Value::Null);
    if let Some(entry) = find(section, "commit").filter(is_given) {
        changes.replace(entry.value.place.into(), commit);
        return Some(());
    }
    let empty = find(section, "commit").map(|entry| Lines::of(text, entry));
    let repo = Lines::of(text, find(section, "repo")?)?;
    let line = format!("{}commit: {commit}\n", " ".repeat(repo.indent));
    match empty {
        Some(lines) => changes.replace(lines?.place, line),
        None => changes.insert(repo.place.end, line),
    }
    Some(())
}

/// The whole of a file of format 1 is other; its comments are put before.
pub(super) fn compilers(text: &str, recipe: &StackRecipe, target: &Target) -> Option<String> {
    if recipe.config.format != FormatVersion::V1 {
        return Some(text.to_owned());
    }
    let comments = text.lines().filter(|line| line.trim_start().starts_with('#'));
    let comments: Vec<String> = comments.map(|line| format!("{}\n", line.trim_start())).collect();
    Some(comments.concat() + &fresh::compilers(&target.recipe))
}

/// Writes the specs that are other.
fn change_specs(list: &Node, specs: &[String], changes: &mut Changes) {
    let Value::List(items) = &list.value else { return };
    for (item, spec) in items.iter().zip(specs) {
        if matches!(&item.value, Value::Scalar(old) if old.text != *spec) {
            let written = Yaml::from(spec.as_str()).to_string();
            changes.replace(item.place.into(), written.trim_end());
        }
    }
}

pub(super) fn environments(text: &str, recipe: &StackRecipe, target: &Target) -> Option<String> {
    let text = &ended(text);
    let changes = with_entries(text, |entries| {
        let mut changes = Changes::default();
        for entry in entries {
            let one = target.recipe.environments.iter().find(|one| one.name == entry.key)?;
            let inner = entries_of(&entry.value)?;
            if let Some(packages) = find(inner, "packages") {
                let lines = Lines::of(text, packages)?;
                changes.replace(lines.place.clone(), lines.comments(text));
            }
            if let Some(specs) = find(inner, "specs") {
                change_specs(&specs.value, &one.specs, &mut changes);
            }
            if recipe.config.format != FormatVersion::V1 {
                continue;
            }
            let compiler = Lines::of(text, find(inner, "compiler")?)?;
            let indent = " ".repeat(compiler.indent);
            let names: Vec<&str> = one.compilers.iter().map(|name| name.package()).collect();
            let line = format!("{indent}compiler: [{}]\n", names.join(", "));
            changes.replace(compiler.place.clone(), compiler.comments(text) + &line);
            if let Some(mpi) = find(inner, "mpi") {
                let lines = Lines::of(text, mpi)?;
                let network = one.mpi.as_ref().map_or(String::new(), |mpi| {
                    let spec = Yaml::from(mpi.spec.as_str());
                    format!("{indent}network:\n{indent}  mpi: {spec}")
                });
                changes.replace(lines.place.clone(), lines.comments(text) + &network);
            }
        }
        Some(changes)
    })?;
    changes.apply(text)
}
