// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A certificate for a server on this machine, from an authority made for one test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Finished;

/// Not the configuration of the machine: it may add what is added here.
const CONFIGURATION: &str = "\
[req]
distinguished_name = subject
prompt = no
[subject]
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical, CA:FALSE
extendedKeyUsage = serverAuth
subjectAltName = DNS:localhost, IP:127.0.0.1
";

/// The files of a certificate.
#[derive(Clone, Debug)]
pub(super) struct Certificate {
    /// The certificate of the authority: who trusts it trusts the server.
    pub(super) authority: PathBuf,
    pub(super) chain: PathBuf,
    pub(super) key: PathBuf,
}

impl Certificate {
    /// Makes one in a directory, with `openssl`.
    pub(super) fn make(directory: &Path) -> Self {
        fs::create_dir_all(directory).expect("make a directory");
        let configuration = directory.join("openssl.cnf");
        fs::write(&configuration, CONFIGURATION).expect("write a configuration");
        request(directory, "authority", &[]);
        let signed = ["-CA", "authority.pem", "-CAkey", "authority.key"];
        request(directory, "server", &signed);
        Self {
            authority: directory.join("authority.pem"),
            chain: directory.join("server.pem"),
            key: directory.join("server.key"),
        }
    }
}

/// Makes a key and a certificate with one of the sections of the configuration.
fn request(directory: &Path, name: &str, signed: &[&str]) {
    let mut command = Command::new("openssl");
    command
        .current_dir(directory)
        .args(["req", "-x509", "-config", "openssl.cnf", "-days", "2"])
        .args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-nodes", "-keyout", &format!("{name}.key")])
        .args(["-out", &format!("{name}.pem"), "-extensions", name])
        .args(["-subj", &format!("/CN={name} of a test")])
        .args(signed);
    Finished::of(&mut command).success();
}
