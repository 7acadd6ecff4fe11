// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From what was found to what holds for MPIs and the libraries below them.
//!
//! What an MPI must have to use the fabric and to be started by the scheduler is
//! required; what it can do without, such as GPUs, is preferred.

use crate::found::{Device, DeviceKind, External, Found};
use crate::rules::{PackageRules, Rule};
use crate::version::Version;

/// Returns the MPIs that recipes can name: those that are installed, and two that can
/// be built everywhere.
pub(crate) fn mpis(found: &Found) -> Vec<PackageRules> {
    let is_installed = |package: &&&str| found.of(package).next().is_some();
    let vendors = ["cray-mpich", "intel-oneapi-mpi"];
    let vendors = vendors.iter().filter(is_installed);
    let mut all: Vec<_> = vendors.map(|package| PackageRules::new(package)).collect();
    all.push(mpich(found));
    all.push(openmpi(found));
    all
}

/// How an MPI uses the fabric.
struct Fabric<'a> {
    device: &'a Device,
    /// The library for it, as MPIs call it: `ofi` is libfabric.
    library: &'static str,
    /// What libfabric calls the fabric.
    provider: Option<&'static str>,
    because: String,
}

/// Returns the fabric, if there is one beside Ethernet.
fn fabric(found: &Found) -> Option<Fabric<'_>> {
    let kinds = [
        (DeviceKind::Cxi, "ofi", Some("cxi")),
        (DeviceKind::Efa, "ofi", Some("efa")),
        (DeviceKind::OmniPath, "ofi", Some("opx")),
        (DeviceKind::InfiniBand, "ucx", None),
    ];
    kinds.into_iter().find_map(|(kind, library, provider)| {
        let device = found.device(kind)?;
        let because = format!("{} at {}", kind.title(), device.seen);
        Some(Fabric { device, library, provider, because })
    })
}

fn mpich(found: &Found) -> PackageRules {
    let mut rules = PackageRules::new("mpich");
    if let Some(Fabric { library, because, .. }) = fabric(found) {
        rules.must(format!("device=ch4 netmod={library}"), because);
    }
    if let Some(slurm) = found.device(DeviceKind::Slurm) {
        if let Some(headers) = slurm.detail("headers") {
            rules.must("+slurm", format!("Slurm, with {headers}"));
        }
        if let Some(pmi2) = slurm.detail("pmi2") {
            rules.must("pmi=pmi2", format!("srun --mpi=pmi2 starts it, with {pmi2}"));
        }
    }
    gpus(found, &mut rules, &["+cuda", "+rocm", "+level_zero"]);
    rules
}

fn openmpi(found: &Found) -> PackageRules {
    let mut rules = PackageRules::new("openmpi");
    if let Some(Fabric { library, because, .. }) = fabric(found) {
        let xpmem = if found.of("xpmem").next().is_some() { ",xpmem" } else { "" };
        rules.must(format!("fabrics=cma,{library}{xpmem}"), because);
    }
    if let Some(slurm) = found.device(DeviceKind::Slurm) {
        rules.must("schedulers=slurm", format!("Slurm at {}", slurm.seen));
        let because = match slurm.detail("pmix") {
            Some(plugin) => format!("srun --mpi=pmix starts it, with {plugin}"),
            None => "the PMIx that Open MPI brings along starts it".to_owned(),
        };
        let when = other_versions(found.of("openmpi").map(|external| &external.version));
        rules.may_when("+internal-pmix", because, when);
    }
    gpus(found, &mut rules, &["+cuda", "+rocm"]);
    rules
}

/// Returns a spec of all versions that are not installed; nothing if none is.
fn other_versions<'a>(installed: impl Iterator<Item = &'a Version>) -> Option<String> {
    let mut installed: Vec<&Version> = installed.collect();
    installed.sort_by_key(|version| std::cmp::Reverse(version.order()));
    installed.dedup();
    let mut ranges = Vec::new();
    let mut start = String::new();
    for version in &installed {
        ranges.push(format!("{start}:{}", version.before()));
        start = version.after_it();
    }
    ranges.push(format!("{start}:"));
    (!installed.is_empty()).then(|| format!("@{}", ranges.join(",")))
}

fn gpus(found: &Found, rules: &mut PackageRules, variants: &[&str]) {
    let kinds = [
        ("+cuda", DeviceKind::NvidiaGpu),
        ("+rocm", DeviceKind::AmdGpu),
        ("+level_zero", DeviceKind::IntelGpu),
    ];
    for (variant, kind) in kinds {
        if let Some(device) = found.device(kind).filter(|_| variants.contains(&variant)) {
            let details = device.details.iter().filter(|(key, _)| **key != "driver");
            let details: Vec<String> =
                details.map(|(key, value)| format!(", {key}={value}")).collect();
            let details = details.concat();
            rules.may(variant, format!("{} at {}{details}", kind.title(), device.seen));
        }
    }
}

/// Returns what holds for the libraries below an MPI.
pub(crate) fn libraries(found: &Found) -> Vec<PackageRules> {
    let mut libfabric = PackageRules::new("libfabric");
    let mut ucx = PackageRules::new("ucx");
    if let Some(Fabric { device, provider, because, .. }) = fabric(found) {
        match provider {
            Some(provider) if has_provider(found, provider) => {
                libfabric.must(format!("fabrics={provider}"), because);
            }
            Some(provider) => libfabric.must(format!("fabrics={provider},rxm,tcp"), because),
            None => {
                let general = "+cma+rc+rdmacm+thread_multiple+ud+verbs";
                ucx.must(general, because.clone());
                if device.detail("driver") == Some("mlx5") {
                    ucx.must("+dc+mlx5_dv", because);
                }
            }
        }
    }
    [libfabric, ucx].into_iter().filter(|rules| !rules.is_empty()).collect()
}

/// Tells whether there is a libfabric that has a provider.
pub(crate) fn has_provider(found: &Found, provider: &str) -> bool {
    let variants = found.of("libfabric").flat_map(|external| external.variants.split(' '));
    let mut fabrics = variants.filter_map(|variant| variant.strip_prefix("fabrics="));
    fabrics.any(|fabrics| fabrics.split(',').any(|fabric| fabric == provider))
}

/// Adds a remark to every external that does not meet the rules of its package: Spack does not
/// use it.
pub(crate) fn remark(found: &mut Found) {
    let all: Vec<_> = found.mpi.iter().chain(&found.fabric).cloned().collect();
    for rules in all {
        let externals = found.externals.iter_mut();
        for external in externals.filter(|external| external.package == rules.package) {
            let required = lacking(external, &rules.require);
            let preferred = lacking(external, &rules.prefer);
            if !required.is_empty() {
                external.checks.push(format!(
                    "its spec does not name {required}, which is required below, so Spack does not \
                     use it; if the package has it, add it to the spec"
                ));
            } else if !preferred.is_empty() {
                external.checks.push(format!(
                    "its spec does not name {preferred}, which is preferred below, so Spack builds \
                     another one; if the package has it, add it to the spec; otherwise remove the \
                     preference to use this one"
                ));
            }
        }
    }
}

/// Returns the variants of rules that an external does not name.
fn lacking(external: &External, rules: &[Rule]) -> String {
    let has = variants_of(&external.variants);
    let rules = rules.iter().filter(|rule| rule.when.is_none());
    let wanted = rules.flat_map(|rule| variants_of(&rule.spec));
    wanted.filter(|variant| !has_variant(&has, variant)).collect::<Vec<_>>().join(" ")
}

/// Takes a spec apart into its variants.
fn variants_of(spec: &str) -> Vec<String> {
    let apart = spec.replace('+', " +").replace('~', " ~");
    apart.split_whitespace().map(str::to_owned).collect()
}

fn has_variant(has: &[String], wanted: &str) -> bool {
    let Some((name, values)) = wanted.split_once('=') else {
        return has.iter().any(|variant| variant == wanted);
    };
    let mut given = has.iter().filter_map(|variant| variant.split_once('='));
    given.any(|(other, given)| {
        let given: Vec<&str> = given.split(',').collect();
        other == name && values.split(',').all(|value| given.contains(&value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_around_the_installed_ones_are_the_others() {
        let of = |versions: &[&str]| {
            let versions: Vec<Version> =
                versions.iter().filter_map(|one| Version::new(one)).collect();
            other_versions(versions.iter())
        };
        let others = [of(&[]), of(&["4.1.4"]), of(&["5.0.0", "4.1.4"]), of(&["4.1.0rc2"])];
        let expected = ["@:4.1.3,4.1.5:", "@:4.1.3,4.1.5:4,5.0.1:", "@:4.0,4.1.1:"];
        assert_eq!(others[0], None);
        assert_eq!(others[1..], expected.map(|text| Some(text.to_owned())));
    }

    #[test]
    fn an_external_has_what_is_required_only_if_it_says_so() {
        let has = variants_of("~cuda+slurm device=ch4 fabrics=cxi,rxm,tcp");
        let wanted =
            ["+slurm", "+cuda", "device=ch4", "fabrics=tcp,cxi", "fabrics=efa", "pmi=pmi2"];
        let answers = wanted.map(|variant| has_variant(&has, variant));
        assert_eq!(answers, [true, false, true, true, false, false]);
    }
}
