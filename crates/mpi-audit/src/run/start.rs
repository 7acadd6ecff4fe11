// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! How ranks are started: by the launcher of the library, or by Slurm.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Installation;

/// How ranks are started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Manner {
    /// By the launcher of each installation, on this node.
    Launcher,
    /// By `srun`, over some nodes.
    Slurm {
        /// The program.
        srun: PathBuf,
        /// How many nodes.
        nodes: u32,
        /// The ways in which it can introduce ranks to each other.
        types: PmiTypes,
    },
}

/// The values that `srun --mpi=` knows, as `srun --mpi=list` prints them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PmiTypes(BTreeSet<String>);

impl PmiTypes {
    /// Takes them from what `srun --mpi=list` says, in any of its releases.
    pub fn from_list(output: &str) -> Self {
        let known = |kind: &&str| {
            ["none", "pmi2", "pmix", "cray_shasta"].contains(kind) || kind.starts_with("pmix_v")
        };
        let kinds = output.split(|c: char| c.is_whitespace() || matches!(c, ':' | ','));
        Self(kinds.filter(known).map(str::to_owned).collect())
    }

    /// Whether `srun` knows a value.
    pub fn has(&self, pmi: &str) -> bool {
        self.0.contains(pmi)
    }

    /// Those to be tried for an installation, the likeliest first.
    ///
    /// A wrong one makes every rank a world of its own, which is seen and the next tried.
    pub fn for_installation(&self, one: &Installation) -> Vec<String> {
        let order: &[&str] =
            if is_open_mpi(one) { &["pmix", "pmi2"] } else { &["cray_shasta", "pmi2", "pmix"] };
        let is_there = |kind: &&&str| self.0.contains(**kind);
        order.iter().filter(is_there).map(|kind| (*kind).to_owned()).collect()
    }
}

/// Whether the wrapper or the library is one of Open MPI.
fn is_open_mpi(one: &Installation) -> bool {
    let wrapper = one.wrapper.as_deref().and_then(|path| path.canonicalize().ok());
    let is_opal = |path: PathBuf| path.ends_with("opal_wrapper");
    let soname = one.soname.as_deref().unwrap_or_default();
    wrapper.is_some_and(is_opal)
        || one.name.to_lowercase().contains("openmpi")
        || soname.strip_prefix("libmpi.so.").is_some_and(|number| number != "12")
}

/// Prepares a command in an installation, with the arguments before it and its variables.
pub(super) fn command(one: &Installation, program: &Path) -> Command {
    let mut arguments = one.enter.iter().map(AsRef::as_ref).chain([program.as_os_str()]);
    let mut command = Command::new(arguments.next().unwrap_or_default());
    command.args(arguments).envs(&one.variables);
    command
}

/// Prepares the start of ranks; `None` if there is nothing that starts them.
pub(super) fn ranks(
    one: &Installation,
    manner: &Manner,
    pmi: Option<&str>,
    ranks: u32,
    program: &Path,
) -> Option<Command> {
    let count = ranks.to_string();
    let mut command = match manner {
        Manner::Launcher => {
            let mut command = command(one, one.launcher.as_deref()?);
            command.args(["-n", &count]).arg(program);
            command
        }
        Manner::Slurm { srun, nodes, .. } => {
            let mut command = Command::new(srun);
            command.args([format!("--nodes={nodes}"), format!("--ntasks={count}")]);
            command.args(pmi.map(|pmi| format!("--mpi={pmi}"))).args(&one.enter).arg(program);
            command.envs(&one.variables);
            command
        }
    };
    command.envs(launcher_variables(ranks));
    Some(command)
}

/// Returns the variables that let Open MPI start ranks for root, and more of them than there are
/// processors. Other libraries ignore them.
pub fn launcher_variables(ranks: u32) -> Vec<(&'static str, &'static str)> {
    let mut all = vec![
        ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
        ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
        ("PRTE_ALLOW_RUN_AS_ROOT", "1"),
        ("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ];
    let available = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if usize::try_from(ranks).is_ok_and(|ranks| ranks > available) {
        all.push(("OMPI_MCA_rmaps_base_oversubscribe", "1"));
        all.push(("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Origin;

    fn named(name: &str) -> Installation {
        Installation::new(name, Origin::Module(name.to_owned()))
    }

    #[test]
    fn the_list_of_a_newer_slurm_is_understood() {
        let output = "MPI plugin types are...\n\tcray_shasta\n\tnone\n\tpmi2\n\tpmix\nspecific pmix \
                    plugin versions available: pmix_v4,pmix_v5\n";
        let types = PmiTypes::from_list(output);
        let expected = ["cray_shasta", "none", "pmi2", "pmix", "pmix_v4", "pmix_v5"];
        assert!(types.0.iter().eq(expected), "{types:?}");
    }

    #[test]
    fn the_list_of_an_older_slurm_is_understood() {
        let output = "srun: MPI types are...\nsrun: none\nsrun: pmi2\nsrun: pmix\n";
        assert_eq!(
            PmiTypes::from_list(output).0.into_iter().collect::<Vec<_>>(),
            ["none", "pmi2", "pmix"]
        );
    }

    #[test]
    fn open_mpi_wants_pmix_and_others_do_not() {
        let types = PmiTypes::from_list("none pmi2 pmix");
        let first = |name| types.for_installation(&named(name)).remove(0);
        assert_eq!((first("openmpi/5"), first("mpich/4")), ("pmix".into(), "pmi2".into()));
    }
}
