// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Finding environment files, and laying them over their bases.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use cabane_label::{escape, shown};
use cabane_recipe::{
    BaseReference, EnvironmentFile, EnvironmentFileError, EnvironmentReference, FileContext,
    MAX_FILE_SIZE, parse_environment_file,
};
use cabane_report::{Kind, Report};

use crate::names::any_of;
use crate::near::similar;

/// How many files may be on each other.
const MAX_LEVELS: usize = 10;
/// What the file of a name ends in.
const ENDING: &str = "toml";

/// Where environment files are looked for, and what is put in for variables.
#[derive(Clone, Copy)]
pub struct EnvironmentFinder<'a> {
    /// The directories in which names are looked for, the first one first.
    pub directories: &'a [PathBuf],
    /// The variables of the caller.
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
}

impl fmt::Debug for EnvironmentFinder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnvironmentFinder")
            .field("directories", &self.directories)
            .finish_non_exhaustive()
    }
}

/// An environment file that can be called by a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundEnvironment {
    /// The name.
    pub name: String,
    /// The file.
    pub path: PathBuf,
}

/// Why an environment file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EnvironmentError {
    /// No directory has a file of this name.
    #[error("there is no environment file `{}`{}", escape(.name), named_in(.base_in.as_ref()))]
    NotFound {
        /// The name.
        name: String,
        /// Where it was looked for.
        directories: Vec<PathBuf>,
        /// Names that it may have been meant for.
        similar: Option<String>,
        /// Where it is named as a base.
        base_in: Option<Named>,
    },
    /// The file cannot be read.
    #[error("cannot read the environment file {}{}", shown(.path), named_in(.base_in.as_ref()))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
        /// Where it is named as a base.
        base_in: Option<Named>,
    },
    /// The file has mistakes.
    #[error("{error}")]
    Malformed {
        /// The mistakes.
        error: EnvironmentFileError,
    },
    /// A file is its own base.
    #[error("an environment file is its own base: {}", chain_of(.chain))]
    Loop {
        /// The files, each with its base behind it.
        chain: Vec<PathBuf>,
    },
    /// Too many files are on each other.
    #[error("more than {MAX_LEVELS} environment files stand on each other: {}", chain_of(.chain))]
    TooDeep {
        /// The files, each with its base behind it.
        chain: Vec<PathBuf>,
    },
}

/// A place in a file where another one is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
}

impl EnvironmentError {
    /// Returns what the user may type to get further, when there is such a thing.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotFound { similar: Some(similar), .. } => {
                Some(format!("did you mean {}?", any_of(std::slice::from_ref(similar))))
            }
            Self::NotFound { name, directories, .. } => {
                let searched: Vec<String> = directories.iter().map(|one| shown(one)).collect();
                Some(format!(
                    "`{}.{ENDING}` is looked for in {}; a path is written `./{}.{ENDING}`",
                    escape(name),
                    searched.join(", "),
                    escape(name)
                ))
            }
            Self::Loop { .. } => Some("remove `base` from one of them".to_owned()),
            _ => None,
        }
    }
}

/// Files that have been loaded with their bases, and how many levels each has.
type Known = BTreeMap<PathBuf, (EnvironmentFile, usize)>;

impl EnvironmentFinder<'_> {
    /// Loads a file and everything it is based on, as one.
    pub fn load(
        &self,
        reference: &EnvironmentReference,
    ) -> Result<EnvironmentFile, EnvironmentError> {
        let path = self.find(reference, None)?;
        let (file, _) = self.with_bases(&path, None, &mut Vec::new(), &mut Known::new())?;
        Ok(file)
    }

    /// Returns the file that is meant.
    pub fn path_of(&self, reference: &EnvironmentReference) -> Result<PathBuf, EnvironmentError> {
        self.find(reference, None)
    }

    /// Returns everything that can be called by a name, by name.
    pub fn all(&self) -> Vec<FoundEnvironment> {
        let mut found: BTreeMap<String, PathBuf> = BTreeMap::new();
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
        let found = found.into_iter();
        found.map(|(name, path)| FoundEnvironment { name, path }).collect()
    }

    fn find(
        &self,
        reference: &EnvironmentReference,
        base_in: Option<&Named>,
    ) -> Result<PathBuf, EnvironmentError> {
        let name = match reference {
            EnvironmentReference::Path(path) => return Ok(path.clone()),
            EnvironmentReference::Name(name) => name,
        };
        let candidates = self.directories.iter().map(|one| one.join(format!("{name}.{ENDING}")));
        if let Some(path) = candidates.into_iter().find(|path| path.is_file()) {
            return Ok(path);
        }
        let all = self.all();
        let names = all.iter().map(|found| found.name.as_str());
        Err(EnvironmentError::NotFound {
            name: name.clone(),
            directories: self.directories.to_vec(),
            similar: similar(name, names).map(str::to_owned),
            base_in: base_in.cloned(),
        })
    }

    /// Loads a file and its bases; `chain` holds the files that wait for it.
    fn with_bases(
        &self,
        path: &Path,
        base_in: Option<&Named>,
        chain: &mut Vec<(PathBuf, PathBuf)>,
        known: &mut Known,
    ) -> Result<(EnvironmentFile, usize), EnvironmentError> {
        let unreadable = |source| EnvironmentError::Unreadable {
            path: path.to_owned(),
            source,
            base_in: base_in.cloned(),
        };
        // One file may have several names.
        let real = fs::canonicalize(path).map_err(unreadable)?;
        let is_waiting = chain.iter().any(|(other, _)| *other == real);
        chain.push((real.clone(), path.to_owned()));
        let shown =
            |chain: &[(PathBuf, PathBuf)]| chain.iter().map(|(_, path)| path.clone()).collect();
        if is_waiting {
            return Err(EnvironmentError::Loop { chain: shown(chain) });
        }
        let levels_below = known.get(&real).map_or(0, |(_, levels)| *levels - 1);
        if chain.len() + levels_below > MAX_LEVELS {
            return Err(EnvironmentError::TooDeep { chain: shown(chain) });
        }
        if !known.contains_key(&real) {
            let file = self.read(path).map_err(|error| match error {
                ReadError::Io(source) => unreadable(source),
                ReadError::Malformed(error) => EnvironmentError::Malformed { error },
            })?;
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
    ) -> Result<(EnvironmentFile, usize), EnvironmentError> {
        let (mut together, mut levels) = (EnvironmentFile::default(), 1);
        for BaseReference { file: reference, line, column } in std::mem::take(&mut file.bases) {
            let named = Named { path: path.to_owned(), line, column };
            let base = self.find(&reference, Some(&named))?;
            let (base, below) = self.with_bases(&base, Some(&named), chain, known)?;
            together = together.merge(base);
            levels = levels.max(below + 1);
        }
        Ok((together.merge(file), levels))
    }

    fn read(&self, path: &Path) -> Result<EnvironmentFile, ReadError> {
        let mut text = Vec::new();
        let file = File::open(path)?;
        file.take(MAX_FILE_SIZE + 1).read_to_end(&mut text)?;
        let absolute = std::path::absolute(path)?;
        let mut directory = absolute.parent().unwrap_or(Path::new("/")).to_owned();
        // Links stay as users know them; what `..` means behind one no one can see.
        if directory.components().any(|part| part == Component::ParentDir) {
            directory = fs::canonicalize(directory)?;
        }
        let file_context = FileContext { directory: &directory, variable: self.variable };
        parse_environment_file(path, &text, &file_context).map_err(ReadError::Malformed)
    }
}

enum ReadError {
    Io(io::Error),
    Malformed(EnvironmentFileError),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

fn named_in(base_in: Option<&Named>) -> String {
    base_in.map_or_else(String::new, |named| {
        let Named { path, line, column } = named;
        format!(", the base of {}:{line}:{column}", shown(path))
    })
}

fn chain_of(chain: &[PathBuf]) -> String {
    let files: Vec<String> = chain.iter().map(|path| shown(path)).collect();
    files.join(" -> ")
}

impl From<EnvironmentError> for Report {
    fn from(error: EnvironmentError) -> Self {
        let hint = error.hint();
        let kind = match error {
            EnvironmentError::Malformed { error } => {
                return cabane_recipe::malformed("the environment file", error.diagnostics());
            }
            EnvironmentError::NotFound { .. } => Kind::NotFound,
            EnvironmentError::Unreadable { .. } => Kind::Failure,
            _ => Kind::BadInput,
        };
        Self::new(kind, error).hinted(hint)
    }
}
