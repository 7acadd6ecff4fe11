// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What MPIs say about how they were built, as Spack names it.
//!
//! Only what is reported plainly becomes a variant. Whatever it is, the names come from
//! fixed lists.

use crate::version::{Version, signs};

/// Returns the variants of an MPICH from what `mpichversion` says.
pub(crate) fn mpich_variants(text: &str) -> String {
    let value = |option: &str| {
        let mut arguments = text.split(|c: char| c.is_whitespace() || matches!(c, '\'' | '"'));
        arguments.find_map(|argument| argument.strip_prefix(option))
    };
    let device = text.lines().find_map(|line| line.strip_prefix("MPICH Device:"));
    let device = device.map(str::trim).unwrap_or_default();
    let (kind, netmod) = device.split_once(':').unwrap_or((device, ""));
    let mut signs = String::new();
    if value("--with-cuda").is_some_and(|value| value != "=no") {
        signs += "+cuda";
    }
    if value("--disable-fortran").is_some() || value("--enable-fortran=no").is_some() {
        signs += "~fortran";
    }
    if value("--with-pm=hydra").is_some() {
        signs += "+hydra";
    }
    if value("--disable-romio").is_some() {
        signs += "~romio";
    }
    if value("--with-slurm").is_some_and(|value| value != "=no") {
        signs += "+slurm";
    }
    if value("--disable-wrapper-rpath").is_some() || value("--enable-wrapper-rpath=no").is_some() {
        signs += "~wrapperrpath";
    }
    let mut values = Vec::new();
    if let Some(kind) = ["ch3", "ch4"].into_iter().find(|known| *known == kind) {
        values.push(format!("device={kind}"));
    }
    let netmods = ["ofi", "ucx", "tcp"];
    if let Some(netmod) = netmods.into_iter().find(|known| netmod.contains(known)) {
        values.push(format!("netmod={netmod}"));
    }
    let pmi = [("=pmix", "pmix"), ("=pmi2", "pmi2"), ("=cray", "cray")];
    let configured = value("--with-pmi").or_else(|| value("--with-pm"));
    if let Some((_, pmi)) =
        pmi.into_iter().find(|(value, _)| configured.is_some_and(|s| s.starts_with(value)))
    {
        values.push(format!("pmi={pmi}"));
    }
    join(signs, values)
}

/// The components of an Open MPI that belong to a variant of Spack: the frameworks in
/// which one may be, its name there, and the value.
type Components = [(&'static [&'static str], &'static str, &'static str)];

const FABRICS: &Components = &[
    (&["smsc"], "cma", "cma"),
    (&["coll"], "fca", "fca"),
    (&["coll"], "hcoll", "hcoll"),
    (&["btl", "smsc"], "knem", "knem"),
    (&["mtl", "pml"], "mxm", "mxm"),
    (&["mtl", "btl"], "ofi", "ofi"),
    (&["mtl"], "psm", "psm"),
    (&["mtl"], "psm2", "psm2"),
    (&["coll"], "ucc", "ucc"),
    (&["pml"], "ucx", "ucx"),
    (&["btl"], "openib", "verbs"),
    (&["smsc"], "xpmem", "xpmem"),
];

const SCHEDULERS: &Components = &[
    (&["prrte", "ras"], "alps", "alps"),
    (&["prrte", "ras"], "loadleveler", "loadleveler"),
    (&["prrte", "ras"], "lsf", "lsf"),
    (&["prrte", "ras"], "gridengine", "sge"),
    (&["prrte", "ras"], "slurm", "slurm"),
    (&["prrte", "ras"], "tm", "tm"),
];

/// What `ompi_info -a` says.
struct OmpiInfo<'t> {
    text: &'t str,
    /// The components with their frameworks, such as `pml` and `ucx`.
    components: Vec<(&'t str, &'t str)>,
}

impl<'t> OmpiInfo<'t> {
    fn new(text: &'t str) -> Self {
        let component = |line: &'t str| {
            let (framework, rest) = line.trim().strip_prefix("MCA ")?.split_once(": ")?;
            Some((framework.trim(), rest.split([' ', '(']).next()?))
        };
        Self { text, components: text.lines().filter_map(component).collect() }
    }

    fn has(&self, frameworks: &[&str], name: &str) -> bool {
        let mut all = self.components.iter();
        all.any(|(framework, component)| frameworks.contains(framework) && *component == name)
    }

    /// Whether a line such as `C++ bindings: yes` says yes, if there is one.
    fn answer(&self, key: &str) -> Option<bool> {
        let value = self.text.lines().find_map(|line| line.trim().strip_prefix(key))?;
        Some(!value.trim().starts_with("no"))
    }

    fn is_on(&self, key: &str) -> bool {
        self.answer(key) == Some(true)
    }

    fn is_built_with(&self, what: &str) -> bool {
        let mark = format!("mpi_built_with_{what}_support\" (current value: \"true\"");
        self.text.contains(&mark)
    }

    /// The values of a variant. Before release 5, the transport in shared memory lists what
    /// copies between processes, each with a number.
    fn values(&self, known: &Components) -> Vec<&'static str> {
        let copies = self.text.split_once("Single copy mechanism to use").map(|(_, rest)| rest);
        let copies = copies.and_then(|rest| rest.lines().nth(1)).unwrap_or_default();
        let is_there = |(frameworks, name, _): &&(&[&str], &str, &str)| {
            self.has(frameworks, name)
                || frameworks.contains(&"smsc") && copies.contains(&format!(":\"{name}\""))
        };
        known.iter().filter(is_there).map(|(_, _, value)| *value).collect()
    }

    /// Whether it brings its own `PMIx`, if it says so.
    fn has_own_pmix(&self) -> Option<bool> {
        let options = [("--with-pmix=internal", true), ("--with-pmix=", false)];
        let option = options.into_iter().find(|(option, _)| self.text.contains(option));
        let is_own =
            |(framework, name): &(&str, &str)| *framework == "pmix" && name.starts_with("pmix");
        let component = self.components.iter().any(is_own).then_some(true);
        option.map(|(_, is_own)| is_own).or(component)
    }
}

/// Returns the variants of an Open MPI of some version from what `ompi_info -a` says.
/// `has_launcher` tells whether `mpirun` is beside it.
///
/// Spack has some variants for some versions only, and does not know an external that
/// names one at another version.
pub(crate) fn openmpi_variants(text: &str, version: &Version, has_launcher: bool) -> String {
    let info = OmpiInfo::new(text);
    let major = version.as_str().split('.').next().and_then(|text| text.parse::<u32>().ok());
    let major = major.unwrap_or_default();
    let schedulers = info.values(SCHEDULERS);
    let has_slurm = schedulers.contains(&"slurm");
    let mut parts = vec![("cuda", info.is_built_with("cuda"))];
    if major <= 4 {
        parts.push(("cxx", info.is_on("C++ bindings:")));
        parts.push(("cxx_exceptions", info.is_on("C++ exceptions:")));
    }
    parts.extend(info.answer("Fort mpif.h:").map(|is_on| ("fortran", is_on)));
    if let Some(is_own) = info.has_own_pmix().filter(|_| major >= 3) {
        parts.push(("internal-pmix", is_own));
    }
    parts.push(("java", info.is_on("Java bindings:")));
    if has_slurm && major <= 4 {
        parts.push(("legacylaunchers", has_launcher));
    }
    parts.push(("memchecker", info.is_on("Memory debugging support:")));
    if has_slurm && major <= 4 {
        parts.push(("pmi", info.has(&["ess", "prrte"], "pmi")));
    }
    parts.push(("rocm", info.is_built_with("rocm")));
    let mut io = info.components.iter().filter(|(framework, _)| *framework == "io").peekable();
    if io.peek().is_some() {
        parts.push(("romio", io.any(|(_, name)| name.starts_with("romio"))));
    }
    parts.push(("wrapper-rpath", info.is_on("Wrapper compiler rpath:")));
    let list = |values: Vec<&str>| {
        if values.is_empty() { "none".to_owned() } else { values.join(",") }
    };
    let values = vec![
        format!("fabrics={}", list(info.values(FABRICS))),
        format!("schedulers={}", list(schedulers)),
    ];
    join(signs(&parts), values)
}

/// Writes signs without blanks and values with, as Spack does.
fn join(signs: String, values: Vec<String>) -> String {
    let first = Some(signs).filter(|signs| !signs.is_empty());
    first.into_iter().chain(values).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_of_an_mpich_shows_its_network() {
        let text = "MPICH Version:\t4.2.1\nMPICH Device:\tch4:ofi\nMPICH configure: \
                    \t'--with-slurm=/usr' '--disable-fortran'\n";
        assert_eq!(mpich_variants(text), "~fortran+slurm device=ch4 netmod=ofi");
    }

    #[test]
    fn components_of_an_open_mpi_show_its_fabrics_and_schedulers() {
        let text = "\
                 MCA pml: ucx (MCA v2.1.0, API v2.0.0, Component v4.1.4)
                 MCA mtl: ofi (MCA v2.1.0, API v2.0.0, Component v4.1.4)
                 MCA ras: slurm (MCA v2.1.0, API v2.0.0, Component v4.1.4)
   MCA mpi: parameter \"mpi_built_with_cuda_support\" (current value: \"true\", data source: default)";
        let variants = openmpi_variants(text, &Version::new("4.1.4").unwrap(), true);
        let expected = "+cuda~cxx~cxx_exceptions~java+legacylaunchers~memchecker~pmi~rocm\
                        ~wrapper-rpath fabrics=ofi,ucx schedulers=slurm";
        assert_eq!(variants, expected);
    }

    #[test]
    fn an_open_mpi_has_no_variants_of_other_releases() {
        let text = "\
  Configure command line: '--prefix=/opt/openmpi' '--with-pmix=internal'
             Fort mpif.h: yes (all)
           Java bindings: no
  Wrapper compiler rpath: runpath
                MCA smsc: cma (MCA v2.1.0, API v1.0.0, Component v5.0.11)
                  MCA io: romio341 (MCA v2.1.0, API v2.0.0, Component v5.0.11)";
        let variants = openmpi_variants(text, &Version::new("5.0.11").unwrap(), true);
        let expected = "~cuda+fortran+internal-pmix~java~memchecker~rocm+romio+wrapper-rpath \
                        fabrics=cma schedulers=none";
        assert_eq!(variants, expected);
    }

    #[test]
    fn an_older_open_mpi_says_how_it_copies_between_processes() {
        let text = "\
           MCA btl vader: parameter \"btl_vader_single_copy_mechanism\" (current value: \"cma\")
                          Single copy mechanism to use (defaults to best available)
                          Valid values: 1:\"cma\", 4:\"emulated\", 3:\"none\"";
        let variants = openmpi_variants(text, &Version::new("4.1.4").unwrap(), true);
        assert!(variants.ends_with(" fabrics=cma schedulers=none"), "{variants}");
    }
}
