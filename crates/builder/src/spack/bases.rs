// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The images on which a stack is built: mounted during the build, searched by Spack, and named in the
//! metadata of the new image.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cabane_label::{MountPoint, escape};
use cabane_recipe::{Diagnostic, Recipe, SpackConfig, StackRecipe, SystemConfig, Yaml, malformed};
use cabane_report::{Kind, Report};
use cabane_spack::Spec;
use cabane_view::{HostNeeds, ImageBase, PackageList, PackageRecord};

use super::{StackTexts, mpi_wrappers};
use crate::bases::check_pin;
use crate::containers::StackBase;
use crate::fingerprint::Inputs;
use crate::materials::Material;
use crate::{BuildError, BuildRequest, Result, disk};

/// The images on which a stack is built, the nearest first.
#[derive(Debug, Default)]
pub(super) struct Bases(Vec<StackBase>);

impl Bases {
    /// Finds the base that a recipe names, and those of the base.
    ///
    /// # Errors
    ///
    /// There is no such image, Spack has not built it, or it is mounted where the recipe is.
    pub(super) fn find(
        request: &BuildRequest,
        recipe: &Recipe,
        config: &SpackConfig,
    ) -> Result<Self> {
        let Some(name) = &config.base else { return Ok(Self::default()) };
        if request.install.is_some() {
            let message = "`--install` does not work with a base: packages need the mounted base";
            return Err(BuildError::refused(message, "remove `--install`"));
        }
        let containers = request.containers.as_deref();
        let containers = containers.ok_or_else(|| {
            BuildError::refused(format!("cannot look up the base `{name}` here"), None)
        })?;
        let bases = Self(containers.stack_bases(name)?);
        if let Some(nearest) = bases.0.first() {
            check_pin(&request.pins, name, [nearest.digest.as_str()].into_iter())?;
            if !nearest.is_stack {
                let message = format!(
                    "the base `{}` is not an image that Spack built: it has no packages to reuse",
                    escape(name)
                );
                let hint = "`base` in config.yaml must name an image of a recipe for Spack";
                return Err(BuildError::refused(message, hint));
            }
        }
        bases.check_mount_points(recipe)?;
        Ok(bases)
    }

    fn check_mount_points(&self, recipe: &Recipe) -> Result<()> {
        let store = &recipe.store;
        let overlaps = |other: &MountPoint| {
            store.as_path().starts_with(other.as_path())
                || other.as_path().starts_with(store.as_path())
        };
        let Some(base) = self.0.iter().find(|base| overlaps(&base.mount_point)) else {
            return Ok(());
        };
        let (label, place) = (escape(&base.label), &base.mount_point);
        let message = if place == store {
            format!("the image and its base `{label}` would both be mounted at {store}")
        } else {
            format!("the image would be mounted at {store}, and its base `{label}` at {place}")
        };
        let hint = format!("write another place in config.yaml: `store: /user-{}`", recipe.name);
        Err(Report::new(Kind::Build, message).hinted(hint).into())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &StackBase> {
        self.0.iter()
    }

    /// Returns where they are mounted, the nearest first.
    pub(super) fn mount_points(&self) -> Vec<PathBuf> {
        self.0.iter().map(|base| base.mount_point.as_path().to_owned()).collect()
    }

    /// Returns the package repositories of their recipes.
    pub(super) fn repositories(&self) -> impl Iterator<Item = PathBuf> {
        let directories = self.0.iter().filter_map(|base| base.metadata.as_ref());
        let repositories = directories.map(|directory| directory.join("recipe/repo"));
        repositories.filter(|repository| repository.join("packages").is_dir())
    }

    /// Returns their packages, as far as they list them; none of the system.
    pub(super) fn packages(&self) -> Vec<PackageRecord> {
        let all = self.0.iter().flat_map(packages_of);
        all.filter(|one| !one.external).collect()
    }

    /// Returns the MPI of the nearest base that has one: one that its recipe asks for, or else one
    /// that its packages use. Nothing if there are several.
    fn mpi(&self) -> Option<PackageRecord> {
        let of = |base: &StackBase| -> Option<Vec<PackageRecord>> {
            let all = packages_of(base).into_iter().filter(|one| mpi_wrappers::is_mpi(&one.name));
            let (asked, used): (Vec<_>, Vec<_>) = all.partition(|one| one.explicit);
            [asked, used].into_iter().find(|found| !found.is_empty())
        };
        let mut nearest = self.0.iter().find_map(of)?;
        nearest.pop().filter(|_| nearest.is_empty())
    }

    /// Makes the MPI of the base that of the recipe, unless the recipe or the system names one. Otherwise
    /// Spack may take another one that is there, such as that of the system, or build one with other
    /// variants.
    pub(super) fn name_mpi(&self, recipe: &mut StackRecipe, system: &SystemConfig) {
        let settings = cabane_spack::settings_of_packages(recipe, system);
        if let (Some(mpi), None) = (self.mpi_settings(), settings.get("mpi")) {
            recipe.packages.insert("mpi", mpi);
        }
    }

    /// Returns the settings of MPI: that of the base, or else the same package with another version
    /// or other variants.
    fn mpi_settings(&self) -> Option<Yaml> {
        let mpi = self.mpi()?;
        let specs = [exact_spec(&mpi), mpi.name];
        let alternatives = Yaml::map([("any_of", Yaml::texts(specs.iter().map(String::as_str)))]);
        Some(Yaml::map([("require", vec![alternatives].into())]))
    }

    /// Returns the hashes of their packages.
    pub(super) fn hashes(&self) -> BTreeSet<String> {
        self.packages().into_iter().filter_map(|one| one.hash).collect()
    }

    /// Says which packages are built although a base has a package of the same name and version, and in
    /// what the two differ.
    pub(super) fn built_again(&self, decided: &BTreeMap<String, Spec>) -> Vec<String> {
        let of_bases = self.packages();
        let has = |hash: &str| of_bases.iter().any(|one| one.hash.as_deref() == Some(hash));
        let built = decided.iter().filter(|(hash, one)| !one.is_external() && !has(hash));
        let text = |(_, spec): (&String, &Spec)| {
            let is_same =
                |one: &&PackageRecord| one.name == spec.name && one.version == spec.version;
            let other = of_bases.iter().find(is_same)?;
            let mut differences = Vec::new();
            let target = other.target.as_deref().unwrap_or_default();
            if target != spec.target() {
                differences.push(format!(
                    "the target is {}, but the base has it for {target}",
                    spec.target()
                ));
            }
            let variants = spec.variants();
            if variants != other.variants {
                differences.push(format!(
                    "the variants are `{variants}`, but in the base `{}`",
                    other.variants
                ));
            }
            let why = if differences.is_empty() {
                "they depend on different packages".to_owned()
            } else {
                differences.join("; ")
            };
            Some(format!("{} is built again although a base has it: {why}", spec.id()))
        };
        built.filter_map(text).collect()
    }

    /// Returns the names of the libraries that they have.
    fn libraries(&self) -> BTreeSet<String> {
        let needs = self.0.iter().filter_map(|base| {
            let path = base.metadata.as_ref()?.join(HostNeeds::FILE);
            let text = disk::read_start(&path, HostNeeds::MAX_SIZE).ok()?;
            HostNeeds::from_json(&text).ok()
        });
        needs.flat_map(|needs| needs.provides).map(|library| library.name).collect()
    }

    /// Leaves out what is needed of the bases: they are mounted with the image.
    pub(super) fn take_from(&self, needs: &mut HostNeeds) {
        if self.0.is_empty() {
            return;
        }
        let libraries = self.libraries();
        needs.libraries.retain(|library| !libraries.contains(&library.name));
        needs.search_paths.retain(|path| !self.has(path.as_ref()));
    }

    /// Whether a path is in one of them.
    pub(super) fn has(&self, path: &Path) -> bool {
        self.0.iter().any(|base| path.starts_with(base.mount_point.as_path()))
    }

    /// Returns what decides about the packages that are built on them.
    pub(super) fn inputs(&self) -> Inputs {
        let one = |(number, base): (usize, &StackBase)| {
            (format!("base {}", number + 1), format!("{} at {}", base.digest, base.mount_point))
        };
        self.0.iter().enumerate().map(one).collect()
    }

    /// Returns what the metadata of the image say about them.
    pub(super) fn records(&self) -> Vec<ImageBase> {
        let record = |base: &StackBase| ImageBase {
            label: base.label.clone(),
            digest: base.digest.clone(),
            mount: base.mount_point.clone(),
        };
        self.0.iter().map(record).collect()
    }

    pub(super) fn materials(&self) -> impl Iterator<Item = Material> {
        self.0.iter().map(|base| Material::new(&base.label, "sha256", base.digest.as_str()))
    }
}

/// Returns a spec for a package with its version and its variants. Flags and patches follow from
/// them.
fn exact_spec(package: &PackageRecord) -> String {
    let mut spec = format!("{}@={}", package.name, package.version);
    // Values with blanks, which are flags, are in quotes.
    let is_variant = |word: &&str| {
        !word.contains(['\'', '"']) && !word.starts_with('-') && !word.starts_with("patches")
    };
    for variants in package.variants.split_whitespace().filter(is_variant) {
        spec.push(' ');
        spec.push_str(variants);
    }
    spec
}

/// Returns the packages of an image and those of the system that it uses, as far as it lists them.
fn packages_of(base: &StackBase) -> Vec<PackageRecord> {
    let list = base.metadata.as_ref().and_then(|metadata| {
        let path = metadata.join(PackageList::FILE);
        let text = disk::read_start(&path, PackageList::MAX_SIZE).ok()?;
        PackageList::from_json(&text).ok()
    });
    list.unwrap_or_default().packages
}

/// Shows the line of the recipe that names a base with what is wrong about the base.
pub(super) fn at_its_place(texts: &StackTexts, error: BuildError) -> BuildError {
    const KEY: &str = "base:";
    let file = texts.config_path();
    let text = texts.text_of(file).unwrap_or_default();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        if let Some(value) = line.strip_prefix(KEY) {
            let value_start = start + KEY.len() + (value.len() - value.trim_start().len());
            let value = value.split(" #").next().unwrap_or(value).trim();
            let (message, hint) = Report::from(error).texts();
            let place = value_start..value_start + value.len();
            let diagnostic = Diagnostic::new(file, text, place, &message);
            let diagnostic = diagnostic.with_hint(hint.as_deref().unwrap_or_default());
            return malformed("the recipe", &[diagnostic]).into();
        }
        start += line.len();
    }
    error
}

#[cfg(test)]
mod tests {
    use cabane_mount::ImageFormat;

    use super::*;

    /// Makes an image with packages: their names and variants, and whether its recipe asks for them.
    fn base(directory: &Path, name: &str, packages: &[(&str, &str, bool)]) -> StackBase {
        let packages = packages.iter().map(|(name, variants, explicit)| PackageRecord {
            name: (*name).to_owned(),
            version: "4.0.2".to_owned(),
            variants: (*variants).to_owned(),
            explicit: *explicit,
            ..PackageRecord::default()
        });
        let metadata = directory.join(name);
        std::fs::create_dir(&metadata).unwrap();
        let list = PackageList::new(packages.collect());
        std::fs::write(metadata.join(PackageList::FILE), list.to_json()).unwrap();
        StackBase {
            label: name.to_owned(),
            digest: "0".repeat(64).parse().unwrap(),
            mount_point: format!("/user-{name}").parse().unwrap(),
            file: PathBuf::new(),
            format: ImageFormat::Squashfs,
            metadata: Some(metadata),
            is_stack: true,
        }
    }

    #[test]
    fn the_mpi_of_the_nearest_base_is_required_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let base = |name, packages: &[_]| base(directory.path(), name, packages);
        let tools = base("tools", &[("zlib", "+pic", true)]);
        let variants =
            "~hwloc+romio build_system=autotools cflags='-O2 -g' device=ch3 patches:=a,b";
        let mpi = base("mpi", &[("mpich", variants, true), ("openmpi", "", false)]);
        let used = base("used", &[("hdf5", "+mpi", true), ("openmpi", "", false)]);
        let two = base("two", &[("mpich", "", true), ("openmpi", "", true)]);
        let settings = |bases| Bases(bases).mpi_settings().map(|yaml| yaml.to_string());
        assert_eq!(settings(vec![tools.clone()]), None);
        assert_eq!(settings(vec![two, mpi.clone()]), None);
        let of_mpich = "require:\n- any_of:\n  - mpich@=4.0.2 ~hwloc+romio build_system=autotools device=ch3\n  \
                        - mpich\n";
        assert_eq!(settings(vec![tools, mpi, used.clone()]).as_deref(), Some(of_mpich));
        let of_openmpi = "require:\n- any_of:\n  - openmpi@=4.0.2\n  - openmpi\n";
        assert_eq!(settings(vec![used]).as_deref(), Some(of_openmpi));
    }
}
