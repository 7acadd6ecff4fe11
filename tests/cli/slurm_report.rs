// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane slurm report`: records of steps, summed up.

use std::fs::{self, File};

use crate::cabane::{APP, Cabane, Who};

pub(crate) fn record(kind: &str, node: &str, user: &str, digest: &str, more: &str) -> String {
    format!(
        "{{\"record\":\"{kind}\",\"version\":1,\"time\":\"2026-11-22T04:18:33.512Z\",\
         \"node\":\"{node}\",\"job\":4711,\"step\":\"0\",\"user\":\"{user}\",\"uid\":1001,\
         \"gid\":1001,\"nodes\":4,\"tasks\":32,{more},\"images\":[{{\"digest\":\"{digest}\",\
         \"path\":\"/r/{digest}\",\"mount_point\":\"/u\",\"label\":\"app/1:v1@here%any\",\
         \"views\":[]}}]}}\n"
    )
}

/// A step that runs, and one of which three nodes fail.
fn records(digest: &str) -> String {
    let times = "\"mounted\":true,\"times_ms\":{\"lookup\":40,\"open\":1,\"mount\":3}";
    let failed = "\"mounted\":false,\"reason\":\"no \\u001b[2Jroom\"";
    [
        record("cabane-step", "n9", "alice", digest, times),
        record("cabane-step-end", "n9", "alice", digest, &format!("{times},\"exit_code\":3")),
        record("cabane-step", "n1", "bob", digest, failed),
        record("cabane-node-failure", "n2", "bob", digest, failed),
        record("cabane-node-failure", "n3", "bob", digest, failed),
    ]
    .concat()
}

#[test]
fn uses_failures_and_times_are_tables_and_broken_lines_are_named() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let text = records(&"ab".repeat(32));
    cabane.world.file("home/records/a.jsonl", &format!("{text}nonsense\n"));
    let records = cabane.world.path("home/records");
    let seen = cabane.run(&["slurm", "report", records.to_str().unwrap()]).success();
    let expected = [
        "Records",
        "2 steps from 2026-11-22 to 2026-11-22, 1 ends, 2 failures of further nodes",
        "",
        "Failures",
        "nodes   number  steps  users  last        why",
        "n[1-3]       3      1  bob    2026-11-22  no \\u{1b}[2Jroom",
        "",
        "Start times",
        "step     number  median, ms  95 %  longest",
        "look up       1          40    40       40",
        "open          1           1     1        1",
        "mount         1           3     3        3",
        "",
        "Slowest nodes",
        "node  starts  median, ms  95 %  longest",
        "n9         1           4     4        4",
        "",
        "Images",
        "label              image             users  steps  not mounted  exit code not 0  last",
        "app/1:v1@here%any  abababababababab      2      2            1                1  2026-11-22",
    ];
    assert!(seen.stdout.starts_with(&expected.join("\n")), "{}", seen.stdout);
    assert_eq!(seen.stderr, "warning: [WORLD]/home/records/a.jsonl:6: no record\n");
}

#[test]
fn images_that_no_step_uses_are_found() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let digest = cabane.run(&["image", "ls", "--format", "{digest}"]).success().stdout;
    let other = "cd".repeat(32);
    let unused = |digest: &str| {
        let file = cabane.world.file("home/steps", &records(digest));
        let file = file.to_str().unwrap();
        let seen = cabane.run(&["slurm", "report", "--unused", "--json", file]).success();
        let json: serde_json::Value = serde_json::from_str(&seen.stdout).unwrap();
        let unused = json["unused"].as_array().unwrap().iter();
        unused.map(|image| image["label"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!((unused(&other), unused(digest.trim())), (vec![APP.to_owned()], vec![]));
}

#[test]
fn records_are_read_from_standard_input_and_a_page_is_written() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let steps = cabane.world.file("home/steps", &records(&"ab".repeat(32)));
    let page = cabane.world.path("home/page.html");
    let arguments = ["slurm", "report", "--html", page.to_str().unwrap(), "-"];
    let mut command = cabane.command(&arguments);
    cabane.finish(command.stdin(File::open(steps).unwrap())).success();
    let page = fs::read_to_string(page).unwrap();
    let needs_nothing = ["<script", "http:", "https:", "src=", "\u{1b}"];
    assert!(needs_nothing.iter().all(|text| !page.contains(text)), "{page}");
    assert!(page.contains("n[1-3]") && page.contains("<svg "), "{page}");
}

#[test]
fn without_files_and_without_a_configured_file_the_report_says_what_to_type() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let seen = cabane.run(&["slurm", "report"]);
    let says = seen.stderr.contains("hint: `cabane slurm report FILE`");
    assert!(seen.code == 2 && says, "{}: {}", seen.code, seen.stderr);
    let seen = cabane.run(&["slurm", "report", "absent"]);
    assert!(seen.code == 1 && seen.stderr.contains("read absent"), "{}", seen.stderr);
}
