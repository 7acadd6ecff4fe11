// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which statements count, and what they say together.
//!
//! A statement counts if a key of the configuration signed it that has the right role, tester or builder,
//! and it is about this very image. Of test results, the newest one that counts for the system and the time
//! decides. Absence is never success.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use cabane_label::{Digest, System, escape};
use cabane_registry::{Distrust, PublicKey};
use cabane_report::Result;
use cabane_site::Context;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::bundle::SignedStatement;
use crate::outcome::Outcome;
use crate::provenance::{PROVENANCE, Provenance, is_same_repository};
use crate::statement::{Details, Statement};

/// How far the clock of a tester may be ahead.
pub(crate) const AHEAD: SignedDuration = SignedDuration::from_mins(5);

/// The keys whose statements count.
#[derive(Clone, Debug, Default)]
pub struct EvidenceKeys {
    /// All keys.
    keys: Vec<PublicKey>,
    testers: Vec<(PathBuf, PublicKey)>,
    builders: Vec<(PathBuf, PublicKey)>,
}

/// What a key may say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// What was tested.
    Tester,
    /// What was built from what.
    Builder,
}

/// Whether a statement counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "standing", content = "detail")]
pub enum Standing {
    /// A tester or builder of the configuration signed it; the file of the key.
    Counts(PathBuf),
    /// It does not count, and why.
    Ignored(String),
}

/// A statement, read and judged.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// The sha256 of the statement.
    pub id: Digest,
    /// The sha256 of the statement with its signatures.
    pub bundle: Digest,
    /// What it says.
    pub statement: Statement,
    /// What it says about tests.
    pub outcome: Option<Outcome>,
    /// What is said beside the result.
    pub details: Details,
    /// Whether it counts.
    pub standing: Standing,
}

/// Which statements are asked for.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// The system on which the image was tested; any if none is named.
    pub system: Option<String>,
    /// The oldest time.
    pub since: Option<Timestamp>,
    /// The generation of the system; any if none is named.
    pub generation: Option<String>,
}

/// What the statements about an image say together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tested {
    /// The outcome of the newest one that counts. Without one, nothing was tested.
    pub outcome: Outcome,
    /// When its tests ended.
    pub finished: Option<Timestamp>,
    /// The sha256 of that statement.
    pub statement: Option<Digest>,
    /// The sentence that says so.
    pub evidence: String,
}

impl Wanted {
    /// Returns what is asked for on this machine: results of its system or of another one, not older than
    /// some time before `now`, and of its generation.
    #[must_use]
    pub fn here(
        context: &Context,
        system: Option<&System>,
        within: Option<Duration>,
        now: Timestamp,
    ) -> Self {
        let system = system.cloned().or_else(|| context.system());
        let within =
            within.map(|time| SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX));
        Self {
            system: system.map(|system| system.to_string()),
            since: within.and_then(|time| now.checked_sub(time).ok()),
            generation: context.settings.evidence.generation.clone(),
        }
    }
}

impl EvidenceKeys {
    /// Reads the keys of the configuration.
    ///
    /// # Errors
    ///
    /// A file that is no public key.
    pub fn of(context: &Context) -> Result<Self> {
        let read = |files: &[PathBuf]| -> Result<Vec<_>> {
            files.iter().map(|path| Ok((path.clone(), PublicKey::read(path)?))).collect()
        };
        let evidence = &context.settings.evidence;
        Ok(Self::new(read(&evidence.testers)?, read(&evidence.builders)?))
    }

    fn new(testers: Vec<(PathBuf, PublicKey)>, builders: Vec<(PathBuf, PublicKey)>) -> Self {
        let keys = testers.iter().chain(&builders).map(|(_, key)| key.clone()).collect();
        Self { keys, testers, builders }
    }

    /// Returns the keys of testers and builders.
    #[must_use]
    pub fn all(&self) -> &[PublicKey] {
        &self.keys
    }

    /// Returns a name for each key, with its role: other names judge otherwise.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let name = |role: &str, (file, key): &(PathBuf, PublicKey)| {
            format!("{role} {} {}", file.display(), key.fingerprint())
        };
        let testers = self.testers.iter().map(|key| name("tester", key));
        testers.chain(self.builders.iter().map(|key| name("builder", key))).collect()
    }

    /// Whether there are no testers, so that no test result counts.
    #[must_use]
    pub fn has_no_testers(&self) -> bool {
        self.testers.is_empty()
    }

    /// Whether there are no builders, so that no provenance counts.
    #[must_use]
    pub fn has_no_builders(&self) -> bool {
        self.builders.is_empty()
    }

    /// Says whether a key has the right to sign a statement.
    fn standing(&self, statement: &Statement, key: &PublicKey) -> Standing {
        let role = match statement.outcome() {
            Some(_) => Some(Role::Tester),
            None if statement.predicate_type == PROVENANCE => Some(Role::Builder),
            None => None,
        };
        let file = |known: &[(PathBuf, PublicKey)]| {
            known.iter().find(|(_, one)| one == key).map(|(file, _)| file.clone())
        };
        let found = match role {
            Some(Role::Tester) => file(&self.testers),
            Some(Role::Builder) => file(&self.builders),
            None => file(&self.testers).or_else(|| file(&self.builders)),
        };
        let missing = match role {
            Some(Role::Builder) => "signed with the key of a tester, not of a builder",
            _ => "signed with the key of a builder, not of a tester",
        };
        found.map_or_else(|| Standing::Ignored(missing.to_owned()), Standing::Counts)
    }

    /// Judges a statement that is attached to an image; `None` if it cannot be read at all, or is a large
    /// one that nobody here trusts. It must name the image itself: a manifest is what a registry says.
    #[must_use]
    pub fn judge(&self, signed: &SignedStatement, image: &Digest) -> Option<Evidence> {
        let opened = signed.open(&self.keys);
        let (statement, standing) = match opened {
            Ok((statement, key)) => {
                let standing = self.standing(&statement, key);
                (statement, standing)
            }
            Err(reason) => {
                let reason = match reason {
                    Distrust::UnknownKey => "signed with another key".to_owned(),
                    other => other.to_string(),
                };
                (signed.unverified_small()?, Standing::Ignored(reason))
            }
        };
        let standing = if statement.is_about(image) {
            standing
        } else {
            Standing::Ignored("it is about another image".to_owned())
        };
        Some(Evidence {
            id: signed.id(),
            bundle: signed.digest(),
            outcome: statement.outcome(),
            details: statement.details(),
            statement,
            standing,
        })
    }
}

/// Says what statements about an image say together.
#[must_use]
pub fn tested(evidence: &[Evidence], wanted: &Wanted, now: Timestamp) -> Tested {
    let nothing = |evidence: String| Tested {
        outcome: Outcome::NotTested,
        finished: None,
        statement: None,
        evidence,
    };
    // A run of some checks can show a failure, and no success.
    let decides = |one: &&Evidence| match one.outcome {
        Some(Outcome::Passed | Outcome::NotTested) => !one.details.is_partial,
        outcome => outcome.is_some(),
    };
    let of_tests = || evidence.iter().filter(decides);
    let counting = || of_tests().filter(|one| matches!(one.standing, Standing::Counts(_)));
    if of_tests().next().is_none() {
        return nothing("no results of all checks".to_owned());
    }
    if counting().next().is_none() {
        return nothing("no results with the signature of a tester".to_owned());
    }
    let on_system = |one: &&Evidence| {
        wanted.system.as_ref().is_none_or(|system| one.details.system.as_ref() == Some(system))
    };
    let system = wanted.system.as_deref().unwrap_or_default();
    let Some(newest) = counting()
        .filter(on_system)
        .filter(|one| one.details.finished.is_some_and(|time| time <= now + AHEAD))
        .max_by_key(|one| one.details.finished)
    else {
        return nothing(format!("not tested on {system}"));
    };
    let finished = newest.details.finished.unwrap_or(Timestamp::UNIX_EPOCH);
    let date = finished.strftime("%F");
    let is_of = |wanted: &String| newest.details.generation.as_ref() == Some(wanted);
    if let Some(generation) = wanted.generation.as_ref().filter(|wanted| !is_of(wanted)) {
        return nothing(format!("last tested on {date}, before the generation {generation}"));
    }
    if wanted.since.is_some_and(|since| finished < since) {
        return nothing(format!("last tested on {date}"));
    }
    let outcome = newest.outcome.unwrap_or(Outcome::NotTested);
    let on =
        newest.details.system.as_ref().map(|on| format!(" on {}", escape(on))).unwrap_or_default();
    let id = newest.id.id();
    let evidence = match outcome {
        Outcome::Passed => format!("tests passed{on} on {date} ({id})"),
        Outcome::Failed => format!("tests failed{on} on {date} ({id})"),
        Outcome::Error => format!("tests could not run{on} on {date} ({id})"),
        Outcome::NotTested => format!("nothing was tested{on} on {date} ({id})"),
    };
    Tested { outcome, finished: Some(finished), statement: Some(newest.id.clone()), evidence }
}

/// Whether an image was built as wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BuiltFrom {
    /// The sha256 of the statement that says so; without one, the image was not built as wanted.
    pub statement: Option<Digest>,
    /// The sentence that says so, or what is missing.
    pub evidence: String,
}

/// Says whether a builder whose key counts built an image from a recipe in one of some Git repositories;
/// `*` is any recipe. The newest statement that fits is named.
#[must_use]
pub fn built_from(evidence: &[Evidence], repositories: &[String], now: Timestamp) -> BuiltFrom {
    let nothing = |evidence: &str| BuiltFrom { statement: None, evidence: evidence.to_owned() };
    let of_builds = || {
        let known = |one: &Evidence| Provenance::of(&one.statement).is_some();
        evidence.iter().filter(move |one| known(one))
    };
    if of_builds().next().is_none() {
        return nothing("no provenance");
    }
    let mut counting: Vec<_> = of_builds()
        .filter(|one| matches!(one.standing, Standing::Counts(_)))
        .filter(|one| one.details.finished.is_some_and(|time| time <= now + AHEAD))
        .collect();
    counting.sort_by_key(|one| std::cmp::Reverse(one.details.finished));
    let Some(newest) = counting.first() else {
        return nothing("no provenance with the signature of a builder");
    };
    let is_any = repositories.iter().any(|one| one == "*");
    for one in &counting {
        let Some(provenance) = Provenance::of(&one.statement) else { continue };
        let source = provenance.recipe_commit();
        let fits = |(uri, _): (&str, &str)| {
            repositories.iter().any(|wanted| is_same_repository(uri, wanted))
        };
        if is_any || source.is_some_and(fits) {
            let date = one.details.finished.map(|time| time.strftime("%F").to_string());
            let from = source.map_or_else(String::new, |(uri, commit)| {
                format!(" from {} {}", escape(uri), escape(commit.get(..12).unwrap_or(commit)))
            });
            let (id, date) = (one.id.id(), date.unwrap_or_default());
            let builder = escape(&provenance.run_details.builder.id).into_owned();
            let evidence = format!("built{from} by {builder} on {date} ({id})");
            return BuiltFrom { statement: Some(one.id.clone()), evidence };
        }
    }
    let newest = Provenance::of(&newest.statement);
    if newest.as_ref().is_some_and(Provenance::is_packed_directory) {
        return nothing("packed from a directory, which the provenance does not describe");
    }
    match newest.as_ref().and_then(Provenance::recipe_commit) {
        Some((uri, _)) => nothing(&format!("built from {}", escape(uri))),
        None => nothing("the recipe was not an unchanged commit of a Git repository"),
    }
}

/// Returns the statements that can go, by the digest of the bundle: all but the newest `keep_last` of each
/// signer, system, and type that is not about tests, and of those the ones in which some checks passed. Those
/// that did not pass stay as long as none that counts has passed since.
/// `evidence` is sorted, the newest first.
#[must_use]
pub fn surplus(evidence: &[Evidence], keep_last: usize) -> BTreeSet<Digest> {
    let mut counts: BTreeMap<_, (usize, bool)> = BTreeMap::new();
    let mut surplus = BTreeSet::new();
    for one in evidence {
        let standing = match &one.standing {
            Standing::Counts(file) => file.clone(),
            Standing::Ignored(_) => PathBuf::new(),
        };
        let counts_at_all = matches!(one.standing, Standing::Counts(_));
        let kind = one.outcome.is_none().then_some(&one.statement.predicate_type);
        // Runs that only measure must not displace those of all checks.
        let is_part = one.outcome == Some(Outcome::Passed) && one.details.is_partial;
        let key = (standing, &one.details.system, kind, is_part);
        let (count, has_passed) = counts.entry(key).or_default();
        *count += 1;
        let has_complete_pass = one.outcome == Some(Outcome::Passed) && !one.details.is_partial;
        *has_passed |= has_complete_pass && counts_at_all;
        let can_go = *has_passed || is_part || !counts_at_all || one.outcome.is_none();
        if *count > keep_last.max(1) && can_go {
            surplus.insert(one.bundle.clone());
        }
    }
    surplus
}

#[cfg(test)]
mod tests {
    use cabane_registry::SigningKey;

    use super::*;
    use crate::provenance::tests::provenance;

    fn digest(letter: &str) -> Digest {
        letter.repeat(64).parse().unwrap()
    }

    fn key() -> SigningKey {
        let directory = tempfile::tempdir().unwrap();
        SigningKey::generate(&directory.path().join("key")).unwrap().0
    }

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    const NOW: &str = "2026-11-26T12:00:00Z";

    struct Run {
        outcome: Outcome,
        system: &'static str,
        finished: &'static str,
        generation: &'static str,
    }

    impl Run {
        fn new(outcome: Outcome, finished: &'static str) -> Self {
            Self { outcome, system: "daint", finished, generation: "2" }
        }

        fn signed(&self, key: &SigningKey) -> SignedStatement {
            let details = Details {
                outcome: Some(self.outcome),
                system: Some(self.system.to_owned()),
                finished: Some(time(self.finished)),
                generation: Some(self.generation.to_owned()),
                ..Details::default()
            };
            let image = digest("a");
            let statement =
                Statement::of_checks(("app", &image, None), (&["starts"], &[]), &[], &details);
            SignedStatement::sign(&statement, key).unwrap()
        }
    }

    fn keys(key: &SigningKey) -> EvidenceKeys {
        EvidenceKeys::new(vec![("tests.pub".into(), key.public())], Vec::new())
    }

    fn said(key: &SigningKey, signed: &[SignedStatement], wanted: &Wanted) -> (Outcome, String) {
        let image = digest("a");
        let evidence: Vec<_> =
            signed.iter().filter_map(|one| keys(key).judge(one, &image)).collect();
        let tested = tested(&evidence, wanted, time(NOW));
        (tested.outcome, tested.evidence)
    }

    fn on_daint() -> Wanted {
        Wanted {
            system: Some("daint".to_owned()),
            since: Some(time("2026-11-01T00:00:00Z")),
            generation: Some("2".to_owned()),
        }
    }

    #[test]
    fn the_newest_statement_that_counts_decides() {
        let key = key();
        let passed = Run::new(Outcome::Passed, "2026-11-20T00:00:00Z").signed(&key);
        let failed = Run::new(Outcome::Failed, "2026-11-21T00:00:00Z").signed(&key);
        for order in [[&passed, &failed], [&failed, &passed]] {
            let (outcome, evidence) = said(&key, &order.map(Clone::clone), &on_daint());
            assert_eq!(outcome, Outcome::Failed, "{evidence}");
            assert!(evidence.starts_with("tests failed on daint on 2026-11-21"), "{evidence}");
        }
        assert_eq!(said(&key, &[passed], &on_daint()).0, Outcome::Passed);
    }

    #[test]
    fn absence_and_what_does_not_count_are_no_success() {
        let (key, other) = (key(), key());
        let passed = |change: &dyn Fn(&mut Run)| {
            let mut run = Run::new(Outcome::Passed, "2026-11-20T00:00:00Z");
            change(&mut run);
            run
        };
        let cases = [
            (vec![], "no results of all checks"),
            (vec![passed(&|_| ()).signed(&other)], "no results with the signature of a tester"),
            (vec![passed(&|run| run.system = "eiger").signed(&key)], "not tested on daint"),
            (
                vec![passed(&|run| run.finished = "2026-10-01T00:00:00Z").signed(&key)],
                "last tested on 2026-10-01",
            ),
            (
                vec![passed(&|run| run.generation = "1").signed(&key)],
                "last tested on 2026-11-20, before the generation 2",
            ),
            // From the future.
            (
                vec![passed(&|run| run.finished = "2027-01-01T00:00:00Z").signed(&key)],
                "not tested on daint",
            ),
        ];
        for (signed, expected) in cases {
            assert_eq!(said(&key, &signed, &on_daint()), (Outcome::NotTested, expected.to_owned()));
        }
        let error = Run::new(Outcome::Error, "2026-11-20T00:00:00Z").signed(&key);
        assert_eq!(said(&key, &[error], &on_daint()).0, Outcome::Error);
    }

    #[test]
    fn a_statement_about_another_image_does_not_count() {
        let key = key();
        let signed = Run::new(Outcome::Passed, "2026-11-20T00:00:00Z").signed(&key);
        let evidence = keys(&key).judge(&signed, &digest("c")).unwrap();
        assert_eq!(evidence.standing, Standing::Ignored("it is about another image".to_owned()));
        assert_eq!(tested(&[evidence], &Wanted::default(), time(NOW)).outcome, Outcome::NotTested);
    }

    #[test]
    fn a_key_counts_in_its_role_only() {
        let (tester, builder) = (key(), key());
        let keys = EvidenceKeys::new(
            vec![("tests.pub".into(), tester.public())],
            vec![("build.pub".into(), builder.public())],
        );
        let image = digest("a");
        let address = "git+https://example.org/recipes";
        let build = provenance(address, false).statement(("app", &image, None));
        let judged = |signed: &SignedStatement| vec![keys.judge(signed, &image).unwrap()];
        let said = |evidence: &[Evidence], from: &str| {
            let found = built_from(evidence, &[from.to_owned()], time(NOW));
            (found.statement.is_some(), found.evidence)
        };
        // A builder says nothing about tests, and a tester nothing about builds.
        let run = Run::new(Outcome::Passed, "2026-11-20T00:00:00Z");
        let by_builder = judged(&run.signed(&builder));
        assert_eq!(tested(&by_builder, &on_daint(), time(NOW)).outcome, Outcome::NotTested);
        let by_tester = judged(&SignedStatement::sign(&build, &tester).unwrap());
        let missing = "no provenance with the signature of a builder";
        assert_eq!(said(&by_tester, "*"), (false, missing.to_owned()));
        assert_eq!(said(&by_builder, "*"), (false, "no provenance".to_owned()));
        let right = judged(&SignedStatement::sign(&build, &builder).unwrap());
        let (is_built, evidence) = said(&right, "https://example.org/recipes.git");
        assert!(
            is_built && evidence.starts_with(&format!("built from {address} cccc")),
            "{evidence}"
        );
        let other = said(&right, "https://example.org/other");
        assert_eq!(other, (false, format!("built from {address}")));
        // Changed files can be anything.
        let changed = provenance(address, true).statement(("app", &image, None));
        let changed = judged(&SignedStatement::sign(&changed, &builder).unwrap());
        assert!(!said(&changed, "https://example.org/recipes").0);
        assert!(said(&changed, "*").0);
    }

    #[test]
    fn runs_that_only_measure_do_not_displace_those_of_all_checks() {
        let key = key();
        let run = |finished, is_partial| {
            let run = Run::new(Outcome::Passed, finished).signed(&key);
            let mut evidence = keys(&key).judge(&run, &digest("a")).unwrap();
            evidence.details.is_partial = is_partial;
            evidence
        };
        let evidence = [
            run("2026-11-24T00:00:00Z", true),
            run("2026-11-23T00:00:00Z", true),
            run("2026-11-22T00:00:00Z", true),
            run("2026-11-21T00:00:00Z", false),
            run("2026-11-20T00:00:00Z", false),
        ];
        let gone = surplus(&evidence, 2);
        assert_eq!(gone, [evidence[2].bundle.clone()].into());
        assert_eq!(surplus(&evidence, 1).len(), 3);
    }

    #[test]
    fn a_changed_statement_does_not_count() {
        let key = key();
        let signed = Run::new(Outcome::Failed, "2026-11-20T00:00:00Z").signed(&key);
        let text = String::from_utf8(signed.to_bytes()).unwrap();
        let mut bundle: serde_json::Value = serde_json::from_str(&text).unwrap();
        let other = Run::new(Outcome::Passed, "2026-11-20T00:00:00Z").signed(&key);
        let other: serde_json::Value = serde_json::from_slice(&other.to_bytes()).unwrap();
        bundle["dsseEnvelope"]["payload"] = other["dsseEnvelope"]["payload"].clone();
        let bytes = serde_json::to_vec(&bundle).unwrap();
        let changed = SignedStatement::from_bytes(&bytes).unwrap();
        assert_eq!(said(&key, &[changed], &on_daint()).0, Outcome::NotTested);
        assert!(SignedStatement::from_bytes(b"{}").is_none());
        let again = SignedStatement::from_bytes(&signed.to_bytes());
        assert_eq!(again, Some(signed));
    }
}
