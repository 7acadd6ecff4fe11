// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Kernels of Jupyter in images, used by a client of Jupyter.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, Weak};

use cabane_testkit::{Finished, Tree, World, needs, not_run, squashfs};
use serde_json::Value;

use crate::cabane::{Cabane, Who, everybody};

const IMAGE: &str = "analysis/1.0:v1@here%x86_64";
/// What `kernel.py` prints after the cells.
const LIFE: &str = "interrupted: began KeyboardInterrupt\nafter the interrupt: 1\n\
                    after the restart: NameError\nruns: True\nruns: False\n";

/// An image with Python and `ipykernel`, and the world that it is in.
pub(crate) struct Image {
    pub(crate) path: String,
    _world: World,
}

/// Packs the environment of Python that has a client of Jupyter, unless another test has it.
pub(crate) fn image(jupyter: &Path) -> Arc<Image> {
    static SHARED: Mutex<Weak<Image>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap();
    if let Some(image) = shared.upgrade() {
        return image;
    }
    let image = Arc::new(packed(jupyter));
    *shared = Arc::downgrade(&image);
    image
}

/// Packs the environment of Python that has a program.
pub(crate) fn packed(program: &Path) -> Image {
    let world = World::new();
    let tree = Tree::new(world.path("tree"));
    let python = program.parent().and_then(Path::parent).unwrap();
    let mut copy = Command::new("cp");
    copy.arg("-a").arg(python).arg(tree.root().join("python"));
    Finished::of(&mut copy).success();
    // Programs name their interpreter, and here it is that of the image.
    let mut rename = Command::new("sh");
    rename.args([
        "-c",
        "grep -lI '^#!.*python' * | xargs sed -i '1s|.*|#!/user-environment/python/bin/python|'",
    ]);
    Finished::of(rename.current_dir(tree.root().join("python/bin"))).success();
    let tree = tree.file(
        "meta/env.json",
        r#"{"name":"analysis","mount":"/user-environment","default-view":"default","views":{
"default":{"env":{"version":1,"values":{
"list":{"PATH":[{"op":"prepend","value":["/user-environment/python/bin"]}]},"scalar":{"IN_VIEW":"default"}}}},
"packages":{"env":{"version":1,"values":{
"list":{"PYTHONPATH":[{"op":"prepend","value":["/user-environment/packages"]}]},"scalar":{"IN_VIEW":"packages"}}}}}}"#,
    );
    let libraries = fs::read_dir(tree.root().join("python/lib")).unwrap().flatten();
    let library = libraries.map(|entry| entry.file_name()).find(|name| name != "lib64").unwrap();
    let packages = format!("python/lib/{}/site-packages", library.display());
    std::os::unix::fs::symlink(packages, tree.root().join("packages")).unwrap();
    let path = world.path("analysis.squashfs");
    squashfs(tree.root(), &path);
    fs::remove_dir_all(tree.root()).unwrap();
    Image { path: path.to_str().unwrap().to_owned(), _world: world }
}

/// A user with the image and a client of Jupyter.
pub(crate) struct Notebook {
    pub(crate) cabane: Cabane,
    jupyter: PathBuf,
    _image: Arc<Image>,
}

impl Notebook {
    pub(crate) fn new(who: Who, jupyter: PathBuf) -> Self {
        let image = image(&jupyter);
        let cabane = Cabane::new(who);
        cabane.run(&["image", "add", IMAGE, &image.path]).success();
        Self { cabane, jupyter, _image: image }
    }

    /// Prepares a client that runs cells in a kernel.
    fn client(&self, kernel: &str, cells: &[&str]) -> Command {
        let python = self.jupyter.with_file_name("python");
        let mut command = self.cabane.other(python.to_str().unwrap());
        let script =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cli/jupyter/kernel.py");
        command.arg(script).arg(kernel).args(cells);
        command
    }

    fn cells(&self, kernel: &str, cells: &[&str]) -> Finished {
        self.cabane.finish(&mut self.client(kernel, cells))
    }
}

/// Installs a kernel by a command that is never started.
fn install(cabane: &Cabane, more: &[&str]) -> Finished {
    let fixed = ["kernel", "install"];
    let command = ["--", "hello", "{connection_file}"];
    cabane.run(&[&fixed, more, &command].concat())
}

fn kernel_json(cabane: &Cabane, path: &str) -> Value {
    serde_json::from_slice(&fs::read(cabane.world.path(path)).unwrap()).unwrap()
}

fn listed(cabane: &Cabane) -> Vec<(String, String)> {
    let run = cabane.run(&["kernel", "ls", "--json"]).success();
    let rows: Value = serde_json::from_str(&run.stdout).unwrap();
    let text = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
    rows.as_array().unwrap().iter().map(|row| (text(row, "name"), text(row, "state"))).collect()
}

fn rows(rows: &[(&str, &str)]) -> Vec<(String, String)> {
    rows.iter().map(|(name, state)| ((*name).to_owned(), (*state).to_owned())).collect()
}

#[test]
fn a_kernel_runs_cells_and_is_interrupted_restarted_and_shut_down() {
    let jupyter = needs!("jupyter");
    for who in everybody() {
        let notebook = Notebook::new(who, jupyter.clone());
        let installed = notebook.cabane.run(&["kernel", "install", "analysis"]).success();
        assert!(
            installed.stderr.contains("installed the kernel `analysis-1.0` in "),
            "{installed:?}"
        );
        let cells = [
            "import ipykernel, os, sys; print(ipykernel.__file__.split('/')[:3], sys.executable)",
            "os.environ['IN_VIEW']",
            "6 * 7",
        ];
        let finished = notebook.cells("analysis-1.0", &cells).success();
        let printed = "['', 'user-environment', 'python'] /user-environment/python/bin/python\n'default'\n42\n";
        assert_eq!(finished.stdout, format!("{printed}{LIFE}"), "{}", finished.stderr);
    }
}

#[test]
fn a_kernel_of_an_environment_file_has_its_variables_and_mounts() {
    let jupyter = needs!("jupyter");
    let notebook = Notebook::new(Who::OrdinaryUser, jupyter);
    let cabane = &notebook.cabane;
    cabane.world.file("data/a", "from the data\n");
    cabane.world.file(
        "work/climate.toml",
        "images = ['analysis']\nmounts = ['../data:/data:ro']\n[env]\nSEED = '7'\n",
    );
    cabane.run(&["kernel", "install", "-e", "./climate.toml"]).success();
    let cells = ["import os; print(os.environ['SEED'], open('/data/a').read(), end='')"];
    let finished = notebook.cells("climate", &cells).success();
    assert_eq!(finished.stdout, format!("7 from the data\n{LIFE}"), "{}", finished.stderr);
}

#[test]
fn a_kernel_runs_in_a_container_with_packages_of_another_image() {
    let jupyter = needs!("jupyter");
    let debian = container_with_python(&jupyter);
    for who in everybody() {
        let notebook = Notebook::new(who, jupyter.clone());
        let cabane = &notebook.cabane;
        cabane.run(&["image", "add", "debian/12:v1", &debian.path]).success();
        // A container does not show this directory by itself.
        let runtime = tempfile::tempdir_in("/var/tmp").unwrap();
        fs::set_permissions(runtime.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let views = "--view=debian:default,analysis:packages";
        let install = ["kernel", "install", "debian/12,analysis", views, "--name=both"];
        let mut command = cabane.command(&install);
        cabane.finish(command.env("JUPYTER_RUNTIME_DIR", runtime.path())).success();
        let cell = "import os, sys; print(open('/etc/image').read(), sys.executable)";
        let mut command = notebook.client("both", &[cell]);
        let finished = cabane.finish(command.env("JUPYTER_RUNTIME_DIR", runtime.path())).success();
        let expected = format!("debian /usr/bin/python3\n{LIFE}");
        assert_eq!(finished.stdout, expected, "{}", finished.stderr);
    }
}

/// Packs a container image with the Python of this machine, and with the libraries that packages need.
fn container_with_python(jupyter: &Path) -> Image {
    let world = World::new();
    let library = python_library();
    let root = Tree::new(world.path("root"))
        .root_file_system("debian", "")
        .host_program("/usr/bin/python3");
    let mut copy = Command::new("cp");
    Finished::of(copy.args(["-a", "--parents"]).arg(&library).arg(root.root())).success();
    let packages = jupyter.parent().and_then(Path::parent).unwrap().join("lib");
    let mut copy = Command::new("cp");
    Finished::of(copy.arg("-a").arg(packages).arg(root.root().join("packages"))).success();
    let root = root
        .host_libraries_of(library.strip_prefix("/").unwrap().to_str().unwrap())
        .host_libraries_of("packages");
    fs::remove_dir_all(root.root().join("packages")).unwrap();
    let path = world.path("debian.squashfs");
    squashfs(root.root(), &path);
    fs::remove_dir_all(root.root()).unwrap();
    Image { path: path.to_str().unwrap().to_owned(), _world: world }
}

/// The modules of Debian's Python.
fn python_library() -> PathBuf {
    let script = "import sysconfig; print(sysconfig.get_path('stdlib'))";
    let found = Finished::of(Command::new("/usr/bin/python3").args(["-c", script])).success();
    found.stdout.trim().into()
}

#[test]
fn an_image_without_a_kernel_is_an_error_that_says_what_is_missing() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let refused = cabane.run(&["kernel", "install", "app"]);
    assert_eq!(refused.code, 4, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("the images have no `python`, `python3`, or `R`"),
        "{}",
        refused.stderr
    );

    let point = cabane.mount_point("bare");
    let tree = Tree::new(cabane.world.path("trees/bare")).meta("bare", &point);
    fs::create_dir_all(tree.root().join("bin")).unwrap();
    std::os::unix::fs::symlink("/usr/bin/python3", tree.root().join("bin/python3")).unwrap();
    let image = cabane.world.path("bare.squashfs");
    squashfs(tree.root(), &image);
    let refused = cabane.run(&["kernel", "install", image.to_str().unwrap()]);
    assert_eq!(refused.code, 4, "{}", refused.stderr);
    let missing = "bin/python3 cannot load `ipykernel`";
    assert!(refused.stderr.contains(missing), "{}", refused.stderr);
    assert!(refused.stderr.contains("No module named 'ipykernel'"), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("hint: build the image with `ipykernel`"),
        "{}",
        refused.stderr
    );
    assert!(!cabane.world.path("home/.local/share/jupyter").exists());
}

#[test]
fn a_kernel_is_described_by_words_that_mean_the_same_anywhere() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    cabane.world.file("work/data/a", "");
    let more = ["app", "--view=default", "--bind=data:/data:ro", "--language=Julia"];
    install(&cabane, &more).success();
    let kernel = kernel_json(&cabane, "home/.local/share/jupyter/kernels/app-1.0/kernel.json");
    let argv: Vec<String> = serde_json::from_value(kernel["argv"].clone()).unwrap();
    let argv: Vec<String> = argv.iter().map(|word| cabane.world.blank(word)).collect();
    let expected = [
        "[WORLD]/cabane",
        "run",
        "--view=default",
        "--bind=[WORLD]/work/data:/data:ro",
        "app/1.0:v1@here",
        "--",
        "hello",
        "{connection_file}",
    ];
    assert_eq!(argv, expected);
    assert_eq!(kernel["display_name"], "app/1.0:v1 (Julia)");
    assert_eq!(kernel["language"], "Julia");
    assert_eq!(kernel["interrupt_mode"], "signal");

    // The same image by its path, and by its digest.
    let image = cabane.world.path("app.squashfs");
    fs::rename(image, cabane.world.path("work/app.squashfs")).unwrap();
    install(&cabane, &["./app.squashfs", "--name=path"]).success();
    install(&cabane, &["app", "--name=pinned", "--pin"]).success();
    let kernels = "home/.local/share/jupyter/kernels";
    let of_path = kernel_json(&cabane, &format!("{kernels}/path/kernel.json"));
    assert!(of_path["argv"][2].as_str().unwrap().ends_with("/work/app.squashfs"), "{of_path}");
    let pinned = kernel_json(&cabane, &format!("{kernels}/pinned/kernel.json"));
    assert_eq!(pinned["argv"][2], pinned["metadata"]["cabane"]["images"][0]["digest"]);
    let digest = pinned["argv"][2].as_str().unwrap();
    assert_eq!(pinned["display_name"], format!("app/1.0:v1 (Hello, {})", &digest[..8]));
}

#[test]
fn the_list_shows_whose_images_have_moved_or_are_gone() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    install(&cabane, &["app"]).success();
    install(&cabane, &["app", "--pin", "--name=pinned", "--json"]).success();
    assert_eq!(listed(&cabane), rows(&[("app-1.0", "ready"), ("pinned", "ready")]));

    // Without a label the image would go.
    let old = cabane.world.path("app.squashfs");
    cabane.run(&["image", "add", "app/1.0:old@here%x86_64", old.to_str().unwrap()]).success();
    let other = cabane.image("other", &cabane.mount_point("app"));
    cabane.run(&["image", "add", "--force", "app/1.0:v1@here%x86_64", &other]).success();
    assert_eq!(listed(&cabane), rows(&[("app-1.0", "moved"), ("pinned", "ready")]));
    let shown = cabane.run(&["kernel", "ls"]).success();
    let expected = "the kernel `app-1.0` starts other images than at its installation\n\
                    hint: `cabane kernel install app/1.0:v1@here%x86_64 --name app-1.0` records the \
                    new ones\n";
    assert_eq!(shown.stderr, expected);

    let again = install(&cabane, &["app/1.0:v1"]).success();
    assert!(again.stderr.contains("replaced the kernel `app-1.0`"), "{}", again.stderr);
    assert_eq!(listed(&cabane)[0].1, "ready");

    cabane.run(&["image", "rm", "app/1.0:v1@here%x86_64"]).success();
    assert_eq!(listed(&cabane)[0].1, "missing");
    let shown = cabane.run(&["kernel", "ls"]).success();
    let expected = "hint: add the image again, or type `cabane kernel remove app-1.0`\n";
    assert!(
        shown.stderr.contains("the kernel `app-1.0` does not start")
            && shown.stderr.ends_with(expected),
        "{}",
        shown.stderr
    );

    cabane.run(&["kernel", "remove", "app-1.0", "--json"]).success();
    assert_eq!(listed(&cabane).len(), 1);
    assert_eq!(cabane.run(&["kernel", "remove", "app-1.0"]).code, 4);
}

#[test]
fn kernels_are_where_jupyter_looks_for_them() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let place = |name: &str| cabane.world.directory(name).to_str().unwrap().to_owned();
    let repository = place("home/.local/share/cabane/repository");
    let with = |variable: &str, value: &str, more: &[&str]| {
        let fixed = ["kernel", "install", "app", "--repo", &repository];
        let command = ["--", "hello", "{connection_file}"];
        let mut command = cabane.command(&[&fixed, more, &command].concat());
        cabane.finish(command.env(variable, value))
    };
    let has = |path: &str| cabane.world.path(path).join("kernels/app-1.0/kernel.json").is_file();
    with("JUPYTER_DATA_DIR", &place("data"), &[]).success();
    with("XDG_DATA_HOME", &place("xdg"), &["--user"]).success();
    with("CONDA_PREFIX", &place("conda"), &["--sys-prefix"]).success();
    with("A", "b", &["--prefix", &place("site")]).success();
    let places = ["data", "xdg/jupyter", "conda/share/jupyter", "site/share/jupyter"];
    assert!(places.iter().all(|path| has(path)));
    assert_eq!(listed(&cabane), rows(&[]));
    let mut list = cabane.command(&["kernel", "ls", "--json"]);
    list.env("JUPYTER_PATH", place("site/share/jupyter")).env("VIRTUAL_ENV", place("conda"));
    let found = cabane.finish(&mut list).success().stdout;
    assert_eq!(found.matches("\"directory\"").count(), 2, "{found}");
    cabane.run(&["kernel", "remove", "app-1.0", "--prefix", &place("site")]).success();
    assert!(!has("site/share/jupyter"));

    let none = install(&cabane, &["app", "--sys-prefix"]);
    assert_eq!(none.code, 2, "{}", none.stderr);
    assert!(none.stderr.contains("needs an active Python environment"), "{}", none.stderr);
}

#[test]
fn what_cabane_did_not_install_is_neither_replaced_nor_removed() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let kernels = "home/.local/share/jupyter/kernels";
    let ours = r#"{"argv": ["python"], "display_name": "mine", "language": "python"}"#;
    cabane.world.directory("home/.local");
    cabane.world.directory("home/.local/share");
    cabane.world.directory("home/.local/share/jupyter");
    cabane.world.directory(kernels);
    cabane.world.directory(&format!("{kernels}/python3"));
    let file = cabane.world.file(&format!("{kernels}/python3/kernel.json"), ours);
    let refused = install(&cabane, &["app", "--name=python3"]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("has a kernel that Cabane did not install"),
        "{}",
        refused.stderr
    );
    let kept = cabane.run(&["kernel", "remove", "python3"]);
    assert_eq!(kept.code, 1, "{}", kept.stderr);
    assert!(kept.stderr.contains("`jupyter kernelspec remove python3`"), "{}", kept.stderr);
    assert_eq!(fs::read_to_string(file).unwrap(), ours);
    assert_eq!(listed(&cabane), rows(&[]));
}

#[test]
fn what_an_image_says_about_its_kernel_does_not_reach_jupyter_or_the_terminal() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let point = cabane.mount_point("hostile");
    let answer = format!(
        r#"{{"interpreter":"{point}/bin/python","package":"{point}/x","kernel":{{"argv":["python","{{connection_file}}"],
"language":"\u001b[2J","env":{{"LD_PRELOAD":"/tmp/evil.so"}},"interrupt_mode":"message","display_name":"\u001b[2J",
"metadata":{{"kernel_provisioner":{{"provisioner_name":"evil"}},"debugger":true}}}}}}"#
    );
    let script = format!("#!/bin/sh\ncat <<'END'\n{}\nEND\n", answer.replace('\n', ""));
    let tree = Tree::new(cabane.world.path("trees/hostile")).meta("hostile", &point);
    let tree = tree.program("bin/python", &script);
    let image = cabane.world.path("hostile.squashfs");
    squashfs(tree.root(), &image);
    let image = image.to_str().unwrap();
    cabane.run(&["kernel", "install", image, "--name=hostile"]).success();
    let mut kernel = kernel_json(&cabane, "home/.local/share/jupyter/kernels/hostile/kernel.json");
    assert_eq!(kernel["argv"].as_array().unwrap().last().unwrap(), "{connection_file}");
    assert!(kernel["metadata"].as_object_mut().unwrap().remove("cabane").is_some());
    kernel.as_object_mut().unwrap().remove("argv");
    let expected = serde_json::json!({"display_name": "hostile (Python)", "language": "python",
        "interrupt_mode": "message", "metadata": {"debugger": true}});
    assert_eq!(kernel, expected);
}

#[test]
fn the_kernel_of_another_user_is_neither_replaced_nor_removed_nor_looked_up() {
    if !rustix::process::geteuid().is_root() {
        not_run!("needs root, to have two users");
    }
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    install(&cabane, &["app"]).success();
    let directory = cabane.world.path("home/.local/share/jupyter/kernels/app-1.0");
    let file = directory.join("kernel.json");
    for (path, owner) in [(&directory, 61_235), (&file, 61_235)] {
        let before = fs::metadata(path).unwrap().uid();
        std::os::unix::fs::chown(path, Some(owner), None).unwrap();
        let refused = install(&cabane, &["app"]);
        assert_eq!(refused.code, 1, "{}", refused.stderr);
        assert!(refused.stderr.contains("app-1.0 belongs to another user"), "{}", refused.stderr);
        let kept = cabane.run(&["kernel", "remove", "app-1.0"]);
        assert_eq!(kept.code, 1, "{}", kept.stderr);
        assert!(kept.stderr.contains("app-1.0 belongs to another user"), "{}", kept.stderr);
        assert_eq!(listed(&cabane), rows(&[("app-1.0", "not-checked")]));
        let shown = cabane.run(&["kernel", "ls"]).success().stderr;
        let expected =
            "the kernel `app-1.0` belongs to another user, so its images are not looked up";
        assert!(shown.contains(expected) && shown.contains("hint: `ls -ld [WORLD]/"), "{shown}");
        std::os::unix::fs::chown(path, Some(before), None).unwrap();
    }
    assert_eq!(listed(&cabane), rows(&[("app-1.0", "ready")]));
    cabane.run(&["kernel", "remove", "app-1.0"]).success();
    assert!(!directory.exists());
}

#[test]
fn planted_links_are_not_followed() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    install(&cabane, &["app"]).success();
    let kernels = cabane.world.path("home/.local/share/jupyter/kernels");
    let elsewhere = cabane.world.directory("elsewhere");
    let precious = cabane.world.file("elsewhere/kernel.json", "precious");
    let link = |target: &Path, place: PathBuf| {
        let mut command = cabane.other("ln");
        Finished::of(command.arg("-s").arg(target).arg(place)).success();
    };
    link(&elsewhere, kernels.join("planted"));
    let refused = install(&cabane, &["app", "--name=planted"]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert!(refused.stderr.contains("/planted is a link"), "{}", refused.stderr);
    assert_eq!(cabane.run(&["kernel", "remove", "planted"]).code, 4);

    // In the place of the file.
    cabane.world.directory("home/.local/share/jupyter/kernels/file");
    link(&precious, kernels.join("file/kernel.json"));
    assert_eq!(install(&cabane, &["app", "--name=file"]).code, 1);
    assert_eq!(cabane.run(&["kernel", "remove", "../kernels/app-1.0"]).code, 4);
    assert_eq!(fs::read_to_string(precious).unwrap(), "precious");
    assert_eq!(listed(&cabane), rows(&[("app-1.0", "ready")]));
}

#[test]
fn mistakes_are_errors_before_anything_is_written() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let refused = |arguments: &[&str], code: i32, text: &str| {
        let run = cabane.run(&[&["kernel", "install"], arguments].concat());
        assert_eq!(run.code, code, "{}", run.stderr);
        assert!(run.stderr.contains(text), "{}", run.stderr);
    };
    refused(&["app", "--", "hello"], 2, "the command has no `{connection_file}`");
    refused(&["app", "--name=a/b", "--", "x", "{connection_file}"], 2, "`a/b` cannot be the name");
    let julia = ["app", "--", "julia-of-nobody", "{connection_file}"];
    refused(&julia, 4, "cannot find the command `julia-of-nobody` in the images");
    let name = ["app", "--display-name=a\u{1b}[2J", "--", "hello", "{connection_file}"];
    refused(&name, 2, "the display name cannot have control characters");
    refused(&["app", "--language=cobol"], 2, "cannot find kernels for `cobol`");
    refused(&["nothing"], 4, "no image");
    let dry = install(&cabane, &["app", "--dry-run"]).success();
    let kernel: Value = serde_json::from_str(&dry.stdout).unwrap();
    assert_eq!(kernel["language"], "hello");
    assert!(!cabane.world.path("home/.local/share/jupyter").exists());
}
