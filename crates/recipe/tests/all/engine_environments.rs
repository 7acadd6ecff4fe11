// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Environment definition files (EDF) of container engines.

use crate::environments::parse;

fn written(text: &str) -> String {
    parse(text).unwrap_or_else(|error| panic!("{text}\n{error}")).to_toml(&[])
}

const EVERYTHING: &str = r#"
base_environment = ["common", "./more.toml"]
image = "nvcr.io#nvidia/pytorch:22.12-py3"
entrypoint = true
writable = false
workdir = "${HOME}/run"
mounts = [
  "${SCRATCH}",
  "${SCRATCH}/in:/in:ro+rprivate",
  "./here:/here",
  "${SCRATCH}/data.sqsh:/data:sqsh",
]
devices = ["nvidia.com/gpu=all", "/dev/gdrdrv"]

[env]
MY_RUN = "production"
NOTHING = ""
PATH = "${PATH}:/custom/bin"
LD_LIBRARY_PATH = "/opt/lib:${SCRATCH}/lib:${LD_LIBRARY_PATH:-}"

[annotations]
com.hooks.cxi.enabled = "true"
com.hooks.ssh.enabled = "false"
com.hooks.dcgm.enabled = true

[annotations.com.hooks.aws_ofi_nccl]
variant = "$${SCRATCH}"
"#;

const EVERYTHING_FILLED_IN: &str = r#"base = [
  "common",
  "/work/more.toml",
]
image = "docker://nvcr.io/nvidia/pytorch:22.12-py3"
entrypoint = true
writable = false
images = ["/scratch/data.sqsh:/data"]
mounts = [
  { source = "/scratch", target = "/scratch" },
  { source = "/scratch/in", target = "/in", read-only = true },
  { source = "/work/here", target = "/here" },
]
devices = ["nvidia.com/gpu=all"]
workdir = "/home/ada/run"

[env]
LD_LIBRARY_PATH = { prepend = ["/opt/lib:/scratch/lib"] }
MY_RUN = "production"
NOTHING = ""
PATH = { append = ["/custom/bin"] }

[annotations]
"com.hooks.aws_ofi_nccl.variant" = "$${SCRATCH}"
"com.hooks.cxi.enabled" = "true"
"com.hooks.dcgm.enabled" = "true"
"com.hooks.ssh.enabled" = "false"
"#;

#[test]
fn all_keys_are_read_and_written_in_one_form() {
    assert_eq!(written(EVERYTHING), EVERYTHING_FILLED_IN);
    assert_eq!(written(EVERYTHING_FILLED_IN), EVERYTHING_FILLED_IN);
}

#[test]
fn relative_paths_begin_in_the_working_directory() {
    assert_eq!(written("image = \"./x.sqsh\"\n"), "image = \"/work/x.sqsh:/\"\n");
    assert_eq!(written("workdir = \"x\"\n"), "workdir = \"/project/x\"\n");
}

#[test]
fn a_later_file_names_another_image_and_adds_the_rest() {
    let read = |text: &str| parse(text).unwrap();
    let base = read(
        "image = \"debian:12\"\nwritable = true\nmounts = [\"/a\"]\n\
         [annotations]\ncom.hooks.cxi.enabled = \"true\"\n",
    );
    let later = read(
        "image = \"debian:13\"\nmounts = [\"/b\"]\n\
         [annotations.com.hooks.cxi]\nenabled = \"false\"\n",
    );
    let both = base.merge(later);
    assert_eq!(both.devices_of_annotations(), []);
    assert_eq!(
        both.to_toml(&[]),
        "image = \"docker://docker.io/library/debian:13\"\nwritable = true\n\
         mounts = [\n  { source = \"/a\", target = \"/a\" },\n  { source = \"/b\", target = \"/b\" },\n]\n\n\
         [annotations]\n\"com.hooks.cxi.enabled\" = \"false\"\n"
    );
}

#[test]
fn mistakes_are_named_with_their_place() {
    for (text, expected) in [
        ("image = \"a b\"\n", "climate.toml:1:11: "),
        ("image = \"${NO}\"\n", "climate.toml:1:10: the variable `NO` is not set"),
        ("image = 1\n", "climate.toml:1:9: `image` must be text, not `1`"),
        ("image = \"/x.sqsh:/data\"\n", "climate.toml:1:9: a container image is mounted at `/`"),
        ("image = \"x\"\nentrypoint = \"true\"\n", "climate.toml:2:14: `entrypoint` must be"),
        (
            "image = \"x\"\nmounts = [\"/a:/b:shared\"]\n",
            "climate.toml:2:11: there is no flag `shared`",
        ),
        ("writable = true\nimages_ = []\n", "climate.toml:2:1: unknown key `images_`"),
        (
            "image = \"x\"\n[annotations.com.hooks.ssh]\nenabled = \"true\"\n",
            "climate.toml:3:11: `com.hooks.ssh.enabled`: no SSH server is started",
        ),
        (
            "image = \"x\"\ndevices = [\"/dev/a:/dev/b\"]\n",
            "climate.toml:2:12: `/dev/a:/dev/b` gives",
        ),
        (
            "image = \"x\"\n[annotations]\na = [1]\n",
            "climate.toml:3:5: `a` must be text, not a list",
        ),
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}\n{error}");
    }
}
