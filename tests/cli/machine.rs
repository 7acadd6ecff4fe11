// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Machines that lack something, made for real.
//!
//! A machine is a set of namespaces: its own mounts, processes, `/etc`, `/run` and
//! `/mnt`; a right one has the helper, FUSE and user namespaces. What is wrong with it
//! is done to it by a few lines of shell. Then doctor says what would be chosen and
//! whether it works, `cabane run` does it, and both must be the same.
//!
//! ```text
//! /mnt/                 a file system in memory
//! ├── prefix/           bin/cabane, libexec/cabane/cabane-mount
//! ├── env/  env2/       mount points of the policy
//! ├── etc/  dev/        what is seen as /etc; devices that a case may put at /dev
//! └── home/             of the ordinary user
//! ```

use std::path::Path;
use std::process::Command;

use cabane_testkit::{Finished, is_root};
use serde_json::Value;

use crate::arena::helper_binary;
use crate::cabane::{Cabane, Who};

const RIGHT: &str = r#"
set -e
mount -t tmpfs -o mode=755 tmpfs /mnt
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /mnt/env /mnt/env2 /mnt/home /mnt/prefix/bin /mnt/prefix/libexec/cabane /mnt/etc/cabane
find /etc -mindepth 1 -maxdepth 1 -name '[!.]*' '(' -type l -o -type f ')' -exec cp -a -t /mnt/etc '{}' +
cp -a /etc/alternatives /mnt/etc/ 2>/dev/null || true
mount --bind /mnt/etc /etc
chown 61234 /mnt/home
bin=/mnt/prefix/bin/cabane
helper=/mnt/prefix/libexec/cabane/cabane-mount
policy=/etc/cabane/mount.policy
touch $bin
mount --bind "$PROGRAM" $bin
install -m 4755 "$HELPER" $helper
printf 'mount-point /mnt/env\nmount-point /mnt/env2\nimage-owners root\nidle-seconds 0\n' >$policy
copy_dev() {
    mkdir -m 755 /mnt/dev
    cp -a /dev/null /dev/zero /dev/urandom /dev/loop* /dev/fuse /mnt/dev/
    # The kernel adds devices while other tests run.
    for number in $(seq 0 199); do
        [ -e /mnt/dev/loop$number ] || mknod -m 660 /mnt/dev/loop$number b 7 $number
    done
}
"#;

const ASK: &str = r#"
set +e
$user $inside $bin doctor --json >"$OUT/doctor" 2>"$OUT/doctor.err"
echo $? >"$OUT/doctor.code"
$user $inside timeout 10 $bin run app:/mnt/env -- grep ' /mnt/env ' /proc/self/mountinfo \
    >"$OUT/run" 2>"$OUT/run.err"
echo $? >"$OUT/run.code"
"#;

/// Makes the machine inside of a user namespace in which everyone keeps his number.
pub(crate) const IN_USER_NAMESPACE: &str = r#"
mkfifo "$OUT/mapped"
unshare --user sh -c "read _ <$OUT/mapped; exec $ENTER" & inside=$!
while [ /proc/$inside/ns/user -ef /proc/self/ns/user ]; do sleep 0.01; done
echo 0 0 4294967295 >/proc/$inside/uid_map
echo 0 0 4294967295 >/proc/$inside/gid_map
echo >"$OUT/mapped"
wait $inside
"#;

const ENTER: &str =
    "unshare --fork --pid --mount --mount-proc --kill-child sh -c 'eval \"$SCRIPT\"'";

/// A machine with something wrong.
pub(crate) struct Machine<'a> {
    pub(crate) who: Who,
    /// What is done to a right machine before doctor looks.
    pub(crate) wrong: &'a str,
    /// How root enters the machine.
    pub(crate) entry: &'a str,
}

/// What doctor reported, and what `cabane run` did.
pub(crate) struct Verdict {
    pub(crate) doctor: Value,
    pub(crate) code: i32,
    pub(crate) run: Finished,
}

impl<'a> Machine<'a> {
    pub(crate) fn of(who: Who, wrong: &'a str) -> Self {
        let entry = "eval \"exec $ENTER\"";
        Self { who, wrong, entry }
    }

    pub(crate) fn ask(&self) -> Verdict {
        let cabane = Cabane::with_app(Who::Root);
        let out = cabane.world.directory("out");
        let repository = cabane.world.path("home/.local/share/cabane/repository");
        let user = match self.who {
            Who::Root => "",
            Who::OrdinaryUser => "setpriv --reuid=61234 --regid=61234 --clear-groups",
        };
        let variables = format!(
            "env -i PATH=/mnt/prefix/bin:/usr/bin:/bin HOME=/mnt/home CABANE_SYSTEM=here \
             CABANE_REPO=shared={}",
            repository.display()
        );
        let script = format!("{RIGHT}\nuser='{user} {variables}'\ninside=\n{}\n{ASK}", self.wrong);
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", "120", "sh", "-c", self.entry]);
        command
            .env("ENTER", ENTER)
            .env("SCRIPT", &script)
            .env("PROGRAM", cabane.program())
            .env("HELPER", helper_binary().unwrap_or_default())
            .env("PACKAGING", concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging"))
            .env("OUT", &out)
            .current_dir("/");
        let seen = Finished::of(&mut command);
        assert!(seen.code == 0, "the machine could not be made: {seen:?}");
        Verdict::read(&out)
    }
}

impl Verdict {
    fn read(out: &Path) -> Self {
        let read = |name| std::fs::read_to_string(out.join(name)).unwrap();
        let code = |name| read(name).trim().parse().unwrap();
        let doctor = serde_json::from_str(&read("doctor"));
        Self {
            doctor: doctor.unwrap_or_else(|error| panic!("{error}: {}", read("doctor.err"))),
            code: code("doctor.code"),
            run: Finished { code: code("run.code"), stdout: read("run"), stderr: read("run.err") },
        }
    }

    /// Compares what doctor says would happen with what happened.
    #[track_caller]
    pub(crate) fn is_what_happens(&self, who: Who) {
        let backend = self.doctor["choice"]["backend"].as_str().unwrap();
        let works = self.doctor["choice"]["works"].as_bool().unwrap();
        let happened = if self.run.code != 0 {
            "nothing"
        } else if self.run.stdout.contains(" - fuse") {
            "user-namespace"
        } else if who == Who::Root {
            "root"
        } else {
            "helper"
        };
        let output = if works { backend } else { "nothing" };
        assert_eq!(output, happened, "{:?}\n{:#}", self.run, self.doctor);
        let healthy = self.doctor["healthy"].as_bool().unwrap();
        assert_eq!(self.code, if healthy { 0 } else { 10 });
    }

    /// Returns `STATE: FOUND` and the command of one line of the report.
    pub(crate) fn finding(&self, name: &str) -> (String, String) {
        let findings = self.doctor["findings"].as_array().unwrap();
        let found = findings.iter().find(|finding| finding["name"] == name);
        let found = found.unwrap_or_else(|| panic!("no `{name}` in {:#}", self.doctor));
        let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
        (format!("{}: {}", text("state"), text("found")), text("command"))
    }
}

/// Why machines cannot be made here.
pub(crate) fn no_machines() -> Option<&'static str> {
    if !is_root() {
        Some("making machines needs root")
    } else if helper_binary().is_none() {
        Some("cabane-mount is not built; `cargo build --workspace` does it")
    } else {
        None
    }
}

macro_rules! needs_machines {
    () => {
        if let Some(reason) = crate::machine::no_machines() {
            cabane_testkit::not_run!("{reason}");
        }
    };
}

pub(crate) use needs_machines;
