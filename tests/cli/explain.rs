// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane explain`, and what `-v` tells about views before a command starts.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Stdio;

use cabane_testkit::{Finished, Tree, squashfs};
use serde_json::Value;

use crate::cabane::{APP, Cabane, Who, everybody, finished};

/// A world with [`APP`] and an image `tools` with the same command; returns the latter.
fn with_tools(who: Who) -> (Cabane, String) {
    let cabane = Cabane::with_app(who);
    let tools = cabane.image("tools", &cabane.mount_point("tools"));
    (cabane, tools)
}

/// A tree that is not packed yet.
fn tree(cabane: &Cabane, name: &str) -> (Tree, String) {
    let mount_point = cabane.mount_point(name);
    let tree = Tree::new(cabane.world.path(&format!("trees/{name}")));
    (tree.meta(name, &mount_point), mount_point)
}

fn pack(cabane: &Cabane, name: &str, tree: &Tree) -> String {
    let image = cabane.world.path(&format!("{name}.squashfs"));
    squashfs(tree.root(), &image);
    image.to_string_lossy().into_owned()
}

/// The loader of the host, as its programs name it.
const LOADER: &str = if cfg!(target_arch = "aarch64") {
    "/lib/ld-linux-aarch64.so.1"
} else {
    "/lib64/ld-linux-x86-64.so.2"
};

/// Leaves out the line about the way of mounting, which depends on what is installed.
fn without_the_way(mut seen: Finished) -> Finished {
    let is_way = |line: &&str| line.starts_with("mounting in a user namespace");
    let lines = seen.stderr.split_inclusive('\n');
    seen.stderr = lines.filter(|line| !is_way(line)).collect();
    seen
}

const CONFLICTS: &str = "\
CABANE_TEST: `tools` of tools:default replaces `app` of app:default, which was applied before
PATH: tools:default comes before app:default and hides its hello
";

#[test]
fn a_verbose_run_shows_what_one_view_takes_from_another() {
    for who in everybody() {
        let (cabane, tools) = with_tools(who);
        let seen = cabane.run(&["-v", "run", &format!("app,{tools}"), "--", "hello"]);
        let seen = without_the_way(seen);
        assert_eq!(seen, finished(0, "hello from tools\n", CONFLICTS), "as {who:?}");
    }
}

#[test]
fn a_run_that_is_not_verbose_shows_nothing() {
    for who in everybody() {
        let (cabane, tools) = with_tools(who);
        let seen = cabane.run(&["run", &format!("app,{tools}"), "--", "hello"]);
        assert_eq!(seen, finished(0, "hello from tools\n", ""), "as {who:?}");
    }
}

#[test]
fn a_verbose_start_shows_it_before_the_shell() {
    let (cabane, tools) = with_tools(Who::OrdinaryUser);
    let mut command = cabane.command(&["-v", "start", &format!("app,{tools}"), "--ignore-tty"]);
    command.env("SHELL", "/bin/true");
    let expected = format!("the shell is /bin/true\n{CONFLICTS}");
    let seen = without_the_way(cabane.finish(&mut command));
    assert_eq!(seen, finished(0, "", &expected));
}

#[test]
fn the_command_of_a_verbose_run_is_the_process_that_was_started() {
    for who in everybody() {
        let (cabane, tools) = with_tools(who);
        let images = format!("app,{tools}");
        let mut command = cabane.command(&["-v", "run", &images, "--", "sh", "-c", "echo $$"]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let expected = format!("{}\n", child.id());
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "as {who:?}");
    }
}

#[test]
fn a_command_that_does_not_exist_has_the_code_of_a_shell_in_a_verbose_run_too() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        let seen = cabane.run(&["-v", "run", "app", "--", "no-such-command"]);
        let seen = without_the_way(seen);
        let expected = "error: there is no command `no-such-command`\n\
            hint: see which views the image has with `cabane image inspect`, and choose one with \
            `--view`; a container has only what is in its image\n";
        assert_eq!(seen, finished(127, "", expected), "as {who:?}");
    }
}

#[test]
fn many_conflicts_are_shown_in_ten_lines() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let image = |name: &str| {
        let (tree, mount_point) = tree(&cabane, name);
        let mut scalars = String::new();
        for number in 10..30 {
            let comma = if number > 10 { "," } else { "" };
            write!(scalars, r#"{comma}"V{number}":"{name}""#).unwrap();
        }
        let meta = format!(
            r#"{{"name":"{name}","mount":"{mount_point}","default-view":"all","views":{{"all":
            {{"env":{{"version":1,"values":{{"scalar":{{{scalars}}}}}}}}}}}}}"#
        );
        pack(&cabane, name, &tree.file("meta/env.json", &meta))
    };
    let images = format!("{},{}", image("one"), image("other"));
    let seen = cabane.run(&["-v", "run", &images, "--", "true"]).success();
    let seen = without_the_way(seen);
    let lines: Vec<&str> = seen.stderr.lines().collect();
    assert_eq!(
        (lines.len(), lines[8], lines[9]),
        (
            10,
            "V18: `other` of other:all replaces `one` of one:all, which was applied before",
            "and 11 more: `cabane explain`"
        )
    );
}

#[test]
fn a_command_is_explained_with_its_view_its_image_and_what_it_hides() {
    for who in everybody() {
        let (cabane, tools) = with_tools(who);
        let images = format!("app,{tools}");
        let program = cabane.program().to_owned();
        let seen = cabane.run(&["run", &images, "--", &program, "explain", "hello"]);
        let expected = "hello (command)\n  \
            file      [WORLD]/mnt/tools/bin/hello\n  \
            found by  element 1 of 8 in PATH: [WORLD]/mnt/tools/bin\n  \
            put there by view tools:default of [WORLD]/tools.squashfs\n  \
            image     [WORLD]/tools.squashfs at [WORLD]/mnt/tools\n  \
            hides     [WORLD]/mnt/app/bin/hello, view app:default\n";
        assert_eq!(seen, finished(0, expected, ""), "as {who:?}");
    }
}

#[test]
fn an_environment_that_was_not_started_is_explained_as_one_that_was() {
    for who in everybody() {
        let (cabane, tools) = with_tools(who);
        let images = format!("app,{tools}");
        let program = cabane.program().to_owned();
        let what = ["hello", "PATH", "CABANE_TEST", "ls"];
        let inside = [&["run", &images, "--", &program, "explain"], &what[..]].concat();
        let outside = [&["explain", "--in", &images], &what[..]].concat();
        assert_eq!(cabane.run(&outside), cabane.run(&inside), "as {who:?}");
    }
}

#[test]
fn without_a_name_what_is_loaded_and_every_conflict_is_shown() {
    for who in everybody() {
        let (cabane, tools) = with_tools(who);
        let images = format!("app,{tools}");
        let views = "--view=tools:default,app:default";
        let seen = cabane.run(&["explain", "--in", &images, views]);
        let expected = format!(
            "Images\n  {APP} at [WORLD]/mnt/app\n  [WORLD]/tools.squashfs at [WORLD]/mnt/tools\n\
             Views, in the order in which they were applied\n  \
             tools:default changes CABANE_TEST, PATH\n  app:default changes CABANE_TEST, PATH\n\
             Conflicts\n  CABANE_TEST: `app` of app:default replaces `tools` of tools:default, \
             which was applied before\n  \
             PATH: app:default comes before tools:default and hides 1 of its files\n    hello\n"
        );
        assert_eq!(seen, finished(0, &expected, ""), "as {who:?}");
    }
}

#[test]
fn an_environment_inside_another_is_explained_with_the_views_of_both() {
    for who in everybody() {
        let (cabane, tools) = with_tools(who);
        let program = cabane.program().to_owned();
        let inner = [&program, "run", &tools, "--", &program, "explain", "CABANE_TEST"];
        let arguments = [&["run", "app", "--"], &inner[..]].concat();
        let expected = format!(
            "CABANE_TEST (variable)\n  value     tools\n  \
             set       by view tools:default of [WORLD]/tools.squashfs\n  \
             replaced  app of view app:default of {APP}\n"
        );
        assert_eq!(cabane.run(&arguments), finished(0, &expected, ""), "as {who:?}");
    }
}

#[test]
fn a_variable_is_explained_with_what_the_caller_had() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        let mut command = cabane.command(&["explain", "--in", "app", "CABANE_TEST"]);
        command.env("CABANE_TEST", "mine");
        let expected = format!(
            "CABANE_TEST (variable)\n  value     app\n  set       by view app:default of {APP}\n  \
             replaced  mine of the caller\n"
        );
        assert_eq!(cabane.finish(&mut command), finished(0, &expected, ""), "as {who:?}");
    }
}

#[test]
fn a_variable_of_an_environment_file_is_explained_with_the_view_that_it_replaces() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        let text = "images = [\"app\"]\n[env]\nCABANE_TEST = \"written\"\n";
        let file = cabane.world.file("work/file.toml", text);
        let file = file.to_string_lossy().into_owned();
        let seen = cabane.run(&["explain", "--in", &file, "CABANE_TEST"]);
        let expected = format!(
            "CABANE_TEST (variable)\n  value     written\n  set       by the environment file\n  \
             replaced  app of view app:default of {APP}\n"
        );
        assert_eq!(seen, finished(0, &expected, ""), "as {who:?}");
    }
}

#[test]
fn two_versions_of_an_image_are_distinguished_by_their_mount_points() {
    let (cabane, _) = with_tools(Who::OrdinaryUser);
    let again = cabane.mount_point("again");
    let images = format!("app,{}:{again}", cabane.image("app", &cabane.mount_point("app")));
    let views = format!("--view={}:default,{again}:default", cabane.mount_point("app"));
    let seen = cabane.run(&["explain", "--in", &images, &views, "--json"]);
    let shown: Value = serde_json::from_str(&seen.success().stdout).unwrap();
    assert_eq!(
        [&shown["views"][0], &shown["views"][1]],
        ["[WORLD]/mnt/app:default", "[WORLD]/mnt/again:default"]
    );
}

#[test]
fn a_variable_that_was_changed_inside_is_seen_to_be() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let script = format!("CABANE_TEST=other {} explain CABANE_TEST", cabane.program());
    let seen = cabane.run(&["run", "app", "--", "sh", "-c", &script]);
    let expected = format!(
        "CABANE_TEST (variable)\n  value     other\n  \
         first set by view app:default of {APP}, and changed since\n"
    );
    assert_eq!(seen, finished(0, &expected, ""));
}

#[test]
fn each_element_of_a_list_is_explained() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let mut command = cabane.command(&["explain", "--in", "app", "PATH"]);
    command.env("PATH", "/usr/bin:/bin");
    let seen = cabane.finish(&mut command).success();
    let lines: Vec<String> = seen
        .stdout
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    let expected = [
        "PATH (variable, 3 elements)",
        &format!("1 [WORLD]/mnt/app/bin view app:default of {APP}"),
        "2 /usr/bin the caller",
        "3 /bin the caller",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn a_command_of_the_host_that_is_hidden_is_named() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        let (tree, _) = tree(&cabane, "own");
        let image = pack(&cabane, "own", &tree.program("bin/ls", "true"));
        let seen = cabane.run(&["explain", "--in", &image, "ls"]).success();
        let last = seen.stdout.lines().last().unwrap_or_default();
        assert_eq!(last, "  hides     /usr/bin/ls, of the host", "as {who:?}");
    }
}

#[test]
fn links_are_followed_to_the_host() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        let (tree, _) = tree(&cabane, "own");
        let tree = tree.file("bin/.keep", "");
        symlink("second", tree.root().join("bin/first")).unwrap();
        symlink("/usr/bin/env", tree.root().join("bin/second")).unwrap();
        let image = pack(&cabane, "own", &tree);
        let seen = cabane.run(&["explain", "--in", &image, "--json", "first"]);
        let shown: Value = serde_json::from_str(&seen.success().stdout).unwrap();
        let links = shown[0]["links"].as_array().unwrap();
        assert_eq!(
            (links.len(), &links[1], &shown[0]["real"]["image"]),
            (2, &Value::from("/usr/bin/env"), &Value::Null),
            "as {who:?}"
        );
    }
}

/// A tree with a wheel: a module, a program, a library and their list.
fn wheel(cabane: &Cabane) -> (String, String) {
    let (tree, mount_point) = tree(cabane, "python");
    let site = "lib/python3.11/site-packages";
    let record = "tiny/__init__.py,sha256=x,1\n../../../bin/tiny,sha256=x,2\n\
        ../../libtiny.so.1,sha256=x,3\n";
    let tree = tree
        .file("lib/libtiny.so.1", "")
        .file(&format!("{site}/tiny/__init__.py"), "")
        .file(&format!("{site}/tiny-2.1.dist-info/RECORD"), record)
        .file(&format!("{site}/loose.py"), "")
        .program("bin/tiny", "true");
    (pack(cabane, "python", &tree), format!("{mount_point}/{site}"))
}

#[test]
fn the_wheel_of_a_program_a_library_and_a_module_is_named() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        let (image, site) = wheel(&cabane);
        let (module, loose) = (format!("{site}/tiny/__init__.py"), format!("{site}/loose.py"));
        let typed = ["tiny", "libtiny.so.1", &module, &loose];
        let seen = cabane.run(&[&["explain", "--in", &image, "--json"][..], &typed].concat());
        let shown: Value = serde_json::from_str(&seen.success().stdout).unwrap();
        let names =
            [0, 1, 2, 3].map(|one| shown[one]["package"]["name"].as_str().unwrap_or("none"));
        assert_eq!(names, ["tiny", "tiny", "tiny", "none"], "as {who:?}");
    }
}

#[test]
fn a_package_of_spack_is_named_with_its_hash() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let (tree, _) = tree(&cabane, "spack");
    let spec = r#"{"spec":{"nodes":[{"name":"hdf5","version":"1.14.3","hash":"abcdefghij"}]}}"#;
    let prefix = "linux-zen3/gcc-13/hdf5-1.14.3-abcdefghij";
    let tree = tree
        .file(&format!("{prefix}/.spack/spec.json"), spec)
        .program(&format!("{prefix}/bin/h5dump"), "true")
        .file("bin/.keep", "");
    symlink(format!("../{prefix}/bin/h5dump"), tree.root().join("bin/h5dump")).unwrap();
    let image = pack(&cabane, "spack", &tree);
    let seen = cabane.run(&["explain", "--in", &image, "h5dump"]).success();
    let expected = "  package   hdf5 1.14.3 /abcdefg (spack)\n";
    assert!(seen.stdout.ends_with(expected), "{}", seen.stdout);
}

#[test]
fn a_library_is_found_in_the_tree_of_a_view_and_on_the_host() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        let (tree, _) = tree(&cabane, "own");
        let image = pack(&cabane, "own", &tree.file("lib/libc.so.6", ""));
        let seen = cabane.run(&["explain", "--in", &image, "--json", "libc.so.6"]);
        let shown: Value = serde_json::from_str(&seen.success().stdout).unwrap();
        let by = |found: &Value| found["through"]["by"].clone();
        let searched = [by(&shown[0]), by(&shown[0]["others"][0])];
        assert_eq!(searched, ["rpath", "ld.so.cache"], "as {who:?}");
    }
}

#[test]
fn the_libraries_of_a_program_are_shown_as_its_loader_finds_them() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        let (tree, mount_point) = tree(&cabane, "own");
        let tree = tree.file("lib/.keep", "").file("bin/.keep", "");
        let library = fs::canonicalize(LOADER).unwrap();
        let library = library.with_file_name("libc.so.6");
        fs::copy(library, tree.root().join("lib/libc.so.6")).unwrap();
        fs::copy("/usr/bin/env", tree.root().join("bin/linked")).unwrap();
        let image = pack(&cabane, "own", &tree);
        let arguments = ["explain", "--in", &image, "--json", "--libraries-of=linked"];
        let mut command = cabane.command(&arguments);
        command.env("LD_LIBRARY_PATH", format!("{mount_point}/lib"));
        let seen = cabane.finish(&mut command).success();
        let shown: Value = serde_json::from_str(&seen.stdout).unwrap();
        let library = &shown[0]["libraries"][0];
        assert_eq!(
            [&library["name"], &library["found"]["image"]],
            ["libc.so.6", "[WORLD]/own.squashfs"],
            "as {who:?}"
        );
    }
}

#[test]
fn a_script_has_no_libraries() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let seen = cabane.run(&["explain", "--in", "app", "--libraries-of=hello"]);
    let expected = "error: [WORLD]/mnt/app/bin/hello has no loader: it is a script, or linked \
        statically\n";
    assert_eq!(seen, finished(1, "", expected));
}

#[test]
fn a_loader_in_an_image_is_not_run() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let (tree, mount_point) = tree(&cabane, "own");
    let mut program = fs::read("/usr/bin/env").unwrap();
    let place = program.windows(LOADER.len()).position(|text| text == LOADER.as_bytes()).unwrap();
    // A short path of the same length at most, in the image.
    let own = "/cabane/ld.so\0";
    program[place..place + own.len()].copy_from_slice(own.as_bytes());
    let tree = tree.program("ld.so", "echo run >&2");
    fs::create_dir_all(tree.root().join("bin")).unwrap();
    fs::write(tree.root().join("bin/linked"), program).unwrap();
    fs::set_permissions(tree.root().join("bin/linked"), fs::Permissions::from_mode(0o755)).unwrap();
    let image = pack(&cabane, "own", &tree);
    let images = format!("{image}:/cabane");
    let arguments = ["explain", "--in", &images, "--libraries-of=/cabane/bin/linked"];
    let seen = cabane.run(&arguments);
    let expected = format!(
        "warning: `own` was built for {} and is mounted at /cabane: paths inside may not work\n\
         error: /cabane/bin/linked has a loader of its own, /cabane/ld.so, which is not run\n",
        cabane.world.blank(&mount_point)
    );
    assert_eq!(seen, finished(1, "", &expected));
}

#[test]
fn links_to_the_same_program_are_no_conflict() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let image = |name: &str| {
        let (tree, _) = tree(&cabane, name);
        let tree = tree.file("bin/.keep", "");
        symlink("/usr/bin/env", tree.root().join("bin/same")).unwrap();
        pack(&cabane, name, &tree)
    };
    let images = format!("{},{}", image("one"), image("other"));
    let seen = cabane.run(&["explain", "--in", &images, "--json"]).success();
    let shown: Value = serde_json::from_str(&seen.stdout).unwrap();
    assert_eq!(shown["conflicts"]["files"], Value::Array(Vec::new()));
}

#[test]
fn interpreters_of_two_virtual_environments_are_a_conflict_although_they_are_links() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let image = |name: &str| {
        let (tree, _) = tree(&cabane, name);
        let tree = tree.file("pyvenv.cfg", "").file("bin/.keep", "");
        symlink("/usr/bin/env", tree.root().join("bin/python")).unwrap();
        pack(&cabane, name, &tree)
    };
    let images = format!("{},{}", image("one"), image("other"));
    let seen = cabane.run(&["explain", "--in", &images, "--json"]).success();
    let shown: Value = serde_json::from_str(&seen.stdout).unwrap();
    assert_eq!(shown["conflicts"]["files"][0]["names"][0], "python");
}

#[test]
fn an_unknown_name_is_an_error_with_one_that_is_almost_the_same() {
    for who in everybody() {
        let cabane = Cabane::with_app(who);
        let expected = "error: there is no command, library, or variable `helo` here\n\
            hint: did you mean `hello`?\n";
        let seen = cabane.run(&["explain", "--in", "app", "helo"]);
        assert_eq!(seen, finished(4, "", expected), "as {who:?}");
    }
}

#[test]
fn a_path_that_does_not_exist_is_an_error_with_its_neighbour() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let path = format!("{}/bin/hallo", cabane.mount_point("app"));
    let seen = cabane.run(&["explain", "--in", "app", &path]);
    let expected = "error: there is no file [WORLD]/mnt/app/bin/hallo\n\
        hint: did you mean `[WORLD]/mnt/app/bin/hello`?\n";
    assert_eq!(seen, finished(4, "", expected));
}

#[test]
fn an_image_that_is_not_there_has_the_code_of_what_is_not_found() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    assert_eq!(cabane.run(&["explain", "--in", "apple", "hello"]).code, 4);
}

#[test]
fn outside_an_environment_the_host_is_explained_and_an_overview_is_not_possible() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let codes =
        [&["explain", "ls"][..], &["explain"][..]].map(|arguments| cabane.run(arguments).code);
    assert_eq!(codes, [0, 8]);
}

#[test]
fn nothing_in_an_image_reaches_the_terminal_as_a_command() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let (tree, mount_point) = tree(&cabane, "evil");
    let meta = format!(
        r#"{{"name":"e\u001b[31mvil","mount":"{mount_point}","default-view":"all","views":{{"all":
        {{"env":{{"version":1,"values":{{"scalar":{{"EVIL":"\u001b[2J"}},
        "list":{{"PATH":[{{"op":"prepend","value":["{mount_point}/b\u001bin"]}}]}}}}}}}}}}}}"#
    );
    let tree = tree.file("meta/env.json", &meta).program("b\u{1b}in/x", "true");
    let image = pack(&cabane, "evil", &tree);
    let all =
        [&["explain", "--in", &image, "EVIL", "PATH", "x"][..], &["explain", "--in", &image][..]];
    let texts = all.map(|arguments| cabane.run(arguments).success().stdout);
    assert!(!texts.concat().contains('\u{1b}'), "{texts:?}");
}
