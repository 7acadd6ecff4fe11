// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Kernels and servers of Jupyter in images, used by its own programs: in a browser, and by a hub.
//! `scripts/test-clients jupyter` runs these.

use std::path::{Path, PathBuf};

use cabane_testkit::{Finished, Program, Server, belongs_to, free_port, needs};

use crate::cabane::{Cabane, Who};
use crate::kernel::{Notebook, packed};

const IMAGE: &str = "notebook/1.0:v1@here%x86_64";

/// The path of a script of these tests.
fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cli").join(name)
}

#[test]
fn a_notebook_in_a_browser_runs_a_cell_in_an_image() {
    let Some(lab) = Program::find("jupyterlab").path() else {
        belongs_to!("make test-clients CLIENTS=jupyter");
    };
    let (jupyter, tools, chromium) =
        (needs!("jupyter"), needs!("browser-tools"), needs!("chromium"));
    let notebook = Notebook::new(Who::OrdinaryUser, jupyter);
    let cabane = &notebook.cabane;
    cabane.run(&["kernel", "install", "analysis", "--display-name=Analysis in an image"]).success();
    let port = free_port();
    let mut command = cabane.other("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(lab);
    command.args(["--no-browser", "--ip=127.0.0.1", "--IdentityProvider.token=secret"]);
    command.args(["--allow-root", "--ServerApp.port_retries=0"]).arg(format!("--port={port}"));
    let mut server = Server::start(command, &cabane.world.path("lab.log"));
    server.wait_for_port(port);
    let mut browser = cabane.world.command("node");
    browser.arg(script("browser/jupyterlab.js")).arg(chromium);
    browser.arg(format!("http://127.0.0.1:{port}/lab?token=secret"));
    browser.args(["Analysis in an image", "import ipykernel; print(ipykernel.__file__[:17])"]);
    browser.arg("/user-environment").env("NODE_PATH", tools.join("node_modules"));
    // It writes into its home, and may be another user than the server.
    browser.env("HOME", cabane.world.directory("browser"));
    Finished::of(&mut browser).success();
}

#[test]
fn a_hub_starts_a_server_in_an_image_and_stops_it() {
    let Some(lab) = Program::find("jupyterlab").path() else {
        belongs_to!("make test-clients CLIENTS=jupyter");
    };
    let image = packed(&lab);
    // A server refuses to run as root.
    let cabane = Cabane::new(Who::OrdinaryUser);
    cabane.run(&["image", "add", IMAGE, &image.path]).success();
    let directory = cabane.world.directory("hub");
    let path = format!("{}:/usr/bin:/bin", lab.parent().unwrap().display());
    let mut command = cabane.other(lab.with_file_name("python").to_str().unwrap());
    command.arg(script("jupyter/hub.py")).arg(cabane.program()).arg("notebook");
    command.arg("/user-environment/python/bin/jupyterhub-singleuser").arg(&directory);
    let finished = cabane.finish(command.env("PATH", path)).success();
    assert_eq!(finished.stdout, "servers: 1\nkernel: python3\nstopped\n", "{}", finished.stderr);
}
