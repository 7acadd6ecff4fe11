// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use cabane_testkit::needs;

use super::*;

/// A directory in which keys are made.
struct Bench(tempfile::TempDir);

impl Bench {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn openssl(&self, arguments: &str) {
        let mut command = Command::new("openssl");
        let command = command.args(arguments.split(' ')).current_dir(self.0.path());
        let output = command.output().unwrap();
        let messages = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "openssl {arguments}: {messages}");
    }

    /// A private key in the file `key`, and the public one in `key.pub`, by OpenSSL.
    fn openssl_pair(&self, kind: &str) {
        self.openssl(&format!("genpkey -out key {kind}"));
        self.openssl("pkey -in key -pubout -out key.pub");
    }

    fn private(&self, name: &str) -> Result<SigningKey, String> {
        let read = SigningKey::read(&self.path(name));
        read.map(|(key, _)| key).map_err(|error| error.to_string())
    }

    fn public(&self, name: &str) -> Result<PublicKey, String> {
        PublicKey::read(&self.path(name)).map_err(|error| error.to_string())
    }
}

const P256: &str = "-algorithm EC -pkeyopt ec_paramgen_curve:P-256";

#[test]
fn what_a_key_signs_its_public_key_accepts() {
    let bench = Bench::new();
    let (key, public) = SigningKey::generate(&bench.path("key")).unwrap();
    let public = PublicKey::read(&public).unwrap();
    let signature = key.sign(b"text").unwrap();
    assert!(public.accepts(b"text", &signature));
    assert!(!public.accepts(b"test", &signature));
}

#[test]
fn a_new_private_key_is_for_its_owner_only() {
    let bench = Bench::new();
    let path = bench.path("key");
    SigningKey::generate(&path).unwrap();
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(SigningKey::read(&path).unwrap().1, None);
}

#[test]
fn a_key_is_never_overwritten() {
    for taken in ["key", "key.pub"] {
        let bench = Bench::new();
        bench.file(taken, "mine");
        let error = SigningKey::generate(&bench.path("key")).unwrap_err();
        assert!(error.to_string().contains("not overwritten"), "{error}");
        assert_eq!(fs::read_to_string(bench.path(taken)).unwrap(), "mine");
        assert_eq!(fs::read_dir(bench.0.path()).unwrap().count(), 1);
    }
}

#[test]
fn a_private_key_that_others_can_read_is_warned_about() {
    let bench = Bench::new();
    let path = bench.path("key");
    SigningKey::generate(&path).unwrap();
    for mode in [0o640, 0o604] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let (_, warning) = SigningKey::read(&path).unwrap();
        let text = warning.unwrap().warning;
        assert!(text.starts_with("others can read the private key"), "{text}");
    }
}

#[test]
fn keys_that_openssl_makes_are_read() {
    needs!("openssl");
    let bench = Bench::new();
    bench.openssl_pair(P256);
    let key = bench.private("key").unwrap();
    assert_eq!(key.public(), bench.public("key.pub").unwrap());
}

#[test]
fn openssl_reads_the_keys_that_are_made_here() {
    needs!("openssl");
    let bench = Bench::new();
    SigningKey::generate(&bench.path("key")).unwrap();
    bench.openssl("pkey -in key -check -noout");
    bench.openssl("pkey -in key -pubout -out by-openssl");
    let by_openssl = fs::read_to_string(bench.path("by-openssl")).unwrap();
    assert_eq!(fs::read_to_string(bench.path("key.pub")).unwrap(), by_openssl);
}

#[test]
fn openssl_accepts_what_was_signed_here_and_the_other_way_round() {
    needs!("openssl");
    let bench = Bench::new();
    bench.openssl_pair(P256);
    let key = bench.private("key").unwrap();
    bench.file("text", "what is signed");
    fs::write(bench.path("ours"), key.sign(b"what is signed").unwrap()).unwrap();
    bench.openssl("dgst -sha256 -verify key.pub -signature ours text");
    bench.openssl("dgst -sha256 -sign key -out theirs text");
    let theirs = fs::read(bench.path("theirs")).unwrap();
    assert!(key.public().accepts(b"what is signed", &theirs));
}

#[test]
fn keys_of_another_kind_are_refused() {
    needs!("openssl");
    for kind in [
        "-algorithm ED25519",
        "-algorithm RSA",
        "-algorithm EC -pkeyopt ec_paramgen_curve:P-384",
        "-algorithm EC -pkeyopt ec_paramgen_curve:P-256 -pkeyopt ec_param_enc:explicit",
    ] {
        let bench = Bench::new();
        bench.openssl_pair(kind);
        let private = bench.private("key").unwrap_err();
        let public = bench.public("key.pub").unwrap_err();
        for error in [private, public] {
            assert!(error.ends_with("is not an ECDSA key on the curve P-256"), "{kind}: {error}");
        }
    }
}

#[test]
fn an_encrypted_key_is_decrypted_as_the_hint_says() {
    needs!("openssl");
    let bench = Bench::new();
    bench.openssl_pair(P256);
    bench.openssl("pkcs8 -topk8 -in key -out locked -passout pass:secret");
    let error = SigningKey::read(&bench.path("locked")).unwrap_err();
    assert!(error.to_string().ends_with("is encrypted"), "{error}");
    assert!(error.hints()[0].contains("openssl pkcs8 -topk8 -nocrypt -in "));
    bench.openssl("pkcs8 -topk8 -nocrypt -in locked -out open -passin pass:secret");
    assert_eq!(bench.private("open").unwrap().public(), bench.public("key.pub").unwrap());
}

#[test]
fn a_key_in_the_old_form_is_converted_as_the_hint_says() {
    needs!("openssl");
    let bench = Bench::new();
    bench.openssl("ecparam -name prime256v1 -genkey -out old");
    let error = SigningKey::read(&bench.path("old")).unwrap_err();
    assert!(error.to_string().ends_with("is not in the form PKCS#8"), "{error}");
    assert!(error.hints()[0].contains("openssl pkcs8 -topk8 -nocrypt -in "));
    bench.openssl("pkcs8 -topk8 -nocrypt -in old -out new");
    assert!(bench.private("new").is_ok());
}

#[test]
fn encrypted_keys_of_cosign_are_named_for_what_they_are() {
    let bench = Bench::new();
    for kind in ["ENCRYPTED SIGSTORE PRIVATE KEY", "ENCRYPTED COSIGN PRIVATE KEY"] {
        let path = bench.file("key", &pem::write(kind, b"secret"));
        let error = SigningKey::read(&path).unwrap_err();
        assert!(error.to_string().contains("in the way of cosign"), "{error}");
        assert!(error.hints()[0].contains("cosign import-key-pair"));
    }
}

#[test]
fn the_two_kinds_of_keys_are_not_mixed_up() {
    let bench = Bench::new();
    SigningKey::generate(&bench.path("key")).unwrap();
    let error = bench.public("key").unwrap_err();
    assert!(error.ends_with("is a private key, and a public one is wanted"), "{error}");
    let error = bench.private("key.pub").unwrap_err();
    assert!(error.ends_with("is a public key, and a private one is wanted"), "{error}");
}

#[test]
fn damaged_keys_are_refused() {
    let bench = Bench::new();
    SigningKey::generate(&bench.path("key")).unwrap();
    for name in ["key", "key.pub"] {
        let text = fs::read_to_string(bench.path(name)).unwrap();
        for length in 0..text.len() - 1 {
            bench.file("cut", &text[..length]);
            assert!(bench.private("cut").is_err(), "{length} bytes of {name}");
            assert!(bench.public("cut").is_err(), "{length} bytes of {name}");
        }
    }
}

#[test]
fn no_error_shows_what_is_in_a_private_key() {
    let bench = Bench::new();
    let path = bench.path("key");
    SigningKey::generate(&path).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let secret = text.lines().nth(1).unwrap();
    let broken = bench.file("broken", &text.replace("BEGIN PRIVATE", "BEGIN SECRET"));
    let error = SigningKey::read(&broken).unwrap_err();
    assert!(!format!("{error} {error:?}").contains(secret));
    let (key, _) = SigningKey::read(&path).unwrap();
    assert!(!format!("{key:?}").contains(secret));
}
