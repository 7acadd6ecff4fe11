// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Files in which vendors describe devices.

use std::path::{Path, PathBuf};

use cabane_recipe::{DeviceSpecification, parse_device_specification};
use proptest::prelude::*;

const WHOLE: &str = r#"---
cdiVersion: 0.6.0
kind: vendor.example/device
annotations:
  who: cares
devices:
  - name: 0
    containerEdits:
      deviceNodes:
        - path: /dev/device0
          hostPath: /driver/dev/device0
          major: 195
          minor: 0
          permissions: r
        - {path: /dev/control}
  - name: all
    containerEdits:
      additionalGids: [44]
      intelRdt:
        closID: x
containerEdits:
  env:
    - DEVICES=void
    - EMPTY=
  hooks:
    - hookName: createContainer
      path: /usr/bin/hook
      args: [hook, create-symlinks, --link, a::b]
      env: [DEBUG=false]
  mounts:
    - hostPath: /driver/lib/libfake.so.1.2.3
      containerPath: /lib/libfake.so.1.2.3
      options: [ro, nosuid, nodev, rbind]
    - {hostPath: tmpfs, containerPath: "/scratch/0000:03:00.0//card", type: tmpfs}
"#;

fn parse(text: &str) -> Result<DeviceSpecification, String> {
    parse_device_specification(Path::new("v.yaml"), text.as_bytes())
        .map_err(|error| error.to_string())
}

#[test]
fn everything_that_a_file_says_is_read() {
    let found = parse(WHOLE).unwrap();
    let [zero, all] = found.devices.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!(
        (found.kind.as_str(), zero.name.as_str(), zero.line),
        ("vendor.example/device", "0", 7)
    );
    let [node, control] = zero.edits.nodes.as_slice() else {
        panic!("{zero:?}");
    };
    assert_eq!(node.host_path, PathBuf::from("/driver/dev/device0"));
    assert_eq!(
        (node.numbers, node.is_read, node.is_written, node.line),
        (Some((195, 0)), true, false, 10)
    );
    assert_eq!((control.numbers, control.is_read, control.is_written), (None, true, true));
    assert_eq!(all.edits.groups, [44]);
    assert_eq!(all.edits.unsupported, [("intelRdt", 19)]);
    let pair = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    assert_eq!(found.edits.env, [pair(("DEVICES", "void")), pair(("EMPTY", ""))]);
    let hook = &found.edits.hooks[0];
    assert_eq!(hook.arguments, ["hook", "create-symlinks", "--link", "a::b"]);
    let [library, memory] = found.edits.mounts.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!((library.read_only, library.file_system.as_deref(), library.line), (true, None, 31));
    assert_eq!(
        (memory.file_system.as_deref(), memory.target.to_str()),
        (Some("tmpfs"), Some("/scratch/0000:03:00.0/card"))
    );
}

#[test]
fn json_is_read_with_its_tabs_and_slashes() {
    let text = "{\n\t\"cdiVersion\": \"0.3.0\",\n\t\"kind\": \"vendor.example\\/device\",\n\
                \t\"devices\": [\n\t\t{\"name\": \"0\", \"containerEdits\": {\"deviceNodes\":\
                \n\t\t\t[{\"path\": \"\\/dev\\/null\"}]}}\n\t],\n\t\"containerEdits\": {}\n}\n";
    let found = parse(text).unwrap();
    let node = &found.devices[0].edits.nodes[0];
    assert_eq!(
        (found.kind.as_str(), node.path.to_str(), node.line),
        ("vendor.example/device", Some("/dev/null"), 6)
    );
}

/// A file with one line in the place of another.
fn with(line: &str, other: &str) -> String {
    assert!(WHOLE.contains(line));
    parse(&WHOLE.replace(line, other)).unwrap_err()
}

#[test]
fn mistakes_are_reported_with_their_places() {
    let reported = [
        with("cdiVersion: 0.6.0", "cdiVersion: 2.0.0"),
        with("cdiVersion: 0.6.0", "cdiVersion: 0.2.0"),
        with("cdiVersion: 0.6.0\n", ""),
        with("vendor.example/device", "device"),
        with("  - name: all", "  - name: 0"),
        with("path: /dev/control", "path: control"),
        with("permissions: r", "permissions: rx"),
        with("DEVICES=void", "DEVICES"),
        with("/lib/libfake.so.1.2.3", "/lib/../libfake.so.1.2.3"),
        with("[44]", "[video]"),
        with("    - hookName: createContainer", "    - hookNam: createContainer"),
    ];
    let first: Vec<&str> = reported.iter().map(|text| text.lines().next().unwrap()).collect();
    assert_eq!(
        first,
        [
            "v.yaml:2:13: the version `2.0.0` is not known",
            "v.yaml:2:13: the version `0.2.0` is not known",
            "v.yaml:1:1: the key `cdiVersion` is missing",
            "v.yaml:3:7: `device` is not a vendor and a class",
            "v.yaml:16:11: there are two devices `0`",
            "v.yaml:15:18: `control` is no place in a container",
            "v.yaml:14:24: `rx` are no permissions of a device",
            "v.yaml:23:7: `DEVICES` sets no variable",
            "v.yaml:32:22: `/lib/../libfake.so.1.2.3` is no place in a container",
            "v.yaml:18:24: a group must be a number from 0, not `video`",
            "v.yaml:26:7: unknown key `hookNam` in a hook",
        ]
    );
}

/// What may stand in the place of a line.
fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just("  - name: \"\\0\"".to_owned()),
        Just("        - {path: [1], hostPath: {}, permissions: 7}".to_owned()),
        Just("    - {hostPath: /, containerPath: /, options: {a: b}}".to_owned()),
        "( {0,4})(- )?(kind|env|hooks|mounts|path|args|name|type): ?[\\[{a-z/0\"'~]{0,4}",
        "[ -~]{0,12}",
    ]
}

proptest! {
    #[test]
    fn what_is_nearly_right_is_read_or_refused_with_places(
        place in 0..34_usize, other in line(), second in 0..34_usize
    ) {
        let mut lines: Vec<&str> = WHOLE.lines().collect();
        lines[place] = &other;
        lines.remove(second);
        let text = lines.join("\n");
        let path = Path::new("v.yaml");
        if let Err(error) = parse_device_specification(path, text.as_bytes()) {
            prop_assert!(!error.diagnostics().is_empty());
            let is_inside = error.diagnostics().iter().all(|one| one.line <= 34);
            prop_assert!(is_inside, "{}", error);
        }
    }
}
