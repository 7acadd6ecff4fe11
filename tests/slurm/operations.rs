// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Installing the plugin, and asking whether it works.

use crate::arena::{Cluster, PLUGIN, in_cluster};

#[test]
fn the_plugin_is_installed_and_taken_away_with_one_line() {
    in_cluster!(|cluster: &Cluster| {
        cluster.root(": >/etc/slurm/plugstack.conf");
        let said = cluster.root(&format!("cabane slurm install --plugin {PLUGIN} 2>&1"));
        for text in [
            "added to /etc/slurm/plugstack.conf: required ",
            &format!("plugin: {PLUGIN}, for Slurm "),
            "new steps follow the file",
            "scontrol reconfigure",
        ] {
            assert!(said.contains(text), "{text}: {said}");
        }
        let output = cluster.user("alice").sh("srun --uenv=app/1:v1 who").success();
        assert_eq!(output.stdout, "app 1\n");
        cluster.root("cabane slurm install --remove");
        let finished = cluster.user("alice").sh("srun --uenv=app/1:v1 who");
        assert!(finished.stderr.contains("unrecognized option"), "{finished:?}");
    });
}

#[test]
fn where_there_is_no_plugin_the_commands_that_build_it_are_named() {
    in_cluster!(|cluster: &Cluster| {
        let finished = cluster.user("root").sh("cabane slurm install");
        assert_eq!(finished.code, 4, "{finished:?}");
        let release = cluster.root("srun --version | grep -o '[0-9][0-9][.][0-9][0-9]'");
        let guide = "docs/guides/slurm-administration.md says how it is installed";
        assert!(finished.stderr.contains(guide), "{finished:?}");
        // As `make install` writes it.
        let clone = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        cluster.root(&format!(
            "mkdir -p /usr/local/share/cabane
             echo 'clone {clone}' >/usr/local/share/cabane/installed-by"
        ));
        let finished = cluster.user("root").sh("cabane slurm install");
        cluster.root("rm -r /usr/local/share/cabane");
        let release = release.trim();
        let command = format!("`cd {clone} && scripts/build-slurm {release} && sudo make install`");
        assert!(finished.stderr.contains(&command), "{finished:?}");
    });
}

#[test]
fn a_plugin_for_another_release_is_not_installed() {
    in_cluster!(|cluster: &Cluster| {
        cluster.root("mkdir -p /shared/other");
        cluster.make_for_another_release("/shared/other/cabane-slurm.so");
        let finished =
            cluster.user("root").sh("cabane slurm install --plugin /shared/other/cabane-slurm.so");
        assert!(
            finished.code == 3 && finished.stderr.contains("is for Slurm 23.02, and this is"),
            "{finished:?}"
        );
        let output = cluster.user("alice").sh("srun --uenv=app/1:v1 who").success();
        assert_eq!(output.stdout, "app 1\n");
    });
}

#[test]
fn a_node_where_all_is_well_is_healthy() {
    in_cluster!(|cluster: &Cluster| {
        let finished = cluster.on_node("n2", "root").sh("cabane slurm check");
        let release = cluster.root("srun --version | grep -o '[0-9][0-9][.][0-9][0-9]'");
        let expected = format!(
            "plugin: {PLUGIN}, for Slurm {}\nnamed in: /etc/slurm/plugstack.conf\n\
             jobs get their images here\n",
            release.trim()
        );
        assert_eq!(finished.success().stderr, expected);
    });
}

#[test]
fn a_plugin_that_is_named_in_an_included_file_is_found() {
    in_cluster!(|cluster: &Cluster| {
        cluster.root(
            "mkdir -p /etc/slurm/plugstack.conf.d
             mv /etc/slurm/plugstack.conf /etc/slurm/plugstack.conf.d/cabane.conf
             echo 'include /etc/slurm/plugstack.conf.d/*.conf' >/etc/slurm/plugstack.conf",
        );
        let finished = cluster.on_node("n2", "root").sh("cabane slurm check");
        let output = cluster.user("alice").sh("srun --uenv=app/1:v1 who");
        cluster.root("rm -r /etc/slurm/plugstack.conf.d");
        assert!(finished.code == 0, "{finished:?}");
        assert_eq!(output.stdout, "app 1\n");
    });
}

#[test]
fn a_node_without_policy_or_mount_point_is_not_healthy() {
    in_cluster!(|cluster: &Cluster| {
        cluster.root("echo 'mount-point /absent' >>/etc/cabane/mount.policy");
        let finished = cluster.on_node("n2", "root").sh("cabane slurm check");
        assert!(finished.code == 10 && finished.stderr.contains("`mkdir /absent`"), "{finished:?}");
        cluster.root("rm /etc/cabane/mount.policy");
        let finished = cluster.on_node("n2", "root").sh("cabane slurm check");
        assert_eq!(finished.code, 10, "{finished:?}");
    });
}

#[test]
fn the_plugin_can_be_replaced_while_a_step_runs() {
    in_cluster!(|cluster: &Cluster| {
        cluster.root("rm -f /shared/go /shared/up");
        std::thread::scope(|scope| {
            let step = scope.spawn(|| {
                cluster.user("alice").sh("srun -n2 --uenv=app/1:v1 sh -c 'touch /shared/up
                     while ! [ -e /shared/go ]; do sleep 0.05; done; who'")
            });
            cluster.root(&format!(
                "while ! [ -e /shared/up ]; do sleep 0.02; done
                 cp {PLUGIN} {PLUGIN}.new && mv {PLUGIN}.new {PLUGIN}
                 cabane slurm install --plugin {PLUGIN}"
            ));
            let output = cluster.user("bob").sh("srun -w n1 --uenv=app/1:v1 who").success();
            assert_eq!(output.stdout, "app 1\n");
            cluster.user("alice").sh("touch /shared/go").success();
            assert_eq!(step.join().unwrap().success().stdout, "app 1\napp 1\n");
        });
    });
}

#[test]
fn one_command_sets_a_cluster_up_and_others_undo_it() {
    in_cluster!(|cluster: &Cluster| {
        cluster.root(&format!(
            "rm -f /etc/cabane/mount.policy /etc/cabane/config.toml
             : >/etc/slurm/plugstack.conf
             place=/usr/local/lib/cabane/slurm/$(srun --version | grep -o '[0-9][0-9][.][0-9][0-9]')
             mkdir -p $place
             cp {PLUGIN} $place/"
        ));
        let said =
            cluster.root("cabane site init --apply --repository /shared/site/repository 2>&1");
        for text in [
            "made the repository /shared/site/repository",
            "wrote /etc/cabane/config.toml",
            "wrote /etc/cabane/mount.policy",
            "added to /etc/slurm/plugstack.conf: required /usr/local/lib/cabane/slurm/",
        ] {
            assert!(said.contains(text), "{text}: {said}");
        }
        cluster.root(
            "cabane --repo=/shared/site/repository image add seen/1:v1 /shared/images/app.squashfs",
        );
        let output = cluster.user("alice").sh("srun -N2 --uenv=seen who").success();
        assert_eq!(output.stdout, "app 1\napp 1\n");
        let undo: Vec<&str> =
            said.lines().filter_map(|line| line.strip_prefix("  undo: ")).rev().collect();
        cluster.root(&undo.join("\n"));
        cluster.root("rm -r /usr/local/lib/cabane/slurm/[0-9]*");
        let left = cluster.root("ls -d /shared/site/repository /etc/cabane/* 2>/dev/null; cat /etc/slurm/plugstack.conf");
        assert_eq!(left, "", "{undo:?}");
    });
}
