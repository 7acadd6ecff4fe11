// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! How long the web site of ten thousand images takes to write, and how large its first page is.

use std::fs;
use std::path::Path;
use std::time::Instant;

use cabane_catalogue::{OtherEntries, build};

use crate::bed::Bed;
use crate::catalogue_input::LargeSite;
use crate::goal::Goal;
use crate::measure::NotMeasured;
use crate::options::Options;
use crate::report::{Section, Table};
use crate::statistics::Summary;

const TITLE: &str = "The catalogue of ten thousand images";
const METHOD: &str = "\
A site that does not exist: 10,000 images (1,000 in a quick run) with 300 packages each, of 2,000 names \
and 8 versions, with variants and a compiler, without evidence. Versions are random, so each image differs \
from the one before in most packages. It is written in this process from an input in memory: once in \
full, and then in turn with nothing changed and with one more image. The first page is counted with all \
files that it loads before somebody types. Times in a browser are in the design note.";

const IMAGES: u64 = 10_000;
const QUICK: u64 = 1_000;
const PACKAGES: u64 = 300;
/// In seconds.
const BUILT: f64 = 60.0;
const CHANGED: f64 = 2.0;
/// In megabytes.
const FIRST: f64 = 1.0;
/// What the first page loads, apart from itself.
const LOADED: [&str; 4] = ["style.css", "search.js", "data/images.js", "data/names.js"];

pub(crate) fn section(bed: &Bed, options: &Options) -> Section {
    match measure(bed, options) {
        Ok(section) => section,
        Err(reason) => Section::not_measured(TITLE, &reason),
    }
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
            let start = Instant::now();
            let written = build(&site.input, &directory, OtherEntries::Refuse)
                .map_err(|report| report.to_string())?;
            times.push(start.elapsed().as_secs_f64());
            if let Some(count) = counts.get_mut(place) {
                *count = (written.files, written.written);
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
        let times = summary.map_or(String::new(), |times| {
            format!("{:.2} / **{:.2}**", times.minimum, times.median)
        });
        let row = [(*name).to_owned(), times, files.to_string(), written.to_string()];
        table.push(row.into_iter().chain([full.len().to_string()]).collect());
    }
    let first = Summary::of(&[first_page(&directory)?]);
    let goals = vec![
        Goal::at_most("a catalogue of 10,000 images", BUILT, "s").reached_by("", summaries[0]),
        Goal::at_most("the same after one new image", CHANGED, "s").reached_by("", summaries[2]),
        Goal::at_most("its first page", FIRST, "MB").reached_by("", first),
    ];
    let method = METHOD.to_owned();
    Ok(Section { title: TITLE, method, tables: vec![table], goals, remarks: Vec::new() })
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
