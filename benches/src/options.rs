// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What can be typed, and how often things are measured.

use std::path::{Path, PathBuf};

use crate::measure::Rounds;

pub(crate) const HELP: &str = "\
Measures Cabane beside its peers, prints every figure and writes docs/performance.md.

Usage: cabane-benches [--quick] [--pairs N] [--only SECTION,…] [--output FILE] [--directory DIR]

  --quick          a run of one or two minutes: fewer pairs, smaller trees. Writes no
                   page unless --output is given
  --pairs N        how often the two commands of a comparison are run in turn
  --only LIST      sections to measure: start, python, many, busy, list, pack, rebuild, mpi;
                   and stack, registry, slurm, ways, verified, storage, pipeline, catalogue, uenv, containers
                   and crowd (a part of containers), which are measured only when they are named.
                   Writes no page unless --output is given
  --output FILE    the page to write
  --directory DIR  where images and trees are made; default: the directory for
                   temporary files. It must be a place where every user may read

benches/README.md lists the variables that name programs.
";

/// The page that a whole run writes.
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/performance.md");

/// The sections that take long; each is measured when it is requested, and has a page of its own.
const ON_THEIR_OWN: [&str; 11] = [
    "stack",
    "registry",
    "slurm",
    "containers",
    "crowd",
    "ways",
    "verified",
    "storage",
    "pipeline",
    "catalogue",
    "uenv",
];

/// What was typed.
#[derive(Debug, Default)]
pub(crate) struct Options {
    pub(crate) help: bool,
    pub(crate) quick: bool,
    pub(crate) directory: Option<PathBuf>,
    pairs: Option<usize>,
    only: Vec<String>,
    output: Option<PathBuf>,
}

impl Options {
    pub(crate) fn from_arguments(
        arguments: impl IntoIterator<Item = String>,
    ) -> Result<Self, String> {
        let mut options = Self::default();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
            match argument.as_str() {
                "--help" | "-h" => options.help = true,
                "--quick" => options.quick = true,
                "--pairs" => options.pairs = Some(count(&value()?)?),
                "--only" => options.only = names(&value()?)?,
                "--output" => options.output = Some(value()?.into()),
                "--directory" => options.directory = Some(value()?.into()),
                other => return Err(format!("`{other}` is no option; --help lists them")),
            }
        }
        Ok(options)
    }

    pub(crate) fn wants(&self, section: &str) -> bool {
        match self.only.as_slice() {
            [] => !ON_THEIR_OWN.contains(&section),
            only => only.iter().any(|name| name == section),
        }
    }

    /// Returns the section that has a page of its own, if only that is measured.
    pub(crate) fn on_its_own(&self) -> Option<&str> {
        match self.only.as_slice() {
            [only] if ON_THEIR_OWN.contains(&only.as_str()) => Some(only),
            _ => None,
        }
    }

    /// Returns the page to write, if one is to be written: half a measurement does
    /// not replace a whole one by itself.
    pub(crate) fn output(&self) -> Option<&Path> {
        let is_whole = !self.quick && self.only.is_empty();
        self.output.as_deref().or_else(|| is_whole.then_some(Path::new(PAGE)))
    }

    /// Returns how often commands of a few milliseconds are run in turn.
    pub(crate) fn short_rounds(&self) -> Rounds {
        self.rounds(if self.quick { 30 } else { 150 })
    }

    /// Returns how often commands of some tens of milliseconds are run in turn.
    pub(crate) fn long_rounds(&self) -> Rounds {
        self.rounds(if self.quick { 12 } else { 80 })
    }

    /// Returns how often commands that take a second are run in turn.
    pub(crate) fn run_rounds(&self) -> Rounds {
        self.rounds(if self.quick { 3 } else { 12 })
    }

    /// Returns how often crowds of starts come together.
    pub(crate) fn crowd_rounds(&self) -> usize {
        if self.quick { 1 } else { 4 }
    }

    /// Returns how often each way is tried on a busy machine.
    pub(crate) fn busy_rounds(&self) -> usize {
        if self.quick { 5 } else { 40 }
    }

    /// Returns how often work of many seconds is done in turn.
    pub(crate) fn heavy_rounds(&self) -> usize {
        if self.quick { 1 } else { 3 }
    }

    /// Returns how often an image is moved in turn, which takes seconds.
    pub(crate) fn transfers(&self, pairs: usize) -> usize {
        self.pairs.unwrap_or(if self.quick { 2 } else { pairs })
    }

    /// Returns how many files the large tree has.
    pub(crate) fn files(&self) -> usize {
        if self.quick { 4_000 } else { 52_000 }
    }

    fn rounds(&self, pairs: usize) -> Rounds {
        let pairs = self.pairs.unwrap_or(pairs);
        Rounds { warm_up: (pairs / 10).clamp(1, 10), pairs }
    }
}

fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(format!("`{text}` is no number of pairs")),
    }
}

fn names(text: &str) -> Result<Vec<String>, String> {
    let known = crate::SECTIONS.iter().map(|(name, _)| *name);
    let names: Vec<String> = text.split(',').map(str::to_owned).collect();
    match names.iter().find(|name| !known.clone().any(|one| one == *name)) {
        Some(name) => Err(format!("`{name}` is no section; --help lists them")),
        None => Ok(names),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> Result<Options, String> {
        Options::from_arguments(text.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn a_whole_run_writes_the_page() {
        let options = options("").unwrap();
        assert!(options.output().unwrap().ends_with("docs/performance.md"));
    }

    #[test]
    fn a_quick_run_does_not_replace_the_page() {
        assert_eq!(options("--quick").unwrap().output(), None);
    }

    #[test]
    fn an_unknown_section_is_refused() {
        let reason = options("--only start,stat").unwrap_err();
        assert_eq!(reason, "`stat` is no section; --help lists them");
    }

    #[test]
    fn no_pairs_at_all_are_refused() {
        assert_eq!(options("--pairs 0").unwrap_err(), "`0` is no number of pairs");
    }
}
