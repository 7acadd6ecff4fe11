// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What an image says about itself.

use cabane_view::Meta;
use serde_json::{Value, json};

use crate::kit::{Flat, dir, file, flat, flat_of, layer, link};

fn with(run: &Value) -> Flat {
    let bytes = layer(&[file("a", "")]);
    let config = json!({"os": "linux", "architecture": "amd64", "config": run});
    flat_of(&[(bytes.clone(), bytes)], config).unwrap()
}

/// The metadata as the next one reads them.
fn meta(flat: &Flat) -> Meta {
    Meta::from_json(flat.converted.meta.to_json().as_bytes()).unwrap()
}

fn variables(flat: &Flat) -> Vec<(String, String)> {
    let meta = meta(flat);
    let view = meta.views.values().next().unwrap();
    let changes =
        view.patch.iter().map(|(name, changes)| (name.to_owned(), format!("{changes:?}")));
    let mut changes: Vec<_> = changes.collect();
    changes.sort();
    changes
}

#[test]
fn what_an_image_starts_is_kept() {
    let flat = with(&json!({
        "Entrypoint": ["/entry"], "Cmd": ["serve", "-v"], "WorkingDir": "data/x", "User": "1000",
        "Labels": {"org.opencontainers.image.description": "a tool"}
    }));
    let meta = meta(&flat);
    let container = meta.container.unwrap();
    assert_eq!(
        (
            [container.entrypoint, container.command].concat().join(" ").as_str(),
            container.working_directory.as_deref(),
            container.user.as_deref(),
            meta.description.as_deref(),
            meta.mount.unwrap().as_str(),
            meta.engine.as_deref(),
        ),
        ("/entry serve -v", Some("/data/x"), Some("1000"), Some("a tool"), "/", Some("container"))
    );
}

#[test]
fn the_directory_in_which_it_starts_is_made_where_nothing_is() {
    let flat = with(&json!({"WorkingDir": "/work/here"}));
    assert_eq!(flat.names(), ["a", "work", "work/here"]);
    let made = &flat.converted.report.changed.mount_points;
    assert!(made.contains(&"/work/here".to_owned()), "{made:?}");

    let layers = layer(&[file("file", ""), link("link", "tree"), dir("tree"), link("lost", "x")]);
    let names = |directory: &str| {
        let run = json!({"WorkingDir": directory});
        let config = json!({"os": "linux", "architecture": "amd64", "config": run});
        let flat = flat_of(&[(layers.clone(), layers.clone())], config).unwrap();
        flat.names().join(" ")
    };
    assert_eq!(names("/link/here"), "file link lost tree tree/here");
    for taken in ["/file", "/file/here", "/lost", "/lost/here", "/tree", "/"] {
        assert_eq!(names(taken), "file link lost tree", "{taken}");
    }
}

#[test]
fn variables_of_the_image_are_set_and_those_about_the_user_are_not() {
    let flat = with(&json!({"Env": ["A=b=c", "HOME=/root", "PATH=/x", "E="]}));
    let seen = variables(&flat);
    let set = |name: &str, value: &str| (name.to_owned(), format!("[Set({value:?})]"));
    assert_eq!(
        (seen, flat.converted.report.changed.variables.join(" ").as_str()),
        (vec![set("A", "b=c"), set("E", ""), set("PATH", "/x")], "HOME")
    );
}

#[test]
fn an_image_without_path_gets_the_usual_one() {
    let seen = variables(&with(&json!({})));
    assert!(seen[0].1.contains("/usr/local/sbin:"), "{seen:?}");
}

#[test]
fn a_configuration_with_nulls_is_read() {
    let flat = with(&json!({"Env": null, "Entrypoint": null, "Cmd": null, "Labels": null}));
    assert_eq!(meta(&flat).container.unwrap().command.len(), 0);
}

fn glibc(entries: &[crate::kit::Entry]) -> Option<String> {
    let flat = flat(&[layer(entries)]).unwrap();
    meta(&flat).container.unwrap().glibc
}

const LIBRARY: &str = "\x7fELF…\0GLIBC_2.2.5\0GNU C Library (Debian GLIBC 2.36-9+deb12u9) stable \
                       release version 2.36.\nCopyright\0";

#[test]
fn the_version_of_the_c_library_is_read_from_its_bytes() {
    let seen = glibc(&[
        file("usr/lib/x86_64-linux-gnu/libc-2.36.so", LIBRARY),
        link("usr/lib/x86_64-linux-gnu/libc.so.6", "libc-2.36.so"),
        link("lib", "usr/lib"),
    ]);
    assert_eq!(seen.as_deref(), Some("2.36"));
}

#[test]
fn a_c_library_that_does_not_say_its_version_has_that_of_its_newest_symbol() {
    let seen = glibc(&[file("lib64/libc.so.6", "\x7fELF\0GLIBC_2.9\0GLIBC_2.17\0GLIBC_PRIVATE\0")]);
    assert_eq!(seen.as_deref(), Some("2.17"));
}

#[test]
fn an_image_without_a_c_library_has_no_version_of_one() {
    assert_eq!(glibc(&[file("lib/libc.so.6", "a script")]), None);
}

#[test]
fn an_image_with_libraries_of_mpi_says_so() {
    let has_mpi =
        |path: &str| meta(&flat(&[layer(&[file(path, "\x7fELF")])]).unwrap()).needs.mpi.is_some();
    let paths = ["opt/mpi/lib/libmpi.so.12", "usr/lib/libmpich.so.12.1", "usr/lib/libmpiman.so.1"];
    assert_eq!(paths.map(has_mpi), [true, true, false]);
}

#[test]
fn mount_points_are_made_and_what_is_there_stays() {
    let flat = flat(&[layer(&[dir("tmp/").mode(0o1777), file("etc/hosts", "x")])]).unwrap();
    let made = &flat.converted.report.changed.mount_points;
    let has = |path: &str| made.iter().any(|one| one == path);
    assert_eq!(
        ["/proc", "/user-environment", "/etc/passwd", "/tmp", "/etc/hosts", "/etc"].map(has),
        [true, true, true, false, false, false]
    );
}

#[test]
fn a_mount_point_that_leads_to_nothing_becomes_a_file() {
    let flat =
        flat(&[layer(&[link("etc/resolv.conf", "../run/systemd/resolve/stub-resolv.conf")])]);
    let changed = flat.unwrap().converted.report.changed;
    assert_eq!(changed.replaced, ["/etc/resolv.conf"]);
}

#[test]
fn a_directory_of_an_image_that_is_called_meta_gives_way() {
    let flat = flat(&[layer(&[file("meta/env.json", "{}"), file("meta/packages.json", "[]")])]);
    let flat = flat.unwrap();
    assert_eq!(
        (flat.converted.report.changed.replaced.join(" ").as_str(), flat.converted.report.files),
        ("/meta", 4)
    );
}

#[test]
fn an_image_for_better_processors_needs_one() {
    let bytes = layer(&[]);
    let config = json!({"os": "linux", "architecture": "amd64", "variant": "v3"});
    let mut store = crate::kit::Store::default();
    let manifest = store.image(&[(bytes.clone(), bytes)], config);
    let chosen = crate::kit::chosen(&store, manifest).unwrap();
    let platform = "linux/amd64/v3".parse().unwrap();
    let image = cabane_container::ContainerImage::new(&chosen, &store, &platform).unwrap();
    let flat = crate::kit::look_into(&image).unwrap();
    let need = meta(&flat).needs.processor.unwrap();
    assert_eq!(
        (need.targets.join(" ").as_str(), need.features.iter().any(|one| one == "avx2")),
        ("x86_64_v3", true)
    );
}
