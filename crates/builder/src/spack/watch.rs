// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Follows an installation package by package: what is worked on, how many are done,
//! how long the rest may take, and which one failed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::durations::Durations;
use super::estimate::{self, Open};
use super::installer_output::{self, InstallerLine, What};
use super::{SpackEngine, lock, package_cache, shared_packages};
use crate::build_context::Listener;
use crate::layout::Layout;
use crate::{
    Failure, Origin, PackageChange, PackageEvent, Progress, Result, cache, disk, package_log,
    process,
};

/// What a package from a cache takes, if nothing is known about it.
const TAKEN: Duration = Duration::from_secs(1);

/// Follows the installation of one or several environments.
#[derive(Debug)]
pub(super) struct Watch<'a> {
    layout: &'a Layout,
    durations: Durations,
    /// Where manifests of packages are that need not be built.
    manifests: Vec<PathBuf>,
    /// Where the build puts the manifests of packages that it builds.
    own_manifests: PathBuf,
    /// The packages of the images on which it is built, which are there.
    of_bases: BTreeSet<String>,
    /// Every package to be installed, by its hash.
    packages: BTreeMap<String, Package>,
    done: BTreeSet<String>,
    running: BTreeMap<String, Running>,
    /// The most that were worked on at once.
    lanes: u32,
    failed: Option<Failed>,
    /// Packages that cannot be taken from a cache, by their hashes, and what was written
    /// about that.
    unusable: BTreeMap<String, Option<PathBuf>>,
    /// Whether something failed for another reason.
    is_broken: bool,
}

#[derive(Debug)]
struct Package {
    name: String,
    version: String,
    needs: Vec<String>,
    expected: Option<Duration>,
}

#[derive(Debug)]
struct Running {
    since: Instant,
    origin: Origin,
}

#[derive(Debug)]
struct Failed {
    hash: String,
    log: Option<PathBuf>,
}

impl<'a> Watch<'a> {
    pub(super) fn new(engine: &'a SpackEngine) -> Self {
        let cache = &engine.request.cache_dir;
        let installed = installed(&engine.store_here.join(".spack-db/index.json"));
        Self {
            layout: &engine.layout,
            durations: Durations::read(cache),
            manifests: package_cache::manifests(
                cache,
                shared_packages::manifests(engine),
                &engine.store,
            ),
            own_manifests: package_cache::own_manifests(cache, &engine.store),
            of_bases: engine.bases.hashes(),
            packages: BTreeMap::new(),
            done: installed.into_iter().collect(),
            running: BTreeMap::new(),
            lanes: 1,
            failed: None,
            unusable: BTreeMap::new(),
            is_broken: false,
        }
    }

    /// Adds the packages of a lock file.
    pub(super) fn expect(&mut self, lock: &Path) -> Result<()> {
        let all = lock::read(lock)?.into_iter();
        let all = all.filter(|(hash, one)| one.external.is_none() && !self.is_of_base(hash));
        for (hash, one) in all.collect::<Vec<_>>() {
            let mut package = Package {
                name: one.name,
                version: one.version,
                needs: one.dependencies.into_iter().map(|need| need.hash).collect(),
                expected: None,
            };
            let cached = self.cached(&package, &hash);
            let is_cached = cached.is_some();
            if let Some(manifest) = &cached {
                cache::note_use(manifest);
            }
            let origin = if is_cached { Origin::Cache } else { Origin::Built };
            let known = self.durations.of(origin, &package.key(&hash));
            package.expected = known.or_else(|| is_cached.then_some(TAKEN));
            self.packages.insert(hash, package);
        }
        let packages = &self.packages;
        self.done.retain(|hash| packages.contains_key(hash));
        Ok(())
    }

    /// Returns the manifest of a package in the cache, if there is one.
    fn cached(&self, package: &Package, hash: &str) -> Option<PathBuf> {
        let mut all = self.manifests.iter().map(|all| all.join(package.manifest(hash)));
        all.find(|manifest| manifest.exists())
    }

    /// Whether a package is in an image on which this one is built.
    pub(super) fn is_of_base(&self, hash: &str) -> bool {
        self.of_bases.contains(hash)
    }

    /// Whether a package is installed, or in the local cache.
    pub(super) fn has(&self, hash: &str) -> bool {
        let package = self.packages.get(hash);
        self.is_of_base(hash)
            || self.done.contains(hash)
            || package.is_some_and(|package| self.cached(package, hash).is_some())
    }

    /// Finds the package that a line is about.
    fn find(&self, line: &InstallerLine<'_>) -> Option<String> {
        if !line.hash.is_empty() {
            let (hash, _) = self
                .packages
                .range(line.hash.to_owned()..)
                .next()
                .filter(|(hash, _)| hash.starts_with(line.hash))?;
            return Some(hash.clone());
        }
        // Two of the same name are distinguished by what is worked on.
        let named = |hash: &&String| {
            let package = self.packages.get(*hash);
            package.is_some_and(|package| package.name == line.name)
        };
        let running = self.running.keys().find(named);
        running.or_else(|| self.packages.keys().find(named)).cloned()
    }

    fn take(&mut self, hash: &str, what: &What<'_>, progress: &mut dyn Progress) {
        match what {
            // The older installer says it again when the package is there.
            What::Phase(_) if self.done.contains(hash) => {}
            What::Phase(phase) => {
                let phase = *phase;
                let begins = phase == installer_output::STAGING;
                let running = self
                    .running
                    .entry(hash.to_owned())
                    .or_insert(Running { since: Instant::now(), origin: Origin::Built });
                if begins {
                    // It was looked for in caches before.
                    running.since = Instant::now();
                    running.origin = Origin::Built;
                } else if phase == installer_output::RELOCATING {
                    running.origin = Origin::Cache;
                }
                let count = u32::try_from(self.running.len()).unwrap_or(u32::MAX);
                self.lanes = self.lanes.max(count);
                self.tell(hash, PackageChange::Phase(phase), None, progress);
            }
            What::Installed => {
                if !self.done.insert(hash.to_owned()) {
                    return;
                }
                let running = self.running.remove(hash);
                let origin = running.as_ref().map_or(Origin::Cache, |one| one.origin);
                let took = running.map_or(Duration::ZERO, |one| one.since.elapsed());
                if let Some(package) = self.packages.get(hash) {
                    self.durations.remember(origin, &package.key(hash), took);
                }
                self.tell(hash, PackageChange::Done { origin, took }, None, progress);
            }
            What::Failed { log } => self.fail(hash, *log, progress),
            What::NotMoved => {
                self.running.remove(hash);
                self.unusable.insert(hash.to_owned(), None);
            }
            What::External => {}
        }
    }

    /// Only the first counts: others may have been stopped because of it. A package that
    /// was there in a cache and could not be used can still be built.
    fn fail(&mut self, hash: &str, log: Option<&str>, progress: &mut dyn Progress) {
        let running = self.running.remove(hash);
        if !self.packages.contains_key(hash) {
            return;
        }
        let log = log.map(PathBuf::from);
        if running.is_some_and(|one| one.origin == Origin::Cache) {
            self.unusable.insert(hash.to_owned(), log);
            return;
        }
        if let Some(known) = self.unusable.get_mut(hash) {
            *known = known.take().or(log);
            return;
        }
        self.is_broken = true;
        match &mut self.failed {
            Some(failed) if failed.hash == hash => failed.log = failed.log.take().or(log),
            Some(_) => {}
            none => {
                *none = Some(Failed { hash: hash.to_owned(), log });
                self.tell(hash, PackageChange::Failed, None, progress);
            }
        }
    }

    fn tell(
        &self,
        hash: &str,
        change: PackageChange<'_>,
        node: Option<&str>,
        progress: &mut dyn Progress,
    ) {
        let Some(package) = self.packages.get(hash) else {
            return;
        };
        progress.package(&PackageEvent {
            name: &package.name,
            version: &package.version,
            hash,
            node,
            change,
            last_time: package.expected,
            done: self.done.len(),
            total: self.packages.len(),
            left: self.left(),
        });
    }

    fn left(&self) -> Option<Duration> {
        let open = self.packages.iter().filter(|(hash, _)| !self.done.contains(*hash));
        let open = open.map(|(hash, one)| {
            let running = self.running.get(hash);
            let open = Open {
                expected: one.expected,
                gone: running.map_or(Duration::ZERO, |one| one.since.elapsed()),
                needs: &one.needs,
            };
            (hash.as_str(), open)
        });
        estimate::left(&open.collect(), self.lanes)
    }
}

/// What workers do.
impl Watch<'_> {
    /// Notes what a worker reports about a package.
    pub(super) fn note(
        &mut self,
        hash: &str,
        change: PackageChange<'_>,
        node: &str,
        progress: &mut dyn Progress,
    ) {
        if let PackageChange::Phase(_) = change {
            let new = Running { since: Instant::now(), origin: Origin::Built };
            self.running.entry(hash.to_owned()).or_insert(new);
            let count = u32::try_from(self.running.len()).unwrap_or(u32::MAX);
            self.lanes = self.lanes.max(count);
        } else {
            self.running.remove(hash);
        }
        if let PackageChange::Done { .. } = change {
            self.done.insert(hash.to_owned());
        }
        self.tell(hash, change, Some(node), progress);
    }

    /// Forgets that a worker builds a package, and removes what it may have put into the cache of this mount
    /// point: it may be half of it. Returns the name and the version of the package.
    pub(super) fn forget(&mut self, hash: &str) -> String {
        self.running.remove(hash);
        let Some(package) = self.packages.get(hash) else { return hash.to_owned() };
        // Workers write nowhere else: what other caches have is whole, and may belong to others.
        let _ = disk::remove(&self.own_manifests.join(package.manifest(hash)));
        format!("{}@{}", package.name, package.version)
    }

    /// How long a package may take; a second if nothing is known.
    pub(super) fn expected(&self, hash: &str) -> Duration {
        self.packages.get(hash).and_then(|one| one.expected).unwrap_or(Duration::from_secs(1))
    }

    /// Waits until packages that other nodes have built are visible in the cache. One that does not appear is
    /// built again.
    pub(super) fn wait_for(&self, hashes: &[String], limit: Duration, interrupt: &AtomicBool) {
        let begin = Instant::now();
        let is_missing = |hash: &String| {
            let package = self.packages.get(hash);
            package.is_some_and(|package| self.cached(package, hash).is_none())
        };
        while hashes.iter().any(is_missing)
            && begin.elapsed() < limit
            && !interrupt.load(Ordering::Relaxed)
        {
            thread::sleep(Duration::from_millis(100));
        }
    }
}

/// A package in a cache that cannot be used.
#[derive(Debug)]
pub(super) struct Unusable {
    pub(super) hash: String,
    /// Its name and version.
    pub(super) id: String,
    /// Where Spack wrote why, as seen in the sandbox.
    pub(super) log: Option<PathBuf>,
}

impl Watch<'_> {
    /// Takes a line about a package that failed in a command that builds nothing.
    pub(super) fn take_miss(&mut self, line: &InstallerLine<'_>, progress: &mut dyn Progress) {
        let hash = self.find(line);
        let running = hash.as_ref().and_then(|hash| self.running.get(hash));
        let is_cached = running.is_some_and(|one| one.origin == Origin::Cache);
        if is_cached || line.what == What::NotMoved {
            self.take(&hash.unwrap_or_default(), &line.what, progress);
        }
    }

    /// Returns the packages that were found in a cache since the last call and could not
    /// be used; none if something else failed, too.
    pub(super) fn take_unusable(&mut self) -> Vec<Unusable> {
        let found = std::mem::take(&mut self.unusable);
        // What the older installer wrote before it failed may have been read after that.
        self.running.retain(|hash, _| !found.contains_key(hash));
        if std::mem::take(&mut self.is_broken) {
            return Vec::new();
        }
        let found = found.into_iter().filter_map(|(hash, log)| {
            let Package { name, version, .. } = self.packages.get(&hash)?;
            Some(Unusable { id: format!("{name}@{version}"), hash, log })
        });
        found.collect()
    }
}

impl Package {
    /// Returns the path of its manifest, below the manifests of a cache.
    fn manifest(&self, hash: &str) -> PathBuf {
        let Self { name, version, .. } = self;
        Path::new(name).join(format!("{name}-{version}-{hash}.spec.manifest.json"))
    }

    fn key(&self, hash: &str) -> String {
        format!("{} {} {hash}", self.name, self.version)
    }
}

impl Listener for Watch<'_> {
    fn line(&mut self, line: &str, progress: &mut dyn Progress) -> bool {
        let Some(parsed) = installer_output::parse(line) else {
            return false;
        };
        if let Some(hash) = self.find(&parsed) {
            self.take(&hash, &parsed.what, progress);
        }
        true
    }

    fn blame(&mut self, failure: &mut Failure) {
        let Some(Failed { hash, log }) = self.failed.take() else {
            return;
        };
        let Some(Package { name, version, .. }) = self.packages.get(&hash) else {
            return;
        };
        failure.package = Some(format!("{name}@{version}"));
        let Some(log) = log else {
            return;
        };
        let short = hash.get(..7).unwrap_or(&hash);
        let name = format!("{name}-{version}-{short}.log");
        let kept = self.layout.logs().join(name);
        if package_log::keep(self.layout, &log, &kept).is_ok() {
            let tail = process::tail(&kept);
            if !tail.is_empty() {
                failure.tail = tail;
                failure.log = kept;
            }
        }
    }
}

/// Reads which packages are in a store already. What cannot be read is not there.
fn installed(database: &Path) -> Vec<String> {
    let text = disk::read_start(database, 1 << 30).unwrap_or_default();
    let there = cabane_spack::installs(&text).unwrap_or_default();
    there.into_keys().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A watch over `a`, `b`, and `c`.
    fn watch(layout: &Layout) -> Watch<'_> {
        let packages = ["a", "b", "c"].map(|name| {
            let package = Package {
                name: name.to_owned(),
                version: "1".to_owned(),
                needs: Vec::new(),
                expected: None,
            };
            (name.repeat(8), package)
        });
        Watch {
            layout,
            durations: Durations::default(),
            manifests: Vec::new(),
            own_manifests: PathBuf::new(),
            of_bases: BTreeSet::new(),
            packages: packages.into_iter().collect(),
            done: BTreeSet::new(),
            running: BTreeMap::new(),
            lanes: 1,
            failed: None,
            unusable: BTreeMap::new(),
            is_broken: false,
        }
    }

    #[test]
    fn what_a_lost_worker_left_is_removed_from_the_own_cache_only() {
        let layout = Layout::new("/nowhere".into());
        let cache = tempfile::tempdir().unwrap();
        let [shared, own] = ["shared", "own"].map(|name| cache.path().join(name));
        let mut watch = watch(&layout);
        watch.manifests = vec![shared.clone(), own.clone()];
        watch.own_manifests.clone_from(&own);
        let files = [&shared, &own].map(|all| all.join("b/b-1-bbbbbbbb.spec.manifest.json"));
        for file in &files {
            disk::put(file, "{}").unwrap();
        }
        assert_eq!(watch.forget("bbbbbbbb"), "b@1");
        assert_eq!(files.map(|file| file.exists()), [true, false]);
    }

    /// Notes what is reported.
    #[derive(Default)]
    struct Notes(Vec<String>);

    impl Progress for Notes {
        fn package(&mut self, event: &PackageEvent<'_>) {
            let change = match event.change {
                PackageChange::Ready => "ready".to_owned(),
                PackageChange::Phase(phase) => phase.to_owned(),
                PackageChange::Done { origin, .. } => format!("{origin:?}"),
                PackageChange::Failed => "failed".to_owned(),
            };
            let PackageEvent { name, done, total, .. } = event;
            self.0.push(format!("{name} {change} {done}/{total}"));
        }
    }

    fn shown(lines: &[&str]) -> Vec<String> {
        let layout = Layout::new("/nowhere".into());
        let mut watch = watch(&layout);
        let mut notes = Notes::default();
        for line in lines {
            watch.line(line, &mut notes);
        }
        notes.0
    }

    #[test]
    fn packages_are_followed_until_they_are_there() {
        let lines = [
            "[ ] bbbbbbb b@1 fetching from build cache (0s)",
            "[ ] ccccccc c@1 fetching from build cache (0s)",
            "[ ] ccccccc c@1 relocating (0s)",
            "[+] ccccccc c@1 /store/c (0s)",
            "[ ] bbbbbbb b@1 staging (0s)",
            "[e] zzzzzzz glibc@2.36 /usr (0s)",
            "[+] bbbbbbb b@1 /store/b (9s)",
        ];
        assert_eq!(
            shown(&lines),
            [
                "b fetching from build cache 0/3",
                "c fetching from build cache 0/3",
                "c relocating 0/3",
                "c Cache 1/3",
                "b staging 1/3",
                "b Built 2/3",
            ]
        );
    }

    #[test]
    fn a_package_is_counted_once() {
        let line = "[+] ccccccc c@1 /store/c (0s)";
        let late = "[ ] ccccccc c@1 fetching from build cache (0s)";
        assert_eq!(shown(&[line, line, late]), ["c Cache 1/3"]);
    }

    #[test]
    fn what_a_cache_has_and_cannot_be_moved_is_no_failure() {
        let layout = Layout::new("/nowhere".into());
        let mut watch = watch(&layout);
        for line in [
            "[ ] bbbbbbb b@1 relocating (0s)",
            "[x] bbbbbbb b@1 failed: /tmp/b.log (1s)",
            "[ ] ccccccc c@1 staging (0s)",
        ] {
            watch.line(line, &mut ());
        }
        let found = watch.take_unusable();
        let found: Vec<_> = found.iter().map(|one| (one.id.as_str(), one.log.as_deref())).collect();
        assert_eq!(found, [("b@1", Some(Path::new("/tmp/b.log")))]);
        assert!(watch.take_unusable().is_empty());
    }

    #[test]
    fn what_fails_while_it_is_built_is_a_failure() {
        let layout = Layout::new("/nowhere".into());
        let mut watch = watch(&layout);
        for line in [
            "[ ] bbbbbbb b@1 relocating (0s)",
            "[x] bbbbbbb b@1 failed (1s)",
            "[ ] ccccccc c@1 relocating (0s)",
            "[ ] ccccccc c@1 staging (0s)",
            "[x] ccccccc c@1 failed (1s)",
        ] {
            watch.line(line, &mut ());
        }
        assert!(watch.take_unusable().is_empty());
        assert!(watch.failed.is_some());
    }

    #[test]
    fn the_first_that_fails_is_blamed() {
        let layout = Layout::new("/nowhere".into());
        let mut watch = watch(&layout);
        for line in ["[x] bbbbbbb b@1 failed (1s)", "[x] ccccccc c@1 failed (1s)"] {
            watch.line(line, &mut ());
        }
        assert_eq!(watch.failed.map(|one| one.hash), Some("b".repeat(8)));
    }
}
