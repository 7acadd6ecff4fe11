// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane build --debug-symbols`: programs without debug symbols, and an image that has them.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use cabane_testkit::{Finished, compile, needs, not_run};

use crate::attach::{has_gdb, spawn};
use crate::cabane::{Cabane, Who, everybody};
use crate::spack_real::{example, with_spack};

const SOURCE: &str = "\
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int deep_inside(int *place)
{
    *place = 41;
    return *place;
}
int main(int count, char **words)
{
    int place = 0;
    puts(\"is there\");
    fflush(stdout);
    if (count > 1 && *words[1] == 'w') for (;;) sleep(1);
    return deep_inside(count > 1 ? NULL : &place) - 41;
}
";
/// The line that fails.
const LINE: &str = "solver.c:6";
const STORE: &str = "/cabane-built";

/// A recipe with one program, with debug symbols, in a world.
struct Recipe {
    cabane: Cabane,
    path: String,
}

impl Recipe {
    fn new(who: Who) -> Self {
        let recipe = Self::without_programs(Cabane::new(who));
        recipe.compile("bin/solver", &["-g"]);
        recipe
    }

    fn without_programs(cabane: Cabane) -> Self {
        cabane.world.directory("recipe/files/bin");
        let path = cabane.world.path("recipe").to_string_lossy().into_owned();
        let recipe = Self { cabane, path };
        recipe.configure("debug-symbols: separate\n");
        recipe
    }

    fn configure(&self, more: &str) {
        let config =
            format!("name: app\nengine: tree\nstore: {STORE}\ntree:\n  source: files\n{more}");
        self.cabane.world.file("recipe/config.yaml", &config);
    }

    fn file(&self, name: &str) -> PathBuf {
        self.cabane.world.path("recipe/files").join(name)
    }

    /// Compiles the program; its source has always the same name.
    fn compile(&self, name: &str, options: &[&str]) {
        let place = tempfile::tempdir().unwrap();
        let built = place.path().join("solver");
        let map = format!("-ffile-prefix-map={}=.", place.path().display());
        let options = [&["-O0", "-Wl,--build-id=sha1", &map], options].concat();
        compile(SOURCE, &built, options);
        fs::copy(built, self.file(name)).unwrap();
    }

    fn build(&self, options: &[&str]) -> Finished {
        let typed = [&["build"], options, &[&self.path, "app/1.0"]].concat();
        self.cabane.run(&typed)
    }

    /// Runs something in the image, or in it and the one with its symbols.
    fn run(&self, images: &str, command: &[&str]) -> Finished {
        self.cabane.run(&[&["run", images, "--"], command].concat())
    }

    /// What a debugger says about a function of a program.
    fn line_in(&self, images: &str, program: &str) -> String {
        let program = format!("{STORE}/{program}");
        let asked = ["gdb", "-nx", "-batch", "-ex", "info line deep_inside", &program];
        self.run(images, &asked).success().stdout
    }

    fn images(&self) -> String {
        self.cabane.run(&["image", "ls", "--format={name} {digest}"]).success().stdout
    }
}

#[test]
fn a_debugger_shows_lines_of_the_source_with_the_image_of_the_symbols_only() {
    if !has_gdb() {
        not_run!("needs gdb");
    }
    for who in everybody() {
        let recipe = Recipe::new(who);
        let seen = recipe.build(&["--debug-symbols"]).success();
        let says = "separated the debug symbols of 1 file: ";
        assert!(seen.stderr.contains(says), "as {who:?}: {seen:?}");
        let with = recipe.line_in("app,app-debug", "bin/solver");
        assert!(with.contains("of \"./solver.c\"") || with.contains("solver.c"), "{with}");
        let without = recipe.line_in("app", "bin/solver");
        assert!(without.contains("No line number information"), "as {who:?}: {without}");
    }
}

#[test]
fn a_core_shows_the_line_that_failed() {
    if !has_gdb() {
        not_run!("needs gdb");
    }
    for who in everybody() {
        let recipe = Recipe::new(who);
        recipe.build(&["--debug-symbols"]).success();
        let core = recipe.cabane.world.path("home/core").to_string_lossy().into_owned();
        let program = format!("{STORE}/bin/solver");
        // The kernel of the tests may send cores elsewhere.
        let save = format!("generate-core-file {core}");
        let fail = ["gdb", "-nx", "-batch", "-ex", "run", "-ex", &save, "--args", &program, "fail"];
        recipe.run("app", &fail).success();
        let look = ["gdb", "-nx", "-batch", "-ex", "backtrace", &program, &core];
        let with = recipe.run("app,app-debug", &look).success().stdout;
        assert!(with.contains(LINE) && with.contains("place=0x0"), "as {who:?}: {with}");
        let without = recipe.run("app", &look).success().stdout;
        let has_names = without.contains("in deep_inside") && without.contains("in main");
        assert!(has_names && !without.contains("solver.c"), "as {who:?}: {without}");
    }
}

#[test]
fn valgrind_names_the_line_that_fails() {
    let valgrind = needs!("valgrind");
    let recipe = Recipe::new(Who::OrdinaryUser);
    recipe.build(&["--debug-symbols"]).success();
    let program = format!("{STORE}/bin/solver");
    let look =
        |images| recipe.run(images, &[&valgrind.to_string_lossy(), "-q", &program, "fail"]).stderr;
    assert!(look("app,app-debug").contains(LINE), "{}", look("app,app-debug"));
    assert!(!look("app").contains("solver.c"), "{}", look("app"));
}

#[test]
fn the_symbols_can_be_added_to_a_program_that_runs() {
    if !has_gdb() {
        not_run!("needs gdb");
    }
    for who in everybody() {
        let recipe = Recipe::new(who);
        recipe.build(&["--debug-symbols"]).success();
        let program = format!("{STORE}/bin/solver");
        let cabane = &recipe.cabane;
        let mut child = spawn(&mut cabane.command(&["run", "app", "--", &program, "wait"]));
        let number = child.id().to_string();
        let asked = ["--", "gdb", "-nx", "-batch", "-p", &number, "-ex", "backtrace"];
        let seen = cabane.run(&[&["attach", "--with", "app-debug", &number][..], &asked].concat());
        child.kill().unwrap();
        child.wait().unwrap();
        let seen = seen.success().stdout;
        assert!(seen.contains("solver.c:14"), "as {who:?}: {seen}");
    }
}

#[test]
fn the_image_is_the_same_with_and_without_the_option_and_each_build_gives_the_same_symbols() {
    let (first, second) = (Recipe::new(Who::OrdinaryUser), Recipe::new(Who::OrdinaryUser));
    let program = first.file("bin/solver");
    // Another compilation of the same source may be another file.
    fs::copy(&program, second.file("bin/solver")).unwrap();
    let before = fs::read(&program).unwrap();
    first.build(&[]).success();
    let alone = first.images();
    first.build(&["--debug-symbols"]).success();
    second.build(&["--debug-symbols"]).success();
    let (both, again) = (first.images(), second.images());
    assert_eq!(both, again);
    let (image, symbols) = both.split_once('\n').unwrap();
    assert_eq!(format!("{image}\n"), alone);
    assert!(image.starts_with("app ") && symbols.starts_with("app-debug "), "{both}");
    assert_eq!(fs::read(&program).unwrap(), before, "the files of the recipe were changed");
    let seen = first.build(&["--debug-symbols"]).success();
    assert!(seen.stderr.contains("nothing has changed"), "{seen:?}");
}

#[test]
fn without_the_line_in_the_recipe_the_image_keeps_its_symbols_and_the_option_is_refused() {
    let recipe = Recipe::new(Who::OrdinaryUser);
    recipe.configure("");
    let seen = recipe.build(&["--debug-symbols"]);
    let expected = "error: the recipe does not separate debug symbols\n\
                    hint: add the line `debug-symbols: separate` to its config.yaml\n";
    assert_eq!((seen.code, seen.stderr.as_str()), (7, expected));
    recipe.build(&[]).success();
    let packed = recipe.run("app", &["cat", &format!("{STORE}/bin/solver")]);
    assert!(packed.stdout.contains("debug_info"), "the symbols are gone");
}

#[test]
fn other_values_and_other_engines_are_refused() {
    let recipe = Recipe::new(Who::OrdinaryUser);
    recipe.configure("debug-symbols: yes\n");
    let seen = recipe.build(&[]);
    let hint = "write `debug-symbols: separate`, or remove the line";
    assert!(seen.code == 3 && seen.stderr.contains(hint), "{seen:?}");
    let config = "name: app\nengine: container\ncontainer:\n  from: oci:there\n";
    recipe.cabane.world.file("recipe/config.yaml", config);
    let seen = recipe.build(&["--debug-symbols"]);
    let says = "cannot be used with recipes of the engine `container`";
    assert!(seen.code == 7 && seen.stderr.contains(says), "{seen:?}");
    let more = format!("{config}debug-symbols: separate\n");
    recipe.cabane.world.file("recipe/config.yaml", &more);
    let seen = recipe.build(&[]);
    let says = "images of the engine `container` keep their debug symbols";
    assert!(seen.code == 3 && seen.stderr.contains(says), "{seen:?}");
}

#[test]
fn where_nothing_has_symbols_a_warning_says_so() {
    let recipe = Recipe::without_programs(Cabane::new(Who::OrdinaryUser));
    recipe.compile("bin/solver", &[]);
    // Once when it is built, and once when it was built already.
    for _ in 0..2 {
        let seen = recipe.build(&["--debug-symbols"]).success();
        let says = "there is no image of debug symbols: no program or library has debug symbols and a build ID";
        assert!(seen.stderr.contains(says), "{seen:?}");
    }
    let images = recipe.images();
    assert!(images.starts_with("app ") && images.lines().count() == 1, "{images}");
}

#[test]
fn links_modes_and_files_that_cannot_be_split_stay_as_they_are() {
    if !has_gdb() {
        not_run!("needs gdb");
    }
    for who in everybody() {
        let recipe = Recipe::new(who);
        let solver = recipe.file("bin/solver");
        fs::hard_link(&solver, recipe.file("bin/hard")).unwrap();
        std::os::unix::fs::symlink("solver", recipe.file("bin/soft")).unwrap();
        fs::copy(&solver, recipe.file("bin/read-only")).unwrap();
        recipe.compile("bin/static", &["-g", "-static"]);
        recipe.compile("bin/library.so", &["-g", "-shared", "-fPIC"]);
        recipe.compile("bin/no-id", &["-g", "-Wl,--build-id=none"]);
        recipe.compile("bin/plain", &[]);
        recipe.compile("bin/object.o", &["-g", "-c"]);
        let mode = |name: &str, mode| {
            let mode = fs::Permissions::from_mode(mode);
            fs::set_permissions(recipe.file(name), mode).unwrap();
        };
        mode("bin/static", 0o4755);
        mode("bin/read-only", 0o555);
        let seen = recipe.build(&["--debug-symbols"]).success();
        let says = "separated the debug symbols of 4 files: ";
        let left = "1 with debug symbols left as is: bin/no-id (no build ID)\n";
        assert!(seen.stderr.contains(says) && seen.stderr.contains(left), "{seen:?}");
        let shown = "cd /cabane-built/bin; for one in solver hard soft read-only static no-id plain; \
                     do ./$one || exit; done; stat -c '%n %a %h' solver hard read-only static; \
                     [ solver -ef hard ]; grep -c debug_info object.o library.so static";
        let seen = recipe.run("app", &["sh", "-c", shown]);
        let expected = format!(
            "{}solver 755 2\nhard 755 2\nread-only 555 1\nstatic 755 1\n\
             object.o:1\nlibrary.so:0\nstatic:0\n",
            "is there\n".repeat(7)
        );
        assert_eq!(seen.stdout, expected, "as {who:?}: {seen:?}");
        for program in ["bin/hard", "bin/read-only", "bin/static", "bin/library.so"] {
            let line = recipe.line_in("app,app-debug", program);
            assert!(line.contains("solver.c"), "as {who:?}: {program}: {line}");
        }
        let line = recipe.line_in("app", "bin/no-id");
        assert!(line.contains("solver.c"), "as {who:?}: {line}");
    }
}

/// A wrapper of `objcopy` that fails if it sees the home of the user, or can change the tree or the recipe.
const SUSPICIOUS: &str = "\
#!/bin/sh
case $1 in
    --version) ;;
    *)
        for tree; do
            case $tree in *bin/solver) if touch \"$tree.new\"; then exit 1; fi ;; esac
        done
        if [ -e HOME/secret ] || touch RECIPE/new; then exit 1; fi
        ;;
esac
exec /usr/bin/objcopy \"$@\"
";

#[test]
fn files_of_others_are_read_in_the_sandbox() {
    for who in everybody() {
        let recipe = Recipe::new(who);
        let world = &recipe.cabane.world;
        world.file("home/secret", "");
        world.directory("programs");
        let home = world.path("home").to_string_lossy().into_owned();
        let wrapper = SUSPICIOUS.replace("HOME", &home).replace("RECIPE", &recipe.path);
        let program = world.file("programs/objcopy", &wrapper);
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:/usr/bin:/bin:/usr/sbin:/sbin", world.path("programs").display());
        let mut command =
            recipe.cabane.command(&["build", "--debug-symbols", &recipe.path, "app/1.0"]);
        let seen = recipe.cabane.finish(command.env("PATH", path).env("HOME", &home)).success();
        let says = "separated the debug symbols of 1 file: ";
        assert!(seen.stderr.contains(says), "as {who:?}: {seen:?}");
    }
}

#[test]
fn several_images_of_symbols_work_at_once() {
    if !has_gdb() {
        not_run!("needs gdb");
    }
    let recipe = Recipe::new(Who::OrdinaryUser);
    recipe.build(&["--debug-symbols"]).success();
    let config = "name: other\nengine: tree\nstore: /cabane-other\ntree:\n  source: files\n\
                  debug-symbols: separate\n";
    recipe.cabane.world.file("recipe/config.yaml", config);
    recipe.compile("bin/solver", &["-g", "-DOTHER", "-O1", "-fno-inline"]);
    let typed = ["build", "--debug-symbols", &recipe.path, "other/1.0"];
    recipe.cabane.run(&typed).success();
    for place in [STORE, "/cabane-other"] {
        let program = format!("{place}/bin/solver");
        let asked = ["gdb", "-nx", "-batch", "-ex", "info line deep_inside", &program];
        let seen = recipe.run("app,other,app-debug,other-debug", &asked).success().stdout;
        assert!(seen.contains("solver.c"), "{place}: {seen}");
    }
}

#[test]
fn both_images_can_be_written_to_files() {
    let recipe = Recipe::new(Who::OrdinaryUser);
    let output = recipe.cabane.world.path("home/app.squashfs");
    let typed = ["build", "--debug-symbols", &recipe.path, "--output", output.to_str().unwrap()];
    recipe.cabane.run(&typed).success();
    let symbols = output.with_file_name("app-debug.squashfs");
    assert!(output.metadata().unwrap().size() > 0 && symbols.metadata().unwrap().size() > 0);
    let list = ["find", "/cabane-built-debug/.build-id", "-name", "*.debug"];
    let seen = recipe.run(symbols.to_str().unwrap(), &list).success();
    assert_eq!(seen.stdout.lines().count(), 1, "{seen:?}");
}

/// Writes a wheel with a file.
const MAKE_WHEEL: &str = r#"
import sys, zipfile
path, program = sys.argv[1:]
info = "demo-1.0.dist-info/"
files = {"demo/__init__.py": b"", "demo/solver": open(program, "rb").read(),
         info + "METADATA": b"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n",
         info + "WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
files[info + "RECORD"] = "".join(f"{name},,\n" for name in [*files, info + "RECORD"])
with zipfile.ZipFile(path, "w") as wheel:
    for name, content in files.items():
        wheel.writestr(zipfile.ZipInfo(name), content)
"#;

#[test]
fn programs_of_python_packages_are_split_too() {
    let uv = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cabane/bin/uv");
    let Ok(uv) = uv.canonicalize() else {
        not_run!("needs uv: scripts/setup demo");
    };
    if !has_gdb() {
        not_run!("needs gdb");
    }
    let recipe = Recipe::new(Who::OrdinaryUser);
    let world = &recipe.cabane.world;
    let own = world.path("uv");
    fs::hard_link(&uv, &own).or_else(|_| fs::copy(&uv, &own).map(drop)).unwrap();
    let mut python = Command::new("/usr/bin/python3");
    python.args(["-I", "-c", MAKE_WHEEL]).arg(world.path("recipe/demo-1.0-py3-none-any.whl"));
    Finished::of(python.arg(recipe.file("bin/solver"))).success();
    let config = format!(
        "name: app\nengine: python\nstore: {STORE}\ndebug-symbols: separate\npython:\n  \
         interpreter: /usr/bin/python3\n  requirements: requirements.txt\n  \
         wheels: [demo-1.0-py3-none-any.whl]\n"
    );
    world.file("recipe/config.yaml", &config);
    world.file("recipe/requirements.txt", "");
    let mut build = recipe.cabane.command(&["build", "--debug-symbols", &recipe.path, "app/1.0"]);
    recipe.cabane.finish(build.env("CABANE_UV", &own)).success();
    let find = ["find", STORE, "-path", "*/demo/solver"];
    let program = recipe.run("app", &find).success().stdout;
    let program = program.trim_end().strip_prefix("/cabane-built/").unwrap();
    let without = recipe.line_in("app", program);
    assert!(without.contains("No line number information"), "{without}");
    let with = recipe.line_in("app,app-debug", program);
    assert!(with.contains("solver.c"), "{with}");
}

#[test]
fn packages_of_spack_are_split_and_stay_whole_in_the_cache() {
    if !has_gdb() {
        not_run!("needs gdb");
    }
    let real = with_spack!();
    let world = &real.cabane.world;
    for name in ["compilers.yaml", "config.yaml", "environments.yaml"] {
        let text = fs::read_to_string(example("tools").join(name)).unwrap();
        // A compiler of Spack does not write build IDs by itself.
        let flags = "lz4@1.10.0 cflags=\"-g\" ldflags=\"-Wl,--build-id\"";
        world.file(&format!("recipe/{name}"), &text.replace("lz4@1.10.0", flags));
    }
    let config = world.path("recipe/config.yaml");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{text}debug-symbols: separate\n")).unwrap();
    let recipe = world.path("recipe");
    let line = |images: &str| {
        let ask = "gdb -nx -batch -ex 'info line main' $(readlink -f $(command -v lz4))";
        let seen = real.cabane.run(&["run", images, "--", "sh", "-c", ask]);
        seen.success().stdout
    };
    // The second build takes the packages from the cache.
    for build in ["first", "second"] {
        real.build_with(&recipe, build, &format!("tools/{build}"), &["--debug-symbols"]);
        let images = format!("tools/{build},tools-debug/{build}");
        assert!(line(&images).contains("lz4cli.c"), "{build}: {}", line(&images));
    }
    assert!(!line("tools/first").contains("lz4cli.c"), "{}", line("tools/first"));

    assert_eq!(real.digest("tools/first"), real.digest("tools/second"));
    assert_eq!(real.digest("tools-debug/first"), real.digest("tools-debug/second"));
}
