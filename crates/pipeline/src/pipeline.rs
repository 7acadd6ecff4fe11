// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A pipeline: the cells that its file describes, with their recipes.

use std::fs;
use std::path::{Path, PathBuf};

use cabane_label::{Label, LabelPattern, Namespace, System, shown};
use cabane_recipe::{
    CatalogueTarget, Diagnostic, PipelineFile, PromoteTarget, UenvEntry, malformed, parse_pipeline,
};
use cabane_report::{IoContext, Kind, Report, Result};

use crate::cell::{Cell, CellName, CellSuite};
use crate::inputs::{Sums, combine, outside};
use crate::lock::{LockFile, pinned};

/// The names that a pipeline's file may have where none is given, the first one first.
pub const FILES: [&str; 2] = ["pipeline.yaml", "config.yaml"];

/// What is built, for which systems, and where it goes.
#[derive(Debug)]
pub struct Pipeline {
    /// Its file.
    pub file: PathBuf,
    /// The directory of the file.
    pub directory: PathBuf,
    /// The directory of the recipes.
    pub recipes: PathBuf,
    /// The part of the registry to which images are pushed.
    pub publish: Namespace,
    /// Where images go that pass.
    pub promote: Option<PromoteTarget>,
    /// The website that shows the images, if there is one.
    pub catalogue: Option<CatalogueTarget>,
    /// The cells that can be built, by name.
    pub cells: Vec<Cell>,
    /// What nobody asked for, and what can never be built.
    pub remarks: Vec<Diagnostic>,
    /// What is wrong with other cells, which are left out.
    pub mistakes: Vec<Diagnostic>,
}

/// Which cells are meant.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Only those that one of these patterns means; all if there is none.
    pub only: Vec<LabelPattern>,
    /// Only those of these systems; of all if there is none.
    pub systems: Vec<System>,
}

impl Selection {
    /// Whether a cell is meant.
    #[must_use]
    pub fn has(&self, cell: &CellName) -> bool {
        let is_of_system = self.systems.is_empty() || self.systems.contains(&cell.system);
        is_of_system && is_one_of(cell, &self.only)
    }
}

/// Whether one of some patterns means a cell. No pattern means all.
fn is_one_of(cell: &CellName, patterns: &[LabelPattern]) -> bool {
    patterns.is_empty() || patterns.iter().any(|one| cell.matches(one))
}

/// What the file of a pipeline says, its suites with the cells that they test, and its lock file.
struct Described<'a> {
    parsed: &'a PipelineFile,
    suites: Vec<(CellSuite, Vec<LabelPattern>)>,
    lock: Option<LockFile>,
}

impl Pipeline {
    /// Opens a pipeline: a file, or a directory with `pipeline.yaml` or `config.yaml`.
    ///
    /// # Errors
    ///
    /// There is none, or it or its lock file is malformed, or a suite is missing. A cell whose recipe is missing is among
    /// the mistakes.
    pub fn open(path: &Path) -> Result<Self> {
        let file = find(path)?;
        let text = fs::read(&file).or_failed(|| format!("read {}", shown(&file)))?;
        let parsed = parse_pipeline(&file, &text)?;
        // The file was read as text.
        let text = String::from_utf8_lossy(&text).into_owned();
        let directory = match file.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let directory = fs::canonicalize(directory)
            .or_failed(|| format!("find the directory {}", shown(directory)))?;
        let mut pipeline = Self {
            recipes: directory.join(&parsed.recipes),
            file,
            directory,
            publish: parsed.publish.clone(),
            promote: parsed.promote.clone(),
            catalogue: parsed.catalogue.clone(),
            cells: Vec::new(),
            remarks: parsed.remarks.clone(),
            mistakes: Vec::new(),
        };
        let lock = LockFile::of(&pipeline.file)?;
        let mut sums = Sums::default();
        let described = Described {
            suites: pipeline.suites(&parsed, &text, &mut sums)?,
            parsed: &parsed,
            lock,
        };
        for uenv in &parsed.uenvs {
            pipeline.add(&described, uenv, &text, &mut sums)?;
        }
        pipeline.cells.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(pipeline)
    }

    /// Finds the suites.
    fn suites(
        &self,
        parsed: &PipelineFile,
        text: &str,
        sums: &mut Sums,
    ) -> Result<Vec<(CellSuite, Vec<LabelPattern>)>> {
        let mut suites = Vec::new();
        for (name, entry) in &parsed.suites {
            let directory = self.directory.join(&entry.directory.value);
            if !directory.is_dir() {
                let message = format!("there is no suite in {}", shown(&directory));
                let place = entry.directory.place.clone();
                let mistake = Diagnostic::new(&self.file, text, place, &message);
                // Without it, images would pass that were not tested as wanted.
                let mistake = mistake.with_hint("a suite is a directory of tests");
                return Err(malformed("the pipeline", &[mistake]));
            }
            let directory =
                fs::canonicalize(&directory).or_failed(|| format!("find {}", shown(&directory)))?;
            let suite = CellSuite::new(name, directory, entry.options.clone(), sums)?;
            suites.push((suite, entry.only.clone()));
        }
        Ok(suites)
    }

    /// Adds the cells of an environment.
    fn add(
        &mut self,
        described: &Described<'_>,
        uenv: &UenvEntry,
        text: &str,
        sums: &mut Sums,
    ) -> Result<()> {
        let Described { parsed, suites, lock } = described;
        for (uarch, recipe) in &uenv.recipes {
            // Several environments may share a directory, which is then named in full.
            let of_name = self.recipes.join(uenv.name.as_str()).join(&recipe.value);
            let mut places = [of_name.clone(), self.recipes.join(&recipe.value)].into_iter();
            let directory = places.find(|place| place.join("config.yaml").is_file());
            let Some(directory) = directory else {
                let directory = of_name;
                let message = format!("there is no recipe in {}", shown(&directory));
                let mistake = Diagnostic::new(&self.file, text, recipe.place.clone(), &message);
                self.mistakes.push(mistake.with_hint("a recipe is a directory with `config.yaml`"));
                continue;
            };
            let recipe =
                fs::canonicalize(&directory).or_failed(|| format!("find {}", shown(&directory)))?;
            let (outside, bases) = outside(&recipe);
            let pins = lock.as_ref().and_then(|lock| lock.pins(&self.directory, &recipe));
            let (pins, unlocked) = pinned(pins, &bases);
            for deployed in uenv.deploy.iter().filter(|one| one.value.1 == *uarch) {
                let system = &deployed.value.0;
                let Some(cluster) = parsed.clusters.get(system) else { continue };
                let Some(target) = cluster.target(uarch) else { continue };
                let system_directory = parsed
                    .systems
                    .as_ref()
                    .map(|one| self.directory.join(one).join(system.as_str()));
                if let Some(missing) = system_directory.as_ref().filter(|one| !one.is_dir()) {
                    let message = format!("there is no system in {}", shown(missing));
                    let place = deployed.place.clone();
                    let mistake = Diagnostic::new(&self.file, text, place, &message);
                    let hint = "`systems` names the directory with one directory for each system";
                    self.mistakes.push(mistake.with_hint(hint));
                    continue;
                }
                let name = CellName {
                    name: uenv.name.clone(),
                    version: uenv.version.clone(),
                    system: system.clone(),
                    uarch: uarch.clone(),
                };
                let suites = suites.iter().filter(|(_, only)| is_one_of(&name, only));
                let mut cell = Cell {
                    // Not known yet.
                    inputs: combine(&[]),
                    line: text
                        .get(..uenv.place.start)
                        .map_or(1, |text| text.lines().count().max(1)),
                    revision: uenv.revision.on(system).to_owned(),
                    suites: suites.map(|(suite, _)| suite.clone()).collect(),
                    name,
                    recipe: recipe.clone(),
                    outside: outside.clone(),
                    pins: pins.clone(),
                    unlocked: unlocked.clone(),
                    home: self.directory.clone(),
                    system_directory,
                    mount: uenv.mount.clone(),
                    tag: uenv.tag.clone(),
                    target: target.clone(),
                    build: target.build.or(&parsed.build),
                    check: target.check.or(&parsed.check),
                    runner_tags: cluster.runner_tags.clone(),
                };
                cell.inputs = cell.inputs_with(sums)?;
                self.cells.push(cell);
            }
        }
        Ok(())
    }

    /// Returns what is wrong with the pipeline as one report, if anything is.
    #[must_use]
    pub fn problem(&self) -> Option<Report> {
        (!self.mistakes.is_empty()).then(|| malformed("the pipeline", &self.mistakes))
    }

    /// Returns the cells that are meant.
    ///
    /// # Errors
    ///
    /// None is.
    pub fn select(&self, selection: &Selection) -> Result<Vec<&Cell>> {
        let cells: Vec<&Cell> =
            self.cells.iter().filter(|cell| selection.has(&cell.name)).collect();
        if cells.is_empty() {
            let mut systems: Vec<&str> =
                self.cells.iter().map(|cell| cell.name.system.as_str()).collect();
            systems.sort_unstable();
            systems.dedup();
            let message = format!("no cell of {} matches", shown(&self.file));
            let hint = format!("its systems are {}", cabane_label::enumerate(&systems, "and"));
            return Err(Report::new(Kind::NotFound, message)
                .hinted("`cabane pipeline check --cells` lists the cells".to_owned())
                .hinted((!systems.is_empty()).then_some(hint)));
        }
        Ok(cells)
    }

    /// Returns one cell.
    ///
    /// # Errors
    ///
    /// There is none of this name.
    pub fn cell(&self, name: &CellName) -> Result<&Cell> {
        self.cells.iter().find(|cell| cell.name == *name).ok_or_else(|| {
            let message = format!("{} has no cell {name}", shown(&self.file));
            Report::new(Kind::NotFound, message)
                .hinted("`cabane pipeline check --cells` lists the cells".to_owned())
        })
    }

    /// Returns where the image of a cell goes when it passes.
    ///
    /// # Errors
    ///
    /// As [`Cell::promoted`].
    pub fn promoted(&self, cell: &Cell) -> Result<Option<(Namespace, Label)>> {
        let Some(target) = &self.promote else { return Ok(None) };
        Ok(Some((target.namespace.clone(), cell.promoted()?)))
    }
}

fn find(path: &Path) -> Result<PathBuf> {
    let in_directory = |directory: &Path| {
        let mut places = FILES.iter().map(|name| directory.join(name));
        // A file of the name may be the recipe of an image.
        places.find(|place| place.is_file())
    };
    if path.is_dir() {
        return in_directory(path).ok_or_else(|| {
            let message = format!("there is no pipeline in {}", shown(path));
            let hint = "name the file: `cabane pipeline check --file FILE`";
            Report::new(Kind::NotFound, message).hinted(hint.to_owned())
        });
    }
    if path.try_exists().unwrap_or(true) {
        return Ok(path.to_owned());
    }
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let hint = match in_directory(directory) {
        Some(other) => format!("did you mean `--file {}`?", shown(&other)),
        None => format!("`ls {}` shows the files there", shown(directory)),
    };
    let message = format!("there is no pipeline {}", shown(path));
    Err(Report::new(Kind::NotFound, message).hinted(hint))
}
