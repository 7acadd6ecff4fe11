// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Finding environment files, and laying them over their bases.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use cabane_label::{enumerate, escape, shown};
use cabane_recipe::{
    BaseReference, EnvironmentFile, EnvironmentReference, FileContext, MAX_FILE_SIZE, malformed,
    parse_environment_file,
};
use cabane_report::{Kind, Report, Result};
use rustix::fs::OFlags;

use crate::near::similar;

/// How many files may be on each other.
const MAX_LEVELS: usize = 10;
/// What the file of a name ends in.
const ENDING: &str = "toml";

/// Where environment files are looked for, and what is put in for variables.
#[derive(Clone, Copy, Debug)]
pub struct EnvironmentFinder<'a> {
    /// The directories in which names are looked for, the first one first.
    pub directories: &'a [PathBuf],
    /// The variables of the caller.
    pub variables: &'a BTreeMap<OsString, OsString>,
}

/// A place in a file where another one is named as its base.
struct Named<'a> {
    path: &'a Path,
    line: u32,
    column: u32,
}

/// Files that have been loaded with their bases, and how many levels each has.
type Known = BTreeMap<PathBuf, (EnvironmentFile, usize)>;

impl EnvironmentFinder<'_> {
    /// Loads a file and everything it is based on, as one.
    pub fn load(&self, reference: &EnvironmentReference) -> Result<EnvironmentFile> {
        let path = self.find(reference, None)?;
        let (file, _) = self.with_bases(&path, None, &mut Vec::new(), &mut Known::new())?;
        Ok(file)
    }

    /// Returns the file of everything that can be called by a name.
    pub fn all(&self) -> BTreeMap<String, PathBuf> {
        let mut found = BTreeMap::new();
        for directory in self.directories {
            // A directory that is not there, or closed, has nothing for this user.
            let entries = fs::read_dir(directory).into_iter().flatten().flatten();
            for path in entries.map(|entry| entry.path()) {
                let is_file =
                    path.extension().is_some_and(|ending| ending == ENDING) && path.is_file();
                if let (true, Some(name)) =
                    (is_file, path.file_stem().and_then(|name| name.to_str()))
                {
                    found.entry(name.to_owned()).or_insert(path);
                }
            }
        }
        found
    }

    fn find(
        &self,
        reference: &EnvironmentReference,
        base_in: Option<&Named<'_>>,
    ) -> Result<PathBuf> {
        let name = match reference {
            EnvironmentReference::Path(path) => return Ok(path.clone()),
            EnvironmentReference::Name(name) => name,
        };
        let candidates = self.directories.iter().map(|one| one.join(format!("{name}.{ENDING}")));
        if let Some(path) = candidates.into_iter().find(|path| path.is_file()) {
            return Ok(path);
        }
        let all = self.all();
        let hint = if let Some(similar) = similar(name, all.keys().map(String::as_str)) {
            format!("did you mean {}?", enumerate(&[similar.to_owned()], "or"))
        } else {
            let searched: Vec<String> = self.directories.iter().map(|one| shown(one)).collect();
            format!(
                "`{0}.{ENDING}` is looked for in {1}; a path is written `./{0}.{ENDING}`",
                escape(name),
                searched.join(", "),
            )
        };
        let message =
            format!("there is no environment file `{}`{}", escape(name), named_in(base_in));
        Err(Report::new(Kind::NotFound, message).hinted(hint))
    }

    /// Loads a file and its bases; `chain` holds the files that wait for it.
    fn with_bases(
        &self,
        path: &Path,
        base_in: Option<&Named<'_>>,
        chain: &mut Vec<(PathBuf, PathBuf)>,
        known: &mut Known,
    ) -> Result<(EnvironmentFile, usize)> {
        let unreadable = |source| {
            let message =
                format!("cannot read the environment file {}{}", shown(path), named_in(base_in));
            Report::caused(Kind::Failure, message, source)
        };
        // One file may have several names.
        let real = fs::canonicalize(path).map_err(unreadable)?;
        let is_waiting = chain.iter().any(|(other, _)| *other == real);
        chain.push((real.clone(), path.to_owned()));
        if is_waiting {
            let message = format!("an environment file is its own base: {}", chain_of(chain));
            return Err(Report::new(Kind::BadInput, message)
                .hinted("remove `base` from one of them".to_owned()));
        }
        let levels_below = known.get(&real).map_or(0, |(_, levels)| *levels - 1);
        if chain.len() + levels_below > MAX_LEVELS {
            let chain = chain_of(chain);
            let message =
                format!("more than {MAX_LEVELS} environment files extend each other: {chain}");
            return Err(Report::new(Kind::BadInput, message));
        }
        if !known.contains_key(&real) {
            let (text, directory) = read(path).map_err(unreadable)?;
            let variable = |name: &str| self.variables.get(OsStr::new(name)).cloned();
            let working_directory = std::env::current_dir().unwrap_or_else(|_| directory.clone());
            let context = FileContext {
                directory: &directory,
                working_directory: &working_directory,
                variable: &variable,
            };
            let file = parse_environment_file(path, &text, &context)
                .map_err(|error| malformed("the environment file", error.diagnostics()))?;
            let loaded = self.on_bases(path, file, chain, known)?;
            known.insert(real.clone(), loaded);
        }
        chain.pop();
        Ok(known.get(&real).cloned().unwrap_or_default())
    }

    fn on_bases(
        &self,
        path: &Path,
        mut file: EnvironmentFile,
        chain: &mut Vec<(PathBuf, PathBuf)>,
        known: &mut Known,
    ) -> Result<(EnvironmentFile, usize)> {
        let (mut together, mut levels, mut errors) = (EnvironmentFile::default(), 1, Vec::new());
        let waiting = chain.len();
        for BaseReference { file: reference, line, column } in std::mem::take(&mut file.bases) {
            let named = Named { path, line, column };
            let base = self.find(&reference, Some(&named));
            match base.and_then(|base| self.with_bases(&base, Some(&named), chain, known)) {
                Ok((base, below)) => {
                    together = together.merge(base);
                    levels = levels.max(below + 1);
                }
                Err(error) => errors.push(error),
            }
            chain.truncate(waiting);
        }
        match errors.len() {
            0 => Ok((together.merge(file), levels)),
            1 => Err(errors.remove(0)),
            _ => Err(unusable_bases(path, &errors)),
        }
    }
}

/// Returns what is in a file, and the directory in which its relative paths are. Pipes and devices are
/// not read: they could have no end, or never begin.
fn read(path: &Path) -> io::Result<(Vec<u8>, PathBuf)> {
    let mut text = Vec::new();
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let kind = file.metadata()?;
    if !kind.is_file() && !kind.is_dir() {
        return Err(io::Error::other("it is not a regular file"));
    }
    file.take(MAX_FILE_SIZE + 1).read_to_end(&mut text)?;
    let absolute = std::path::absolute(path)?;
    let mut directory = absolute.parent().unwrap_or(Path::new("/")).to_owned();
    // Links stay as users know them; what `..` means behind one no one can see.
    if directory.components().any(|part| part == Component::ParentDir) {
        directory = fs::canonicalize(directory)?;
    }
    Ok((text, directory))
}

fn named_in(base_in: Option<&Named<'_>>) -> String {
    base_in.map_or_else(String::new, |named| {
        let Named { path, line, column } = named;
        format!(", the base of {}:{line}:{column}", shown(path))
    })
}

/// Reports everything that is wrong with several bases of a file.
fn unusable_bases(path: &Path, errors: &[Report]) -> Report {
    let kind = errors.first().map_or(Kind::Failure, Report::kind);
    let message = format!("{} bases of {} cannot be used", errors.len(), shown(path));
    let mut lines = Vec::new();
    for error in errors {
        let (text, hints) = error.texts();
        lines.push(text);
        lines.extend(
            hints.iter().flat_map(|hints| hints.lines()).map(|one| format!("  hint: {one}")),
        );
    }
    Report::new(kind, message).detailed(lines.join("\n"))
}

fn chain_of(chain: &[(PathBuf, PathBuf)]) -> String {
    let files: Vec<String> = chain.iter().map(|(_, path)| shown(path)).collect();
    files.join(" -> ")
}
