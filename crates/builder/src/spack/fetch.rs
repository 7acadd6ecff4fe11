// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Gets and verifies all sources before the first package is built.
//!
//! Only for packages that will be built: not for those that are installed or in the cache.
//! Where there are none, Spack is not started.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use cabane_label::{escape, shown};
use cabane_report::{Kind, Report};
use cabane_spack::{Dependency, Spec};
use serde::{Deserialize, Serialize};

use super::session::{self, INPUTS};
use super::watch::Watch;
use super::{SpackEngine, inputs, lock};
use crate::build_context::BuildContext;
use crate::layout::Inside;
use crate::sandbox::Invocation;
use crate::{BuildError, Result, disk};

const SCRIPT: &str = include_str!("fetch_sources.py");
const SCRIPT_NAME: &str = "fetch_sources.py";
const QUESTION: &str = "sources-wanted.json";
const ANSWER: &str = "sources-failed.json";
/// The most packages of which sources are fetched at a time.
const MOST_AT_ONCE: usize = 8;

#[derive(Serialize)]
struct Question<'a> {
    hashes: &'a BTreeSet<String>,
    jobs: usize,
    caches: bool,
}

#[derive(Debug, Deserialize)]
struct Answer {
    failed: Vec<Failed>,
}

/// A package whose sources cannot be used.
#[derive(Debug, Deserialize)]
struct Failed {
    package: String,
    message: String,
    #[serde(default)]
    details: Vec<String>,
    url: Option<String>,
    expected: Option<String>,
    found: Option<String>,
}

/// The command that gets the sources of an environment.
pub(super) fn invocation(environment: &str) -> Invocation {
    let place = Inside::work(INPUTS);
    let arguments = [SCRIPT_NAME, QUESTION, ANSWER].map(|name| place.join(name));
    session::in_environment(environment).with(["python"]).with(arguments)
}

/// Gets the sources of the packages of an environment that will be built.
pub(super) fn sources(
    engine: &SpackEngine,
    environment: &str,
    watch: &Watch<'_>,
    bench: &mut BuildContext<'_>,
) -> Result<()> {
    let hashes = missing(engine, environment, watch)?;
    if hashes.is_empty() {
        return Ok(());
    }
    let directory = inputs::directory(&engine.layout);
    let cache = engine.system.mirrors.build_cache.as_ref();
    let question = Question {
        hashes: &hashes,
        jobs: engine.request.jobs.clamp(1, MOST_AT_ONCE),
        caches: cache.is_some_and(|cache| cache.fetch.is_some()),
    };
    disk::put(&directory.join(SCRIPT_NAME), SCRIPT)?;
    disk::write_json(&directory.join(QUESTION), &question)?;
    let answer = directory.join(ANSWER);
    disk::remove(&answer)?;
    match bench.run(&session::sandbox(engine), &invocation(environment)) {
        Ok(()) => {}
        // Another Spack than those that were tried: the installation gets the sources.
        Err(BuildError::StepFailed(failure)) => {
            let log = shown(&failure.log);
            let text =
                format!("Spack could not download the sources before the installation; see {log}");
            bench.progress.warning(&text);
        }
        Err(error) => return Err(error),
    }
    let answer: Option<Answer> = disk::read_json(&answer, 16 << 20);
    match answer.map(|answer| answer.failed).filter(|failed| !failed.is_empty()) {
        None => Ok(()),
        Some(failed) => Err(refusal(&failed, bench).into()),
    }
}

/// Returns the packages of an environment that are neither installed nor in the local cache, and are needed.
pub(super) fn missing(
    engine: &SpackEngine,
    environment: &str,
    watch: &Watch<'_>,
) -> Result<BTreeSet<String>> {
    let packages = lock::read(&inputs::lock_file(&engine.layout, environment))?;
    let is_there = |hash: &str| watch.has(hash);
    if !session::includes_build_dependencies(engine) {
        return Ok(to_build(&packages, &is_there));
    }
    let all = packages.iter().filter(|(hash, one)| !one.is_external() && !is_there(hash));
    Ok(all.map(|(hash, _)| hash.clone()).collect())
}

/// The packages that are built if only what is needed to run is installed, and what is
/// needed to build something.
fn to_build(
    packages: &BTreeMap<String, Spec>,
    is_there: &dyn Fn(&str) -> bool,
) -> BTreeSet<String> {
    let all = packages.values().flat_map(|one| &one.dependencies);
    let needed: BTreeSet<&str> = all.map(|need| need.hash.as_str()).collect();
    let roots = packages.keys().map(String::as_str).filter(|hash| !needed.contains(hash));
    let mut open: Vec<&str> = roots.collect();
    let mut seen = BTreeSet::new();
    let mut built = BTreeSet::new();
    while let Some(hash) = open.pop() {
        let Some(package) = packages.get(hash).filter(|_| seen.insert(hash)) else {
            continue;
        };
        let is_built = !package.is_external() && !is_there(hash);
        if is_built {
            built.insert(hash.to_owned());
        }
        let needs = package.dependencies.iter().filter(|need| is_built || is_run_time(need));
        open.extend(needs.map(|need| need.hash.as_str()));
    }
    built
}

/// Whether a package is needed to run another one.
pub(super) fn is_run_time(need: &Dependency) -> bool {
    need.parameters.deptypes.iter().any(|kind| kind == "link" || kind == "run")
}

/// One error for all packages.
fn refusal(failed: &[Failed], bench: &BuildContext<'_>) -> Report {
    let message = match failed {
        [one] => format!("the source of {} cannot be used; nothing was built", one.package),
        all => format!("the sources of {} packages cannot be used; nothing was built", all.len()),
    };
    let mut details = String::new();
    for one in failed {
        let _ = writeln!(details, "  {}", escape(&one.package));
        for line in one.lines() {
            let _ = writeln!(details, "    {}", escape(&line));
        }
    }
    let is_wrong = failed.iter().any(|one| one.found.is_some());
    let hint = if is_wrong {
        "if the file is right, correct `sha256` in the package recipe; otherwise remove it where \
         it comes from"
    } else {
        "correct `url` in the package recipe, or name a mirror that has the file in `mirrors.yaml`"
    };
    let log = shown(&bench.log());
    Report::new(Kind::Build, message)
        .detailed(details.trim_end().to_owned())
        .hinted(format!("{hint}; the whole log is in {log}"))
}

impl Failed {
    fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.url.iter().cloned().collect();
        if let (Some(expected), Some(found)) = (&self.expected, &self.found) {
            lines.extend([format!("expected: {expected}"), format!("found:    {found}")]);
        } else {
            lines.push(self.reason());
        }
        lines
    }

    /// Why nothing came from the address: mirrors that do not have it are no reason.
    fn reason(&self) -> String {
        let Some(last) = self.details.last() else {
            return self.message.clone();
        };
        let url = self.url.as_deref().unwrap_or_default();
        let reason = last.rsplit_once(url).filter(|_| !url.is_empty());
        let reason = reason.map_or(last.as_str(), |(_, reason)| reason);
        reason.trim_start_matches([':', ' ']).trim_start_matches("errored with: ").to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_of_the_address_itself_is_shown() {
        let url = "https://example.org/a.tar.gz";
        let failed = |detail: &str| Failed {
            package: "a@1".to_owned(),
            message: "All fetchers failed".to_owned(),
            details: vec!["file:///mirror/a: no such file".to_owned(), detail.replace("URL", url)],
            url: Some(url.to_owned()),
            expected: None,
            found: None,
        };
        let reasons = [
            "URL: Error: GET URL errored with: no such name",
            "URL: Error: GET URL \
                        returned 404: Not Found",
            "something else",
        ];
        let reasons = reasons.map(|detail| failed(detail).reason());
        assert_eq!(reasons, ["no such name", "returned 404: Not Found", "something else"]);
    }

    #[test]
    fn what_comes_from_a_cache_needs_nothing_to_be_built() {
        let need = |hash: &str, kind: &str| {
            format!(r#"{{"name":"x","hash":"{hash}","parameters":{{"deptypes":["{kind}"]}}}}"#)
        };
        let package = |needs: &[String]| {
            let needs = needs.join(",");
            format!(
                r#"{{"name":"x","version":"1","arch":{{"target":"a"}},"dependencies":[{needs}]}}"#
            )
        };
        let all = [
            ("root", package(&[need("cached", "link"), need("tool", "build")])),
            ("cached", package(&[need("only", "build"), need("lib", "run")])),
            ("tool", package(&[])),
            ("only", package(&[])),
            ("lib", package(&[])),
        ];
        let all = all.iter().map(|(hash, text)| {
            ((*hash).to_owned(), serde_json::from_str(text).expect("a package"))
        });
        let built = to_build(&all.collect(), &|hash| hash == "cached");
        assert_eq!(built.into_iter().collect::<Vec<_>>(), ["lib", "root", "tool"]);
    }
}
