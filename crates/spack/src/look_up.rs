// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Whether the packages, versions, variants, and values that a recipe or a system names exist.
//!
//! Spack says so as well, after a minute, and without the place. Only what Spack is certain
//! to refuse is a mistake.

use std::ops::Range;
use std::path::PathBuf;
use std::rc::Rc;

use cabane_label::enumerate;
use cabane_recipe::{
    SpecPurpose, StackRecipe, SystemConfig, WrittenPackage, WrittenSpec, WrittenVariant,
    WrittenWord, YamlMap, nearest, package_name,
};

use crate::look_up_values;
use crate::repository::{PackageFacts, PackageIndex, Repositories};
use crate::versions;

/// What is said about a word of a recipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameFinding {
    /// The file that holds the word.
    pub file: PathBuf,
    /// The bytes of the word.
    pub place: Range<usize>,
    /// What is wrong.
    pub message: String,
    /// What to type instead.
    pub hint: String,
    /// Whether Spack is certain to refuse it.
    pub is_mistake: bool,
}

/// Keys of a spec that are no variants of a package.
const KEYS: [&str; 18] = [
    "arch",
    "architecture",
    "build_system",
    "cflags",
    "commit",
    "cppflags",
    "cxxflags",
    "dev_path",
    "fflags",
    "ldflags",
    "ldlibs",
    "namespace",
    "operating_system",
    "os",
    "patches",
    "platform",
    "target",
    "virtuals",
];

/// Packages that Spack describes for itself where compilers are on the machine, and the names
/// that specs have for compilers.
const COMPILERS: [&str; 22] = [
    "acfl",
    "aocc",
    "apple-clang",
    "arm",
    "cce",
    "clang",
    "dpcpp",
    "fj",
    "gcc",
    "intel",
    "intel-oneapi-compilers",
    "intel-oneapi-compilers-classic",
    "llvm",
    "llvm-amdgpu",
    "msvc",
    "nag",
    "nvhpc",
    "oneapi",
    "pgi",
    "rocmcc",
    "xl",
    "xl_r",
];

/// How many versions or variants a hint lists.
const LISTED: usize = 3;

/// Looks up what the specs of a recipe name, in its package repositories: all of them, in the
/// order in which Spack searches them.
#[must_use]
pub fn look_up(
    recipe: &StackRecipe,
    system: &SystemConfig,
    repositories: &[Rc<PackageIndex>],
) -> Vec<NameFinding> {
    let externals = [&recipe.packages, &system.network_packages, &system.packages];
    LookUp::new(&externals, system, repositories).all(&recipe.written)
}

/// Looks up what the files of a system name. None of it is a mistake: a package may be in the
/// repositories of another recipe.
#[must_use]
pub fn look_up_system(
    system: &SystemConfig,
    repositories: &[Rc<PackageIndex>],
) -> Vec<NameFinding> {
    let externals = [&system.network_packages, &system.packages];
    LookUp::new(&externals, system, repositories).all(&system.written)
}

/// What is said about a word, without its file.
pub(crate) struct Finding {
    pub(crate) place: Range<usize>,
    pub(crate) message: String,
    pub(crate) hint: String,
    pub(crate) is_mistake: bool,
}

impl Finding {
    fn in_file(self, file: &std::path::Path) -> NameFinding {
        let Self { place, message, hint, is_mistake } = self;
        NameFinding { file: file.to_owned(), place, message, hint, is_mistake }
    }
}

struct LookUp<'r> {
    repositories: Repositories<'r>,
    /// What the recipe and the system say about packages.
    externals: &'r [&'r YamlMap],
    /// The names that the system gives to sets of compilers.
    toolchains: &'r YamlMap,
}

impl<'r> LookUp<'r> {
    fn new(
        externals: &'r [&'r YamlMap],
        system: &'r SystemConfig,
        repositories: &'r [Rc<PackageIndex>],
    ) -> Self {
        let toolchains = &system.settings.toolchains;
        Self { repositories: Repositories(repositories), externals, toolchains }
    }

    /// Looks up all specs of some files.
    fn all(&self, written: &[WrittenSpec]) -> Vec<NameFinding> {
        let mut findings = Vec::new();
        for spec in written {
            for package in &spec.packages {
                for finding in self.package(package, spec.purpose) {
                    let finding = finding.in_file(&spec.file);
                    // Several settings of a package name it at the same place.
                    if !findings.contains(&finding) {
                        findings.push(finding);
                    }
                }
            }
        }
        findings
    }

    fn package(&self, package: &WrittenPackage, purpose: SpecPurpose) -> Vec<Finding> {
        let is_installed = purpose == SpecPurpose::Install;
        let name = package.name.text.as_str();
        let is_compiler = COMPILERS.contains(&name) || self.toolchains.get(name).is_some();
        if package.is_direct && is_compiler {
            return Vec::new();
        }
        let Some(facts) = self.repositories.find(name) else {
            let is_virtual = self.repositories.has_virtual(name);
            return (!is_virtual)
                .then(|| self.unknown(package, is_installed))
                .into_iter()
                .collect();
        };
        let version = package.version.iter();
        let version = version.filter_map(|one| match purpose {
            SpecPurpose::External => several_versions(name, one),
            _ => self.version(name, one, &facts, is_installed),
        });
        let variants = package.variants.iter();
        let variants = variants.flat_map(|one| variant(name, one, &facts, is_installed));
        version.chain(variants).collect()
    }

    fn unknown(&self, package: &WrittenPackage, is_mistake: bool) -> Finding {
        let name = package.name.text.as_str();
        let known: Vec<&str> = self.repositories.0.iter().flat_map(|one| one.names()).collect();
        let hint = match nearest(name, &known) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "put your own packages into `repo/packages` of the recipe".to_owned(),
        };
        Finding {
            place: package.name.place.clone(),
            message: format!("there is no package `{name}`"),
            hint,
            is_mistake,
        }
    }

    fn version(
        &self,
        name: &str,
        version: &WrittenWord,
        facts: &PackageFacts,
        is_installed: bool,
    ) -> Option<Finding> {
        let wanted = version.text.as_str();
        if facts.has_other_versions || facts.versions.is_empty() || versions::is_git(wanted) {
            return None;
        }
        let known = facts.versions.keys().map(String::as_str);
        let mut all = known.clone().map(str::to_owned).chain(self.external_versions(name));
        if all.any(|one| versions::may_satisfy(&one, wanted)) {
            return None;
        }
        let current = current_of(facts);
        let newest = versions::newest(current.iter().copied(), LISTED);
        let newest = if newest.is_empty() { known.take(LISTED).collect() } else { newest };
        let shown = wanted.trim_start_matches('=');
        // Spack takes an exact version for granted, and has no checksum for its source.
        let is_exact = versions::exact(wanted).is_some();
        Some(Finding {
            place: version.place.clone(),
            message: if is_exact {
                format!("the package `{name}` does not declare the version {shown}")
            } else {
                format!("the package `{name}` has no version {shown}")
            },
            hint: match (versions::nearest(&current, wanted), newest.as_slice()) {
                (_, [one]) => format!("the newest version is `{one}`"),
                (Some(nearest), [newest, ..]) if nearest != *newest => {
                    format!("the nearest version is `{nearest}`, and the newest is `{newest}`")
                }
                (_, all) => format!("the newest versions are {}", enumerate(all, "and")),
            },
            is_mistake: is_installed && !is_exact,
        })
    }

    /// The versions of a package that the system or the recipe describe as installed.
    fn external_versions(&self, name: &str) -> impl Iterator<Item = String> {
        let name = name.rsplit('.').next().unwrap_or(name).to_owned();
        let described = self.externals.iter().flat_map(|one| one.iter());
        let lists = described.filter_map(|(_, one)| one.at(&["externals"])?.as_list());
        let specs = lists.flatten().filter_map(|one| one.at(&["spec"])?.as_text());
        specs.filter_map(move |spec| {
            let rest = spec.trim_start().strip_prefix(package_name(spec))?;
            let is_it = package_name(spec) == name;
            let version = rest.strip_prefix('@').filter(|_| is_it)?;
            let is_end = |c: char| c.is_whitespace() || matches!(c, '+' | '~' | '%');
            let version = version.split(is_end).next()?;
            Some(version.trim_start_matches('=').to_owned())
        })
    }
}

/// The versions that are not deprecated.
fn current_of(facts: &PackageFacts) -> Vec<&str> {
    let current = facts.versions.iter().filter(|(_, is_deprecated)| !**is_deprecated);
    current.map(|(version, _)| version.as_str()).collect()
}

/// What is installed has one version, which need not be declared.
fn several_versions(name: &str, version: &WrittenWord) -> Option<Finding> {
    let text = version.text.as_str();
    text.contains([':', ',']).then(|| Finding {
        place: version.place.clone(),
        message: format!("the external package `{name}` has no exact version: {text}"),
        hint: "write the version that is installed".to_owned(),
        is_mistake: false,
    })
}

fn variant(
    name: &str,
    variant: &WrittenVariant,
    facts: &PackageFacts,
    is_mistake: bool,
) -> Vec<Finding> {
    let wanted = variant.name.text.as_str();
    if facts.has_other_variants || KEYS.contains(&wanted) {
        return Vec::new();
    }
    if let Some(values) = facts.variants.get(wanted) {
        return look_up_values::look_up(name, variant, values, is_mistake);
    }
    let known: Vec<&str> = facts.variants.keys().map(String::as_str).collect();
    let hint = match (nearest(wanted, &known), known.as_slice()) {
        (Some(meant), _) => format!("did you mean `{meant}`?"),
        (None, []) => "remove it: the package has no variants".to_owned(),
        (None, known) => format!("its variants are {}", enumerate(known, "and")),
    };
    vec![Finding {
        place: variant.name.place.clone(),
        message: format!("the package `{name}` has no variant `{wanted}`"),
        hint,
        is_mistake,
    }]
}
