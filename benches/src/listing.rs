// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a list of ten thousand images costs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::bed::Bed;
use crate::comparison::{not_measured, verdict};
use crate::goal::Goal;
use crate::measure::{Candidate, NotMeasured, Rounds, alternate, finish, repeat};
use crate::options::Options;
use crate::peers;
use crate::report::{Section, Table};
use crate::statistics::Summary;
use crate::tree::Random;

pub(crate) const RECORDS: usize = 10_000;
/// What a list may take, in milliseconds.
const GOAL: f64 = 30.0;
const LIST: Option<f64> = Some(GOAL);
/// The label of the one image that is really added; the others are made like it.
const MODEL: &str = "model/1:v1@here%any";
const SYSTEMS: [&str; 4] = ["here", "daint", "eiger", "clariden"];
const UARCHS: [&str; 3] = ["zen2", "zen3", "gh200"];

pub(crate) fn sections(bed: &Bed, options: &Options) -> Vec<Section> {
    let mut table =
        Table::new(&["command", "ms: min / median [quartiles]", "target", "reached", "runs"]);
    let (mut goals, mut remarks) = (Vec::new(), Vec::new());
    match fill_repository(bed) {
        Ok(repository) => {
            let goal = measure(bed, &repository, options.long_rounds(), &mut table);
            goals.push(goal);
        }
        Err(reason) => remarks.push(format!("Not measured: {reason}.")),
    }
    vec![Section {
        title: "Lists",
        method: format!(
            "A repository with {RECORDS} images under as many labels, everything in the page \
             cache; the whole command, output to nowhere. Without the index every file of the \
             repository is read."
        ),
        tables: vec![table],
        goals,
        remarks,
    }]
}

fn measure(bed: &Bed, repository: &Path, rounds: Rounds, table: &mut Table) -> Goal {
    let cabane = |name: &str, arguments: &[&str]| {
        let command = bed.cabane(repository).map(|mut command| {
            command.args(arguments);
            command
        });
        Candidate::new(name, command)
    };
    let list = || cabane("`cabane image ls`", &["image", "ls"]);
    let json = || cabane("`cabane image ls --json`", &["image", "ls", "--json"]);
    let one = || cabane("`cabane image ls NAME`", &["image", "ls", "image-0042"]);
    let dry = ["run", "--dry-run", MODEL, "--", "/bin/true"];
    let dry = || cabane("`cabane run --dry-run LABEL`", &dry);
    let times = pair(table, list(), json(), rounds, [LIST, LIST]);
    let goal = Goal::at_most("`image ls` with 10,000 images", GOAL, "ms")
        .reached_by("table", times.0)
        .reached_by("`--json`", times.1);
    pair(table, one(), dry(), rounds, [LIST, None]);
    let few = Rounds { warm_up: 1, pairs: (rounds.pairs / 8).max(3) };
    let index = repository.join("index");
    if let Err(error) = fs::remove_file(&index) {
        table.push(vec!["without the index".into(), not_measured(&error.to_string())]);
        return goal;
    }
    // A reader writes no index, so each of these finds none.
    let cold = || cabane("`cabane image ls`, no index", &["image", "ls"]);
    let cold_json = || cabane("`cabane image ls --json`, no index", &["image", "ls", "--json"]);
    pair(table, cold(), cold_json(), few, [None, None]);
    let path = repository.to_string_lossy();
    let mut update = cabane("`cabane repo update`", &["repo", "update", &path]);
    let times = repeat(&mut update, few);
    table.push(match times {
        Ok(times) => row(update.name, times, None, few.pairs),
        Err(reason) => vec![update.name, not_measured(&reason)],
    });
    goal
}

/// Runs two commands in turn and adds a row for each.
pub(crate) fn pair(
    table: &mut Table,
    mut first: Candidate,
    mut second: Candidate,
    rounds: Rounds,
    targets: [Option<f64>; 2],
) -> (Option<Summary>, Option<Summary>) {
    match alternate(&mut first, &mut second, rounds) {
        Ok(pairs) => {
            table.push(row(first.name, pairs.first(), targets[0], pairs.count()));
            table.push(row(second.name, pairs.second(), targets[1], pairs.count()));
            (pairs.first(), pairs.second())
        }
        Err(reason) => {
            table.push(vec![first.name, not_measured(&reason)]);
            table.push(vec![second.name, not_measured(&reason)]);
            (None, None)
        }
    }
}

fn row(name: String, summary: Option<Summary>, target: Option<f64>, runs: usize) -> Vec<String> {
    let Some(summary) = summary else {
        return vec![name, not_measured("no runs")];
    };
    let Summary { minimum, lower_quartile, median, upper_quartile } = summary;
    vec![
        name,
        format!("{minimum:.1} / **{median:.1}** [{lower_quartile:.1}, {upper_quartile:.1}]"),
        target.map_or(String::new(), |target| format!("≤ {target}")),
        target.map_or("", |target| verdict(summary, target)).to_owned(),
        runs.to_string(),
    ]
}

/// Adds one image and makes the others like it.
///
/// Adding ten thousand images one after the other would take longer than everything
/// that is measured. The layout of a repository is documented and all plain files;
/// `repo update` then brings the index up to date, and the count is checked.
pub(crate) fn fill_repository(bed: &Bed) -> Result<PathBuf, NotMeasured> {
    fill(bed, bed.path("large-repository"), RECORDS)
}

/// The same with so many images.
pub(crate) fn fill(bed: &Bed, repository: PathBuf, records: usize) -> Result<PathBuf, NotMeasured> {
    let cabane = bed.cabane.as_ref().map_err(Clone::clone)?;
    finish(bed.command(cabane).args(["repo", "create"]).arg(&repository))?;
    let image = tiny_image(bed)?;
    finish(bed.cabane(&repository)?.args(["image", "add", MODEL]).arg(&image))?;
    multiply(&repository, records)
        .map_err(|error| format!("cannot fill the repository: {error}"))?;
    finish(bed.cabane(&repository)?.args(["repo", "update"]).arg(&repository))?;
    let list = finish(bed.cabane(&repository)?.args(["image", "ls"]))?;
    match String::from_utf8_lossy(&list).lines().filter(|line| line.contains("/1")).count() {
        count if count == records => Ok(repository),
        count => Err(format!("the repository lists {count} of {records} images")),
    }
}

pub(crate) fn tiny_image(bed: &Bed) -> Result<PathBuf, NotMeasured> {
    let (tree, image) = (bed.path("tiny"), bed.path("tiny.squashfs"));
    let meta = r#"{"name": "model", "description": "one of many images", "mount": "/user-environment",
 "default-view": "default", "views": {"default": {"description": "everything"}, "modules": {}}}"#;
    fs::create_dir_all(tree.join("meta"))
        .and_then(|()| fs::write(tree.join("meta/env.json"), meta))
        .map_err(|error| format!("cannot write metadata: {error}"))?;
    let mut pack = bed.command(peers::MKSQUASHFS.find()?);
    finish(pack.arg(&tree).arg(&image).args(["-noappend", "-no-progress", "-quiet"]))?;
    Ok(image)
}

/// Copies the one image and its ref, the name of whose file begins with the parts of the
/// label and the short digest.
fn multiply(repository: &Path, records: usize) -> io::Result<()> {
    let (images, refs) = (repository.join("images"), repository.join("refs"));
    let digest = only_entry(&images)?;
    let file = only_entry(&refs)?;
    let text = fs::read_to_string(refs.join(&file))?;
    let model = images.join(&digest);
    let mut random = Random::new(10_000);
    for number in 1..records {
        let parts: Vec<String> = (0..4).map(|_| format!("{:016x}", random.next())).collect();
        let new_digest = parts.concat();
        let name = format!("image-{:04}/1.{}", number / 10, number % 10);
        let label = format!("{name}:v1@{}%{}", SYSTEMS[number % 4], UARCHS[number % 3]);
        let comma = |label: &str| label.replace(['/', ':', '@', '%'], ",");
        let new_file =
            file.replace(&comma(MODEL), &comma(&label)).replace(&digest[..16], &new_digest[..16]);
        let new = images.join(&new_digest);
        fs::create_dir_all(new.join("meta"))?;
        fs::hard_link(model.join("image"), new.join("image"))?;
        fs::hard_link(model.join("meta/env.json"), new.join("meta/env.json"))?;
        let new_text = text.replace(MODEL, &label).replace(&digest, &new_digest);
        fs::write(refs.join(new_file), new_text)?;
    }
    Ok(())
}

pub(crate) fn only_entry(directory: &Path) -> io::Result<String> {
    let entry = fs::read_dir(directory)?.next();
    let entry = entry.ok_or_else(|| io::Error::other("the image was not added"))??;
    Ok(entry.file_name().to_string_lossy().into_owned())
}
