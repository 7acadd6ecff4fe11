// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The version of `uv` does not decide about an image, and the one that builds use is fetched.

use std::env::consts::ARCH;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use cabane_builder::BuildRequest;
use cabane_testkit::{World, not_run};

use crate::bench::{Who, build, everybody, find_in_path, request};
use crate::python::world;

/// Answers each request with the page of an index or a wheel, and prints its port, then each path.
const INDEX: &str = r#"
import base64, http.server, json, os, sys
wheel, is_json = sys.argv[1], sys.argv[2] == "json"
class Index(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        print(self.path, flush=True)
        right = "Basic " + base64.b64encode(b"me:secret").decode()
        if self.headers.get("Authorization") != right:
            return self.send_error(401, "no access")
        name = os.path.basename(wheel)
        kind, content = "application/octet-stream", open(wheel, "rb").read()
        if self.path == "/simple/uv/" and is_json:
            kind = "application/vnd.pypi.simple.v1+json"
            content = json.dumps({"files": [{"filename": name, "url": f"../../files/{name}"}]}).encode()
        elif self.path == "/simple/uv/":
            kind = "text/html"
            content = f'<a href="uv-0.0.1.tar.gz">old</a><a href="/files/{name}#sha256=0">new</a>'.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(content)
    def log_message(self, *_): pass
server = http.server.HTTPServer(("127.0.0.1", 0), Index)
print(server.server_port, flush=True)
server.serve_forever()
"#;

/// An index of packages that has one wheel and wants a password.
struct Index {
    server: Child,
    port: String,
    output: BufReader<std::process::ChildStdout>,
}

impl Index {
    fn start(wheel: &Path, kind: &str) -> Self {
        let mut server = Command::new("/usr/bin/python3")
            .args(["-I", "-c", INDEX])
            .arg(wheel)
            .arg(kind)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(server.stdout.take().unwrap());
        let mut port = String::new();
        let _ = output.read_line(&mut port).unwrap();
        Self { server, port: port.trim().to_owned(), output }
    }

    /// Ends it and returns what it was asked for.
    fn requests(mut self) -> Vec<String> {
        self.server.kill().unwrap();
        let _ = self.server.wait().unwrap();
        self.output.lines().map(Result::unwrap).collect()
    }
}

/// A request for a build to which no program is named.
fn without_uv(world: &World, build: &str, index: &Index) -> BuildRequest {
    let mut request = request(world, build);
    request.programs.uv = None;
    let address = format!("http://me:secret@127.0.0.1:{}/simple/", index.port);
    let _ = request.passed_variables.insert("UV_DEFAULT_INDEX".to_owned(), address);
    request
}

/// What the set-up has fetched for these tests.
fn from_setup(name: &str) -> Option<PathBuf> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cabane/uv-of-tests");
    fs::canonicalize(top.join(name)).ok()
}

fn wheel() -> Option<PathBuf> {
    let names = fs::read_dir(from_setup("")?).unwrap().map(|entry| entry.unwrap().path());
    let end = format!("musllinux_1_1_{ARCH}.whl");
    names.into_iter().find(|path| path.to_string_lossy().ends_with(&end))
}

#[test]
fn another_version_makes_the_same_image() {
    let Some(other) = from_setup("0.13.9/uv") else {
        not_run!("needs a second uv: scripts/setup test");
    };
    for who in everybody() {
        let world = world();
        let first = build(&request(&world, "first"), who).unwrap();
        assert!(!first.file("env/default/pyvenv.cfg").contains("uv"));
        let mut again = request(&world, "again");
        again.programs.uv = Some(other.clone());
        assert_eq!(build(&again, who).unwrap().digest, first.digest, "{who:?}");
    }
}

#[test]
fn it_is_fetched_once_from_the_index_of_the_packages() {
    let Some(wheel) = wheel() else {
        not_run!("needs the wheel of uv: scripts/setup test");
    };
    for kind in ["json", "html"] {
        let world = world();
        let named = build(&request(&world, "named"), Who::User).unwrap();
        let index = Index::start(&wheel, kind);
        let fetched = build(&without_uv(&world, "fetched", &index), Who::User).unwrap();
        assert_eq!(fetched.digest, named.digest);
        let again = without_uv(&world, "again", &index);
        let name = wheel.file_name().unwrap().to_string_lossy().into_owned();
        assert_eq!(index.requests(), ["/simple/uv/".to_owned(), format!("/files/{name}")]);
        // Nobody answers now.
        assert_eq!(build(&again, Who::User).unwrap().digest, named.digest);
    }
}

#[test]
fn pip_fetches_it_where_no_variable_names_an_index() {
    let Some(wheel) = wheel() else {
        not_run!("needs the wheel of uv: scripts/setup test");
    };
    let world = world();
    let mut request = request(&world, "build");
    request.programs.uv = None;
    let wheels = wheel.parent().unwrap().to_string_lossy().into_owned();
    let settings = [("PIP_NO_INDEX", "1".to_owned()), ("PIP_FIND_LINKS", wheels)];
    request.passed_variables.extend(settings.map(|(name, value)| (name.to_owned(), value)));
    let _ = build(&request, Who::User).unwrap();
    assert!(world.path("cache/tools/uv-0.13.8/uv").exists());
}

#[test]
fn the_right_version_in_the_path_is_used() {
    let Some(uv) = find_in_path("uv") else {
        not_run!("needs uv");
    };
    let world = world();
    let mut request = request(&world, "build");
    request.programs.uv = None;
    request.search_path = vec![world.path("empty"), uv.parent().unwrap().to_owned()];
    let _ = build(&request, Who::User).unwrap();
    assert!(!world.path("cache/tools").exists());
}

#[test]
fn other_bytes_are_not_run() {
    let Some(wheel) = wheel() else {
        not_run!("needs the wheel of uv: scripts/setup test");
    };
    let world = world();
    let other = world.path(wheel.file_name().unwrap().to_str().unwrap());
    let mut bytes = fs::read(&wheel).unwrap();
    bytes[1000] ^= 1;
    fs::write(&other, bytes).unwrap();
    let index = Index::start(&other, "json");
    let error = build(&without_uv(&world, "build", &index), Who::User).unwrap_err();
    assert!(error.contains("has another sha256 than"), "{error}");
    assert!(!world.path("cache/tools").exists(), "{error}");
    let _ = index.requests();
}

#[test]
fn what_cannot_be_fetched_is_reported_without_passwords() {
    let world = world();
    let index = Index::start(Path::new("/nowhere"), "json");
    let request = without_uv(&world, "build", &index);
    let _ = index.requests();
    let error = build(&request, Who::User).unwrap_err();
    assert!(error.contains("cannot fetch uv 0.13.8: http://127.0.0.1:"), "{error}");
    assert!(error.contains("Connection refused"), "{error}");
    assert!(error.contains("or another uv in CABANE_UV"), "{error}");
    assert!(!error.contains("secret"), "{error}");
}
