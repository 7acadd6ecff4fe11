// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Builds on a host that sends wrong data, or takes and sends nothing.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use rustix::process::Signal;

use crate::build_elsewhere::{Running, program, signal, wait_until, with_host};

/// A host that answers as it likes.
const LIAR: &str = r#"#!/usr/bin/python3
import json, sys
def say(value):
    print(json.dumps(value), flush=True)
print('cabane-build-worker {"version":"9.0.0","protocol":1}', flush=True)
meta = b"directory 755 0 4\nmetafile 644 1 META_PATHxend 0 0 0\n"
image = b"hsqs" + bytes(96)
for line in sys.stdin.buffer:
    ask = json.loads(line)
    name = next(iter(ask))
    if name == "look":
        say({"state": "ended"})
    elif name == "follow":
        events = [{"note": "a\x1b]0;title\x07b"}, {"output": {"step": "pack", "line": "\x1b[2J"}},
                  {"warning": "w\x1b[31m\rx"}, {"nothing": 1}]
        text = "".join(json.dumps(event) + "\n" for event in events) + "no event\n"
        say({"events": len(text)})
        sys.stdout.write(text)
        sys.stdout.flush()
        say({"ended": ENDED})
    elif name == "image":
        say({"bytes": 100 - ask["image"]["offset"]})
        sys.stdout.buffer.write(image[ask["image"]["offset"]:])
        sys.stdout.flush()
    elif name == "meta":
        say({"bytes": len(meta)})
        sys.stdout.buffer.write(meta)
        sys.stdout.flush()
    else:
        say("done")
"#;

#[test]
fn what_a_host_sends_is_not_trusted() {
    with_host(|scene| {
        let lie = |label: &str, digest: &str, meta: &str| {
            let built = format!(
                r#"{{"built": {{"label": "{label}", "digest": "{digest}", "size": 100,
                "format": "squashfs", "seconds": 1.0, "is_unchanged": False}}}}"#
            );
            let meta = format!("{}\\n{meta}", meta.len());
            let text = LIAR.replace("ENDED", &built).replace("META_PATH", &meta);
            program(&scene.cabane, "remote/bin/cabane", &text);
            let seen = scene.build();
            assert!(!seen.stderr.contains(['\u{1b}', '\u{7}', '\r']), "{:?}", seen.stderr);
            assert!(seen.stderr.contains("a\\u{1b}]0;title\\u{7}b\n"), "{}", seen.stderr);
            assert_eq!(scene.run(&["image", "ls", "--format={label}"]).success().stdout, "");
            assert_eq!(seen.code, 1, "{}", seen.stderr);
            seen.stderr
        };
        let other = "0".repeat(64);
        // sha256 of what it sends
        let image = [b"hsqs".as_slice(), &[0; 96]].concat();
        let digest = sha256(&image);
        let seen = lie("other/1.0:v1@there%x86_64", &other, "meta/env.json");
        assert!(
            seen.contains("the image from builder does not have the label `app/1.0:v1`"),
            "{seen}"
        );
        // A tag that was left out is `v1`, and not what the host likes.
        let seen = lie("app/1.0:release@there%x86_64", &digest, "meta/env.json");
        assert!(
            seen.contains("the image from builder does not have the label `app/1.0:v1`"),
            "{seen}"
        );
        let seen = lie("app/1.0:v1@there%x86_64", &other, "meta/env.json");
        assert!(
            seen.contains("the image from builder does not have the digest of the build"),
            "{seen}"
        );
        for path in ["meta/../../../escaped", "/tmp/escaped"] {
            let seen = lie("app/1.0:v1@there%x86_64", &digest, path);
            assert!(seen.contains("a path leads out of the directory"), "{seen}");
        }
        // Nor does it fill this machine.
        let large = format!(
            r#"{{"built": {{"label": "app/1.0:v1@there%x86_64", "digest": "{digest}",
            "size": {}, "format": "squashfs", "seconds": 1.0, "is_unchanged": False}}}}"#,
            1_u64 << 60
        );
        program(&scene.cabane, "remote/bin/cabane", &LIAR.replace("ENDED", &large));
        let seen = scene.build();
        let says = "error: the image from builder needs ";
        assert!(seen.code == 1 && seen.stderr.contains(says), "{}", seen.stderr);
        let failed = r#"{"failed": {"kind": "Build", "message": "m\x1b[31m", "detail": "d\x07", "causes": ["c\r"], "hints": ["h\x9b"]}}"#;
        program(&scene.cabane, "remote/bin/cabane", &LIAR.replace("ENDED", failed));
        let seen = scene.build();
        assert!(!seen.stderr.contains(['\u{1b}', '\u{7}', '\r', '\u{9b}']), "{:?}", seen.stderr);
        assert!(seen.code == 7 && seen.stderr.contains("error: m\\u{1b}[31m\n"), "{}", seen.stderr);
    });
}

#[test]
fn a_host_that_takes_nothing_does_not_keep_the_command() {
    with_host(|scene| {
        let text = r#"#!/usr/bin/python3
import sys, time
print('cabane-build-worker {"version":"9.0.0","protocol":1}', flush=True)
sys.stdin.buffer.readline()
print('{"state": "absent"}', flush=True)
time.sleep(3600)
"#;
        program(&scene.cabane, "remote/bin/cabane", text);
        let random: Vec<u8> = (0_u32..1 << 22).flat_map(u32::to_le_bytes).collect();
        fs::write(scene.path("recipe/large"), random).unwrap();
        let mut command = scene.command(&["build", "--on", "builder", &scene.recipe, "app/1.0"]);
        let errors = fs::File::create(scene.path("errors")).unwrap();
        let child = command.stderr(errors).spawn().unwrap();
        // What it wrote so far is in the pipes, which are full when no more is asked.
        let asked = || fs::metadata(scene.path("asked")).map_or(0, |found| found.len());
        wait_until(|| {
            let before = asked();
            sleep(Duration::from_millis(500));
            before > 1000 && before == asked()
        });
        signal(child.id(), Signal::INT);
        let (code, errors) = Running { child, errors: scene.path("errors") }.end();
        assert!(code == Some(130) && errors.contains("error: interrupted"), "{errors}");
    });
}

#[test]
fn a_worker_that_ends_before_each_answer_is_an_error() {
    with_host(|scene| {
        let text = "#!/bin/sh\n\
                    echo 'cabane-build-worker {\"version\":\"9.0.0\",\"protocol\":1}'\n";
        program(&scene.cabane, "remote/bin/cabane", text);
        let seen = scene.build();
        let says = "error: `cabane` on builder ends before it answers\n";
        assert!(seen.code == 1 && seen.stderr.contains(says), "{}", seen.stderr);
        assert_eq!(seen.stderr.matches("was cut").count(), 4, "{}", seen.stderr);
    });
}

fn sha256(bytes: &[u8]) -> String {
    cabane_testkit::digest_of(bytes).trim_start_matches("sha256:").to_owned()
}
