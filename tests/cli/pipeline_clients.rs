// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Generated pipelines, run by programs that run those of GitLab and GitHub on one machine. No distribution packages
//! them; `CONTRIBUTING.md` says how to install them.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cabane_testkit::{Finished, Program, belongs_to, needs};
use serde_json::Value;

use crate::cabane::Who;
use crate::registry::Shared;

const GOOD: &str = "good/1.0@here%x86_64";
const BAD: &str = "bad/1.0@here%x86_64";

const SERVER: &str = "git.example.org";
const ORIGIN: &str = "https://git.example.org/group/project";

/// The pipeline that starts the generated one, as a project of GitLab has it.
const PARENT: &str = "\
stages: [generate, cells]
generate:
  stage: generate
  script:
    - cabane pipeline generate --for gitlab --file ci --project . --only '@*' -o cells.yml
  artifacts:
    paths: [cells.yml]
cells:
  stage: cells
  needs: [generate]
  trigger:
    include:
      - {artifact: cells.yml, job: generate}
    strategy: depend
";

// Both programs run one job at a time. The registry of the tests may refuse a manifest while another client writes the
// same blob to a new repository.

/// A Git work tree with a pipeline of two cells: one passes its checks, and one fails.
struct Project {
    shared: Shared,
    program: PathBuf,
    key: String,
    root: PathBuf,
}

impl Project {
    fn new(program: PathBuf) -> Self {
        let shared = Shared::new(Who::OrdinaryUser);
        let world = &shared.cabane.world;
        let key = world.path("work/key").to_str().unwrap().to_owned();
        shared.run(&["image", "key", "new", &key]).success();
        let url = shared.registry.url();
        let site = format!(
            "[registry]\nurl = \"{url}/uenv\"\n[evidence]\ntesters = [\"{key}.pub\"]\n\
             [[channel]]\nname = \"stable\"\nkeys = [\"{key}.pub\"]\ntested_within = \"30d\"\n"
        );
        world.file("site.toml", &site);
        let root = world.directory("work/project");
        for directory in ["", "/.github", "/.github/workflows", "/ci"] {
            world.directory(&format!("work/project{directory}"));
        }
        let project = Self { shared, program, key, root };
        let mut cells = String::new();
        for (name, expected) in [("good", "good"), ("bad", "another word")] {
            let mount = project.shared.cabane.mount_point(name);
            let recipe = format!(
                "name: {name}\nengine: tree\nstore: {mount}\ntree: {{source: tree}}\ndefault-view: default\n\
                 views: {{default: {{description: all}}}}\n\
                 checks:\n  - {{name: word, command: word, expect: {expected}}}\n"
            );
            project.file(&format!("ci/recipes/{name}/1/config.yaml"), &recipe);
            let program = format!("#!/bin/sh\necho {name}\n");
            let program = project.file(&format!("ci/recipes/{name}/1/tree/bin/word"), &program);
            fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
            cells += &format!(
                "  {name}:\n    \"1.0\":\n      recipes: {{x86_64: \"1\"}}\n      \
                 deploy: {{here: [x86_64]}}\n      mount: {mount}\n"
            );
        }
        let clusters = "clusters:\n  here:\n    targets:\n      - {uarch: x86_64, variables: {NOTE: \"00:30:00 $HOME\"}}\n";
        let promote = "promote: {namespace: deploy, channel: stable}\n";
        // Each job has a copy of the project for itself.
        let site = project.site();
        let catalogue = format!("catalogue: {{directory: {}}}\n", site.display());
        project.file("ci/pipeline.yaml", &format!("{promote}{catalogue}{clusters}uenvs:\n{cells}"));
        // The jobs of a workflow fetch from a server, which is this work tree.
        let root = project.root.display();
        let configuration = format!(
            "[user]\nname = Ada\nemail = ada@example.org\n\
             [url \"file://{root}\"]\ninsteadOf = {ORIGIN}\n"
        );
        project.shared.cabane.world.file("home/.gitconfig", &configuration);
        project.file(".gitignore", ".cabane-pipeline/\n.gitlab-ci-local/\n");
        project
    }

    /// Where the last job writes the catalog.
    fn site(&self) -> PathBuf {
        self.shared.cabane.world.path("work/site")
    }

    fn file(&self, name: &str, content: &str) -> PathBuf {
        self.shared.cabane.world.file(&format!("work/project/{name}"), content)
    }

    fn git(&self, arguments: &[&str]) {
        let mut command = self.shared.cabane.other("git");
        let command = command.current_dir(&self.root).args(arguments);
        self.shared.cabane.finish(command).success();
    }

    fn commit(&self) {
        // A work tree belongs to its user.
        let world = &self.shared.cabane.world;
        let mut command = world.command("chown");
        command.arg("--recursive").arg("--reference").arg(world.path("home")).arg(&self.root);
        Finished::of(&mut command).success();
        self.git(&["init", "--quiet", "--initial-branch=main"]);
        self.git(&["remote", "add", "origin", ORIGIN]);
        self.git(&["add", "."]);
        self.git(&["commit", "--quiet", "--message", "recipes"]);
    }

    /// Runs the program in the project. Other programs that it needs may be in its directory.
    fn client(&self, arguments: &[&str]) -> Finished {
        let mut command = self.shared.cabane.other(self.program.to_str().unwrap());
        let beside = self.program.parent().unwrap().display();
        let ours = Path::new(self.shared.cabane.program()).parent().unwrap().display();
        let path = format!("{beside}:{ours}:/usr/local/bin:/usr/bin:/bin");
        command.env("PATH", path).current_dir(&self.root).args(arguments);
        self.shared.cabane.finish(&mut command)
    }

    fn generate(&self, arguments: &[&str]) -> Finished {
        let ci = self.root.join("ci");
        let beginning = ["pipeline", "generate", "--file", ci.to_str().unwrap()];
        self.shared.run(&[&beginning[..], arguments].concat())
    }

    fn labels(&self, pattern: &str) -> Vec<String> {
        self.shared.labels(&["--refresh", pattern])
    }

    /// Asserts that both cells are published with their results, and only the good one is released.
    fn assert_that_one_is_released(&self, output: &Finished) {
        let said = format!("{}\n{}", output.stdout, output.stderr);
        let published = self.labels("build::");
        let names: Vec<&str> =
            published.iter().filter_map(|label| label.split('/').next()).collect();
        assert_eq!(names, ["bad", "good"], "{said}");
        let shown = self.shared.run(&["channel", "show", "stable", "--json"]);
        let shown: Value = serde_json::from_str(&shown.success().stdout).unwrap();
        let released = shown["entries"].as_array().unwrap();
        assert_eq!(released.len(), 1, "{shown}\n{said}");
        let label = released[0]["label"].as_str().unwrap();
        assert!(label.starts_with("good/1.0:"), "{label}");
        let outcomes = published.iter().map(|label| {
            let image = format!("build::{label}");
            self.shared.run(&["evidence", "verify", &image, "--remote"]).code
        });
        assert_eq!(outcomes.collect::<Vec<_>>(), [16, 0], "{said}");
        let index = fs::read_to_string(self.site().join("index.html")).expect(&said);
        assert!(index.contains("good/1.0") && !index.contains("bad/1.0"), "{index}");
    }
}

#[test]
fn a_child_pipeline_of_gitlab_releases_what_passes() {
    needs!("docker-registry");
    let Some(program) = Program::find("gitlab-ci-local").path() else {
        belongs_to!("CABANE_TEST_GITLAB_CI_LOCAL=PROGRAM make test");
    };
    let project = Project::new(program);
    project.file(".gitlab-ci.yml", PARENT);
    project.commit();
    // Variables of a project reach child pipelines, too. In this client, those of its home do.
    let variables = format!("global:\n  CABANE_PIPELINE_KEY: \"{}\"\n", project.key);
    project.shared.cabane.world.file("home/.gitlab-ci-local/variables.yml", &variables);
    // The client ends with 0 even if a job of the child pipeline fails.
    let first =
        project.client(&["--force-shell-executor", "--shell-isolation", "--concurrency", "1"]);
    project.assert_that_one_is_released(&first);
    let said = format!("{}\n{}", first.stdout, first.stderr);
    assert!(said.contains(&format!("{BAD}: check FAILED")), "{said}");
    // GitLab would not start this job. The client does: to it, `allow_failure` allows every exit code.
    assert!(said.contains(&format!("{BAD}: promote FAILED")), "{said}");
    // The next one has nothing to do for the good cell.
    let text = project.generate(&["--for", "gitlab", "--only", "good"]).success().stdout;
    assert!(text.contains("nothing is left") && !text.contains(GOOD), "{text}");
    project.file("cells.yml", &text);
    let idle = project.client(&["--force-shell-executor", "--file", "cells.yml"]);
    assert!(idle.success().stdout.contains("nothing is left to do"));
}

#[test]
fn gitlabs_schema_accepts_what_is_generated_and_no_misspelled_key() {
    let Some(program) = Program::find("gitlab-ci-local").path() else {
        belongs_to!("CABANE_TEST_GITLAB_CI_LOCAL=PROGRAM make test");
    };
    needs!("docker-registry");
    let project = Project::new(program);
    project.commit();
    let text = project.generate(&["--for", "gitlab"]).success().stdout;
    let list = |text: &str| {
        project.file("cells.yml", text);
        project.client(&["--list-csv-all", "--file", "cells.yml"])
    };
    let listed = list(&text).success().stdout;
    for cell in [GOOD, BAD] {
        for stage in ["build", "check", "publish", "promote"] {
            assert!(listed.contains(&format!("{stage} {cell}")), "{listed}");
        }
    }
    assert_ne!(list(&text.replace("  needs:", "  nedds:")).code, 0);
}

#[test]
fn a_workflow_of_github_releases_what_passes() {
    needs!("docker-registry");
    let Some(program) = Program::find("act").path() else {
        belongs_to!("CABANE_TEST_ACT=PROGRAM make test");
    };
    let project = Project::new(program);
    project.commit();
    let workflow = project.root.join(".github/workflows/cabane.yml");
    project.generate(&["--for", "github", "-o", workflow.to_str().unwrap()]).success();
    project.git(&["add", "."]);
    project.git(&["commit", "--quiet", "--message", "workflow"]);
    let key = format!("CABANE_PIPELINE_KEY={}", project.key);
    let run = || {
        let runner =
            ["push", "-P", "self-hosted=-self-hosted", "--pull=false", "--concurrent-jobs=1"];
        project.client(&[&runner[..], &["--github-instance", SERVER, "--var", &key]].concat())
    };
    let first = run();
    assert_ne!(first.code, 0, "{}\n{}", first.stdout, first.stderr);
    project.assert_that_one_is_released(&first);
    // Nothing is left, so that both matrices are empty.
    let second = run();
    let said = format!("{}\n{}", second.stdout, second.stderr);
    assert_eq!(second.code, 0, "{said}");
    assert!(!said.contains("pipeline step"), "{said}");
}

#[test]
fn an_image_that_is_not_tested_is_not_promoted_and_has_not_failed() {
    needs!("docker-registry");
    let project = Project::new(PathBuf::new());
    let run = project.root.join("ci/.cabane-pipeline");
    let step = |stage: &str| {
        let ci = project.root.join("ci");
        project.shared.run(&["pipeline", "step", stage, GOOD, "--file", ci.to_str().unwrap()])
    };
    step("build").success();
    let cell = run.join("cells/here/x86_64/good/1.0");
    let built = fs::read_to_string(cell.join("build.json")).unwrap();
    let checked = built.replace("\"build\"", "\"check\"").replace("\"PASSED\"", "\"NOT TESTED\"");
    fs::write(cell.join("check.json"), checked).unwrap();
    let promoted = step("promote");
    assert_eq!(promoted.code, 18, "{}", promoted.stderr);
    assert!(promoted.stderr.contains("it is not promoted"), "{}", promoted.stderr);
}
