// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The cluster of these tests, with Cabane installed, and looking at it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cabane_testkit::{Finished, Program, Server, Tree, slowness, squashfs, time_limit};

use crate::releases;

/// How many nodes there are: n1, n2, …
pub(crate) const NODES: usize = 4;
/// What the site allows at the beginning of each test.
const POLICY: &str = "mount-point /user-environment\nmount-point /user-tools\n\
                      image-owners any\nidle-seconds 0\n";
pub(crate) const PLUGIN: &str = "/usr/local/lib/cabane/slurm/cabane-slurm.so";
/// What ends a command that hangs, in seconds.
const TIME_LIMIT: u32 = 180;

/// A cluster, for one test at a time.
pub(crate) struct Cluster {
    directory: PathBuf,
    _server: Server,
}

/// Which cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// One without anything special.
    Plain,
    /// One whose jobs have their own `/tmp` and `/dev/shm` on each node.
    JobContainers,
    /// One that holds jobs in control groups, with a limit of memory.
    ControlGroups,
    /// The same with control groups of the second version.
    UnifiedControlGroups,
    /// One whose nodes have their configuration from the head. Its jobs have a prolog, an
    /// epilog, and a step that Slurm starts before theirs.
    Configless,
}

static PLAIN: OnceLock<Mutex<Cluster>> = OnceLock::new();
static JOB_CONTAINERS: OnceLock<Mutex<Cluster>> = OnceLock::new();
static CONTROL_GROUPS: OnceLock<Mutex<Cluster>> = OnceLock::new();
static UNIFIED_CONTROL_GROUPS: OnceLock<Mutex<Cluster>> = OnceLock::new();
static CONFIGLESS: OnceLock<Mutex<Cluster>> = OnceLock::new();

/// Programs without which there is no cluster.
const PROGRAMS: [&str; 4] = ["slurmctld", "slurmd", "munged", "ip"];

const TOP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The release of Slurm that the cluster has, if it is another than that of the machine.
pub(crate) fn release() -> Option<String> {
    std::env::var("CABANE_TEST_SLURM").ok()
}

/// The root file system of a cluster with another release.
fn root_with(release: &str) -> PathBuf {
    Path::new(TOP).join(".cabane/slurm").join(release)
}

/// Why there can be no cluster here.
pub(crate) fn obstacle() -> Option<String> {
    if !cabane_testkit::is_root() {
        return Some("only root can make a cluster of virtual nodes".to_owned());
    }
    if let Some(release) = release() {
        let command = format!("`scripts/setup slurm-roots {release}`");
        let is_there = root_with(&release).join("usr").exists();
        return (!is_there).then(|| format!("there is no Slurm {release}: {command} brings it"));
    }
    let missing = PROGRAMS.iter().find(|name| Program::find(name).path().is_none());
    missing.map(|name| format!("there is no {name}: `scripts/setup test` brings it"))
}

/// Does something with a cluster, the plain one unless another is named, and looks
/// afterwards whether anything is left.
macro_rules! in_cluster {
    ($test:expr) => {
        crate::arena::in_cluster!(Plain, $test)
    };
    ($kind:ident, $test:expr) => {
        match crate::arena::obstacle() {
            Some(reason) => cabane_testkit::not_run!("{reason}"),
            None => crate::arena::with_cluster(crate::arena::Kind::$kind, $test),
        }
    };
}
pub(crate) use in_cluster;

pub(crate) fn with_cluster(kind: Kind, test: impl FnOnce(&Cluster)) {
    let cluster = match kind {
        Kind::Plain => &PLAIN,
        Kind::JobContainers => &JOB_CONTAINERS,
        Kind::ControlGroups => &CONTROL_GROUPS,
        Kind::UnifiedControlGroups => &UNIFIED_CONTROL_GROUPS,
        Kind::Configless => &CONFIGLESS,
    };
    let cluster = cluster.get_or_init(|| Mutex::new(Cluster::start(kind)));
    let cluster: MutexGuard<'_, Cluster> = cluster.lock().unwrap_or_else(PoisonError::into_inner);
    cluster.be_as_at_the_beginning();
    test(&cluster);
    cluster.check_that_nothing_is_left();
}

impl Cluster {
    fn start(kind: Kind) -> Self {
        let release = release();
        let of_release = release.as_deref().map(|release| format!("{release}-"));
        let name = format!("slurm-cluster-{}{kind:?}", of_release.unwrap_or_default());
        let name = name.to_lowercase();
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        if directory.exists() {
            fs::remove_dir_all(&directory).unwrap();
        }
        fs::create_dir_all(&directory).unwrap();
        let mut command = match kind {
            Kind::Plain => Server::command(script()),
            Kind::JobContainers => command_for_job_containers(&directory),
            Kind::ControlGroups => command_for_control_groups(&directory, "CgroupPlugin=cgroup/v1"),
            Kind::UnifiedControlGroups => {
                let settings = "CgroupPlugin=cgroup/v2\nIgnoreSystemd=yes";
                command_for_control_groups(&directory, settings)
            }
            Kind::Configless => command_for_configless(&directory),
        };
        command.arg("serve");
        if let Some(release) = &release {
            command.arg("--root").arg(fs::canonicalize(root_with(release)).unwrap());
            for place in seen_in_other_roots() {
                command.arg("--show").arg(place);
            }
        }
        command.arg(&directory).arg(NODES.to_string());
        let mut server = Server::start(command, &directory.join("serve.log"));
        server.wait_for(|log| log.lines().any(|line| line == "ready").then_some(()));
        let cluster = Self { directory, _server: server };
        cluster.install();
        cluster.furnish();
        if matches!(kind, Kind::Configless) {
            cluster.hand_out();
        }
        cluster
    }

    /// Gives the configuration of the plugin to nodes that have theirs from the head.
    fn hand_out(&self) {
        self.be_as_at_the_beginning();
        self.root("scontrol reconfigure");
        for node in (1..=NODES).map(|number| format!("n{number}")) {
            let script = format!(
                "until grep -q {PLUGIN} /run/slurm/conf/plugstack.conf; do sleep 0.05; done"
            );
            self.on_node(&node, "root").sh(&script).success();
        }
        self.wait_until_idle();
    }

    /// Puts command and plugin where `make install` puts them.
    fn install(&self) {
        let built = Path::new(env!("CARGO_BIN_EXE_cabane"));
        let command = std::env::var_os("CABANE_TEST_BINARY").map_or(built.into(), PathBuf::from);
        let plugin = match release() {
            Some(release) => releases::build_one(&release),
            None => built.with_file_name("libcabane_slurm.so"),
        };
        assert!(plugin.is_file(), "`cargo build -p cabane-slurm` makes the plugin of these tests");
        self.root(&format!(
            "set -e
             install -m 755 {} /usr/local/bin/cabane
             install -D -m 644 {} {PLUGIN}
             mkdir -p /etc/cabane /user-environment /user-tools",
            command.display(),
            plugin.display()
        ));
    }

    /// Gives alice and bob images: `app` and `tool` of alice in the repository that all
    /// read, `own` of bob.
    fn furnish(&self) {
        let world = self.directory.join("images");
        let app = Tree::new(world.join("app"))
            .meta("app", "/user-environment")
            .program("bin/who", "echo app 1");
        squashfs(app.root(), &world.join("app.squashfs"));
        let app = Tree::new(world.join("app2"))
            .meta("app", "/user-environment")
            .program("bin/who", "echo app 2");
        squashfs(app.root(), &world.join("app2.squashfs"));
        let tool = Tree::new(world.join("tool"))
            .meta("tool", "/user-tools")
            .program("bin/what", "echo tool");
        squashfs(tool.root(), &world.join("tool.squashfs"));
        // Other times, so that they are other images.
        let images = world.display();
        self.root(&format!(
            "install -d -o alice -g alice /shared/images
             for name in app app2 tool; do
                 install -o alice -m 644 {images}/$name.squashfs /shared/images/
             done
             install -o bob -m 600 {images}/app2.squashfs /home/bob/own.squashfs"
        ));
        self.user("alice")
            .sh(
                "cabane repo create /shared/repository
                 cabane --repo /shared/repository image add app/1:v1@here%any /shared/images/app.squashfs
                 cabane --repo /shared/repository image add tool/1:v1@here%any /shared/images/tool.squashfs",
            )
            .success();
    }

    /// What tests change is as it was.
    fn be_as_at_the_beginning(&self) {
        self.root(&format!(
            "printf '{POLICY}' >/etc/cabane/mount.policy
             printf '[[repositories]]\\nname = \"site\"\\npath = \"/shared/repository\"\\n' >/etc/cabane/config.toml
             echo 'required {PLUGIN}' >/etc/slurm/plugstack.conf"
        ));
    }

    /// Runs a script as root at the head, which must succeed.
    pub(crate) fn root(&self, script: &str) -> String {
        Account::new(self, "root").sh(script).success().stdout
    }

    /// A fresh directory outside of the cluster, where root of the machine prepares things.
    pub(crate) fn machine_directory(&self, name: &str) -> PathBuf {
        let place = self.directory.join("images").join(name);
        if place.exists() {
            fs::remove_dir_all(&place).unwrap();
        }
        fs::create_dir_all(&place).unwrap();
        place
    }

    /// Packs a tree into `/shared/NAME.squashfs`, which belongs to alice.
    pub(crate) fn pack(&self, name: &str, tree: &Path) {
        let image = tree.with_file_name("image.squashfs");
        squashfs(tree, &image);
        let image = image.display();
        self.root(&format!("install -m 644 -o alice {image} /shared/{name}.squashfs"));
    }

    /// Copies a directory to `/shared/NAME`, where all nodes see it.
    pub(crate) fn share(&self, name: &str, directory: &Path) {
        let directory = directory.display();
        self.root(&format!(
            "rm -rf /shared/{name}; cp -r {directory} /shared/{name}; chmod -R a+rX /shared/{name}"
        ));
    }

    /// Makes a plugin for Slurm 23.02: the release is the four bytes under one name.
    pub(crate) fn make_for_another_release(&self, path: &str) {
        self.root(&format!(
            "python3 - <<'END'
import subprocess
table = subprocess.run(['nm', '-D', '{PLUGIN}'], capture_output=True, text=True, check=True).stdout
place = next(int(line.split()[0], 16) for line in table.splitlines() if line.endswith(' plugin_version'))
data = bytearray(open('{PLUGIN}', 'rb').read())
data[place:place + 4] = (0x170200).to_bytes(4, 'little')
open('{path}', 'wb').write(data)
END"
        ));
    }

    /// Someone at the head.
    pub(crate) fn user<'a>(&'a self, name: &'a str) -> Account<'a> {
        Account::new(self, name)
    }

    /// Someone on a node.
    pub(crate) fn on_node<'a>(&'a self, node: &'a str, name: &'a str) -> Account<'a> {
        Account { node: Some(node), ..Account::new(self, name) }
    }

    /// Ends all that runs on a node, or starts it again.
    pub(crate) fn power(&self, node: &str, is_on: bool) {
        let action = if is_on { "start-node" } else { "stop-node" };
        let mut command = Command::new(script());
        command.arg(action).arg(&self.directory).arg(node);
        Finished::of(command.stdin(Stdio::null())).success();
    }

    /// Waits until no job is left and all nodes are idle; says what is the matter otherwise.
    fn wait_until_idle(&self) {
        let begin = Instant::now();
        loop {
            let jobs = self.root("squeue --noheader");
            let nodes =
                self.root("sinfo --noheader --partition=all --Node --states=idle --format=%N");
            if jobs.trim().is_empty() && nodes.lines().count() == NODES {
                return;
            }
            let found = self.root("squeue; sinfo --long --Node; sinfo --list-reasons");
            assert!(begin.elapsed() < time_limit(Duration::from_secs(20)), "{found}");
            sleep(Duration::from_millis(50));
        }
    }

    fn check_that_nothing_is_left(&self) {
        self.wait_until_idle();
        for node in (1..=NODES).map(|number| format!("n{number}")) {
            let left = self.on_node(&node, "root").sh("cabane clean --mounts >/dev/null || exit
                 grep -lE ' /user-(environment|tools) ' /proc/[0-9]*/mountinfo 2>/dev/null
                 ps -u alice,bob -o args=
                 find /run/cabane /run/jobs/* -mindepth 1 2>/dev/null
                 true");
            assert_eq!(left.success().stdout, "", "left on {node}");
        }
    }
}

/// What commands in a cluster find at its place although the root is not that of the machine:
/// the checkout, what was built, and what the set-up brought.
fn seen_in_other_roots() -> Vec<PathBuf> {
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join("..");
    let places = [PathBuf::from(TOP), built, Path::new(TOP).join(".cabane/mpi")];
    places.iter().filter_map(|place| fs::canonicalize(place).ok()).collect()
}

/// Slurm mounts the namespace of a job as a file. Linux 6.18 refuses that if the number of the
/// namespace is below that of the one around, and numbers grow on each processor by itself:
/// the nodes stay on one.
fn command_for_job_containers(directory: &Path) -> Command {
    let settings = "JobContainerType=job_container/tmpfs\nPrologFlags=Contain\n";
    fs::write(directory.join("slurm.conf"), settings).unwrap();
    let places = "AutoBasePath=true\nBasePath=/run/jobs\n";
    fs::write(directory.join("job_container.conf"), places).unwrap();
    let mut command = Server::command("taskset");
    command.args(["--cpu-list", "0"]).arg(script());
    command
}

/// Tells why there are no control groups in which Slurm could hold a job, if so.
pub(crate) fn no_control_groups() -> Option<&'static str> {
    let has = |name| Path::new("/sys/fs/cgroup").join(name).join("cgroup.procs").exists();
    let is_complete = ["freezer", "memory", "cpuset", "devices"].into_iter().all(has);
    (!is_complete).then_some("the machine has no control groups of the first version")
}

/// Whether the machine has control groups of the second version, with a limit of memory.
pub(crate) fn has_unified_control_groups() -> bool {
    let controllers = fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap_or_default();
    controllers.split_whitespace().any(|name| name == "memory")
}

fn command_for_control_groups(directory: &Path, plugin: &str) -> Command {
    // Newer releases limit memory only where it is allocated.
    let settings = "ProctrackType=proctrack/cgroup\nTaskPlugin=task/cgroup\n\
                    SelectTypeParameters=CR_CPU_Memory\nPrologFlags=Contain,X11\n";
    fs::write(directory.join("slurm.conf"), settings).unwrap();
    let groups = format!("{plugin}\nConstrainRAMSpace=yes\nConstrainDevices=yes\n");
    fs::write(directory.join("cgroup.conf"), groups).unwrap();
    Server::command(script())
}

/// What prolog and epilog have seen: `n1 prolog alice: 0 files, 0 servers`.
pub(crate) const SEEN_BY_SCRIPTS: &str = "/shared/scripts.log";

fn command_for_configless(directory: &Path) -> Command {
    let script = |name: &str| {
        let path = directory.join(name);
        let text = format!(
            "#!/bin/sh
files=$(ls -A /user-environment | wc -l)
servers=$(pgrep -c squashfuse_ll)
echo \"$(cat /run/cluster/name) {name} $SLURM_JOB_USER: $files files, $servers servers\" >>{SEEN_BY_SCRIPTS}
"
        );
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    };
    let settings = format!(
        "SlurmctldParameters=enable_configless\nPrologFlags=Contain\nProlog={}\nEpilog={}\n",
        script("prolog").display(),
        script("epilog").display()
    );
    fs::write(directory.join("slurm.conf"), settings).unwrap();
    Server::command(self::script())
}

/// Nothing of the user has run, and the reason was printed.
pub(crate) fn assert_failed(finished: &Finished, reason: &str) {
    assert!(
        finished.code != 0 && finished.stdout.is_empty() && finished.stderr.contains(reason),
        "{finished:?}"
    );
}

fn script() -> PathBuf {
    Path::new(TOP).join("tests/slurm/cluster")
}

/// Someone who types commands.
#[derive(Clone, Copy)]
pub(crate) struct Account<'a> {
    cluster: &'a Cluster,
    name: &'a str,
    node: Option<&'a str>,
    limit: u32,
}

impl<'a> Account<'a> {
    fn new(cluster: &'a Cluster, name: &'a str) -> Self {
        Self { cluster, name, node: None, limit: TIME_LIMIT }
    }

    /// The same, for commands that take minutes.
    pub(crate) fn patient(self) -> Self {
        Self { limit: 10 * TIME_LIMIT, ..self }
    }

    /// Runs a script of the shell; one that takes too long is ended.
    pub(crate) fn sh(self, script: &str) -> Finished {
        Finished::of(&mut self.command(script))
    }

    /// The command that runs a script.
    pub(crate) fn command(self, text: &str) -> Command {
        let mut command = Command::new(script());
        command.arg("exec").arg(&self.cluster.directory);
        command.args(["--user", self.name]);
        if let Some(node) = self.node {
            command.args(["--node", node]);
        }
        let limit = (self.limit * slowness()).to_string();
        command.args(["timeout", "--kill-after=5", &limit, "bash", "-c", text]);
        command.stdin(Stdio::null());
        command
    }
}
