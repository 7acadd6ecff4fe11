// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From what was seen to what it means. Nothing is touched here.

mod checks;
mod configuration;
mod helper;
mod kernel;
mod methods;
mod search_path;
#[cfg(test)]
mod tests;
mod user;

use super::facts::Facts;
use super::finding::{Diagnosis, State};

/// Judges everything.
pub(crate) fn judge(facts: &Facts) -> Diagnosis {
    let (ways, choice, mut findings) = methods::judge(facts);
    findings.extend(kernel::judge(facts));
    findings.extend(facts.unpacked.as_ref().map(helper::judge_unpacked));
    findings.extend(configuration::judge(facts));
    findings.extend(search_path::judge(facts));
    let is_broken = findings.iter().any(|finding| finding.state == State::Problem);
    Diagnosis {
        version: env!("CARGO_PKG_VERSION"),
        healthy: choice.works && !is_broken,
        choice,
        ways,
        findings,
    }
}
