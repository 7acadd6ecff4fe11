// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What MPIs say about how they were built, as Spack names it.
//!
//! Only what is reported plainly becomes a variant. Whatever it is, the names come from
//! fixed lists.

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
    if value("--disable-fortran").is_some() || value("--enable-fortran=no").is_some() {
        signs += "~fortran";
    }
    if value("--disable-romio").is_some() {
        signs += "~romio";
    }
    if value("--with-slurm").is_some_and(|value| value != "=no") {
        signs += "+slurm";
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

/// Returns the variants of an Open MPI from what `ompi_info -a` says.
pub(crate) fn openmpi_variants(text: &str) -> String {
    let components: Vec<(&str, &str)> = text
        .lines()
        .filter_map(|line| {
            let (framework, rest) = line.trim().strip_prefix("MCA ")?.split_once(": ")?;
            Some((framework.trim(), rest.split([' ', '(']).next()?))
        })
        .collect();
    let of = |frameworks: &[&str], names: &[&'static str]| {
        let is_there = |name: &&&str| {
            let mut all = components.iter();
            all.any(|(framework, component)| frameworks.contains(framework) && *component == **name)
        };
        let there: Vec<&str> = names.iter().filter(is_there).copied().collect();
        if there.is_empty() { "none".to_owned() } else { there.join(",") }
    };
    let is_built_with = |what: &str| {
        let mark = format!("mpi_built_with_{what}_support\" (current value: \"true\"");
        if text.contains(&mark) { '+' } else { '~' }
    };
    let fabrics = ["knem", "ofi", "psm", "psm2", "ucx", "verbs"];
    let schedulers = ["alps", "loadleveler", "lsf", "sge", "slurm", "tm"];
    let signs = format!("{}cuda{}rocm", is_built_with("cuda"), is_built_with("rocm"));
    let values = vec![
        format!("fabrics={}", of(&["mtl", "btl", "pml"], &fabrics)),
        format!("schedulers={}", of(&["prrte", "ras"], &schedulers)),
    ];
    join(signs, values)
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
        let variants = openmpi_variants(text);
        assert_eq!(variants, "+cuda~rocm fabrics=ofi,ucx schedulers=slurm");
    }
}
