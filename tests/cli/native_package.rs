// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane package`: packages that dpkg and rpm install, upgrade, and remove in a root of their own.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use cabane_compat::{Binary, library_cache};
use cabane_testkit::{Finished, Tree, compile, is_root, needs, squashfs};
use serde_json::Value;

use crate::cabane::{Cabane, Who, everybody};

const PLACE: &str = "/opt/cabane-test/tools";
const NAME: &str = "cabane-image-tools";

/// A stack as Spack makes them: a program, its library, and a package that the view does not need.
fn add_stack(cabane: &Cabane, version: &str) {
    let tree = Tree::new(cabane.world.path(&format!("trees/{version}")));
    let store = tree.root().join("linux");
    let library = store.join("libgreet-1/lib/libgreet.so.1");
    let code = "int zlibVersion(); int greet(void) { return zlibVersion() != 0 ? 42 : 1; }";
    compile(code, &library, ["-shared", "-fPIC", "-Wl,-soname,libgreet.so.1", "-l:libz.so.1"]);
    let program = store.join("greet-1/bin/greet");
    let code = format!(
        "#include <stdio.h>\nint greet(void); int main() {{ printf(\"{version} %d\\n\", greet()); return 0; }}"
    );
    let library = library.to_str().unwrap();
    compile(&code, &program, [library, &format!("-Wl,-rpath,{PLACE}/linux/libgreet-1/lib")]);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4777)).unwrap();
    let line = format!("/bin/sh {PLACE}/bin/sbang\n#!{PLACE}/linux/a-very-long-path");
    let script = store.join("greet-1/bin/script");
    fs::write(&script, format!("#!{line}\n")).unwrap();
    let tree = tree
        .file("bin/sbang", "runs scripts")
        .file("repos/recipe", "not needed")
        .file("linux/unused-1/bin/unused", "not needed")
        .file(&format!("linux/greet-1/share/only in {version}"), "text")
        .file("env/default/README", version)
        .file("env/dev/README", "another view");
    let packages = [("greet", "libgreet"), ("libgreet", ""), ("unused", "libgreet")];
    let packages = packages.map(|(name, needs)| {
        format!(
            r#"{{"name":"{name}","version":"1","hash":"{name}","manager":"spack","prefix":"{PLACE}/linux/{name}-1","dependencies":["{needs}"]}}"#
        )
    });
    let packages = format!(r#"{{"version":1,"packages":[{}]}}"#, packages.join(","));
    let view = |name: &str, values: &str| {
        format!(
            r#""{name}":{{"root":"{PLACE}/env/{name}","env":{{"version":1,"values":{{{values}}}}}}}"#
        )
    };
    let values = format!(
        r#""list":{{"PATH":[{{"op":"prepend","value":["{PLACE}/env/default/bin"]}}]}},"scalar":{{"GREET":"it's","A;touch bad;":"1"}}"#
    );
    let meta = format!(
        r#"{{"name":"tools","description":"100% of\n\n%install tools","mount":"{PLACE}","default-view":"default","views":{{{},{}}}}}"#,
        view("default", &values),
        view("dev", r#""list":{},"scalar":{}"#)
    );
    let bill = r#"{"packages":[{"name":"greet","versionInfo":"1","licenseDeclared":"MIT"},
        {"name":"libgreet","versionInfo":"1","licenseDeclared":"Zlib OR BSD-3-Clause"},
        {"name":"unused","versionInfo":"1","licenseDeclared":"GPL-3.0-only"}]}"#;
    let tree = tree
        .file("meta/packages.json", &packages)
        .file("meta/sbom.spdx.json", bill)
        .file("meta/env.json", &meta);
    let view = tree.root().join("env/default/bin");
    fs::create_dir(&view).unwrap();
    symlink(format!("{PLACE}/linux/greet-1/bin/greet"), view.join("greet")).unwrap();
    symlink("../../../linux/greet-1/bin/script", view.join("script")).unwrap();
    // Spack links a directory as a whole if only one package has it.
    let (share, store) =
        (tree.root().join("env/default/share"), format!("{PLACE}/linux/greet-1/share"));
    if version == "1.0" {
        symlink(&store, &share).unwrap();
    } else {
        fs::create_dir(&share).unwrap();
        symlink(format!("{store}/text"), share.join("text")).unwrap();
    }
    let text = tree.root().join("linux/greet-1/share/text");
    fs::write(&text, "a text").unwrap();
    fs::hard_link(text, tree.root().join("bin/hard-link")).unwrap();
    add(cabane, tree.root(), &format!("tools/{version}:v1"));
}

fn add(cabane: &Cabane, tree: &Path, label: &str) {
    let image = cabane.world.path(&format!("{}.squashfs", label.replace(['/', ':'], "-")));
    squashfs(tree, &image);
    cabane.run(&["image", "add", label, image.to_str().unwrap()]).success();
}

/// Makes a package, and returns what was made.
fn packaged(cabane: &Cabane, arguments: &[&str]) -> Value {
    let arguments = [&["package", "--json"], arguments].concat();
    serde_json::from_str(&cabane.run(&arguments).success().stdout).unwrap()
}

fn file_of(cabane: &Cabane, made: &Value) -> PathBuf {
    cabane.world.path("work").join(made["file"].as_str().unwrap())
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect()
}

/// A root file system with the libraries of this machine that the programs need, and nothing else.
struct Root(PathBuf);

impl Root {
    fn new(cabane: &Cabane, libraries: &[&str]) -> Self {
        let root = cabane.world.directory("root");
        let own = fs::File::open("/bin/sh").unwrap();
        let loader = Binary::open(&own).unwrap().interpreter().unwrap();
        let libraries = libraries.iter().map(|name| library_cache::find(name).unwrap());
        for path in libraries.chain([loader]) {
            let target = root.join(path.strip_prefix("/").unwrap());
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            fs::copy(path, target).unwrap();
        }
        for directory in
            ["var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/rpm", "opt", "usr/share/doc"]
        {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        Self(root)
    }

    /// Starts a program as root; an ordinary user is root in a namespace.
    fn command(program: &str) -> Command {
        let mut command = Command::new(if is_root() { program } else { "unshare" });
        if !is_root() {
            command.args(["--map-root-user", program]);
        }
        command.env("LC_ALL", "C.UTF-8").env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command
    }

    fn dpkg(&self, arguments: &[&str]) -> Finished {
        let mut command = Self::command("dpkg");
        // The log of the whole machine is not that of this root.
        command.arg(format!("--root={}", self.0.display())).arg("--log=/dev/null");
        Finished::of(command.args(arguments))
    }

    fn rpm(&self, arguments: &[&str]) -> Finished {
        let mut command = Self::command("rpm");
        command.arg("--root").arg(&self.0).args(["--dbpath", "/var/lib/rpm"]);
        Finished::of(command.args(arguments))
    }

    fn run(&self, program: &str) -> String {
        let mut command = Self::command("chroot");
        Finished::of(command.arg(&self.0).arg(program)).success().stdout
    }

    /// What is there beside the databases of package managers.
    fn files(&self) -> BTreeSet<String> {
        let mut find = Command::new("find");
        find.arg(&self.0).args(["-path", "*/var/lib", "-prune", "-o", "-printf", "%P %m\n"]);
        Finished::of(&mut find).success().stdout.lines().map(str::to_owned).collect()
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.0.join(path.trim_start_matches('/'))).ok()
    }
}

/// Writes which packages of this machine dpkg takes for installed in a root.
fn install_on_paper(root: &Root, depends: &[&str]) {
    let mut status = String::new();
    // dpkg removes directories that are empty and belong to no package.
    let owned = "/.\n/opt\n/usr\n/usr/share\n/usr/share/doc\n";
    for depend in depends {
        let name = depend.split(' ').next().unwrap();
        let mut query = Command::new("dpkg-query");
        let format = "--showformat=${Version} ${Architecture}\n";
        let found = Finished::of(query.args(["--show", format, "--", name])).success().stdout;
        let (version, architecture) = found.lines().next().unwrap().split_once(' ').unwrap();
        status += &format!(
            "Package: {name}\nStatus: install ok installed\nMaintainer: nobody <n@localhost>\n\
             Architecture: {architecture}\nVersion: {version}\nDescription: a library\n\n"
        );
        fs::write(root.0.join(format!("var/lib/dpkg/info/{name}.list")), owned).unwrap();
    }
    fs::write(root.0.join("var/lib/dpkg/status"), status).unwrap();
}

#[test]
fn dpkg_installs_upgrades_and_removes_a_view() {
    needs!("dpkg");
    needs!("dpkg-shlibdeps");
    for who in everybody() {
        let cabane = Cabane::new(who);
        add_stack(&cabane, "1.0");
        add_stack(&cabane, "1.1");
        let [old, new] = ["1.0", "1.1"].map(|version| {
            packaged(&cabane, &[&format!("tools/{version}"), "--view=default", "--format=deb"])
        });
        let depends = texts(&old["depends"]);
        assert!(depends.iter().any(|one| one.starts_with("libc6 (>= ")), "{depends:?}");
        assert!(depends.iter().any(|one| one.starts_with("zlib1g")), "{depends:?}");
        let root = Root::new(&cabane, &["libc.so.6", "libz.so.1"]);
        let [old_file, new_file] = [&old, &new].map(|made| file_of(&cabane, made));
        let [old_file, new_file] = [&old_file, &new_file].map(|file| file.to_str().unwrap());

        // Without zlib, dpkg does not configure it.
        install_on_paper(&root, &depends[..1]);
        let before = root.files();
        let refused = root.dpkg(&["--install", old_file]);
        assert!(refused.code != 0 && refused.stderr.contains("zlib1g"), "{refused:?}");
        root.dpkg(&["--purge", NAME]).success();
        assert_eq!(root.files(), before);

        install_on_paper(&root, &depends);
        root.dpkg(&["--install", old_file]).success();
        let greet = format!("{PLACE}/env/default/bin/greet");
        assert_eq!(root.run(&greet), "1.0 42\n");
        let mut query = Root::command("dpkg-query");
        query.arg(format!("--admindir={}/var/lib/dpkg", root.0.display()));
        let query = query.args(["--show", "--showformat=${Cabane-Image}", NAME]);
        assert_eq!(Finished::of(query).success().stdout, old["digest"]);
        let origin = root.read(&format!("usr/share/{NAME}/image.json")).unwrap();
        assert!(origin.contains(old["digest"].as_str().unwrap()), "{origin}");

        root.dpkg(&["--install", new_file]).success();
        assert_eq!(root.run(&greet), "1.1 42\n");
        let text = root.0.join(format!("{}/linux/greet-1/share/text", &PLACE[1..]));
        assert!(fs::symlink_metadata(&text).unwrap().is_file());
        assert_eq!(fs::read_to_string(text).unwrap(), "a text");
        assert_eq!(root.read(&format!("{PLACE}/linux/greet-1/share/only in 1.0")), None);
        assert!(root.read(&format!("{PLACE}/linux/greet-1/share/only in 1.1")).is_some());

        // No other package has files at this mount point.
        let other = packaged(&cabane, &["tools/1.0", "--format=deb", "--name=other-tools"]);
        let refused = root.dpkg(&["--install", file_of(&cabane, &other).to_str().unwrap()]);
        assert!(refused.stderr.contains("conflicts with"), "{refused:?}");

        root.dpkg(&["--remove", NAME]).success();
        assert_eq!(root.files(), before);
        let left = root.read("var/lib/dpkg/status").unwrap();
        assert!(!left.contains(NAME), "{left}");
    }
}

#[test]
fn rpm_installs_upgrades_and_removes_a_view() {
    needs!("rpm");
    needs!("rpmbuild");
    for who in everybody() {
        let cabane = Cabane::new(who);
        add_stack(&cabane, "1.0");
        add_stack(&cabane, "1.1");
        let [old, new] = ["1.0", "1.1"].map(|version| {
            packaged(&cabane, &[&format!("tools/{version}"), "--view=default", "--format=rpm"])
        });
        let depends = texts(&old["depends"]);
        for name in ["libz.so.1()(64bit)", "libc.so.6()(64bit)"] {
            assert!(depends.contains(&name), "{depends:?}");
        }
        assert!(depends.iter().any(|one| one.starts_with("libc.so.6(GLIBC_2.")), "{depends:?}");
        assert!(!depends.iter().any(|one| one.contains("libgreet")), "{depends:?}");
        let root = Root::new(&cabane, &["libc.so.6", "libz.so.1"]);
        let [old_file, new_file] = [&old, &new].map(|made| file_of(&cabane, made));
        let [old_file, new_file] = [&old_file, &new_file].map(|file| file.to_str().unwrap());
        root.rpm(&["--initdb"]).success();
        let before = root.files();
        let refused = root.rpm(&["--install", old_file]);
        assert!(refused.stderr.contains("libz.so.1()(64bit) is needed by"), "{refused:?}");
        assert_eq!(root.files(), before);

        let system = provider_of(&cabane, &depends);
        root.rpm(&["--install", system.to_str().unwrap()]).success();
        root.rpm(&["--install", old_file]).success();
        let greet = format!("{PLACE}/env/default/bin/greet");
        assert_eq!(root.run(&greet), "1.0 42\n");
        let image = format!("cabane-image({})", old["digest"].as_str().unwrap());
        let found = root.rpm(&["--query", "--whatprovides", &image]).success().stdout;
        assert!(found.starts_with(NAME), "{found}");
        // It offers none of its private libraries to other packages.
        let provides = root.rpm(&["--query", "--provides", NAME]).success().stdout;
        assert!(!provides.contains(".so"), "{provides}");
        root.rpm(&["--verify", NAME]).success();

        root.rpm(&["--upgrade", new_file]).success();
        assert_eq!(root.run(&greet), "1.1 42\n");
        let text = root.0.join(format!("{}/linux/greet-1/share/text", &PLACE[1..]));
        assert!(fs::symlink_metadata(&text).unwrap().is_file());
        assert_eq!(fs::read_to_string(text).unwrap(), "a text");
        assert_eq!(root.read(&format!("{PLACE}/linux/greet-1/share/only in 1.0")), None);
        let other = packaged(&cabane, &["tools/1.0", "--format=rpm", "--name=other-tools"]);
        let refused = root.rpm(&["--install", file_of(&cabane, &other).to_str().unwrap()]);
        assert!(refused.stderr.contains("conflicts with"), "{refused:?}");

        root.rpm(&["--erase", NAME]).success();
        assert_eq!(root.files(), before);
    }
}

/// Makes a package that provides what another one requires, in place of a whole distribution.
fn provider_of(cabane: &Cabane, provides: &[&str]) -> PathBuf {
    let provides = provides.join("\nProvides: ");
    let spec = format!(
        "Name: system\nVersion: 1\nRelease: 1\nSummary: libraries\nLicense: none\nBuildArch: noarch\n\
         Provides: {provides}\n\n%description\nLibraries.\n\n%files\n"
    );
    let spec = cabane.world.file("provider/system.spec", &spec);
    let place = spec.parent().unwrap();
    let mut command = cabane.world.command("rpmbuild");
    command.args(["-bb", "--quiet", "--define"]).arg(format!("_topdir {}", place.display()));
    command.arg("--define").arg("_build_name_fmt system.rpm");
    Finished::of(command.arg(spec.as_os_str())).success();
    place.join("RPMS/system.rpm")
}

#[test]
fn a_package_contains_what_the_view_needs_and_gives_no_rights() {
    needs!("dpkg-shlibdeps");
    let cabane = Cabane::new(Who::OrdinaryUser);
    add_stack(&cabane, "1.0");
    let made = packaged(&cabane, &["tools/1.0", "--format=deb", "--output=tools.deb"]);
    let file = file_of(&cabane, &made);
    let unpacked = cabane.world.path("unpacked");
    let mut unpack = Command::new("dpkg-deb");
    Finished::of(unpack.arg("--raw-extract").arg(&file).arg(&unpacked)).success();
    let mut find = Command::new("find");
    find.arg(&unpacked).args(["(", "-type", "f", "-o", "-type", "l", ")", "-printf", "%P\n"]);
    let found = Finished::of(&mut find).success().stdout;
    let found: BTreeSet<&str> = found.lines().collect();
    let below = |name: &str| format!("{}/{name}", &PLACE[1..]);
    let mut expected = BTreeSet::from([
        "DEBIAN/control".to_owned(),
        format!("usr/share/doc/{NAME}/copyright"),
        format!("usr/share/{NAME}/default.sh"),
        format!("usr/share/{NAME}/image.json"),
    ]);
    expected.extend(
        [
            "bin/hard-link",
            "bin/sbang",
            "env/default/README",
            "env/default/bin/greet",
            "env/default/bin/script",
            "env/default/share/only in 1.0",
            "env/default/share/text",
            "linux/greet-1/bin/greet",
            "linux/greet-1/bin/script",
            "linux/greet-1/share/only in 1.0",
            "linux/greet-1/share/text",
            "linux/libgreet-1/lib/libgreet.so.1",
            "meta/env.json",
            "meta/packages.json",
            "meta/sbom.spdx.json",
        ]
        .map(below),
    );
    assert_eq!(found, expected.iter().map(String::as_str).collect());
    let program = unpacked.join(below("linux/greet-1/bin/greet"));
    assert_eq!(fs::metadata(program).unwrap().permissions().mode() & 0o7777, 0o755);
    let packages: Vec<&str> = made["packages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(packages, ["greet", "libgreet"]);
    assert_eq!(made["license"], "(Zlib OR BSD-3-Clause) AND MIT");

    // The script sets the variables, and runs nothing of a hostile name.
    let script = unpacked.join(format!("usr/share/{NAME}/default.sh"));
    let mut shell = cabane.world.command("sh");
    shell.args(["-euc", ". \"$0\"; echo \"$GREET $PATH\""]).arg(script);
    let seen = Finished::of(&mut shell).success().stdout;
    assert!(seen.starts_with(&format!("it's {PLACE}/env/default/bin:/usr/local/bin")), "{seen}");
    assert!(!cabane.world.path("work/bad").exists());

    let control = fs::read_to_string(unpacked.join("DEBIAN/control")).unwrap();
    assert!(
        control.contains("\nDescription: 100% of %install tools\n The files are in"),
        "{control}"
    );
    let with_both = packaged(&cabane, &["tools/1.0", "--view=default,dev", "--format=deb"]);
    assert_eq!(texts(&with_both["views"]), ["default", "dev"]);
}

#[test]
fn the_same_image_gives_the_same_bytes() {
    needs!("dpkg-shlibdeps");
    needs!("rpmbuild");
    let cabane = Cabane::new(Who::OrdinaryUser);
    add_stack(&cabane, "1.0");
    for format in ["deb", "rpm"] {
        for epoch in [None, Some("1000000000")] {
            let bytes = ["one", "two"].map(|name| {
                let output = format!("--output={name}");
                let arguments = ["package", "tools/1.0", "--format", format, &output, "--force"];
                let mut command = cabane.command(&arguments);
                command.envs(epoch.map(|epoch| ("SOURCE_DATE_EPOCH", epoch)));
                // What is on the way has another time each time.
                command.env("TMPDIR", cabane.world.directory(&format!("tmp-{name}")));
                cabane.finish(&mut command).success();
                fs::read(cabane.world.path("work").join(name)).unwrap()
            });
            assert!(bytes[0] == bytes[1], "{format} {epoch:?}");
        }
    }
}

#[test]
fn a_dry_run_writes_nothing_and_an_existing_file_is_not_replaced() {
    needs!("rpmbuild");
    let cabane = Cabane::new(Who::OrdinaryUser);
    add_stack(&cabane, "1.0");
    for format in ["deb", "rpm"] {
        let made = packaged(&cabane, &["tools/1.0", "--format", format, "--dry-run"]);
        assert!(made["size"].is_null() && !file_of(&cabane, &made).exists(), "{made}");
        assert!(texts(&made["needs"]).contains(&"libz.so.1()(64bit)"), "{made}");
        assert_eq!(made["depends"].is_null(), format == "deb");
    }
    fs::write(cabane.world.path("work/there"), "mine").unwrap();
    let arguments = ["package", "tools/1.0", "--format=rpm", "--output=there"];
    let refused = cabane.run(&arguments);
    let expected = "error: the file there exists already\nhint: `--force` replaces it\n";
    assert!(refused.stderr.ends_with(expected), "{}", refused.stderr);
    assert_eq!(fs::read(cabane.world.path("work/there")).unwrap(), b"mine");
}

#[test]
fn an_image_that_records_no_packages_is_in_the_package_as_a_whole() {
    needs!("rpmbuild");
    let cabane = Cabane::new(Who::OrdinaryUser);
    let tree = Tree::new(cabane.world.path("trees/plain"))
        .program("bin/hello", "echo hello")
        .meta("plain", "/usr/local/plain");
    add(&cabane, tree.root(), "plain/2.0-rc1:latest");
    let finished = cabane.run(&["package", "plain", "--format=rpm"]).success();
    assert!(finished.stderr.contains("contains the whole image"), "{}", finished.stderr);
    let file = "cabane-image-plain-2.0~rc1-latest.noarch.rpm";
    assert!(cabane.world.path("work").join(file).exists(), "{}", finished.stderr);
}

#[test]
fn a_package_depends_on_the_interpreter_and_names_the_processor() {
    needs!("dpkg-shlibdeps");
    let cabane = Cabane::new(Who::OrdinaryUser);
    let python = fs::canonicalize("/usr/bin/python3").unwrap();
    let meta = format!(
        r#"{{"name":"python","mount":"{PLACE}","default-view":"v","views":{{"v":{{"env":{{"version":1,"values":{{}}}}}}}},
"cabane":{{"version":1,"needs":{{"interpreter":{{"path":"{}","version":"3.11.2"}},
"processor":{{"targets":["x86_64_v3"],"features":["avx2"]}}}}}}}}"#,
        python.display()
    );
    let tree = Tree::new(cabane.world.path("trees/python")).file("meta/env.json", &meta);
    add(&cabane, tree.root(), "python/1.0:v1");
    let made = packaged(&cabane, &["python", "--format=deb"]);
    assert_eq!(texts(&made["depends"]), [python.file_name().unwrap().to_str().unwrap()]);
    assert_eq!(made["processor"], "x86_64_v3");
    let mut show = Command::new("dpkg-deb");
    let show = show.arg("--field").arg(file_of(&cabane, &made)).arg("Description");
    let shown = Finished::of(show).success().stdout;
    assert!(shown.contains("need a processor as good as x86_64_v3."), "{shown}");
    let made = packaged(&cabane, &["python", "--format=rpm", "--dry-run"]);
    assert_eq!(texts(&made["depends"]), [python.to_str().unwrap()]);
}

/// Types a command that is refused, and returns what it says.
fn refusal(cabane: &Cabane, arguments: &[&str]) -> String {
    let finished = cabane.run(&[&["package", "--format=deb"], arguments].concat());
    assert!(finished.code != 0, "{arguments:?}: {finished:?}");
    finished.stderr
}

#[test]
fn what_cannot_be_a_package_is_refused_with_the_reason() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    add_stack(&cabane, "1.0");
    let said = refusal(&cabane, &["app"]);
    assert!(said.contains("this directory belongs to the system"), "{said}");
    for (arguments, expected) in [
        (&["gone/1.0"][..], "no image matches `gone/1.0`"),
        (&["tools", "--view=gone"], "gone"),
        (&["tools", "--name=a/../../etc"], "cannot be the name of a package"),
        (&["tools", "--name=two words"], "cannot be the name of a package"),
        (&["tools", "--package-version=1.0\nDepends: x"], "cannot be the version of a package"),
        (&["tools", "--package-version=latest"], "cannot be the version of a package"),
        (&["tools", "--maintainer=me\nDepends: x"], "cannot be the maintainer of a package"),
        (&["tools:/elsewhere"], "nothing shows that it works at /elsewhere"),
        (&["tools,app"], "a package is made of one image"),
    ] {
        let said = refusal(&cabane, arguments);
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
    let base = cabane.run(&["image", "inspect", "--format={digest}", "tools"]).success().stdout;
    let meta = format!(
        r#"{{"name":"top","mount":"/opt/top","default-view":"v","views":{{"v":{{"env":{{"version":1,"values":{{}}}}}}}},
"cabane":{{"version":1,"bases":[{{"label":"tools/1.0","digest":"{}","mount":"{PLACE}"}}]}}}}"#,
        base.trim()
    );
    let tree = Tree::new(cabane.world.path("trees/top")).file("meta/env.json", &meta);
    add(&cabane, tree.root(), "top/1.0:v1");
    let said = refusal(&cabane, &["top"]);
    assert!(said.contains("`top` is built on the image `tools`"), "{said}");
    let path = cabane.world.path("tools-1.0-v1.squashfs");
    let said = refusal(&cabane, &[path.to_str().unwrap()]);
    assert!(said.contains("is not in a repository"), "{said}");
}

#[test]
fn hostile_images_are_refused() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    let at = |name: &str, place: &str| {
        Tree::new(cabane.world.path(&format!("trees/{name}"))).meta(name, place)
    };
    let newline = at("newline", PLACE).file("bin/a\nb", "");
    let scripts = at("scripts", "/DEBIAN").program("postinst", "touch /owned");
    let spaces = at("spaces", "/opt/a b").file("a", "");
    let outside = at("outside", PLACE).file(
        "meta/env.json",
        &format!(
            r#"{{"name":"outside","mount":"{PLACE}","default-view":"v","views":{{"v":{{"root":"{PLACE}/../../../etc","env":{{"version":1,"values":{{}}}}}}}}}}"#
        ),
    );
    let missing = at("missing", PLACE).file(
        "meta/env.json",
        &format!(
            r#"{{"name":"missing","mount":"{PLACE}","default-view":"v","views":{{"v":{{"root":"{PLACE}/gone","env":{{"version":1,"values":{{}}}}}}}}}}"#
        ),
    );
    for (tree, name, expected) in [
        (newline, "newline", "bin/a\\u{a}b: a package cannot have names with control characters"),
        (scripts, "scripts", "/DEBIAN: this directory belongs to the system"),
        (spaces, "spaces", "a mount point of letters, digits"),
        (outside, "outside", "which is outside of the image"),
        (missing, "missing", "the view has this directory, and the image does not"),
    ] {
        add(&cabane, tree.root(), &format!("{name}/1.0:v1"));
        let said = refusal(&cabane, &[name]);
        assert!(said.contains(expected), "{name}: {said}");
    }
}

#[test]
fn a_library_that_is_nowhere_is_refused_and_one_of_a_plugin_is_left_out() {
    needs!("dpkg-shlibdeps");
    let cabane = Cabane::new(Who::OrdinaryUser);
    let nowhere = cabane.world.path("libnowhere.so.7");
    compile("int f(void) { return 1; }", &nowhere, ["-shared", "-Wl,-soname,libnowhere.so.7"]);
    let code = "int f(void); int g(void) { return f(); } int main() { return f(); }";
    for (label, file, options) in [
        ("needy/1.0:v1", "bin/needy", &[][..]),
        ("plugin/1.0:v1", "lib/plugin.so", &["-shared", "-fPIC"]),
    ] {
        let (name, _) = label.split_once('/').unwrap();
        let tree = Tree::new(cabane.world.path(&format!("trees/{name}"))).meta(name, PLACE);
        let options = [options, &[nowhere.to_str().unwrap()]].concat();
        compile(code, &tree.root().join(file), options);
        add(&cabane, tree.root(), label);
    }
    let said = refusal(&cabane, &["needy"]);
    assert!(said.contains("libnowhere.so.7, needed by bin/needy"), "{said}");
    let made = cabane.run(&["package", "--format=deb", "plugin"]).success();
    assert!(made.stderr.contains("this machine has no libnowhere.so.7"), "{}", made.stderr);
    // rpm needs no package to name it.
    let made = packaged(&cabane, &["needy", "--format=rpm", "--dry-run"]);
    assert!(texts(&made["depends"]).contains(&"libnowhere.so.7()(64bit)"), "{made}");
}

#[test]
fn a_missing_tool_is_named_with_the_command_that_installs_it() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    add_stack(&cabane, "1.0");
    for (format, tool) in [("deb", "dpkg-shlibdeps"), ("rpm", "rpmbuild")] {
        let mut command = cabane.command(&["package", "tools", "--format", format]);
        let finished = cabane.finish(command.env("PATH", cabane.world.path("nothing")));
        let expected = format!("error: cannot find `{tool}`, which this format needs");
        assert!(finished.stderr.contains(&expected), "{}", finished.stderr);
        assert!(
            finished.stderr.contains("hint: install it, for example with `"),
            "{}",
            finished.stderr
        );
    }
}
