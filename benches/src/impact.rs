// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What it costs to know what images need, and to judge ten thousand of them.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use cabane_compat::Linkage;
use cabane_view::{FileLinks, HostNeeds};

use crate::bed::Bed;
use crate::comparison::not_measured;
use crate::goal::Goal;
use crate::listing::{RECORDS, fill_repository, pair};
use crate::measure::{Candidate, NotMeasured, Rounds, finish};
use crate::options::Options;
use crate::peers;
use crate::report::{Section, Table};
use crate::statistics::Summary;
use crate::tree::Random;

/// What a judgment of all images may take, in milliseconds.
const JUDGED: f64 = 200.0;
/// What finding out the needs of an image may take, over packing it.
const SHARE: f64 = 0.05;
/// How many libraries of the host an image needs, of these.
const NEEDED: usize = 20;
/// The libraries that the next generation of nodes lacks.
const GONE: [&str; 2] = ["libefa.so.1", "libpsm2.so.2"];
const LIBRARIES: [&str; 30] = [
    "libibverbs.so.1",
    "librdmacm.so.1",
    "libmlx5.so.1",
    "libefa.so.1",
    "libpsm2.so.2",
    "libnl-3.so.200",
    "libnl-route-3.so.200",
    "libnuma.so.1",
    "libz.so.1",
    "libstdc++.so.6",
    "libgcc_s.so.1",
    "libc.so.6",
    "libm.so.6",
    "libcrypt.so.1",
    "libssl.so.3",
    "libcrypto.so.3",
    "libffi.so.8",
    "libuuid.so.1",
    "libselinux.so.1",
    "libudev.so.1",
    "libsystemd.so.0",
    "libmunge.so.2",
    "libpmi2.so.0",
    "libpmix.so.2",
    "libslurm.so.38",
    "libcuda.so.1",
    "libnvidia-ml.so.1",
    "libcxi.so.1",
    "libxpmem.so.0",
    "libX11.so.6",
];

pub(crate) fn sections(bed: &Bed, options: &Options) -> Vec<Section> {
    vec![of_catalogue(bed, options), of_builds(bed, options)]
}

fn of_catalogue(bed: &Bed, options: &Options) -> Section {
    let mut section = Section::new(
        "Impact on ten thousand images",
        format!(
            "A repository with {RECORDS} images under as many labels, each with {NEEDED} of {} libraries, and two \
             files of its own that need each; everything in the page cache. The whole command, output to nowhere. \
             FACTS are those of a node that lacks two of the libraries. At the first run the metadata of each image are read, later what was kept.",
            LIBRARIES.len()
        ),
    );
    match fill(bed) {
        Ok(repository) => {
            let (table, goal) = judge(bed, &repository, options.long_rounds());
            section.tables.push(table);
            section.goals.push(goal);
        }
        Err(reason) => section.remarks.push(format!("Not measured: {reason}.")),
    }
    section
}

fn judge(bed: &Bed, repository: &Path, rounds: Rounds) -> (Table, Goal) {
    let mut table =
        Table::new(&["command", "ms: min / median [quartiles]", "target", "reached", "runs"]);
    let facts = bed.path("facts.json");
    let cabane = |name: &str, arguments: &[&str]| {
        let command = bed.cabane(repository).map(|mut command| {
            command.args(arguments);
            command
        });
        Candidate::new(name, command)
    };
    let path = facts.to_string_lossy().into_owned();
    if let Ok(mut probe) = bed.cabane(repository) {
        // Without facts, the measurement with them says why it fails.
        let _ = finish(probe.args(["system", "probe", "--facts", &path]));
        let _ = furnish(&facts);
    }
    let removed = ["impact", "--remove", "libibverbs.so.1", "@*"];
    let removal = cabane("`cabane impact --remove libibverbs.so.1`", &removed);
    let json =
        cabane("`cabane impact --host FACTS --json`", &["impact", "--host", &path, "--json", "@*"]);
    let times = pair(&mut table, removal, json, rounds, [Some(JUDGED); 2]);
    let goal = Goal::at_most("`impact` over 10,000 images, needs kept", JUDGED, "ms")
        .reached_by("`--remove`", times.0)
        .reached_by("`--host`", times.1);
    let few = Rounds { warm_up: 1, pairs: (rounds.pairs / 8).max(3) };
    let forget = || {
        let mut command = Command::new("/bin/sh");
        command.env("HOME", bed.home()).args(["-c", "rm -rf \"$HOME/.cache/cabane/needs\""]);
        command
    };
    let first = cabane("`cabane impact --remove`, nothing kept", &removed).tidied_by(forget());
    let list = cabane("`cabane image ls @*`, beside it", &["image", "ls", "@*"]);
    let _ = forget().status();
    pair(&mut table, first, list, few, [None, None]);
    (table, goal)
}

/// Gives the host all libraries that are needed, but for those of [`GONE`].
fn furnish(facts: &Path) -> io::Result<()> {
    let versions: Vec<String> = (0..8).map(|number| format!("\"V_1.{number}\"")).collect();
    let versions = versions.join(", ");
    let there = LIBRARIES.iter().filter(|name| !GONE.contains(name));
    let there: Vec<String> = there
        .map(|name| format!("{{\"name\": \"{name}\", \"versions\": [{versions}]}}, "))
        .collect();
    let there = there.concat();
    let text = fs::read_to_string(facts)?;
    fs::write(facts, text.replacen("\"libraries\": [", &format!("\"libraries\": [{there}"), 1))
}

/// Fills a repository, and gives each image needs of its own.
fn fill(bed: &Bed) -> Result<PathBuf, NotMeasured> {
    let repository = fill_repository(bed)?;
    let failed = |error: io::Error| format!("cannot write needs: {error}");
    let mut random = Random::new(20_000);
    for (number, entry) in fs::read_dir(repository.join("images")).map_err(failed)?.enumerate() {
        let meta = entry.map_err(failed)?.path().join("meta");
        fs::write(meta.join(HostNeeds::FILE), needs(number, &mut random)).map_err(failed)?;
    }
    Ok(repository)
}

fn needs(number: usize, random: &mut Random) -> String {
    let mut text = format!(r#"{{"version": 1, "files": {}, "libraries": ["#, 50 + number % 400);
    for place in 0..NEEDED {
        let name = LIBRARIES[(number * 7 + place) % LIBRARIES.len()];
        let comma = if place == 0 { "" } else { "," };
        let hash = random.next();
        // Writing to a string does not fail.
        let _ = write!(
            text,
            r#"{comma}{{"name": "{name}", "versions": ["V_1.0", "V_1.{}"], "count": {},
"users": ["linux-zen3/package-{hash:016x}/lib/libone.so.1", "linux-zen3/package-{hash:016x}/bin/two"]}}"#,
            hash % 8,
            2 + hash % 5,
        );
    }
    text.push_str("]}");
    text
}

fn of_builds(bed: &Bed, options: &Options) -> Section {
    let mut section = Section::new(
        "Needs of one image",
        "Reading what every program and library of a tree needs and offers, with one thread, and putting it \
         together, over packing the tree with zstd at level 3; wall time, everything in the page cache. The build \
         uses several threads, and has walked through the tree before. The trees are installations of MPI of \
         `make test`, and Python with scientific packages.",
    );
    let mut table = Table::new(&[
        "tree",
        "files",
        "programs and libraries",
        "MB",
        "needs ms",
        "packing ms",
        "share",
        "rounds",
    ]);
    let mut goal = Goal::at_most("needs of an image, over packing it", SHARE, "");
    let mpi = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.cabane/mpi").canonicalize();
    let mpi = mpi.map_err(|error| format!("no installations of MPI: {error}"));
    let python = bed.images().map(|images| images.tree.clone());
    for (name, tree) in [("MPI", mpi), ("Python", python)] {
        match tree.and_then(|tree| measure(bed, &tree, options.heavy_rounds())) {
            Ok((mut row, share)) => {
                row.insert(0, name.to_owned());
                table.push(row);
                goal.note(name, share);
            }
            Err(reason) => table.push(vec![name.to_owned(), not_measured(&reason)]),
        }
    }
    section.tables.push(table);
    section.goals.push(goal);
    section
}

/// What was found in a tree.
#[derive(Default)]
struct Walk {
    files: usize,
    bytes: u64,
    candidates: Vec<PathBuf>,
    names: BTreeSet<String>,
}

impl Walk {
    fn directory(&mut self, directory: &Path) -> io::Result<()> {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let found = entry.metadata()?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if found.is_dir() {
                self.directory(&entry.path())?;
            } else if name.contains(".so") || found.permissions().mode() & 0o111 != 0 {
                self.names.insert(name);
                self.candidates.push(entry.path());
            }
            self.files += 1;
            self.bytes += found.len();
        }
        Ok(())
    }
}

fn measure(
    bed: &Bed,
    tree: &Path,
    rounds: usize,
) -> Result<(Vec<String>, Option<Summary>), NotMeasured> {
    let mut walk = Walk::default();
    walk.directory(tree).map_err(|error| format!("cannot read {}: {error}", tree.display()))?;
    let image = bed.path("needs.squashfs");
    let (mut needs, mut packing, mut shares, mut count) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for _ in 0..rounds.max(3) {
        let start = Instant::now();
        count = read(tree, &walk).files;
        let read = start.elapsed().as_secs_f64() * 1e3;
        let mut pack = bed.command(peers::MKSQUASHFS.find()?);
        pack.arg(tree).arg(&image).args(["-noappend", "-no-progress", "-quiet", "-comp", "zstd"]);
        let start = Instant::now();
        finish(pack.args(["-Xcompression-level", "3"]))?;
        let packed = start.elapsed().as_secs_f64() * 1e3;
        needs.push(read);
        packing.push(packed);
        shares.push(read / packed);
    }
    let shown = |times: &[f64]| match Summary::of(times) {
        Some(summary) => format!("**{:.1}**", summary.median),
        None => not_measured("no runs"),
    };
    let share = Summary::of(&shares);
    let percent = share.map_or(String::new(), |share| format!("{:.1} %", share.median * 100.0));
    let row = vec![
        walk.files.to_string(),
        count.to_string(),
        format!("{}", walk.bytes / 1_000_000),
        shown(&needs),
        shown(&packing),
        percent,
        shares.len().to_string(),
    ];
    Ok((row, share))
}

fn read(root: &Path, walk: &Walk) -> HostNeeds {
    let files = walk.candidates.iter().filter_map(|path| {
        let linkage = Linkage::read(&File::open(path).ok()?)?;
        let inside = path.strip_prefix(root).unwrap_or(path);
        Some(FileLinks {
            path: inside.to_string_lossy().into_owned(),
            is_program: linkage.is_program,
            architecture: linkage.architecture.to_owned(),
            page_size: linkage.page_size,
            outside: Vec::new(),
            soname: linkage.links.soname,
            needed: linkage.links.needed,
            versions: linkage
                .needs
                .into_iter()
                .map(|need| (need.of, need.version, need.is_weak))
                .collect(),
            offers: linkage.offers,
        })
    });
    HostNeeds::gather(files.collect(), &walk.names)
}
