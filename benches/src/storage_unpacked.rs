// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The same versions, unpacked on a node: disk, page cache, and starts.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use rustix::fs::{Advice, fadvise};

use crate::bed::Bed;
use crate::comparison::Comparisons;
use crate::goal::Goal;
use crate::measure::{NotMeasured, finish};
use crate::processor::to_float;
use crate::report::Table;
use crate::statistics::Summary;
use crate::storage::{OTHER, Pages, READ, Store, label};
use crate::storage_family::VERSIONS;

/// What a start of an unpacked image may take over one of an image that is held.
const START: f64 = 1.05;
/// A version that stays packed.
const PACKED: usize = 6;

/// Unpacked images on a disk of this machine.
pub(crate) struct Unpacked<'a> {
    bed: &'a Bed,
    images: &'a Store,
    /// Where they are on the disk.
    disk: PathBuf,
    /// Where the policy says that they are.
    place: PathBuf,
}

impl<'a> Unpacked<'a> {
    /// Makes an empty store.
    pub(crate) fn make(bed: &'a Bed, images: &'a Store) -> Result<Self, NotMeasured> {
        let disk = bed.path("unpacked");
        fs::create_dir_all(&disk).map_err(|error| error.to_string())?;
        let place = bed.world.have_unpacked(&disk)?;
        Ok(Self { bed, images, disk, place })
    }

    /// Measures all of it; the versions are the rows of the table.
    pub(crate) fn measure(
        &self,
        table: &mut Table,
        starts: &mut Comparisons,
        pages: &mut Pages,
    ) -> Result<Goal, NotMeasured> {
        let mut goal =
            Goal::ratio("start of an unpacked image, over one that is mounted and held", START);
        let one = self.unpack(&[READ])?;
        self.row(table, 1, one)?;
        let two = self.unpack(&[OTHER])?;
        self.row(table, 2, two)?;
        pages.note("unpacked", Some(self.pages()?));
        goal.note("root", self.starts(starts));
        let others: Vec<usize> =
            (0..VERSIONS).filter(|number| ![READ, OTHER].contains(number)).collect();
        let all = self.unpack(&others)?;
        self.row(table, VERSIONS, all)?;
        Ok(goal)
    }

    /// Returns how long it took, in seconds.
    fn unpack(&self, versions: &[usize]) -> Result<f64, NotMeasured> {
        let mut command = self.bed.cabane(self.images.path())?;
        command.args(["image", "unpack"]).args(versions.iter().map(|number| label(*number)));
        let begin = Instant::now();
        finish(&mut command)?;
        Ok(begin.elapsed().as_secs_f64())
    }

    fn row(&self, table: &mut Table, count: usize, took: f64) -> Result<(), NotMeasured> {
        let printed = finish(Command::new("du").args(["-s", "-B1"]).arg(&self.disk))?;
        let printed = String::from_utf8_lossy(&printed).into_owned();
        let stored = printed.split_whitespace().next().and_then(|bytes| bytes.parse().ok());
        let stored: u64 = stored.ok_or("du prints no number")?;
        let over = to_float(stored) / to_float(self.images.one());
        table.push(vec![
            count.to_string(),
            format!("{:.1}", to_float(stored) / 1e6),
            format!("{over:.2}"),
            format!("{took:.1}"),
        ]);
        Ok(())
    }

    /// Reads one version, and returns how much of the other is not in the page cache then.
    fn pages(&self) -> Result<f64, NotMeasured> {
        finish(&mut Command::new("sync"))?;
        forget(&self.disk).map_err(|error| format!("cannot empty the page cache: {error}"))?;
        let in_image = |version: usize, script: &str| {
            let mut command = self.bed.cabane(self.images.path())?;
            let script = format!("find \"$1\" -type f {script}");
            command.args(["run", &label(version), "--", "sh", "-c", &script, "sh"]);
            command.arg(self.images.mount_point());
            finish(&mut command)
        };
        in_image(READ, "-exec cat {} + >/dev/null")?;
        let count = "-size +0 -exec fincore -b -n -r -o PAGES,SIZE {} + |
            awk '{ pages += $1; size += int(($2 + 4095) / 4096) } END { print 1 - pages / size }'";
        let printed = String::from_utf8_lossy(&in_image(OTHER, count)?).into_owned();
        printed.trim().parse().map_err(|_| "fincore prints no number".to_owned())
    }

    fn starts(&self, compare: &mut Comparisons) -> Option<Summary> {
        let start = |version, what: &str| {
            self.images.start(self.bed, version).named(format!("{}, {what}", self.images.format()))
        };
        compare.compare(start(PACKED, "held, control"), start(PACKED, "held"), None);
        compare.compare(start(READ, "unpacked"), start(PACKED, "held"), Some(START))
    }
}

impl Drop for Unpacked<'_> {
    fn drop(&mut self) {
        // The world of this process ends with it in any case.
        let _ = Command::new("umount").arg(&self.place).status();
        let _ = fs::remove_dir_all(&self.disk);
        let _ = self.bed.have_policy(false);
    }
}

/// Takes the files below a directory out of the page cache.
fn forget(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            forget(&entry.path())?;
        } else if kind.is_file() {
            fadvise(File::open(entry.path())?, 0, None, Advice::DontNeed)?;
        }
    }
    Ok(())
}
