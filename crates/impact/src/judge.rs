// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a change does to one need.

use std::path::Path;

use cabane_compat::{GlibcVersion, is_known_feature};
use cabane_view::{NeedLine, is_of_c_library};

use crate::facts::Host;
use crate::numbers::{minor, numbers, oldest_nvidia_driver};
use crate::{Change, HostFacts, Reason, Verdict};

/// What a change does to a need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// It leads to a verdict by itself.
    Reason(Reason),
    /// The host does not have a library, unless it is in a directory that the facts do not cover.
    Missing(Vec<String>),
    /// The image looks for libraries in a directory that the facts do not cover.
    Uncovered(String),
}

/// What the lines of an image say, whatever changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "one for each kind of line")]
pub(crate) struct Seen {
    pub(crate) scanned: bool,
    pub(crate) glibc: bool,
    pub(crate) interpreter: bool,
    pub(crate) root: bool,
    pub(crate) base: bool,
    /// Whether a line names the version of NVIDIA's software.
    pub(crate) cuda: bool,
}

impl Seen {
    /// Adds what a line says.
    pub(crate) fn add(&mut self, line: &NeedLine<'_>) {
        match line {
            NeedLine::Scanned { .. } => self.scanned = true,
            NeedLine::Glibc(_) => self.glibc = true,
            NeedLine::Root { .. } => self.root = true,
            NeedLine::Base { .. } => self.base = true,
            NeedLine::Interpreter { .. } => self.interpreter = true,
            NeedLine::Gpu { vendor: "nvidia", toolkit, .. } => self.cuda |= !toolkit.is_empty(),
            _ => {}
        }
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.scanned |= other.scanned;
        self.glibc |= other.glibc;
        self.interpreter |= other.interpreter;
        self.root |= other.root;
        self.base |= other.base;
        self.cuda |= other.cuda;
    }
}

/// Judges needs.
#[derive(Debug)]
pub(crate) struct Judge<'c> {
    change: &'c Change,
    host: Option<Host<'c>>,
    from: Option<Host<'c>>,
}

impl<'c> Judge<'c> {
    pub(crate) fn new(change: &'c Change) -> Self {
        let (host, from) = match change {
            Change::Host { facts, from } => (Some(&**facts), from.as_deref()),
            _ => (None, None),
        };
        Self { change, host: host.map(Host::new), from: from.map(Host::new) }
    }

    /// Returns what the change does to a need.
    pub(crate) fn judge(&self, line: &NeedLine<'_>) -> Option<Finding> {
        match self.change {
            Change::Version { name, version } => of_version(name, version, line),
            Change::Removed { soname } => of_removal(soname, line),
            Change::Host { .. } => {
                let found = of_host(self.host.as_ref()?, line)?;
                let was_so = |from: &Host<'_>| {
                    matches!(&found, Finding::Reason(_) | Finding::Missing(_))
                        && of_host(from, line).is_some()
                };
                (!self.from.as_ref().is_some_and(was_so)).then_some(found)
            }
            Change::Base { name, newest } => of_base(name, newest.as_deref(), line),
            Change::Package { .. } => None,
        }
    }

    /// Returns whether an image says enough to be called unaffected.
    pub(crate) fn is_known(&self, seen: Seen) -> bool {
        // A root image has its own libraries and interpreters. Of all else, its metadata say nothing.
        let is_whole = seen.scanned || seen.root;
        match self.change {
            Change::Version { name, .. } if name == "glibc" => is_whole || seen.glibc,
            Change::Version { name, .. } if name == "python" => is_whole || seen.interpreter,
            Change::Version { name, .. } if name == "nvidia-driver" => seen.scanned || seen.cuda,
            Change::Version { .. } | Change::Removed { .. } => is_whole,
            Change::Host { .. } => seen.scanned,
            Change::Base { .. } => seen.base || !seen.root,
            Change::Package { .. } => true,
        }
    }
}

fn breaks(chain: impl Into<Vec<String>>) -> Option<Finding> {
    Some(Finding::Reason(Reason { verdict: Verdict::Breaks, chain: chain.into() }))
}

fn rebuild(chain: impl Into<Vec<String>>) -> Option<Finding> {
    Some(Finding::Reason(Reason { verdict: Verdict::RebuildAdvised, chain: chain.into() }))
}

fn of_version(name: &str, version: &str, line: &NeedLine<'_>) -> Option<Finding> {
    match (name, line) {
        ("glibc", NeedLine::Glibc(needed)) => {
            is_older(version, needed).then_some(())?;
            breaks([format!("glibc becomes {version}"), glibc_needed(needed)])
        }
        ("python", NeedLine::Interpreter { version: built, path }) => {
            (minor(version) != minor(built)).then_some(())?;
            breaks([format!("Python becomes {version}"), python_needed(built, path)])
        }
        ("nvidia-driver", NeedLine::Gpu { vendor: "nvidia", toolkit, .. }) => {
            driver(version, toolkit, &format!("the NVIDIA driver becomes {version}"))
        }
        (_, NeedLine::External { name: found, version: built, count, dependents, .. })
            if *found == name && *built != version =>
        {
            let change = format!("{name} becomes {version}");
            rebuild([change, external(name, built, *count, dependents)])
        }
        _ => None,
    }
}

fn of_removal(soname: &str, line: &NeedLine<'_>) -> Option<Finding> {
    match line {
        NeedLine::Library { name, count, later, users, .. } if *name == soname => {
            breaks([format!("{soname} is removed"), needed_by(*count, *later, users)])
        }
        _ => None,
    }
}

/// Whether a name means the container image of a line: the whole reference, its end behind a `/`, or a
/// digest.
pub(crate) fn is_base(name: &str, line: &NeedLine<'_>) -> bool {
    let NeedLine::Base { reference, manifest, index } = *line else { return false };
    // A name that was pinned has both.
    let reference = reference.split_once('@').map_or(reference, |(tagged, _)| tagged);
    let before = reference.strip_suffix(name);
    let is_reference = before.is_some_and(|before| before.is_empty() || before.ends_with('/'));
    is_reference || [manifest, index].contains(&name)
}

fn of_base(name: &str, newest: Option<&str>, line: &NeedLine<'_>) -> Option<Finding> {
    let NeedLine::Base { reference, manifest, index } = *line else { return None };
    let is_newest = newest.is_some_and(|newest| [manifest, index].contains(&newest));
    (is_base(name, line) && !is_newest).then_some(())?;
    let digest = if index.is_empty() { manifest } else { index };
    let made_from = format!("it was made from {reference} {digest}");
    rebuild([format!("the base {name} is replaced"), made_from.trim_end().to_owned()])
}

fn of_host(host: &Host<'_>, line: &NeedLine<'_>) -> Option<Finding> {
    let facts = host.facts;
    match *line {
        NeedLine::Architecture(name) => {
            let found = &facts.architecture;
            // Files for a smaller architecture of the same family are tools, mostly.
            let matters = !["i386", "another architecture"].contains(&name);
            (matters && !found.is_empty() && found != name).then_some(())?;
            breaks([format!("the host is {found}"), format!("it has files for {name}")])
        }
        NeedLine::PageSize(most) => {
            let found = facts.page_size.filter(|size| *size > most)?;
            breaks([
                format!("the host has pages of {found} bytes"),
                format!("its files can be loaded with pages of {most} bytes at most"),
            ])
        }
        NeedLine::Glibc(needed) => {
            let found = facts.glibc.as_deref()?;
            is_older(found, needed).then_some(())?;
            breaks([format!("the host has glibc {found}"), glibc_needed(needed)])
        }
        NeedLine::Interpreter { version, path } => interpreter(facts, version, path),
        NeedLine::Processor { targets, features } => processor(facts, targets, features),
        NeedLine::Library { name, versions, count, later, users } => {
            library(host, name, versions, &needed_by(count, later, users))
        }
        NeedLine::SearchPath(path) => {
            let is_covered = facts.searched.iter().any(|one| one == Path::new(path));
            (!is_covered).then(|| Finding::Uncovered(path.to_owned()))
        }
        NeedLine::Gpu { vendor, architectures, toolkit } => {
            gpu(facts, vendor, architectures, toolkit)
        }
        NeedLine::External { name, version, count, dependents, .. } => {
            let found: Vec<&str> = facts
                .packages
                .iter()
                .filter(|one| one.name == name)
                .map(|one| one.version.as_str())
                .collect();
            (!found.is_empty() && !found.contains(&version)).then_some(())?;
            let host = format!("the host has {name} {}", found.join(" and "));
            rebuild([host, external(name, version, count, dependents)])
        }
        NeedLine::Mpi { product, version, srun } => mpi(facts, product, version, srun),
        NeedLine::Scanned { .. } | NeedLine::Root { .. } | NeedLine::Base { .. } => None,
    }
}

fn interpreter(facts: &HostFacts, version: &str, path: &str) -> Option<Finding> {
    if facts.python.is_empty() || facts.python.iter().any(|one| one == Path::new(path)) {
        return None;
    }
    // Only the usual directories are covered.
    let parent = Path::new(path).parent();
    let is_usual = facts.python.iter().any(|one| one.parent() == parent);
    is_usual.then_some(())?;
    breaks([format!("the host has no {path}"), python_needed(version, path)])
}

fn processor(facts: &HostFacts, targets: &str, features: &str) -> Option<Finding> {
    if facts.features.is_empty() {
        return None;
    }
    let is_missing =
        |name: &&str| is_known_feature(name) && !facts.features.iter().any(|one| one == name);
    let missing: Vec<&str> = elements(features).filter(is_missing).collect();
    (!missing.is_empty()).then_some(())?;
    breaks([
        format!("the processor of the host lacks {}", missing.join(", ")),
        format!("its packages were compiled for {}", targets.replace(',', " and ")),
    ])
}

fn library(host: &Host<'_>, name: &str, versions: &str, needed_by: &str) -> Option<Finding> {
    if is_of_c_library(name) {
        // The version of the C library says all about it.
        return None;
    }
    let found = host.libraries(name);
    let needed_by = needed_by.to_owned();
    let lacking = |versions_of_one: &Vec<String>| -> Vec<String> {
        // The loader takes a library without versions for any.
        let has_all = versions_of_one.is_empty();
        let is_lacking =
            |version: &&str| !has_all && !versions_of_one.iter().any(|one| one == version);
        elements(versions).filter(is_lacking).map(str::to_owned).collect()
    };
    let least = found.iter().map(|one| lacking(&one.versions)).min_by_key(Vec::len);
    match least {
        None => Some(Finding::Missing(vec![format!("the host has no {name}"), needed_by])),
        Some(least) if least.is_empty() => None,
        Some(least) => {
            breaks([format!("{name} of the host lacks {}", least.join(", ")), needed_by])
        }
    }
}

fn gpu(facts: &HostFacts, vendor: &str, architectures: &str, toolkit: &str) -> Option<Finding> {
    let gpu = facts.gpu.iter().find(|gpu| gpu.vendor == vendor)?;
    let version = gpu.driver.as_deref().filter(|_| vendor == "nvidia");
    let lacks = version.and_then(|version| {
        driver(version, toolkit, &format!("the host has the NVIDIA driver {version}"))
    });
    if lacks.is_some() {
        return lacks;
    }
    let has = |one: &String| elements(architectures).any(|built| built == one);
    let is_other = !gpu.architectures.is_empty() && !gpu.architectures.iter().any(has);
    (is_other && !architectures.is_empty()).then_some(())?;
    rebuild([
        format!("the host has GPUs of architecture {}", gpu.architectures.join(" and ")),
        format!("its packages were compiled for {}", architectures.replace(',', " and ")),
    ])
}

fn driver(version: &str, toolkit: &str, change: &str) -> Option<Finding> {
    let oldest = oldest_nvidia_driver(toolkit)?;
    (numbers(version) < numbers(oldest)).then_some(())?;
    breaks([change.to_owned(), format!("CUDA {toolkit} needs {oldest} or later")])
}

fn mpi(facts: &HostFacts, product: &str, version: &str, srun: &str) -> Option<Finding> {
    if facts.srun.is_empty() || srun.is_empty() {
        return None;
    }
    let is_there = elements(srun).any(|one| facts.srun.iter().any(|found| found == one));
    (!is_there).then_some(())?;
    let product = if product.is_empty() { "its MPI" } else { product };
    breaks([
        format!("`srun --mpi` of the host has {}", facts.srun.join(", ")),
        format!("{} needs {}", format!("{product} {version}").trim(), srun.replace(',', " or ")),
    ])
}

fn is_older(version: &str, needed: &str) -> bool {
    let read = |text: &str| text.parse::<GlibcVersion>().ok();
    matches!((read(version), read(needed)), (Some(version), Some(needed)) if version < needed)
}

fn glibc_needed(needed: &str) -> String {
    format!("its files need glibc {needed} or later")
}

fn python_needed(version: &str, path: &str) -> String {
    format!("it was built with Python {} at {path}", minor(version))
}

fn external(name: &str, built: &str, count: u64, dependents: &str) -> String {
    match first_of(dependents, count, ["package", "packages"]) {
        users if users.is_empty() => format!("it was built with {name} {built}"),
        users => format!("it was built with {name} {built}, used by {users}"),
    }
}

fn needed_by(count: u64, later: bool, users: &str) -> String {
    let by = if later { "needed only by plugins or modules:" } else { "needed by" };
    match first_of(users, count, ["file", "files"]) {
        users if users.is_empty() => format!("{by} {count} files"),
        users => format!("{by} {users}"),
    }
}

/// Names the first elements of a list, and counts the others.
fn first_of(list: &str, count: u64, [one, many]: [&str; 2]) -> String {
    const NAMED: usize = 2;
    let named: Vec<&str> = elements(list).take(NAMED).collect();
    match count.saturating_sub(named.len() as u64) {
        0 => named.join(" and "),
        1 => format!("{}, and 1 more {one}", named.join(", ")),
        more => format!("{}, and {more} more {many}", named.join(", ")),
    }
}

fn elements(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').filter(|one| !one.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HostGpu, HostLibrary};

    const VERBS: &str = "library\tlibibverbs.so.1\tIBVERBS_1.0,IBVERBS_1.1\t6\t\tlib/a.so,lib/b.so";

    fn facts() -> HostFacts {
        let library = |name: &str, versions: &[&str]| HostLibrary {
            name: name.to_owned(),
            versions: versions.iter().map(ToString::to_string).collect(),
            ..HostLibrary::default()
        };
        HostFacts {
            architecture: "x86_64".to_owned(),
            glibc: Some("2.31".to_owned()),
            page_size: Some(4096),
            features: vec!["avx2".to_owned()],
            python: vec!["/usr/bin/python3.9".into()],
            srun: vec!["pmix".to_owned()],
            gpu: vec![HostGpu {
                vendor: "nvidia".to_owned(),
                driver: Some("470.1".to_owned()),
                architectures: vec!["80".to_owned()],
            }],
            searched: vec!["/usr/lib64".into()],
            libraries: vec![
                library("libibverbs.so.1", &["IBVERBS_1.0"]),
                library("libz.so.1", &["ZLIB_1.2.9"]),
                library("libplain.so.1", &[]),
            ],
            ..HostFacts::default()
        }
    }

    fn judged(change: &Change, line: &str) -> String {
        match Judge::new(change).judge(&NeedLine::read(line).unwrap()) {
            None => "nothing".to_owned(),
            Some(Finding::Reason(reason)) => format!("{}: {reason}", reason.verdict),
            Some(Finding::Missing(chain)) => format!("missing: {}", chain.join(": ")),
            Some(Finding::Uncovered(path)) => format!("uncovered: {path}"),
        }
    }

    fn on_host(line: &str) -> String {
        judged(&Change::Host { facts: Box::new(facts()), from: None }, line)
    }

    #[test]
    fn an_older_c_library_breaks_what_needs_a_newer_one() {
        let change = Change::version("glibc=2.31").unwrap();
        assert_eq!(
            judged(&change, "glibc\t2.34"),
            "breaks: glibc becomes 2.31: its files need glibc 2.34 or later"
        );
        assert_eq!(judged(&change, "glibc\t2.4"), "nothing");
    }

    #[test]
    fn another_minor_version_of_python_breaks_and_another_release_does_not() {
        let line = "interpreter\t3.11.2\t/usr/bin/python3.11";
        assert_eq!(
            judged(&Change::version("python=3.13").unwrap(), line),
            "breaks: Python becomes 3.13: it was built with Python 3.11 at /usr/bin/python3.11"
        );
        assert_eq!(judged(&Change::version("python=3.11.9").unwrap(), line), "nothing");
    }

    #[test]
    fn a_removed_library_breaks_who_needs_it() {
        let change = Change::removed("libibverbs.so.1").unwrap();
        assert_eq!(
            judged(&change, VERBS),
            "breaks: libibverbs.so.1 is removed: needed by lib/a.so, lib/b.so, and 4 more files"
        );
        assert_eq!(judged(&change, "library\tlibibverbs.so.2\t\t1\t\tx"), "nothing");
        assert_eq!(
            judged(&change, "library\tlibibverbs.so.1\t\t1\tlater\tlib/x.so"),
            "breaks: libibverbs.so.1 is removed: needed only by plugins or modules: lib/x.so"
        );
    }

    #[test]
    fn another_version_of_an_external_advises_to_build_again() {
        let change = Change::version("libfabric=2.1").unwrap();
        assert_eq!(
            judged(&change, "external\tlibfabric\t1.22.0\t/opt/x\t3\tmpich@4.1,osu@7"),
            "rebuild advised: libfabric becomes 2.1: it was built with libfabric 1.22.0, used \
             by mpich@4.1, osu@7, and 1 more package"
        );
        assert_eq!(judged(&change, "external\tlibfabric\t2.1\t/opt/x\t1\tmpich@4.1"), "nothing");
    }

    #[test]
    fn an_old_driver_breaks_a_new_toolkit() {
        let line = "gpu\tnvidia\t80\t12.4";
        assert_eq!(
            judged(&Change::version("nvidia-driver=470.1").unwrap(), line),
            "breaks: the NVIDIA driver becomes 470.1: CUDA 12.4 needs 525.60.13 or later"
        );
        assert_eq!(judged(&Change::version("nvidia-driver=550.54").unwrap(), line), "nothing");
        assert!(on_host(line).starts_with("breaks: the host has the NVIDIA driver 470.1"));
        assert!(on_host("gpu\tnvidia\t90\t11.8").starts_with("rebuild advised: the host has GPUs"));
    }

    #[test]
    fn a_host_is_compared_need_by_need() {
        let cases = [
            ("architecture\taarch64", "breaks: the host is x86_64"),
            ("page-size\t1024", "breaks: the host has pages of 4096 bytes"),
            ("page-size\t65536", "nothing"),
            ("glibc\t2.34", "breaks: the host has glibc 2.31"),
            (
                "interpreter\t3.11.2\t/usr/bin/python3.11",
                "breaks: the host has no /usr/bin/python3.11",
            ),
            ("interpreter\t3.11.2\t/opt/python3.11", "nothing"),
            (
                "processor\tx86_64_v4\tavx2,avx512f",
                "breaks: the processor of the host lacks avx512f",
            ),
            (VERBS, "breaks: libibverbs.so.1 of the host lacks IBVERBS_1.1"),
            ("library\tlibz.so.1\tZLIB_1.2.9\t1\t\tx", "nothing"),
            ("library\tlibplain.so.1\tANY_1\t1\t\tx", "nothing"),
            ("library\tlibpsm2.so.2\t\t1\t\tx", "missing: the host has no libpsm2.so.2"),
            ("library\tlibm.so.6\tGLIBC_2.99\t1\t\tx", "nothing"),
            ("search-path\t/opt/x/lib", "uncovered: /opt/x/lib"),
            ("search-path\t/usr/lib64", "nothing"),
            (
                "mpi\tMPICH\t4.1\tpmi2",
                "breaks: `srun --mpi` of the host has pmix: MPICH 4.1 needs pmi2",
            ),
        ];
        for (line, expected) in cases {
            let seen = on_host(line);
            assert!(seen.starts_with(expected), "{line}: {seen}");
        }
    }

    #[test]
    fn a_base_is_known_by_its_name_or_a_digest() {
        let line = "base\tregistry.example.org/library/debian:13\tsha256:ab\tsha256:cd";
        let line = NeedLine::read(line).unwrap();
        for name in
            ["debian:13", "registry.example.org/library/debian:13", "sha256:ab", "sha256:cd"]
        {
            assert!(of_base(name, None, &line).is_some(), "{name}");
            assert!(of_base(name, Some("sha256:ef"), &line).is_some(), "{name}");
            assert!(of_base(name, Some("sha256:cd"), &line).is_none(), "{name}");
        }
        let pinned = "base\tregistry.example.org/library/debian:13@sha256:cd\tsha256:ab\tsha256:cd";
        assert!(of_base("debian:13", None, &NeedLine::read(pinned).unwrap()).is_some());
        for other in ["ian:13", "debian:12", "sha256:c", ""] {
            assert!(of_base(other, None, &line).is_none(), "{other}");
        }
    }

    #[test]
    fn what_was_broken_before_is_not_blamed_on_the_new_host() {
        let with = |from| Change::Host { facts: Box::new(facts()), from };
        let line = "library\tlibmpi.so.40\t\t1\tlater\tx";
        let old = HostFacts { libraries: vec![], ..facts() };
        assert_eq!(judged(&with(Some(Box::new(old.clone()))), line), "nothing");
        // It was missing before, and now a version of it is.
        assert_eq!(judged(&with(Some(Box::new(old))), VERBS), "nothing");
        let has = HostLibrary { name: "libmpi.so.40".to_owned(), ..HostLibrary::default() };
        let old = HostFacts { libraries: vec![has], ..facts() };
        assert!(judged(&with(Some(Box::new(old))), line).starts_with("missing"));
    }
}
