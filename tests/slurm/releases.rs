// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The plugin for several releases of Slurm, each built as sites build it.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use cabane_testkit::{Finished, Program, not_run};

use crate::arena::{Cluster, in_cluster};

const RELEASES: [(&str, u32); 8] = [
    ("22.05", 0x16_05_00),
    ("23.02", 0x17_02_00),
    ("23.11", 0x17_0b_00),
    ("24.05", 0x18_05_00),
    ("24.11", 0x18_0b_00),
    ("25.05", 0x19_05_00),
    ("25.11", 0x19_0b_00),
    ("26.05", 0x1a_05_00),
];

/// What Slurm looks for in a plugin.
const EXPORTED: [&str; 12] = [
    "plugin_name",
    "plugin_type",
    "plugin_version",
    "slurm_spank_exit",
    "slurm_spank_init",
    "slurm_spank_init_post_opt",
    "slurm_spank_local_user_init",
    "slurm_spank_task_exit",
    "slurm_spank_task_init",
    "slurm_spank_task_init_privileged",
    "slurm_spank_task_post_fork",
    "spank_plugin_version",
];

/// What Slurm has in all these releases.
const OF_SLURM: [&str; 8] = [
    "slurm_error",
    "slurm_spank_log",
    "spank_context",
    "spank_get_item",
    "spank_getenv",
    "spank_option_register",
    "spank_setenv",
    "spank_unsetenv",
];

static BUILT: OnceLock<PathBuf> = OnceLock::new();
/// One build at a time: all have one directory.
static BUILDING: Mutex<()> = Mutex::new(());

/// Builds the plugin for all releases, once, apart from what other tests load.
fn built() -> &'static Path {
    BUILT.get_or_init(|| build(&RELEASES.map(|(release, _)| release)))
}

/// Builds the plugin for one release, and says where it is.
pub(crate) fn build_one(release: &str) -> PathBuf {
    build(&[release]).join(release).join("cabane-slurm.so")
}

/// Builds the plugin for releases. Optimised it would take a minute, and be no different in what
/// matters here.
fn build(releases: &[&str]) -> PathBuf {
    let _alone = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("slurm-releases");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/build-slurm");
    let mut command = Command::new(script);
    command
        .args(releases)
        .env("CARGO_TARGET_DIR", &place)
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
        .stdin(Stdio::null());
    Finished::of(&mut command).success();
    place.join("release/slurm")
}

fn object(release: &str) -> PathBuf {
    built().join(release).join("cabane-slurm.so")
}

/// The names that a plugin has, or wants, as `nm` tells them.
fn names(object: &Path, which: &str) -> BTreeSet<String> {
    let mut command = Command::new("nm");
    command.args(["--dynamic", which]).arg(object);
    let output = Finished::of(&mut command).success().stdout;
    let names = output.lines().filter_map(|line| line.split_whitespace().last());
    names.map(str::to_owned).collect()
}

#[test]
fn each_plugin_loads_with_glibc_2_28() {
    for (release, _) in RELEASES {
        let bytes = std::fs::read(object(release)).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        let minor = |rest: &str| {
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            digits.parse::<u32>().ok()
        };
        let newest = text.split("GLIBC_2.").skip(1).filter_map(minor).max();
        assert!(newest.is_some_and(|newest| newest <= 28), "{release}: {newest:?}");
    }
}

#[test]
fn each_plugin_says_for_which_release_it_is() {
    for (release, number) in RELEASES {
        let file = File::open(object(release)).unwrap();
        let found = cabane_compat::number_under(&file, "plugin_version");
        assert_eq!(found, Some(number), "{release}");
    }
}

#[test]
fn each_plugin_has_what_slurm_calls_and_nothing_else_and_wants_what_all_releases_have() {
    if Program::find("nm").path().is_none() {
        not_run!("there is no nm: `scripts/setup test` brings it");
    }
    for (release, _) in RELEASES {
        let object = object(release);
        let exported = names(&object, "--defined-only");
        let mut wanted = names(&object, "--undefined-only");
        wanted.retain(|name| name.starts_with("slurm") || name.starts_with("spank"));
        let sets = [EXPORTED.as_slice(), &OF_SLURM]
            .map(|names| names.iter().map(|&name| name.to_owned()).collect());
        assert_eq!([exported, wanted], sets, "{release}");
    }
}

#[test]
fn of_all_plugins_slurm_takes_the_one_of_its_release() {
    in_cluster!(|cluster: &Cluster| {
        let version = cluster.root("srun --version");
        let taken = RELEASES.map(|(release, _)| release).map(|release| {
            let plugin = format!("/shared/{release}.so");
            cluster.root(&format!(
                "install -m 644 {} {plugin}; echo 'required {plugin}' >/etc/slurm/plugstack.conf",
                object(release).display()
            ));
            let finished = cluster.user("alice").sh("srun --uenv=app/1:v1 who");
            let is_refused = finished.code != 0 && finished.stderr.contains(&plugin);
            assert!(is_refused || finished.stdout == "app 1\n", "{finished:?}");
            !is_refused
        });
        let expected = RELEASES.map(|(release, _)| version.contains(&format!(" {release}.")));
        assert_eq!(taken, expected);
    });
}
