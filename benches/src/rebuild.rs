// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What it costs to build again with nothing changed.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::bed::Bed;
use crate::comparison::{not_measured, verdict};
use crate::measure::NotMeasured;
use crate::options::Options;
use crate::packing::write_recipe;
use crate::processor::cost_of;
use crate::report::{Section, Table};
use crate::statistics::Summary;
use crate::tree;

/// What a second build may take, in seconds.
const TARGET: f64 = 2.0;

/// Variables with which packages are found: passed on, if the caller has them.
pub(crate) const PASSED_ON: [&str; 12] = [
    "PATH",
    "CABANE_UV",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "https_proxy",
    "http_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "UV_DEFAULT_INDEX",
    "UV_INDEX_URL",
];

pub(crate) fn sections(bed: &Bed, options: &Options) -> Vec<Section> {
    let mut table = Table::new(&[
        "recipe",
        "first build, s",
        "again, s: min / median",
        "target",
        "reached",
        "runs",
    ]);
    let runs = if options.quick { 3 } else { 10 };
    let files = options.files();
    let large = large_tree(bed, files)
        .and_then(|root| write_recipe(bed, &root, Path::new("/user-environment")));
    table.push(row(bed, &format!("tree of {files} files"), large, "large", runs));
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/mpi-python");
    table.push(row(bed, "examples/mpi-python", Ok(example), "example", runs));
    vec![Section {
        title: "Building again",
        method: "`cabane build RECIPE LABEL`, and the same again with nothing changed: the \
                 whole command. How long the first build of the example takes depends on the \
                 network."
            .to_owned(),
        tables: vec![table],
        goals: Vec::new(),
        remarks: Vec::new(),
    }]
}

/// Returns the tree of the section before, made now if that was left out.
fn large_tree(bed: &Bed, files: usize) -> Result<PathBuf, NotMeasured> {
    let root = bed.path("large-tree");
    if !root.is_dir() {
        tree::make(&root, files).map_err(|error| format!("cannot make the tree: {error}"))?;
    }
    Ok(root)
}

fn row(
    bed: &Bed,
    name: &str,
    recipe: Result<PathBuf, NotMeasured>,
    label: &str,
    runs: usize,
) -> Vec<String> {
    let figures = recipe.and_then(|recipe| measure(bed, &recipe, label, runs));
    let (first, again) = match figures {
        Ok(figures) => figures,
        Err(reason) => return vec![name.to_owned(), not_measured(&reason)],
    };
    vec![
        name.to_owned(),
        format!("{first:.2}"),
        format!("{:.3} / **{:.3}**", again.minimum, again.median),
        format!("≤ {TARGET}"),
        verdict(again, TARGET).to_owned(),
        runs.to_string(),
    ]
}

fn measure(
    bed: &Bed,
    recipe: &Path,
    label: &str,
    runs: usize,
) -> Result<(f64, Summary), NotMeasured> {
    let repository = bed.path("repository-of-builds");
    if !repository.is_dir() {
        let cabane = bed.cabane.as_ref().map_err(Clone::clone)?;
        cost_of(bed.command(cabane).args(["repo", "create"]).arg(&repository))?;
    }
    let mut command = build(bed, &repository, recipe, label)?;
    let first = cost_of(&mut command)?.wall;
    let mut again = Vec::new();
    for _ in 0..runs {
        again.push(cost_of(&mut command)?.wall);
    }
    Ok((first, Summary::of(&again).ok_or("no runs")?))
}

fn build(bed: &Bed, repository: &Path, recipe: &Path, label: &str) -> Result<Command, NotMeasured> {
    let mut command = bed.cabane(repository)?;
    for name in PASSED_ON {
        if let Some(value) = env::var_os(name) {
            command.env(name, value);
        }
    }
    command.arg("build").arg(recipe).arg(format!("{label}/1:v1@here%any"));
    Ok(command)
}
