// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images by the packages that are in them: `--package 'hdf5@1.14: +mpi'`.
//!
//! What images say does not change, so it is kept in the cache of the user by their digests. Each
//! registry has a file of its own, and the repositories have one: what somebody claims in one
//! place is not believed in another. Who writes the file takes over what others have written
//! meanwhile; what is lost when two write at once is asked for again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use cabane_label::{Digest, Label, escape};
use cabane_view::{Answer, PackageIndex, PackageLine, PackagePattern};
use clap::Args;
use serde::{Serialize, Serializer};

use crate::report::{CommandResult, Report};
use crate::setup::Setup;

/// Which packages must be in an image.
#[derive(Debug, Args)]
pub(crate) struct PackageArgs {
    /// List only images with this package: `hdf5@1.14: +mpi`; repeatable
    #[arg(long = "package", value_name = "SPEC")]
    packages: Vec<String>,
}

impl PackageArgs {
    /// Reads what is looked for.
    ///
    /// # Errors
    ///
    /// A text that is no package, with the place of the mistake.
    pub(crate) fn read(&self) -> CommandResult<Vec<PackagePattern>> {
        let patterns = self.packages.iter().map(|text| text.parse());
        patterns.collect::<Result<_, _>>().map_err(Report::from)
    }
}

/// The directory in the cache.
const DIRECTORY: &str = "packages";
/// How large a file may be, in bytes. What is more is asked for each time.
const MOST_BYTES: usize = 64 << 20;
/// How many images are named in a note, and packages in a cell.
const MOST_NAMES: usize = 8;
const MOST_TITLES: usize = 4;

/// Packages that are looked for.
pub(crate) struct PackageSearch {
    patterns: Vec<PackagePattern>,
    index: PackageIndex,
    path: Option<PathBuf>,
}

/// What was found, by the digests of the images.
pub(crate) type PackagesFound = BTreeMap<Digest, FoundPackages>;

/// What was found in one image. Images share most of it: a pattern without a name may find
/// everything.
#[derive(Clone, Debug)]
pub(crate) struct FoundPackages(Rc<[Rc<ShownPackage>]>);

/// A package as programs see it.
#[derive(Clone, Debug, Serialize, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ShownPackage {
    name: String,
    version: String,
    hash: Option<String>,
    manager: String,
    variants: String,
    compilers: Vec<String>,
    os: Option<String>,
    target: Option<String>,
    external: bool,
}

impl PackageSearch {
    /// Prepares to look for packages in the images of a place; `None` if none are looked for.
    pub(crate) fn new(setup: &Setup, patterns: Vec<PackagePattern>, place: &str) -> Option<Self> {
        if patterns.is_empty() {
            return None;
        }
        let cache = setup.settings.cache_directory.value.as_ref();
        let name = cabane_registry::sum::bytes(place.as_bytes()).id();
        let path = cache.map(|cache| cache.join(DIRECTORY).join(format!("{name}.index")));
        let index = path.as_deref().and_then(read).unwrap_or_default();
        Some(Self {
            patterns,
            index,
            path,
        })
    }

    /// Whether an image has to say which packages it has. `again` asks those that did not say.
    pub(crate) fn is_missing(&self, image: &Digest, again: bool) -> bool {
        !self.index.knows(image) || again && self.index.is_silent(image)
    }

    /// Adds what images say, in lines, and keeps it; `None` for one that does not say. `wanted`
    /// are the images that stay when there is no room for all.
    pub(crate) fn learn(&mut self, said: &[(Digest, Option<String>)], wanted: &BTreeSet<&Digest>) {
        if said.is_empty() {
            return;
        }
        let said = said.iter();
        self.index
            .add(said.map(|(digest, lines)| (digest.clone(), lines.as_deref())));
        self.keep(wanted);
    }

    /// Looks for the packages in these images; says which do not tell what is in them.
    pub(crate) fn look_for<'i>(
        self,
        setup: &Setup,
        images: impl Iterator<Item = (&'i Label, &'i Digest)>,
    ) -> PackagesFound {
        let images: Vec<_> = images.collect();
        let found = self.index.look_for(&self.patterns);
        let mut packages = PackagesFound::new();
        let mut shown = HashMap::new();
        let mut silent = Vec::new();
        for (label, digest) in images {
            match found.in_image(digest) {
                Answer::Has(has) => {
                    // Each package stands in the index once.
                    let show = |line: &PackageLine<'_>| {
                        let known = shown.entry(line.name.as_ptr());
                        Rc::clone(known.or_insert_with(|| Rc::new(ShownPackage::of(line))))
                    };
                    let found = FoundPackages(has.iter().map(show).collect());
                    packages.insert(digest.clone(), found);
                }
                Answer::Silent => silent.push(label),
                // Why nothing is known was said where it was asked.
                Answer::Lacks | Answer::Unknown => {}
            }
        }
        tell_silent(setup, &silent);
        packages
    }

    fn keep(&mut self, wanted: &BTreeSet<&Digest>) {
        let Some(path) = &self.path else {
            return;
        };
        if let Some(others) = read(path) {
            self.index.merge(&others);
        }
        let kept = if self.index.size() <= MOST_BYTES {
            write(path, &self.index.to_bytes())
        } else {
            write(path, &self.index.only(wanted, MOST_BYTES).to_bytes())
        };
        // Where nothing can be kept it is asked again.
        let _ = kept;
    }
}

impl ShownPackage {
    fn of(line: &PackageLine<'_>) -> Self {
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

    fn title(&self) -> String {
        let of_system = if self.external {
            " (of the system)"
        } else {
            ""
        };
        let at = if self.version.is_empty() { "" } else { "@" };
        format!("{}{at}{}{of_system}", self.name, self.version)
    }
}

impl Serialize for FoundPackages {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|package| &**package))
    }
}

impl fmt::Display for FoundPackages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let titles: BTreeSet<String> = self.0.iter().map(|one| one.title()).collect();
        let more = titles.len().saturating_sub(MOST_TITLES);
        let shown = titles.iter().take(MOST_TITLES).map(|one| escape(one));
        let shown = shown.collect::<Vec<_>>().join(", ");
        match more {
            0 => f.write_str(&shown),
            _ => write!(f, "{shown} and {more} more"),
        }
    }
}

fn tell_silent(setup: &Setup, silent: &[&Label]) {
    if silent.is_empty() {
        return;
    }
    let count = match silent.len() {
        1 => "1 image does".to_owned(),
        count => format!("{count} images do"),
    };
    let names = names(setup, silent.iter());
    let printer = setup.printer;
    printer.note(format_args!(
        "{count} not say which packages they have: {names}"
    ));
}

/// Names some things, and with `--verbose` all of them.
pub(crate) fn names(setup: &Setup, things: impl ExactSizeIterator<Item = impl ToString>) -> String {
    let most = if setup.is_verbose() {
        usize::MAX
    } else {
        MOST_NAMES
    };
    let more = things.len().saturating_sub(most);
    let named: Vec<String> = things.take(most).map(|one| one.to_string()).collect();
    match more {
        0 => named.join(", "),
        _ => format!(
            "{} and {more} more (`--verbose` names all)",
            named.join(", ")
        ),
    }
}

fn read(path: &Path) -> Option<PackageIndex> {
    PackageIndex::from_bytes(&fs::read(path).ok()?)
}

/// Writes a file at once or not at all.
fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(bytes)?;
    file.persist(path)?;
    Ok(())
}
