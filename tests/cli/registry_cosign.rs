// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Signatures from and to cosign itself. No distribution has it, and to build it takes minutes;
//! `CONTRIBUTING.md` tells how.

use std::path::PathBuf;

use cabane_testkit::{Finished, Program, belongs_to, needs};

use crate::cabane::{APP, Who};
use crate::registry::Shared;

/// A registry with an image, and cosign.
struct Cosign {
    shared: Shared,
    program: PathBuf,
}

impl Cosign {
    fn here(program: PathBuf) -> Self {
        let shared = Shared::pushed(Who::OrdinaryUser);
        Self { shared, program }
    }

    fn path(&self, name: &str) -> String {
        let path = self.shared.cabane.world.path(&format!("work/{name}"));
        path.to_str().unwrap().to_owned()
    }

    fn cabane(&self, arguments: &[&str]) -> Finished {
        self.shared.run(arguments)
    }

    fn cosign(&self, arguments: &[&str]) -> Finished {
        let mut command = self.shared.cabane.other(self.program.to_str().unwrap());
        command.env("COSIGN_PASSWORD", "secret");
        self.shared.cabane.finish(command.args(arguments))
    }

    fn verify(&self, key: &str) -> Finished {
        self.verify_with(key, &[])
    }

    fn verify_with(&self, key: &str, more: &[&str]) -> Finished {
        let arguments = ["verify", "--key", key, "--insecure-ignore-tlog"];
        let place = ["--allow-http-registry", &self.image()];
        self.cosign(&[&arguments[..], more, &place].concat())
    }

    /// Whether a command has an option: versions 2 and 3 differ.
    fn knows(&self, command: &str, option: &str) -> bool {
        let help = self.cosign(&[command, "--help"]);
        [&help.stdout, &help.stderr].iter().any(|text| text.contains(option))
    }

    fn image(&self) -> String {
        let host = self.shared.registry.host();
        format!("{host}/uenv/deploy/here/x86_64/app/1.0:v1")
    }

    fn key(&self, name: &str) -> String {
        let key = self.path(name);
        self.cabane(&["image", "key", "new", &key]).success();
        key
    }
}

/// The program, where someone has brought it.
fn cosign() -> Option<PathBuf> {
    Program::find("cosign").path()
}

#[test]
fn cosign_accepts_what_was_signed_here() {
    needs!("docker-registry");
    let Some(program) = cosign() else {
        belongs_to!("CABANE_TEST_COSIGN=PROGRAM make test");
    };
    let cosign = Cosign::here(program);
    let (key, other) = (cosign.key("site"), cosign.key("other"));
    cosign.cabane(&["image", "sign", APP, "--key", &key]).success();
    cosign.verify(&format!("{key}.pub")).success();
    let refused = cosign.verify(&format!("{other}.pub"));
    assert_ne!(refused.code, 0, "{}", refused.stderr);
}

#[test]
fn what_cosign_signs_with_a_key_of_its_own_is_accepted_here() {
    needs!("docker-registry");
    let Some(program) = cosign() else {
        belongs_to!("CABANE_TEST_COSIGN=PROGRAM make test");
    };
    let cosign = Cosign::here(program);
    let prefix = cosign.path("theirs");
    cosign.cosign(&["generate-key-pair", "--output-key-prefix", &prefix]).success();
    sign(&cosign, &format!("{prefix}.key"));
    let public = format!("{prefix}.pub");
    let verify = ["image", "verify", "--remote", "app", "--key", &public];
    cosign.cabane(&verify).success();
}

#[test]
fn both_sign_with_one_key_side_by_side() {
    needs!("docker-registry");
    let Some(program) = cosign() else {
        belongs_to!("CABANE_TEST_COSIGN=PROGRAM make test");
    };
    let cosign = Cosign::here(program);
    let (key, other) = (cosign.key("site"), cosign.key("other"));
    let imported = cosign.path("imported");
    let import = ["import-key-pair", "--key", &key, "--output-key-prefix"];
    cosign.cosign(&[&import[..], &[&imported]].concat()).success();
    cosign.cabane(&["image", "sign", APP, "--key", &other]).success();
    sign(&cosign, &format!("{imported}.key"));
    for name in [&key, &other] {
        // Where there are bundles, version 3 does not look at other signatures by default.
        let is_old = name == &other && cosign.knows("sign", "--use-signing-config");
        let more: &[&str] = if is_old { &["--new-bundle-format=false"] } else { &[] };
        cosign.verify_with(&format!("{name}.pub"), more).success();
        let public = format!("{name}.pub");
        let verify = ["image", "verify", "--remote", "app", "--key", &public];
        cosign.cabane(&verify).success();
    }
}

fn sign(cosign: &Cosign, key: &str) {
    // Version 3 has another default.
    let is_known = cosign.knows("sign", "--use-signing-config");
    let own: &[&str] = if is_known { &["--use-signing-config=false"] } else { &[] };
    let arguments = ["sign", "--key", key, "--tlog-upload=false", "--yes"];
    let place = ["--allow-http-registry", &cosign.image()];
    cosign.cosign(&[&arguments[..], own, &place].concat()).success();
}
