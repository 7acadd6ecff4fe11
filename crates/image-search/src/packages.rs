// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The packages that were found in images.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::rc::Rc;

use cabane_label::{Digest, Label, escape};
use cabane_site::Context;
use cabane_view::{Answer, PackageLine};
use serde::{Serialize, Serializer};

use crate::cache::PackageSearch;

/// How many images a note names, and how many packages a cell of a table.
const MAX_NAMES: usize = 8;
const MAX_TITLES: usize = 4;

/// The packages that were found, by the digest of the image.
pub(crate) type PackagesByImage = BTreeMap<Digest, Packages>;

/// The packages that were found in one image. Images share most of them: a pattern without a name
/// may match everything.
#[derive(Clone, Debug, Default)]
pub struct Packages(Rc<[Rc<Package>]>);

impl FromIterator<Rc<Package>> for Packages {
    fn from_iter<I: IntoIterator<Item = Rc<Package>>>(packages: I) -> Self {
        Self(packages.into_iter().collect())
    }
}

/// A package in an image.
#[derive(Clone, Debug, Serialize, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the keys of Spack's specs, and of the JSON output")]
pub struct Package {
    pub name: String,
    pub version: String,
    pub hash: Option<String>,
    pub manager: String,
    pub variants: String,
    pub compilers: Vec<String>,
    pub os: Option<String>,
    pub target: Option<String>,
    pub external: bool,
}

impl Package {
    pub(crate) fn of(line: &PackageLine<'_>) -> Self {
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let compilers = line.compilers.split_terminator(',');
        Self {
            name: line.name.to_owned(),
            version: line.version.to_owned(),
            hash: text(line.hash),
            manager: line.manager.to_owned(),
            variants: line.variants.to_owned(),
            compilers: compilers.map(str::to_owned).collect(),
            os: text(line.os),
            target: text(line.target),
            external: line.external,
        }
    }

    /// Returns its name and version, and whether it is one of the system: `hdf5@1.14.3`.
    #[must_use]
    pub fn title(&self) -> String {
        let of_system = if self.external { " (of the system)" } else { "" };
        let at = if self.version.is_empty() { "" } else { "@" };
        format!("{}{at}{}{of_system}", self.name, self.version)
    }
}

impl Serialize for Packages {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|package| &**package))
    }
}

impl fmt::Display for Packages {
    /// Names the first packages, and counts the others.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let titles: BTreeSet<String> = self.0.iter().map(|one| one.title()).collect();
        let more = titles.len().saturating_sub(MAX_TITLES);
        let shown = titles.iter().take(MAX_TITLES).map(|one| escape(one));
        let shown = shown.collect::<Vec<_>>().join(", ");
        match more {
            0 => f.write_str(&shown),
            _ => write!(f, "{shown} and {more} more"),
        }
    }
}

/// Returns the images that have all packages. Images without a list are named in a note.
pub(crate) fn select<'i>(
    context: &Context,
    search: &PackageSearch,
    images: impl Iterator<Item = (&'i Label, &'i Digest)>,
) -> PackagesByImage {
    let matches = search.kept.index.look_for(&search.patterns);
    let mut packages = PackagesByImage::new();
    let mut shared = HashMap::new();
    let mut silent = Vec::new();
    for (label, digest) in images {
        match matches.in_image(digest) {
            Answer::Has(lines) => {
                // The index has each package once.
                let share = |line: &PackageLine<'_>| {
                    let known = shared.entry(line.name.as_ptr());
                    Rc::clone(known.or_insert_with(|| Rc::new(Package::of(line))))
                };
                packages.insert(digest.clone(), Packages(lines.iter().map(share).collect()));
            }
            Answer::Silent => silent.push(label),
            // A warning has reported why nothing is known.
            Answer::Lacks | Answer::Unknown => {}
        }
    }
    if !silent.is_empty() {
        let count = match silent.len() {
            1 => "1 image does".to_owned(),
            count => format!("{count} images do"),
        };
        let names = names(context, silent.iter());
        context.note(format_args!("{count} not say which packages they have: {names}"));
    }
    packages
}

/// Names the first labels, with `--verbose` all.
pub(crate) fn names(
    context: &Context,
    labels: impl ExactSizeIterator<Item = impl ToString>,
) -> String {
    let most = if context.is_verbose() { usize::MAX } else { MAX_NAMES };
    let more = labels.len().saturating_sub(most);
    let named: Vec<String> = labels.take(most).map(|one| one.to_string()).collect();
    match more {
        0 => named.join(", "),
        _ => format!("{} and {more} more (`--verbose` names all)", named.join(", ")),
    }
}
