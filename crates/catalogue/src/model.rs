// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The input, ordered as the pages need it: images by date, packages by name, and which belong together.

use std::collections::{BTreeMap, HashMap};
use std::hash::{Hash, Hasher};

use cabane_channel::{Entry, State as ReleaseState};
use cabane_evidence::Outcome;
use cabane_label::{Digest, Label, Namespace, System};
use cabane_view::{Lines, PackageLine, version_order};
use jiff::civil::Date;
use serde::Serialize;
use sha2::Digest as _;

use crate::file_name::file_name;
use crate::input::{CatalogueImage, CatalogueInput};

/// The sum of a package, or of all packages of an image.
type Sum = [u8; 16];

/// The images and packages of a site.
pub(crate) struct Model<'a> {
    pub(crate) input: &'a CatalogueInput,
    /// The labels, the oldest image first: a new image changes no number of another one.
    pub(crate) rows: Vec<Row<'a>>,
    /// The pages of images: labels of one namespace that have one image share a page.
    pub(crate) pages: Vec<Page>,
    /// By name.
    pub(crate) packages: Vec<Package<'a>>,
    /// By package.
    pub(crate) lines: Vec<Line<'a>>,
    /// The rows by label with namespace.
    by_label: HashMap<String, usize>,
    /// The pages of an image, one in each namespace.
    by_digest: HashMap<&'a Digest, Vec<usize>>,
    /// Pages whose images were built on an image.
    dependents: BTreeMap<&'a Digest, Vec<usize>>,
}

/// An image under a label.
pub(crate) struct Row<'a> {
    pub(crate) image: &'a CatalogueImage,
    /// The number of its page.
    pub(crate) page: usize,
    /// Its packages, as ascending places in [`Model::lines`]; `None` if it does not say.
    pub(crate) lines: Option<Vec<usize>>,
    sum: Sum,
    pub(crate) state: State,
    /// The newest complete result on its system, or elsewhere.
    pub(crate) outcome: Option<Outcome>,
    pub(crate) releases: Vec<Release>,
    pub(crate) revocation: Option<(Date, String)>,
    /// The row of the image before it with the same name for the same system and microarchitecture.
    pub(crate) before: Option<usize>,
}

/// A page about one image.
pub(crate) struct Page {
    /// Its path without the ending: `deploy/0123456789abcdef`.
    pub(crate) name: String,
    pub(crate) rows: Vec<usize>,
}

/// A package, by name.
pub(crate) struct Package<'a> {
    pub(crate) name: &'a str,
    /// The name of its files.
    pub(crate) file: String,
    /// The newest version first.
    pub(crate) specs: Vec<Spec<'a>>,
    /// How many labels have it.
    pub(crate) count: usize,
}

/// One way in which a package was built.
pub(crate) struct Spec<'a> {
    pub(crate) package: PackageLine<'a>,
    /// The rows that have it, ascending.
    pub(crate) rows: Vec<usize>,
}

/// A package in images.
pub(crate) struct Line<'a> {
    pub(crate) package: PackageLine<'a>,
    /// Its place in [`Model::packages`].
    pub(crate) number: usize,
    /// Its place in the specs there.
    spec: usize,
    sum: Sum,
}

/// What is to be expected of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum State {
    Unreleased,
    Released,
    Deprecated,
    Retired,
    Revoked,
}

/// That a channel has an image.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub(crate) struct Release {
    pub(crate) channel: String,
    pub(crate) promoted: Date,
    pub(crate) is_default: bool,
    pub(crate) state: State,
    pub(crate) retirement: Option<Retirement>,
}

/// When and why a channel stops releasing an image.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub(crate) struct Retirement {
    pub(crate) date: Date,
    pub(crate) replacement: Option<String>,
    pub(crate) reason: Option<String>,
}

/// All that a page about an image shows.
#[derive(Hash)]
pub(crate) struct ImageView<'a> {
    pub(crate) rows: Vec<RowView<'a>>,
    pub(crate) lines: Option<LineList<'a>>,
    pub(crate) before: Option<BeforeView<'a>>,
    pub(crate) dependents: Vec<(String, &'a str)>,
    pub(crate) bases: Vec<(String, &'a str)>,
}

/// A label on a page about an image.
#[derive(Hash)]
pub(crate) struct RowView<'a> {
    pub(crate) image: &'a CatalogueImage,
    pub(crate) state: State,
    pub(crate) releases: &'a [Release],
    pub(crate) revocation: Option<&'a (Date, String)>,
}

/// The image before another one.
#[derive(Hash)]
pub(crate) struct BeforeView<'a> {
    pub(crate) label: String,
    pub(crate) page: &'a str,
    pub(crate) lines: Option<LineList<'a>>,
}

/// The packages of an image. Their sum is computed once.
pub(crate) struct LineList<'a> {
    pub(crate) lines: Vec<&'a Line<'a>>,
    sum: Sum,
}

impl Hash for LineList<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.sum.hash(state);
    }
}

impl State {
    pub(crate) const ALL: [Self; 5] =
        [Self::Released, Self::Deprecated, Self::Retired, Self::Revoked, Self::Unreleased];

    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Unreleased => "not released",
            Self::Released => "released",
            Self::Deprecated => "deprecated",
            Self::Retired => "retired",
            Self::Revoked => "revoked",
        }
    }
}

impl<'a> Model<'a> {
    pub(crate) fn new(input: &'a CatalogueInput, texts: &'a [&'a str]) -> Self {
        let mut images: Vec<&CatalogueImage> = input.images.iter().collect();
        images.sort_by_key(|one| (one.date, &one.namespace, &one.label, &one.digest));
        // The index may know images that are not on the site. Nothing of them may be here.
        let mut numbers: Vec<Option<Vec<usize>>> =
            images.iter().map(|image| numbers_of(input, &image.digest)).collect();
        let mut is_used = vec![false; texts.len()];
        for number in numbers.iter().flatten().flatten() {
            if let Some(is_used) = is_used.get_mut(*number) {
                *is_used = true;
            }
        }
        let (lines, places) = sorted_lines(texts, &is_used);
        let (pages, page_of) = pages(&images);
        let channels = Released::of(input);
        let mut before: HashMap<_, usize> = HashMap::new();
        let mut dependents: BTreeMap<&Digest, Vec<usize>> = BTreeMap::new();
        let mut rows: Vec<Row<'a>> = Vec::with_capacity(images.len());
        for (number, image) in images.iter().enumerate() {
            let page = page_of[number];
            let key =
                (&image.namespace, &image.label.name, &image.label.system, &image.label.uarch);
            let earlier = before.insert(key, number);
            let earlier = earlier.filter(|row| images[*row].digest != image.digest);
            let releases = channels.of_image(image);
            let revocation = channels.revoked.get(&image.digest).cloned();
            for base in bases(image) {
                let known = dependents.entry(base).or_default();
                if known.last() != Some(&page) {
                    known.push(page);
                }
            }
            let places = numbers[number].take().map(|numbers| sorted_places(numbers, &places));
            rows.push(Row {
                image,
                page,
                sum: sum_of(places.iter().flatten().map(|place| &lines[*place])),
                lines: places,
                state: state(&releases, revocation.is_some()),
                outcome: outcome(image),
                releases,
                revocation,
                before: earlier,
            });
        }
        let by_label = (0..).zip(&rows).map(|(number, row): (usize, &Row<'_>)| {
            (format!("{}::{}", row.image.namespace, row.image.label), number)
        });
        let by_label = by_label.collect();
        let mut by_digest: HashMap<&Digest, Vec<usize>> = HashMap::new();
        for (number, page) in pages.iter().enumerate() {
            by_digest.entry(&images[page.rows[0]].digest).or_default().push(number);
        }
        let mut model = Self {
            input,
            rows,
            pages,
            packages: Vec::new(),
            lines,
            by_label,
            by_digest,
            dependents,
        };
        model.add_packages();
        model
    }

    /// Collects the packages from the lines, and the rows that have them.
    fn add_packages(&mut self) {
        let mut packages: Vec<Package<'a>> = Vec::new();
        let mut start = 0;
        while let Some(first) = self.lines.get(start) {
            let name = first.package.name;
            let of_name = self.lines[start..].iter().take_while(|line| line.package.name == name);
            let end = start + of_name.count();
            let number = packages.len();
            let mut specs: Vec<Spec<'a>> = Vec::new();
            for line in &mut self.lines[start..end] {
                let is_same =
                    specs.last().is_some_and(|last| spec(&last.package) == spec(&line.package));
                if !is_same {
                    specs.push(Spec { package: line.package, rows: Vec::new() });
                }
                line.number = number;
                line.spec = specs.len() - 1;
            }
            packages.push(Package { name, file: file_name(name), specs, count: 0 });
            start = end;
        }
        for (number, row) in self.rows.iter().enumerate() {
            let mut last = None;
            for line in row.lines.iter().flatten().filter_map(|place| self.lines.get(*place)) {
                let package = &mut packages[line.number];
                if last != Some(line.number) {
                    package.count += 1;
                    last = Some(line.number);
                }
                let rows = &mut package.specs[line.spec].rows;
                if rows.last() != Some(&number) {
                    rows.push(number);
                }
            }
        }
        self.packages = packages;
    }

    /// Returns the label of a row with its namespace.
    pub(crate) fn label(&self, row: usize) -> String {
        let image = self.rows[row].image;
        format!("{}::{}", image.namespace, image.label)
    }

    /// Returns the path of the page of a row, without the ending.
    pub(crate) fn page_name(&self, row: usize) -> &str {
        &self.pages[self.rows[row].page].name
    }

    /// Returns the path of the page of a label with its namespace, if the site has it.
    pub(crate) fn page_of_label(&self, label: &str) -> Option<&str> {
        self.by_label.get(label).map(|row| self.page_name(*row))
    }

    fn lines_of(&self, row: usize) -> Option<LineList<'_>> {
        let row = &self.rows[row];
        let places = row.lines.as_ref()?.iter();
        let lines = places.filter_map(|place| self.lines.get(*place)).collect();
        Some(LineList { lines, sum: row.sum })
    }

    /// Collects what the page of an image shows.
    pub(crate) fn image_view(&self, page: usize) -> ImageView<'_> {
        let rows = &self.pages[page].rows;
        let link = |page: &usize| {
            let page = &self.pages[*page];
            (self.label(page.rows[0]), page.name.as_str())
        };
        let first = rows[0];
        let image = self.rows[first].image;
        let before = self.rows[first].before.map(|row| BeforeView {
            label: self.label(row),
            page: self.page_name(row),
            lines: self.lines_of(row),
        });
        let dependents = self.dependents.get(&image.digest);
        // What the site does not have may be no image, or one of a private namespace.
        let bases = bases(image).flat_map(|base| {
            let of_digest = self.by_digest.get(base);
            of_digest.into_iter().flatten().map(link).collect::<Vec<_>>()
        });
        ImageView {
            rows: rows.iter().map(|row| self.row_view(*row)).collect(),
            lines: self.lines_of(first),
            before,
            dependents: dependents.into_iter().flatten().map(link).collect(),
            bases: bases.collect(),
        }
    }

    fn row_view(&self, row: usize) -> RowView<'_> {
        let Row { image, state, releases, revocation, .. } = &self.rows[row];
        RowView { image, state: *state, releases, revocation: revocation.as_ref() }
    }

    /// Returns the systems for which there are images, each with its rows, the newest first.
    pub(crate) fn systems(&self) -> BTreeMap<&System, Vec<usize>> {
        let mut systems: BTreeMap<&System, Vec<usize>> = BTreeMap::new();
        for (number, row) in self.rows.iter().enumerate().rev() {
            systems.entry(&row.image.label.system).or_default().push(number);
        }
        systems
    }
}

/// Returns what distinguishes the builds of a package.
fn spec<'l>(line: &PackageLine<'l>) -> (&'l str, &'l str, &'l str, bool) {
    (line.version, line.variants, line.compilers, line.external)
}

/// Sorts the lines by name, the newest version first. Returns them, and the place of each.
fn sorted_lines<'a>(texts: &'a [&'a str], is_used: &[bool]) -> (Vec<Line<'a>>, Vec<usize>) {
    let used = texts.iter().enumerate().filter(|(number, _)| is_used[*number]);
    let read = used.filter_map(|(number, text)| Some((number, PackageLine::read(text)?)));
    let mut read: Vec<(usize, PackageLine<'a>)> = read.collect();
    read.sort_by(|(one_number, one), (other_number, other)| {
        one.name
            .cmp(other.name)
            .then_with(|| version_order(other.version, one.version))
            .then_with(|| spec(one).cmp(&spec(other)))
            .then_with(|| texts[*one_number].cmp(texts[*other_number]))
    });
    let mut places = vec![usize::MAX; texts.len()];
    let mut lines = Vec::with_capacity(read.len());
    for (number, package) in read {
        places[number] = lines.len();
        lines.push(Line { package, number: 0, spec: 0, sum: first_half(texts[number].as_bytes()) });
    }
    (lines, places)
}

fn sum_of<'l>(lines: impl Iterator<Item = &'l Line<'l>>) -> Sum {
    let sums: Vec<u8> = lines.flat_map(|line| line.sum).collect();
    first_half(&sums)
}

fn first_half(bytes: &[u8]) -> Sum {
    let mut sum = [0; 16];
    sum.copy_from_slice(&sha2::Sha256::digest(bytes)[..16]);
    sum
}

fn numbers_of(input: &CatalogueInput, image: &Digest) -> Option<Vec<usize>> {
    match input.packages.in_image(image) {
        Lines::Numbers(numbers) => Some(numbers.collect()),
        Lines::Unknown | Lines::Silent => None,
    }
}

fn sorted_places(numbers: Vec<usize>, places: &[usize]) -> Vec<usize> {
    let known = numbers.into_iter().filter_map(|number| places.get(number).copied());
    let mut found: Vec<usize> = known.filter(|place| *place != usize::MAX).collect();
    found.sort_unstable();
    found
}

/// Gives every image of a namespace a page. The name is the ID, or the whole digest where two images
/// have one ID.
fn pages(images: &[&CatalogueImage]) -> (Vec<Page>, Vec<usize>) {
    let mut digests: BTreeMap<(&Namespace, &str), Vec<&Digest>> = BTreeMap::new();
    let id = |digest: &'_ Digest| -> usize { digest.id().as_str().len() };
    for image in images {
        let short = &image.digest.as_str()[..id(&image.digest)];
        let known = digests.entry((&image.namespace, short)).or_default();
        if !known.contains(&&image.digest) {
            known.push(&image.digest);
        }
    }
    let mut pages: Vec<Page> = Vec::new();
    let mut numbers: HashMap<(&Namespace, &Digest), usize> = HashMap::new();
    let mut page_of = Vec::with_capacity(images.len());
    for (row, image) in images.iter().enumerate() {
        let number = *numbers.entry((&image.namespace, &image.digest)).or_insert_with(|| {
            let short = &image.digest.as_str()[..id(&image.digest)];
            let is_alone =
                digests.get(&(&image.namespace, short)).is_some_and(|all| all.len() == 1);
            let id = if is_alone { short } else { image.digest.as_str() };
            let name = format!("{}/{id}", file_name(image.namespace.as_str()));
            pages.push(Page { name, rows: Vec::new() });
            pages.len() - 1
        });
        pages[number].rows.push(row);
        page_of.push(number);
    }
    (pages, page_of)
}

fn bases(image: &CatalogueImage) -> impl Iterator<Item = &Digest> {
    image.evidence.iter().flat_map(|evidence| &evidence.built).flat_map(|built| &built.bases)
}

type EntryKey<'a> = (&'a Namespace, &'a Label, &'a Digest);

/// What the channels say.
struct Released<'a> {
    entries: HashMap<EntryKey<'a>, Vec<(String, &'a Entry)>>,
    revoked: HashMap<Digest, (Date, String)>,
    day: Date,
}

impl<'a> Released<'a> {
    fn of(input: &'a CatalogueInput) -> Self {
        let mut entries: HashMap<_, Vec<_>> = HashMap::new();
        let mut revoked = HashMap::new();
        for document in input.channels.iter().filter_map(|documents| documents.first()) {
            let channel = document.place().to_string();
            for entry in &document.entries {
                let key = (&document.namespace, &entry.label, &entry.digest);
                entries.entry(key).or_default().push((channel.clone(), entry));
            }
            for one in &document.revoked {
                revoked.insert(one.digest.clone(), (one.date, one.reason.clone()));
            }
        }
        Self { entries, revoked, day: input.day }
    }

    fn of_image(&self, image: &CatalogueImage) -> Vec<Release> {
        let found = self.entries.get(&(&image.namespace, &image.label, &image.digest));
        let release = |(channel, entry): &(String, &Entry)| Release {
            channel: channel.clone(),
            promoted: entry.promoted.to_zoned(jiff::tz::TimeZone::UTC).date(),
            is_default: entry.is_default,
            state: match entry.state(self.day) {
                ReleaseState::Current => State::Released,
                ReleaseState::Deprecated => State::Deprecated,
                ReleaseState::Retired => State::Retired,
            },
            retirement: entry.retirement.as_ref().map(|retirement| Retirement {
                date: retirement.date,
                replacement: retirement.replacement.as_ref().map(ToString::to_string),
                reason: retirement.reason.clone(),
            }),
        };
        found.into_iter().flatten().map(release).collect()
    }
}

/// Returns the best state that a channel gives an image. A revoked one is revoked everywhere.
fn state(releases: &[Release], is_revoked: bool) -> State {
    if is_revoked {
        return State::Revoked;
    }
    releases.iter().map(|release| release.state).min().unwrap_or(State::Unreleased)
}

fn outcome(image: &CatalogueImage) -> Option<Outcome> {
    let evidence = image.evidence.as_ref()?;
    let complete = || evidence.results.iter().filter(|result| !result.is_partial);
    let is_here = |system: &Option<String>| system.as_deref() == Some(image.label.system.as_str());
    let newest = complete().find(|result| is_here(&result.system)).or_else(|| complete().next());
    Some(newest.map_or(Outcome::NotTested, |result| result.outcome))
}
