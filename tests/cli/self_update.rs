// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane self update`: an installation from an archive is replaced by a newer one.

use std::fs;

use cabane_testkit::Finished;

use crate::cabane::{Cabane, Who, everybody, finished};

/// Makes the archive of a release whose command is a script that prints its version, and the list of sums.
const RELEASE: &str = r#"
name=cabane-$1-linux-$(uname -m)
mkdir -p "$name/bin" "$name/share/doc/cabane" releases
printf '#!/bin/sh\necho cabane %s\n' "$1" >"$name/bin/cabane"
chmod +x "$name/bin/cabane"
echo "release $1" >"$name/share/doc/cabane/NEWS"
cp "$INSTALLER" "$name/install.sh"
chmod +x "$name/install.sh"
(cd "$name" && sha256sum bin/cabane share/doc/cabane/NEWS >SHA256SUMS)
tar -czf "releases/$name.tar.gz" "$name"
(cd releases && sha256sum *.tar.gz >SHA256SUMS)
"#;

/// Installs the program under test below a prefix, as `install.sh` of its archive does.
const INSTALL: &str = r#"
name=cabane-old
mkdir -p "$name/bin"
cp "$CABANE" "$name/bin/cabane"
cp "$INSTALLER" "$name/install.sh"
chmod +x "$name/install.sh"
(cd "$name" && sha256sum bin/cabane >SHA256SUMS)
HELPER=no "$name/install.sh" --prefix "$PWD/home/prefix" >&2
rm -r "$name"
"#;

/// A user with an installation and with releases.
struct Site {
    cabane: Cabane,
}

impl Site {
    fn new(who: Who) -> Self {
        let site = Self { cabane: Cabane::new(who) };
        site.shell(INSTALL, &[]).success();
        site
    }

    fn shell(&self, script: &str, arguments: &[&str]) -> Finished {
        let mut shell = self.cabane.other("bash");
        shell.current_dir(self.cabane.world.path(""));
        shell.env("INSTALLER", concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/install.sh"));
        self.cabane.finish(shell.args(["-euc", script, "bash"]).args(arguments))
    }

    fn release(&self, version: &str) {
        self.shell(RELEASE, &[version]).success();
    }

    fn update(&self, arguments: &[&str]) -> Finished {
        let command = "exec home/prefix/bin/cabane self update \"$@\"";
        self.shell(command, arguments)
    }

    fn version(&self) -> String {
        self.shell("home/prefix/bin/cabane --version", &[]).success().stdout
    }

    /// Sets where releases are.
    fn configure(&self, more: &str) {
        let releases = self.cabane.world.path("releases");
        let text = format!("[update]\nsource = \"{}\"\n{more}", releases.display());
        self.cabane.world.file("site.toml", &text);
    }
}

fn running() -> String {
    format!("cabane {}\n", env!("CARGO_PKG_VERSION"))
}

#[test]
fn the_newest_release_of_a_directory_replaces_the_installed_one() {
    for who in everybody() {
        let site = Site::new(who);
        site.release("0.0.1");
        site.configure("");
        let newest = format!("cabane {} is the newest release there\n", env!("CARGO_PKG_VERSION"));
        assert_eq!(site.update(&[]), finished(0, "", &newest), "as {who:?}");
        site.release("900.0.0");
        site.release("900.10.0");
        let planned = site.update(&["--dry-run"]).success().stderr;
        assert!(planned.starts_with("cabane 900.10.0 would replace "), "{planned}");
        assert_eq!(site.version(), running());
        let updated = site.update(&[]).success();
        let replaced = format!("cabane 900.10.0 replaces {}", &running()[7..]);
        assert_eq!(updated, finished(0, "", &replaced), "as {who:?}");
        assert_eq!(site.version(), "cabane 900.10.0\n", "as {who:?}");
        let prefix = site.cabane.world.path("home/prefix");
        assert_eq!(
            fs::read_to_string(prefix.join("share/doc/cabane/NEWS")).unwrap(),
            "release 900.10.0\n"
        );
        let left =
            site.shell("ls \"${TMPDIR:-/tmp}\" | grep ^cabane-update- || true", &[]).success();
        assert_eq!(left.stdout, "", "as {who:?}");
        // What is installed now is removed as if it had been installed at once.
        let uninstall = "\"$INSTALLER\" --prefix \"$PWD/home/prefix\" --uninstall";
        site.shell(&format!("bash {uninstall}"), &[]).success();
        assert!(!prefix.exists(), "as {who:?}");
    }
}

#[test]
fn a_release_that_is_damaged_or_not_signed_is_not_installed() {
    let site = Site::new(Who::OrdinaryUser);
    site.release("900.0.0");
    let sign = "test -e releases.key || \"$CABANE\" image key new releases.key\n\
                openssl dgst -sha256 -sign \"$1\" releases/SHA256SUMS >signature\n\
                if [ \"$2\" = text ]; then base64 -w 0 signature; else cat signature; fi >releases/SHA256SUMS.sig";
    site.shell(sign, &["releases.key", "text"]).success();
    let key = site.cabane.world.path("releases.key.pub");
    site.configure(&format!("keys = [\"{}\"]\n", key.display()));

    site.shell("cp releases/SHA256SUMS good; echo >>releases/SHA256SUMS", &[]).success();
    let refused = site.update(&[]);
    let message = "error: no key of `update.keys` signed SHA256SUMS of [WORLD]/releases; nothing was installed\n";
    assert_eq!(refused, finished(12, "", message));

    site.shell("cp good releases/SHA256SUMS; mv releases/SHA256SUMS.sig kept", &[]).success();
    let unsigned = site.update(&[]);
    assert!(unsigned.code != 0 && unsigned.stderr.contains("SHA256SUMS.sig"), "{unsigned:?}");

    site.shell(
        "mv kept releases/SHA256SUMS.sig; echo >>releases/cabane-900.0.0-linux-$(uname -m).tar.gz",
        &[],
    )
    .success();
    let damaged = site.update(&[]);
    assert!(
        damaged.stderr.contains("is damaged: its sum is not that in SHA256SUMS"),
        "{damaged:?}"
    );
    assert_eq!(site.version(), running());

    site.release("900.0.1");
    site.shell(sign, &["releases.key", "binary"]).success();
    // Also an archive that is named needs the signed list beside it.
    site.shell(
        "cp releases/*900.0.1*.tar.gz alone.tar.gz; mkdir alone; cp releases/*900.0.1* alone/",
        &[],
    )
    .success();
    let archive = format!("alone/cabane-900.0.1-linux-{}.tar.gz", std::env::consts::ARCH);
    assert!(site.update(&[&archive]).code != 0);
    site.update(&[]).success();
    assert_eq!(site.version(), "cabane 900.0.1\n");
}

#[test]
fn a_release_is_downloaded_with_https_from_a_server_that_is_trusted() {
    const SERVE: &str = r#"
openssl req -x509 -newkey rsa:2048 -nodes -keyout tls.key -out tls.pem -days 2 -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost 2>/dev/null
python3 - >port <<'END' &
import http.server, ssl, functools, sys
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory="releases")
server = http.server.HTTPServer(("127.0.0.1", 0), handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("tls.pem", "tls.key")
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
END
server=$!
trap 'kill $server' EXIT
until [ -s port ]; do sleep 0.05; done
url=https://localhost:$(cat port)
! home/prefix/bin/cabane self update $url/
CURL_CA_BUNDLE=$PWD/tls.pem home/prefix/bin/cabane self update $url/
"#;
    let site = Site::new(Who::OrdinaryUser);
    site.release("900.0.0");
    let served = site.shell(SERVE, &[]).success();
    assert!(served.stderr.contains("/SHA256SUMS: curl: (60)"), "{served:?}");
    assert_eq!(site.version(), "cabane 900.0.0\n");
}

#[test]
fn what_another_tool_installed_is_left_to_it() {
    let site = Site::new(Who::OrdinaryUser);
    let record = site.cabane.world.path("home/prefix/share/cabane/installed-by");
    for (word, by, hint) in [
        (
            "deb",
            "the package manager",
            "`sudo apt-get install --only-upgrade cabane`; without a package repository, install the file of the package",
        ),
        ("wheel", "the wheel", "`pip install --upgrade cabane`"),
        ("spack", "the Spack package", "`spack install --fresh cabane`"),
        ("clone /c", "its clone", "`git -C /c pull && make -C /c install`"),
    ] {
        site.shell("echo \"$1\" >home/prefix/share/cabane/installed-by", &[word]).success();
        let message = format!(
            "error: this cabane is updated by {by}, and does not replace itself\nhint: {hint}\n"
        );
        assert_eq!(site.update(&["/nowhere"]), finished(2, "", &message), "{}", record.display());
    }
}

#[test]
fn a_mistake_has_one_error_with_what_to_type() {
    let site = Site::new(Who::OrdinaryUser);
    let none = site.update(&[]);
    assert_eq!(none.code, 2);
    assert!(
        none.stderr.contains("hint: name an archive, as in `cabane self update cabane-"),
        "{none:?}"
    );
    let plain = site.update(&["http://example.org/cabane"]);
    assert!(
        plain.stderr.starts_with("error: releases are downloaded with https only"),
        "{plain:?}"
    );
    site.shell("mkdir empty; touch empty/SHA256SUMS other.tar.gz", &[]).success();
    let empty = site.update(&["empty"]);
    let machine = std::env::consts::ARCH;
    let message = format!("error: SHA256SUMS of empty names no archive for Linux on {machine}\n");
    assert_eq!(empty, finished(4, "", &message));
    let other = site.update(&["other.tar.gz"]);
    assert!(other.stderr.contains("is not the name of an archive for this machine"), "{other:?}");
    let torn = format!("cabane-900.0.0-linux-{machine}.tar.gz");
    site.shell("head -c 100 /dev/zero >\"$1\"", &[&torn]).success();
    let torn = site.update(&[&torn]);
    assert!(torn.code != 0 && torn.stderr.contains("cannot unpack "), "{torn:?}");
    site.shell("chmod a-w home/prefix/bin", &[]).success();
    let closed = site.update(&["empty"]);
    assert!(
        closed.stderr.contains("hint: `sudo [WORLD]/home/prefix/bin/cabane self update`"),
        "{closed:?}"
    );
    site.shell("chmod u+w home/prefix/bin", &[]).success();
    assert_eq!(site.version(), running());
}
