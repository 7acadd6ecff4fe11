// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Python ranks of a step that import numpy: from an image, from a directory that a server
//! has, and from a copy in memory; and what each asks of the server.

use std::path::Path;

use crate::bed::Bed;
use crate::images::Format;
use crate::measure::{NotMeasured, Rounds, finish};
use crate::options::Options;
use crate::report::{Section, Table};
use crate::slurm::{Turns, step};
use crate::slurm_cluster::{CLEAN, Cluster, Step};

const TITLE: &str = "Slurm: ranks that import numpy";
const METHOD: &str = "\
`srun` of `python3 -c 'import numpy'`, eight ranks on each of four nodes, with interpreter and \
numpy from the same tree. One machine has no parallel file system. `bindfs` replaces it, \
with an instance for each node: a process outside of the node answers requests for everything \
that the node has not cached. The node keeps names, attributes, and contents as long as it \
wants, like a client with locks. The times contain no network, so the counts below are what \
matters. The image is in the file system of the machine, which is the same for all nodes; so is \
the *local directory*. *Cold*: the nodes have cached nothing of the tree, hold no image, and \
make the copy. *Warm*: the second run. All data is in the memory of the machine. The 32 \
interpreters share these processors; with one for each rank the ratios would be further from 1.";
const COUNTS: &str = "\
*Counts* are those of a step on one node with empty caches. For the directory they are the \
requests that reach the process outside: names and attributes (LOOKUP, GETATTR, READLINK), opens \
of files and directories, and reads of at most 128 KiB each. For the image they are the reads of \
its loop device; the image itself is looked up and opened once. For the copy in memory it is the \
complete file.";

const SERVER: &str = "bindfs -o kernel_cache,entry_timeout=3600,attr_timeout=3600";
pub(crate) const TREE: &str = "/shared/tree";
const IMAGE: &str = "/shared/numpy.squashfs";

/// What was measured so far.
pub(crate) struct Ranks(Section);

pub(crate) fn section() -> Ranks {
    Ranks(Section::new(TITLE, format!("{METHOD} {COUNTS}")))
}

impl Ranks {
    pub(crate) fn section(self) -> Section {
        self.0
    }

    pub(crate) fn measure(
        &mut self,
        bed: &Bed,
        cluster: &Cluster,
        nodes: usize,
        options: &Options,
    ) {
        if let Err(reason) = self.try_measure(bed, cluster, nodes, options) {
            self.0.remarks.push(format!("Not measured: {reason}."));
        }
    }

    fn try_measure(
        &mut self,
        bed: &Bed,
        cluster: &Cluster,
        nodes: usize,
        options: &Options,
    ) -> Result<(), NotMeasured> {
        furnish(bed, cluster)?;
        let rounds = Rounds { warm_up: 1, pairs: options.transfers(5) };
        let tables = [("cold", true), ("warm", false)].map(|(name, is_cold)| {
            let table = compare(cluster, nodes, rounds, is_cold);
            table.captioned(format!("{} ranks on {nodes} nodes, {name}", nodes * 8))
        });
        self.0.tables.extend(tables);
        let counts = counts(cluster)?;
        self.0.tables.push(counts.captioned("Counts".to_owned()));
        Ok(())
    }
}

/// Puts the tree and its image where all nodes find them.
pub(crate) fn furnish(bed: &Bed, cluster: &Cluster) -> Result<(), NotMeasured> {
    finish(std::process::Command::new("which").arg("bindfs"))
        .map_err(|_| "there is no bindfs".to_owned())?;
    let images = bed.numpy()?;
    let image = cluster.put(images.file(Format::Squashfs)?, "numpy.squashfs")?;
    let tree = cluster.directory().join("tree");
    let mut copy = std::process::Command::new("cp");
    finish(copy.arg("-a").arg(&images.tree).arg(&tree))?;
    cluster
        .root(&format!(
            "cp -a {} {TREE}; chown -R alice: {TREE}; install -o alice -m 644 {} {IMAGE}; mkdir -p /fs",
            tree.display(),
            image.display()
        ))
        .map(drop)
}

pub(crate) fn python(place: &str, arguments: &str) -> String {
    format!("srun {arguments} {place}/bin/python3 -c 'import numpy'")
}

pub(crate) fn of_image(arguments: &str) -> String {
    let image = format!("--uenv={IMAGE}:/user-environment --no-default-view {arguments}");
    python("/user-environment", &image)
}

/// Mounts the directory anew on a node.
fn served_anew() -> String {
    format!("umount -l /fs; {SERVER} {TREE} /fs")
}

fn compare(cluster: &Cluster, nodes: usize, rounds: Rounds, is_cold: bool) -> Table {
    let size = format!("-N{nodes} -n{}", nodes * 8);
    let before = |text: &str| {
        if is_cold { text.to_owned() } else { String::new() }
    };
    let served = step(
        "directory of a server",
        &before(&format!("nodes '{}'", served_anew())),
        python("/fs", &size),
    );
    let step = |name: &str, command| step(name, &before(CLEAN), command);
    let memory = of_image(&format!("{size} --uenv-stage=memory"));
    let ways: [Step; 3] = [
        step("image", of_image(&size)),
        step("image, copied to memory", memory),
        step("local directory", python(TREE, &size)),
    ];
    if !is_cold {
        // Else there is nothing that could be warm.
        let _ = cluster.on_nodes(&served_anew());
    }
    let mut turns = Turns::new(cluster, rounds);
    for way in ways {
        turns.run(&way, &served, None);
    }
    turns.table.table()
}

fn counts(cluster: &Cluster) -> Result<Table, NotMeasured> {
    let header = ["from", "ranks", "names, attributes", "opens", "reads", "MiB read"];
    let mut table = Table::new(&header);
    for ranks in [1, 8] {
        let log = cluster.directory().join("requests");
        let log = log.display();
        cluster.root_on(
            "n1",
            &format!(
                "umount -l /fs || true; setsid {SERVER} -d {TREE} /fs >{log} 2>&1 </dev/null & \
                      until mountpoint --quiet /fs; do sleep 0.02; done"
            ),
        )?;
        cluster.alice(&python("/fs", &format!("-w n1 -N1 -n{ranks}")))?;
        cluster.root_on("n1", "umount -l /fs; sleep 0.2")?;
        table.push(requests(Path::new(&log.to_string()), ranks)?);
    }
    for ranks in [1, 8] {
        cluster.root_on("n1", "cabane clean --mounts")?;
        let size = format!("-w n1 -N1 -n{ranks}");
        // A device goes on counting when it is given another file.
        let before = cluster.root_on("n1", "grep -H . /sys/block/loop*/stat || true")?;
        cluster.alice(&of_image(&size))?;
        let ask = "cd -P /sys/dev/block/$(stat --format=%Hd:%Ld /user-environment) && \
                   grep -H . $PWD/stat";
        let ask = format!(
            "srun -w n1 -N1 --uenv={IMAGE}:/user-environment --no-default-view sh -c '{ask}'"
        );
        let output = cluster.alice(&ask)?;
        let (device, now) = read_by_device(&output)
            .pop()
            .ok_or_else(|| format!("the device of the image tells nothing: {output}"))?;
        let before = read_by_device(&before);
        let before = before.iter().find(|(name, _)| *name == device);
        let [reads, sectors] = before.map_or([0, 0], |(_, before)| *before);
        let (reads, sectors) = (now[0] - reads, now[1] - sectors);
        table.push(row("image", ranks, "1", "1", reads, sectors * 512));
    }
    let size = cluster.root(&format!("stat --format=%s {IMAGE}"))?;
    let size: u64 = size.trim().parse().map_err(|_| "the image has no size".to_owned())?;
    table.push(row("image, copied to memory", 8, "1", "1", size.div_ceil(4 << 20), size));
    Ok(table)
}

/// Reads lines `/sys/…/DEVICE/stat:NUMBERS`: how many reads of how many sectors a device has
/// seen.
fn read_by_device(text: &str) -> Vec<(String, [u64; 2])> {
    let line = |line: &str| {
        let (path, numbers) = line.split_once(':')?;
        let device = path.rsplit('/').nth(1)?.to_owned();
        let mut numbers = numbers.split_whitespace().map(|word| word.parse().ok());
        Some((device, [numbers.next()??, numbers.nth(1)??]))
    };
    text.lines().filter_map(line).collect()
}

fn row(from: &str, ranks: u32, names: &str, opens: &str, reads: u64, bytes: u64) -> Vec<String> {
    vec![
        from.to_owned(),
        ranks.to_string(),
        names.to_owned(),
        opens.to_owned(),
        reads.to_string(),
        format!("{:.1}", crate::processor::to_float(bytes) / f64::from(1 << 20)),
    ]
}

/// Counts the requests to the process outside.
fn requests(log: &Path, ranks: u32) -> Result<Vec<String>, NotMeasured> {
    let text = std::fs::read(log).map_err(|error| format!("there is no log: {error}"))?;
    let text = String::from_utf8_lossy(&text);
    let count = |names: &[&str]| {
        let is_one = |line: &&str| {
            let name = line.split("opcode: ").nth(1).and_then(|rest| rest.split(' ').next());
            name.is_some_and(|name| names.contains(&name))
        };
        text.lines().filter(is_one).count()
    };
    // `   read[5] 9764 bytes from 0` is an answer.
    let bytes = text.lines().filter_map(|line| {
        let answer = line.strip_prefix("   read[")?;
        answer.split(' ').nth(1)?.parse::<u64>().ok()
    });
    let reads = count(&["READ", "READDIR"]);
    Ok(row(
        "directory of a server",
        ranks,
        &count(&["LOOKUP", "GETATTR", "READLINK"]).to_string(),
        &count(&["OPEN", "OPENDIR"]).to_string(),
        u64::try_from(reads).unwrap_or_default(),
        bytes.sum(),
    ))
}
