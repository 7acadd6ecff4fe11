// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Checks of images in steps: what the nodes do wrong is no failure of the image.

use cabane_testkit::mpi::{compile_below, installed};
use cabane_testkit::{Tree, needs, not_run};
use serde_json::Value;

use crate::arena::{Cluster, in_cluster};

/// Outcome and reason of each check, and of all.
fn outcomes(text: &str) -> (String, Vec<(String, String)>) {
    let reports: Value =
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let checks = reports[0]["checks"].as_array().unwrap();
    let checks = checks.iter().map(|one| (word(&one["outcome"]), word(&one["reason"])));
    (word(&reports[0]["outcome"]), checks.collect())
}

#[test]
fn checks_run_on_the_nodes() {
    in_cluster!(|cluster: &Cluster| {
        let alice = cluster.user("alice");
        alice
            .sh(r"rm -rf /shared/checked; mkdir -p /shared/checked/recipe; cd /shared/checked; set -e
                mkdir -p tree/bin
                printf '#!/bin/sh\necho rank $SLURM_PROCID of $SLURM_NTASKS\n' >tree/bin/rank
                chmod 755 tree/bin/rank
                cat >recipe/config.yaml <<EOF
name: checked
engine: tree
tree: {source: ../tree}
checks:
  - {name: ranks, command: [rank], ranks: 4, expect: '^rank 3 of 4$'}
  - {name: fails, command: exit 7}
EOF
                cabane repo create repo
                cabane --repo /shared/checked/repo build recipe checked/1:v1@here%any")
            .success();
        let check = |more: &str| {
            alice.sh(&format!(
                "cd /shared/checked; cabane --repo /shared/checked/repo check checked \
                     --on slurm --json {more}"
            ))
        };
        let passed = check("--only starts --only ranks --srun=-N4").success();
        let (all, each) = outcomes(&passed.stdout);
        assert_eq!(all, "PASSED", "{each:?}");
        // The node is asked, and not the machine on which the command runs.
        let passed = check("--only libraries").success();
        let (all, each) = outcomes(&passed.stdout);
        assert_eq!(all, "PASSED", "{each:?}");
        assert_eq!(each[0].1, "this host has what it needs");
        let failed = check("--only fails");
        let (all, each) = outcomes(&failed.stdout);
        assert_eq!((failed.code, all.as_str()), (16, "FAILED"), "{each:?}");
        assert!(each[0].1.starts_with("exit code 7"), "{each:?}");
        // There is no such partition, and a node that cannot see the image says so.
        let error = check("--only ranks --srun=--partition=none");
        let (all, each) = outcomes(&error.stdout);
        assert_eq!((error.code, all.as_str()), (17, "ERROR"), "{each:?}");
        assert!(each[0].1.contains("Invalid partition"), "{each:?}");
        alice.sh("rm -rf /shared/checked").success();
    });
}

/// What a build writes about an MPICH that it finds in a tree.
const WITH_MPICH: &str = r#"{"name": "suited", "mount": "/user-environment", "views": {},
    "cabane": {"version": 1, "needs": {"mpi": {"srun": ["pmi2"]}}}}"#;
const ENVIRONMENTS: &str = "mpich:\n  features: [mpi]\n";
const RANKS: &str = r"
import reframe as rfm
import reframe.utility.sanity as sn


@rfm.simple_test
class Ranks(rfm.RunOnlyRegressionTest):
    valid_systems = ['+remote']
    valid_prog_environs = ['+mpi +uenv']
    executable = '/user-environment/bin/hello'
    num_tasks = 2
    num_tasks_per_node = 1

    @sanity_function
    def together(self):
        return sn.assert_eq(sn.count(sn.findall(' of 2, right', self.stdout)), 2)


@rfm.simple_test
class Wrong(Ranks):
    executable = '/bin/false'


@rfm.simple_test
class Beside(rfm.RunOnlyRegressionTest):
    valid_systems = ['+remote']
    valid_prog_environs = ['+host']
    num_tasks = 2
    num_tasks_per_node = 1
    executable = '! test -e /user-environment/bin/hello && '
    executable += 'srun --uenv=$CABANE_CHECK_IMAGE test -x /user-environment/bin/hello && echo seen on two nodes'

    @sanity_function
    def seen(self):
        return sn.assert_found('^seen on two nodes$', self.stdout)
";

#[test]
fn ranks_of_a_test_of_reframe_find_each_other_and_nodes_are_no_failure_of_the_image() {
    let reframe = needs!("reframe");
    let Some([library]) = installed(["mpich"]) else {
        not_run!("needs mpich: scripts/setup test");
    };
    in_cluster!(|cluster: &Cluster| {
        let place = cluster.machine_directory("suited").join("tree");
        let _ = Tree::new(&place)
            .copy_of(&library, "")
            .file("meta/env.json", WITH_MPICH)
            .file("meta/extra/reframe.yaml", ENVIRONMENTS);
        compile_below(&place, "hello");
        cluster.pack("suited", &place);
        let suite = cluster.machine_directory("ranks");
        std::fs::write(suite.join("ranks.py"), RANKS).unwrap();
        std::fs::write(suite.join("suite.json"), r#"{"host": true}"#).unwrap();
        cluster.share("suite", &suite);
        let alice = cluster.user("alice");
        let check = |image: &str, more: &str| {
            let reframe = reframe.display();
            alice.sh(&format!(
                "mkdir -p /shared/suite-work; CABANE_REFRAME={reframe} cabane check {image} \
                 --suite /shared/suite --only suite --on slurm --json \
                 --work-directory /shared/suite-work {more}"
            ))
        };
        let passed = check("/shared/suited.squashfs", "--reframe=--name=Ranks");
        let (all, each) = outcomes(&passed.stdout);
        assert_eq!((passed.code, all.as_str(), each.len()), (0, "PASSED", 1), "{each:?}");
        // The job runs beside the image, and its steps in it.
        let passed = check("/shared/suited.squashfs", "--reframe=--name=Beside");
        let (all, each) = outcomes(&passed.stdout);
        assert_eq!((passed.code, all.as_str(), each.len()), (0, "PASSED", 1), "{each:?}");
        let failed = check("/shared/suited.squashfs", "--reframe=--name=Wrong");
        let (all, each) = outcomes(&failed.stdout);
        assert_eq!((failed.code, all.as_str()), (16, "FAILED"), "{each:?}");
        // Jobs that do not start, and an image that only the head has.
        let error = check("/shared/suited.squashfs", "--srun=--partition=none");
        let (all, each) = outcomes(&error.stdout);
        assert_eq!((error.code, all.as_str()), (17, "ERROR"), "{each:?}");
        alice.sh("cp /shared/suited.squashfs /tmp/hidden.squashfs").success();
        let error = check("/tmp/hidden.squashfs", "--reframe=--name=Ranks");
        let (all, each) = outcomes(&error.stdout);
        assert_eq!((error.code, all.as_str()), (17, "ERROR"), "{each:?}");
        assert!(each[0].1.contains("hidden.squashfs"), "{each:?}");
        alice.sh("rm -rf /tmp/hidden.squashfs /shared/suite-work").success();
    });
}
