// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Checks of images in steps: what the nodes do wrong is no failure of the image.

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
