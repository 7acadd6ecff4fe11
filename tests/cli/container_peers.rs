// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Buildah makes images that are imported, and with Podman runs what is exported.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cabane_testkit::{Finished, is_root, needs, not_run};

use crate::cabane::{Cabane, everybody};
use crate::export::{STACK, add_base, add_stack, exported, typed};
use crate::import_containers::TOOL;

/// Podman and Buildah with a store of their own. They run as root: for others they want
/// ranges of user numbers, which accounts of tests do not have.
struct Peers {
    home: PathBuf,
    /// Where they are unpacked, as `/usr`.
    usr: PathBuf,
}

/// What they want to see, and then a command. What is unpacked and not installed is seen as if it
/// were. The runtime refuses a machine with both versions of control groups; it is shown the newer
/// one. The limits that are usual with Podman are greater than those that root may set on every
/// machine.
const SURROUNDINGS: &str = r#"
set -e
mount --make-rprivate /
if [ "$1" != /usr ]; then mount -t overlay -o "lowerdir=$1:/usr" overlay /usr; fi
shift
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/lib
if [ -d /sys/fs/cgroup/unified ]; then mount --bind /sys/fs/cgroup/unified /sys/fs/cgroup; fi
echo '[containers]' >"$HOME/containers.conf"
echo 'default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]' >>"$HOME/containers.conf"
export CONTAINERS_CONF="$HOME/containers.conf"
exec "$@"
"#;

impl Peers {
    fn new(cabane: &Cabane, programs: &[PathBuf]) -> Self {
        let home = cabane.world.directory("peers");
        // Some may be installed, and the others unpacked.
        let mut places = programs.iter().filter_map(|program| program.ancestors().nth(2));
        let usr = places.find(|usr| *usr != Path::new("/usr")).unwrap_or(Path::new("/usr"));
        Self { home, usr: usr.to_owned() }
    }

    fn run(&self, program: &str, options: &[&str], arguments: &[&str]) -> String {
        let store = ["root", "runroot"].map(|name| self.home.join(name));
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "sh", "-c", SURROUNDINGS, "sh"])
            .arg(&self.usr)
            .arg(program)
            .arg("--root")
            .arg(&store[0])
            .arg("--runroot")
            .arg(&store[1])
            .args(["--storage-driver", "vfs"])
            .args(options)
            .args(arguments)
            .env("HOME", &self.home);
        Finished::of(&mut command).success().stdout
    }

    fn podman(&self, arguments: &[&str]) -> String {
        let options = ["--runtime", "crun", "--cgroup-manager", "cgroupfs"];
        self.run("podman", &options, arguments)
    }

    fn run_by_podman(&self, image: &str, arguments: &[&str]) -> String {
        let options = ["run", "--rm", "--cgroups=disabled", "--network=none"];
        self.podman(&[&options[..], &[image], arguments].concat())
    }

    fn buildah(&self, arguments: &[&str]) -> String {
        self.run("buildah", &[], arguments).trim().to_owned()
    }

    fn run_by_buildah(&self, container: &str, arguments: &[&str]) -> String {
        let options = ["run", "--isolation=chroot", container, "--"];
        self.buildah(&[&options[..], arguments].concat())
    }
}

/// Podman, Buildah and a world for them, or the reason why the test does not run.
macro_rules! peers {
    ($cabane:expr) => {
        if is_root() {
            Peers::new($cabane, &[needs!("podman"), needs!("buildah"), needs!("crun")])
        } else {
            not_run!("root can start Podman and Buildah without preparation")
        }
    };
}

#[test]
fn podman_and_buildah_run_what_is_exported() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        let peers = peers!(&cabane);
        add_stack(&cabane, "");
        add_base(&cabane, "2.17");
        for scheme in ["oci-archive", "docker-archive"] {
            let target = typed(&cabane, scheme, &format!("{scheme}.tar:site/stack:1"));
            exported(&cabane, &[STACK, &target, "--base", "os"]);
            let archive = cabane.world.path(&format!("{scheme}.tar"));
            let output = peers.podman(&["load", "--quiet", "--input", archive.to_str().unwrap()]);
            assert!(output.contains("localhost/site/stack:1"), "{scheme}: {output}");
            let greeting = "hello from stack\n";
            // The entry point is that of the base, which has a default command.
            assert_eq!(peers.run_by_podman("site/stack:1", &[]), greeting);
            let arguments = ["hello; pwd; cat /user-environment/lib/text"];
            let seen = peers.run_by_podman("site/stack:1", &arguments);
            assert_eq!(seen, format!("{greeting}/home\nsome text"), "{scheme}");
            let container = peers.buildah(&["from", "--pull-never", "site/stack:1"]);
            let seen = peers.run_by_buildah(&container, &["hello"]);
            assert_eq!(seen, greeting.trim(), "{scheme}");
            peers.buildah(&["rm", &container]);
            peers.podman(&["rmi", "site/stack:1"]);
        }
    }
}

#[test]
fn what_buildah_makes_is_imported_and_runs() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        let peers = peers!(&cabane);
        add_base(&cabane, "2.17");
        let base = typed(&cabane, "oci-archive", "base.tar:site/base:1");
        exported(&cabane, &["os", &base]);
        let archive = cabane.world.path("base.tar");
        peers.podman(&["load", "--quiet", "--input", archive.to_str().unwrap()]);
        let first = "mkdir -p /opt/tool/old; echo 1 >/opt/tool/old/file; echo 1 >/opt/tool/gone";
        let container = peers.buildah(&["from", "--pull-never", "site/base:1"]);
        peers.run_by_buildah(&container, &["/bin/sh", "-c", first]);
        peers.buildah(&["commit", &container, "site/tool:1"]);
        let second = "cd /opt/tool; rm -r old gone; mkdir old; echo 2 >old/new";
        let container = peers.buildah(&["from", "--pull-never", "site/tool:1"]);
        peers.run_by_buildah(&container, &["/bin/sh", "-c", second]);
        let entry_point = r#"["/bin/sh", "-c", "cat $DATA; pwd; ls . old"]"#;
        let options = ["--env=DATA=/opt/tool/old/new", "--workingdir=/opt/tool"];
        let entry_point = ["config", "--entrypoint", entry_point];
        peers.buildah(&[&entry_point[..], &options, &[&container]].concat());
        peers.buildah(&["commit", &container, "site/tool:2"]);
        for scheme in ["oci-archive", "docker-archive"] {
            let archive = cabane.world.path(&format!("tool-{scheme}.tar"));
            let target = format!("{scheme}:{}:site/tool:2", archive.display());
            peers.buildah(&["push", "--quiet", "site/tool:2", &target]);
            everybody_may_read(&archive);
            let arguments = ["import", &target, TOOL, "--force"];
            cabane.run(&arguments).success();
            let seen = cabane.run(&["run", "tool"]).success();
            assert_eq!(seen.stdout, "2\n/opt/tool\n.:\nold\n\nold:\nnew\n", "{scheme}, {who:?}");
        }
    }
}

fn everybody_may_read(path: &Path) {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    fs::set_permissions(path, mode).unwrap();
}
