// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane pipeline generate`: a file for the CI of GitLab or GitHub.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use cabane_label::shown;
use cabane_pipeline::{Client, GenerateRequest};
use cabane_recipe::parse_time;
use cabane_report::{IoContext, Result};
use clap::{Args, ValueEnum};

use crate::commands::pipeline::{PipelineArgs, PlanningArgs, PublishingArgs};
use crate::setup::Setup;

/// Generate a file for the CI of GitLab or GitHub
#[derive(Debug, Args)]
#[command(after_help = "\
With --for gitlab, the file is a child pipeline with one job for each stage that is left
of each cell. With --for github, it is a workflow, also for Gitea and Forgejo, that plans
when it starts. Each job calls `cabane pipeline step`. The same input gives the same bytes.

The file contains no keys and no tokens. Jobs read these variables of the CI:
  CABANE_PIPELINE_KEY          the file with the private key for results and images
  CABANE_PIPELINE_CHANNEL_KEY  the file with the private key of the channel
  CABANE_REGISTRY              the address of the registry, unless --registry is given here
  CABANE_REGISTRY_TOKEN        the file with the token for the registry
  CABANE_REGISTRY_USERNAME     the user name for the token

Here, --token and --username are used for the plan only.

Examples:
  cabane pipeline generate --for gitlab -o cells.yml
  cabane pipeline generate --for gitlab --since \"$CI_COMMIT_BEFORE_SHA\" -o cells.yml
  cabane pipeline generate --for github -o .github/workflows/cabane.yml")]
pub(crate) struct GenerateArgs {
    /// The CI that reads the file
    #[arg(long = "for", value_name = "CI")]
    client: Ci,
    /// Write this file; default: standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The directory where the jobs start; default: the Git work tree of the pipeline
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
    #[command(flatten)]
    pipeline: PipelineArgs,
    #[command(flatten)]
    planning: PlanningArgs,
    #[command(flatten)]
    publishing: PublishingArgs,
    /// The number of parallel processes of each build
    #[arg(long, value_name = "N")]
    build_jobs: Option<usize>,
    /// The time limit of each check that has none of its own
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    limit: Option<Duration>,
    /// With --for github: a label of the runners; default: self-hosted and the name of the
    /// system. Repeatable
    #[arg(long, value_name = "LABEL")]
    runs_on: Vec<String>,
    /// With --for github: a branch whose commits start the workflow; default: main. Repeatable
    #[arg(long, value_name = "BRANCH")]
    branch: Vec<String>,
}

/// A program that schedules jobs.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Ci {
    /// A child pipeline of GitLab
    Gitlab,
    /// A workflow of GitHub, Gitea, or Forgejo
    Github,
}

pub(crate) fn generate(setup: &Setup, args: &GenerateArgs) -> Result<()> {
    let (pipeline, run) = args.pipeline.open_with_warnings(setup)?;
    let request = GenerateRequest {
        client: match args.client {
            Ci::Gitlab => Client::Gitlab,
            Ci::Github => Client::Github,
        },
        project: args.project.clone(),
        plan: args.planning.request(setup, args.publishing.publishing()),
        limit: args.limit,
        jobs: args.build_jobs,
        runs_on: args.runs_on.clone(),
        branches: args.branch.clone(),
    };
    let text = cabane_pipeline::generate(setup, &pipeline, &run, &request)?;
    match &args.output {
        None => setup.printer.data(text),
        Some(file) => {
            // A new project has no `.github/workflows` yet.
            let directory = file.parent().map_or(Ok(()), fs::create_dir_all);
            let written = directory.and_then(|()| fs::write(file, text));
            written.or_failed(|| format!("write {}", shown(file)))?;
        }
    }
    Ok(())
}
