// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A large image brought to the nodes: copied by each, or broadcast by Slurm.

use crate::measure::{NotMeasured, Rounds};
use crate::options::Options;
use crate::report::Section;
use crate::slurm::{Turns, step};
use crate::slurm_cluster::{CLEAN, Cluster};

const TITLE: &str = "Slurm: images that are brought to the nodes";
const METHOD: &str = "\
`salloc` with one step of `true`, and an image of 256 MB of incompressible bytes. In the first \
rows each node mounts the image in place, which reads almost nothing of it, or first copies it \
to memory. *Broadcast* is `sbcast` in the same allocation before the step, which then mounts the \
copy from a file system in memory. Nothing is left on the nodes before a command. All nodes \
share one memory and one set of processors here, and the network is a copy in memory: the times \
contain the cost of making so many copies, but not that of a file server or a network.";

const IMAGE: &str = "/shared/bulk.squashfs";
/// At the head and on the nodes these are different files.
const BROADCAST: &str = "/tmp/bulk.squashfs";

/// What was measured so far.
pub(crate) struct Copies(Section);

pub(crate) fn section() -> Copies {
    Copies(Section::new(TITLE, METHOD))
}

impl Copies {
    pub(crate) fn section(self) -> Section {
        self.0
    }

    pub(crate) fn measure(&mut self, cluster: &Cluster, nodes: usize, options: &Options) {
        if let Err(reason) = self.try_measure(cluster, nodes, options) {
            let remark = format!("{nodes} nodes: not measured: {reason}.");
            self.0.remarks.push(remark);
        }
    }

    fn try_measure(
        &mut self,
        cluster: &Cluster,
        nodes: usize,
        options: &Options,
    ) -> Result<(), NotMeasured> {
        cluster.root(&format!(
            "tree=$(mktemp -d); chmod 755 $tree; head -c 256M /dev/urandom >$tree/noise
             mksquashfs $tree {IMAGE} -noappend -quiet -no-progress -all-root -noI -noD -noF
             rm -r $tree; install -m 644 {IMAGE} {BROADCAST}"
        ))?;
        let job = |prepare: &str, image: &str, arguments: &str| {
            let image = format!("--uenv={image}:/user-environment --no-default-view");
            format!("salloc --quiet -N{nodes} bash -c '{prepare} srun {image} {arguments} true'")
        };
        let before = format!("{CLEAN}; nodes 'rm -f {BROADCAST}'");
        let step = |name: &str, command| step(name, &before, command);
        let broadcast = |arguments: &str| {
            let prepare = format!("sbcast --force {arguments} {IMAGE} {BROADCAST} &&");
            job(&prepare, BROADCAST, "")
        };
        let copied = step("copied to memory", job("", IMAGE, "--uenv-stage=memory"));
        let mounted = step("mounted from where it is", job("", IMAGE, ""));
        let mut turns = Turns::new(cluster, Rounds { warm_up: 1, pairs: options.transfers(5) });
        turns.run(&copied, &mounted, None);
        turns.run(&step("broadcast", broadcast("")), &copied, None);
        turns.run(&step("broadcast, `--compress=lz4`", broadcast("--compress=lz4")), &copied, None);
        turns.run(&step("broadcast, `--fanout=2`", broadcast("--fanout=2")), &copied, None);
        let table = turns.table.table();
        self.0.tables.push(table.captioned(format!("{nodes} nodes")));
        cluster.root(&format!("rm -f {IMAGE} {BROADCAST}")).map(drop)
    }
}
