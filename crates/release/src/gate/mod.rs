// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What an image must fulfill to be promoted: the rules of the configuration, and what is known of the
//! image.

mod host;
mod regressions;
mod waiver;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use cabane_channel::{ChannelDocument, Entry, State, read_channel, setting_of, today};
use cabane_evidence::{
    Evidence, EvidenceKeys, Outcome as TestOutcome, Wanted, attached, built_from, kept, tested,
};
use cabane_label::{Digest, enumerate, escape};
use cabane_registry::{ChannelPlace, Distrust, PublicKey, RemoteImage};
use cabane_report::Result;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::compare::rival;
use crate::publish::Target;

pub use waiver::WaivedRule;

/// A rule of the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GateRule {
    /// The image is not revoked. It always applies, and cannot be waived.
    NotRevoked,
    /// `signed_by`: a signature for the label.
    SignedBy,
    /// `from`: the image is in another channel.
    From,
    /// `age`: for so long.
    Age,
    /// `tested_within`: its checks passed on the system of the channel.
    Tested,
    /// `built_from`: a builder says that it was built from a recipe in one of these Git repositories.
    Built,
    /// `suites`: its newest results have these suites of `ReFrame`.
    Suites,
    /// `regressions`: no figure is worse than that of the released image.
    Regressions,
    /// `runs_on`: these hosts have what it needs.
    RunsOn,
}

impl GateRule {
    /// Those that can be waived, by the key in the configuration.
    const WAIVABLE: [Self; 8] = [
        Self::SignedBy,
        Self::From,
        Self::Age,
        Self::Tested,
        Self::Built,
        Self::Suites,
        Self::Regressions,
        Self::RunsOn,
    ];

    /// Returns its name, which is its key in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotRevoked => "not_revoked",
            Self::SignedBy => "signed_by",
            Self::From => "from",
            Self::Age => "age",
            Self::Tested => "tested_within",
            Self::Built => "built_from",
            Self::Suites => "suites",
            Self::Regressions => "regressions",
            Self::RunsOn => "runs_on",
        }
    }
}

impl fmt::Display for GateRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for GateRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::WAIVABLE.into_iter().find(|rule| rule.name() == text);
        let names = Self::WAIVABLE.map(Self::name);
        found.ok_or_else(|| format!("use {}", enumerate(&names, "or")))
    }
}

/// Whether an image fulfills a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It does.
    Passed,
    /// It does not, and someone decided that it need not.
    Waived,
    /// It does not.
    Failed,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Passed => "passed",
            Self::Waived => "waived",
            Self::Failed => "failed",
        })
    }
}

/// What came of a rule for an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GateVerdict {
    /// The rule.
    pub rule: GateRule,
    /// Whether the image fulfills it.
    pub outcome: Outcome,
    /// The host of `runs_on`: the name of its file of facts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The evidence, or what is missing.
    pub evidence: String,
    /// The sha256 of the signed statement that fulfills it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub statement: Option<Digest>,
}

/// Applies all rules to an image.
pub(crate) fn judge(
    target: Target<'_>,
    image: &RemoteImage,
    document: Option<&ChannelDocument>,
) -> Result<Vec<GateVerdict>> {
    let mut verdicts = vec![revocation(image, document)];
    if !target.setting.signed_by.is_empty() {
        verdicts.push(signature(target, image)?);
    }
    if target.setting.from.is_some() {
        verdicts.extend(presence(target, image)?);
    }
    verdicts.extend(by_evidence(target, image, document)?);
    for facts in &target.setting.runs_on {
        verdicts.push(host::runs_on(target, image, facts)?);
    }
    for verdict in verdicts.iter_mut().filter(|one| one.outcome == Outcome::Failed) {
        let waivers = document.map(|one| one.waivers.as_slice()).unwrap_or_default();
        if let Some(waiver) = waiver::waiver_of(waivers, verdict, &image.manifest, today()) {
            let (by, reason) = (escape(&waiver.by), escape(&waiver.reason));
            let until = waiver.until;
            verdict.outcome = Outcome::Waived;
            verdict.evidence =
                format!("{}; waived by {by} until {until}: {reason}", verdict.evidence);
        }
    }
    Ok(verdicts)
}

/// Applies the rules that signed statements fulfill.
fn by_evidence(
    target: Target<'_>,
    image: &RemoteImage,
    document: Option<&ChannelDocument>,
) -> Result<Vec<GateVerdict>> {
    let setting = target.setting;
    let (has_builds, has_suites) = (!setting.built_from.is_empty(), !setting.suites.is_empty());
    let mut verdicts = Vec::new();
    let is_wanted = setting.tested_within.is_some() || setting.regressions.is_some();
    if !is_wanted && !has_builds && !has_suites {
        return Ok(verdicts);
    }
    let keys = EvidenceKeys::of(target.context)?;
    let evidence = evidence_of(target, Some(image), &image.digest, &keys)?;
    if let Some(within) = setting.tested_within {
        verdicts.push(tests(target, &keys, &evidence, within));
    }
    if has_builds {
        verdicts.push(builds(target, &keys, &evidence));
    }
    if has_suites {
        verdicts.push(suites(target, &keys, &evidence));
    }
    if let Some(rule) = setting.regressions {
        let released = document
            .and_then(|document| Some((document, rival(document, &image.place.label, today())?)));
        verdicts.push(regressions::judge(target, rule, &keys, (image, &evidence), released)?);
    }
    Ok(verdicts)
}

fn verdict(rule: GateRule, evidence: Result<String, String>) -> GateVerdict {
    let (outcome, evidence) = match evidence {
        Ok(evidence) => (Outcome::Passed, evidence),
        Err(missing) => (Outcome::Failed, missing),
    };
    GateVerdict { rule, outcome, host: None, evidence, statement: None }
}

fn revocation(image: &RemoteImage, document: Option<&ChannelDocument>) -> GateVerdict {
    let revoked = document.and_then(|document| document.revocation(&image.digest));
    verdict(
        GateRule::NotRevoked,
        match revoked {
            None => Ok("not revoked".to_owned()),
            Some(one) => Err(format!("revoked on {}: {}", one.date, escape(&one.reason))),
        },
    )
}

/// The signature of a build must be for this label: that of another one says nothing.
fn signature(target: Target<'_>, image: &RemoteImage) -> Result<GateVerdict> {
    let known: Vec<(PathBuf, PublicKey)> = target
        .setting
        .signed_by
        .iter()
        .map(|path| Ok((path.clone(), PublicKey::read(path)?)))
        .collect::<Result<_>>()?;
    let keys: Vec<_> = known.iter().map(|(_, key)| key.clone()).collect();
    let signatures = target.registry.signatures(image)?;
    let statements = signatures.statements(&keys);
    let own = statements.iter().filter(|one| one.place == image.place);
    let newest = own.max_by_key(|one| one.time);
    let evidence = match (signatures.accepted_by(&keys), newest) {
        (Ok(_), Some(statement)) => {
            Ok(format!("signed for its label on {}", statement.time.strftime("%F %T UTC")))
        }
        (Ok(_), None) => Err("the signature is for another label".to_owned()),
        (Err(Distrust::Unsigned), _) => Err("not signed".to_owned()),
        (Err(reason), _) => Err(reason.to_string()),
    };
    Ok(verdict(GateRule::SignedBy, evidence))
}

/// Reads and judges the statements about an image, also of one that the registry has lost.
fn evidence_of(
    target: Target<'_>,
    image: Option<&RemoteImage>,
    digest: &Digest,
    keys: &EvidenceKeys,
) -> Result<Vec<Evidence>> {
    // A failure that somebody removed from the registry may still be here.
    let attached = image.map(|image| attached(target.registry, image)).transpose()?;
    let mut statements = attached.unwrap_or_default();
    statements.extend(kept(target.context, digest)?);
    Ok(statements.iter().filter_map(|one| keys.judge(one, digest)).collect())
}

/// Whether the newest results of checks on the system of the channel say that they passed.
fn tests(
    target: Target<'_>,
    keys: &EvidenceKeys,
    evidence: &[Evidence],
    within: Duration,
) -> GateVerdict {
    if keys.has_no_testers() {
        return verdict(GateRule::Tested, Err(no_keys("testers")));
    }
    let now = Timestamp::now();
    let wanted = Wanted::here(target.context, Some(&target.place.system), Some(within), now);
    let found = tested(evidence, &wanted, now);
    match found.outcome {
        TestOutcome::Passed => GateVerdict {
            statement: found.statement,
            ..verdict(GateRule::Tested, Ok(found.evidence))
        },
        _ => verdict(GateRule::Tested, Err(found.evidence)),
    }
}

/// Whether a builder says that the recipe is in one of the repositories of the rule.
fn builds(target: Target<'_>, keys: &EvidenceKeys, evidence: &[Evidence]) -> GateVerdict {
    if keys.has_no_builders() {
        return verdict(GateRule::Built, Err(no_keys("builders")));
    }
    let found = built_from(evidence, &target.setting.built_from, Timestamp::now());
    match found.statement {
        Some(_) => GateVerdict {
            statement: found.statement,
            ..verdict(GateRule::Built, Ok(found.evidence))
        },
        None => verdict(GateRule::Built, Err(found.evidence)),
    }
}

/// Whether the newest results say that the suites of the rule passed.
fn suites(target: Target<'_>, keys: &EvidenceKeys, evidence: &[Evidence]) -> GateVerdict {
    if keys.has_no_testers() {
        return verdict(GateRule::Suites, Err(no_keys("testers")));
    }
    let now = Timestamp::now();
    let (system, within) = (&target.place.system, target.setting.tested_within);
    let wanted = Wanted::here(target.context, Some(system), within, now);
    let found = tested(evidence, &wanted, now);
    let newest = evidence.iter().find(|one| Some(&one.id) == found.statement.as_ref());
    let Some(newest) = newest.filter(|_| found.outcome == TestOutcome::Passed) else {
        return verdict(GateRule::Suites, Err(found.evidence));
    };
    let names = |names: &[&String]| {
        let names: Vec<_> = names.iter().map(|name| escape(name)).collect();
        enumerate(&names, "and")
    };
    let suites: Vec<&String> = target.setting.suites.iter().collect();
    let mut missing = suites.clone();
    missing.retain(|name| !newest.statement.has_passed(name));
    if missing.is_empty() {
        let evidence = format!("{}: {}", names(&suites), found.evidence);
        let statement = found.statement;
        return GateVerdict { statement, ..verdict(GateRule::Suites, Ok(evidence)) };
    }
    let (missing, id) = (names(&missing), newest.id.id());
    verdict(GateRule::Suites, Err(format!("the newest results ({id}) lack {missing}")))
}

fn no_keys(key: &str) -> String {
    format!("no `{key}` in the section `[evidence]` of the configuration")
}

/// Whether the image is in the channel that comes before, and since when.
fn presence(target: Target<'_>, image: &RemoteImage) -> Result<Vec<GateVerdict>> {
    let Some(name) = &target.setting.from else {
        return Ok(Vec::new());
    };
    let place = ChannelPlace { name: name.clone(), ..target.place.clone() };
    let setting = setting_of(target.context, &place.namespace, name)?;
    let other = read_channel(target.context, target.registry, setting, &place)?;
    let entry = other.document.entry(&image.place.label);
    let entry = entry.filter(|entry| entry.manifest == image.manifest);
    let entry = entry.filter(|entry| entry.state(today()) != State::Retired);
    let from = match entry {
        Some(entry) => Ok(format!("in {name} since number {}", entry.since)),
        None => Err(format!("not in {name}")),
    };
    let mut verdicts = vec![verdict(GateRule::From, from)];
    if let Some(age) = target.setting.age {
        let age = SignedDuration::try_from(age).unwrap_or(SignedDuration::MAX);
        verdicts.push(verdict(GateRule::Age, old_enough(entry, age, name.as_str())));
    }
    Ok(verdicts)
}

fn old_enough(entry: Option<&Entry>, wanted: SignedDuration, name: &str) -> Result<String, String> {
    let Some(entry) = entry else {
        return Err(format!("not in {name}"));
    };
    let age = Timestamp::now().duration_since(entry.promoted);
    let shown = format!("in {name} for {}", time(age));
    if age >= wanted {
        Ok(shown)
    } else {
        Err(format!("{shown}, and the rule is {}", time(wanted)))
    }
}

fn time(time: SignedDuration) -> String {
    let units = [("day", 24 * 60 * 60), ("hour", 60 * 60), ("minute", 60), ("second", 1)];
    let seconds = time.as_secs().max(0);
    let (name, length) =
        units.into_iter().find(|(_, length)| seconds >= *length).unwrap_or(units[3]);
    let count = seconds / length;
    format!("{count} {name}{}", if count == 1 { "" } else { "s" })
}
