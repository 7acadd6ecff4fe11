// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Build caches that want a secret, with real Spack: a registry, and S3.
//!
//! Both are servers on this machine, for one test each. `make test-spack` runs these;
//! `CABANE_TEST_S3` names a Python that has `moto` with its server.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Command;

use cabane_testkit::{Finished, RealRegistry, Server, belongs_to, free_port, needs};

use crate::spack_real::{Real, small_recipe};

/// Makes a bucket and an account that may use it, and prints the account and its secret.
/// From then on every request must be signed.
const ACCOUNT: &str = r#"
import sys, boto3
at = dict(endpoint_url=sys.argv[1], region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="y")
boto3.client("s3", **at).create_bucket(Bucket="stacks")
iam = boto3.client("iam", **at)
iam.create_user(UserName="me")
policy = '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}'
iam.put_user_policy(UserName="me", PolicyName="all", PolicyDocument=policy)
key = iam.create_access_key(UserName="me")["AccessKey"]
print(key["AccessKeyId"])
print(key["SecretAccessKey"])
"#;
/// How many requests that makes.
const UNSIGNED: &str = "4";

/// A registry with a password, and a certificate that is trusted from now on: Spack sends
/// passwords over TLS only as it should.
fn registry(real: &mut Real) -> RealRegistry {
    let world = &real.cabane.world;
    let options = RealRegistry::options(&world.path("registry"));
    let registry = options.with_tls().with_password("me", "swordfish").start();
    let others = env::var("SSL_CERT_FILE");
    let others = others.unwrap_or_else(|_| "/etc/ssl/certs/ca-certificates.crt".to_owned());
    let trusted = world.path("home/trusted.pem");
    let mut all = fs::read(others).unwrap();
    all.extend(fs::read(registry.authority()).unwrap());
    fs::write(&trusted, all).unwrap();
    real.variables.push(("SSL_CERT_FILE", trusted.to_string_lossy().into_owned()));
    registry
}

/// S3 with one account: the server, its address, the account, its secret.
fn s3(python: &Path, log: &Path) -> (Server, String, String, String) {
    let port = free_port();
    let mut command = Server::command(python.with_file_name("moto_server"));
    command
        .args(["-H", "127.0.0.1", "-p", &port.to_string()])
        .env("INITIAL_NO_AUTH_ACTION_COUNT", UNSIGNED);
    let mut server = Server::start(command, log);
    server.wait_for_port(port);
    let address = format!("http://127.0.0.1:{port}");
    let made = Finished::of(Command::new(python).args(["-c", ACCOUNT, &address])).success();
    let mut lines = BufReader::new(made.stdout.as_bytes()).lines();
    let mut line = || lines.next().unwrap().unwrap();
    let (account, secret) = (line(), line());
    (server, address, account, secret)
}

/// Builds without the cache, into it, from it, and with a wrong secret, which is named.
fn assert_cache_works(real: &mut Real, cache: &str, secret: &str) {
    let recipe = small_recipe(real, "");
    let sources = fs::read_to_string(real.cabane.world.path("system/mirrors.yaml")).unwrap();
    let mirrors = format!("{sources}buildcache:\n  name: site\n  signed: false\n{cache}");
    let mirrors = real.cabane.world.file("home/mirrors.yaml", &mirrors);
    let mirrors = ["--mirrors", mirrors.to_str().unwrap()];
    let build = |real: &Real, name: &str, more: &[&str]| {
        let label = format!("{name}/1.0");
        real.build_with(&recipe, name, &label, more);
        // Only the cache of the site has them now.
        let own = real.cabane.world.path("home/.cache/cabane/spack/packages");
        fs::remove_dir_all(own).unwrap();
        let log = real.cabane.world.path(&format!("{name}/logs/install.log"));
        let log = fs::read_to_string(log).unwrap();
        (real.digest(&label), log.contains(" staging ("))
    };
    let without = build(real, "without", &[]);
    real.variables.push(("OUR_SECRET", secret.to_owned()));
    let put = build(real, "put", &mirrors);
    // There is nothing to be put into it any more.
    fs::create_dir_all(real.cabane.world.path("home/.cache/cabane/spack/packages")).unwrap();
    let taken = build(real, "taken", &mirrors);
    assert_eq!(put, without);
    assert_eq!(taken, (without.0, false));

    real.variables.push(("OUR_SECRET", "wrong".to_owned()));
    let refused = real.try_to_build(&recipe, "refused", &["refused/1.0", mirrors[0], mirrors[1]]);
    let reported = "warning: the mirror `site` may have refused what is in ";
    assert!(refused.stderr.contains(reported), "{refused:?}");
    assert!(refused.stderr.contains("`OUR_SECRET`"), "{refused:?}");

    // Also in what is compressed.
    let script = "grep -rlaF -e \"$2\" \"$1\"; find \"$1\"/registry \"$1\"/home/.cache/cabane/spack/packages \
                  -type f -exec zgrep -alF -e \"$2\" {} +; true";
    let world = real.cabane.world.path("");
    let mut search = Command::new("sh");
    search.args(["-c", script, "sh"]).arg(world).arg(secret);
    assert_eq!(Finished::of(&mut search).stdout, "");
}

#[test]
fn a_registry_that_wants_a_password_is_filled_and_read() {
    let Some(mut real) = Real::new() else {
        belongs_to!("make test-spack");
    };
    needs!("docker-registry");
    let registry = registry(&mut real);
    let cache = format!(
        "  url: oci://{}/stacks\n  access_pair: {{id: me, secret_variable: OUR_SECRET}}\n",
        registry.host()
    );
    assert_cache_works(&mut real, &cache, "swordfish");
}

#[test]
fn a_bucket_that_wants_a_secret_is_filled_and_read() {
    let Some(mut real) = Real::new() else {
        belongs_to!("make test-spack");
    };
    let Some(python) = env::var_os("CABANE_TEST_S3") else {
        belongs_to!("make test-spack");
    };
    let log = real.cabane.world.path("s3.log");
    let (_server, address, account, secret) = s3(Path::new(&python), &log);
    real.variables.push(("OUR_ACCOUNT", account));
    let cache = format!(
        "  url: s3://stacks/cache\n  endpoint_url: {address}\n  access_pair: \
         {{id_variable: OUR_ACCOUNT, secret_variable: OUR_SECRET}}\n"
    );
    assert_cache_works(&mut real, &cache, &secret);
}
