// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Python packages become an image. The packages are made here: no network.

use std::fs;
use std::path::Path;
use std::process::Command;

use cabane_builder::State;
use cabane_testkit::{Finished, World, not_run};

use crate::bench::{Who, build, everybody, find_in_path, recipe, request};

pub(crate) const CONFIG: &str = "\
name: demo
version: 3
engine: python
python:
  interpreter: /usr/bin/python3
  requirements: requirements.txt
  wheels: [wheels/demo_package-1.0-py3-none-any.whl]
";

/// Writes a wheel with one module and one program.
const MAKE_WHEEL: &str = r#"
import sys, zipfile
path, message = sys.argv[1:]
info = "demo_package-1.0.dist-info"
files = {
    "demo_package/__init__.py": f"def main():\n    print({message!r})\n",
    "demo_package/broken.py": "this is not Python at all (\n",
    f"{info}/METADATA": "Metadata-Version: 2.1\nName: demo-package\nVersion: 1.0\n",
    f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    f"{info}/entry_points.txt": "[console_scripts]\ndemo-hello = demo_package:main\n",
}
files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
with zipfile.ZipFile(path, "w") as wheel:
    for name, content in files.items():
        wheel.writestr(zipfile.ZipInfo(name), content)
"#;

pub(crate) fn make_wheel(path: &Path, message: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut python = Command::new("/usr/bin/python3");
    python.args(["-I", "-c", MAKE_WHEEL]).arg(path).arg(message);
    let _ = Finished::of(&mut python).success();
}

pub(crate) fn has_uv() -> bool {
    find_in_path("uv").is_some()
}

pub(crate) fn world() -> World {
    let world = World::new();
    recipe(&world, CONFIG);
    world.file("recipe/requirements.txt", "");
    make_wheel(&world.path("recipe/wheels/demo_package-1.0-py3-none-any.whl"), "hello");
    world
}

#[test]
fn programs_of_packages_name_the_interpreter_at_the_mount_point() {
    if !has_uv() {
        not_run!("needs uv");
    }
    let world = world();
    let built = build(&request(&world, "build"), Who::User).unwrap();
    let script = built.file("env/default/bin/demo-hello");
    assert_eq!(script.lines().next(), Some("#!/user-environment/env/default/bin/python"));
}

#[test]
fn the_image_says_which_interpreter_it_needs() {
    if !has_uv() {
        not_run!("needs uv");
    }
    let world = world();
    let built = build(&request(&world, "build"), Who::User).unwrap();
    let real = fs::canonicalize("/usr/bin/python3").unwrap();
    assert_eq!(
        built.env_json()["cabane"]["needs"]["interpreter"]["path"],
        real.to_string_lossy().as_ref()
    );
}

#[test]
fn the_default_view_enters_the_environment() {
    if !has_uv() {
        not_run!("needs uv");
    }
    let world = world();
    let built = build(&request(&world, "build"), Who::User).unwrap();
    assert_eq!(
        built.env_json()["views"]["default"]["env"]["values"],
        serde_json::json!({
            "list": {"PATH": [{"op": "prepend", "value": ["/user-environment/env/default/bin"]}]},
            "scalar": {"VIRTUAL_ENV": "/user-environment/env/default", "PYTHONHOME": null},
        })
    );
}

#[test]
fn the_lock_file_holds_the_hash_of_every_wheel() {
    if !has_uv() {
        not_run!("needs uv");
    }
    let world = world();
    let built = build(&request(&world, "build"), Who::User).unwrap();
    let sum = Finished::of(
        Command::new("sha256sum")
            .arg(world.path("recipe/wheels/demo_package-1.0-py3-none-any.whl")),
    )
    .success();
    let hash = sum.stdout.split(' ').next().unwrap().to_owned();
    let lock = built.file("meta/lock/requirements.txt");
    assert!(lock.contains(&format!("--hash=sha256:{hash}")), "{lock}");
}

#[test]
fn two_users_in_two_directories_build_the_same_image() {
    if !has_uv() {
        not_run!("needs uv");
    }
    let (first, second) = (world(), world());
    let mut other = request(&second, "some/where/else");
    other.jobs = 1;
    let digests = [
        build(&request(&first, "build"), *everybody().first().unwrap()).unwrap().digest,
        build(&other, Who::User).unwrap().digest,
    ];
    assert_eq!(digests[0], digests[1]);
}

#[test]
fn modules_are_compiled_for_the_mount_point() {
    if !has_uv() {
        not_run!("needs uv");
    }
    let world = world();
    let built = build(&request(&world, "build"), Who::User).unwrap();
    let listing = built.listing();
    let compiled: Vec<_> = listing.lines().filter(|line| line.contains("/__pycache__/")).collect();
    // The module that is not Python is left out, as it would be by Python itself.
    assert_eq!(compiled.len(), 1, "{listing}");
}

#[test]
fn a_second_build_with_nothing_changed_does_nothing() {
    if !has_uv() {
        not_run!("needs uv");
    }
    let world = world();
    build(&request(&world, "build"), Who::User).unwrap();
    let second = build(&request(&world, "build"), Who::User).unwrap();
    let steps = ["lock", "install", "bytecode", "metadata", "pack"];
    assert_eq!(second.events, steps.map(|step| format!("skipped {step}")));
}

#[test]
fn a_changed_view_does_not_install_again() {
    if !has_uv() {
        not_run!("needs uv");
    }
    let world = world();
    build(&request(&world, "build"), Who::User).unwrap();
    recipe(&world, &format!("{CONFIG}views:\n  default:\n    env_vars: {{set: [{{A: b}}]}}\n"));
    let second = build(&request(&world, "build"), Who::User).unwrap();
    assert_eq!(
        second.events[..4],
        ["skipped lock", "skipped install", "skipped bytecode", "started metadata"]
    );
}

#[test]
fn a_changed_wheel_begins_anew_and_the_plan_says_why() {
    if !has_uv() {
        not_run!("needs uv");
    }
    let world = world();
    build(&request(&world, "build"), Who::Me).unwrap();
    let wheel = "wheels/demo_package-1.0-py3-none-any.whl";
    make_wheel(&world.path("recipe").join(wheel), "good morning");
    let plan = cabane_builder::plan(&request(&world, "build")).unwrap();
    assert_eq!(plan.steps[0].state, State::ToDo(format!("`{wheel}` changed")));
}

#[test]
fn a_package_that_does_not_exist_is_in_the_end_of_the_log() {
    if !has_uv() {
        not_run!("needs uv");
    }
    let world = world();
    world.file("recipe/requirements.txt", "no-such-package-of-cabane\n");
    let error = build(&request(&world, "build"), Who::User).unwrap_err();
    let lines: Vec<_> = error.lines().collect();
    assert_eq!(
        (
            lines[0],
            error.contains("no-such-package-of-cabane was not found"),
            world.blank(lines[lines.len() - 1]).as_str(),
        ),
        (
            "error: step `lock` failed: uv ended with exit status: 1",
            true,
            "hint: the whole log is in [WORLD]/build/logs/lock.log",
        ),
        "{error}"
    );
}

#[test]
fn a_wheel_that_is_not_the_locked_one_is_refused() {
    if !has_uv() {
        not_run!("needs uv");
    }
    let world = world();
    recipe(&world, &CONFIG.replace("  wheels:", "  bytecode: false #"));
    world.file(
        "recipe/requirements.txt",
        &format!(
            "./wheels/demo_package-1.0-py3-none-any.whl \\\n    --hash=sha256:{}\n",
            "0".repeat(64)
        ),
    );
    let error = build(&request(&world, "build"), Who::User).unwrap_err();
    assert!(
        error.starts_with("error: step `install` failed") && error.contains("Hash mismatch"),
        "{error}"
    );
}

#[test]
fn a_lock_file_that_does_not_fit_its_project_is_refused() {
    if !has_uv() {
        not_run!("needs uv");
    }
    let world = world();
    recipe(
        &world,
        "name: demo\nversion: 3\nengine: python\npython: {interpreter: /usr/bin/python3, project: .}\n",
    );
    let project = "[project]\nname = \"p\"\nversion = \"1\"\nrequires-python = \">=3.8\"\n";
    world.file("recipe/pyproject.toml", project);
    let mut lock = world.command(find_in_path("uv").unwrap());
    lock.args(["lock", "--offline", "--python", "/usr/bin/python3", "--project"])
        .arg(world.path("recipe"));
    let _ = Finished::of(&mut lock).success();
    build(&request(&world, "build"), Who::User).unwrap();
    world.file("recipe/pyproject.toml", &format!("{project}dependencies = [\"six\"]\n"));
    let error = build(&request(&world, "build"), Who::User).unwrap_err();
    assert!(error.starts_with("error: step `lock` failed"), "{error}");
}

#[test]
fn a_python_that_no_one_has_is_reported_with_those_that_were_found() {
    if !has_uv() {
        not_run!("needs uv");
    }
    let world = world();
    recipe(&world, &CONFIG.replace("/usr/bin/python3", "\"3.99\""));
    let error = build(&request(&world, "build"), Who::User).unwrap_err();
    assert!(
        error.starts_with("error: no Python 3.99 was found, only others: /usr/bin/python3 is 3."),
        "{error}"
    );
}

#[test]
fn a_wheel_that_is_missing_is_reported_before_anything_is_done() {
    if !has_uv() {
        not_run!("needs uv");
    }
    let world = world();
    fs::remove_dir_all(world.path("recipe/wheels")).unwrap();
    let error = build(&request(&world, "build"), Who::User).unwrap_err();
    assert_eq!(
        world.blank(&error),
        "error: the recipe names [WORLD]/recipe/wheels/demo_package-1.0-py3-none-any.whl, which \
         is not a file"
    );
}
