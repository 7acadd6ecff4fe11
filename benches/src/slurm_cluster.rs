// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A cluster of virtual nodes with the plugin, and running steps on it in turn.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cabane_testkit::{Server, Tree, squashfs};

use crate::bed::{Bed, beside_this_program};
use crate::measure::{NotMeasured, Pairs, Rounds, finish};
use crate::users::is_root;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/slurm/cluster");
const PAIRS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/slurm/pairs");
const PLUGIN: &str = "/usr/local/lib/cabane/cabane-slurm.so";
const POLICY: &str = "mount-point /user-environment\\nimage-owners any\\nidle-seconds 3600\\n\
                      stage-memory 4096\\n";
/// The label of a small image.
pub(crate) const LABEL: &str = "app/1:v1";
/// What gives up all images on all nodes.
pub(crate) const CLEAN: &str = "nodes 'cabane clean --mounts'";

/// A cluster with Cabane installed, an image under [`LABEL`], and alice.
pub(crate) struct Cluster {
    directory: PathBuf,
    nodes: usize,
    _server: Server,
}

/// A command of alice.
#[derive(Clone)]
pub(crate) struct Step {
    /// What it is called in the report.
    pub(crate) name: String,
    /// What root does before it.
    pub(crate) before: String,
    /// What she types at the head.
    pub(crate) command: String,
}

/// Finds the plugin for the release of Slurm that is installed.
fn plugin() -> Result<PathBuf, NotMeasured> {
    let version = finish(Command::new("slurmd").arg("-V"))?;
    let version = String::from_utf8_lossy(&version).into_owned();
    let numbers = version.split_whitespace().last().unwrap_or_default();
    let release: Vec<&str> = numbers.split('.').take(2).collect();
    let plugin = format!("slurm/{}/cabane-slurm.so", release.join("."));
    beside_this_program(&plugin)
        .map_err(|_| "there is no plugin: `scripts/build-slurm` makes it".to_owned())
}

impl Cluster {
    /// Starts so many nodes.
    pub(crate) fn start(bed: &Bed, nodes: usize) -> Result<Self, NotMeasured> {
        if !is_root() {
            return Err("only root can make a cluster of virtual nodes".to_owned());
        }
        for program in ["slurmctld", "slurmd", "srun", "munged"] {
            let found = finish(Command::new("which").arg(program));
            found.map_err(|_| format!("there is no {program}: `scripts/setup test` brings it"))?;
        }
        let plugin = plugin()?;
        let directory = bed.directory(&format!("cluster-{nodes}"))?;
        let mut command = Server::command(SCRIPT);
        command.arg("serve").arg(&directory).arg(nodes.to_string());
        let mut server = Server::start(command, &directory.join("serve.log"));
        server.wait_for(|log| log.lines().any(|line| line == "ready").then_some(()));
        let cluster = Self { directory, nodes, _server: server };
        cluster.furnish(bed, &plugin)?;
        Ok(cluster)
    }

    fn furnish(&self, bed: &Bed, plugin: &Path) -> Result<(), NotMeasured> {
        let tree = Tree::new(self.directory.join("app"))
            .meta("app", "/user-environment")
            .program("bin/who", "echo app");
        let image = self.directory.join("app.squashfs");
        squashfs(tree.root(), &image);
        let cabane = bed.cabane.as_ref().map_err(Clone::clone)?;
        let installed = self.put(cabane, "cabane")?;
        let plugin = self.put(plugin, "cabane-slurm.so")?;
        self.root(&format!(
            "install -m 755 {} /usr/local/bin/cabane
             install -D -m 644 {} {PLUGIN}
             mkdir -p /etc/cabane /user-environment
             printf '{POLICY}' >/etc/cabane/mount.policy
             printf '[[repositories]]\\nname = \"site\"\\npath = \"/shared/repository\"\\n' \
                 >/etc/cabane/config.toml
             cabane repo create /shared/repository
             cabane --repo /shared/repository image add {LABEL}@here%any {}
             {ON}",
            installed.display(),
            plugin.display(),
            image.display(),
        ))
        .map(drop)
    }

    /// Copies a file of the machine to where the cluster sees it, until it ends.
    pub(crate) fn put(&self, file: &Path, name: &str) -> Result<PathBuf, NotMeasured> {
        let target = self.directory.join(name);
        fs::copy(file, &target).map_err(|error| format!("cannot copy {name}: {error}"))?;
        Ok(target)
    }

    /// Returns a place that cluster and machine have in common.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Runs a script as root at the head, or on a node.
    pub(crate) fn root(&self, script: &str) -> Result<String, NotMeasured> {
        self.run(&["--user", "root"], &["bash", "-euc", script])
    }

    /// Runs a script as root on all nodes.
    pub(crate) fn on_nodes(&self, script: &str) -> Result<(), NotMeasured> {
        let mut nodes = (1..=self.nodes).map(|number| format!("n{number}"));
        nodes.try_for_each(|node| self.root_on(&node, script).map(drop))
    }

    /// The same on one node.
    pub(crate) fn root_on(&self, node: &str, script: &str) -> Result<String, NotMeasured> {
        self.run(&["--node", node], &["bash", "-euc", script])
    }

    /// Runs a script of alice at the head.
    pub(crate) fn alice(&self, script: &str) -> Result<String, NotMeasured> {
        self.run(&["--user", "alice"], &["bash", "-euc", script])
    }

    fn run(&self, who: &[&str], arguments: &[&str]) -> Result<String, NotMeasured> {
        let mut command = Command::new(SCRIPT);
        command.arg("exec").arg(&self.directory);
        let output = finish(command.args(who).args(arguments))?;
        Ok(String::from_utf8_lossy(&output).into_owned())
    }

    /// Runs two commands in turn.
    pub(crate) fn alternate(
        &self,
        first: &Step,
        second: &Step,
        rounds: Rounds,
    ) -> Result<Pairs, NotMeasured> {
        let script = self.put(Path::new(PAIRS), "pairs")?;
        let (warm_up, pairs) = (rounds.warm_up.to_string(), rounds.pairs.to_string());
        let mut arguments = vec!["bash", script.to_str().unwrap_or_default()];
        arguments.extend([warm_up.as_str(), pairs.as_str()]);
        for step in [first, second] {
            arguments.extend([step.before.as_str(), step.command.as_str()]);
        }
        let output = self.run(&["--user", "root"], &arguments)?;
        let times = output.lines().filter_map(|line| {
            let mut times = line.split(' ').map(str::parse::<f64>);
            Some((times.next()?.ok()? / 1e3, times.next()?.ok()? / 1e3))
        });
        Ok(Pairs::of(times))
    }
}

/// Slurm loads the plugin.
pub(crate) const ON: &str =
    "echo 'required /usr/local/lib/cabane/cabane-slurm.so' >/etc/slurm/plugstack.conf";
/// It does not.
pub(crate) const OFF: &str = ": >/etc/slurm/plugstack.conf";
