// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Pipelines whose cells are built and checked by jobs.

use serde_json::Value;

use crate::arena::{Cluster, in_cluster};

/// Three environments on two systems, which are two partitions: one passes, one fails its check, and
/// one cannot be built.
const FILES: &str = r#"rm -rf /shared/pipeline; mkdir -p /shared/pipeline; cd /shared/pipeline; set -e
for name in good bad broken; do
    mkdir -p recipes/$name/1/tree/bin
    printf '#!/bin/sh\necho hello from good on $(uname -n)\n' >recipes/$name/1/tree/bin/hello
    chmod 755 recipes/$name/1/tree/bin/hello
    cat >recipes/$name/1/config.yaml <<EOF
name: $name
engine: tree
tree: {source: tree}
checks:
  - {name: says, command: hello, expect: "^hello from $name on n[0-9]"}
  - {name: waits, command: sleep ${SECONDS_TO_WAIT:-0}}
EOF
done
rm -r recipes/broken/1/tree
cat >pipeline.yaml <<EOF
resources:
  check: {time: 5m, options: [--mem=50M]}
clusters:
  alpha: {targets: [{uarch: x86_64, partition: Debug}]}
  beta: {targets: [{uarch: x86_64, partition: normal, variables: {SLURM_TIMELIMIT: '10'}}]}
uenvs:
EOF
for name in good bad broken; do
    printf '  %s:\n    "1": {recipes: {x86_64: "1"}, deploy: {alpha: [x86_64], beta: [x86_64]}}\n' $name \
        >>pipeline.yaml
done
cabane repo create repo
"#;

const RUN: &str =
    "cd /shared/pipeline; cabane --repo /shared/pipeline/repo pipeline run --on slurm --offline";

/// What came of each cell, sorted by name: `alpha/bad FAILED`.
fn outcomes(text: &str) -> Vec<String> {
    let cells: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let word = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let cells = cells.as_array().unwrap().iter();
    cells.map(|one| format!("{} {}", word(&one["cell"]), word(&one["outcome"]))).collect()
}

const EXPECTED: [&str; 6] = [
    "bad/1@alpha%x86_64 FAILED",
    "bad/1@beta%x86_64 FAILED",
    "broken/1@alpha%x86_64 FAILED",
    "broken/1@beta%x86_64 FAILED",
    "good/1@alpha%x86_64 PASSED",
    "good/1@beta%x86_64 PASSED",
];

#[test]
fn cells_are_built_and_checked_by_jobs_and_a_failed_build_holds_up_nothing() {
    in_cluster!(|cluster: &Cluster| {
        let alice = cluster.user("alice");
        alice.sh(FILES).success();
        let run = alice.sh(RUN);
        assert_eq!(run.code, 16, "{}{}", run.stdout, run.stderr);
        let status = alice.sh("cd /shared/pipeline; cabane pipeline status --json");
        assert_eq!(outcomes(&status.stdout), EXPECTED, "{}", run.stderr);
        // Nothing is pending, and each system had one array for each stage.
        let queue = alice.sh("squeue --noheader --user alice").success();
        assert_eq!(queue.stdout, "");
        assert_eq!(run.stderr.matches("job ").count(), 4, "{}", run.stderr);
        let log = alice.sh("cd /shared/pipeline; cabane pipeline logs bad/1@beta%x86_64").success();
        assert!(log.stdout.contains("says: FAILED"), "{}", log.stdout);
        let again = alice.sh(RUN);
        assert!(again.stderr.contains("nothing was left to do for 6 cells"), "{}", again.stderr);
        assert_eq!((again.code, again.stderr.matches("job ").count()), (16, 0));
        // A changed recipe is one cell on each system.
        alice.sh("cd /shared/pipeline; sed -i s/good/bad/ recipes/bad/1/tree/bin/hello").success();
        let repaired = alice.sh(&format!("{RUN} --only bad"));
        assert_eq!(repaired.code, 0, "{}", repaired.stderr);
        alice.sh("rm -rf /shared/pipeline").success();
    });
}

#[test]
fn a_killed_run_is_continued_and_its_jobs_are_waited_for() {
    in_cluster!(|cluster: &Cluster| {
        let alice = cluster.user("alice");
        alice.sh(&format!("SECONDS_TO_WAIT=6\n{FILES}")).success();
        let killed =
            alice.sh(&format!("({RUN}) & sleep 4; pkill -9 -u alice -f 'pipeline[ ]run'; wait"));
        let submitted = killed.stderr.matches("job ").count();
        assert_eq!(submitted, 4, "{}", killed.stderr);
        let run = alice.sh(RUN);
        assert_eq!(run.code, 16, "{}{}", run.stdout, run.stderr);
        assert!(run.stderr.contains("tasks of an earlier run"), "{}", run.stderr);
        assert_eq!(run.stderr.matches("job ").count(), 0, "{}", run.stderr);
        let status = alice.sh("cd /shared/pipeline; cabane pipeline status --json");
        assert_eq!(outcomes(&status.stdout), EXPECTED, "{}", run.stderr);
        alice.sh("rm -rf /shared/pipeline").success();
    });
}

/// A program `sbatch` that submits, and kills the run that called it before that knows the job: at the call of this
/// number.
const KILLING: &str = r#"mkdir -p bin; cat >bin/sbatch <<'EOF'
#!/bin/sh
real=$(PATH=${PATH#*:}; command -v sbatch)
"$real" "$@" >>answers
[ $(wc -l <answers) = "$NUMBER" ] && kill -9 $PPID
tail -n1 answers
EOF
chmod 755 bin/sbatch; rm -f answers
"#;

#[test]
fn a_job_is_found_that_was_submitted_when_the_run_was_killed() {
    in_cluster!(|cluster: &Cluster| {
        let alice = cluster.user("alice");
        alice.sh(FILES).success();
        let killed = |number: u32, more: &str| {
            let typed = format!("{RUN} --only good@alpha {more}");
            let typed = typed.replacen(
                "; ",
                &format!("; {KILLING} PATH=$PWD/bin:$PATH NUMBER={number} "),
                1,
            );
            let run = alice.sh(&typed);
            assert_eq!(run.code, 137, "{}{}", run.stdout, run.stderr);
            let answers =
                alice.sh("cd /shared/pipeline; sed 's/[^0-9]*//;s/;.*//' answers").success();
            answers.stdout.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        // The build waits, and its check was not submitted: both are submitted anew.
        let jobs = killed(1, "--sbatch=--begin=now+1hour");
        let state =
            |job: &str| alice.sh(&format!("squeue --noheader --format=%T --jobs={job}")).stdout;
        assert_eq!(state(&jobs[0]).trim(), "PENDING");
        let again = alice.sh(&format!("{RUN} --only good@alpha"));
        assert_eq!(again.code, 0, "{}{}", again.stdout, again.stderr);
        assert_ne!(state(&jobs[0]).trim(), "PENDING");
        // Both were submitted: they are waited for.
        alice.sh("cd /shared/pipeline; date >recipes/good/1/tree/new").success();
        let jobs = killed(2, "");
        assert_eq!(jobs.len(), 2);
        let again = alice.sh(&format!("{RUN} --only good@alpha"));
        assert_eq!(again.code, 0, "{}{}", again.stdout, again.stderr);
        assert_eq!(again.stderr.matches("job ").count(), 0, "{}", again.stderr);
        // One that waits is cancelled.
        alice.sh("cd /shared/pipeline; date >recipes/good/1/tree/newer").success();
        let jobs = killed(1, "--sbatch=--begin=now+1hour");
        let cancelled = alice.sh("cd /shared/pipeline; cabane pipeline cancel").success();
        assert!(cancelled.stderr.contains("cancelled "), "{}", cancelled.stderr);
        assert_ne!(state(&jobs[0]).trim(), "PENDING");
        alice.sh("rm -rf /shared/pipeline").success();
    });
}

#[test]
fn what_slurm_refuses_or_loses_is_an_error_and_no_failure() {
    in_cluster!(|cluster: &Cluster| {
        let alice = cluster.user("alice");
        alice.sh(FILES).success();
        let refused = alice.sh(&format!("{RUN} --only good --sbatch=--partition=none"));
        assert_eq!(refused.code, 1, "{}", refused.stderr);
        assert!(
            refused.stderr.contains("Slurm does not accept the build of good"),
            "{}",
            refused.stderr
        );
        assert!(refused.stderr.to_lowercase().contains("invalid partition"), "{}", refused.stderr);
        // A job that is cancelled leaves no result.
        alice
            .sh(r"cd /shared/pipeline; sed -i 's/command: sleep 0/command: sleep 60/' recipes/good/1/config.yaml")
            .success();
        let lost = alice.sh(&format!(
            "({RUN} --only good; echo code $?) & \
             until squeue --noheader --user alice --format=%j --states R | grep -q cabane-check; do sleep 0.2; done; \
             sleep 1; scancel --user alice; wait"
        ));
        assert!(lost.stdout.contains("code 17"), "{}{}", lost.stdout, lost.stderr);
        assert!(lost.stderr.contains("ERROR"), "{}", lost.stderr);
        // What could not run is tried again, and the old result of the build does not hold up the check.
        let change = "sed -i 's/command: sleep 60/command: sleep 0/' recipes/good/1/config.yaml";
        alice.sh(&format!("cd /shared/pipeline; {change}")).success();
        alice.sh(&format!("{RUN} --only good")).success();
        let results = "find /shared/pipeline/.cabane-pipeline -path '*/good/*' -name build.json";
        alice.sh(&format!("sed -i 's/\"PASSED\"/\"ERROR\"/' $({results})")).success();
        let again = alice.sh(&format!("{RUN} --only good")).success();
        assert_eq!(again.stderr.matches("check PASSED").count(), 2, "{}", again.stderr);
        alice.sh("rm -rf /shared/pipeline").success();
    });
}
