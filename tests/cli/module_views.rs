// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Views that come from the module files of a tree, with Lmod and with Environment Modules.

use std::os::unix::fs::symlink;
use std::path::Path;

use cabane_testkit::{Finished, Tree, not_run};

use crate::cabane::{Cabane, Who, everybody};

/// The interpreter of Environment Modules, where distributions have it.
const MODULES: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/modulecmd.tcl",
    "/usr/lib/aarch64-linux-gnu/modulecmd.tcl",
    "/usr/share/Modules/libexec/modulecmd.tcl",
];
pub(crate) const INIT: &str = "/usr/share/modules/init/bash";
const LMOD: &str = "/usr/share/lmod/lmod/libexec/lmod";

/// What `module` starts, and the variable that names it.
pub(crate) type Tool = (&'static str, String);

pub(crate) fn lmod() -> Option<Tool> {
    let named = std::env::var("CABANE_TEST_LMOD").ok();
    let found = named.or_else(|| Path::new(LMOD).exists().then(|| LMOD.to_owned()));
    found.map(|path| ("LMOD_CMD", path))
}

pub(crate) fn modules() -> Option<Tool> {
    let path = MODULES.into_iter().find(|path| Path::new(path).exists())?;
    Some(("MODULES_CMD", path.to_owned()))
}

/// What EasyBuild leaves at `prefix`: two packages, their module files, and a link to each.
fn tree(cabane: &Cabane, prefix: &str) -> Tree {
    let hello = format!("{prefix}/software/hello/1.0");
    let base = format!("{prefix}/software/base/2.0");
    let tree = Tree::new(cabane.world.path("recipe/tree"))
        .program("software/hello/1.0/bin/hello", "echo hello from $EBROOTHELLO")
        .file("software/base/2.0/lib/data", "data")
        .file(
            "modules/all/hello/1.0",
            &format!(
                "#%Module\nmodule load base/2.0\nset root {hello}\nsetenv EBROOTHELLO $root\n\
                 prepend-path PATH $root/bin\nprepend-path MANPATH $root/share/man\n\
                 setenv HELLO_CACHE $env(HOME)/.hello\nappend-path XDG_DATA_DIRS $root/share\n\
                 unsetenv GONE\n"
            ),
        )
        .file(
            "modules/all/base/2.0",
            &format!(
                "#%Module\nsetenv EBROOTBASE {base}\nprepend-path LD_LIBRARY_PATH {base}/lib\n"
            ),
        );
    symlink("../../all/hello/1.0", tree.root().join("modules/link")).unwrap();
    tree
}

/// Writes a recipe for the tree; `rest` follows the source.
fn recipe(cabane: &Cabane, store: &str, rest: &str, view: &str) -> String {
    let text = format!(
        "name: apps\nengine: tree\nstore: {store}\ndefault-view: hello\ntree:\n  source: tree\n\
         {rest}views:\n  hello:\n{view}"
    );
    cabane.world.file("recipe/config.yaml", &text);
    cabane.world.path("recipe").to_string_lossy().into_owned()
}

/// What `hello` says.
const FROM_HELLO: &str = "hello from [WORLD]/mnt/apps/software/hello/1.0\n";
const VIEW: &str = "    modules: [hello/1.0]\n";

fn build(cabane: &Cabane, (variable, path): &Tool, recipe: &str) -> Finished {
    let arguments = ["build", recipe, "apps/1.0", "--replace"];
    let mut command = cabane.command(&arguments);
    cabane.finish(command.env_remove("LMOD_CMD").env_remove("MODULES_CMD").env(variable, path))
}

/// Tests what both kinds can do.
fn with_both(test: impl Fn(&Tool)) {
    let (Some(lmod), Some(modules)) = (lmod(), modules()) else {
        not_run!("needs lmod and environment-modules: scripts/setup test");
    };
    test(&lmod);
    test(&modules);
}

#[test]
fn a_view_does_what_loading_its_modules_would_do() {
    with_both(|tool| {
        for who in everybody() {
            let cabane = Cabane::new(who);
            let place = cabane.mount_point("apps");
            let _tree = tree(&cabane, &place);
            let recipe = recipe(&cabane, &place, "", VIEW);
            build(&cabane, tool, &recipe).success();
            let script = "hello; echo $EBROOTBASE; echo $LD_LIBRARY_PATH; echo $HELLO_CACHE; \
                          echo ${GONE-gone}; echo $XDG_DATA_DIRS; echo $LOADEDMODULES$_LMFILES_";
            let mut command = cabane.command(&["run", "apps", "--", "sh", "-c", script]);
            command.env("LD_LIBRARY_PATH", "/mine").env("GONE", "x");
            command.env("XDG_DATA_DIRS", "/data");
            let seen = cabane.finish(&mut command).success();
            let expected = "\
                hello from [WORLD]/mnt/apps/software/hello/1.0\n\
                [WORLD]/mnt/apps/software/base/2.0\n\
                [WORLD]/mnt/apps/software/base/2.0/lib:/mine\n\
                [WORLD]/home/.hello\n\
                gone\n\
                /data:[WORLD]/mnt/apps/software/hello/1.0/share\n\n";
            assert_eq!(seen.stdout, expected, "{tool:?}");
        }
    });
}

#[test]
fn both_kinds_of_module_commands_make_the_same_image() {
    let images = std::cell::RefCell::new(Vec::new());
    with_both(|tool| {
        let cabane = Cabane::new(Who::OrdinaryUser);
        let _tree = tree(&cabane, "/cabane-apps");
        build(&cabane, tool, &recipe(&cabane, "/cabane-apps", "", VIEW)).success();
        let seen = cabane.run(&["image", "ls", "--format={digest}"]).success();
        images.borrow_mut().push(seen.stdout);
    });
    let images = images.into_inner();
    assert!(images.windows(2).all(|pair| pair[0] == pair[1]), "{images:?}");
}

#[test]
fn the_module_files_in_the_image_can_be_loaded() {
    let Some(tool) = modules().filter(|_| Path::new(INIT).exists()) else {
        not_run!("needs environment-modules: scripts/setup test");
    };
    let cabane = Cabane::new(Who::OrdinaryUser);
    let place = cabane.mount_point("apps");
    let _tree = tree(&cabane, &place);
    let view = format!("{VIEW}  plain: {{}}\n");
    build(&cabane, &tool, &recipe(&cabane, &place, "", &view)).success();
    let script = format!(". {INIT}; module use {place}/modules/all; module load hello; hello");
    let seen = cabane.run(&["run", "--view=plain", "apps", "--", "bash", "-c", &script]).success();
    assert_eq!(seen.stdout, FROM_HELLO);
}

#[test]
fn module_files_in_lua_need_lmod() {
    with_both(|tool| {
        let cabane = Cabane::new(Who::OrdinaryUser);
        let place = cabane.mount_point("apps");
        let text = format!(
            "local root = \"{place}/software/hello/1.0\"\ndepends_on(\"base/2.0\")\n\
             setenv(\"EBROOTHELLO\", root)\nprepend_path(\"PATH\", pathJoin(root, \"bin\"))\n\
             set_alias(\"hi\", \"hello\")\n"
        );
        let tree = tree(&cabane, &place).file("modules/all/hello/2.0.lua", &text);
        let recipe = recipe(&cabane, &place, "", "    modules: [hello/2.0]\n");
        let seen = build(&cabane, tool, &recipe);
        if tool.0 == "MODULES_CMD" {
            let command = &tool.1;
            let expected = format!(
                "cannot load `hello/2.0` for the view `hello`: its file is for Lmod, and {command} \
                 cannot read it"
            );
            assert!(seen.code == 7 && seen.stderr.contains(&expected), "{seen:?}");
            assert!(seen.stderr.contains("hint: install it, for example with `"), "{seen:?}");
            return;
        }
        let warning = "define aliases, which a view cannot have: `hi`";
        assert!(seen.success().stderr.contains(warning));
        let seen = cabane.run(&["run", "apps", "--", "hello"]).success();
        assert_eq!(seen.stdout, FROM_HELLO);
        drop(tree);
    });
}

#[test]
fn a_module_that_is_not_there_is_named() {
    with_both(|tool| {
        let cabane = Cabane::new(Who::OrdinaryUser);
        let _tree = tree(&cabane, "/cabane-apps");
        for (module, hint) in
            [("hello/1.1", "hint: there is `hello/1.0`"), ("helo/1.0", "did you mean `hello/1.0`?")]
        {
            let view = format!("    modules: [base/2.0, {module}]\n");
            let seen = build(&cabane, tool, &recipe(&cabane, "/cabane-apps", "", &view));
            let expected = format!(
                "cannot load `{module}` for the view `hello`: no module file has this name in \
                 `modules/all`"
            );
            let says = seen.stderr.contains(&expected) && seen.stderr.contains(hint);
            assert!(seen.code == 7 && says, "{}: {}", seen.code, seen.stderr);
        }
    });
}

#[test]
fn a_module_whose_file_is_a_link_to_nothing_is_named() {
    with_both(|tool| {
        let cabane = Cabane::new(Who::OrdinaryUser);
        let tree = tree(&cabane, "/cabane-apps");
        symlink("../../gone/3.0", tree.root().join("modules/all/hello/3.0")).unwrap();
        let recipe = recipe(&cabane, "/cabane-apps", "", "    modules: [hello/3.0]\n");
        let seen = build(&cabane, tool, &recipe);
        let expected = "modules/all/hello/3.0 is a link to ../../gone/3.0, which is not there";
        assert!(seen.code == 7 && seen.stderr.contains(expected), "{}", seen.stderr);
    });
}

#[test]
fn modules_that_exclude_each_other_are_refused() {
    with_both(|tool| {
        let cabane = Cabane::new(Who::OrdinaryUser);
        let other = "#%Module\nconflict base\nsetenv OTHER yes\n";
        let _tree = tree(&cabane, "/cabane-apps")
            .file("modules/all/other/1.0", other)
            .file("modules/all/base/3.0", "#%Module\nconflict base\nsetenv NEW yes\n");
        let view = "    modules: [hello/1.0, other/1.0]\n";
        let seen = build(&cabane, tool, &recipe(&cabane, "/cabane-apps", "", view));
        let expected = "cannot load `hello/1.0` and `other/1.0` for the view `hello`\n";
        assert!(seen.code == 7 && seen.stderr.contains(expected), "{}", seen.stderr);
        assert!(
            seen.stderr.contains("other/1.0") && seen.stderr.contains("base"),
            "{}",
            seen.stderr
        );
        // Lmod replaces a module by another of the same name; Environment Modules refuse it.
        let view = "    modules: [base/2.0, base/3.0]\n";
        let seen = build(&cabane, tool, &recipe(&cabane, "/cabane-apps", "", view));
        let expected = match tool.0 {
            "LMOD_CMD" => "cannot have `base/2.0`: `base/3.0`, which is loaded later, replaces it",
            _ => "cannot load `base/2.0` and `base/3.0` for the view `hello`\n",
        };
        assert!(seen.code == 7 && seen.stderr.contains(expected), "{}", seen.stderr);
    });
}

#[test]
fn a_module_of_a_hierarchy_needs_the_one_that_shows_it() {
    with_both(|tool| {
        let cabane = Cabane::new(Who::OrdinaryUser);
        let place = cabane.mount_point("apps");
        let compiler = format!(
            "#%Module\nprepend-path MODULEPATH {place}/modules/all/Compiler/GCC/13\nsetenv CC gcc\n"
        );
        let _tree = tree(&cabane, &place)
            .file("modules/all/Core/GCC/13", &compiler)
            .file("modules/all/Compiler/GCC/13/MPI/4.1", "#%Module\nsetenv MPI_CC $env(CC)\n");
        let view = "    modules: [MPI/4.1]\n    modulepath: modules/all/Core\n";
        let seen = build(&cabane, tool, &recipe(&cabane, &place, "", view));
        let hint = "hint: `MPI/4.1` is in modules/all/Compiler/GCC/13: name the module that adds this \
                    directory to MODULEPATH before it\n";
        assert!(seen.code == 7 && seen.stderr.contains(hint), "{}", seen.stderr);
        let view = "    modules: [GCC/13, MPI/4.1]\n    modulepath: modules/all/Core\n";
        build(&cabane, tool, &recipe(&cabane, &place, "", view)).success();
        let script = "echo $CC $MPI_CC $MODULEPATH";
        let seen = cabane.run(&["run", "apps", "--", "sh", "-c", script]).success();
        assert_eq!(seen.stdout, "gcc gcc\n");
    });
}

#[test]
fn a_tree_that_was_installed_elsewhere_needs_a_decision() {
    with_both(|tool| {
        let cabane = Cabane::new(Who::OrdinaryUser);
        let place = cabane.mount_point("apps");
        let from = "/cabane-old/easybuild";
        let script = format!("#!{from}/software/hello/1.0/bin/sh\n");
        let _tree = tree(&cabane, from).file("software/hello/1.0/bin/script", &script);
        let seen = build(&cabane, tool, &recipe(&cabane, &place, "", VIEW));
        let expected = format!(
            "was installed at {from}, but the image is mounted at [WORLD]/mnt/apps: the modules of \
             the view `hello` name the old path"
        );
        assert!(seen.code == 7 && seen.stderr.contains(&expected), "{}", seen.stderr);
        assert!(seen.stderr.contains(&format!("hint: write `store: {from}`")), "{}", seen.stderr);
        let rest = format!("  relocate: {{from: {from}}}\n");
        let seen = build(&cabane, tool, &recipe(&cabane, &place, &rest, VIEW)).success();
        let expected = format!(
            "warning: 1 file names {from}, where the tree was installed, and may not work at \
             [WORLD]/mnt/apps: software/hello/1.0/bin/script\n"
        );
        assert!(seen.stderr.contains(&expected), "{}", seen.stderr);
        let expected = format!("the module files in the image name {from}");
        assert!(seen.stderr.contains(&expected), "{}", seen.stderr);
        let seen = cabane.run(&["run", "apps", "--", "hello"]).success();
        assert_eq!(seen.stdout, FROM_HELLO);
    });
}

#[test]
fn paths_outside_of_the_image_are_named() {
    with_both(|tool| {
        let cabane = Cabane::new(Who::OrdinaryUser);
        let text = "#%Module\nsetenv VENDOR /opt/vendor\nprepend-path PATH /usr/local/bin\n";
        let _tree = tree(&cabane, "/cabane-apps").file("modules/all/vendor/1.0", text);
        let recipe = recipe(&cabane, "/cabane-apps", "", "    modules: [vendor/1.0]\n");
        let seen = build(&cabane, tool, &recipe).success();
        let expected = "the view `hello` names paths that are not in the image: /opt/vendor\n";
        assert!(seen.stderr.contains(expected), "{}", seen.stderr);
    });
}

#[test]
fn modules_are_loaded_again_when_they_or_the_recipe_change() {
    let Some(tool) = modules() else {
        not_run!("needs environment-modules: scripts/setup test");
    };
    let cabane = Cabane::new(Who::OrdinaryUser);
    let tree = tree(&cabane, "/cabane-apps");
    let path = recipe(&cabane, "/cabane-apps", "", VIEW);
    let first = build(&cabane, &tool, &path).success();
    assert!(first.stderr.contains("✓ views"), "{}", first.stderr);
    let second = build(&cabane, &tool, &path).success();
    assert!(second.stderr.contains("nothing has changed"), "{}", second.stderr);
    recipe(&cabane, "/cabane-apps", "", "    modules: [base/2.0]\n");
    let third = build(&cabane, &tool, &path).success();
    assert!(third.stderr.contains("✓ views"), "{}", third.stderr);
    let text = "#%Module\nsetenv EBROOTBASE /cabane-apps/new\n";
    let _tree = tree.file("modules/all/base/2.0", text);
    build(&cabane, &tool, &path).success();
    let seen = cabane.run(&["run", "apps", "--", "sh", "-c", "echo $EBROOTBASE"]).success();
    assert_eq!(seen.stdout, "/cabane-apps/new\n");
}

#[test]
fn a_dry_run_shows_which_modules_are_loaded() {
    let Some((variable, path)) = modules() else {
        not_run!("needs environment-modules: scripts/setup test");
    };
    let cabane = Cabane::new(Who::OrdinaryUser);
    let _tree = tree(&cabane, "/cabane-apps");
    let recipe = recipe(&cabane, "/cabane-apps", "", VIEW);
    let mut command = cabane.command(&["build", "--dry-run", &recipe, "apps/1.0"]);
    let seen = cabane.finish(command.env(variable, path)).success();
    assert!(seen.stdout.contains("$ module load hello/1.0\n"), "{}", seen.stdout);
}

#[test]
fn mistakes_in_views_of_modules_are_shown_with_their_places() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let view = "    modules: [hello 1.0, /etc/hello]\n    modulepath: ../modules\n";
    let recipe = recipe(&cabane, "/cabane-apps", "  relocate: {to: /x}\n", view);
    let seen = cabane.run(&["recipe", "check", &recipe]);
    assert_eq!(seen.code, 3, "{seen:?}");
    for expected in [
        "`hello 1.0` is not the name of a module",
        "`/etc/hello` is not the name of a module",
        "`../modules` is not a directory in the tree",
        "unknown key `to`",
        "the key `from` is missing in `relocate`",
    ] {
        assert!(seen.stderr.contains(expected), "{expected}: {}", seen.stderr);
    }
}

/// A package for EasyBuild: a C program with a Makefile.
const EASYCONFIG: &str = "\
easyblock = 'Binary'
extract_sources = True
name = 'hello'
version = '1.0'
homepage = 'https://example.org/hello'
description = 'A greeting'
toolchain = SYSTEM
sources = ['hello-1.0.tar.gz']
checksums = ['SUM']
install_cmd = 'make CC=gcc && install -D hello %(installdir)s/bin/hello'
prepend_to_path = []
sanity_check_paths = {'files': ['bin/hello'], 'dirs': []}
moduleclass = 'tools'
";

#[test]
fn what_easybuild_has_installed_becomes_an_image() {
    let (Ok(eb), Some(lmod)) = (std::env::var("CABANE_TEST_EASYBUILD"), lmod()) else {
        not_run!("needs EasyBuild and lmod: scripts/setup test");
    };
    let cabane = Cabane::new(Who::OrdinaryUser);
    let sources = cabane.world.path("home/sources");
    let place = cabane.mount_point("apps");
    let program = "#include <stdio.h>\nint main(void) { puts(\"hello from C\"); }\n";
    let script = format!(
        "set -e; mkdir -p {sources}/hello-1.0; cd {sources}\n\
         printf %s \"$PROGRAM\" >hello-1.0/hello.c\n\
         printf 'hello: hello.c\\n\\t$(CC) -o hello hello.c\\n' >hello-1.0/Makefile\n\
         tar -czf hello-1.0.tar.gz hello-1.0\n\
         sum=$(sha256sum hello-1.0.tar.gz | cut -d ' ' -f 1)\n\
         printf %s \"$EASYCONFIG\" | sed \"s/SUM/$sum/\" >hello-1.0.eb\n\
         PATH={bin}:$PATH {eb} --prefix=$HOME/eb --installpath={place} --sourcepath={sources} \
         --modules-tool=Lmod --enforce-checksums --robot={sources} hello-1.0.eb >&2",
        sources = sources.display(),
        bin = Path::new(&eb).parent().unwrap().display(),
    );
    let mut command = cabane.other("bash");
    command.args(["-c", &script]).env("PROGRAM", program).env("EASYCONFIG", EASYCONFIG);
    cabane.finish(command.env(lmod.0, &lmod.1)).success();
    let config = format!(
        "name: apps\nengine: tree\nstore: {place}\ndefault-view: hello\ntree:\n  source: {place}\n\
         views:\n  hello:\n    modules: [hello/1.0]\n"
    );
    cabane.world.file("recipe/config.yaml", &config);
    let recipe = cabane.world.path("recipe").to_string_lossy().into_owned();
    let seen = build(&cabane, &lmod, &recipe).success();
    assert!(!seen.stderr.contains("warning"), "{}", seen.stderr);
    let seen = cabane.run(&["run", "apps", "--", "sh", "-c", "hello; echo $EBVERSIONHELLO"]);
    assert_eq!(seen.success().stdout, "hello from C\n1.0\n");
    // EasyBuild writes names as their projects do.
    let seen = cabane.run(&["image", "ls", "--package=Hello@1.0", "--format={label}"]);
    assert!(seen.stdout.starts_with("apps/1.0"), "{seen:?}");
    let seen = cabane.run(&["image", "inspect", "apps", "--packages", "--json"]).success().stdout;
    let seen: serde_json::Value = serde_json::from_str(&seen).unwrap();
    let package = &seen["packages"][0];
    assert_eq!(
        [&package["name"], &package["version"], &package["manager"]],
        ["hello", "1.0", "easybuild"],
        "{package}"
    );
}
