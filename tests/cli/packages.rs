// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The packages of a recipe: adding, removing, locking, and updating them.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use cabane_testkit::{Finished, needs, not_run};

use crate::cabane::{APP, Cabane, Who, finished};
use crate::recipe_names;
use crate::registry::Shared;

/// Writes a wheel with one module that prints its version.
const MAKE_WHEEL: &str = r#"
import sys, zipfile
directory, name, version, needs = sys.argv[1:]
info = f"{name}-{version}.dist-info"
needs = "".join(f"Requires-Dist: {one}\n" for one in needs.split())
files = {
    f"{name}.py": f"print({name!r}, {version!r})\n",
    f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
    f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
}
files[f"{info}/RECORD"] = "".join(f"{one},,\n" for one in [*files, f"{info}/RECORD"])
with zipfile.ZipFile(f"{directory}/{name}-{version}-py3-none-any.whl", "w") as wheel:
    for one, content in files.items():
        wheel.writestr(zipfile.ZipInfo(one), content)
"#;

/// A recipe for Python in `work`, and an index of packages.
struct Recipe {
    cabane: Cabane,
    uv: PathBuf,
    index: Child,
    address: String,
}

impl Recipe {
    /// Makes both; `None` if there is no `uv`.
    fn new() -> Option<Self> {
        let uv = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cabane/bin/uv");
        let uv = uv.canonicalize().ok()?;
        let cabane = Cabane::new(Who::OrdinaryUser);
        // The directory of the tools may be closed to the ordinary user.
        let own = cabane.world.path("uv");
        fs::hard_link(&uv, &own).or_else(|_| fs::copy(&uv, &own).map(drop)).unwrap();
        let place = cabane.world.directory("index");
        let mut server = Command::new("/usr/bin/python3");
        server.args(["-I", "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory"]);
        let mut index =
            server.arg(place).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(index.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let port = line.split("port ").nth(1).unwrap().split(' ').next().unwrap();
        let address = format!("http://127.0.0.1:{port}/");
        Some(Self { cabane, uv: own, index, address })
    }

    /// Puts a package into the index. The list of a directory is that of the server.
    fn publish(&self, name: &str, version: &str, needs: &str) {
        let place = self.cabane.world.directory(&format!("index/{name}"));
        let mut python = Command::new("/usr/bin/python3");
        python.args(["-I", "-c", MAKE_WHEEL]).arg(place).args([name, version, needs]);
        Finished::of(&mut python).success();
        // The cache of `uv` keeps the list for ten minutes.
        let _ = fs::remove_dir_all(self.cabane.world.path("home/.cache/cabane/uv"));
    }

    fn run(&self, arguments: &[&str]) -> Finished {
        let mut command = self.cabane.command(arguments);
        command.env("CABANE_UV", &self.uv).env("UV_DEFAULT_INDEX", &self.address);
        let seen = self.cabane.finish(&mut command);
        // How long a step takes varies.
        let steps = |line: &&str| !line.starts_with("✓") && !line.starts_with("[1/1]");
        let lines = seen.stderr.lines().filter(steps).map(|line| format!("{line}\n"));
        Finished { stderr: lines.collect(), ..seen }
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.cabane.world.path("work").join(name)).unwrap_or_default()
    }

    fn write(&self, name: &str, text: &str) {
        self.cabane.world.file(&format!("work/{name}"), text);
    }
}

impl Drop for Recipe {
    fn drop(&mut self) {
        let _ = self.index.kill();
        let _ = self.index.wait();
    }
}

const CONFIG: &str =
    "name: app\nversion: 3\nengine: python\npython:\n  interpreter: /usr/bin/python3\n  ";

#[test]
fn packages_are_added_locked_updated_and_built() {
    let Some(recipe) = Recipe::new() else {
        not_run!("needs uv: scripts/setup demo");
    };
    recipe.publish("demo", "1.0", "other");
    recipe.publish("other", "3.0", "");
    recipe.write("config.yaml", &format!("{CONFIG}requirements: requirements.txt\n"));
    recipe.write("requirements.txt", "# what we use\n");
    let seen = recipe.run(&["add", "demo<2"]);
    assert_eq!(seen, finished(0, "", "added `demo<2` to requirements.txt\n"));
    let seen = recipe.run(&["lock"]);
    assert_eq!(seen, finished(0, "", "wrote requirements.lock (2 packages)\n"));
    let lock = recipe.read("requirements.lock");
    assert!(lock.contains("demo==1.0 \\\n    --hash=sha256:"), "{lock}");
    assert!(lock.contains("other==3.0"), "{lock}");

    // What is locked stays until it is updated.
    recipe.publish("demo", "1.1", "");
    let seen = recipe.run(&["lock"]);
    assert_eq!(seen, finished(0, "", "requirements.lock is up to date (2 packages)\n"));
    let table = "package  from  to\ndemo     1.0   1.1\nother    3.0   -\n";
    let seen = recipe.run(&["update", "--dry-run"]);
    let note = "2 changes: requirements.lock would be written (1 package)\n";
    assert_eq!(seen, finished(0, table, note));
    assert_eq!(recipe.read("requirements.lock"), lock);
    let seen = recipe.run(&["update", "demo", "--json"]).success();
    assert!(seen.stdout.contains("\"to\": \"1.1\""), "{seen:?}");
    let seen = recipe.run(&["lock", "--check"]);
    assert_eq!(seen, finished(0, "", "requirements.lock matches the recipe (1 package)\n"));

    // The lock is built, and not what is newest.
    recipe.publish("demo", "1.2", "");
    recipe.run(&["build", ".", "app/1.0"]).success();
    let seen = recipe.run(&["run", "app", "--", "python", "-m", "demo"]);
    assert_eq!(seen.stdout, "demo 1.1\n");

    // A comment changes nothing, another requirement does.
    recipe.write("requirements.txt", "demo<2  # still\n");
    recipe.run(&["lock", "--check"]).success();
    let seen = recipe.run(&["add", "demo==1.2"]);
    let expected = "changed `demo<2` to `demo==1.2` in requirements.txt\n\
                    hint: `cabane lock` updates requirements.lock\n";
    assert_eq!(seen, finished(0, "", expected));
    let seen = recipe.run(&["build", ".", "app/1.0"]);
    let expected = "error: requirements.lock no longer matches requirements.txt: it was made without `demo==1.2`\n\
                    hint: `cabane lock --recipe [WORLD]/work` writes it again\n";
    assert_eq!(seen, finished(7, "", expected));
    assert_eq!(recipe.run(&["lock", "--check"]).code, 9);
    let seen = recipe.run(&["lock"]).success();
    assert_eq!(seen.stdout, "package  from  to\ndemo     1.1   1.2\n");
    // Nothing is left of the directories in which packages were resolved.
    let builds = recipe.cabane.world.path("home/.cache/cabane/builds");
    assert_eq!(builds.read_dir().unwrap().count(), 1);
}

#[test]
fn a_project_is_locked_by_uv() {
    let Some(recipe) = Recipe::new() else {
        not_run!("needs uv: scripts/setup demo");
    };
    recipe.publish("demo", "1.0", "");
    recipe.write("config.yaml", &format!("{CONFIG}project: .\n"));
    let project = "[project]\nname = \"p\"\nversion = \"1\"\nrequires-python = \">=3.9\"\n";
    recipe.write("pyproject.toml", project);
    let seen = recipe.run(&["update"]);
    let expected = "error: there is no uv.lock to update\nhint: `cabane lock` writes one; without it, \
                    each build takes the newest versions\n";
    assert_eq!(seen, finished(4, "", expected));
    recipe.run(&["add", "demo"]).success();
    let added = project.replace("requires", "dependencies = [\"demo\"]\nrequires");
    assert_eq!(recipe.read("pyproject.toml"), added);
    let seen = recipe.run(&["lock"]);
    assert_eq!(seen, finished(0, "", "wrote uv.lock (1 package)\n"));
    recipe.run(&["lock", "--check"]).success();
    recipe.publish("demo", "1.1", "");
    let before = recipe.read("uv.lock");
    let seen = recipe.run(&["update", "--dry-run"]).success();
    assert_eq!(seen.stdout, "package  from  to\ndemo     1.0   1.1\n");
    assert_eq!(recipe.read("uv.lock"), before);
    recipe.run(&["update"]).success();
    assert!(recipe.read("uv.lock").contains("version = \"1.1\""));
    let seen = recipe.run(&["remove", "demo"]).success();
    assert!(seen.stderr.ends_with("hint: `cabane lock` updates uv.lock\n"), "{seen:?}");
    let seen = recipe.run(&["lock", "--check"]);
    let expected = "error: the recipe has no matching lock file: it no longer matches pyproject.toml\n\
                    hint: `cabane lock` writes it\n";
    assert_eq!(seen, finished(9, "", expected));
    let seen = recipe.run(&["build", ".", "app/1.0"]);
    let expected = "error: uv.lock no longer matches pyproject.toml\n\
                    hint: `cabane lock --recipe [WORLD]/work` writes it again\n";
    assert!(seen.code == 7 && seen.stderr.ends_with(expected), "{seen:?}");
}

#[test]
fn a_list_changes_only_where_it_must() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    cabane.run(&["init", "python", "project"]).success();
    cabane.world.file("work/project/requirements.txt", "# tools\nnumpy>=2  # fast\n-r more.txt\n");
    cabane.world.file("work/project/more.txt", "Pandas\n");
    let more = cabane.world.path("work/project/more.txt");
    fs::set_permissions(&more, fs::Permissions::from_mode(0o664)).unwrap();
    let typed = |arguments: &[&str]| {
        let command = [&arguments[..1], &["--recipe", "project"], &arguments[1..]].concat();
        let seen = cabane.run(&command);
        (seen.code, seen.stderr)
    };
    let seen = typed(&["add", "numpy", "pandas>=2"]);
    let expected = "`numpy>=2` is already in project/requirements.txt\n\
                    changed `Pandas` to `pandas>=2` in project/more.txt\n";
    assert_eq!(seen, (0, expected.to_owned()));
    let file =
        |name: &str| fs::read_to_string(cabane.world.path("work/project").join(name)).unwrap();
    assert_eq!(file("more.txt"), "pandas>=2\n");
    assert_eq!(fs::metadata(&more).unwrap().permissions().mode() & 0o777, 0o664);
    // What is wrong changes nothing, also if it comes behind what is right.
    for (wrong, code, expected) in [
        (&["add", "six", "numpy=1"][..], 3, "hint: type `numpy==1`\n"),
        (
            &["add", "six", "hdf5+mpi"],
            3,
            "hint: `cabane init spack DIRECTORY` starts a recipe for Spack\n",
        ),
        (&["add", "hdf5==+mpi"], 3, "'dask[array]==2026.1'`\n"),
        (&["add", "a b"], 3, "leave out the quotes: `cabane add a b`\n"),
        (&["remove", "numpy", "panda"], 4, "hint: did you mean `pandas`?\n"),
        (&["add", "app/1.0"], 2, "hint: for an image, type `cabane image add app/1.0`\n"),
        (&["update", "app/1.0"], 2, "type `cabane upgrade app/1.0`\n"),
        (&["add", "six", "--environment=a"], 2, "hint: remove `--environment`\n"),
    ] {
        let seen = typed(wrong);
        assert!(seen.0 == code && seen.1.ends_with(expected), "{wrong:?}: {seen:?}");
    }
    assert_eq!(file("requirements.txt"), "# tools\nnumpy>=2  # fast\n-r more.txt\n");
    let seen = typed(&["remove", "NumPy"]);
    assert_eq!(seen, (0, "removed `numpy>=2` from project/requirements.txt\n".to_owned()));
    assert_eq!(file("requirements.txt"), "# tools\n-r more.txt\n");
    cabane.run(&["init", "tree", "other"]).success();
    let seen = cabane.run(&["add", "--recipe=other", "six"]);
    let expected = "error: a recipe with the engine `tree` lists no packages\n\
                    hint: edit its config.yaml, and build it again\n";
    assert_eq!(seen, finished(2, "", expected));
    let seen = cabane.run(&["lock", "--recipe=other"]);
    assert!(seen.stderr.contains("recipes with the engine `tree` have no lock file"), "{seen:?}");
}

#[test]
fn specs_are_looked_up_before_they_are_written() {
    let stack = recipe_names::stack();
    stack.write_specs(&["libxml2  # parses"]);
    // The files of the world belong to another user.
    let copy = ["-r", &stack.path("recipe"), "."];
    Finished::of(stack.cabane.other("cp").args(copy)).success();
    let (recipe, system) = (stack.path("work/recipe"), stack.path("system"));
    let typed = |arguments: &[&str]| {
        let options = ["--recipe", &recipe, "--system", &system];
        let mut command = stack.cabane.command(&[arguments, &options].concat());
        stack.cabane.finish(command.env("CABANE_SPACK_PYTHON", "/usr/bin/python3"))
    };
    let file =
        || fs::read_to_string(stack.cabane.world.path("work/recipe/environments.yaml")).unwrap();
    let before = file();
    let seen = typed(&["add", "hello+lod"]);
    assert!(seen.code == 3 && seen.stderr.contains("did you mean `loud`?"), "{seen:?}");
    assert_eq!(file(), before);
    let seen = typed(&["add", "hello+loud"]);
    let expected =
        "added `hello+loud` to the environment `tools` in [WORLD]/work/recipe/environments.yaml\n";
    assert_eq!(seen, finished(0, "", expected));
    assert_eq!(file(), format!("{before}  - hello+loud\n"));
    typed(&["add", "libxml2@2.13"]).success();
    assert!(file().contains("  - libxml2@2.13  # parses\n"), "{}", file());
    let other =
        format!("{}more:\n  compiler: [gcc]\n  specs: [hello]\n  views: {{more: }}\n", file());
    fs::write(stack.path("work/recipe/environments.yaml"), &other).unwrap();
    let seen = typed(&["add", "gpu"]);
    let expected = "error: the recipe has several environments: `tools` and `more`\n\
                    hint: name the one that gets the package: `--environment NAME`\n";
    assert_eq!(seen, finished(5, "", expected));
    assert_eq!(typed(&["remove", "hello"]).code, 5);
    typed(&["remove", "hello", "--environment", "more"]).success();
    assert_eq!(file(), other.replace("[hello]", "[]"));
    fs::create_dir(stack.path("work/recipe/locks")).unwrap();
    let seen = typed(&["remove", "libxml2"]);
    let hint = "hint: `cabane lock --system [WORLD]/system --recipe [WORLD]/work/recipe` updates \
                [WORLD]/work/recipe/locks\n";
    assert!(seen.stderr.ends_with(hint), "{seen:?}");
}

#[test]
fn an_image_is_shared_by_its_digest() {
    needs!("docker-registry");
    let shared = Shared::pushed(Who::OrdinaryUser);
    let seen = shared.run(&["share", "app"]).success();
    let digest = shared.run(&["image", "ls", "--format={digest}"]).success().stdout;
    let digest = digest.trim();
    assert!(seen.stdout.starts_with("cabane image pull --registry http://"), "{seen:?}");
    assert!(seen.stdout.ends_with(&format!(" {digest}\n")), "{seen:?}");
    let json = shared.run(&["share", "app", "--json"]).success();
    assert!(json.stdout.contains("\"by_digest\": true"), "{json:?}");
    // In another namespace a digest is not found.
    shared.run(&["image", "push", APP, "build::app/2.0:v1@here%x86_64"]).success();
    let named = shared.run(&["share", "build::app/2.0:v1@here%x86_64"]).success();
    assert!(named.stdout.ends_with(" build::app/2.0:v1@here%x86_64\n"), "{named:?}");
    assert!(
        named.stderr.starts_with("warning: the command names the label build::app"),
        "{named:?}"
    );
    // The line brings the image back.
    shared.forget();
    let words: Vec<&str> = seen.stdout.split_whitespace().skip(1).collect();
    shared.run(&words).success();
    let image = shared.cabane.image("new", &shared.cabane.mount_point("new"));
    shared.run(&["image", "add", "new/1:v1", &image]).success();
    let seen = shared.run(&["share", "new"]);
    assert!(
        seen.code == 4 && seen.stderr.contains("hint: `cabane image push new/1:v1@"),
        "{seen:?}"
    );
}
