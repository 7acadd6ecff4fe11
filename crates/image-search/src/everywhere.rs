// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images of the repositories and of the registry, found by words and by packages.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use cabane_label::{Digest, Label, escape};
use cabane_report::{Kind, Report, Result};
use cabane_resolve::similar;
use cabane_site::Context;
use cabane_transfer::RegistryRequest;
use cabane_view::{PackageIndex, PackageLine, PackagePattern, version_order};

use crate::catalogue::{Catalogue, CatalogueParts};
use crate::details::ImageDetails;
use crate::packages::{Package, Packages};
use crate::request::SearchRequest;
use crate::words::Word;

/// What the registry is called as a place of images.
const REGISTRY: &str = "registry";

/// Where images are looked for.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// Also images of other systems. Without it, those of the system of this machine, if its name is known.
    pub has_all_systems: bool,
    /// The registry. Without an address, the configured one, if there is one.
    pub registry: RegistryRequest,
    /// Leaves the registry out.
    pub is_local: bool,
    /// Asks the registry for each image, instead of its list.
    pub refresh: bool,
}

/// An image in repositories, in the registry, or both.
#[derive(Clone, Debug)]
pub struct ImageAnywhere {
    /// Its label.
    pub label: Label,
    /// Its digest.
    pub digest: Digest,
    /// The names of the repositories that have it, and `registry`.
    pub places: Vec<String>,
    /// What it is for.
    pub description: Option<String>,
    /// The packages that were searched for; none where a label or a description has the words.
    pub packages: Packages,
}

impl ImageAnywhere {
    /// Whether a repository has it, so that it starts at once.
    #[must_use]
    pub fn is_here(&self) -> bool {
        self.places.iter().any(|place| place != REGISTRY)
    }
}

/// A package, and the images that have it.
#[derive(Clone, Debug)]
pub struct PackageInImages {
    /// The package. Other builds of the same version may differ in variants and compilers.
    pub package: Package,
    /// The images, by label.
    pub images: Vec<ImageAnywhere>,
}

/// Finds the images in which each word is a part of the name, the version, the description, a view, or a package, the
/// best first: those that have the words as names. Words may be packages as Spack writes them: `hdf5@1.14:+mpi`.
///
/// # Errors
///
/// A word that is none, a repository that cannot be read, a registry that was named and does not answer. If the
/// configured registry does not answer, a warning says so.
pub fn search(context: &Context, scope: &Scope, words: &[String]) -> Result<Vec<ImageAnywhere>> {
    let words = words.iter().map(|word| word.parse()).collect::<Result<Vec<Word>>>()?;
    let mut found: BTreeMap<Key, (u32, ImageAnywhere)> = BTreeMap::new();
    for catalogue in scope.catalogues(context)? {
        let searched = Searched::new(&catalogue);
        let mut fits: Vec<Vec<Option<u32>>> =
            words.iter().map(|word| searched.fits(word)).collect();
        keep_versions_of_named(&words, &mut fits);
        for image in &catalogue.images {
            let details = searched.details(&image.digest);
            let numbers = searched.packages_of(&image.digest);
            let mut rank = 0;
            let mut shown = BTreeSet::new();
            let has_all = words.iter().zip(&fits).all(|(word, fits)| {
                let text = word.rank_of_image(&image.name, &details);
                let packages = numbers.iter().filter_map(|number| Some((fits[*number]?, *number)));
                let package = packages.clone().min();
                let best = text.into_iter().chain(package.map(|(rank, _)| rank)).min();
                if let Some((least, _)) =
                    package.filter(|(least, _)| text.is_none_or(|text| *least <= text))
                {
                    shown.extend(
                        packages.filter(|(rank, _)| *rank == least).map(|(_, number)| number),
                    );
                }
                rank += best.unwrap_or_default();
                best.is_some()
            });
            if !has_all {
                continue;
            }
            let entry = found.entry((image.name.to_string(), image.digest.clone()));
            let (_, found) = entry.or_insert_with(|| {
                let packages = shown.iter().filter_map(|number| searched.package(*number));
                let found = ImageAnywhere {
                    label: image.name.clone(),
                    digest: image.digest.clone(),
                    places: Vec::new(),
                    description: details.description,
                    packages: packages.map(Rc::new).collect(),
                };
                (rank, found)
            });
            found.places.push(place(image.meta.is_some(), &image.source));
        }
    }
    let mut found: Vec<(u32, ImageAnywhere)> = found.into_values().collect();
    found.sort_by(|(rank, one), (other_rank, other)| {
        rank.cmp(other_rank).then_with(|| newest_first(&one.label, &other.label))
    });
    Ok(found.into_iter().map(|(_, image)| image).collect())
}

/// Finds the images that have a package, by the package, its newest version first.
///
/// # Errors
///
/// As [`search`]; no image has such a package.
pub fn images_with(
    context: &Context,
    scope: &Scope,
    package: &str,
) -> Result<Vec<PackageInImages>> {
    let pattern: PackagePattern = package.parse()?;
    let mut found: BTreeMap<Package, BTreeMap<Key, ImageAnywhere>> = BTreeMap::new();
    let (mut names, mut images) = (BTreeSet::new(), BTreeSet::new());
    for catalogue in scope.catalogues(context)? {
        let searched = Searched::new(&catalogue);
        let fits = |line: &&str| PackageLine::read(line).is_some_and(|line| pattern.matches(&line));
        let fits: Vec<bool> = searched.lines.iter().map(fits).collect();
        for image in &catalogue.images {
            for number in
                searched.packages_of(&image.digest).into_iter().filter(|number| fits[*number])
            {
                let Some(package) = searched.package(number) else { continue };
                let key = (image.name.to_string(), image.digest.clone());
                let images = found.entry(package).or_default();
                let found = images.entry(key).or_insert_with(|| ImageAnywhere {
                    label: image.name.clone(),
                    digest: image.digest.clone(),
                    places: Vec::new(),
                    description: searched.details(&image.digest).description,
                    packages: Packages::default(),
                });
                found.places.push(place(image.meta.is_some(), &image.source));
            }
        }
        let lines = searched.lines.iter().filter_map(|line| PackageLine::read(line));
        names.extend(lines.map(|line| line.name.to_owned()));
        images.extend(catalogue.images.iter().map(|image| image.name.name.to_string()));
    }
    if found.is_empty() {
        return Err(none_has(&pattern, &names, &images));
    }
    let mut found: Vec<PackageInImages> = found
        .into_iter()
        .map(|(package, images)| {
            let mut images: Vec<_> = images.into_values().collect();
            images.sort_by(|one, other| newest_first(&one.label, &other.label));
            PackageInImages { package, images }
        })
        .collect();
    found.sort_by(|one, other| {
        let (one, other) = (&one.package, &other.package);
        let newest = version_order(&other.version, &one.version);
        one.name.cmp(&other.name).then(newest).then_with(|| one.cmp(other))
    });
    Ok(found)
}

type Key = (String, Digest);

/// A version is that of a package that another word names, if there is such a word.
fn keep_versions_of_named(words: &[Word], fits: &mut [Vec<Option<u32>>]) {
    if words.iter().all(Word::is_version) {
        return;
    }
    let all = fits.first().map_or(0, Vec::len);
    let named: Vec<bool> = (0..all)
        .map(|number| {
            let mut others = words.iter().zip(fits.iter()).filter(|(word, _)| !word.is_version());
            others.any(|(_, fits)| fits[number].is_some())
        })
        .collect();
    for (_, fits) in words.iter().zip(fits).filter(|(word, _)| word.is_version()) {
        for (fit, _) in fits.iter_mut().zip(&named).filter(|(_, named)| !**named) {
            *fit = None;
        }
    }
}

fn none_has(
    pattern: &PackagePattern,
    names: &BTreeSet<String>,
    images: &BTreeSet<String>,
) -> Report {
    let message = format!("no image has the package `{}`", escape(&pattern.to_string()));
    let report = Report::new(Kind::NotFound, message);
    let unknown = pattern.name().filter(|name| !names.contains(*name));
    if let Some(image) = unknown.filter(|name| images.contains(*name)) {
        let image = escape(image);
        return report.hinted(format!("`cabane image inspect {image}` shows the image `{image}`"));
    }
    let meant = unknown.and_then(|name| similar(name, names.iter().map(String::as_str)));
    match meant {
        Some(meant) => report.hinted(format!("did you mean `{}`?", escape(meant))),
        None => report.hinted("`cabane search WORD` also looks for parts of names".to_owned()),
    }
}

fn place(is_here: bool, source: &str) -> String {
    if is_here { source.to_owned() } else { REGISTRY.to_owned() }
}

/// Orders by name, then the newest version first, then by the rest of the label.
fn newest_first(one: &Label, other: &Label) -> std::cmp::Ordering {
    let names = one.name.as_str().cmp(other.name.as_str());
    let versions = version_order(other.version.as_str(), one.version.as_str());
    names.then(versions).then_with(|| one.to_string().cmp(&other.to_string()))
}

impl Scope {
    /// Reads the images of the repositories, then those of the registry.
    fn catalogues(&self, context: &Context) -> Result<Vec<Catalogue>> {
        let request = SearchRequest {
            pattern: self.has_all_systems.then(|| "@*".to_owned()),
            refresh: self.refresh,
            ..SearchRequest::default()
        };
        let parts = CatalogueParts { packages: true, details: true };
        let mut catalogues = vec![Catalogue::of_repositories(context, &request, parts)?];
        let is_named = self.registry.registry.is_some();
        let is_configured = context.settings.registry.address.value.is_some();
        if !self.is_local && (is_named || is_configured) {
            match Catalogue::of_registry(context, &self.registry, &request, parts) {
                Ok(catalogue) => catalogues.push(catalogue),
                Err(report) if is_named => return Err(report),
                Err(report) => context.warning(format_args!("the registry is left out: {report}")),
            }
        }
        Ok(catalogues)
    }
}

/// A catalog that is searched.
struct Searched<'a> {
    catalogue: &'a Catalogue,
    packages: Option<&'a PackageIndex>,
    /// Each package of any image once.
    lines: Vec<&'a str>,
    detail_lines: Vec<&'a str>,
}

impl<'a> Searched<'a> {
    fn new(catalogue: &'a Catalogue) -> Self {
        let packages = catalogue.packages.as_ref();
        let lines = packages.map(PackageIndex::lines).unwrap_or_default();
        let detail_lines = catalogue.details.as_ref().map(|details| details.lines());
        Self { catalogue, packages, lines, detail_lines: detail_lines.unwrap_or_default() }
    }

    /// Returns how well a word fits each package.
    fn fits(&self, word: &Word) -> Vec<Option<u32>> {
        let rank = |line: &&str| word.rank_of_package(&PackageLine::read(line)?);
        self.lines.iter().map(rank).collect()
    }

    fn packages_of(&self, image: &Digest) -> Vec<usize> {
        let numbers = self.packages.map(|index| index.in_image(image));
        match numbers {
            Some(cabane_view::Lines::Numbers(numbers)) => {
                numbers.filter(|number| *number < self.lines.len()).collect()
            }
            _ => Vec::new(),
        }
    }

    fn package(&self, number: usize) -> Option<Package> {
        Some(Package::of(&PackageLine::read(self.lines.get(number)?)?))
    }

    fn details(&self, image: &Digest) -> ImageDetails {
        let details = self.catalogue.details.as_ref();
        let details = details.map(|index| ImageDetails::in_index(index, &self.detail_lines, image));
        details.unwrap_or_default()
    }
}
