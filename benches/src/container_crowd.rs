// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What it costs to import very many files of one directory.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::bed::Bed;
use crate::container_import::LABEL;
use crate::listing::only_entry;
use crate::measure::{NotMeasured, finish};
use crate::memory::peak_of;
use crate::options::Options;
use crate::processor::{cost_of_work, to_float};
use crate::report::{Section, Table};
use crate::users::as_ordinary_user;

const TITLE: &str = "Containers: many files in one directory";
const METHOD: &str = "\
`cabane import dir:…` imports, once and as an ordinary user, a root file system with one \
directory of many files. Each file has ten bytes, all different. The time per file shows whether \
it grows with the number of files. Memory is the largest high-water mark of one process, sampled \
every 5 ms.";
const COUNTS: [u32; 3] = [10_000, 40_000, 300_000];

pub(crate) fn section(bed: &Bed, options: &Options) -> Section {
    let columns = ["files", "s", "µs per file", "memory, MiB", "result, MB"];
    let mut table = Table::new(&columns);
    let mut remarks = Vec::new();
    // A quick run leaves the largest out.
    let counts = COUNTS.iter().take(if options.quick { 2 } else { 3 });
    for count in counts {
        let place = bed.directory(&format!("crowd-{count}"));
        let row = place.and_then(|place| as_ordinary_user(|| import(bed, &place, *count)));
        match row {
            Ok(row) => table.push(row),
            Err(reason) => remarks.push(format!("{count} files: not measured: {reason}.")),
        }
    }
    Section {
        title: TITLE,
        method: METHOD.to_owned(),
        tables: vec![table],
        goals: Vec::new(),
        remarks,
    }
}

fn import(bed: &Bed, place: &Path, count: u32) -> Result<Vec<String>, NotMeasured> {
    let (root, repository) = (place.join("root"), place.join("repository"));
    make_files(&root.join("crowd"), count)?;
    let cabane = bed.cabane.as_ref().map_err(Clone::clone)?;
    let mut create = bed.command(cabane);
    finish(create.args(["repo", "create"]).arg(&repository))?;
    let mut import = bed.command(cabane);
    import.arg("--repo").arg(&repository);
    import.arg("import").arg(format!("dir:{}", root.display()));
    import.arg(LABEL).stdin(Stdio::null());
    import.stdout(Stdio::null()).stderr(Stdio::null());
    let (cost, peak) = cost_of_work(|| peak_of(&mut import))?;
    let images = repository.join("images");
    let only = only_entry(&images).map_err(|error| error.to_string())?;
    let image = images.join(only).join("image");
    let size = fs::metadata(image).map_err(|error| error.to_string())?.len();
    finish(Command::new("rm").arg("-rf").args([&root, &repository]))?;
    Ok(vec![
        count.to_string(),
        format!("{:.1}", cost.wall),
        format!("{:.1}", cost.wall * 1e6 / f64::from(count)),
        format!("{:.0}", to_float(peak) / 1024.0),
        format!("{:.1}", to_float(size) / 1e6),
    ])
}

fn make_files(directory: &Path, count: u32) -> Result<(), NotMeasured> {
    let failed = |error: std::io::Error| error.to_string();
    fs::create_dir_all(directory).map_err(failed)?;
    for number in 0..count {
        let content = format!("{number:010}");
        fs::write(directory.join(number.to_string()), content).map_err(failed)?;
    }
    Ok(())
}
