// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A list of images that a web server has, in the form of uenv's listing service.

use std::fs;
use std::process::Stdio;

use cabane_testkit::{Server, free_port, needs};
use serde_json::Value;

use crate::cabane::{APP, Who};
use crate::registry::Shared;

/// A web server for a directory.
fn served(shared: &Shared) -> (Server, String) {
    let port = free_port();
    let directory = shared.cabane.world.directory("www");
    let mut command = Server::command("python3");
    command.args(["-m", "http.server", "--bind", "127.0.0.1", &port.to_string()]);
    command.arg("--directory").arg(&directory).stdin(Stdio::null());
    let mut server = Server::start(command, &shared.cabane.world.path("www.log"));
    server.wait_for_port(port);
    (server, format!("http://127.0.0.1:{port}"))
}

#[test]
fn a_list_is_written_for_a_web_server_and_read_from_there() {
    needs!("docker-registry");
    needs!("python3");
    let shared = Shared::pushed(Who::OrdinaryUser);
    let (server, address) = served(&shared);
    let file = shared.cabane.world.path("work/deploy.json");
    let file = file.to_str().unwrap();
    shared.run(&["registry", "serve-list", "--output", file]).success();
    let text = fs::read_to_string(file).unwrap();
    let list: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(list["results"][0]["path"], "deploy/here/x86_64/app/1.0/v1", "{list}");
    let printed = shared.run(&["registry", "serve-list"]).success().stdout;
    assert_eq!(printed.trim_end(), text);
    fs::copy(file, shared.cabane.world.path("www/deploy.json")).unwrap();
    let url = format!("url = \"{}/uenv\"", shared.registry.url());
    shared.configure(&format!("{url}\nlisting_url = \"{address}/{{namespace}}.json\""));
    assert_eq!(shared.labels(&[]), [APP]);
    assert!(server.log().contains("GET /deploy.json"), "{}", server.log());
    // It is what the file says, until that is written again.
    shared.run(&["image", "copy", APP, "app/2.0:v1"]).success();
    assert_eq!(shared.labels(&[]), [APP]);
    shared.forget();
    shared.run(&["image", "pull", "app"]).success();
    let missing = shared.run(&["image", "find", "other::"]);
    assert_eq!(missing.code, 11, "{}", missing.stderr);
    assert!(missing.stderr.contains("is not available: 404"), "{}", missing.stderr);
    assert!(missing.stderr.contains("`listing_url`"), "{}", missing.stderr);
    fs::write(shared.cabane.world.path("www/deploy.json"), "no list").unwrap();
    let damaged = shared.run(&["image", "find"]);
    assert_eq!(damaged.code, 11);
    assert!(damaged.stderr.contains("cannot be understood"), "{}", damaged.stderr);
    // Another registry has nothing to do with it.
    let other = format!("{}/empty", shared.registry.url());
    shared.run(&["image", "find", "--registry", &other]).success();
}
