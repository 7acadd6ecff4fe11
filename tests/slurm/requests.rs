// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is requested in the wrong way is refused before anything is submitted, with the
//! message of `cabane`; and what is requested in unusual ways works.

use crate::arena::{Cluster, PLUGIN, assert_failed, in_cluster};

#[test]
fn what_is_malformed_is_refused_where_it_is_typed() {
    in_cluster!(|cluster: &Cluster| {
        let cases = [
            ("--uenv=a:b:c", "the tag is given twice"),
            ("--uenv='a?'", "a name cannot contain `?`"),
            ("--uenv=app:", "the tag is missing after `:`"),
            ("--uenv=", "a list of uenvs is expected"),
            ("--uenv=app/1:v1@here%any+", "a uarch cannot contain `+`"),
            ("--uenv=./", "./ is a directory, and an image is a file"),
            ("--uenv=/dev/zero", "it is a device and not a file"),
            ("--uenv=/etc/passwd", "it is a text"),
            ("--uenv=./pipe", "it is a pipe or socket"),
            ("--uenv=$(printf %03000d 0)+", "a name cannot contain `+`"),
            (
                "--uenv=tool/1:v1:/user-environment,app/1:v1",
                "would both be mounted at /user-environment",
            ),
            ("--uenv=app/1:v1 --view=nix", "there is no view `nix`"),
            (
                "--uenv=app/1:v1,tool/1:v1 --view=app:default,wombat:tool",
                "no image is called `wombat`",
            ),
            (
                "--uenv=app/1:v1 --uenv-passthrough=maybe",
                "invalid value 'maybe' for '--uenv-passthrough",
            ),
            ("--environment=/nix", "cannot read the environment file /nix"),
            ("--repo=/nix --uenv=app/1:v1", "no repository at /nix"),
        ];
        for (options, reason) in cases {
            let finished = cluster
                .user("alice")
                .sh(&format!("rm -f pipe; mkfifo pipe; srun {options} echo ran"));
            assert_failed(&finished, reason);
        }
    });
}

#[test]
fn a_shell_is_not_started_in_a_batch_script() {
    in_cluster!(|cluster: &Cluster| {
        let finished = cluster.user("alice").sh("
            printf '#!/bin/bash\ncabane start app/1:v1\n' >job.sh; rm -f out
            sbatch --quiet --wait --output=out job.sh; code=$?; cat out >&2; exit $code");
        assert!(
            finished.code != 0 && finished.stderr.contains("`cabane run IMAGE -- COMMAND`"),
            "{finished:?}"
        );
    });
}

#[test]
fn functions_of_the_shell_are_handed_on() {
    in_cluster!(|cluster: &Cluster| {
        let printed = cluster
            .user("alice")
            .sh("hello() { echo hello $1; }; export -f hello
                 srun --uenv=app/1:v1 bash -c 'hello world'")
            .success();
        assert_eq!(printed.stdout, "hello world\n");
    });
}

#[test]
fn variables_that_say_how_are_about_nothing_without_images() {
    in_cluster!(|cluster: &Cluster| {
        // If a command were started it would be an error.
        cluster
            .root(&format!("echo 'required {PLUGIN} cabane=/absent' >/etc/slurm/plugstack.conf"));
        let finished = cluster
            .user("alice")
            .sh("SLURM_UENV_STAGE=memory SLURM_UENV_PASSTHROUGH=use srun echo ran");
        assert_eq!(finished.success().stdout, "ran\n");
    });
}

#[test]
fn a_path_is_meant_from_where_it_is_typed() {
    in_cluster!(|cluster: &Cluster| {
        let printed = cluster
            .user("alice")
            .sh("mkdir -p here; cp /shared/images/app.squashfs here/; cd here
                 srun --chdir=/ --uenv=./app.squashfs who")
            .success();
        assert_eq!(printed.stdout, "app 1\n");
    });
}

#[test]
fn many_steps_at_the_same_time_have_their_images() {
    in_cluster!(|cluster: &Cluster| {
        let printed = cluster
            .user("alice")
            .sh("salloc --quiet -N4 bash -c '
                     for i in $(seq 12); do
                         srun --overlap -N4 --uenv=app/1:v1 who &
                         srun --overlap -N4 --uenv=/shared/images/app2.squashfs who &
                     done; wait' | sort | uniq --count")
            .success();
        let printed: Vec<_> = printed.stdout.lines().map(str::trim).collect();
        assert_eq!(printed, ["48 app 1", "48 app 2"]);
    });
}

#[test]
fn a_job_says_once_a_day_that_its_image_will_be_retired() {
    in_cluster!(|cluster: &Cluster| {
        let alice = cluster.user("alice");
        // As `cabane image pull mine:stable` and `cabane upgrade` leave it.
        alice
            .sh(r#"rm -rf mine ~/.local/state/cabane; set -e
                cabane repo create ~/mine
                cabane --repo ~/mine image add mine/1:v1@here%any /shared/images/app.squashfs
                digest=$(cabane --repo ~/mine image ls mine --no-header --format '{digest}')
                mkdir -p ~/mine/channels
                cat >~/mine/channels/stable,here.json <<EOF
                {"version": 1, "names": {"mine%any": {
                    "registry": "https://registry.example/uenv", "namespace": "deploy", "serial": 2,
                    "release": {"label": "mine/1:v1@here%any", "digest": "$digest"},
                    "retired": "2999-01-01", "replacement": "mine/2"}}}
EOF"#)
            .success();
        let srun = |image: &str| {
            let run = alice.sh(&format!("srun --repo=$HOME/mine --uenv={image} who"));
            assert_eq!((run.code, run.stdout.as_str()), (0, "app 1\n"), "{}", run.stderr);
            run.stderr
        };
        let notice = "mine/1:v1@here%any will be retired from stable on 2999-01-01";
        let said = srun("mine:stable@here");
        assert!(said.contains(notice) && said.contains("use `mine/2` instead"), "{said}");
        let again = srun("mine:stable@here");
        assert!(!again.contains("retired"), "{again}");
        // A digest is meant as it is.
        alice.sh("rm -r ~/.local/state/cabane/notices").success();
        let digest = alice.sh("cabane --repo ~/mine image ls mine --no-header --format '{digest}'");
        let pinned = srun(digest.success().stdout.trim());
        assert!(!pinned.contains("retired"), "{pinned}");
        alice.sh("rm -rf ~/mine ~/.local/state/cabane").success();
    });
}

#[test]
fn where_the_command_is_called_uenv_too_it_answers_as_uenv() {
    in_cluster!(|cluster: &Cluster| {
        cluster.root(&format!(
            "mkdir /shared/both; cp /usr/local/bin/cabane /shared/both/
             ln -s cabane /shared/both/uenv
             echo 'required {PLUGIN} cabane=/shared/both/cabane' >/etc/slurm/plugstack.conf"
        ));
        let cases = [
            ("--uenv=a:b:c", "invalid uenv description: expected a path"),
            ("--uenv=app/1:v1,app/1:v1:/user-tools", "uenv is mounted more than once"),
            ("--uenv=app/1:v1 --view=nix", "the view 'nix' does not exist"),
        ];
        for (options, reason) in cases {
            assert_failed(&cluster.user("alice").sh(&format!("srun {options} echo ran")), reason);
        }
        let handed_on = cluster.user("alice").sh("
            image=$(cabane image inspect --format='{sqfs}' app/1:v1)
            printf '#!/bin/sh\nls -d /user-environment/meta\n' >job.sh; rm -f out
            UENV_MOUNT_LIST=$image:/user-environment sbatch --quiet --wait --output=out job.sh
            cat out");
        cluster.root("rm -r /shared/both");
        assert_eq!(handed_on.success().stdout, "/user-environment/meta\n");
    });
}

/// `srun --uenv` finds the image that `cabane run` finds, unless the site names `uenv` in `plugstack.conf`.
#[test]
fn the_repositories_of_cabane_come_first_unless_the_site_names_uenv() {
    in_cluster!(|cluster: &Cluster| {
        cluster.root(
            "mkdir /shared/both; cp /usr/local/bin/cabane /shared/both/
             ln -s cabane /shared/both/uenv",
        );
        let alice = cluster.user("alice");
        alice
            .sh("cabane image add mine/1:v1@here%any /shared/images/app.squashfs
                 /shared/both/uenv image add mine/1:v1@here%any /shared/images/app2.squashfs
                 mkdir -p ~/.config/uenv ~/named
                 /shared/both/uenv repo create ~/named/repo
                 /shared/both/uenv --repo ~/named/repo image add named/1:v1@here%any /shared/images/app2.squashfs
                 printf '[[repositories]]\nname = \"named\"\npath = \"%s\"\npriority = 99\n' \
                     ~/named/repo >~/.config/uenv/config.toml")
            .success();
        let who = "/user-environment/bin/who";
        let configured = |program: &str| {
            cluster.root(&format!(
                "echo 'required {PLUGIN} cabane=/shared/both/{program}' >/etc/slurm/plugstack.conf"
            ));
            let of = |label: &str| alice.sh(&format!("srun --uenv={label} {who}")).success().stdout;
            [of("mine/1:v1@here"), of("named/1:v1@here")]
        };
        let typed = |program: &str| {
            let script = format!("/shared/both/{program} run mine/1:v1@here -- {who}");
            alice.sh(&script).success().stdout
        };
        let [as_cabane, as_uenv] = ["cabane", "uenv"].map(|name| (configured(name), typed(name)));
        let clean = "rm -rf ~/.uenv ~/named ~/.config/uenv ~/.local/share/cabane";
        alice.sh(clean).success();
        cluster.root("rm -r /shared/both");
        let [first, second] = ["app 1\n", "app 2\n"].map(str::to_owned);
        assert_eq!(as_cabane, ([first.clone(), second.clone()], first));
        assert_eq!(as_uenv, ([second.clone(), second.clone()], second));
    });
}
