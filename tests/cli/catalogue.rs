// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A catalog of a real registry, as files, through its server, and in a browser.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Instant;

use cabane_testkit::{Finished, Program, Tree, belongs_to, needs, only_for_registries, squashfs};
use serde_json::{Value, json};

use crate::cabane::{APP, Cabane, Who};
use crate::channels::{Bed, NEW};

const HOSTILE: &str = "hostile/1.0:v1@here%x86_64";
const SECRET: &str = "build::secret/1.0:v1@here%x86_64";

/// A registry with images, a channel, results of tests, and a namespace that is not for everybody.
struct Site {
    bed: Bed,
}

impl Site {
    fn new() -> Self {
        let more = "[evidence]\ntesters = [\"KEY.tests.pub\"]\nbuilders = [\"KEY.tests.pub\"]";
        let site = Self { bed: Bed::new(Who::OrdinaryUser, "", more) };
        let key = format!("{}.tests", site.bed.key);
        site.run(&["image", "key", "new", &key]).success();
        site.push_with_packages(
            APP,
            "app with packages",
            &[("hdf5", "1.14.3", "+mpi~cxx api=v110"), ("zlib", "1.3", "")],
        );
        let text = "</script><script>alert(1)</script><img src=x onerror=alert(2)> \u{2028}\"'";
        site.push_with_packages(
            HOSTILE,
            text,
            &[("javascript:alert(1)", text, text), ("../../x", "1", ""), ("ZLIB", "1", "")],
        );
        site.push_with_packages(SECRET, "not for everybody", &[("secret-package", "1", "")]);
        let label = format!("deploy::{APP}");
        site.run(&["image", "pull", "--force", &label]).success();
        site.run(&["check", APP, "--key", &key, "--attach"]).success();
        site.bed.change(&["promote", "stable", APP, "--by", "Ada Lovelace"]).success();
        site
    }

    fn run(&self, arguments: &[&str]) -> Finished {
        self.bed.run(arguments)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.bed.shared.cabane.world.path(&format!("work/{name}"))
    }

    fn push_with_packages(&self, label: &str, description: &str, packages: &[(&str, &str, &str)]) {
        let cabane = &self.bed.shared.cabane;
        let name = label.split(['/', ':']).find(|part| !["build", ""].contains(part)).unwrap();
        let (mount, name) = (cabane.mount_point(name), format!("packed-{name}"));
        let packages: Vec<Value> = packages
            .iter()
            .map(|(name, version, variants)| {
                json!({"name": name, "version": version, "variants": variants, "manager": "spack",
                       "compilers": ["gcc@13.2.0"], "prefix": null})
            })
            .collect();
        let list = json!({"version": 1, "packages": packages}).to_string();
        let tree = Tree::new(cabane.world.path(&format!("trees/{name}")))
            .program("bin/hello", "echo hello")
            .meta(&name, &mount)
            .file("meta/packages.json", &list);
        let env = tree.root().join("meta/env.json");
        let text = fs::read_to_string(&env).unwrap();
        let description = serde_json::to_string(description).unwrap();
        fs::write(&env, text.replace("\"an image of the tests\"", &description)).unwrap();
        let image = cabane.world.path(&format!("{name}.squashfs"));
        squashfs(tree.root(), &image);
        self.run(&["image", "push", "--force", image.to_str().unwrap(), label]).success();
    }

    fn build(&self, name: &str, more: &[&str]) -> Finished {
        self.run(&[&["catalogue", "build", "-o", name], more].concat())
    }

    /// The page of an image.
    fn page(&self, site: &str, label: &str) -> String {
        let list = fs::read_to_string(self.path(site).join("api/v1/images.json")).unwrap();
        let list: Vec<Value> = serde_json::from_str(&list).unwrap();
        let image = list.iter().find(|image| image["label"] == label).unwrap();
        let page = format!("i/{}.html", image["page"].as_str().unwrap());
        fs::read_to_string(self.path(site).join(page)).unwrap()
    }

    fn serve(&self, name: &str) -> (Serving, String) {
        let mut command = self.bed.shared.cabane.command(&["catalogue", "serve", name]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut address = Vec::new();
        let output = child.stdout.as_mut().unwrap();
        while address.last() != Some(&b'\n') {
            let mut byte = [0];
            output.read_exact(&mut byte).unwrap();
            address.push(byte[0]);
        }
        (Serving(child), String::from_utf8(address).unwrap().trim().to_owned())
    }
}

/// A server that ends with this value.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// The content and the inode of each file of a site.
fn tree(site: &Path) -> BTreeMap<PathBuf, (Vec<u8>, u64)> {
    let mut found = BTreeMap::new();
    let mut left = vec![site.to_owned()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let inode = fs::metadata(&path).unwrap().ino();
            if path.is_dir() {
                left.push(path);
            } else {
                let inside = path.strip_prefix(site).unwrap().to_owned();
                found.insert(inside, (fs::read(&path).unwrap(), inode));
            }
        }
    }
    found
}

fn bytes(site: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    tree(site).into_iter().map(|(path, (bytes, _))| (path, bytes)).collect()
}

#[test]
fn a_site_has_what_the_registry_has_of_a_namespace() {
    needs!("docker-registry");
    let site = Site::new();
    let built = site.build("site", &["--url", "https://software.example.org/x"]).success();
    assert!(built.stderr.contains("site: 3 images in "), "{}", built.stderr);
    let page = site.page("site", APP);
    for part in [
        "app with packages",
        "<span class=\"o p\">released</span>",
        "stable",
        "<span class=\"o p\">PASSED</span>",
        "signed with release.tests.pub",
        "<dt>Signed</dt>",
        "+mpi~cxx api=v110 gcc@13.2.0",
        "<code>default</code> (default): the default view",
        "cabane image pull deploy::app/1.0:v1@here%x86_64",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    let changes = fs::read_to_string(site.path("site/changes.atom")).unwrap();
    assert!(changes.contains("https://software.example.org/x/i/deploy/"), "{changes}");
    assert!(changes.contains("was added to deploy::stable@here"), "{changes}");
    for (path, text) in bytes(&site.path("site")) {
        let text = String::from_utf8(text).unwrap();
        for secret in ["secret", "build::", "Ada Lovelace", "not for everybody"] {
            assert!(!text.contains(secret), "{}: {secret}", path.display());
        }
        let world = site.path("").to_string_lossy().into_owned();
        assert!(!text.contains(&world), "{}", path.display());
    }
    // A site of another namespace is another site.
    site.build("private", &["--namespace", "build"]).success();
    assert!(site.page("private", "secret/1.0:v1@here%x86_64").contains("secret-package"));
    let both = site.build("both", &["-n", "build", "-n", "deploy", "--without-evidence"]).success();
    assert!(both.stderr.contains("4 images in "), "{}", both.stderr);
    let page = site.page("both", APP);
    assert!(!page.contains("PASSED") && page.contains(">released<"), "{page}");
}

#[test]
fn only_what_changed_is_written_and_the_bytes_are_the_same() {
    needs!("docker-registry");
    let site = Site::new();
    site.build("site", &[]).success();
    site.build("other", &[]).success();
    assert_eq!(bytes(&site.path("site")), bytes(&site.path("other")));
    let before = tree(&site.path("site"));
    let again = site.build("site", &[]).success();
    assert!(again.stderr.contains("; 0 written, 0 removed"), "{}", again.stderr);
    assert_eq!(tree(&site.path("site")), before);
    site.push_with_packages("new/1.0:v1@here%x86_64", "new", &[("zlib", "1.3", "")]);
    site.build("site", &[]).success();
    let after = tree(&site.path("site"));
    let changed = after.iter().filter(|(path, content)| before.get(*path) != Some(content));
    let changed: Vec<&str> = changed.map(|(path, _)| path.to_str().unwrap()).collect();
    let is_expected = |path: &&str| {
        let is_list = !path.starts_with("i/") && !path.starts_with("api/v1/images/");
        let is_of_others =
            path.contains("hdf5") || path.contains("javascript") || path.contains("search");
        is_list && !is_of_others
            || after[Path::new(path)].0.windows(11).any(|text| text == b"new/1.0:v1@")
    };
    let other: Vec<_> = changed.iter().filter(|path| !is_expected(path)).collect();
    assert!(other.is_empty() && changed.contains(&"p/zlib.html"), "{changed:?}");
    site.build("fresh", &[]).success();
    assert_eq!(bytes(&site.path("site")), bytes(&site.path("fresh")));
}

#[test]
fn answers_about_evidence_are_used_again_only_on_request() {
    needs!("docker-registry");
    let site = Site::new();
    let signed = |arguments: &[&str]| {
        site.build("site", arguments).success();
        let page = site.page("site", APP);
        let text = page.split("<dt>Signed</dt><dd>").nth(1).unwrap();
        text.split('<').next().unwrap().to_owned()
    };
    let requests = || site.bed.shared.registry.log().matches("HTTP/1.1\"").count();
    assert_eq!(signed(&[]), "no");
    site.run(&["image", "sign", APP, "--key", &site.bed.key]).success();
    let before = requests();
    assert_eq!(signed(&["--evidence-age", "1h"]), "no");
    let few = requests() - before;
    assert!(site.page("site", APP).contains(">PASSED<"));
    assert_eq!(signed(&[]), "with an unknown key");
    assert!(requests() - before > 2 * few + 9, "{few} and {}", requests() - before);
    // Other keys judge otherwise.
    let more = "[evidence]\ntesters = [\"KEY.pub\"]";
    site.bed.configure("", more);
    site.build("site", &["--evidence-age", "1h"]).success();
    assert!(!site.page("site", APP).contains(">PASSED<"));
}

#[test]
fn signatures_that_cannot_be_read_do_not_end_the_build() {
    only_for_registries!("docker-registry", "distribution");
    needs!("docker-registry");
    let site = Site::new();
    site.run(&["image", "sign", APP, "--key", &site.bed.key]).success();
    let data = site.bed.shared.registry.data().join("docker/registry/v2");
    let tags = data.join("repositories/uenv/deploy/here/x86_64/app/1.0/_manifests/tags");
    let tags = fs::read_dir(tags).unwrap().map(|entry| entry.unwrap().path());
    let tag = tags.into_iter().find(|path| path.to_string_lossy().ends_with(".sig")).unwrap();
    let link = fs::read_to_string(tag.join("current/link")).unwrap();
    let digest = link.trim().strip_prefix("sha256:").unwrap();
    let blob = data.join(format!("blobs/sha256/{}/{digest}/data", &digest[..2]));
    let manifest: Value = serde_json::from_slice(&fs::read(&blob).unwrap()).unwrap();
    let mut manifest = manifest.as_object().unwrap().clone();
    manifest["config"]["digest"] = json!("none");
    fs::write(blob, json!(manifest).to_string()).unwrap();
    for _ in 0..2 {
        let built = site.build("site", &["--evidence-age", "1h"]).success();
        let warning = format!("cannot read the signatures of {APP}");
        assert!(built.stderr.contains(&warning), "{}", built.stderr);
    }
    let page = site.page("site", APP);
    assert!(page.contains("<dt>Signed</dt><dd>the signatures cannot be read<"), "{page}");
    assert!(page.contains(">PASSED<"), "{page}");
    let other = site.page("site", HOSTILE);
    assert!(other.contains("<dt>Signed</dt><dd>no<"), "{other}");
}

#[test]
fn a_build_that_is_killed_leaves_a_whole_site() {
    needs!("docker-registry");
    let site = Site::new();
    site.build("fresh", &["--title", "Second"]).success();
    site.build("site", &["--title", "First"]).success();
    let (first, second) = (bytes(&site.path("site")), bytes(&site.path("fresh")));
    let start = |title: &str| {
        let arguments =
            ["catalogue", "build", "-o", "site", "--title", title, "--without-evidence"];
        site.bed.shared.cabane.command(&arguments).stderr(Stdio::null()).spawn().unwrap()
    };
    let started = Instant::now();
    assert!(start("Second").wait().unwrap().success());
    let whole = started.elapsed();
    for round in 0..16 {
        let mut child = start(if round % 2 == 0 { "First" } else { "Second" });
        sleep(whole * round / 16);
        child.kill().unwrap();
        child.wait().unwrap();
        for name in ["site/index.html", "site/.cabane-catalogue"] {
            assert!(site.path(name).exists(), "{name} after {round}/16");
        }
    }
    for (title, expected) in [("First", first), ("Second", second)] {
        site.build("site", &["--title", title]).success();
        assert!(bytes(&site.path("site")) == expected, "{title}");
    }
    let names = fs::read_dir(site.path("")).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!names.into_iter().any(|name| name.to_string_lossy().contains("catalogue")));
}

#[test]
fn what_cannot_be_a_site_is_refused() {
    needs!("docker-registry");
    let site = Site::new();
    fs::create_dir(site.path("home")).unwrap();
    site.bed.shared.cabane.world.file("work/home/thesis.tex", "x");
    let refused = site.build("home", &[]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("home contains files that do not belong to a catalog"),
        "{}",
        refused.stderr
    );
    assert!(site.path("home/thesis.tex").exists());
    // The first build makes a site, and somebody adds to it.
    site.build("web", &[]).success();
    site.bed.shared.cabane.world.file("work/web/.htaccess", "Require all granted");
    let others = site.build("web", &[]);
    assert_eq!(others.code, 1, "{}", others.stderr);
    assert!(others.stderr.contains("no build has written: .htaccess"), "{}", others.stderr);
    assert!(others.stderr.contains("remove them with `--replace`"), "{}", others.stderr);
    site.build("web", &["--replace"]).success();
    assert!(!site.path("web/.htaccess").exists() && site.path("web/index.html").exists());
    let base = site.build("site", &["--url", "javascript:alert(1)"]);
    assert_eq!(base.code, 2, "{}", base.stderr);
    assert!(base.stderr.contains("hint: write the address"), "{}", base.stderr);
    let none = site.run(&["catalogue", "serve", "home"]);
    assert!(none.stderr.contains("home is not a catalog"), "{}", none.stderr);
    let empty = site.build("empty", &["--namespace", "nothing"]).success();
    assert!(empty.stderr.contains("no images in the namespace `nothing`"), "{}", empty.stderr);
    assert!(site.path("empty/index.html").exists());
}

#[test]
fn what_an_upgrade_would_do_has_a_page() {
    needs!("docker-registry");
    let site = Site::new();
    site.build("site", &["--package", "zlib@:1.3.0", "--change", "glibc=2.31"]).success();
    let list = fs::read_to_string(site.path("site/upgrades/index.html")).unwrap();
    assert!(list.contains("package zlib@:1.3.0") && list.contains("glibc=2.31"), "{list}");
    let pages = fs::read_dir(site.path("site/upgrades")).unwrap();
    let pages = pages.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap());
    let page = pages.into_iter().find(|page| page.contains("<h1>Change: package zlib")).unwrap();
    assert!(
        page.contains("1 image: rebuild advised") && page.contains("zlib@1.3 is in the image"),
        "{page}"
    );
    let mistake = site.build("site", &["--change", "glibc"]);
    assert_eq!(mistake.code, 2, "{}", mistake.stderr);
}

#[test]
fn a_site_is_served_on_this_machine() {
    needs!("docker-registry");
    let site = Site::new();
    site.build("site", &[]).success();
    let (_serving, address) = site.serve("site");
    let (host, secret) = address.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let in_site = |path: &str| format!("/{}{path}", secret.trim_end_matches('/'));
    let ask = |path: &str, name: &str| {
        let mut stream = TcpStream::connect(host).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {name}\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let first = ask(&in_site("/"), host);
    assert!(first.starts_with("HTTP/1.1 200 OK") && first.ends_with("</html>\n"), "{first}");
    assert!(ask(&in_site("/../release"), host).starts_with("HTTP/1.1 404"));
    assert!(ask(&in_site("/"), "example.org").starts_with("HTTP/1.1 421"));
    // Another user of the machine, and a browser on another machine through a tunnel.
    assert!(ask("/", host).starts_with("HTTP/1.1 404"));
    assert!(ask(&in_site("/"), "localhost:8000").starts_with("HTTP/1.1 200"));
    // A site that is built again is served at once.
    site.build("site", &["--title", "Another title"]).success();
    assert!(ask(&in_site("/index.html"), host).contains("Another title"));
}

#[test]
fn images_of_repositories_are_shown_if_everybody_can_read_them() {
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let closed = "closed/1.0:v1@there%x86_64";
    let image = cabane.image("closed", &cabane.mount_point("closed"));
    cabane.run(&["image", "add", closed, &image]).success();
    let build = |name: &str| cabane.run(&["catalogue", "build", "--local", "-o", name]).success();
    assert!(build("open").stderr.contains("open: 2 images in "));
    let path = cabane.run(&["image", "inspect", "--format", "{path}", closed]).success().stdout;
    let path = path.trim().replace("[WORLD]", cabane.world.path("").to_str().unwrap());
    fs::set_permissions(path.replace("//", "/"), fs::Permissions::from_mode(0o640)).unwrap();
    let said = build("site").stderr;
    assert!(said.contains("site: 1 image in ") && said.contains("left out: 1"), "{said}");
    let files = bytes(&cabane.world.path("work/site"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    for (path, content) in &files {
        assert!(!text(content).contains("closed"), "{}", path.display());
    }
    let page = files.iter().find(|(path, _)| path.starts_with("i"));
    let page = text(&page.unwrap().1);
    assert!(page.contains("cabane start app/1.0:v1") && !page.contains("image pull"), "{page}");
    let both = cabane.run(&["catalogue", "build", "--local", "-n", "deploy", "-o", "site"]);
    assert_eq!(both.code, 2, "{}", both.stderr);
}

#[test]
fn people_can_use_it_in_a_browser() {
    needs!("docker-registry");
    let Some(tools) = Program::find("browser-tools").path() else {
        belongs_to!("CABANE_TEST_BROWSER_TOOLS=DIRECTORY make test");
    };
    let chromium = needs!("chromium");
    let site = Site::new();
    assert!(site.run(&["image", "find", "--json", NEW]).success().stdout.contains("app/2.0"));
    site.build("public/site", &["--package", "zlib"]).success();
    let (_serving, address) = site.serve("public/site");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cli/browser/catalogue.js");
    let mut command = Command::new("node");
    command.arg(script).arg(chromium).arg(site.path("public/site")).arg(address);
    command.env("NODE_PATH", tools.join("node_modules"));
    Finished::of(&mut command).success();
}
