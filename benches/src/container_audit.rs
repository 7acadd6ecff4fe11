// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! How long it takes to try every MPI that `scripts/setup test` has brought.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::bed::Bed;
use crate::goal::Goal;
use crate::measure::{NotMeasured, finish};
use crate::options::Options;
use crate::processor::{Cost, cost_of};
use crate::ranks::LIBRARIES;
use crate::report::{Section, Table};
use crate::statistics::Summary;
use crate::users::as_ordinary_user;

const TITLE: &str = "Containers: the audit of MPI";
/// How many seconds each may take: twenty of them five minutes.
const EACH: f64 = 15.0;
const METHOD: &str = "\
`cabane mpi audit` of the installations that `scripts/setup test` provides, with two ranks on \
this machine: compile, start, and measure twice; doubtful ones are measured twice more. One run, \
as an ordinary user.";

pub(crate) fn section(bed: &Bed, _options: &Options) -> Section {
    let prepared = prepare(bed);
    match prepared.and_then(|prefixes| as_ordinary_user(|| audit(bed, &prefixes))) {
        Ok((cost, classes)) => reported(cost, &classes),
        Err(reason) => Section::not_measured(TITLE, &reason),
    }
}

/// Copies the installations to where every user may read them.
fn prepare(bed: &Bed) -> Result<Vec<PathBuf>, NotMeasured> {
    let failed = |error: std::io::Error| format!("there is no MPI in .cabane: {error}");
    let place = bed.directory("audit")?;
    let mut prefixes = Vec::new();
    for entry in fs::read_dir(Path::new(LIBRARIES)).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        // Others are there that are no prefixes.
        if path.join("bin/mpiexec").exists() {
            let copy = place.join(path.file_name().unwrap_or_default());
            finish(bed.command("cp").arg("-r").arg(&path).arg(&copy))?;
            prefixes.push(copy);
        }
    }
    if prefixes.is_empty() {
        return Err("there is no MPI in .cabane; `scripts/setup test` brings some".to_owned());
    }
    prefixes.sort();
    Ok(prefixes)
}

/// Runs the audit once, and counts how many installations are of which class.
fn audit(bed: &Bed, prefixes: &[PathBuf]) -> Result<(Cost, BTreeMap<String, usize>), NotMeasured> {
    let output = bed.path("audit").join("audit.json");
    let text = r#"output=$1; shift; exec "$@" --json >"$output""#;
    let mut command = bed.command("/bin/sh");
    command.args(["-c", text, "sh"]).arg(&output);
    command.arg(bed.cabane.as_ref().map_err(Clone::clone)?);
    let cost = cost_of(command.args(["mpi", "audit"]).args(prefixes))?;
    let printed = fs::read_to_string(&output).map_err(|error| error.to_string())?;
    Ok((cost, classes(&printed)))
}

/// Finds the classes of the installations; what belongs to their parts is further in.
fn classes(json: &str) -> BTreeMap<String, usize> {
    let mut classes = BTreeMap::new();
    for line in json.lines() {
        let class = line.strip_prefix("      \"class\": \"");
        if let Some((class, _)) = class.and_then(|rest| rest.split_once('"')) {
            *classes.entry(class.to_owned()).or_default() += 1;
        }
    }
    classes
}

fn reported(cost: Cost, classes: &BTreeMap<String, usize>) -> Section {
    let count: usize = classes.values().sum();
    let mut table = Table::new(&["installations", "s", "s for each", "processor, s", "classes"]);
    let number = u32::try_from(count).map_or(f64::NAN, f64::from);
    let names: Vec<String> =
        classes.iter().map(|(class, count)| format!("{count} {class}")).collect();
    table.push(vec![
        count.to_string(),
        format!("**{:.1}**", cost.wall),
        format!("{:.1}", cost.wall / number),
        format!("{:.1}", cost.user + cost.system),
        names.join(", "),
    ]);
    let each = Summary::of(&[cost.wall / number]);
    let goal = Goal::at_most("audit of an MPI installation", EACH, "s").reached_by("each", each);
    Section {
        title: TITLE,
        method: METHOD.to_owned(),
        tables: vec![table],
        goals: vec![goal],
        remarks: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::classes;

    #[test]
    fn installations_are_counted_and_not_their_parts() {
        let json = "{\n      \"class\": \"working\",\n        \"class\": \"slow\"\n      \"class\": \"working\",\n}";
        let found = classes(json);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [("working".to_owned(), 2)]);
    }
}
