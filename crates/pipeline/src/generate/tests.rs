// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs;
use std::process::Command;

use tempfile::TempDir;

use super::text::{list, scalar, word};
use super::*;
use crate::plan::PlannedCell;

const CELL: &str = "app/1.0@daint%gh200";

/// A project with two cells of one recipe. Its target has a variable with this value.
fn project(value: &str) -> (TempDir, Pipeline) {
    let directory = tempfile::tempdir().unwrap();
    let recipe = directory.path().join("ci/recipes/app/one");
    fs::create_dir_all(&recipe).unwrap();
    fs::create_dir(directory.path().join(".git")).unwrap();
    fs::write(recipe.join("config.yaml"), "name: app\n").unwrap();
    let value = serde_json::to_string(value).unwrap();
    let text = format!(
        "promote: {{namespace: deploy, channel: stable}}\n\
         clusters:\n  \
           daint: {{runner: {{slurm-tag: daint-nodes}}, targets: [{{uarch: gh200, variables: {{NOTE: {value}}}}}]}}\n\
         uenvs:\n  \
           app:\n    \
             \"1.0\": {{recipes: {{gh200: one}}, deploy: {{daint: [gh200]}}}}\n    \
             \"2.0\": {{recipes: {{gh200: one}}, deploy: {{daint: [gh200]}}}}\n"
    );
    let file = directory.path().join("ci/pipeline.yaml");
    fs::write(&file, text).unwrap();
    let pipeline = Pipeline::open(&file).unwrap();
    (directory, pipeline)
}

fn request(client: Client) -> GenerateRequest {
    GenerateRequest {
        client,
        project: None,
        plan: PlanRequest::default(),
        limit: None,
        jobs: None,
        runs_on: Vec::new(),
        branches: Vec::new(),
    }
}

fn planned<'p>(pipeline: &'p Pipeline, stages: &[Stage]) -> Vec<PlannedCell<'p>> {
    let cells = pipeline.cells.iter();
    let planned = |cell| PlannedCell {
        cell,
        stages: stages.to_vec(),
        reason: String::new(),
        is_published: false,
        before: None,
    };
    cells.map(planned).collect()
}

/// Finds the paths from the work tree.
fn files(pipeline: &Pipeline, run: &Path) -> Result<Files> {
    let project = work_tree(&pipeline.directory).unwrap();
    assert_eq!(Some(project.as_path()), pipeline.directory.parent());
    Files::of(pipeline, &RunDirectory::new(run).unwrap(), &project)
}

fn gitlab(pipeline: &Pipeline, run: &Path, stages: &[Stage]) -> Result<String> {
    let files = files(pipeline, run)?;
    let request = request(Client::Gitlab);
    let script = Script { files: &files, request: &request };
    gitlab::text(&script, pipeline, &planned(pipeline, stages))
}

fn github(pipeline: &Pipeline, run: &Path, request: &GenerateRequest) -> Result<String> {
    let files = files(pipeline, run)?;
    github::text(&Script { files: &files, request }, pipeline)
}

#[test]
fn the_jobs_of_a_cell_follow_each_other() {
    let (_directory, pipeline) = project("00:30:00");
    let run = pipeline.directory.join(".cabane-pipeline");
    let text = gitlab(&pipeline, &run, &Stage::ALL).unwrap();
    assert_eq!(text, gitlab(&pipeline, &run, &Stage::ALL).unwrap());
    let beginning = text.find("\n\"build app/1.0").unwrap();
    let end = text.find("\n\"build app/2.0").unwrap();
    let expected = r#"
"build app/1.0@daint%gh200":
  stage: "build"
  needs: []
  tags: ["daint-nodes"]
  variables:
    "NOTE": "00:30:00"
  script:
    - "cabane --system=daint pipeline step build app/1.0@daint%gh200 --file=ci/pipeline.yaml --run=ci/.cabane-pipeline"
  artifacts:
    when: always
    paths: ["ci/.cabane-pipeline/cells/daint/gh200/app/1.0/"]

"check app/1.0@daint%gh200":
  stage: "check"
  needs: ["build app/1.0@daint%gh200"]
  tags: ["daint-nodes"]
  variables:
    "NOTE": "00:30:00"
  allow_failure:
    exit_codes: [18]
  script:
    - "cabane --system=daint pipeline step check app/1.0@daint%gh200 --file=ci/pipeline.yaml --run=ci/.cabane-pipeline"
  artifacts:
    when: always
    paths: ["ci/.cabane-pipeline/cells/daint/gh200/app/1.0/"]

"publish app/1.0@daint%gh200":
  stage: "publish"
  needs: ["build app/1.0@daint%gh200", "check app/1.0@daint%gh200"]
  tags: ["daint-nodes"]
  variables:
    "NOTE": "00:30:00"
  when: always
  script:
    - "cabane --system=daint pipeline step publish app/1.0@daint%gh200 --file=ci/pipeline.yaml --run=ci/.cabane-pipeline ${CABANE_PIPELINE_KEY:+\"--key=$CABANE_PIPELINE_KEY\"}"
  artifacts:
    when: always
    paths: ["ci/.cabane-pipeline/cells/daint/gh200/app/1.0/"]

"promote app/1.0@daint%gh200":
  stage: "promote"
  needs: ["build app/1.0@daint%gh200", "check app/1.0@daint%gh200", "publish app/1.0@daint%gh200"]
  tags: ["daint-nodes"]
  variables:
    "NOTE": "00:30:00"
  allow_failure:
    exit_codes: [18]
  resource_group: "cabane/deploy/stable/daint"
  script:
    - "cabane --system=daint pipeline step promote app/1.0@daint%gh200 --file=ci/pipeline.yaml --run=ci/.cabane-pipeline ${CABANE_PIPELINE_KEY:+\"--key=$CABANE_PIPELINE_KEY\"} ${CABANE_PIPELINE_CHANNEL_KEY:+\"--channel-key=$CABANE_PIPELINE_CHANNEL_KEY\"}"
  artifacts:
    when: always
    paths: ["ci/.cabane-pipeline/cells/daint/gh200/app/1.0/"]
"#;
    assert_eq!(&text[beginning..end], expected);
}

#[test]
fn a_directory_elsewhere_is_shared_and_no_artifact() {
    let (_directory, pipeline) = project("");
    let text = gitlab(&pipeline, Path::new("/scratch/run"), &[Stage::Promote]).unwrap();
    assert!(text.contains(" --run=/scratch/run "), "{text}");
    assert!(!text.contains("artifacts"), "{text}");
    assert!(!text.contains("\"build app"), "{text}");
    // Where jobs start can be given.
    let run = RunDirectory::new(&pipeline.directory.join("run")).unwrap();
    let files = Files::of(&pipeline, &run, &pipeline.directory).unwrap();
    assert_eq!((files.pipeline.as_str(), files.run.as_str()), ("pipeline.yaml", "run"));
}

#[test]
fn an_empty_plan_is_one_job_and_a_large_one_is_an_error() {
    let (_directory, pipeline) = project("");
    let run = Path::new("/scratch/run");
    let text = gitlab(&pipeline, run, &[]).unwrap();
    assert!(text.ends_with(
        "\n\"nothing is left\":\n  stage: \"build\"\n  tags: [\"daint-nodes\"]\n  script:\n    \
         - \"echo 'nothing is left to do'\"\n"
    ));
    let files = files(&pipeline, run).unwrap();
    let request = request(Client::Gitlab);
    let script = Script { files: &files, request: &request };
    let many = |count| {
        let cells = planned(&pipeline, &[Stage::Build]).into_iter().cycle();
        gitlab::text(&script, &pipeline, &cells.take(count).collect::<Vec<_>>())
    };
    assert!(many(200).is_ok());
    let error = many(201).unwrap_err();
    assert!(error.to_string().contains("201 cells are too many"), "{error}");
    assert!(error.hints()[0].contains("--only"), "{:?}", error.hints());
}

#[test]
fn values_cannot_leave_their_place() {
    let harmless = project("x");
    let run = Path::new("/scratch/run");
    let lines = gitlab(&harmless.1, run, &Stage::ALL).unwrap().lines().count();
    let hostile = "x\"\n  script: [\"touch pwned\"]\n\u{2028}\u{7f}\u{85}\u{1f600}# '\\";
    let (_directory, mut pipeline) = project("");
    for cell in &mut pipeline.cells {
        cell.target.variables.insert("NOTE".to_owned(), hostile.to_owned());
        cell.runner_tags = vec![hostile.to_owned()];
    }
    let text = gitlab(&pipeline, run, &Stage::ALL).unwrap();
    assert_eq!(text.lines().count(), lines, "{text}");
    assert!(text.is_ascii());
    let (_directory, pipeline) = project("$CI_JOB_TOKEN");
    let text = gitlab(&pipeline, run, &Stage::ALL).unwrap();
    assert!(
        text.contains("\"NOTE\":\n      value: \"$CI_JOB_TOKEN\"\n      expand: false\n"),
        "{text}"
    );
}

#[test]
fn paths_that_something_would_expand_are_refused() {
    let (_directory, pipeline) = project("");
    for name in ["run*", "run$HOME", "run[1]", "run'x"] {
        let error = gitlab(&pipeline, &pipeline.directory.join(name), &Stage::ALL).unwrap_err();
        assert!(error.to_string().contains("GitLab would expand"), "{error}");
    }
    let run = Path::new("/scratch/${{ secrets.A }}");
    let error = github(&pipeline, run, &request(Client::Github)).unwrap_err();
    assert!(error.to_string().contains("would evaluate"), "{error}");
    assert!(gitlab(&pipeline, Path::new("/scratch/a\nb"), &Stage::ALL).is_err());
}

/// Runs a line of a script with a program that prints its arguments.
fn typed(line: &str, key: Option<&str>) -> Vec<String> {
    let mut command = Command::new("sh");
    command.env_remove("CABANE_PIPELINE_KEY").env("CELL", "a b").env("SYSTEM", "c");
    if let Some(key) = key {
        command.env("CABANE_PIPELINE_KEY", key);
    }
    command.args(["-c", &format!("cabane() {{ printf '%s\\n' \"$@\"; }}; {line}")]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{line}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn a_shell_gets_each_word_as_it_is() {
    let (_directory, pipeline) = project("");
    let hostile = "/scratch/it's $(touch pwned) \"x\";`y`";
    let files = files(&pipeline, Path::new(hostile)).unwrap();
    let mut request = request(Client::Gitlab);
    request.plan.publishing.registry.registry = Some("http://h/'; touch pwned; '".to_owned());
    let script = Script { files: &files, request: &request };
    let line = script.step(Stage::Publish, &word(CELL), &word("daint"));
    let words = typed(&line, None);
    let run = format!("--run={hostile}");
    let registry = "--registry=http://h/'; touch pwned; '";
    let file = "--file=ci/pipeline.yaml";
    let expected = ["--system=daint", "pipeline", "step", "publish", CELL, file, &run, registry];
    assert_eq!(words, expected);
    let words = typed(&line, Some("a 'b' $(c)*"));
    assert_eq!(words.last().unwrap(), "--key=a 'b' $(c)*");
    assert_eq!(words.len(), expected.len() + 1);
    // A variable in quotes stays one word.
    let words = typed(&script.step(Stage::Check, "\"$CELL\"", "\"$SYSTEM\""), None);
    assert_eq!(words, ["--system=c", "pipeline", "step", "check", "a b", file, &run]);
}

#[test]
fn texts_are_quoted() {
    assert_eq!(scalar("a\"b\\c\nd\te"), r#""a\"b\\c\nd\u0009e""#);
    assert_eq!(scalar("é\u{2028}\u{1f600}"), r#""\u00e9\u2028\U0001f600""#);
    assert_eq!(list(&["a, b", "c]"]), r#"["a, b", "c]"]"#);
    assert_eq!(word(CELL), CELL);
    assert_eq!(word("it's"), r"'it'\''s'");
    assert_eq!(word(""), "''");
    assert_eq!(word("@*"), "'@*'");
}

#[test]
fn a_workflow_plans_twice_and_has_no_cells() {
    let (_directory, pipeline) = project("");
    let run = pipeline.directory.join(".cabane-pipeline");
    let mut request = request(Client::Github);
    let text = github(&pipeline, &run, &request).unwrap();
    assert_eq!(text, github(&pipeline, &run, &request).unwrap());
    let plan = "cells=$(cabane pipeline plan --json --file=ci/pipeline.yaml --run=ci/.cabane-pipeline --only='@*'";
    assert_eq!(text.matches(plan).count(), 2, "{text}");
    assert!(!text.contains("uses:") && !text.contains("app/1.0"), "{text}");
    // What a matrix brings reaches the shell as variables only.
    let lines = text.lines().filter(|line| line.trim_start().starts_with("run:"));
    assert!(lines.clone().count() >= 6, "{text}");
    assert!(lines.clone().all(|line| !line.contains("${{")), "{text}");
    assert!(text.contains("runs-on: [\"self-hosted\", \"${{ matrix.system }}\"]"), "{text}");
    assert!(text.contains("group: cabane deploy stable ${{ matrix.system }}"), "{text}");
    request.runs_on = vec!["hpc".to_owned()];
    request.branches = vec!["release/*".to_owned()];
    request.plan.publishing.offline = true;
    request.plan.selection.systems = vec!["daint".parse().unwrap()];
    request.plan.selection.only = vec!["app".parse().unwrap(), "@eiger".parse().unwrap()];
    let text = github(&pipeline, &run, &request).unwrap();
    assert!(!text.contains("matrix.system }}\"]") && !text.contains("promote"), "{text}");
    assert!(text.contains("branches: [\"release/*\"]"), "{text}");
    assert!(text.contains(" --only=app@daint --only=@eiger --offline --next=build"), "{text}");
}

/// A pipeline like the one above, with a catalog.
fn with_catalogue(section: &str) -> (TempDir, Pipeline) {
    let (directory, pipeline) = project("");
    let text = fs::read_to_string(&pipeline.file).unwrap();
    fs::write(&pipeline.file, format!("{text}catalogue: {section}\n")).unwrap();
    let pipeline = Pipeline::open(&pipeline.file).unwrap();
    (directory, pipeline)
}

#[test]
fn the_last_job_writes_the_catalogue_whatever_came_of_the_others() {
    let (_directory, pipeline) = with_catalogue("{directory: ../public}");
    let run = pipeline.directory.join(".cabane-pipeline");
    let text = gitlab(&pipeline, &run, &[Stage::Promote]).unwrap();
    let expected = r#"
"catalogue":
  stage: "catalogue"
  tags: ["daint-nodes"]
  when: always
  script:
    - "cabane pipeline catalogue --file=ci/pipeline.yaml"
  artifacts:
    paths: ["public/"]
"#;
    assert!(text.ends_with(expected), "{text}");
    let stages = "stages: [\"build\", \"check\", \"publish\", \"promote\", \"catalogue\"]\n";
    assert!(text.contains(stages), "{text}");
    let text = github(&pipeline, &run, &request(Client::Github)).unwrap();
    let job = &text[text.find("\n  catalogue:\n").unwrap()..];
    let begins = "\n  catalogue:\n    needs: [\"plan\", \"passed\", \"promote\"]\n    \
                  if: ${{ !cancelled() && needs.plan.result == 'success' }}\n    \
                  runs-on: [\"self-hosted\"]\n    steps:\n      - name: \"fetch the repository\"\n";
    assert!(job.starts_with(begins), "{job}");
    let ends = "      - name: \"catalogue\"\n        \
                run: \"cabane pipeline catalogue --file=ci/pipeline.yaml\"\n";
    assert!(job.ends_with(ends), "{job}");
}

#[test]
fn a_catalogue_elsewhere_has_its_own_runner_and_no_artifact() {
    let section = "{directory: /srv/www/software, runner: {slurm-tag: web}}";
    let (_directory, pipeline) = with_catalogue(section);
    let text = gitlab(&pipeline, Path::new("/scratch/run"), &[]).unwrap();
    let job = &text[text.find("\n\"catalogue\":").unwrap()..];
    assert!(job.contains("tags: [\"web\"]") && !job.contains("artifacts"), "{text}");
    let mut offline = request(Client::Github);
    offline.plan.publishing.offline = true;
    let text = github(&pipeline, Path::new("/scratch/run"), &offline).unwrap();
    assert!(!text.contains("catalogue"), "{text}");
}
