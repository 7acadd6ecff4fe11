// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Files with which the CI of GitLab or GitHub carries out a pipeline.
//!
//! Each job calls `cabane pipeline step`, so that everything a CI does can be typed. The same request gives the
//! same bytes.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cabane_label::{LabelPattern, SystemPattern, shown};
use cabane_report::{IoContext, Kind, Report, Result};
use cabane_site::Context;
use cabane_site::env_vars::{CABANE_PIPELINE_CHANNEL_KEY, CABANE_PIPELINE_KEY};

use crate::directory::RunDirectory;
use crate::pipeline::Pipeline;
use crate::plan::{PlanRequest, plan};
use crate::stage::Stage;

mod github;
mod gitlab;
mod text;

use text::Words;

/// Whose file is generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// A child pipeline of GitLab.
    Gitlab,
    /// A workflow of GitHub, Gitea, or Forgejo.
    Github,
}

/// What is generated.
#[derive(Clone, Debug)]
pub struct GenerateRequest {
    /// For whom.
    pub client: Client,
    /// The directory where jobs start; by default the Git work tree of the pipeline.
    pub project: Option<PathBuf>,
    /// What is planned.
    pub plan: PlanRequest,
    /// The time limit of checks that have none; by default that of `step`.
    pub limit: Option<Duration>,
    /// The number of parallel processes of a build.
    pub jobs: Option<usize>,
    /// The labels of the runners of a workflow; by default `self-hosted` and the name of the system.
    pub runs_on: Vec<String>,
    /// The branches whose commits start a workflow; by default `main`.
    pub branches: Vec<String>,
}

/// Generates the file.
///
/// # Errors
///
/// Those of [`plan()`]; the plan has too many cells for one child pipeline of GitLab; a path or a text cannot be
/// written in the file.
pub fn generate(
    context: &Context,
    pipeline: &Pipeline,
    run: &RunDirectory,
    request: &GenerateRequest,
) -> Result<String> {
    let project = match &request.project {
        Some(project) => fs::canonicalize(project)
            .or_failed(|| format!("find the directory {}", shown(project)))?,
        None => work_tree(&pipeline.directory).unwrap_or_else(|| {
            let directory = shown(&pipeline.directory);
            context.warning(format_args!("{directory} is in no Git work tree; jobs start in it"));
            context.hint("`--project DIR` names another directory where jobs start");
            pipeline.directory.clone()
        }),
    };
    let files = Files::of(pipeline, run, &project)?;
    let script = Script { files: &files, request };
    match request.client {
        Client::Gitlab => {
            if !(request.runs_on.is_empty() && request.branches.is_empty()) {
                let message =
                    "a child pipeline of GitLab takes its runners from the pipeline's file";
                return Err(Report::new(Kind::Usage, message)
                    .hinted("leave out `--runs-on` and `--branch`".to_owned()));
            }
            // A runner starts without the results that are here.
            let nothing = RunDirectory::nowhere();
            let run = if files.is_run_inside { &nothing } else { run };
            let planned = plan(context, pipeline, run, &request.plan)?;
            gitlab::text(&script, pipeline, &planned)
        }
        Client::Github => {
            pipeline.select(&request.plan.selection)?;
            github::text(&script, pipeline)
        }
    }
}

/// The paths in a generated file.
struct Files {
    /// The file of the pipeline.
    pipeline: String,
    /// The directory of the run.
    run: String,
    /// Whether that is in the project, which each job has for itself.
    is_run_inside: bool,
    /// The directory of the catalog, if that is in the project.
    site: Option<String>,
}

impl Files {
    /// Finds both in the project, where the jobs of a CI start.
    fn of(pipeline: &Pipeline, run: &RunDirectory, project: &Path) -> Result<Self> {
        let file = pipeline.directory.join(pipeline.file.file_name().unwrap_or_default());
        let run = real(run.root());
        let inside = run.strip_prefix(project).ok();
        let site = pipeline.catalogue.as_ref().map(|target| &target.directory);
        let site = site.map(|directory| real(&pipeline.directory.join(directory)));
        let site = site.as_deref().and_then(|site| site.strip_prefix(project).ok());
        Ok(Self {
            pipeline: text_of(file.strip_prefix(project).unwrap_or(&file))?,
            run: text_of(inside.unwrap_or(&run))?,
            is_run_inside: inside.is_some(),
            site: site.map(text_of).transpose()?,
        })
    }
}

/// Returns the Git work tree of a directory.
fn work_tree(directory: &Path) -> Option<PathBuf> {
    directory.ancestors().find(|one| one.join(".git").exists()).map(Path::to_owned)
}

/// Resolves links in the part of a path that exists.
fn real(path: &Path) -> PathBuf {
    let found = path.ancestors().find_map(|one| Some((one, fs::canonicalize(one).ok()?)));
    match found {
        Some((one, real)) => match path.strip_prefix(one) {
            Ok(rest) if rest.as_os_str().is_empty() => real,
            Ok(rest) => real.join(rest),
            Err(_) => path.to_owned(),
        },
        None => path.to_owned(),
    }
}

fn text_of(path: &Path) -> Result<String> {
    let text = path.to_str().filter(|text| !text.contains(|c: char| c.is_control()));
    text.map(str::to_owned).ok_or_else(|| {
        let message = format!("the path {} cannot be written in the file of a CI", shown(path));
        Report::new(Kind::BadInput, message)
    })
}

/// What jobs type.
struct Script<'a> {
    files: &'a Files,
    request: &'a GenerateRequest,
}

impl Script<'_> {
    /// Returns the command of a stage. A cell and a system are quoted words.
    fn step(&self, stage: Stage, cell: &str, system: &str) -> String {
        let mut words = Words::of("cabane");
        words.plain(&format!("--system={system}"));
        words.plain(&format!("pipeline step {stage} {cell}"));
        self.files(&mut words);
        if stage != Stage::Check {
            self.registry(&mut words);
        }
        match stage {
            Stage::Build => {
                if let Some(jobs) = self.request.jobs {
                    words.plain(&format!("--build-jobs={jobs}"));
                }
            }
            Stage::Check => {
                if let Some(limit) = self.request.limit {
                    words.plain(&format!("--limit={}s", limit.as_secs()));
                }
            }
            Stage::Publish => words.variable("--key", CABANE_PIPELINE_KEY),
            Stage::Promote => {
                words.variable("--key", CABANE_PIPELINE_KEY);
                words.variable("--channel-key", CABANE_PIPELINE_CHANNEL_KEY);
            }
        }
        words.end()
    }

    /// Returns the command that plans what begins with one of these stages.
    fn plan(&self, next: &[Stage]) -> String {
        let plan = &self.request.plan;
        let mut words = Words::of("cabane pipeline plan --json");
        self.files(&mut words);
        for pattern in self.patterns() {
            words.option("--only", &pattern.to_string());
        }
        if let Some(since) = &plan.since {
            words.option("--since", since);
        }
        if plan.retry {
            words.plain("--retry");
        }
        self.registry(&mut words);
        for stage in next {
            words.plain(&format!("--next={stage}"));
        }
        words.end()
    }

    /// Returns the command that writes the catalog.
    fn catalogue(&self) -> String {
        let mut words = Words::of("cabane pipeline catalogue");
        words.option("--file", &self.files.pipeline);
        self.registry(&mut words);
        words.end()
    }

    fn files(&self, words: &mut Words) {
        words.option("--file", &self.files.pipeline);
        words.option("--run", &self.files.run);
    }

    /// Names the registry if one was typed. Other runs find it in the configuration or in `CABANE_REGISTRY`.
    fn registry(&self, words: &mut Words) {
        let publishing = &self.request.plan.publishing;
        if publishing.offline {
            words.plain("--offline");
        } else if let Some(url) = &publishing.registry.registry {
            words.option("--registry", url);
        }
    }

    /// Returns the patterns of the selection, each with its systems: a runner that plans has another one.
    fn patterns(&self) -> Vec<LabelPattern> {
        let selection = &self.request.plan.selection;
        let any = LabelPattern::default();
        let only = if selection.only.is_empty() { &[any][..] } else { &selection.only };
        let systems: Vec<SystemPattern> = match &selection.systems[..] {
            [] => vec![SystemPattern::Any],
            systems => systems.iter().cloned().map(SystemPattern::Is).collect(),
        };
        let mut patterns = Vec::new();
        for pattern in only {
            if pattern.system.is_some() {
                patterns.push(pattern.clone());
                continue;
            }
            let with = |system: &SystemPattern| LabelPattern {
                system: Some(system.clone()),
                ..pattern.clone()
            };
            patterns.extend(systems.iter().map(with));
        }
        patterns
    }
}

#[cfg(test)]
mod tests;
