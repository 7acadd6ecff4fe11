// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Debian's `nginx`, started for one test in front of a registry.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use super::certificate::Certificate;
use crate::{Program, Server};

/// What every configuration begins with. Everything stays in the directory of the test, and one process
/// does all: a worker would outlive a process of nginx that is killed.
const HEAD: &str = "\
daemon off;
master_process off;
pid {directory}/pid;
error_log stderr warn;
events {
    worker_connections 512;
}
http {
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    log_format requests '$server_port $request_method $request_uri $status $http_authorization';
    access_log {directory}/access.log requests;
";

/// Debian's `nginx` with the `server` blocks of a test, at ports of this machine.
///
/// It ends with this value, and with the process of the tests.
///
/// ```no_run
/// # use cabane_testkit::{Nginx, RealRegistry, World, needs};
/// # fn a_test() {
/// needs!("nginx");
/// let world = World::new();
/// let registry = RealRegistry::start(&world.path("registry"));
/// let nginx = Nginx::new(&world.path("nginx")).with("registry", &registry.host()).start(
///     "server {
///         listen 127.0.0.1:{port} ssl;
///         ssl_certificate {certificate};
///         ssl_certificate_key {key};
///         location /v2/ { proxy_pass http://{registry}; }
///     }",
/// );
/// let name = format!("{}/deploy/app:v1", nginx.host());
/// # }
/// ```
#[derive(Debug)]
pub struct Nginx {
    directory: PathBuf,
    /// Values for the placeholders in braces in a configuration, by name.
    words: Vec<(String, String)>,
    port: u16,
    other_port: u16,
    certificate: Certificate,
    server: Option<Server>,
}

impl Nginx {
    /// Prepares one, with two free ports, `{port}` and `{other_port}`, and a `{certificate}` for this
    /// machine with its `{key}`. Its files are in `directory`.
    ///
    /// # Panics
    ///
    /// If there is no free port, or `openssl` fails.
    pub fn new(directory: &Path) -> Self {
        fs::create_dir_all(directory).expect("make a directory");
        let certificate = Certificate::make(&directory.join("tls"));
        // Both are taken at once, so that they differ.
        let listeners = [(); 2].map(|()| TcpListener::bind(("127.0.0.1", 0)).expect("a free port"));
        let [port, other_port] =
            listeners.map(|listener| listener.local_addr().expect("its address").port());
        let nginx = Self {
            directory: directory.to_owned(),
            words: Vec::new(),
            port,
            other_port,
            certificate: certificate.clone(),
            server: None,
        };
        nginx
            .with("directory", &directory.display().to_string())
            .with("port", &port.to_string())
            .with("other_port", &other_port.to_string())
            .with("certificate", &certificate.chain.display().to_string())
            .with("key", &certificate.key.display().to_string())
    }

    /// Replaces `{word}` in the configuration. In the value, words from before are replaced, too.
    #[must_use]
    pub fn with(mut self, word: &str, value: &str) -> Self {
        self.words.push((format!("{{{word}}}"), value.to_owned()));
        self
    }

    /// Adds a file with the password of a user, for `auth_basic_user_file`: the word is `{passwords}`.
    ///
    /// # Panics
    ///
    /// If the file cannot be written.
    #[must_use]
    pub fn with_password(self, user: &str, password: &str) -> Self {
        let path = self.directory.join("passwords");
        fs::write(&path, format!("{user}:{{PLAIN}}{password}\n")).expect("write passwords");
        self.with("passwords", &path.display().to_string())
    }

    /// Starts it with a configuration: what is in the block `http`.
    ///
    /// # Panics
    ///
    /// If there is no such program, or it does not accept the configuration.
    #[must_use]
    pub fn start(mut self, configuration: &str) -> Self {
        let mut text = format!("{HEAD}{configuration}\n}}\n");
        for (word, value) in self.words.iter().rev() {
            text = text.replace(word, value);
        }
        let path = self.directory.join("nginx.conf");
        fs::write(&path, text).expect("write a configuration");
        let program = Program::find("nginx").path();
        let program = program.expect("nginx: a test says `needs!` first");
        let mut command = Server::command(program);
        command.env_clear().args(["-e", "stderr", "-p"]).arg(&self.directory).arg("-c").arg(&path);
        let mut server = Server::start(command, &self.directory.join("log"));
        server.wait_for_port(self.port);
        self.server = Some(server);
        self
    }

    /// Where it is: `127.0.0.1:5000`.
    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Its second place, if the configuration uses it.
    pub fn other_host(&self) -> String {
        format!("127.0.0.1:{}", self.other_port)
    }

    /// The certificate of the authority that must be trusted.
    pub fn authority(&self) -> &Path {
        &self.certificate.authority
    }

    /// The requests to the first place so far: method, path, status, and the header `Authorization`, or `-`.
    pub fn requests(&self) -> Vec<String> {
        self.requests_at(self.port)
    }

    /// The requests to the second place.
    pub fn other_requests(&self) -> Vec<String> {
        self.requests_at(self.other_port)
    }

    fn requests_at(&self, port: u16) -> Vec<String> {
        let log = fs::read_to_string(self.directory.join("access.log")).unwrap_or_default();
        let start = format!("{port} ");
        log.lines().filter_map(|line| line.strip_prefix(&start)).map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::{Finished, World, needs};

    #[test]
    fn nginx_answers_at_two_places_and_notes_who_asked() {
        needs!("nginx");
        let world = World::new();
        let nginx = Nginx::new(&world.path("nginx")).with("word", "hello").start(
            "server {
                listen 127.0.0.1:{port} ssl;
                ssl_certificate {certificate};
                ssl_certificate_key {key};
                return 200 {word};
            }
            server {
                listen 127.0.0.1:{other_port};
                return 404;
            }",
        );
        let curl = |arguments: &[&str]| {
            let mut command = Command::new("curl");
            command.args(["--silent", "--show-error"]).args(arguments);
            Finished::of(&mut command).success().stdout
        };
        let authority = nginx.authority().to_string_lossy().into_owned();
        let url = format!("https://{}/x", nginx.host());
        let said = curl(&["--cacert", &authority, "--user", "me:secret", &url]);
        curl(&[&format!("http://{}/y", nginx.other_host())]);
        assert_eq!(said, "hello");
        assert_eq!(nginx.requests(), ["GET /x 200 Basic bWU6c2VjcmV0"]);
        assert_eq!(nginx.other_requests(), ["GET /y 404 -"]);
    }
}
