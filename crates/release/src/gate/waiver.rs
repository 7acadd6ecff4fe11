// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which rule a waiver is for: of `runs_on`, each host is waived by itself.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use cabane_channel::Waiver;
use cabane_label::{Digest, enumerate, escape};
use cabane_report::{Kind, Report, Result};
use jiff::civil::Date;

use super::{GateRule, GateVerdict};

/// A rule that can be waived: `age`, or `runs_on:daint.json`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaivedRule {
    rule: GateRule,
    /// The name of a file of facts.
    host: Option<String>,
}

impl WaivedRule {
    /// Checks that the files of `runs_on` have the host.
    pub(crate) fn check(&self, runs_on: &[PathBuf]) -> Result<()> {
        let names: Vec<String> = runs_on.iter().map(|file| host_of(file)).collect();
        let Some(host) = self.host.as_ref().filter(|host| !names.contains(host)) else {
            return Ok(());
        };
        let message = format!("`runs_on` of the channel has no file `{}`", escape(host));
        let report = Report::new(Kind::Usage, message);
        let values: Vec<String> =
            names.iter().map(|name| format!("--rule runs_on:{}", escape(name))).collect();
        if values.is_empty() {
            return Err(report);
        }
        Err(report.hinted(format!("use {}", enumerate(&values, "or"))))
    }
}

impl fmt::Display for WaivedRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name(self.rule, self.host.as_deref()))
    }
}

impl FromStr for WaivedRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (rule, host) = match text.split_once(':') {
            Some((rule, host)) => (rule.parse()?, Some(host.to_owned())),
            None => (text.parse()?, None),
        };
        match (rule, &host) {
            (GateRule::RunsOn, None) => {
                Err("add the file name of the facts of one host: `runs_on:FILE`".to_owned())
            }
            (GateRule::RunsOn, Some(_)) | (_, None) => Ok(Self { rule, host }),
            (_, Some(_)) => Err(format!("use {rule}")),
        }
    }
}

/// Returns the name of a rule in a waiver.
fn name(rule: GateRule, host: Option<&str>) -> String {
    host.map_or_else(|| rule.to_string(), |host| format!("{rule}:{host}"))
}

/// Returns the name of a host: that of its file of facts.
pub(super) fn host_of(file: &Path) -> String {
    file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned()
}

/// Finds the waiver of a rule for an image, on a day.
pub(super) fn waiver_of<'w>(
    waivers: &'w [Waiver],
    verdict: &GateVerdict,
    manifest: &Digest,
    day: Date,
) -> Option<&'w Waiver> {
    let rule = name(verdict.rule, verdict.host.as_deref());
    waivers.iter().find(|one| one.manifest == *manifest && one.rule == rule && one.until >= day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_read_as_it_is_written() {
        for text in ["age", "regressions", "runs_on:daint.json", "runs_on:a:b"] {
            assert_eq!(text.parse::<WaivedRule>().unwrap().to_string(), text);
        }
        for text in ["runs_on", "age:daint.json", "not_revoked", ""] {
            text.parse::<WaivedRule>().unwrap_err();
        }
    }

    #[test]
    fn a_host_is_one_of_the_channel() {
        let files = ["/etc/cabane/hosts/daint.json", "eiger.json"].map(PathBuf::from);
        let check = |text: &str| text.parse::<WaivedRule>().unwrap().check(&files);
        check("runs_on:daint.json").unwrap();
        check("age").unwrap();
        let error = check("runs_on:clariden.json").unwrap_err();
        assert!(error.to_string().contains("has no file `clariden.json`"), "{error}");
    }
}
