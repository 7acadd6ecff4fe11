// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is left to do for each cell, and why.

use cabane_evidence::Outcome;
use cabane_report::Result;
use cabane_site::Context;
use cabane_transfer::Connection;
use serde::Serialize;

use crate::cell::Cell;
use crate::directory::RunDirectory;
use crate::git::Changes;
use crate::pipeline::{Pipeline, Selection};
use crate::registry::{Published, Publishing, outcome_of};
use crate::stage::{Stage, StageResult};

/// What is planned.
#[derive(Clone, Debug, Default)]
pub struct PlanRequest {
    /// The cells.
    pub selection: Selection,
    /// Only cells that have changed since this revision.
    pub since: Option<String>,
    /// Whether stages are repeated that failed.
    pub retry: bool,
    /// The registry.
    pub publishing: Publishing,
}

/// What is left to do for a cell.
#[derive(Clone, Debug)]
pub struct PlannedCell<'p> {
    /// The cell.
    pub cell: &'p Cell,
    /// The stages that are left, in their order.
    pub stages: Vec<Stage>,
    /// Why, or why there is nothing to do.
    pub reason: String,
    /// Whether the registry has its image.
    pub is_published: bool,
    /// The worst that came of it before; nothing if everything passed, or nothing was done.
    pub before: Option<Outcome>,
}

impl Serialize for PlannedCell<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct as _;
        let mut fields = serializer.serialize_struct("cell", 6)?;
        fields.serialize_field("cell", &self.cell.name)?;
        fields.serialize_field("system", &self.cell.name.system)?;
        fields.serialize_field("uarch", &self.cell.name.uarch)?;
        fields.serialize_field("inputs", &self.cell.inputs)?;
        fields.serialize_field("stages", &self.stages)?;
        fields.serialize_field("reason", &self.reason)?;
        fields.end()
    }
}

/// What is known of a cell.
struct Known {
    build: Option<StageResult>,
    check: Option<StageResult>,
    publish: Option<StageResult>,
    promote: Option<StageResult>,
}

/// Plans what is left to do.
///
/// # Errors
///
/// No cell is meant, the revision is unknown, or the registry does not answer.
pub fn plan<'p>(
    context: &Context,
    pipeline: &'p Pipeline,
    run: &RunDirectory,
    request: &PlanRequest,
) -> Result<Vec<PlannedCell<'p>>> {
    let cells = pipeline.select(&request.selection)?;
    let changes = request.since.as_deref().map(|since| Changes::since(context, pipeline, since));
    let changes = changes.transpose()?;
    let connection = request.publishing.connect(context)?;
    let published = connection.as_ref();
    let published =
        published.map(|one| Published::ask(context, one, pipeline, &cells)).transpose()?;
    let rules = Rules {
        context,
        pipeline,
        run,
        retry: request.retry,
        connection: connection.as_ref(),
        published: published.as_ref(),
    };
    let planned = cells.into_iter().map(|cell| {
        let touched = changes.as_ref().map(|changes| changes.reason(cell));
        match touched {
            Some(None) => {
                let since = request.since.as_deref().unwrap_or_default();
                let reason = format!("unchanged since {since}");
                Ok(PlannedCell {
                    cell,
                    stages: Vec::new(),
                    reason,
                    is_published: false,
                    before: None,
                })
            }
            touched => rules.cell(cell, touched.flatten()),
        }
    });
    planned.collect()
}

struct Rules<'a> {
    context: &'a Context,
    pipeline: &'a Pipeline,
    run: &'a RunDirectory,
    retry: bool,
    connection: Option<&'a Connection>,
    published: Option<&'a Published>,
}

impl Rules<'_> {
    fn cell<'p>(&self, cell: &'p Cell, touched: Option<String>) -> Result<PlannedCell<'p>> {
        let result = |stage| self.run.result(cell, stage);
        let known = Known {
            build: result(Stage::Build),
            check: result(Stage::Check),
            publish: result(Stage::Publish),
            promote: result(Stage::Promote),
        };
        let in_registry = self.published.map(|published| published.image(cell)).transpose()?;
        let in_registry = in_registry.flatten();
        let is_published = in_registry.is_some();
        let done = |reason: &str, before: Option<Outcome>| {
            Ok(PlannedCell {
                cell,
                stages: Vec::new(),
                reason: reason.to_owned(),
                is_published,
                before,
            })
        };
        let left = |from: Stage, reason: String| {
            let stages = Stage::ALL.into_iter().filter(|stage| *stage >= from);
            let stages = stages.filter(|stage| self.has(*stage)).collect();
            Ok(PlannedCell { cell, stages, reason, is_published, before: None })
        };
        let has_image = known.build.as_ref().is_some_and(|build| self.has_image(build));
        let ran = known.check.as_ref().and_then(|check| check.report.as_ref());
        let differ = ran.map(|report| cell.suites_that_differ(&report.suites)).unwrap_or_default();
        if let Some(suite) = differ.first() {
            let from = if has_image { Stage::Check } else { Stage::Build };
            return left(from, format!("the suite `{suite}` has changed"));
        }
        if let Some(published) = self.published
            && in_registry.is_some()
            && self.pipeline.promote.is_some()
            && published.is_promoted(self.pipeline, cell)?
        {
            let checked = known.check.as_ref();
            let has_failed = checked.is_some_and(|check| check.outcome == Outcome::Failed);
            if has_failed && known.publish.is_some() && !self.retry {
                return done("it is promoted, and its checks failed later", Some(Outcome::Failed));
            }
            if self.has_run_suites(cell, checked)? {
                return done("it is promoted", None);
            }
        }
        if let Some((stage, reason)) = self.after_a_failure(&known) {
            return match stage {
                Some(stage) => left(stage, reason),
                None => done(&reason, Some(Outcome::Failed)),
            };
        }
        let built = known.build.as_ref().and_then(|build| build.digest.as_ref());
        if has_image && in_registry.is_some() && in_registry != built {
            let reason = "the registry has another image of the same inputs";
            return left(Stage::Build, reason.to_owned());
        }
        if !has_image && let (Some(connection), Some(_)) = (self.connection, in_registry) {
            return match outcome_of(self.context, connection, self.pipeline, cell)? {
                Outcome::Passed if self.has(Stage::Promote) => {
                    left(Stage::Promote, "it passed and is not promoted".to_owned())
                }
                Outcome::Passed => done("it is published, and passed", None),
                Outcome::Failed if !self.retry => done(
                    "it is published, and its checks failed; `--retry` repeats them",
                    Some(Outcome::Failed),
                ),
                _ => left(Stage::Build, "it is published, and not checked".to_owned()),
            };
        }
        if !has_image {
            return left(Stage::Build, touched.unwrap_or_else(|| self.without_image(cell, &known)));
        }
        if known.check.is_none() {
            return left(Stage::Check, "it is built, and not checked".to_owned());
        }
        if self.has(Stage::Publish) && (known.publish.is_none() || in_registry.is_none()) {
            return left(Stage::Publish, "it is not published".to_owned());
        }
        let outcome = known.check.as_ref().map(|check| check.outcome);
        if self.has(Stage::Promote) && outcome == Some(Outcome::Passed) {
            return left(Stage::Promote, "it passed and is not promoted".to_owned());
        }
        match outcome {
            Some(Outcome::NotTested) => {
                let message = known.check.as_ref().and_then(|check| check.message.as_deref());
                let untested = ran.is_some_and(|report| !report.left_out.is_empty());
                let reason = message.filter(|_| untested).unwrap_or("it has no checks");
                done(reason, Some(Outcome::NotTested))
            }
            _ => done("up to date", None),
        }
    }

    /// Says why there is no image of what a cell is built from now.
    fn without_image(&self, cell: &Cell, known: &Known) -> String {
        if known.build.is_some() {
            return "its image is missing".to_owned();
        }
        match self.run.last_result(&cell.name, Stage::Build) {
            Some(before) => match cell.pins.difference(&before.bases) {
                Some(base) => format!("its base {base} has changed"),
                None => "its recipe, its system, or its revision has changed".to_owned(),
            },
            None => "it was never built".to_owned(),
        }
    }

    /// Returns what follows from a stage that did not pass, and why: the stage that is repeated, or none if
    /// it would fail again. `None` if there is no such stage.
    fn after_a_failure(&self, known: &Known) -> Option<(Option<Stage>, String)> {
        for before in [&known.build, &known.check, &known.publish, &known.promote] {
            let Some(before) = before else { continue };
            let stage = before.stage;
            match before.outcome {
                // Its results are not where they belong yet.
                Outcome::Failed if !self.retry && !self.is_published(before, known) => {}
                // The gate may decide otherwise today.
                Outcome::Failed if !self.retry && stage != Stage::Promote => {
                    return Some((None, format!("{stage} failed before; `--retry` repeats it")));
                }
                Outcome::Failed => return Some((Some(stage), format!("{stage} failed before"))),
                Outcome::Error => {
                    return Some((Some(stage), format!("{stage} could not run before")));
                }
                Outcome::Passed | Outcome::NotTested => {}
            }
        }
        None
    }

    /// Whether the suites of a cell were run on its image, here or elsewhere.
    fn has_run_suites(&self, cell: &Cell, checked: Option<&StageResult>) -> Result<bool> {
        let is_run_here = checked.is_some_and(|check| check.report.is_some());
        let Some(connection) = self.connection.filter(|_| !is_run_here) else { return Ok(true) };
        if cell.suites.is_empty() {
            return Ok(true);
        }
        let outcome = outcome_of(self.context, connection, self.pipeline, cell)?;
        Ok(outcome != Outcome::NotTested)
    }

    /// Whether the results of a failure are where they belong.
    fn is_published(&self, failed: &StageResult, known: &Known) -> bool {
        failed.stage != Stage::Check || !self.has(Stage::Publish) || known.publish.is_some()
    }

    fn has(&self, stage: Stage) -> bool {
        match stage {
            Stage::Build | Stage::Check => true,
            Stage::Publish => self.connection.is_some(),
            Stage::Promote => self.connection.is_some() && self.pipeline.promote.is_some(),
        }
    }

    /// Whether a repository still has the image of a build.
    fn has_image(&self, build: &StageResult) -> bool {
        let Some(digest) = &build.digest else { return false };
        let repositories = self.context.repositories().unwrap_or_default();
        repositories.iter().any(|named| named.repository.has_image(digest))
    }
}
