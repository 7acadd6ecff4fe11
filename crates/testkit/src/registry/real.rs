// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Debian's `docker-registry`, or another registry in its place, started for one test.
//!
//! The variable `CABANE_TEST_DOCKER_REGISTRY` may name a newer `registry` of the same project, or
//! `zot`, which gets a configuration of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::certificate::Certificate;
use crate::{Finished, Program, Server};

/// Hashes a password as the registry wants it. Every Debian has Perl, and its library of C
/// knows bcrypt.
const HASH: &str = r"print crypt($ENV{PASSWORD}, q($2b$05$H3OToQ2YS.vBgcpLnIjZDu))";

/// How a [`RealRegistry`] shall be.
#[derive(Clone, Debug)]
pub struct RealRegistryOptions {
    directory: PathBuf,
    deletion: bool,
    relative_addresses: bool,
    certificate: Option<Certificate>,
    account: Option<(String, String)>,
}

impl RealRegistryOptions {
    /// With TLS, under a certificate of an authority made for this registry.
    #[must_use]
    pub fn with_tls(mut self) -> Self {
        let directory = self.directory.join("tls");
        self.certificate = Some(Certificate::make(&directory));
        self
    }

    /// Only for one user, with a password.
    #[must_use]
    pub fn with_password(mut self, user: &str, password: &str) -> Self {
        self.account = Some((user.to_owned(), password.to_owned()));
        self
    }

    /// Without the right to delete anything, as the program is by default.
    #[must_use]
    pub fn without_deletion(mut self) -> Self {
        self.deletion = false;
        self
    }

    /// With addresses in answers that do not name the host, as for a proxy. zot does that anyway.
    #[must_use]
    pub fn with_relative_addresses(mut self) -> Self {
        self.relative_addresses = true;
        self
    }

    /// Starts it.
    ///
    /// # Panics
    ///
    /// If there is no such program, or it does not start.
    pub fn start(self) -> RealRegistry {
        fs::create_dir_all(&self.directory).expect("make a directory");
        if let Some((user, password)) = &self.account {
            let mut perl = Command::new("perl");
            perl.args(["-e", HASH]).env("PASSWORD", password);
            let hash = Finished::of(&mut perl).success().stdout;
            fs::write(self.passwords(), format!("{user}:{hash}\n")).expect("write passwords");
        }
        let (server, port) = self.serve(0);
        RealRegistry { options: self, port, server: Some(server) }
    }

    /// Starts the program at a port, or at any if that is 0.
    fn serve(&self, port: u16) -> (Server, u16) {
        let program = Program::find("docker-registry").path();
        let program = program.expect("docker-registry: a test says `needs!` first");
        let configuration = self.directory.join("config.json");
        let is_zot = program.file_name().is_some_and(|name| name == "zot");
        let text = if is_zot { self.configuration_of_zot(port) } else { self.configuration(port) };
        fs::write(&configuration, text).expect("write a configuration");
        let mut command = Server::command(program);
        // Variables of others would change the configuration.
        // Most of its processor time was for collecting garbage, and for looking for work.
        command.env_clear().envs([("GOGC", "off"), ("GOMEMLIMIT", "256MiB"), ("GOMAXPROCS", "1")]);
        command.env("OTEL_TRACES_EXPORTER", "none").arg("serve").arg(&configuration);
        let mut server = Server::start(command, &self.directory.join("log"));
        let port = server.wait_for(port_in);
        (server, port)
    }

    /// The configuration; it is YAML, and JSON is that, too.
    fn configuration(&self, port: u16) -> String {
        let mut http = serde_json::json!({
            "addr": format!("127.0.0.1:{port}"),
            // With one of its own it forgets what was uploaded in part when it restarts.
            "secret": "of a test",
            "relativeurls": self.relative_addresses,
        });
        if let Some(files) = &self.certificate {
            let (certificate, key) = (&files.chain, &files.key);
            http["tls"] = serde_json::json!({"certificate": certificate, "key": key});
        }
        let mut configuration = serde_json::json!({
            "version": "0.1",
            "storage": {
                "filesystem": {"rootdirectory": self.directory.join("data")},
                "delete": {"enabled": self.deletion},
            },
            "http": http,
        });
        if self.account.is_some() {
            let (realm, path) = ("a test", self.passwords());
            configuration["auth"] = serde_json::json!({"htpasswd": {"realm": realm, "path": path}});
        }
        configuration.to_string()
    }

    fn configuration_of_zot(&self, port: u16) -> String {
        let port = port.to_string();
        // Images of Docker, as well as those of OCI.
        let compat = ["docker2s2"];
        let mut http =
            serde_json::json!({ "address": "127.0.0.1", "port": port, "compat": compat });
        if let Some(files) = &self.certificate {
            let (certificate, key) = (&files.chain, &files.key);
            http["tls"] = serde_json::json!({"cert": certificate, "key": key});
        }
        if self.account.is_some() {
            http["auth"] = serde_json::json!({"htpasswd": {"path": self.passwords()}});
        }
        if !self.deletion {
            let policy = serde_json::json!({"anonymousPolicy": ["read", "create", "update"]});
            http["accessControl"] = serde_json::json!({"repositories": {"**": policy}});
        }
        let configuration = serde_json::json!({
            "distSpecVersion": "1.1.1",
            "storage": {"rootDirectory": self.directory.join("data"), "gc": false},
            "http": http,
            "log": {"level": "info"},
        });
        configuration.to_string()
    }

    fn passwords(&self) -> PathBuf {
        self.directory.join("passwords")
    }
}

/// The port in a line such as `… msg="listening on 127.0.0.1:5000, tls" …`, or of zot
/// `… chosen port","port":5000,…`.
fn port_in(log: &str) -> Option<u16> {
    const ZOT: &str = "listening on kernel chosen port\",\"port\":";
    let (_, rest) = log.split_once("listening on 127.0.0.1:").or(log.split_once(ZOT))?;
    let digits = rest.find(|c: char| !c.is_ascii_digit())?;
    rest[..digits].parse().ok()
}

/// The registry of Debian, serving from a directory of the test at a port of this machine.
///
/// It ends with this value, and with the process of the tests.
///
/// ```no_run
/// # use cabane_testkit::{RealRegistry, World, needs};
/// # fn a_test() {
/// needs!("docker-registry");
/// let world = World::new();
/// let registry = RealRegistry::start(&world.path("registry"));
/// let name = format!("{}/deploy/app:v1", registry.host());
/// # }
/// ```
#[derive(Debug)]
pub struct RealRegistry {
    options: RealRegistryOptions,
    port: u16,
    server: Option<Server>,
}

impl RealRegistry {
    /// Starts one that is open to all and allows deleting. What it stores and
    /// prints goes to `directory`.
    pub fn start(directory: &Path) -> Self {
        Self::options(directory).start()
    }

    /// Begins with how [`RealRegistry::start`] would start one.
    pub fn options(directory: &Path) -> RealRegistryOptions {
        RealRegistryOptions {
            directory: directory.to_owned(),
            deletion: true,
            relative_addresses: false,
            certificate: None,
            account: None,
        }
    }

    /// Where it is: `127.0.0.1:5000`.
    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Where it is, with how to speak to it: `http://127.0.0.1:5000`.
    pub fn url(&self) -> String {
        let scheme = match self.options.certificate {
            Some(_) => "https",
            None => "http",
        };
        format!("{scheme}://{}", self.host())
    }

    /// The certificate of the authority that must be trusted.
    ///
    /// # Panics
    ///
    /// Without [`RealRegistryOptions::with_tls`].
    pub fn authority(&self) -> &Path {
        let files = self.options.certificate.as_ref();
        &files.expect("a registry with TLS").authority
    }

    /// Where it keeps blobs and manifests.
    pub fn data(&self) -> PathBuf {
        self.options.directory.join("data")
    }

    /// Its output since it was started.
    pub fn log(&self) -> String {
        self.server.as_ref().map(Server::log).unwrap_or_default()
    }

    /// Ends it at once, as a crash would.
    pub fn stop(&mut self) {
        self.server = None;
    }

    /// Starts it again at the same port, with what it has stored.
    pub fn restart(&mut self) {
        self.stop();
        let (server, _) = self.options.serve(self.port);
        self.server = Some(server);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{World, needs};

    /// What curl gets: the status, and the body after it.
    fn curl(arguments: &[&str]) -> String {
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--write-out", "\n%{http_code}"]);
        Finished::of(command.args(arguments)).success().stdout
    }

    #[test]
    fn a_real_registry_answers_and_starts_again_where_it_was() {
        needs!("docker-registry");
        let world = World::new();
        let mut registry = RealRegistry::start(&world.path("registry"));
        let url = format!("{}/v2/", registry.url());
        let before = curl(&[&url]);
        registry.restart();
        assert_eq!((before.as_str(), curl(&[&url])), ("{}\n200", before.clone()));
    }

    #[test]
    fn a_real_registry_with_tls_and_a_password_wants_both() {
        needs!("docker-registry");
        let world = World::new();
        let options = RealRegistry::options(&world.path("registry"));
        let registry = options.with_tls().with_password("me", "sword:fish").start();
        let url = format!("{}/v2/", registry.url());
        let authority = registry.authority().to_string_lossy();
        let trusting = ["--cacert", &authority, &url];
        let stranger = curl(&trusting);
        let user = curl(&[&trusting[..], &["--user", "me:sword:fish"]].concat());
        assert!(stranger.ends_with("\n401"), "{stranger}");
        assert_eq!(user, "{}\n200");
    }
}
