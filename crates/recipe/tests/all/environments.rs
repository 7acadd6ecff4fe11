// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Environment files that are in order, and what comes of several.

use std::ffi::OsString;
use std::path::Path;

use cabane_recipe::{
    EnvironmentFile, EnvironmentReference, FileContext, Mistakes, parse_environment_file,
};
use proptest::prelude::*;

pub(crate) fn parse(text: &str) -> Result<EnvironmentFile, Mistakes> {
    let variable = |name: &str| -> Option<OsString> {
        match name {
            "HOME" => Some("/home/ada".into()),
            "SCRATCH" => Some("/scratch".into()),
            "EMPTY" => Some(OsString::new()),
            _ => None,
        }
    };
    let file_context = FileContext {
        directory: Path::new("/project"),
        working_directory: Path::new("/work"),
        variable: &variable,
    };
    parse_environment_file(Path::new("climate.toml"), text.as_bytes(), &file_context)
}

fn read(text: &str) -> EnvironmentFile {
    parse(text).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

/// Returns what a text becomes when it is read and written.
fn written(text: &str) -> String {
    read(text).to_toml(&[])
}

fn merged(base: &str, later: &str) -> String {
    read(base).merge(read(later)).to_toml(&[])
}

const EVERYTHING: &str = r#"description = "everything"
base = ["common", "./site.toml"]
images = [
  "app/1.0:v1@daint:/mnt/app",
  "./tools.squashfs",
  "~/mine.squashfs:/user-tools",
  "${SCRATCH}/x.squashfs",
]
views = ["app:develop", "/user-tools:default"]
default-views = false
mounts = [
  "data:/data:ro",
  { source = "~", target = "/mnt/home", read-only = true },
  "${SCRATCH:-/tmp}/in:/in:rw",
  "./more.sqsh:/mnt/more",
  "./odd:/mnt/odd:sqsh+ro",
]
devices = ["vendor.example/gpu=0", "all"]
workdir = "run"
[env]
A = "${HOME}/a"
B = ""
C = "$${HOME} for 5$"
"with space" = "x"
PATH = { prepend = "~/bin", append = ["/last", "/very-last"] }
"#;

#[test]
fn paths_and_variables_are_replaced() {
    let expected = r#"description = "everything"
base = [
  "common",
  "/project/site.toml",
]
images = [
  "app/1.0:v1@daint:/mnt/app",
  "/project/tools.squashfs",
  "/home/ada/mine.squashfs:/user-tools",
  "/scratch/x.squashfs",
  "/project/more.sqsh:/mnt/more",
  "/project/odd:/mnt/odd",
]
views = [
  "app:develop",
  "/user-tools:default",
]
default-views = false
mounts = [
  { source = "/project/data", target = "/data", read-only = true },
  { source = "/home/ada", target = "/mnt/home", read-only = true },
  { source = "/scratch/in", target = "/in" },
]
devices = [
  "vendor.example/gpu=0",
  "all",
]
workdir = "/project/run"

[env]
A = "/home/ada/a"
B = ""
C = "$${HOME} for 5$$"
PATH = { prepend = ["/home/ada/bin"], append = ["/last", "/very-last"] }
"with space" = "x"
"#;
    assert_eq!(written(EVERYTHING), expected);
}

#[test]
fn what_is_written_is_read_as_the_same() {
    let file = read(EVERYTHING);
    let mut again = read(&file.to_toml(&["a note\n[env]".to_owned()]));
    // The line that names a base is another one.
    again.bases.clone_from(&file.bases);
    assert_eq!(again, file);
}

#[test]
fn an_empty_file_says_nothing() {
    assert_eq!(read(""), EnvironmentFile::default());
}

#[test]
fn a_name_is_looked_up_and_a_path_is_not() {
    let names = ["climate", "climate.toml", "./climate", "/etc/climate"];
    let directory = Path::new("/project");
    let found = names.map(|name| EnvironmentReference::new(name, directory).to_string());
    assert_eq!(found, ["climate", "/project/climate.toml", "/project/climate", "/etc/climate"]);
}

#[test]
fn lists_go_on_and_values_are_replaced() {
    assert_eq!(
        merged(
            "description = \"old\"\nimages = [\"a\", \"b\"]\nviews = [\"x\"]\nworkdir = \"/old\"",
            "images = [\"b\", \"c\"]\nviews = [\"y\"]\nworkdir = \"/new\"",
        ),
        "description = \"old\"\nimages = [\n  \"a\",\n  \"b\",\n  \"c\",\n]\n\
         views = [\n  \"x\",\n  \"y\",\n]\nworkdir = \"/new\"\n"
    );
}

#[test]
fn a_mount_takes_the_place_of_one_with_the_same_target() {
    assert_eq!(
        merged("mounts = [\"/a:/x\"]", "mounts = [\"/b:/x:ro\"]"),
        "mounts = [{ source = \"/b\", target = \"/x\", read-only = true }]\n"
    );
}

#[test]
fn variables_are_merged_one_by_one() {
    assert_eq!(
        merged(
            "[env]\nA = \"1\"\nB = \"1\"\nP = { prepend = \"/p\" }",
            "[env]\nB = \"\"\nP = { prepend = \"/q\", append = \"/r\" }",
        ),
        "[env]\nA = \"1\"\nB = \"\"\nP = { prepend = [\"/q\", \"/p\"], append = [\"/r\"] }\n"
    );
}

/// The pieces of which files are made up.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("images = [\"app\", \"./x\"]\n".to_owned()),
        Just("mounts = [\"~/a:/b:ro\"]\n".to_owned()),
        Just("workdir = \"${SCRATCH}/x\"\n".to_owned()),
        Just("[env]\n".to_owned()),
        "[A-Z]{1,3} = \"[a-z$\\{\\}:\u{e9}]{0,8}\"\n",
        "[A-Z]{1,3} = \\{ prepend = \"[a-z]{0,3}\" \\}\n",
        "[a-z\"=\\[\\] \n]{0,12}",
    ]
}

proptest! {
    #[test]
    fn every_file_that_is_accepted_is_read_again_from_what_is_written(
        pieces in proptest::collection::vec(piece(), 0..6)
    ) {
        if let Ok(file) = parse(&pieces.concat()) {
            prop_assert_eq!(read(&file.to_toml(&[])), file);
        }
    }

    #[test]
    fn any_value_of_a_variable_survives(value in "\\PC{0,30}") {
        let mut file = EnvironmentFile::default();
        let setting = cabane_view::VariableSetting::to(&value);
        file.env.0.insert("X".to_owned(), setting);
        prop_assert_eq!(read(&file.to_toml(&[])), file);
    }

    #[test]
    fn to_merge_is_the_same_in_any_grouping(
        a in 0..4_usize, b in 0..4_usize, c in 0..4_usize
    ) {
        let files = [
            "images = [\"a\"]\nworkdir = \"/a\"\n[env]\nP = { prepend = \"/a\" }",
            "images = [\"b\"]\nmounts = [\"/b:/x\"]\n[env]\nP = \"b\"",
            "default-views = true\nmounts = [\"/c:/x\", \"/c:/y\"]\n[env]\nP = { append = \"/c\" }",
            "views = [\"v\"]\nworkdir = \"/d\"\n[env]\nP = \"\"",
        ];
        let [a, b, c] = [a, b, c].map(|one| read(files[one]));
        let left = a.clone().merge(b.clone()).merge(c.clone());
        prop_assert_eq!(left, a.merge(b.merge(c)));
    }
}
