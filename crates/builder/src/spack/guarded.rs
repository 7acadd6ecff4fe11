// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Mirrors that need a secret, or a Python that knows S3.
//!
//! Spack writes the variables that it has into every package that it builds, and what
//! builds packages are programs of strangers. So only commands get these mirrors, with
//! the variables they name, that fetch or put and build nothing. Whatever builds does not
//! know that there are such mirrors.

use std::collections::{BTreeMap, BTreeSet};

use cabane_recipe::{Connection, MirrorFlags, Mirrors, StackRecipe};
use cabane_spack::{is_guarded, variables};

use super::installer_output::{self, What};
use super::session;
use super::solver::Solver;
use super::watch::Watch;
use super::{SpackEngine, inputs};
use crate::build_context::{BuildContext, Listener};
use crate::sandbox::{Invocation, Sandbox};
use crate::{Progress, Result, disk};

/// What is written when a secret is wrong, or there is none.
const REFUSALS: [&str; 11] = [
    " 401",
    " 403",
    "(401)",
    "(403)",
    "AccessDenied",
    "Forbidden",
    "InvalidAccessKeyId",
    "InvalidToken",
    "SignatureDoesNotMatch",
    "Unauthorized",
    "unauthorized",
];

/// Takes profiles away from a system: they are in the home of its user, which no build
/// sees. Returns what its user should know.
pub(super) fn without_profiles(system: &mut Mirrors) -> Vec<String> {
    let cache = system.build_cache.iter_mut();
    let cache = cache.map(|one| (one.name.as_str(), [&mut one.fetch, &mut one.push]));
    let sources = system.source_mirrors.iter_mut();
    let sources = sources.map(|one| (one.name.as_str(), [&mut one.fetch, &mut one.push]));
    let mut warnings = BTreeSet::new();
    for (name, both) in cache.chain(sources) {
        for connection in both.into_iter().flatten() {
            if let Some(profile) = connection.profile.take() {
                warnings.insert(format!(
                    "the profile `{}` of the mirror `{name}` is in your home, which builds do \
                     not see: name `access_pair: {{id_variable: …, secret_variable: …}}` and \
                     `endpoint_url` instead",
                    cabane_label::escape(&profile)
                ));
            }
        }
    }
    warnings.into_iter().collect()
}

/// The mirrors, and what they need.
#[derive(Debug)]
pub(super) struct Guarded {
    /// Those whose variables are set.
    mirrors: Mirrors,
    values: BTreeMap<String, String>,
    /// The Python for commands that get these mirrors.
    pub(super) python: Solver,
    /// What its user should know.
    pub(super) warnings: Vec<String>,
}

impl Guarded {
    /// Finds the guarded mirrors of a system; `push_to` is the one that packages go to.
    pub(super) fn of(
        system: &Mirrors,
        push_to: Option<&str>,
        value: &dyn Fn(&str) -> Option<String>,
        solver: &Solver,
    ) -> Self {
        let mut mirrors = Mirrors::default();
        let mut warnings = Vec::new();
        let mut keep = |name: &str, connection: &mut Option<Connection>, what: &str| {
            let named = connection.iter().flat_map(variables);
            let unset: BTreeSet<String> = named
                .filter(|variable| value(variable).is_none())
                .map(|variable| format!("`{variable}`"))
                .collect();
            if !unset.is_empty() {
                let unset: Vec<_> = unset.into_iter().collect();
                let verb = if unset.len() == 1 { "is" } else { "are" };
                let unset = unset.join(", ");
                warnings
                    .push(format!("nothing {what} the mirror `{name}`: {unset} {verb} not set"));
                *connection = None;
            }
        };
        if let Some(mut cache) = system.build_cache.clone() {
            let guarded = [&cache.fetch, &cache.push].map(|one| is_guarded(one.as_ref()));
            if guarded[0] {
                keep(&cache.name, &mut cache.fetch, "comes from");
            }
            if guarded[1] && push_to.is_some() {
                keep(&cache.name, &mut cache.push, "is put into");
            }
            if guarded.contains(&true) {
                mirrors.build_cache = Some(cache);
            }
        }
        for mut one in system.source_mirrors.iter().cloned() {
            if is_guarded(one.fetch.as_ref()) {
                keep(&one.name, &mut one.fetch, "comes from");
                one.push.clone_from(&one.fetch);
                mirrors.source_mirrors.push(one);
            }
        }
        mirrors.source_mirrors.retain(|one| one.fetch.is_some());
        // Spack knows no mirror that can only be written.
        mirrors.build_cache = mirrors.build_cache.filter(|one| one.fetch.is_some());
        let named = connections(&mirrors).flat_map(variables);
        let named: BTreeSet<String> = named.map(str::to_owned).collect();
        let values = named.into_iter();
        let values = values.filter_map(|name| value(&name).map(|value| (name, value)));
        Self {
            values: values.collect(),
            python: if cabane_spack::has_s3(system) { solver.with_s3() } else { solver.clone() },
            warnings,
            mirrors,
        }
    }

    /// Whether something comes from one of them: packages, or sources.
    fn has(&self, what: impl Fn(&MirrorFlags) -> bool) -> bool {
        let cache = self.mirrors.build_cache.iter().map(|one| (&one.flags, &one.fetch));
        let others = self.mirrors.source_mirrors.iter().map(|one| (&one.flags, &one.fetch));
        cache.chain(others).any(|(flags, fetch)| what(flags) && is_guarded(fetch.as_ref()))
    }

    /// Whether packages come from one of them.
    pub(super) fn has_packages(&self) -> bool {
        self.has(|flags| flags.binary)
    }

    /// Lets a command reach the mirrors.
    pub(super) fn admit(&self, sandbox: &mut Sandbox) {
        for (variable, value) in &self.values {
            sandbox.set(variable, value);
        }
        sandbox.set("SPACK_PYTHON", &self.python.program);
        // What a machine in a cloud may do is not what its user may.
        sandbox.set("AWS_EC2_METADATA_DISABLED", "true");
        sandbox.keep(&self.python.prefix);
    }

    /// Writes what describes them: those that can be used now.
    pub(super) fn write(&self, engine: &SpackEngine, recipe: &StackRecipe) -> Result<()> {
        let directory = inputs::directory(&engine.layout).join("config");
        let path = directory.join(cabane_spack::GUARDED).join("mirrors.yaml");
        if !path.exists() {
            return Ok(());
        }
        let text = cabane_spack::guarded_file(recipe, &self.mirrors);
        let text = text.unwrap_or_else(|| "mirrors: {}\n".to_owned());
        disk::put(&path, text)
    }

    /// Says which secrets were refused, without telling any of them: of the mirror that
    /// packages are put into, or of those that are read.
    pub(super) fn warn(&self, refusals: &[String], is_put: bool, progress: &mut dyn Progress) {
        let cache = self.mirrors.build_cache.iter();
        let cache = cache.map(|one| (&one.name, if is_put { &one.push } else { &one.fetch }));
        let sources = self.mirrors.source_mirrors.iter().filter(|_| !is_put);
        let sources = sources.map(|one| (&one.name, &one.fetch));
        let all = cache.chain(sources).filter_map(|(name, connection)| {
            let connection = connection.as_ref()?;
            let named: BTreeSet<String> =
                variables(connection).map(|one| format!("`{one}`")).collect();
            let host = host(&connection.url);
            let is_meant = refusals.iter().any(|line| line.contains(host));
            (!named.is_empty()).then_some((name, named, is_meant))
        });
        let all: Vec<_> = all.collect();
        // S3 does not say who it is.
        let is_known = all.iter().any(|(_, _, is_meant)| *is_meant);
        for (name, named, is_meant) in &all {
            if *is_meant || !is_known {
                let named: Vec<_> = named.iter().map(String::as_str).collect();
                let named = named.join(", ");
                progress
                    .warning(&format!("the mirror `{name}` may have refused what is in {named}"));
            }
        }
    }
}

/// The machine in an address.
fn host(url: &str) -> &str {
    let (_, rest) = url.split_once("://").unwrap_or(("", url));
    rest.split('/').next().unwrap_or(rest)
}

fn connections(mirrors: &Mirrors) -> impl Iterator<Item = &Connection> {
    let cache = mirrors.build_cache.iter();
    let cache = cache.flat_map(|one| [&one.fetch, &one.push]);
    let sources = mirrors.source_mirrors.iter().map(|one| &one.fetch);
    cache.chain(sources).flatten()
}

/// The command that puts packages into a mirror, or speaks about one.
pub(super) fn spack_for_push(engine: &SpackEngine) -> Invocation {
    if pushes(engine) { session::guarded() } else { session::spack() }
}

/// Whether packages go to a guarded mirror.
pub(super) fn pushes(engine: &SpackEngine) -> bool {
    let cache = engine.system.mirrors.build_cache.as_ref();
    engine.stack().push_to.is_some() && cache.is_some_and(|one| is_guarded(one.push.as_ref()))
}

/// The mirror that packages go to, if they can be put there.
pub(super) fn push_mirror(engine: &SpackEngine) -> Option<&str> {
    let usable = engine.guarded.mirrors.build_cache.as_ref();
    let can_push = !pushes(engine) || usable.is_some_and(|one| one.push.is_some());
    engine.stack().push_to.as_deref().filter(|_| can_push)
}

/// Whether packages come from the build cache with a secret, and not without.
pub(super) fn is_cache_guarded(engine: &SpackEngine) -> bool {
    let cache = engine.system.mirrors.build_cache.as_ref();
    cache.is_some_and(|one| is_guarded(one.fetch.as_ref()))
}

/// The commands that fetch from guarded mirrors, as far as there are any: packages, and
/// sources of the others.
pub(super) fn invocations(engine: &SpackEngine, environment: &str) -> Vec<Invocation> {
    let guarded = &engine.guarded;
    let mut commands = Vec::new();
    if guarded.has(|flags| flags.binary || flags.source) {
        commands.push(take(engine, environment));
    }
    if guarded.has(|flags| flags.source) {
        commands.push(fetch(environment));
    }
    commands
}

fn take(engine: &SpackEngine, environment: &str) -> Invocation {
    let mut take =
        session::entering(session::guarded(), environment).with(["install", "--cache-only"]);
    if session::includes_build_dependencies(engine) {
        take = take.with(["--include-build-deps"]);
    }
    take.speed = vec!["--jobs".into(), engine.request.jobs.to_string().into()];
    take
}

fn fetch(environment: &str) -> Invocation {
    session::entering(session::guarded(), environment).with(["fetch", "--missing"])
}

/// Runs a command that puts something into a guarded mirror.
pub(super) fn put(
    engine: &SpackEngine,
    sandbox: &Sandbox,
    command: &Invocation,
    bench: &mut BuildContext<'_>,
) -> Result<()> {
    let mut ear = Ear { watch: None, refusals: Vec::new() };
    let ended = bench.run_heard(sandbox, command, &mut ear);
    if ended.is_err() && !ear.refusals.is_empty() {
        engine.guarded.warn(&ear.refusals, true, bench.progress);
    }
    ended
}

/// Notices refusals, and hears no failures: what is not there is built afterwards.
pub(super) struct Ear<'a, 'w> {
    pub(super) watch: Option<&'a mut Watch<'w>>,
    /// Lines that say so.
    pub(super) refusals: Vec<String>,
}

impl Listener for Ear<'_, '_> {
    fn line(&mut self, line: &str, progress: &mut dyn Progress) -> bool {
        let parsed = installer_output::parse(line);
        let what = parsed.as_ref().map(|line| &line.what);
        let is_failure = matches!(what, Some(What::Failed { .. } | What::NotMoved));
        if parsed.is_none() && REFUSALS.iter().any(|text| line.contains(text)) {
            self.refusals.push(line.to_owned());
        }
        match (&mut self.watch, parsed) {
            (Some(watch), Some(parsed)) if is_failure => watch.take_miss(&parsed, progress),
            (Some(watch), _) if !is_failure => return watch.line(line, progress),
            _ => {}
        }
        is_failure
    }
}
