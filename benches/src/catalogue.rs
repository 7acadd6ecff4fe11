// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! How long the web site of ten thousand images takes to write, how large its first page is, and how it is in a
//! browser; and the same for the recipes of a public collection.

use std::fs;
use std::path::Path;
use std::time::Instant;

use cabane_catalogue::{CatalogueInput, OtherEntries, build};

use crate::bed::Bed;
use crate::catalogue_browser::{self, Seen};
use crate::catalogue_input::LargeSite;
use crate::catalogue_recipes;
use crate::goal::Goal;
use crate::measure::NotMeasured;
use crate::options::Options;
use crate::report::{Section, Table};
use crate::statistics::Summary;

const TITLE: &str = "The catalog of ten thousand images";
const METHOD: &str = "\
A site that does not exist: 10,000 images (1,000 in a quick run) with 300 packages each, of 2,000 names \
and 8 versions, with variants and a compiler. Each image has the statements of two test runs, with 4 figures, \
and of its build. Versions are random, so each image differs from the one before in most packages. The site is \
written in this process from an input in memory: once in full, and then in turn with nothing changed and with one \
more image. The first page is counted with all files that it loads before somebody types.";

const PUBLIC: &str = "The catalog of a public recipe collection";
const PUBLIC_METHOD: &str = "\
The recipes of alps-uenv as `scripts/recipe-table --concretize` left them in CABANE_BENCH_RECIPE_TABLE: an image for each \
recipe and system that Spack could concretize, with the packages that it decided on. The images themselves are not built, so \
sizes are 0, and nothing is tested or signed.";

const IMAGES: u64 = 10_000;
const QUICK: u64 = 1_000;
const PACKAGES: u64 = 300;
/// In seconds.
const BUILT: f64 = 60.0;
const CHANGED: f64 = 2.0;
/// In megabytes.
const FIRST: f64 = 1.0;
/// In milliseconds.
const READY: f64 = 500.0;
const SEARCHED: f64 = 100.0;
/// What the first page loads, apart from itself.
const LOADED: [&str; 4] = ["style.css", "search.js", "data/images.js", "data/names.js"];
/// A package of all images; two packages, one of them in a version, with an architecture; a package with a variant; and a label.
const TEXTS: [&str; 4] = [
    "package-1",
    "package-2@2.2: package-700 %gh200",
    "package-3 +mpi",
    "environment-7/25.3 @daint",
];
const PUBLIC_TEXTS: [&str; 4] = ["hdf5", "hdf5@1.14: +mpi", "gcc@14: %zen2", "prgenv @eiger"];

pub(crate) fn sections(bed: &Bed, options: &Options) -> Vec<Section> {
    let large = measure(bed, options);
    let public = recipes(bed);
    vec![
        large.unwrap_or_else(|reason| Section::not_measured(TITLE, &reason)),
        public.unwrap_or_else(|reason| Section::not_measured(PUBLIC, &reason)),
    ]
}

fn measure(bed: &Bed, options: &Options) -> Result<Section, NotMeasured> {
    let text = |error: Box<dyn std::error::Error>| error.to_string();
    let mut site =
        LargeSite::new(if options.quick { QUICK } else { IMAGES }, PACKAGES).map_err(text)?;
    let directory = bed.path("catalogue");
    let mut table = Table::new(&["build", "s: min / median", "files", "written", "runs"]);
    let (mut full, mut same, mut more) = (Vec::new(), Vec::new(), Vec::new());
    let mut counts = [(0, 0); 3];
    for _ in 0..options.heavy_rounds() {
        let _ = fs::remove_dir_all(&directory);
        let mut timed = |site: &LargeSite, times: &mut Vec<f64>, place: usize| {
            let written = write(&site.input, &directory, times)?;
            if let Some(count) = counts.get_mut(place) {
                *count = written;
            }
            Ok::<(), NotMeasured>(())
        };
        timed(&site, &mut full, 0)?;
        timed(&site, &mut same, 1)?;
        site.add_one().map_err(text)?;
        timed(&site, &mut more, 2)?;
    }
    let summaries = [&full, &same, &more].map(|times| Summary::of(times));
    let names = ["everything", "nothing changed", "one new image"];
    for ((name, summary), (files, written)) in names.iter().zip(summaries).zip(counts) {
        let row = [(*name).to_owned(), shown(summary, 2), files.to_string(), written.to_string()];
        table.push(row.into_iter().chain([full.len().to_string()]).collect());
    }
    let first = Summary::of(&[first_page(&directory)?]);
    let mut section = Section::new(TITLE, METHOD);
    section.tables.push(table);
    section.goals = vec![
        Goal::at_most("a catalog of 10,000 images", BUILT, "s").reached_by("", summaries[0]),
        Goal::at_most("the same after one new image", CHANGED, "s").reached_by("", summaries[2]),
        Goal::at_most("its first page", FIRST, "MB").reached_by("", first),
    ];
    browse(&mut section, bed, &directory, &TEXTS, "its");
    Ok(section)
}

fn recipes(bed: &Bed) -> Result<Section, NotMeasured> {
    let (input, packages) = catalogue_recipes::input()?;
    let directory = bed.path("recipes-catalogue");
    let mut times = Vec::new();
    let (files, _) = write(&input, &directory, &mut times)?;
    let mut table = Table::new(&["images", "packages", "files", "built, s"]);
    let numbers = [input.images.len(), packages, files].map(|number| number.to_string());
    table.push(numbers.into_iter().chain([shown(Summary::of(&times), 2)]).collect());
    let mut section = Section::new(PUBLIC, PUBLIC_METHOD);
    section.tables.push(table);
    browse(&mut section, bed, &directory, &PUBLIC_TEXTS, "the public collection:");
    Ok(section)
}

/// Writes a site; returns how many files it has, and how many were written.
fn write(
    input: &CatalogueInput,
    directory: &Path,
    times: &mut Vec<f64>,
) -> Result<(usize, usize), NotMeasured> {
    let start = Instant::now();
    let written =
        build(input, directory, OtherEntries::Refuse).map_err(|error| error.to_string())?;
    times.push(start.elapsed().as_secs_f64());
    Ok((written.files, written.written))
}

/// Adds what a browser shows.
fn browse(section: &mut Section, bed: &Bed, directory: &Path, texts: &[&str], whose: &str) {
    let seen = match catalogue_browser::look(bed, directory, texts) {
        Ok(seen) => seen,
        Err(reason) => {
            section.remarks.push(format!("Not measured in a browser: {reason}."));
            return;
        }
    };
    let mut table = Table::new(&["searched for", "first time, ms: min / median", "again, ms"])
        .captioned(format!("In {}, with files from a local disk", seen.browser));
    let mut all = Vec::new();
    for (text, times) in &seen.searches {
        let [first, again] = times.each_ref().map(|times| Summary::of(times));
        table.push(vec![format!("`{text}`"), shown(first, 0), shown(again, 0)]);
        all.extend([first, again].into_iter().flatten().map(|times| times.median));
    }
    section.tables.push(table);
    let Seen { ready, pages, findings, .. } = seen;
    section.remarks.push(format!(
        "axe-core and the messages of Chromium: {} on {pages} pages, each in light and dark on a phone.",
        if findings.is_empty() { "no finding".to_owned() } else { findings.join("; ") },
    ));
    let longest = all.into_iter().fold(0.0, f64::max);
    section.goals.extend([
        Goal::at_most(&format!("{whose} first page is ready"), READY, "ms")
            .reached_by("", Summary::of(&ready)),
        Goal::at_most(&format!("{whose} slowest search, median of 5"), SEARCHED, "ms")
            .reached_by("", Summary::of(&[longest])),
    ]);
}

fn shown(times: Option<Summary>, digits: usize) -> String {
    times.map_or(String::new(), |times| {
        format!("{:.digits$} / **{:.digits$}**", times.minimum, times.median)
    })
}

/// Returns the size of the first page with all that it loads, in megabytes.
fn first_page(directory: &Path) -> Result<f64, NotMeasured> {
    let mut bytes: u64 = 0;
    for name in ["index.html"].iter().chain(&LOADED) {
        let path = directory.join(name);
        let file = fs::metadata(&path).map_err(|error| format!("cannot find {name}: {error}"))?;
        bytes += file.len();
    }
    let kilobytes = u32::try_from(bytes / 1000).map_err(|error| error.to_string())?;
    Ok(f64::from(kilobytes) / 1e3)
}
