// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! One stage of one cell.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cabane_builder::{Progress, State, execute};
use cabane_check::{
    CheckReport, CheckRequest, Place as CheckPlace, Subject, Suite, SuiteRequest, check,
    test_statement,
};
use cabane_evidence::{Outcome, Provenance, SignedStatement, keep};
use cabane_image_build::{BuildOptions, add_built, plan_build, provenance};
use cabane_label::{ChannelPattern, Digest, Label};
use cabane_registry::{Place, RemoteImage, SigningKey};
use cabane_release::{ManagerRequest, PromoteRequest, plan_promotion, promote};
use cabane_report::{Kind, Report, Result};
use cabane_signature_policy::signing_key;
use cabane_site::Context;
use cabane_transfer::{Connection, PullRequest, Upload, attach_evidence, pull, push};
use jiff::Timestamp;

use crate::cell::Cell;
use crate::directory::RunDirectory;
use crate::pipeline::Pipeline;
use crate::registry::{Publishing, outcome_of};
use crate::stage::{Stage, StageResult};

/// How a stage is carried out.
#[derive(Clone, Debug)]
pub struct StepOptions {
    /// The registry.
    pub publishing: Publishing,
    /// The private key that signs results and images.
    pub key: Option<PathBuf>,
    /// The private key of the channel; by default the same.
    pub channel_key: Option<PathBuf>,
    /// How long a check may take that has no limit of its own.
    pub limit: Duration,
    /// The number of parallel processes of a build.
    pub jobs: Option<usize>,
}

/// For how long clients accept the state of a channel that was changed here.
const LIFETIME: Duration = Duration::from_secs(90 * 24 * 3600);

/// Carries out one stage of a cell and keeps what came of it.
///
/// # Errors
///
/// An earlier stage is missing, so that this one cannot begin; or the result cannot be written. A stage
/// that fails is a result.
pub fn step(
    context: &Context,
    (pipeline, run): (&Pipeline, &RunDirectory),
    (cell, stage): (&Cell, Stage),
    options: &StepOptions,
    (progress, interrupt): (&mut dyn Progress, &AtomicBool),
) -> Result<StageResult> {
    let work = Work { context, pipeline, run, cell, options };
    let waits = || {
        let name = &cell.name;
        context.note(format_args!("waiting for another process that runs a stage of {name}"));
    };
    let _lock = run.lock_cell(&cell.name, waits)?;
    let before = work.before(stage)?;
    let started = Timestamp::now();
    let outcome = match stage {
        Stage::Build => work.build(progress, interrupt),
        Stage::Check => work.check(&before),
        Stage::Publish => work.publish(&before),
        Stage::Promote => work.promote(&before),
    };
    let mut result = match outcome {
        Ok(done) => StageResult {
            stage,
            outcome: done.report.as_ref().map_or(Outcome::Passed, outcome_of_checks),
            message: done.message,
            hints: Vec::new(),
            started,
            finished: Timestamp::now(),
            inputs: cell.inputs.clone(),
            bases: cell.pins.clone(),
            digest: Some(done.digest),
            report: done.report,
            provenance: done.provenance,
        },
        Err(report) => StageResult::of_failure(stage, cell, started, &report),
    };
    let is_untested = before.check.is_some_and(|check| check.outcome == Outcome::NotTested);
    if stage == Stage::Promote && is_untested {
        // An image without checks is not promoted, and has not failed.
        result.outcome = Outcome::NotTested;
    }
    let result = if interrupt.load(Ordering::Relaxed) { interrupted(result) } else { result };
    run.keep(&cell.name, &result)?;
    Ok(result)
}

/// A signal from outside also ends what runs in the image: that is no failure of the image.
fn interrupted(result: StageResult) -> StageResult {
    StageResult {
        outcome: Outcome::Error,
        message: Some("it was interrupted".to_owned()),
        hints: Vec::new(),
        digest: None,
        report: None,
        provenance: None,
        ..result
    }
}

/// Returns what came of the checks. An image that passed what was run has not passed without a suite.
fn outcome_of_checks(report: &CheckReport) -> Outcome {
    let is_partial = report.outcome == Outcome::Passed && !report.left_out.is_empty();
    if is_partial { Outcome::NotTested } else { report.outcome }
}

/// Says why an image has not passed; `None` if it has.
fn reasons(report: &CheckReport) -> Option<String> {
    (outcome_of_checks(report) != Outcome::Passed).then_some(())?;
    let wrong = report.checks.iter().filter(|one| one.outcome == report.outcome);
    let wrong = wrong.filter(|one| one.outcome != Outcome::Passed);
    let of_checks = wrong.map(|one| match &one.reason {
        Some(reason) => format!("{}: {reason}", one.name),
        None => one.name.clone(),
    });
    let left_out = report.left_out.iter().map(|what| format!("not tested: {what}"));
    Some(of_checks.chain(left_out).collect::<Vec<_>>().join("; "))
}

/// What a stage has done.
struct Done {
    digest: Digest,
    message: Option<String>,
    report: Option<CheckReport>,
    provenance: Option<Provenance>,
}

impl Done {
    fn new(digest: Digest, message: Option<String>) -> Self {
        Self { digest, message, report: None, provenance: None }
    }
}

struct Work<'a> {
    context: &'a Context,
    pipeline: &'a Pipeline,
    run: &'a RunDirectory,
    cell: &'a Cell,
    options: &'a StepOptions,
}

impl Work<'_> {
    /// Returns the results that a stage begins with: that of the build, and that of the checks.
    fn before(&self, stage: Stage) -> Result<Before> {
        let result = |stage: Stage| self.run.result(self.cell, stage);
        let before = Before { build: result(Stage::Build), check: result(Stage::Check) };
        if matches!(stage, Stage::Build | Stage::Check) {
            self.refuse_other_system()?;
        }
        let built = before.build.as_ref().is_some_and(|build| build.outcome == Outcome::Passed);
        if stage == Stage::Check && !built {
            return Err(self.lacks(Stage::Build));
        }
        if stage == Stage::Publish && !(built && before.check.is_some()) {
            return Err(self.lacks(if built { Stage::Check } else { Stage::Build }));
        }
        Ok(before)
    }

    /// What is built and tested here says something about this system, and about no other one.
    fn refuse_other_system(&self) -> Result<()> {
        let (name, wanted) = (&self.cell.name, &self.cell.name.system);
        let here = match self.context.system() {
            Some(here) if here == *wanted => return Ok(()),
            Some(here) => format!("this is the system {here}"),
            None => "the name of this system is unknown".to_owned(),
        };
        let message = format!("{name} is built and checked on {wanted}, and {here}");
        Err(Report::new(Kind::Usage, message)
            .hinted(format!("if this is {wanted}, add `--system {wanted}`")))
    }

    fn lacks(&self, stage: Stage) -> Report {
        let name = &self.cell.name;
        let message =
            format!("run the stage `{stage}` of {name} first: this run has no usable result of it");
        Report::new(Kind::Usage, message)
            .hinted(format!("`cabane pipeline step {stage} {name}` carries it out"))
    }

    fn connect(&self) -> Result<Connection> {
        let connection = self.options.publishing.connect(self.context)?;
        connection.ok_or_else(|| {
            Report::new(Kind::Usage, "no registry is configured")
                .hinted("`--registry URL` names one".to_owned())
        })
    }

    fn build(&self, progress: &mut dyn Progress, interrupt: &AtomicBool) -> Result<Done> {
        let label = self.cell.published()?;
        if let Some(connection) = self.options.publishing.connect(self.context)? {
            let place = Place { namespace: self.pipeline.publish.clone(), label: label.clone() };
            if let Some(image) = connection.registry.image_if_there(&place)? {
                return self.pull(&connection, &image);
            }
        }
        let planned = plan_build(self.context, &self.build_options(&label))?;
        let (found, wanted) = (&planned.plan.mount_point, &self.cell.mount);
        if found != wanted && !found.is_root() {
            let message = format!(
                "the recipe makes an image for {found}, and the pipeline mounts it at {wanted}"
            );
            return Err(Report::new(Kind::BadInput, message)
                .hinted(format!("write `store: {wanted}` into the recipe's config.yaml")));
        }
        let started = Timestamp::now();
        let built = execute(&planned.plan, progress, interrupt);
        // If the build failed, the change may be why.
        if !interrupt.load(Ordering::Relaxed) && self.cell.inputs_now()? != self.cell.inputs {
            let message = "the recipe or its system has changed during the build";
            return Err(Report::new(Kind::Failure, message)
                .hinted("the next run builds what is there now".to_owned()));
        }
        let built = built?.ok_or_else(|| {
            Report::new(Kind::Build, format!("the recipe of {} makes no image", self.cell.name))
        })?;
        add_built(self.context, &label, &built)?;
        let is_whole = !planned.plan.steps.iter().any(|step| step.state == State::Done);
        let provenance = provenance(self.context, (&planned, &built), started, is_whole)?;
        Ok(Done { provenance: Some(provenance), ..Done::new(built.digest, None) })
    }

    fn pull(&self, connection: &Connection, image: &RemoteImage) -> Result<Done> {
        let request = PullRequest { image: image.place.to_string(), force: true, group: None };
        pull(self.context, connection, &request, &mut |_| ())?;
        let message = format!("{} was built before and is pulled", image.place);
        self.context.note(&message);
        Ok(Done::new(image.digest.clone(), Some(message)))
    }

    fn build_options(&self, label: &Label) -> BuildOptions {
        BuildOptions {
            recipe: self.cell.recipe.clone(),
            label: Some(label.to_string()),
            install: None,
            replace: false,
            format: None,
            system: self.cell.system_directory.clone(),
            mirrors: None,
            build_dir: None,
            variant: Some(self.cell.name.to_string()),
            origin: None,
            pins: self.cell.pins.clone(),
            jobs: self.options.jobs,
            from: None,
            until: None,
            keep: false,
            debug_symbols: false,
            workers: Vec::new(),
        }
    }

    fn check(&self, before: &Before) -> Result<Done> {
        let digest = before.digest(self)?;
        let subject = Subject::find(self.context, digest.as_str(), true)?;
        let suites = self.cell.suites.iter().map(|suite| Suite {
            name: suite.name.clone(),
            directory: suite.directory.clone(),
            options: suite.options.clone(),
            declared: Some(suite.digest.clone()),
            is_installed: false,
        });
        let request = CheckRequest {
            only: Vec::new(),
            suites: SuiteRequest::find(self.context, suites.collect())?,
            place: CheckPlace::Here,
            limit: self.options.limit,
            work_directory: None,
        };
        let mut report = check(self.context, &subject, &request, &mut |result| {
            let reason = result.reason.as_deref().unwrap_or_default();
            self.context.note(format_args!("{}: {} {reason}", result.name, result.outcome));
        })?;
        for suite in &self.cell.suites {
            if !suite.is_unchanged()? {
                let message = format!("the suite `{}` has changed during the checks", suite.name);
                return Err(Report::new(Kind::Failure, message)
                    .hinted("the next run uses it as it is now".to_owned()));
            }
        }
        // A digest has no label, and the results are of this one.
        report.label = Some(self.cell.published()?);
        report.host.system = Some(self.cell.name.system.to_string());
        let message = reasons(&report);
        Ok(Done { report: Some(report), ..Done::new(digest, message) })
    }

    fn publish(&self, before: &Before) -> Result<Done> {
        let digest = before.digest(self)?;
        let connection = self.connect()?;
        let label = self.cell.published()?;
        let upload = Upload {
            image: digest.to_string(),
            label: Some(Cell::typed(&self.pipeline.publish, &label)),
            force: false,
            sign: self.options.key.clone(),
        };
        let (pushed, _) = push(self.context, &connection, &upload)?;
        let mut message = format!("pushed {}", pushed.image.place);
        let report = before.check.as_ref().and_then(|check| check.report.as_ref());
        if let Some(key) = &self.options.key {
            let key = signing_key(self.context, key)?;
            let statements = self.statements(before, &pushed.image, &key)?;
            keep(self.context, &digest, &statements)?;
            attach_evidence(&connection, &pushed.image, &statements)?;
            if let Some(report) = report {
                message += &format!("; attached the results: {}", report.outcome);
            }
        } else if report.is_some() {
            self.context.warning("the results are not signed, so they are not attached");
            self.context.hint("`--key FILE` names a private key; `cabane image key new` makes one");
        }
        self.context.note(&message);
        Ok(Done::new(digest, Some(message)))
    }

    /// Says from what the image was built, and what its checks said.
    fn statements(
        &self,
        before: &Before,
        image: &RemoteImage,
        key: &SigningKey,
    ) -> Result<Vec<SignedStatement>> {
        let (digest, manifest) = (&image.digest, Some(&image.manifest));
        let name = self.cell.published()?.to_string();
        let built = before.build.as_ref().and_then(|build| build.provenance.clone());
        let built = built.map(|mut provenance| {
            provenance.run_details.builder.name_after(&key.public());
            provenance.statement((&name, digest, manifest))
        });
        let generation = self.context.settings.evidence.generation.as_deref();
        let report = before.check.as_ref().and_then(|check| check.report.as_ref());
        let checked = report.map(|report| test_statement(report, manifest, generation));
        let statements = built.into_iter().chain(checked);
        statements.map(|statement| SignedStatement::sign(&statement, key)).collect()
    }

    /// Releases an image that passed. The gate of the channel asks the registry for its evidence.
    fn promote(&self, before: &Before) -> Result<Done> {
        if let Some(check) = &before.check
            && check.outcome != Outcome::Passed
        {
            let message = format!("it is not promoted: its checks are {}", check.outcome);
            return Err(Report::new(Kind::Rejected, message));
        }
        let ran = before.check.as_ref().and_then(|check| check.report.as_ref());
        let differ = ran.map(|ran| self.cell.suites_that_differ(&ran.suites)).unwrap_or_default();
        if let Some(suite) = differ.first() {
            let message =
                format!("it is not promoted: the suite `{suite}` has changed since it was checked");
            let hint = format!("`cabane pipeline step check {}` runs it", self.cell.name);
            return Err(Report::new(Kind::Failure, message).hinted(hint));
        }
        let connection = self.connect()?;
        let from =
            Place { namespace: self.pipeline.publish.clone(), label: self.cell.published()? };
        let Some(target) = &self.pipeline.promote else {
            let message = "the pipeline promotes no images";
            return Err(Report::new(Kind::Usage, message)
                .hinted("add `promote:` with a `namespace:` and a `channel:`".to_owned()));
        };
        let Some(image) = connection.registry.image_if_there(&from)? else {
            return Err(self.lacks(Stage::Publish));
        };
        let check = before.check.as_ref().and_then(|check| check.digest.as_ref());
        if check != Some(&image.digest) {
            // It was checked elsewhere, if at all.
            let outcome = outcome_of(self.context, &connection, self.pipeline, self.cell)?;
            if outcome != Outcome::Passed {
                let message = format!("it is not promoted: {from} is {outcome} in the registry");
                return Err(Report::new(Kind::Rejected, message).hinted(format!(
                    "`cabane evidence ls {from} --remote` shows its results, and whose count"
                )));
            }
        }
        let to = Place { namespace: target.namespace.clone(), label: self.cell.promoted()? };
        let copied = connection.registry.copy(&from, &to, false).map_err(|error| {
            let report = Report::from(error);
            let is_taken = report.to_string().contains(&to.label.to_string());
            let tag = self.cell.tag.as_ref().filter(|_| is_taken);
            let hint = tag.map(|tag| format!("change `tag: {tag}` in the pipeline, or remove it"));
            report.hinted(hint)
        })?;
        if copied.image.digest != image.digest {
            let message = format!("{from} was replaced in the registry while it was promoted");
            return Err(Report::new(Kind::Rejected, message));
        }
        if let Some(key) = &self.options.key {
            connection.registry.sign(&copied.image, &signing_key(self.context, key)?, false)?;
        }
        let mut message = format!("{to} is the image {}", image.digest.id());
        if let Some(channel) = &target.channel {
            let request = PromoteRequest {
                channel: ChannelPattern {
                    namespace: Some(to.namespace.clone()),
                    name: channel.clone(),
                    serial: None,
                    system: Some(self.cell.name.system.clone()),
                },
                images: vec![to.to_string()],
                is_default: None,
            };
            let promotions = plan_promotion(self.context, &connection, &request)?;
            for verdict in promotions.iter().flat_map(|one| &one.verdicts) {
                let (rule, outcome, evidence) =
                    (&verdict.rule, &verdict.outcome, &verdict.evidence);
                self.context.note(format_args!("{rule}: {outcome} ({evidence})"));
            }
            let key = self.options.channel_key.as_ref().or(self.options.key.as_ref());
            let key = key.cloned().ok_or_else(|| {
                Report::new(Kind::Usage, format!("the channel {channel} needs a private key"))
                    .hinted("`--channel-key FILE` names it".to_owned())
            })?;
            let reason = Some("the pipeline's checks passed".to_owned());
            let manager = ManagerRequest { key, by: None, reason, lifetime: LIFETIME };
            let manager = manager.manager(self.context)?;
            let channel = promote(self.context, &connection, &manager, &request, &promotions)?;
            let (place, serial) = (channel.document.place(), channel.document.serial);
            message = format!("{place}, number {serial}, releases {to}");
        }
        self.context.note(&message);
        Ok(Done::new(image.digest, Some(message)))
    }
}

/// What came of earlier stages.
struct Before {
    build: Option<StageResult>,
    check: Option<StageResult>,
}

impl Before {
    fn digest(&self, work: &Work<'_>) -> Result<Digest> {
        let digest = self.build.as_ref().and_then(|build| build.digest.clone());
        digest.ok_or_else(|| work.lacks(Stage::Build))
    }
}
