// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Debug symbols in jobs: an image and the one with its symbols, under the policy that is installed.

use cabane_testkit::not_run;

use crate::arena::{Cluster, in_cluster};

/// Where `install.sh` allows mounts.
const MOUNT_POINTS: &str =
    "mount-point /user-environment\nmount-point /user-tools\nmount-point /user-environment-debug";
const BUILD: &str = r#"
mkdir -p wave/files/bin
cat >wave.c <<'END'
#include <stdlib.h>
int first(int *field)
{
    return *field;
}
int main(int count, char **words)
{
    return first(count > 1 ? NULL : &count) - 1;
}
END
gcc -g -O0 -Wl,--build-id -ffile-prefix-map="$PWD=." -o wave/files/bin/wave wave.c
cat >wave/config.yaml <<'END'
name: wave
store: /user-environment
engine: tree
tree:
  source: files
debug-symbols: separate
END
cabane build --debug-symbols wave wave/1.0
"#;

#[test]
fn a_debugger_in_a_job_shows_lines_of_the_source() {
    if std::process::Command::new("gdb").arg("--version").output().is_err() {
        not_run!("needs gdb");
    }
    in_cluster!(|cluster: &Cluster| {
        cluster.root("install -d -m 0755 /user-environment-debug");
        let policy = include_str!("../../packaging/mount.policy")
            .replace("@MOUNT_POINTS@", MOUNT_POINTS)
            .replace("@IMAGE_OWNERS@", "root");
        cluster.root(&format!("cat >/etc/cabane/mount.policy <<'END'\n{policy}\nEND"));
        let alice = cluster.user("alice");
        alice.sh(BUILD).success();
        let gdb = "gdb -nx -batch -ex 'info line first' /user-environment/bin/wave";
        let with = alice.sh(&format!("srun -N2 --uenv=wave,wave-debug {gdb}")).success().stdout;
        assert_eq!(with.matches("Line 3 of \"").count(), 2, "{with}");
        let without = alice.sh(&format!("srun --uenv=wave {gdb}")).success().stdout;
        assert!(without.contains("No line number information"), "{without}");
        // A process of a task that fails, in the job itself: its lines need no terminal.
        let run = "gdb -nx -batch -ex run -ex backtrace --args /user-environment/bin/wave -1";
        let script = format!(
            "sbatch --quiet --wait --output=out --uenv=wave,wave-debug --wrap \"{run}\"; cat out"
        );
        let failed = alice.sh(&script).success().stdout;
        assert!(
            failed.contains("in first (field=0x0) at ") && failed.contains("wave.c:4"),
            "{failed}"
        );
    });
}
