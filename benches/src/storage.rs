// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What ten versions of a stack take on disk, and what it costs to start one of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use rustix::fs::statvfs;
use rustix::process::geteuid;

use crate::bed::Bed;
use crate::comparison::{Comparisons, not_measured};
use crate::goal::Goal;
use crate::measure::{Candidate, NotMeasured, finish};
use crate::options::Options;
use crate::peers;
use crate::processor::to_float;
use crate::report::{Section, Table};
use crate::statistics::Summary;
use crate::storage_family::{Family, VERSIONS};
use crate::storage_unpacked::Unpacked;

const TITLE: &str = "Storage: ten versions of a stack";
const METHOD: &str = "\
Sixty packages of Debian, each in a prefix with a hash in its name. Each version replaces one package; what \
depends on it gets other prefixes, and libraries and scripts name them. The images are packed as `cabane \
build` packs them. *Files* is what all images have as plain files, *stored* what is on disk after `cabane repo \
deduplicate`, with the packs, their lists of chunks, and the lists of parts. *Over one* is that over the size of \
one image. On XFS, which can share blocks, every image is assembled again afterwards. *In the page cache anew*: two \
versions between which five packages were replaced are mounted, all files of one are read, and `fincore` says \
how much of the other is not in memory; that over its files that the first does not have. *Unpacked* images are those of `cabane image unpack`, on the same disk.";
/// What ten versions may take over one.
const DISK: f64 = 1.6;
/// What a start of an image may take that was deduplicated and is held again, over one that never was.
const START: f64 = 1.05;
/// What a second version may need in the page cache, over its files that the first does not have.
const PAGES: f64 = 1.05;
/// The versions that are compared in the page cache: five packages were replaced.
pub(crate) const READ: usize = 0;
pub(crate) const OTHER: usize = 5;
const FORMATS: [&str; 2] = ["squashfs", "erofs"];

pub(crate) fn sections(bed: &Bed, options: &Options) -> Vec<Section> {
    let mut section = Section::new(TITLE, METHOD);
    let made = Family::make(&bed.path("family"));
    let (family, new_pages) = match made.and_then(|made| Ok((made.new_pages(OTHER, READ)?, made))) {
        Ok((new_pages, family)) => (family, new_pages),
        Err(reason) => return vec![Section::not_measured(TITLE, &reason)],
    };
    let header = [
        "image",
        "file system",
        "one, MB",
        "files, MB",
        "stored, MB",
        "over one",
        "target",
        "reached",
    ];
    let mut disk = Table::new(&header);
    let mut disk_goal = Goal::ratio("ten versions on disk, over one", DISK);
    let mut times = Table::new(&["image", "what", "seconds", "MB/s of the image"]);
    let mut starts = Comparisons::ratios(options.long_rounds());
    let mut start_goal = Goal::ratio(
        "start of an image that was assembled, over one that never was deduplicated",
        START,
    );
    let mut unpacked =
        Table::new(&["unpacked versions", "on disk, MB", "over one squashfs image", "seconds"]);
    let mut unpacked_goal = None;
    let what = "second version in the page cache anew, over its files that differ";
    let mut pages = Pages { goal: Goal::ratio(what, PAGES), new: new_pages };
    for format in FORMATS {
        let measured = Store::make(bed, &family, format, &bed.path(&format!("storage-{format}")));
        let stored = measured.and_then(|store| {
            let took = store.deduplicate(bed)?;
            let row = store.disk("ext4 or the like", &mut disk_goal, format)?;
            store.times(bed, took, &mut times)?;
            store.starts(bed, &mut starts, &mut start_goal)?;
            pages.note(format, store.pages(bed).ok());
            if format == FORMATS[0] {
                let goal = Unpacked::make(bed, &store)
                    .and_then(|node| node.measure(&mut unpacked, &mut starts, &mut pages));
                unpacked_goal = Some(goal?);
            }
            Ok(row)
        });
        disk.push(stored.unwrap_or_else(|reason| vec![format.to_owned(), not_measured(&reason)]));
    }
    let shared = on_xfs(bed, &family, &mut disk_goal);
    disk.push(shared.unwrap_or_else(|reason| vec!["erofs".to_owned(), not_measured(&reason)]));
    let (files, bytes, changed) = (family.files, family.bytes, family.changed);
    let caption = format!(
        "{files} files of {:.0} MB; {:.0} MB in changed files in nine versions; version {} has {:.0} % other \
         files than version {}",
        to_float(bytes) / 1e6,
        to_float(changed) / 1e6,
        OTHER + 1,
        new_pages * 100.0,
        READ + 1
    );
    section.tables = vec![
        disk.captioned(caption),
        times.captioned("Once for each image".to_owned()),
        unpacked.captioned("`cabane image unpack`; the last row adds eight versions".to_owned()),
        starts.table().captioned("`cabane run IMAGE -- true`, as root".to_owned()),
    ];
    section.goals = vec![disk_goal, start_goal, pages.goal];
    section.goals.extend(unpacked_goal);
    if std::env::var_os("CABANE_BENCH_CABANE").is_some() {
        let text = "`CABANE_BENCH_CABANE` named the program: it may be another one than `make build` makes.";
        section.remarks.push(text.to_owned());
    }
    let _ = fs::remove_dir_all(bed.path("family"));
    vec![section]
}

/// What a second version needs in the page cache.
pub(crate) struct Pages {
    goal: Goal,
    /// The share of its files that the first does not have.
    new: f64,
}

impl Pages {
    /// Notes the share of the second version that is not in memory.
    pub(crate) fn note(&mut self, way: &'static str, share: Option<f64>) {
        self.goal.note(way, share.and_then(|share| Summary::of(&[share / self.new])));
    }
}

/// A repository with all versions.
pub(crate) struct Store {
    format: &'static str,
    path: PathBuf,
    mount_point: PathBuf,
    /// The size of the first image.
    one: u64,
    all: u64,
}

impl Store {
    fn make(
        bed: &Bed,
        family: &Family,
        format: &'static str,
        path: &Path,
    ) -> Result<Self, NotMeasured> {
        let mut create = bed.command(bed.cabane.as_ref().map_err(Clone::clone)?);
        finish(create.args(["repo", "create"]).arg(path))?;
        let image = bed.path(&format!("family-{format}"));
        let mount_point = bed.directory("storage-mount-point")?;
        let path = path.to_owned();
        let mut store = Self { format, path, mount_point, one: 0, all: 0 };
        for version in 0..VERSIONS {
            let tree = family.tree(version);
            write_meta(&tree, &store.mount_point).map_err(|error| error.to_string())?;
            pack(bed, &tree, &image, format)?;
            let size = fs::metadata(&image).map_err(|error| error.to_string())?.len();
            store.one = if version == 0 { size } else { store.one };
            store.all += size;
            let mut add = bed.cabane(&store.path)?;
            finish(add.args(["image", "add", "--move", &label(version)]).arg(&image))?;
        }
        Ok(store)
    }

    /// Returns how long it took, in seconds.
    fn deduplicate(&self, bed: &Bed) -> Result<f64, NotMeasured> {
        let begin = Instant::now();
        let mut command = bed.command(bed.cabane.as_ref().map_err(Clone::clone)?);
        finish(command.args(["repo", "deduplicate", "--older-than=0s"]).arg(&self.path))?;
        Ok(begin.elapsed().as_secs_f64())
    }

    fn disk(
        &self,
        system: &str,
        goal: &mut Goal,
        way: &'static str,
    ) -> Result<Vec<String>, NotMeasured> {
        let mut usage = Command::new("du");
        usage.args(["-s", "-B1"]).arg(&self.path);
        let printed = String::from_utf8_lossy(&finish(&mut usage)?).into_owned();
        let stored = printed.split_whitespace().next().and_then(|bytes| bytes.parse().ok());
        Ok(self.row(system, stored.ok_or("du prints no number")?, goal, way))
    }

    fn row(&self, system: &str, stored: u64, goal: &mut Goal, way: &'static str) -> Vec<String> {
        let ratio = to_float(stored) / to_float(self.one);
        goal.note(way, Summary::of(&[ratio]));
        let megabytes = |bytes| format!("{:.1}", to_float(bytes) / 1e6);
        vec![
            self.format.to_owned(),
            system.to_owned(),
            megabytes(self.one),
            megabytes(self.all),
            megabytes(stored),
            format!("**{ratio:.2}**"),
            format!("≤ {DISK}"),
            if ratio <= DISK { "yes" } else { "no" }.to_owned(),
        ]
    }

    /// Notes what it takes to deduplicate an image, and to start one for the first time.
    fn times(&self, bed: &Bed, took: f64, table: &mut Table) -> Result<(), NotMeasured> {
        let mut row = |what: &str, seconds: f64| {
            let speed = format!("{:.0}", to_float(self.one) / 1e6 / seconds);
            table.push(vec![
                self.format.to_owned(),
                what.to_owned(),
                format!("{seconds:.2}"),
                speed,
            ]);
        };
        #[expect(clippy::cast_precision_loss, reason = "there are ten")]
        row("`repo deduplicate`", took / VERSIONS as f64);
        let begin = Instant::now();
        self.start(bed, 5).into_command().and_then(|mut command| finish(&mut command))?;
        row("first start", begin.elapsed().as_secs_f64());
        let copied = bed.path("copied");
        let image = self.image(bed, 5)?;
        let begin = Instant::now();
        finish(Command::new("cp").arg(&image).arg(&copied))?;
        finish(Command::new("sync").arg(&copied))?;
        finish(Command::new("sha256sum").arg(&copied))?;
        row("`cp`, `sync`, and `sha256sum` of the image", begin.elapsed().as_secs_f64());
        fs::remove_file(&copied).map_err(|error| error.to_string())
    }

    /// Compares an image that was assembled with the oldest, which stays a file.
    fn starts(
        &self,
        bed: &Bed,
        compare: &mut Comparisons,
        goal: &mut Goal,
    ) -> Result<(), NotMeasured> {
        let name = |what: &str| format!("{}, {what}", self.format);
        compare.compare(
            self.start(bed, 0).named(name("control")),
            self.start(bed, 0).named(name("never deduplicated")),
            None,
        );
        let ratio = compare.compare(
            self.start(bed, 5).named(name("assembled")),
            self.start(bed, 0).named(name("never deduplicated")),
            Some(START),
        );
        goal.note(self.format, ratio);
        Ok(())
    }

    /// Mounts two versions, reads one, and returns how much of the other is not in the page cache then.
    fn pages(&self, bed: &Bed) -> Result<f64, NotMeasured> {
        if !geteuid().is_root() {
            return Err("only root can mount images without Cabane".to_owned());
        }
        let (one, other) = (bed.directory("pages-1")?, bed.directory("pages-2")?);
        for (version, place) in [(READ, &one), (OTHER, &other)] {
            let image = self.image(bed, version)?;
            finish(Command::new("mount").args(["-o", "ro,loop"]).arg(image).arg(place))?;
        }
        let script = "find \"$1\" -type f -exec cat {} + > /dev/null\n\
            find \"$2\" -type f -size +0 -exec fincore -b -n -r -o PAGES,SIZE {} + |\n\
            awk '{ pages += $1; size += int(($2 + 4095) / 4096) } END { print 1 - pages / size }'";
        let mut count = Command::new("sh");
        count.args(["-c", script, "sh"]).arg(&one).arg(&other);
        let counted = finish(&mut count);
        for place in [&one, &other] {
            finish(Command::new("umount").arg(place))?;
        }
        let printed = String::from_utf8_lossy(&counted?).into_owned();
        printed.trim().parse().map_err(|_| "fincore prints no number".to_owned())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn format(&self) -> &'static str {
        self.format
    }

    pub(crate) fn mount_point(&self) -> &Path {
        &self.mount_point
    }

    /// The size of the first image.
    pub(crate) fn one(&self) -> u64 {
        self.one
    }

    pub(crate) fn start(&self, bed: &Bed, version: usize) -> Candidate {
        let command = bed.cabane(&self.path).map(|mut command| {
            command.args(["run", &label(version), "--", "/bin/true"]);
            command
        });
        Candidate::new(label(version), command)
    }

    fn image(&self, bed: &Bed, version: usize) -> Result<PathBuf, NotMeasured> {
        let mut list = bed.cabane(&self.path)?;
        let path = finish(list.args(["image", "ls", "--format={sqfs}", &label(version)]))?;
        Ok(String::from_utf8_lossy(&path).trim().into())
    }
}

/// Measures EROFS where blocks are shared, and each image is a file again.
fn on_xfs(bed: &Bed, family: &Family, goal: &mut Goal) -> Result<Vec<String>, NotMeasured> {
    if !geteuid().is_root() {
        return Err("only root can mount XFS".to_owned());
    }
    let (disk, place) = (bed.path("xfs"), bed.directory("xfs-mounted")?);
    finish(Command::new("truncate").arg("-s8G").arg(&disk))?;
    finish(Command::new("mkfs.xfs").arg("-q").arg(&disk))?;
    finish(Command::new("mount").args(["-o", "loop"]).arg(&disk).arg(&place))?;
    let mut measured = || {
        let empty = used(&place)?;
        let store = Store::make(bed, family, "erofs", &place.join("repository"))?;
        store.deduplicate(bed)?;
        for version in 0..VERSIONS {
            finish(&mut store.start(bed, version).into_command()?)?;
        }
        finish(Command::new("sync").arg("-f").arg(&place))?;
        let stored = used(&place)?.saturating_sub(empty);
        Ok(store.row("XFS, all images assembled", stored, goal, "erofs on XFS, all assembled"))
    };
    let row = measured();
    finish(Command::new("umount").arg(&place))?;
    let _ = fs::remove_file(&disk);
    row
}

fn used(place: &Path) -> Result<u64, NotMeasured> {
    let found = statvfs(place).map_err(|error| error.to_string())?;
    Ok((found.f_blocks - found.f_bfree) * found.f_frsize)
}

fn write_meta(tree: &Path, mount_point: &Path) -> std::io::Result<()> {
    let mount_point = mount_point.display();
    let text = format!(r#"{{"name":"stack","mount":"{mount_point}","views":{{}}}}"#);
    fs::create_dir_all(tree.join("meta"))?;
    fs::write(tree.join("meta/env.json"), text)
}

pub(crate) fn label(version: usize) -> String {
    format!("stack/{version}.0:v1@here%any")
}

/// Packs a tree as `cabane build` does.
fn pack(bed: &Bed, tree: &Path, image: &Path, format: &str) -> Result<(), NotMeasured> {
    let mut command = if format == "erofs" {
        let mut command = bed.command(peers::MKFS_EROFS.find()?);
        command.args(["-zlz4", "-x-1", "--all-root", "--quiet", "-T1"]);
        command.arg("-Udeb0deb0-0000-4000-8000-000000000000").arg(image).arg(tree);
        command
    } else {
        let mut command = bed.command(peers::MKSQUASHFS.find()?);
        command.arg(tree).arg(image).args(["-comp", "zstd", "-Xcompression-level", "3"]);
        command.args(["-b", "131072", "-all-root", "-no-xattrs", "-noappend", "-mkfs-time", "1"]);
        command.args(["-all-time", "1", "-no-progress", "-quiet"]);
        command
    };
    finish(&mut command).map(drop)
}
