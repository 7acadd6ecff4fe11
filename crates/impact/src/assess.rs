// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! All images of a catalog, or one image and a host.
//!
//! Images share most of their lines. So each line is judged once for each change, and an image takes
//! together what was found for its lines.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use cabane_image_search::{Catalogue, Catalogued};
use cabane_label::Digest;
use cabane_resolve::similar;
use cabane_view::{Answer, Found, Lines, NeedLine, PackageLine, PackageList};
use serde::Serialize;

use crate::judge::{Finding, Judge, Seen, is_base};
use crate::{Change, HostFacts, ImageImpact, Reason, Verdict};

/// For how many images the packages are named that depend on another one: their lists of packages
/// are read for that.
const MOST_LISTS: usize = 100;
/// How many packages are named that depend on another one.
const MOST_DEPENDENTS: usize = 3;

/// What happens to the images of a catalog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Assessment {
    /// The changes, as texts.
    pub changes: Vec<String>,
    /// The images, those that break first.
    pub images: Vec<ImageImpact>,
    /// Names in the changes that no image knows, each with a similar one that an image does.
    pub unused: Vec<(String, Option<String>)>,
}

impl Assessment {
    /// Returns what happens to one image.
    #[must_use]
    pub fn of(&self, digest: &Digest) -> Option<&ImageImpact> {
        self.images.iter().find(|image| image.digest == *digest)
    }

    /// Counts the images with a verdict.
    #[must_use]
    pub fn count(&self, verdict: Verdict) -> usize {
        self.images.iter().filter(|image| image.verdict == verdict).count()
    }
}

/// What was found for each line, for one change.
struct Judged {
    findings: Vec<Option<Finding>>,
}

/// Judges all images of a catalog.
#[must_use]
pub fn assess(catalogue: &Catalogue, changes: &[Change]) -> Assessment {
    let lines = catalogue.needs.lines();
    let judges: Vec<Judge<'_>> = changes.iter().map(Judge::new).collect();
    let (seen, findings) = judge_lines(&lines, &judges);
    let packages: Vec<Option<Found<'_>>> =
        changes.iter().map(|change| look_for(catalogue, change)).collect();
    let unused = changes.iter().filter_map(|change| unused(change, &lines)).collect();
    let mut lists_left = MOST_LISTS;
    let mut images: Vec<ImageImpact> = Vec::with_capacity(catalogue.images.len());
    for image in &catalogue.images {
        let numbers: Option<Vec<usize>> = match catalogue.needs.in_image(&image.digest) {
            Lines::Numbers(numbers) => Some(numbers.collect()),
            Lines::Unknown | Lines::Silent => None,
        };
        let mut reasons = Vec::new();
        for ((judge, judged), found) in judges.iter().zip(&findings).zip(&packages) {
            if let Some(found) = found {
                reasons.extend(of_packages(found, image, &mut lists_left));
                continue;
            }
            let Some(numbers) = &numbers else {
                reasons.push(not_known("it has no metadata that say what it needs"));
                continue;
            };
            let findings = numbers.iter().filter_map(|number| judged.at(*number));
            let mut all = Seen::default();
            for number in numbers {
                all.merge(seen.get(*number).copied().unwrap_or_default());
            }
            reasons.extend(together(findings, judge.is_known(all)));
        }
        images.push(impact(image, reasons));
    }
    images.sort_by_key(|image| Reverse(image.verdict));
    let changes = changes.iter().map(ToString::to_string).collect();
    Assessment { changes, images, unused }
}

/// Takes each line apart once, and returns what it says and what each change does to it. Lines that were
/// taken apart would need more memory than the lines.
fn judge_lines(lines: &[&str], judges: &[Judge<'_>]) -> (Vec<Seen>, Vec<Judged>) {
    let mut seen = Vec::with_capacity(lines.len());
    let empty = || Judged { findings: Vec::with_capacity(lines.len()) };
    let mut all: Vec<Judged> = judges.iter().map(|_| empty()).collect();
    for line in lines {
        let line = NeedLine::read(line);
        seen.push(seen_in(line.as_ref()));
        for (judge, judged) in judges.iter().zip(&mut all) {
            judged.findings.push(line.as_ref().and_then(|line| judge.judge(line)));
        }
    }
    (seen, all)
}

/// Returns the name in a change if no image knows it, and a similar one: a typing error would otherwise
/// leave every image unaffected.
fn unused(change: &Change, lines: &[&str]) -> Option<(String, Option<String>)> {
    let (name, of_host): (&str, &[&str]) = match change {
        Change::Version { name, .. } => (name, &Change::SOFTWARE),
        Change::Removed { soname } => (soname, &[]),
        Change::Base { name, .. } => (name, &[]),
        Change::Host { .. } | Change::Package { .. } => return None,
    };
    let in_images = || {
        lines.iter().filter_map(|line| match (change, NeedLine::read(line)?) {
            (Change::Removed { .. }, NeedLine::Library { name, .. })
            | (Change::Version { .. }, NeedLine::External { name, .. }) => Some(name),
            // What is meant by a name is found as such.
            (Change::Base { .. }, base @ NeedLine::Base { reference, .. }) => {
                Some(if is_base(name, &base) { name } else { reference })
            }
            _ => None,
        })
    };
    // Most names are found at once.
    if of_host.contains(&name) || in_images().any(|one| one == name) {
        return None;
    }
    let known: BTreeSet<&str> = of_host.iter().copied().chain(in_images()).collect();
    let longer = known.iter().find(|one| one.starts_with(name)).copied();
    let meant = longer.or_else(|| similar(name, known.into_iter()));
    Some((name.to_owned(), meant.map(str::to_owned)))
}

/// Judges one image for one host, from the lines of its needs.
#[must_use]
pub fn on_host(lines: &str, facts: &HostFacts) -> (Verdict, Vec<Reason>) {
    let change = Change::Host { facts: Box::new(facts.clone()), from: None };
    let judge = Judge::new(&change);
    let read: Vec<Option<NeedLine<'_>>> = lines.lines().map(NeedLine::read).collect();
    let mut seen = Seen::default();
    for line in &read {
        seen.merge(seen_in(line.as_ref()));
    }
    let judged = Judged::of(&judge, &read);
    let reasons = together(judged.findings.iter().flatten(), judge.is_known(seen));
    worst_first(reasons)
}

fn seen_in(line: Option<&NeedLine<'_>>) -> Seen {
    let mut seen = Seen::default();
    if let Some(line) = line {
        seen.add(line);
    }
    seen
}

impl Judged {
    fn of(judge: &Judge<'_>, lines: &[Option<NeedLine<'_>>]) -> Self {
        let judge = |line: &Option<NeedLine<'_>>| judge.judge(line.as_ref()?);
        Self { findings: lines.iter().map(judge).collect() }
    }

    fn at(&self, number: usize) -> Option<&Finding> {
        self.findings.get(number)?.as_ref()
    }
}

/// Makes reasons of what was found for the lines of one image.
fn together<'f>(findings: impl Iterator<Item = &'f Finding>, is_known: bool) -> Vec<Reason> {
    let (mut reasons, mut missing, mut uncovered) = (Vec::new(), Vec::new(), None);
    for finding in findings {
        match finding {
            Finding::Reason(reason) => reasons.push(reason.clone()),
            Finding::Missing(chain) => missing.push(chain),
            Finding::Uncovered(path) => uncovered = uncovered.or(Some(path)),
        }
    }
    reasons.extend(missing.into_iter().map(|chain| match uncovered {
        None => Reason { verdict: Verdict::Breaks, chain: chain.clone() },
        Some(path) => {
            let remark = format!("it may be in {path}, which the facts do not cover");
            let chain = chain.iter().cloned().chain([remark]).collect();
            Reason { verdict: Verdict::Unknown, chain }
        }
    }));
    if reasons.is_empty() && !is_known {
        reasons.push(not_known("its metadata do not say which libraries it needs"));
    }
    reasons
}

fn not_known(why: &str) -> Reason {
    Reason { verdict: Verdict::Unknown, chain: vec![why.to_owned()] }
}

fn worst_first(mut reasons: Vec<Reason>) -> (Verdict, Vec<Reason>) {
    reasons.sort_by(|one, other| {
        other.verdict.cmp(&one.verdict).then_with(|| one.chain.cmp(&other.chain))
    });
    let verdict = reasons.first().map_or(Verdict::Unaffected, |reason| reason.verdict);
    (verdict, reasons)
}

fn impact(image: &Catalogued, reasons: Vec<Reason>) -> ImageImpact {
    let (verdict, reasons) = worst_first(reasons);
    ImageImpact {
        label: image.label.clone(),
        digest: image.digest.clone(),
        source: image.source.clone(),
        verdict,
        reasons,
    }
}

fn look_for<'c>(catalogue: &'c Catalogue, change: &Change) -> Option<Found<'c>> {
    let Change::Package { pattern } = change else {
        return None;
    };
    let packages = catalogue.packages.as_ref()?;
    Some(packages.look_for(std::slice::from_ref(pattern)))
}

/// Says which of the packages that must not be used are in an image.
fn of_packages(found: &Found<'_>, image: &Catalogued, lists_left: &mut usize) -> Vec<Reason> {
    let lines = match found.in_image(&image.digest) {
        Answer::Lacks => return Vec::new(),
        Answer::Unknown | Answer::Silent => {
            return vec![not_known("it does not say which packages it has")];
        }
        Answer::Has(lines) => lines,
    };
    // What belongs to the host is replaced there.
    let inside: Vec<PackageLine<'_>> = lines.into_iter().filter(|line| !line.external).collect();
    let list = image.meta.as_deref().filter(|_| !inside.is_empty() && *lists_left > 0);
    let list = list.and_then(|meta| {
        *lists_left -= 1;
        read_list(meta)
    });
    let reason = |line: &PackageLine<'_>| {
        let mut chain = vec![format!("{} is in the image", line.title())];
        chain.extend(list.as_ref().and_then(|list| dependents(list, line.hash)));
        Reason { verdict: Verdict::RebuildAdvised, chain }
    };
    inside.iter().map(reason).collect()
}

fn read_list(meta: &Path) -> Option<PackageList> {
    PackageList::from_json(&fs::read(meta.join(PackageList::FILE)).ok()?).ok()
}

/// Names the packages that depend on another one.
fn dependents(list: &PackageList, hash: &str) -> Option<String> {
    let depends = |on: &Vec<String>| !hash.is_empty() && on.iter().any(|one| one == hash);
    let all = list.packages.iter().filter(|one| depends(&one.dependencies));
    let mut all: Vec<String> = all.map(|one| format!("{}@{}", one.name, one.version)).collect();
    all.sort();
    all.dedup();
    let more = all.len().saturating_sub(MOST_DEPENDENTS);
    all.truncate(MOST_DEPENDENTS);
    match (all.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(format!("{} use it", all.join(", "))),
        (false, more) => Some(format!("{}, and {more} more use it", all.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use cabane_view::NeedIndex;

    use super::*;

    fn digest(number: usize) -> Digest {
        format!("{number:064x}").parse().unwrap()
    }

    fn catalogue(images: &[Option<&str>]) -> Catalogue {
        let mut needs = NeedIndex::default();
        needs.add(images.iter().enumerate().map(|(number, lines)| (digest(number), *lines)));
        let images = (0..images.len()).map(|number| Catalogued {
            label: format!("image-{number}"),
            name: format!("image/{number}:v1@here%x86_64").parse().unwrap(),
            digest: digest(number),
            source: "default".to_owned(),
            meta: None,
        });
        Catalogue { images: images.collect(), needs, packages: None, details: None }
    }

    fn verdicts(images: &[Option<&str>], change: Change) -> Vec<String> {
        let assessment = assess(&catalogue(images), &[change]);
        let of = |number: usize| assessment.of(&digest(number)).unwrap().verdict.to_string();
        (0..images.len()).map(of).collect()
    }

    #[test]
    fn an_image_that_says_nothing_is_unknown_and_never_unaffected() {
        let images = [
            Some("scanned\t3\nlibrary\tlibibverbs.so.1\t\t1\t\tlib/a.so\n"),
            Some("scanned\t3\n"),
            Some("glibc\t2.31\n"),
            None,
        ];
        assert_eq!(
            verdicts(&images, Change::removed("libibverbs.so.1").unwrap()),
            ["breaks", "unaffected", "unknown", "unknown"]
        );
        assert_eq!(
            verdicts(&images, Change::version("glibc=2.28").unwrap()),
            ["unaffected", "unaffected", "breaks", "unknown"]
        );
    }

    #[test]
    fn a_library_that_may_be_where_the_facts_do_not_look_is_unknown() {
        let facts = HostFacts { architecture: "x86_64".to_owned(), ..HostFacts::default() };
        let lines = "scanned\t3\nlibrary\tlibsci.so.6\t\t1\t\tx\n";
        assert_eq!(on_host(lines, &facts).0, Verdict::Breaks);
        let lines = format!("{lines}search-path\t/opt/cray/lib\n");
        let (verdict, reasons) = on_host(&lines, &facts);
        assert_eq!(verdict, Verdict::Unknown);
        assert_eq!(
            reasons[0].to_string(),
            "the host has no libsci.so.6: needed by x: it may be in /opt/cray/lib, which the facts \
             do not cover"
        );
    }

    #[test]
    fn the_worst_reason_decides() {
        let lines = "scanned\t3\nglibc\t2.34\nexternal\tglibc\t2.36\t/usr\t1\ta@1\n";
        let (verdict, reasons) = worst_first(together(
            Judged::of(
                &Judge::new(&Change::version("glibc=2.31").unwrap()),
                &lines.lines().map(NeedLine::read).collect::<Vec<_>>(),
            )
            .findings
            .iter()
            .flatten(),
            true,
        ));
        assert_eq!((verdict, reasons.len()), (Verdict::Breaks, 2));
    }

    #[test]
    fn who_depends_on_a_package_is_named() {
        let text = r#"{"version": 1, "packages": [
            {"name": "zlib", "version": "1.2", "hash": "abc", "manager": "spack"},
            {"name": "hdf5", "version": "1.14", "manager": "spack", "dependencies": ["abc"]}]}"#;
        let list = PackageList::from_json(text.as_bytes()).unwrap();
        assert_eq!(dependents(&list, "abc").as_deref(), Some("hdf5@1.14 use it"));
        assert_eq!(dependents(&list, ""), None);
    }
}
