// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `needs.json`: what the files of an image need, and what its packages tell beyond that.

use std::collections::{BTreeMap, BTreeSet};

use cabane_view::{HostNeeds, LibraryNeed, NeededExternal, NeededGpu, PackageRecord};

use crate::inside::{NeedKind, Part};

/// The packages that have the version of a vendor's software for GPUs.
const TOOLKITS: [(&str, &str); 2] = [("cuda", "nvidia"), ("hip", "amd")];
/// The variants that name architectures of GPUs.
const VARIANTS: [(&str, &str); 2] = [("cuda_arch=", "nvidia"), ("amdgpu_target=", "amd")];
/// How many versions of one library a start compares.
const MOST_VERSIONS: usize = 50;

/// Returns the libraries that every start checks, `most` of them.
pub(super) fn at_start(needs: &HostNeeds, most: usize) -> Vec<LibraryNeed> {
    let libraries = needs.at_start().take(most);
    libraries
        .map(|one| LibraryNeed {
            name: one.name.clone(),
            versions: one.versions.iter().take(MOST_VERSIONS).cloned().collect(),
        })
        .collect()
}

/// Adds what the packages tell, and says in their records on which others they depend.
pub(super) fn of_packages(mut needs: HostNeeds, parts: &mut [Part]) -> HostNeeds {
    needs.gpu = gpus(parts);
    needs.externals = externals(parts);
    let hashes: BTreeMap<String, String> = parts
        .iter()
        .filter_map(|part| Some((part.key.clone(), part.record.hash.clone()?)))
        .collect();
    for part in parts {
        let hashes = used(part).filter_map(|key| hashes.get(key));
        let hashes: BTreeSet<&String> = hashes.collect();
        part.record.dependencies = hashes.into_iter().cloned().collect();
    }
    needs
}

/// The keys of the parts that one is linked with or runs.
fn used(part: &Part) -> impl Iterator<Item = &str> {
    let needs = part.needs.iter().filter(|need| need.kind == NeedKind::Run);
    needs.map(|need| need.key.as_str())
}

fn gpus(parts: &[Part]) -> Vec<NeededGpu> {
    let mut gpus: BTreeMap<&str, NeededGpu> = BTreeMap::new();
    for record in parts.iter().map(|part| &part.record) {
        for (variant, vendor) in VARIANTS {
            let words = record.variants.split_whitespace();
            let values = words.filter_map(|word| word.strip_prefix(variant));
            let values = values.flat_map(|values| values.split(','));
            for value in values.filter(|value| !value.is_empty() && *value != "none") {
                let gpu = gpus.entry(vendor).or_default();
                if !gpu.architectures.iter().any(|one| one == value) {
                    gpu.architectures.push(value.to_owned());
                }
            }
        }
        for (_, vendor) in TOOLKITS.iter().filter(|(name, _)| record.name == *name) {
            let gpu = gpus.entry(vendor).or_default();
            gpu.toolkit = gpu.toolkit.take().max(Some(record.version.clone()));
        }
    }
    let finish = |(vendor, mut gpu): (&str, NeededGpu)| {
        gpu.architectures.sort();
        gpu.vendor = vendor.to_owned();
        gpu
    };
    gpus.into_iter().map(finish).collect()
}

fn externals(parts: &[Part]) -> Vec<NeededExternal> {
    let mut dependents: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for part in parts.iter().filter(|part| !part.record.external) {
        for key in used(part) {
            dependents.entry(key).or_default().insert(title(&part.record));
        }
    }
    let outside = parts.iter().filter(|part| part.record.external);
    let mut externals: Vec<NeededExternal> = outside
        .filter_map(|part| {
            // What only builds used is not needed any more.
            let dependents = dependents.get(part.key.as_str())?;
            let record = &part.record;
            Some(NeededExternal {
                name: record.name.clone(),
                version: record.version.clone(),
                prefix: record.prefix.clone(),
                dependents: dependents.iter().take(HostNeeds::MOST_NAMED).cloned().collect(),
                count: dependents.len() as u64,
            })
        })
        .collect();
    externals.sort();
    externals
}

fn title(record: &PackageRecord) -> String {
    format!("{}@{}", record.name, record.version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inside::Need;

    fn part(name: &str, external: bool, needs: &[(&str, NeedKind)]) -> Part {
        let need = |(key, kind): &(&str, NeedKind)| Need { key: (*key).to_owned(), kind: *kind };
        Part {
            key: name.to_owned(),
            record: PackageRecord {
                name: name.to_owned(),
                version: "1.2".to_owned(),
                hash: Some(format!("hash-of-{name}")),
                external,
                ..PackageRecord::default()
            },
            needs: needs.iter().map(need).collect(),
            ..Part::default()
        }
    }

    #[test]
    fn a_package_of_the_system_is_needed_by_what_is_linked_with_it() {
        let mut parts = [
            part("libfabric", true, &[]),
            part("cmake", true, &[]),
            part("mpich", false, &[("libfabric", NeedKind::Run), ("cmake", NeedKind::Build)]),
        ];
        let needs = of_packages(HostNeeds::default(), &mut parts);
        let seen: Vec<_> = needs
            .externals
            .iter()
            .map(|one| (one.name.as_str(), one.dependents.join(" ")))
            .collect();
        assert_eq!(seen, [("libfabric", "mpich@1.2".to_owned())]);
        assert_eq!(parts[2].record.dependencies, ["hash-of-libfabric"]);
    }

    #[test]
    fn architectures_of_gpus_are_in_the_variants() {
        let mut parts = [part("cuda", false, &[]), part("gromacs", false, &[])];
        parts[1].record.variants = "+cuda cuda_arch=80,90 amdgpu_target=none".to_owned();
        let needs = of_packages(HostNeeds::default(), &mut parts);
        assert_eq!(
            needs.gpu,
            [NeededGpu {
                vendor: "nvidia".to_owned(),
                architectures: vec!["80".to_owned(), "90".to_owned()],
                toolkit: Some("1.2".to_owned()),
            }]
        );
    }
}
