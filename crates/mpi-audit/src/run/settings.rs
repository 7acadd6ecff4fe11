// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Settings with which a slow library may be faster.
//!
//! They are known names of known libraries, and not reported before a run has shown that
//! they help here.

use std::process::Command;

use serde::Serialize;

use crate::Installation;
use crate::benchmark::BenchmarkOutput;
use crate::judge::{Change, Way};

/// The largest message that is passed in a slot instead of being copied by the kernel.
const SLOT: &str = "65536";
/// What the names of variables begin with that choose how libraries send.
const CHOOSING: [&str; 7] = ["OMPI_MCA_", "MPIR_CVAR_", "MPICH_", "UCX_", "FI_", "I_MPI_", "PSM"];
/// What the names of those end with that only say where something is.
const PLACES: [&str; 5] = ["_PATH", "_ROOT", "_DIR", "_HOME", "_PREFIX"];

/// Variables that differ from how the installation sets them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OtherSettings {
    /// Those that are set.
    pub set: Vec<(String, String)>,
    /// Those of the installation that are not set.
    pub unset: Vec<String>,
}

impl OtherSettings {
    /// Those worth a run for a library whose messages go such a way.
    pub(super) fn worth_trying(
        one: &Installation,
        output: &BenchmarkOutput,
        way: &Way,
    ) -> Vec<Self> {
        let chosen: Vec<_> = (one.variables.keys())
            .filter(|name| CHOOSING.iter().any(|start| name.starts_with(start)))
            .filter(|name| !PLACES.iter().any(|end| name.ends_with(end)))
            .cloned()
            .collect();
        let mut all = Vec::new();
        if !chosen.is_empty() {
            all.push(Self { set: Vec::new(), unset: chosen });
        }
        if way.is_copied_by_kernel() {
            let library = output.library.as_deref().unwrap_or_default();
            let name = match library {
                _ if library.starts_with("Open MPI v4") => "OMPI_MCA_btl_vader_eager_limit",
                _ if library.starts_with("Open MPI") => "OMPI_MCA_btl_sm_eager_limit",
                _ => "UCX_RNDV_THRESH",
            };
            let set = vec![(name.to_owned(), SLOT.to_owned())];
            all.push(Self { set, unset: Vec::new() });
        }
        all
    }

    pub(super) fn apply(&self, command: &mut Command) {
        for name in &self.unset {
            command.env_remove(name);
        }
        command.envs(self.set.iter().map(|(name, value)| (name, value)));
    }
}

/// Settings that help, and how much they did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// The settings.
    pub settings: OtherSettings,
    /// What they changed, where the installation is slowest.
    pub change: Change,
}

impl std::fmt::Display for Advice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use crate::judge::{short, size};
        let set = self.settings.set.iter();
        let set: Vec<_> = set.map(|(name, value)| format!("{name}={value}")).collect();
        let (how, what) = if set.is_empty() {
            ("without", self.settings.unset.join(", "))
        } else {
            ("with", set.join(" "))
        };
        let Change { bytes, before, after } = self.change;
        write!(
            f,
            "{how} {what} {} take {} µs instead of {}",
            size(bytes),
            short(after),
            short(before)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Origin;
    use crate::judge::way;

    const COPIED: &str = "way 4096 100 0 100 0";

    fn tried(library: &str, variables: &[&str]) -> Vec<OtherSettings> {
        let mut one = Installation::new("one", Origin::Module("one".to_owned()));
        for name in variables {
            one.variables.insert((*name).to_owned(), "x".to_owned());
        }
        let output = BenchmarkOutput::from_output(&format!("library {library}\n{COPIED}\n"));
        OtherSettings::worth_trying(&one, &output, &way(&output, 4096).unwrap())
    }

    #[test]
    fn what_is_tried_belongs_to_the_release_of_the_library() {
        let name = |library| tried(library, &[])[0].set[0].0.clone();
        let names = ["Open MPI v4.1.8,", "Open MPI v5.0.11,", "MPICH Version: 4.0"].map(name);
        assert_eq!(
            names,
            ["OMPI_MCA_btl_vader_eager_limit", "OMPI_MCA_btl_sm_eager_limit", "UCX_RNDV_THRESH"]
        );
    }

    #[test]
    fn what_a_module_chooses_is_left_out_and_where_it_is_stays() {
        let all = tried("MPICH", &["UCX_TLS", "I_MPI_ROOT", "PATH", "FI_PROVIDER_PATH"]);
        assert_eq!(all[0].unset, ["UCX_TLS"]);
    }

    #[test]
    fn advice_can_be_typed_and_says_what_it_gave() {
        let change = Change { bytes: 4096, before: 2.5, after: 0.29 };
        let set = vec![("A".to_owned(), "1".to_owned())];
        let advice = Advice { settings: OtherSettings { set, unset: Vec::new() }, change };
        assert_eq!(advice.to_string(), "with A=1 4 KiB take 0.29 µs instead of 2.50");
    }
}
