// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A registry behind nginx, as sites have it.

use std::fs;
use std::net::TcpListener;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cabane_testkit::{
    Bearer, Finished, HostileRegistry, Nginx, RealRegistry, RealRegistryOptions, needs,
    only_for_registries,
};

use crate::cabane::{APP, Cabane, Who, everybody};
use crate::registry::{Shared, large};

const DENIED: i32 = 11;

/// What servers in the configurations of the tests have in common.
const TLS: &str = "listen 127.0.0.1:{port} ssl;
    ssl_certificate {certificate};
    ssl_certificate_key {key};";
const FORWARD: &str = "proxy_pass http://{registry};
    proxy_set_header Host $http_host;
    proxy_set_header X-Forwarded-Proto $scheme;";

/// An image, and a registry behind nginx.
struct Site {
    shared: Shared,
    nginx: Nginx,
}

impl Site {
    /// With servers of nginx. `{tls}` and `{forward}` are what most have.
    fn new(who: Who, configuration: &str) -> Self {
        Self::with(who, |options| options, configuration)
    }

    fn with(
        who: Who,
        options: impl Fn(RealRegistryOptions) -> RealRegistryOptions,
        configuration: &str,
    ) -> Self {
        let cabane = Cabane::with_app(who);
        let registry = options(RealRegistry::options(&cabane.world.path("registry"))).start();
        let data = registry.data().join("docker/registry/v2/blobs/sha256");
        let nginx = Nginx::new(&cabane.world.path("nginx"))
            .with("registry", &registry.host())
            .with("blobs", &data.display().to_string())
            .with("tls", TLS)
            .with("forward", FORWARD)
            .with_password("alice", "swordfish")
            .start(configuration);
        let site = Self { shared: Shared { cabane, registry }, nginx };
        site.configure(&format!("https://{}/uenv", site.nginx.host()), "");
        site
    }

    fn configure(&self, url: &str, more: &str) {
        let authority = self.nginx.authority().display();
        self.shared.configure(&format!("url = \"{url}\"\nca = \"{authority}\"\n{more}"));
    }

    /// Names a user in the configuration, with a password.
    fn configure_as(&self, url: &str, user: &str, password: &str) {
        let token = self.shared.cabane.world.file("work/token", password);
        let token = token.display();
        self.configure(url, &format!("username = \"{user}\"\ntoken = \"{token}\""));
    }

    fn run(&self, arguments: &[&str]) -> Finished {
        self.shared.run(arguments)
    }

    /// Pulls the image that the registry has, and starts it.
    fn pull_and_run(&self) {
        self.shared.forget();
        self.run(&["image", "pull", "app"]).success();
        assert_eq!(self.run(&["run", "app", "--", "hello"]).success().stdout, "hello from app\n");
    }

    fn push_and_pull(&self) {
        self.run(&["image", "push", APP]).success();
        assert_eq!(self.shared.labels(&["app"]), [APP]);
        self.pull_and_run();
    }

    /// Makes an image of so many megabytes that is in no repository.
    fn large(&self, megabytes: usize) -> String {
        large(&self.shared, "large", megabytes)
    }

    /// Runs a command that the registry or the way to it makes fail, and returns what is shown.
    fn denied(&self, arguments: &[&str]) -> String {
        let refused = self.run(arguments);
        assert_eq!(refused.code, DENIED, "{}", refused.stderr);
        assert!(!refused.stderr.contains("swordfish"), "{}", refused.stderr);
        refused.stderr
    }

    /// The requests of a method whose line in the log contains a text.
    fn requests(&self, method: &str, text: &str) -> Vec<String> {
        let mut requests = self.nginx.requests();
        requests.retain(|line| line.starts_with(method) && line.contains(text));
        requests
    }
}

// ── addresses and passwords ──────────────────────────────────────────────────

/// The configuration in the guide, for the ports and files of a test.
fn configuration_of_guide() -> String {
    let guide = include_str!("../../docs/guides/share-images.md");
    let (_, rest) = guide.split_once("```nginx\n").unwrap();
    let (configuration, _) = rest.split_once("```").unwrap();
    let mut text = configuration.to_owned();
    for (real, word) in [
        ("listen 443 ", "listen 127.0.0.1:{port} "),
        ("listen 80;", "listen 127.0.0.1:{other_port};"),
        ("https://$host$", "https://127.0.0.1:{port}$"),
        ("/etc/nginx/tls/registry.pem", "{certificate}"),
        ("/etc/nginx/tls/registry.key", "{key}"),
        ("/etc/nginx/registry.passwords", "{passwords}"),
        ("127.0.0.1:5000", "{registry}"),
    ] {
        assert!(text.contains(real), "{real}");
        text = text.replace(real, word);
    }
    text
}

#[test]
fn everything_works_with_the_configuration_in_the_guide() {
    needs!("docker-registry");
    needs!("nginx");
    for who in everybody() {
        let site = Site::new(who, &configuration_of_guide());
        let url = format!("https://{}/site/uenv", site.nginx.host());
        let key = site.shared.cabane.world.path("work/key").display().to_string();
        site.run(&["image", "key", "new", &key]).success();
        site.configure_as(&url, "alice", "swordfish");
        let path = site.shared.cabane.world.path("site.toml");
        let rules = format!(
            "[[trust]]\nnamespace = \"deploy\"\nrequire = \"signature\"\nkeys = [\"{key}.pub\"]\n\
             [[channel]]\nname = \"stable\"\nkeys = [\"{key}.pub\"]\n"
        );
        let text = fs::read_to_string(&path).unwrap() + &rules;
        fs::write(&path, text).unwrap();
        site.run(&["image", "push", "--sign", &key, APP]).success();
        site.run(&["channel", "promote", "stable", APP, "--key", &key]).success();
        assert_eq!(site.shared.labels(&["--refresh", "app:stable"]), [APP]);
        site.shared.forget();
        site.run(&["image", "pull", "app:stable"]).success();
        let output = site.run(&["run", "app", "--", "hello"]).success().stdout;
        assert_eq!(output, "hello from app\n");
        site.run(&["image", "copy", APP, "build::app/2.0:v7"]).success();
        site.run(&["image", "delete", "build::app/2.0:v7@here%x86_64"]).success();
        assert_eq!(site.shared.labels(&["build::"]), [""; 0]);
    }
}

#[test]
fn nginx_wants_a_password_that_is_right() {
    needs!("docker-registry");
    needs!("nginx");
    let site = Site::new(Who::OrdinaryUser, &configuration_of_guide());
    let reported = site.denied(&["image", "push", APP]);
    assert!(reported.contains("requires you to log in"), "{reported}");
    let url = format!("https://{}/uenv", site.nginx.host());
    site.configure_as(&url, "alice", "another");
    let reported = site.denied(&["image", "push", APP]);
    assert!(reported.contains("does not accept the password of `alice`"), "{reported}");
    site.configure_as(&url, "alice", "swordfish");
    site.push_and_pull();
}

#[test]
fn an_address_without_encryption_is_corrected_in_a_hint() {
    needs!("docker-registry");
    needs!("nginx");
    let site = Site::new(Who::OrdinaryUser, &configuration_of_guide());
    let plain = format!("http://{}/uenv", site.nginx.other_host());
    site.configure_as(&plain, "alice", "swordfish");
    for arguments in [&["image", "find"][..], &["image", "pull", APP], &["image", "push", APP]] {
        let reported = site.denied(arguments);
        let hint = format!("`https://{}/uenv`", site.nginx.host());
        assert!(reported.contains(&hint), "{reported}");
    }
    site.configure(&format!("http://{}/uenv", site.nginx.host()), "");
    for arguments in [&["image", "find"][..], &["image", "push", APP]] {
        let reported = site.denied(arguments);
        assert!(reported.contains("use `https://"), "{reported}");
    }
    let asked = site.nginx.other_requests();
    assert!(!asked.is_empty() && asked.iter().all(|line| line.ends_with(" 301 -")), "{asked:?}");
    let asked = site.nginx.requests();
    assert!(asked.iter().all(|line| line.ends_with(" -")), "{asked:?}");
}

#[test]
fn a_push_to_an_address_that_redirects_names_the_right_one() {
    needs!("docker-registry");
    needs!("nginx");
    let site = Site::new(
        Who::OrdinaryUser,
        "server { {tls} location /v2/ { {forward} } }
        server {
            listen 127.0.0.1:{other_port};
            return 308 https://127.0.0.1:{port}$request_uri;
        }",
    );
    site.push_and_pull();
    site.configure(&format!("http://{}/uenv", site.nginx.other_host()), "");
    // Reading is no secret.
    assert_eq!(site.shared.labels(&["--refresh", "app"]), [APP]);
    site.pull_and_run();
    let reported = site.denied(&["image", "push", APP, "app/2.0:v1"]);
    let hint = format!("`https://{}/uenv`", site.nginx.host());
    assert!(reported.contains(&hint) && reported.contains("answers 308"), "{reported}");
}

#[test]
fn nginx_may_remove_the_first_part_of_names() {
    only_for_registries!("docker-registry", "distribution");
    needs!("docker-registry");
    needs!("nginx");
    let guide = include_str!("../../docs/guides/share-images.md");
    let line = guide.lines().find(|line| line.starts_with("proxy_redirect ")).unwrap();
    let configuration = "server {
        {tls}
        location /v2/site/ { {forward} proxy_pass http://{registry}/v2/; PROXY_REDIRECT }
    }";
    let configuration = configuration.replace("{forward} ", "").replace("PROXY_REDIRECT", line);
    let site = Site::new(Who::OrdinaryUser, &configuration);
    site.configure(&format!("https://{}/site/uenv", site.nginx.host()), "");
    site.push_and_pull();
    assert_eq!(site.shared.labels(&["--refresh", "app"]), [APP]);
    site.run(&["image", "copy", APP, "app/1.0:v2"]).success();
    // The registry knows the name from which a blob is shared, and not the one that nginx has.
    let reported = site.denied(&["image", "copy", APP, "app/2.0:v1"]);
    assert!(reported.contains("`cabane image push LABEL OTHER_LABEL`"), "{reported}");
    site.run(&["image", "push", APP, "app/2.0:v1"]).success();
    for label in ["app/1.0:v1", "app/1.0:v2"] {
        site.run(&["image", "delete", label]).success();
    }
    assert_eq!(site.shared.labels(&[]), ["app/2.0:v1@here%x86_64"]);
    assert!(site.shared.registry.log().contains("GET /v2/uenv/"));
}

#[test]
fn uploads_go_where_nginx_is_whatever_the_registry_knows_of_it() {
    needs!("docker-registry");
    needs!("nginx");
    let headers = [
        "proxy_set_header Host $http_host;",
        "proxy_set_header Host $host; proxy_set_header X-Forwarded-Proto http;",
        "proxy_set_header X-Forwarded-Host $http_host; proxy_set_header X-Forwarded-Proto https;",
        // nginx itself changes addresses of what it forwards to.
        "",
    ];
    let location = |(number, headers): (usize, &&str)| {
        format!("location /v2/site{number}/ {{ proxy_pass http://{{registry}}; {headers} }}\n")
    };
    let locations: String = headers.iter().enumerate().map(location).collect();
    let site = Site::new(Who::OrdinaryUser, &format!("server {{ {{tls}} {locations} }}"));
    for number in 0..headers.len() {
        let url = format!("https://{}/site{number}", site.nginx.host());
        site.run(&["image", "push", "--registry", &url, APP]).success();
    }
}

#[test]
fn an_inner_address_of_the_registry_is_refused_with_what_to_change() {
    only_for_registries!("docker-registry", "distribution");
    needs!("docker-registry");
    needs!("nginx");
    let configuration =
        "server { {tls} location /v2/ { proxy_pass http://{registry}; proxy_redirect off; } }";
    let who = Who::OrdinaryUser;
    let site = Site::with(who, RealRegistryOptions::with_relative_addresses, configuration);
    site.run(&["image", "push", APP]).success();
    let site = Site::new(who, configuration);
    let reported = site.denied(&["image", "push", APP]);
    assert!(reported.contains("which is not encrypted"), "{reported}");
    assert!(reported.contains("`X-Forwarded-Proto`"), "{reported}");
}

// ── blobs that are elsewhere ─────────────────────────────────────────────────

/// Blobs are read from another server, which wants no password.
const STORE: &str = "
    server {
        {tls}
        auth_basic registry;
        auth_basic_user_file {passwords};
        location ~ ^/v2/.+/blobs/sha256:(?<two>..)(?<rest>[0-9a-f]+)$ {
            if ($request_method = GET) {
                return 307 SCHEME://127.0.0.1:{other_port}/$two/$two$rest/data;
            }
            {forward}
        }
        location /v2/ { {forward} }
    }
    server {
        listen 127.0.0.1:{other_port} SSL;
        ssl_certificate {certificate};
        ssl_certificate_key {key};
        location / { ANSWER }
    }";

fn with_store(scheme: &str, ssl: &str, answer: &str) -> Site {
    let configuration = STORE.replace("SCHEME", scheme).replace("SSL", ssl);
    let site = Site::new(Who::OrdinaryUser, &configuration.replace("ANSWER", answer));
    let url = format!("https://{}/uenv", site.nginx.host());
    site.configure_as(&url, "alice", "swordfish");
    site
}

#[test]
fn blobs_come_from_another_server_that_gets_no_password() {
    only_for_registries!("docker-registry", "distribution");
    needs!("docker-registry");
    needs!("nginx");
    let site = with_store("https", "ssl", "root {blobs};");
    let image = site.large(12);
    site.run(&["image", "push", &image, "large/1.0"]).success();
    site.run(&["image", "pull", "large"]).success();
    site.run(&["run", "large", "--", "true"]).success();
    let asked = site.nginx.other_requests();
    assert!(asked.iter().any(|line| line.contains(" 206 ")), "{asked:?}");
    assert!(asked.iter().all(|line| line.ends_with(" -")), "{asked:?}");
    let redirected = site.requests("GET", " 307 Basic ");
    assert!(!redirected.is_empty(), "{:?}", site.nginx.requests());
}

#[test]
fn a_store_of_blobs_that_refuses_is_named() {
    needs!("docker-registry");
    needs!("nginx");
    for status in [401, 403] {
        let site = with_store("https", "ssl", &format!("return {status};"));
        site.run(&["image", "push", APP]).success();
        site.shared.forget();
        let reported = site.denied(&["image", "pull", "app"]);
        let (store, registry) = (site.nginx.other_host(), site.nginx.host());
        let named = format!("{store}, to which the registry {registry} refers, answers {status}");
        assert!(reported.contains(&named), "{reported}");
        assert!(!reported.contains("alice"), "{reported}");
    }
}

#[test]
fn a_store_of_blobs_that_is_not_encrypted_is_refused() {
    needs!("docker-registry");
    needs!("nginx");
    let site = with_store("http", "", "root {blobs};");
    site.run(&["image", "push", APP]).success();
    site.shared.forget();
    let reported = site.denied(&["image", "pull", "app"]);
    assert!(reported.contains("refers to 127.0.0.1, which is not encrypted"), "{reported}");
    assert_eq!(site.nginx.other_requests(), [""; 0]);
}

// ── limits ───────────────────────────────────────────────────────────────────

/// A limit for all requests, with a pause or without.
fn limited(retry_after: &str) -> Site {
    let configuration = "
        map $status $retry_after { 429 RETRY_AFTER; }
        limit_req_zone $binary_remote_addr zone=all:1m rate=10r/s;
        server {
            {tls}
            limit_req zone=all burst=5 nodelay;
            limit_req_status 429;
            add_header Retry-After $retry_after always;
            location /v2/ { {forward} }
        }";
    Site::new(Who::OrdinaryUser, &configuration.replace("RETRY_AFTER", retry_after))
}

#[test]
fn pulls_at_once_complete_under_a_limit_of_requests() {
    needs!("docker-registry");
    needs!("nginx");
    let site = limited("1");
    let direct = format!("{}/uenv", site.shared.registry.url());
    let labels = ["app/1.0", "app/2.0", "app/3.0", "app/4.0"];
    for label in labels {
        site.run(&["image", "push", "--registry", &direct, APP, label]).success();
    }
    site.shared.forget();
    let pull = |label: &&str| -> Child {
        let mut command = site.shared.cabane.command(&["image", "pull", label]);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let pulls: Vec<Child> = labels.iter().map(pull).collect();
    for pull in pulls {
        let output = pull.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let refused = site.requests("GET", " 429 ");
    assert!(!refused.is_empty(), "{:?}", site.nginx.requests());
}

#[test]
fn a_push_completes_under_a_limit_that_requests_no_pause() {
    needs!("docker-registry");
    needs!("nginx");
    let site = limited("0");
    site.run(&["image", "push", APP]).success();
    let refused = site.requests("", " 429 ");
    assert!(!refused.is_empty(), "{:?}", site.nginx.requests());
}

#[test]
fn a_pause_that_is_too_long_is_shown() {
    needs!("docker-registry");
    needs!("nginx");
    let site = Site::new(
        Who::OrdinaryUser,
        "server { {tls} add_header Retry-After 3600 always; return 429; }",
    );
    let started = Instant::now();
    for arguments in [&["image", "pull", APP][..], &["image", "push", APP]] {
        let reported = site.denied(arguments);
        assert_eq!(reported.matches("answers 429").count(), 1, "{reported}");
        assert!(reported.contains("a pause of 3600 seconds"), "{reported}");
    }
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_limit_of_requests_for_tokens_is_waited_for() {
    needs!("nginx");
    let registry = HostileRegistry::start();
    let cabane = Cabane::with_app(Who::OrdinaryUser);
    let nginx = Nginx::new(&cabane.world.path("nginx")).with("registry", &registry.host()).start(
        "limit_req_zone $binary_remote_addr zone=tokens:1m rate=4r/s;
        server {
            listen 127.0.0.1:{port};
            location /v2/ { proxy_pass http://{registry}; proxy_set_header Host $http_host; }
            location /token {
                limit_req zone=tokens;
                limit_req_status 429;
                proxy_pass http://{registry};
            }
        }",
    );
    let address = format!("http://{}", nginx.host());
    registry.want_token(Bearer::account("alice", "swordfish").at(&address));
    let url = format!("{address}/uenv");
    let token = cabane.world.file("work/token", "swordfish");
    let token = token.to_str().unwrap();
    let given = ["--registry", &url, "--username", "alice", "--token", token];
    cabane.run(&[&["image", "push", APP], &given[..]].concat()).success();
    let requests = nginx.requests();
    let mut tokens = requests.iter().filter(|line| line.starts_with("GET /token"));
    assert!(tokens.any(|line| line.contains(" 429 ")), "{requests:?}");
}

#[test]
fn an_image_that_is_too_large_for_nginx_goes_in_parts() {
    needs!("docker-registry");
    needs!("nginx");
    // The default of nginx is 1 MiB.
    let site = Site::new(Who::OrdinaryUser, "server { {tls} location /v2/ { {forward} } }");
    let image = site.large(3);
    // Its metadata do not fit either.
    let meta = site.shared.cabane.world.path("trees/large/meta");
    fs::copy(&image, meta.join("notes")).unwrap();
    let tree = meta.parent().unwrap();
    fs::remove_file(&image).unwrap();
    cabane_testkit::squashfs(tree, image.as_ref());
    site.run(&["image", "push", &image, "large/1.0"]).success();
    let refused = site.requests("P", " 413 ");
    assert!(refused.iter().any(|line| line.starts_with("PUT ")), "{refused:?}");
    site.run(&["image", "pull", "large"]).success();
    site.run(&["run", "large", "--", "true"]).success();
}

#[test]
fn a_limit_below_the_smallest_part_is_named_with_what_to_change() {
    needs!("docker-registry");
    needs!("nginx");
    let site = Site::new(
        Who::OrdinaryUser,
        "server { {tls} client_max_body_size 200k; location /v2/ { {forward} } }",
    );
    let image = site.large(3);
    let reported = site.denied(&["image", "push", &image, "large/1.0"]);
    assert!(reported.contains("answers 413"), "{reported}");
    assert!(reported.contains("`client_max_body_size 0;`"), "{reported}");
    let sent = site.requests("PATCH", "").len();
    assert!(sent <= 3, "{:?}", site.nginx.requests());
}

// ── a registry that is away ──────────────────────────────────────────────────

#[test]
fn a_registry_that_starts_again_behind_nginx_is_waited_for() {
    needs!("docker-registry");
    needs!("nginx");
    let mut site = Site::new(Who::OrdinaryUser, "server { {tls} location /v2/ { {forward} } }");
    for action in ["push", "pull"] {
        site.shared.registry.stop();
        let mut command = site.shared.cabane.command(&["image", action, APP]);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let before = site.requests("GET", " 502 ").len();
        let child = command.spawn().unwrap();
        let end = Instant::now() + cabane_testkit::time_limit(Duration::from_secs(60));
        while site.requests("GET", " 502 ").len() == before {
            assert!(Instant::now() < end, "{:?}", site.nginx.requests());
            sleep(Duration::from_millis(5));
        }
        site.shared.registry.restart();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        site.shared.forget();
    }
}

#[test]
fn an_answer_that_nginx_does_not_wait_for_is_requested_again() {
    needs!("docker-registry");
    needs!("nginx");
    // It takes connections, and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().unwrap().to_string();
    let configuration = "
        upstream all {
            server SILENT max_fails=1 fail_timeout=60s;
            server {registry} backup;
        }
        server {
            {tls}
            location /v2/ {
                proxy_pass http://all;
                proxy_set_header Host $http_host;
                proxy_next_upstream off;
                proxy_read_timeout 300ms;
            }
        }";
    let site = Site::new(Who::OrdinaryUser, &configuration.replace("SILENT", &silent));
    site.push_and_pull();
    let late = site.requests("", " 504 ");
    assert_eq!(late.len(), 1, "{:?}", site.nginx.requests());
}
