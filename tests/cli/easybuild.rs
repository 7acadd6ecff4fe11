// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Recipes for EasyBuild, built with the real one: two packages of which one needs the other.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use cabane_testkit::{Finished, not_run};
use rustix::process::{Pid, Signal, kill_process};

use crate::cabane::{Cabane, Who, everybody};
use crate::module_views::{INIT, Tool, lmod, modules};

/// `MakeCp` would try to download a file of its own for each package.
pub(crate) const EASYCONFIG: &str = "\
easyblock = 'Binary'
extract_sources = True
name = 'NAME'
version = '1.0'
homepage = 'https://example.org/NAME'
description = 'A greeting'
toolchain = SYSTEM
sources = ['NAME-1.0.tar.gz']
checksums = ['SUM']
install_cmd = 'make CC=gcc && install -D NAME %(installdir)s/bin/NAME'
prepend_to_path = []
sanity_check_paths = {'files': ['bin/NAME'], 'dirs': []}
moduleclass = 'tools'
";

/// What makes the archive of a package and its easyconfig: in `sources` and in `recipe`.
const MAKE: &str = "\
set -e; cd \"$HOME\"; mkdir -p $NAME-1.0
printf '#include <stdio.h>\\nint main(void) { puts(\"hello from %s\"); }\\n' $NAME >$NAME-1.0/$NAME.c
printf '%s: %s.c\\n\\t$(CC) -g -o %s %s.c\\n' $NAME $NAME $NAME $NAME >$NAME-1.0/Makefile
tar -czf \"$SOURCES/$NAME-1.0.tar.gz\" $NAME-1.0
sum=$(sha256sum \"$SOURCES/$NAME-1.0.tar.gz\" | cut -d ' ' -f 1)
printf %s \"$EASYCONFIG\" | sed \"s/SUM/$sum/; s/NAME/$NAME/g\" >\"$RECIPE/$NAME-1.0.eb\"
";

pub(crate) const CONFIG: &str = "\
name: apps
engine: easybuild
store: STORE
default-view: hello
easybuild:
  version: VERSION
  easyconfigs: [hello-1.0.eb]
  sources: ../sources
views:
  hello:
    modules: [hello/1.0]
";

/// A recipe with two packages, and what builds it.
pub(crate) struct Recipe {
    pub(crate) cabane: Cabane,
    pub(crate) python: String,
    tool: Tool,
    pub(crate) store: String,
}

/// The Python of the EasyBuild of the tests.
pub(crate) fn python() -> Option<String> {
    let eb = std::env::var("CABANE_TEST_EASYBUILD").ok()?;
    Some(Path::new(&eb).with_file_name("python3").to_string_lossy().into_owned())
}

pub(crate) fn version(python: &str) -> String {
    let question = "from easybuild.tools.version import VERSION; print(VERSION)";
    let mut command = Command::new(python);
    let seen = Finished::of(command.args(["-I", "-c", question])).success();
    seen.stdout.trim().to_owned()
}

impl Recipe {
    pub(crate) fn new(who: Who, python: &str, tool: &Tool) -> Self {
        let cabane = Cabane::new(who);
        for directory in ["recipe", "sources"] {
            cabane.world.directory(directory);
        }
        let store = cabane.mount_point("apps");
        let recipe = Self { cabane, python: python.to_owned(), tool: tool.clone(), store };
        recipe.package("base", EASYCONFIG);
        let needs = format!("{EASYCONFIG}dependencies = [('base', '1.0')]\n");
        recipe.package("hello", &needs);
        recipe.config(&CONFIG.replace("VERSION", &version(python)));
        recipe
    }

    /// Makes a package: its archive and its easyconfig.
    pub(crate) fn package(&self, name: &str, easyconfig: &str) {
        let mut command = self.cabane.other("bash");
        command.args(["-c", MAKE]).env("NAME", name).env("EASYCONFIG", easyconfig);
        command.env("SOURCES", self.cabane.world.path("sources"));
        command.env("RECIPE", self.cabane.world.path("recipe"));
        self.cabane.finish(&mut command).success();
    }

    pub(crate) fn config(&self, text: &str) {
        self.cabane.world.file("recipe/config.yaml", &text.replace("STORE", &self.store));
    }

    /// Changes an easyconfig.
    pub(crate) fn change(&self, name: &str, from: &str, to: &str) {
        let path = self.cabane.world.path(&format!("recipe/{name}-1.0.eb"));
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(&path, text.replace(from, to)).unwrap();
    }

    pub(crate) fn path(&self) -> String {
        self.cabane.world.path("recipe").to_string_lossy().into_owned()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.cabane.command(arguments);
        command.env_remove("LMOD_CMD").env_remove("MODULES_CMD").env(self.tool.0, &self.tool.1);
        command.env("CABANE_EASYBUILD_PYTHON", &self.python);
        command
    }

    pub(crate) fn build(&self, more: &[&str]) -> Finished {
        let path = self.path();
        let arguments = [&["build", &path, "apps/1.0", "--replace"], more].concat();
        self.cabane.finish(&mut self.command(&arguments))
    }

    pub(crate) fn check(&self) -> Finished {
        self.cabane.finish(&mut self.command(&["recipe", "check", &self.path()]))
    }

    pub(crate) fn digest(&self) -> String {
        let seen = self.cabane.run(&["image", "ls", "--format={digest}"]).success();
        seen.stdout.trim().to_owned()
    }
}

/// Leaves a test out if the machine lacks what it needs; fails in CI.
macro_rules! tools {
    () => {{
        let found = ($crate::easybuild::python(), lmod(), modules());
        let (Some(python), Some(lmod), Some(modules)) = found else {
            not_run!("needs EasyBuild, lmod, and environment-modules: scripts/setup test");
        };
        (python, lmod, modules)
    }};
}
pub(crate) use tools;

#[test]
fn packages_are_built_at_the_mount_point_and_views_load_their_modules() {
    let (python, lmod, modules) = tools!();
    for who in everybody() {
        for tool in [&lmod, &modules] {
            let recipe = Recipe::new(who, &python, tool);
            let built = recipe.build(&[]).success();
            for line in ["base@1.0  built", "hello@1.0  built", "✓ fetch", "✓ install", "✓ views"]
            {
                assert!(built.stderr.contains(line), "{line}: {}", built.stderr);
            }
            assert!(!built.stderr.contains("warning"), "{}", built.stderr);
            let script = "hello; base; echo $EBROOTHELLO $EBVERSIONBASE$LOADEDMODULES";
            let seen =
                recipe.cabane.run(&["run", "--view=hello", "apps", "--", "sh", "-c", script]);
            let expected = "hello from hello\nhello from base\n\
                            [WORLD]/mnt/apps/software/hello/1.0 1.0\n";
            assert_eq!(seen.success().stdout, expected, "{who:?} {tool:?}");
        }
    }
}

#[test]
fn both_module_commands_load_the_modules_in_the_image() {
    let (python, lmod, modules) = tools!();
    if !Path::new(INIT).exists() {
        not_run!("needs environment-modules: scripts/setup test");
    }
    for built_with in [&lmod, &modules] {
        let recipe = Recipe::new(Who::OrdinaryUser, &python, built_with);
        recipe.build(&[]).success();
        let of_lmod = format!("module() {{ eval \"$({} bash \"$@\")\"; }}", lmod.1);
        for begin in [format!(". {INIT}"), of_lmod] {
            let script = format!(
                "{begin}; module use {}/modules/all; module load hello; hello; base; \
                 module unload hello; command -v hello",
                recipe.store
            );
            let run = ["run", "--no-default-view", "apps", "--", "bash", "-c", &script];
            let seen = recipe.cabane.run(&run);
            assert_eq!(seen.stdout, "hello from hello\nhello from base\n", "{begin}: {seen:?}");
        }
    }
}

#[test]
fn two_builds_make_the_same_image() {
    let (python, lmod, _) = tools!();
    let recipe = Recipe::new(Who::OrdinaryUser, &python, &lmod);
    recipe.build(&[]).success();
    let first = recipe.digest();
    let again = recipe.build(&["--from=sources"]).success();
    assert!(again.stderr.contains("hello@1.0  built"), "{}", again.stderr);
    assert_eq!(recipe.digest(), first);
    let elsewhere = recipe.cabane.world.path("other").to_string_lossy().into_owned();
    recipe.build(&["--build-dir", &elsewhere]).success();
    assert_eq!(recipe.digest(), first);
}

#[test]
fn the_image_lists_what_easybuild_has_installed() {
    let (python, lmod, _) = tools!();
    let recipe = Recipe::new(Who::OrdinaryUser, &python, &lmod);
    recipe.build(&[]).success();
    let seen = recipe.cabane.run(&["image", "inspect", "apps", "--packages", "--json"]).success();
    let seen: serde_json::Value = serde_json::from_str(&seen.stdout).unwrap();
    let packages: Vec<_> = seen["packages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            format!("{} {} {} {}", one["name"], one["version"], one["manager"], one["explicit"])
        })
        .collect();
    let expected = [r#""base" "1.0" "easybuild" false"#, r#""hello" "1.0" "easybuild" true"#];
    assert_eq!(packages, expected);
    let seen = recipe.cabane.run(&["image", "ls", "--package=base@1.0", "--format={label}"]);
    assert!(seen.stdout.starts_with("apps/1.0"), "{seen:?}");
}

#[test]
fn a_source_with_another_checksum_is_refused() {
    let (python, lmod, _) = tools!();
    let recipe = Recipe::new(Who::OrdinaryUser, &python, &lmod);
    let archive = recipe.cabane.world.path("sources/base-1.0.tar.gz");
    fs::copy(recipe.cabane.world.path("sources/hello-1.0.tar.gz"), archive).unwrap();
    let seen = recipe.build(&[]);
    let expected = "error: step `fetch` failed: sources of base-1.0.eb are missing or wrong\n  \
                    Checksum verification for /cabane/sources/0/base-1.0.tar.gz using ";
    assert!(seen.code == 7 && seen.stderr.contains(expected), "{}", seen.stderr);
}

#[test]
fn a_source_without_a_checksum_is_refused() {
    let (python, lmod, _) = tools!();
    let recipe = Recipe::new(Who::OrdinaryUser, &python, &lmod);
    recipe.change("base", "checksums", "local_sums");
    let seen = recipe.build(&[]);
    let expected = "  Missing checksum for base-1.0.tar.gz\n";
    assert!(seen.code == 7 && seen.stderr.contains(expected), "{}", seen.stderr);
}

#[test]
fn a_source_that_is_nowhere_is_named() {
    let (python, lmod, _) = tools!();
    let recipe = Recipe::new(Who::OrdinaryUser, &python, &lmod);
    fs::remove_file(recipe.cabane.world.path("sources/base-1.0.tar.gz")).unwrap();
    let site = "[build]\ncommand_network = \"forbid\"\n";
    recipe.cabane.world.file("site.toml", site);
    let seen = recipe.build(&[]);
    let expected = "error: step `fetch` failed: sources of base-1.0.eb are missing or wrong\n  \
                    Couldn't find file base-1.0.tar.gz anywhere, and downloading it didn't work either\n  \
                    (`build.command_network` in the configuration forbids downloads)\n  \
                    (copy the file into the recipe, or into a directory that `sources` names)\n";
    assert!(seen.code == 7 && seen.stderr.contains(expected), "{}", seen.stderr);
}

#[test]
fn sources_are_downloaded_once_and_only_where_the_site_allows_it() {
    let (python, lmod, _) = tools!();
    let recipe = Recipe::new(Who::OrdinaryUser, &python, &lmod);
    let archive = recipe.cabane.world.path("sources/base-1.0.tar.gz");
    let content = fs::read(&archive).unwrap();
    fs::remove_file(&archive).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("source_urls = ['http://{}/']\nname =", listener.local_addr().unwrap());
    recipe.change("base", "name =", &url);
    recipe.cabane.world.file("site.toml", "[build]\ncommand_network = \"forbid\"\n");
    let seen = recipe.build(&[]);
    assert!(seen.code == 7 && seen.stderr.contains("forbids downloads"), "{}", seen.stderr);
    fs::remove_file(recipe.cabane.world.path("site.toml")).unwrap();
    let server = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        let _ = client.read(&mut request).unwrap();
        let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n", content.len());
        client.write_all(head.as_bytes()).unwrap();
        client.write_all(&content).unwrap();
    });
    recipe.build(&[]).success();
    server.join().unwrap();
    // The server is gone.
    let elsewhere = recipe.cabane.world.path("other").to_string_lossy().into_owned();
    recipe.build(&["--build-dir", &elsewhere]).success();
}

#[test]
fn a_package_is_built_without_a_network_and_without_the_variables_of_the_user() {
    let (python, lmod, _) = tools!();
    for who in everybody() {
        let recipe = Recipe::new(who, &python, &lmod);
        let test = "preinstallopts = 'test \"$(tail -n +3 /proc/net/dev | cut -d : -f 1 | tr -d \" \")\" = lo && \
                    test -z \"$MINE$EASYBUILD_PREFIX\" && '\ninstall_cmd =";
        recipe.change("hello", "install_cmd =", test);
        let home = recipe.cabane.world.path("home/.config/easybuild");
        fs::create_dir_all(&home).unwrap();
        fs::write(home.join("config.cfg"), "[override]\nstop = configure\n").unwrap();
        let mut command = recipe.command(&["build", &recipe.path(), "apps/1.0"]);
        command.env("MINE", "x").env("EASYBUILD_PREFIX", "/nonexistent");
        recipe.cabane.finish(&mut command).success();
        let seen = recipe.cabane.run(&["run", "apps", "--", "hello"]).success();
        assert_eq!(seen.stdout, "hello from hello\n");
    }
}

#[test]
fn a_build_that_fails_names_the_easyconfig_the_phase_and_the_log() {
    let (python, lmod, _) = tools!();
    let recipe = Recipe::new(Who::OrdinaryUser, &python, &lmod);
    recipe.change("hello", "easyblock = 'Binary'\nextract_sources = True", "easyblock = 'MakeCp'");
    let (install, build) = (
        "install_cmd = 'make CC=gcc && install -D hello %(installdir)s/bin/hello'\nprepend_to_path = []",
        "buildopts = 'CC=gcc'\nfiles_to_copy = [(['hello'], 'bin')]",
    );
    recipe.change("hello", install, build);
    recipe.change("hello", "CC=gcc", "CC=no-such-compiler");
    let build = recipe.cabane.world.path("build").to_string_lossy().into_owned();
    let seen = recipe.build(&["--build-dir", &build]);
    let expected = "error: step `install` failed: hello-1.0.eb was not built (phase: building)\n";
    assert!(seen.code == 7 && seen.stderr.contains(expected), "{}", seen.stderr);
    let expected = "no-such-compiler: No such file or directory";
    assert!(seen.stderr.contains(expected), "{}", seen.stderr);
    let expected = "hint: the whole log is in [WORLD]/build/logs/hello-1.0.eb.log\n";
    assert!(seen.stderr.ends_with(expected), "{}", seen.stderr);
    let log = fs::read_to_string(Path::new(&build).join("logs/hello-1.0.eb.log")).unwrap();
    assert!(log.contains("no-such-compiler"), "{log}");
    // What was built before it stays, and the right text is built.
    recipe.change("hello", "CC=no-such-compiler", "CC=gcc");
    recipe.build(&["--build-dir", &build]).success();
}

#[test]
fn a_build_that_was_killed_continues_with_the_package_that_was_not_finished() {
    let (python, lmod, _) = tools!();
    for who in everybody() {
        let recipe = Recipe::new(who, &python, &lmod);
        let wait = "preinstallopts = 'test -e /cabane/recipe/go || sleep 600; '\ninstall_cmd =";
        recipe.change("hello", "install_cmd =", wait);
        let mut command = recipe.command(&["build", &recipe.path(), "apps/1.0"]);
        let mut build = command.stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(build.stderr.take().unwrap()).lines();
        let is_built = lines.map_while(Result::ok).any(|line| line.contains("base@1.0  built"));
        assert!(is_built);
        kill_process(Pid::from_child(&build), Signal::KILL).unwrap();
        build.wait().unwrap();
        recipe.cabane.world.file("recipe/go", "");
        let seen = recipe.build(&[]).success();
        for line in ["base@1.0  from the cache", "hello@1.0  built"] {
            assert!(seen.stderr.contains(line), "{line}: {}", seen.stderr);
        }
        let seen = recipe.cabane.run(&["run", "apps", "--", "hello"]).success();
        assert_eq!(seen.stdout, "hello from hello\n");
    }
}

#[test]
fn a_change_of_an_easyconfig_builds_the_packages_again() {
    let (python, lmod, _) = tools!();
    let recipe = Recipe::new(Who::OrdinaryUser, &python, &lmod);
    recipe.build(&[]).success();
    let seen = recipe.build(&[]).success();
    assert!(seen.stderr.contains("nothing has changed"), "{}", seen.stderr);
    recipe.change("base", "install_cmd =", "modextravars = {'BASE_NEW': 'yes'}\ninstall_cmd =");
    // What is optimized for this processor needs all of its features.
    let config = CONFIG.replace("VERSION", &version(&recipe.python));
    recipe.config(&config.replace("easybuild:\n", "easybuild:\n  optimization: native\n"));
    recipe.build(&[]).success();
    let seen = recipe.cabane.run(&["image", "inspect", "apps"]).success();
    assert!(
        seen.stdout.contains("a processor as good as that of its build machine"),
        "{}",
        seen.stdout
    );
    let seen = recipe.cabane.run(&["run", "apps", "--", "printenv", "BASE_NEW"]).success();
    assert_eq!(seen.stdout, "yes\n");
}

#[test]
fn a_check_finds_what_is_missing_before_anything_is_built() {
    let (python, lmod, _) = tools!();
    let recipe = Recipe::new(Who::OrdinaryUser, &python, &lmod);
    let config = CONFIG.replace("VERSION", &version(&python));
    recipe.check().success();
    let cases = [
        ("hello-1.0.eb", "own/hello-1.1.eb", "own/hello-1.1.eb, which is not a file"),
        ("hello-1.0.eb", "helo-1.0.eb", "there is no easyconfig helo-1.0.eb in the recipe"),
        ("hello/1.0", "hello/1.1", "hint: did you mean `hello/1.0`?"),
        (
            "hello/1.0",
            "other/1.0",
            "the view `hello` loads `other/1.0`, but no such module is built",
        ),
        ("../sources", "../gone", "recipe/../gone, which is not a directory"),
    ];
    for (from, to, expected) in cases {
        recipe.config(&config.replace(from, to));
        let seen = recipe.check();
        assert!(seen.code == 7 && seen.stderr.contains(expected), "{expected}: {seen:?}");
    }
    recipe.config(&config.replace(&format!("  version: {}\n", version(&python)), ""));
    let seen = recipe.check();
    let expected = "the key `version` is missing in `easybuild`";
    assert!(seen.code == 3 && seen.stderr.contains(expected), "{seen:?}");
    recipe.config(&CONFIG.replace("VERSION", "4.9.0"));
    let seen = recipe.check();
    let expected = "the recipe needs EasyBuild 4.9.0, but ";
    assert!(seen.code == 7 && seen.stderr.contains(expected), "{seen:?}");
}

#[test]
fn without_a_site_python_only_versions_with_known_hashes_are_taken() {
    let (python, lmod, _) = tools!();
    let recipe = Recipe::new(Who::OrdinaryUser, &python, &lmod);
    recipe.config(&CONFIG.replace("VERSION", "4.9.0"));
    let check = || {
        let mut command = recipe.command(&["recipe", "check", &recipe.path()]);
        recipe.cabane.finish(command.env_remove("CABANE_EASYBUILD_PYTHON"))
    };
    let seen = check();
    let expected = "Cabane does not know the hashes of EasyBuild 4.9.0";
    assert!(seen.code == 7 && seen.stderr.contains(expected), "{seen:?}");
    let own = "4.9.0\n  requirements: easybuild.txt";
    recipe.config(&CONFIG.replace("VERSION", own));
    recipe.cabane.world.file("recipe/easybuild.txt", "easybuild-framework==4.9.1 --hash=x\n");
    let seen = check();
    let expected = "easybuild.txt does not name `easybuild-framework==4.9.0`";
    assert!(seen.code == 7 && seen.stderr.contains(expected), "{seen:?}");
    recipe.cabane.world.file("recipe/easybuild.txt", "easybuild-framework==4.9.0 --hash=x\n");
    check().success();
}

#[test]
fn a_dependency_without_an_easyconfig_is_named() {
    let (python, lmod, _) = tools!();
    let recipe = Recipe::new(Who::OrdinaryUser, &python, &lmod);
    fs::remove_file(recipe.cabane.world.path("recipe/base-1.0.eb")).unwrap();
    let seen = recipe.build(&[]);
    let expected =
        "  Missing dependencies: base/1.0 (no easyconfig file or existing module found)\n";
    assert!(seen.code == 7 && seen.stderr.contains(expected), "{}", seen.stderr);
}

#[test]
fn a_dry_run_says_what_is_built_in_which_order() {
    let (python, lmod, _) = tools!();
    let recipe = Recipe::new(Who::OrdinaryUser, &python, &lmod);
    let seen = recipe.build(&["--dry-run"]).success();
    let expected = "$ eb --fetch /cabane/recipe/hello-1.0.eb --robot\n";
    assert!(seen.stdout.contains(expected), "{}", seen.stdout);
    recipe.build(&["--until=concretize"]).success();
    let seen = recipe.build(&["--dry-run"]).success();
    assert!(seen.stdout.contains("build `base/1.0` and `hello/1.0`"), "{}", seen.stdout);
}

#[test]
fn sources_may_be_in_the_mirrors_of_the_site() {
    let (python, lmod, _) = tools!();
    let recipe = Recipe::new(Who::OrdinaryUser, &python, &lmod);
    let config =
        CONFIG.replace("VERSION", &version(&python)).replace("  sources: ../sources\n", "");
    recipe.config(&config);
    recipe.cabane.world.file("site.toml", "[build]\ncommand_network = \"forbid\"\n");
    let seen = recipe.build(&[]);
    assert!(seen.code == 7 && seen.stderr.contains("Couldn't find file"), "{}", seen.stderr);
    let sources = recipe.cabane.world.path("sources");
    let text = format!("sourcemirror:\n  local:\n    url: file://{}\n", sources.display());
    recipe.cabane.world.file("mirrors.yaml", &text);
    let mirrors = recipe.cabane.world.path("mirrors.yaml").to_string_lossy().into_owned();
    recipe.build(&["--mirrors", &mirrors]).success();
}

#[test]
fn the_recipe_to_begin_with_is_built_as_it_is() {
    let (python, lmod, _) = tools!();
    let recipe = Recipe::new(Who::OrdinaryUser, &python, &lmod);
    recipe.cabane.run(&["init", "easybuild", "begin"]).success();
    let mut command = recipe.command(&["build", "begin", "begin/1.0"]);
    recipe.cabane.finish(&mut command).success();
    let seen = recipe.cabane.run(&["run", "begin", "--", "hello"]).success();
    assert_eq!(seen.stdout, "hello from C\n");
}
