// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What has changed since a revision, as `git` says it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use cabane_builder::Pins;
use cabane_label::{escape, shown};
use cabane_recipe::{PipelineFile, parse_pipeline};
use cabane_report::{IoContext, Kind, Report, Result};
use cabane_site::settings::find_program;
use cabane_site::{Context, env_vars};

use crate::cell::{Cell, CellName};
use crate::lock::LockFile;
use crate::pipeline::Pipeline;

/// What has changed.
pub(crate) struct Changes {
    since: String,
    root: PathBuf,
    files: Vec<PathBuf>,
    /// What the pipeline said of each cell; `None` if that cannot be read.
    before: Option<BTreeMap<CellName, String>>,
    now: BTreeMap<CellName, String>,
    /// What the lock file said.
    locked: Option<LockFile>,
    /// The directory of the pipeline.
    home: PathBuf,
}

impl Changes {
    /// Asks what has changed since a revision, in commits and in the working tree.
    pub(crate) fn since(context: &Context, pipeline: &Pipeline, since: &str) -> Result<Self> {
        let git = Git::new(context, &pipeline.directory)?;
        if since.starts_with('-') || since.is_empty() {
            let message = format!("`{}` is no revision", escape(since));
            return Err(Report::new(Kind::Usage, message));
        }
        let root = git.run(&["rev-parse", "--show-toplevel"])?;
        let root = PathBuf::from(OsString::from_vec(root.trim_ascii_end().to_vec()));
        let commit = format!("{since}^{{commit}}");
        git.run(&["rev-parse", "--verify", "--quiet", &commit]).map_err(|_| {
            let message = format!("git knows no revision `{}`", escape(since));
            Report::new(Kind::NotFound, message).hinted("`git log --oneline` lists them".to_owned())
        })?;
        let changed = git.run(&["diff", "--name-only", "--no-renames", "-z", &commit, "--"])?;
        let top = root.to_string_lossy().into_owned();
        let more = git.run(&["-C", &top, "ls-files", "--others", "--exclude-standard", "-z"])?;
        let paths = changed.split(|byte| *byte == 0).chain(more.split(|byte| *byte == 0));
        let paths = paths.filter(|path| !path.is_empty());
        let files = paths.map(|path| root.join(OsStr::from_bytes(path))).collect();
        let name = pipeline.file.file_name().unwrap_or_default().to_string_lossy();
        // A file that was not there has described nothing.
        let before = git.run(&["show", &format!("{since}:./{name}")]).unwrap_or_default();
        let before = parse_pipeline(&pipeline.file, &before).ok();
        let lock = pipeline.lock_file();
        let name = lock.file_name().unwrap_or_default().to_string_lossy();
        let locked = git.run(&["show", &format!("{since}:./{name}")]);
        let locked = locked.ok().and_then(|text| LockFile::parse(&lock, &text).ok());
        let now = std::fs::read(&pipeline.file);
        let now = now.or_failed(|| format!("read {}", shown(&pipeline.file)))?;
        Ok(Self {
            since: since.to_owned(),
            root,
            files,
            before: before.map(|file| described(&file)),
            now: described(&parse_pipeline(&pipeline.file, &now)?),
            locked,
            home: pipeline.directory.clone(),
        })
    }

    /// Returns why a cell has changed; `None` if it has not.
    pub(crate) fn reason(&self, cell: &Cell) -> Option<String> {
        let since = &self.since;
        if let Some(changed) = self.files.iter().find(|path| cell.is_built_from(path)) {
            let path = changed.strip_prefix(&self.root).unwrap_or(changed);
            return Some(format!("{} has changed since {since}", shown(path)));
        }
        let of_suite =
            |path: &&PathBuf| cell.suites.iter().find(|suite| path.starts_with(&suite.directory));
        if let Some(suite) = self.files.iter().find_map(|path| of_suite(&path)) {
            return Some(format!("the suite `{}` has changed since {since}", suite.name));
        }
        let none = Pins::default();
        let locked = self.locked.as_ref().and_then(|lock| lock.pins(&self.home, &cell.recipe));
        if let Some(base) = cell.pins.difference(locked.unwrap_or(&none)) {
            return Some(format!("its base {base} has changed since {since}"));
        }
        let before = self.before.as_ref()?.get(&cell.name);
        match before {
            None => Some(format!("the pipeline did not have it at {since}")),
            Some(before) if self.now.get(&cell.name) != Some(before) => {
                Some(format!("its entry in the pipeline has changed since {since}"))
            }
            Some(_) => None,
        }
    }
}

/// Returns what a pipeline says of each cell, apart from the content of recipes.
fn described(file: &PipelineFile) -> BTreeMap<CellName, String> {
    let mut cells = BTreeMap::new();
    for uenv in &file.uenvs {
        for deployed in &uenv.deploy {
            let (system, uarch) = deployed.value.clone();
            let Some(recipe) = uenv.recipes.get(&uarch) else { continue };
            let suites: Vec<_> = file
                .suites
                .iter()
                .map(|(name, suite)| (name, &suite.directory.value, &suite.options, &suite.only))
                .collect();
            let (path, revision) = (recipe.value.display(), uenv.revision.on(&system));
            let text = format!("{path} {} {:?} {revision} {suites:?}", uenv.mount, uenv.tag);
            let (name, version) = (uenv.name.clone(), uenv.version.clone());
            cells.insert(CellName { name, version, system, uarch }, text);
        }
    }
    cells
}

struct Git {
    program: PathBuf,
    directory: PathBuf,
}

impl Git {
    fn new(context: &Context, directory: &Path) -> Result<Self> {
        let path = context.calling.get(OsStr::new(env_vars::PATH)).map(AsRef::as_ref);
        let program = find_program("git", path).ok_or_else(|| {
            Report::new(Kind::NotFound, "`git` is not installed")
                .hinted("`--since` needs it; without that option all cells are planned".to_owned())
        })?;
        Ok(Self { program, directory: directory.to_owned() })
    }

    fn run(&self, arguments: &[&str]) -> Result<Vec<u8>> {
        let mut command = Command::new(&self.program);
        command.arg("-C").arg(&self.directory).args(arguments);
        let output = command.output().or_failed(|| "run git".to_owned())?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let message = format!("git fails in {}", shown(&self.directory));
        let detail = escape(&String::from_utf8_lossy(&output.stderr)).into_owned();
        Err(Report::new(Kind::Failure, message).detailed(detail))
    }
}
