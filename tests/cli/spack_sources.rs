// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a build with Spack starts from: systems by name, repositories, archives, mirrors.
//! Spack is the stand-in of `spack.rs`.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;

use cabane_testkit::Finished;

use crate::cabane::Who;
use crate::spack::{STAND_IN, Stack};

#[test]
fn a_system_is_known_by_its_name() {
    let stack = Stack::new(Who::OrdinaryUser);
    let system = stack.path("system");
    fs::create_dir_all(stack.cabane.world.path("home/.config/cabane/systems")).unwrap();
    let named = stack.cabane.world.path("home/.config/cabane/systems/here");
    std::os::unix::fs::symlink(&system, named).unwrap();
    let arguments = |system: &str| {
        let (build, recipe) = (stack.path("build"), stack.path("recipe"));
        let arguments = ["build", "--system", system, "--build-dir", &build, &recipe, "stack/1.0"];
        let mut command = stack.cabane.command(&arguments);
        command.env("CABANE_SPACK_PYTHON", "/usr/bin/python3");
        Finished::of(&mut command)
    };
    let unknown = arguments("hree");
    assert_eq!(unknown.code, 3, "{unknown:?}");
    assert!(unknown.stderr.contains("hint: described are here"), "{unknown:?}");
    // The image is one of that system.
    arguments("here").success();
    let ls = stack.cabane.run(&["image", "ls", "--format={system}", "stack@here"]);
    assert_eq!(ls.success().stdout.trim(), "here");
}

#[test]
fn without_a_setting_the_system_is_that_of_the_settings() {
    let stack = Stack::new(Who::OrdinaryUser);
    let (build, recipe) = (stack.path("build"), stack.path("recipe"));
    let arguments = ["build", "--build-dir", &build, &recipe, "stack/1.0"];
    let mut command = stack.cabane.command(&arguments);
    command
        .env("CABANE_SPACK_PYTHON", "/usr/bin/python3")
        .env("CABANE_SYSTEM_PATH", stack.path(""))
        .env("CABANE_SYSTEM", "system");
    Finished::of(&mut command).success();
}

/// Spack and its packages as archives, the first by a URL of a file.
fn with_archives(stack: &Stack) -> String {
    let archive = |directory: &str| {
        let file = stack.path(&format!("{directory}-1.3.0.tar.gz"));
        let mut tar = stack.cabane.other("tar");
        let clone = stack.path("home/clones");
        tar.args(["--create", "--gzip", "--file", &file, "--directory", &clone, "--exclude=.git"]);
        Finished::of(tar.arg(directory)).success();
        file
    };
    let config = fs::read_to_string(stack.cabane.world.path("recipe/config.yaml")).unwrap();
    let config = config
        .replace(&stack.path("home/clones/spack"), &format!("file://{}", archive("spack")))
        .replace(&stack.path("home/clones/packages"), &archive("packages"));
    stack.cabane.world.file("recipe/config.yaml", &config);
    config
}

#[test]
fn spack_and_its_packages_may_come_from_archives() {
    let stack = Stack::new(Who::OrdinaryUser);
    with_archives(&stack);
    stack.build(&["stack/1.0"]).success();
    assert_eq!(stack.called(), ["concretize", "install", "env"]);
    // No one could clone an archive: what is in it is in the image.
    let repository =
        format!("{}/repos/spack_repo/builtin/repo.yaml", stack.cabane.mount_point("stack"));
    let seen = stack.cabane.run(&["run", "stack/1.0", "--", "cat", &repository]).success();
    assert_eq!(seen.stdout, "repo: {namespace: builtin}\n");
}

#[test]
fn an_archive_that_is_elsewhere_is_got_once() {
    let stack = Stack::new(Who::OrdinaryUser);
    let config = with_archives(&stack);
    let file = stack.path("packages-1.3.0.tar.gz");
    let content = fs::read(&file).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/packages.tar.gz", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        let _ = client.read(&mut request).unwrap();
        let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n", content.len());
        client.write_all(head.as_bytes()).unwrap();
        client.write_all(&content).unwrap();
    });
    let config = config.replace(&file, &address);
    stack.cabane.world.file("recipe/config.yaml", &config);
    stack.build(&["stack/1.0"]).success();
    server.join().unwrap();
    // No one answers any more.
    stack.remove_build();
    stack.build(&["stack/1.1"]).success();
}

#[test]
fn an_archive_is_the_one_that_the_recipe_names() {
    let stack = Stack::new(Who::OrdinaryUser);
    let config = with_archives(&stack);
    let sum = "0".repeat(64);
    let config = config.replacen(
        "spack-1.3.0.tar.gz\n",
        &format!("spack-1.3.0.tar.gz\n  commit: {sum}\n"),
        1,
    );
    stack.cabane.world.file("recipe/config.yaml", &config);
    let refused = stack.build(&["stack/1.0"]);
    assert_eq!(refused.code, 7);
    assert!(refused.stderr.contains("is not the archive that the recipe names"), "{refused:?}");
    let hint = refused.stderr.split("`commit: ").nth(1).unwrap();
    let config = config.replace(&sum, &hint[..64]);
    stack.cabane.world.file("recipe/config.yaml", &config);
    stack.build(&["stack/1.0"]).success();
}

#[test]
fn a_new_commit_of_a_branch_counts_in_the_next_build_directory() {
    let stack = Stack::new(Who::OrdinaryUser);
    stack.build(&["stack/1.0"]).success();
    stack.called();
    stack.fail("install");
    stack.build(&["stack/1.0"]).success();
    assert_eq!(stack.called(), Vec::<String>::new());
    stack.remove_build();
    assert_eq!(stack.build(&["stack/1.0"]).code, 7);
}

#[test]
fn a_recipe_for_spack_without_a_system_says_what_to_type() {
    let stack = Stack::new(Who::OrdinaryUser);
    let recipe = stack.path("recipe");
    let refused = stack.cabane.run(&["build", &recipe, "stack/1.0"]);
    assert!(refused.stderr.contains("`cabane system probe --output"), "{refused:?}");
}

#[test]
fn a_commit_that_is_nowhere_is_named() {
    let stack = Stack::new(Who::OrdinaryUser);
    let config = stack.cabane.world.path("recipe/config.yaml");
    let text = fs::read_to_string(&config).unwrap();
    let text = text.replace("  packages:", "  commit: v9.9.9\n  packages:");
    stack.cabane.world.file("recipe/config.yaml", &text);
    let refused = stack.build(&["stack/1.0"]);
    assert!(refused.stderr.contains("has no commit, tag, or branch `v9.9.9`"), "{refused:?}");
}

#[test]
fn mirrors_that_are_not_there_are_named() {
    let stack = Stack::new(Who::OrdinaryUser);
    let refused = stack.build(&["--mirrors", "none.yaml", "stack/1.0"]);
    assert!(refused.stderr.contains("hint: `--mirrors` names a file"), "{refused:?}");
}

#[test]
fn a_spack_that_is_not_known_is_refused_before_anything_is_built() {
    let answer = r#"{"version": "1.3.0", "lock": 7, "database": "8", "solutions": true}"#;
    let others = [
        (
            r#"{"version": "1.4.0", "lock": 8, "database": "8", "solutions": true}"#,
            "error: Spack 1.4.0 writes lock files of version 8, but this version of cabane reads only 6 to 7\n\
             hint: name a commit of Spack 1.0 to 1.3 in config.yaml, or update cabane\n",
        ),
        (
            r#"{"version": "1.4.0", "lock": 7, "database": "9", "solutions": true}"#,
            "error: Spack 1.4.0 writes databases of version 9, but this version of cabane reads only 6, 7, 8\n\
             hint: name a commit of Spack 1.0 to 1.3 in config.yaml, or update cabane\n",
        ),
        (
            r#"{"version": "1.1.0", "lock": 6, "database": "8", "solutions": false}"#,
            "error: the commit of Spack in config.yaml is version 1.1.0, but the build was planned for 1.3\n\
             hint: name a tag or branch as `commit` in config.yaml, such as `v1.1.0`, so that the \
             version is known\n",
        ),
    ];
    let stack = Stack::new(Who::OrdinaryUser);
    for (other, expected) in others {
        let text = STAND_IN.replace(answer, other);
        stack.cabane.world.file("spack/bin/spack", &text);
        stack.commit("spack");
        let refused = stack.build(&["--from", "sources", "stack/1.0"]);
        assert_eq!(refused.code, 7, "{refused:?}");
        assert!(refused.stderr.ends_with(expected), "{}", refused.stderr);
        assert_eq!(stack.called(), Vec::<String>::new());
    }
}

#[test]
fn the_files_of_a_commit_decide_which_version_spack_has_and_a_newer_one_causes_a_warning() {
    let stack = Stack::new(Who::OrdinaryUser);
    let answer = r#""version": "1.3.0", "lock": 7"#;
    let said = |version: &str, lock: u32| {
        let other = format!(r#""version": "{version}", "lock": {lock}"#);
        let world = &stack.cabane.world;
        world.file("spack/bin/spack", &STAND_IN.replace(answer, &other));
        world.file("spack/lib/spack/spack/__init__.py", &format!("__version__ = \"{version}\"\n"));
        stack.commit("spack");
        let built = stack.build(&["--from", "sources", "--until", "concretize", "stack/1.0"]);
        assert_eq!(built.code, 0, "{built:?}");
        built.stderr
    };
    let environment = |name: &str| {
        stack.cabane.world.path("build/work/spack/env").join(name).join("spack.yaml").exists()
    };
    let warning = "warning: Spack 1.17.0 is newer than 1.3, the newest that this version of cabane was \
                   tested with\n";
    let newer = said("1.17.0", 7);
    assert!(newer.contains(warning), "{newer}");
    assert!(environment("stack"));
    stack.remove_build();
    // Spack 1.1 has no groups of specs, but environments.
    let older = said("1.1.0", 6);
    assert!(!older.contains("warning: Spack"), "{older}");
    assert!(environment("tools") && !environment("stack"));
}

#[test]
fn an_edited_package_and_what_it_imports_reach_spack() {
    let stack = Stack::new(Who::OrdinaryUser);
    let file =
        |name: &str, text: &str| stack.cabane.world.file(&format!("recipe/repo/{name}"), text);
    file("repo.yaml", "repo: {namespace: recipe, api: v2.2}\n");
    file("packages/hello/package.py", "import spack_repo.recipe.build_systems.site\n");
    file("build_systems/site.py", "first\n");
    stack.build(&["stack/1.0"]).success();
    stack.called();
    // Written again without a change.
    file("build_systems/site.py", "first\n");
    stack.build(&["stack/1.0"]).success();
    assert_eq!(stack.called(), Vec::<String>::new());
    file("build_systems/site.py", "second\n");
    stack.build(&["stack/1.0"]).success();
    assert_eq!(stack.called().first().map(String::as_str), Some("concretize"));
    let repository = stack.cabane.world.path("build/store/repos/spack_repo/recipe");
    let read = |name: &str| fs::read_to_string(repository.join(name)).unwrap();
    assert_eq!(read("build_systems/site.py"), "second\n");
    assert_eq!(read("repo.yaml"), "repo:\n  namespace: recipe\n  api: v2.2\n");
}
