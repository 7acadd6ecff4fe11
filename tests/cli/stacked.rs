// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images that are built on other images: what is mounted with them, and what is said if that is missing.

use std::fs;

use cabane_testkit::{RealRegistry, Tree, needs, squashfs};

use crate::cabane::{APP, Cabane, Who, everybody};
use crate::channels::Bed;
use crate::registry::Shared;

/// The label of the image on which the others are built.
pub(crate) const BASE: &str = "base/1.0:v1@here%x86_64";
/// The program in the base, and what it prints.
const RUN_BOTH: [&str; 5] = ["--", "sh", "-c", "cat $MNT/base/name; top-program", "sh"];

/// Packs an image with a program of its name, built on others: label, digest, and name of each.
fn image(cabane: &Cabane, name: &str, bases: &[(&str, &str, &str)]) -> String {
    let mount = cabane.mount_point(name);
    let bases: Vec<_> = bases
        .iter()
        .map(|(label, digest, name)| {
            let mount = cabane.mount_point(name);
            format!(r#"{{"label": "{label}", "digest": "{digest}", "mount": "{mount}"}}"#)
        })
        .collect();
    let view = format!(
        r#"{{"env": {{"version": 1, "values": {{
            "list": {{"PATH": [{{"op": "prepend", "value": ["{mount}/bin"]}}]}}, "scalar": {{}}}}}}}}"#
    );
    let meta = format!(
        r#"{{"name": "{name}", "mount": "{mount}", "default-view": "default",
            "views": {{"default": {view}, "of-{name}": {view}}},
            "cabane": {{"version": 1, "bases": [{}]}}}}"#,
        bases.join(", ")
    );
    let tree = Tree::new(cabane.world.path(&format!("trees/{name}")))
        .program(&format!("bin/{name}-program"), &format!("echo {name} runs"))
        .file("name", &format!("{name}\n"))
        .file("meta/env.json", &meta);
    let file = cabane.world.path(&format!("{name}.squashfs"));
    squashfs(tree.root(), &file);
    file.to_string_lossy().into_owned()
}

fn digest(cabane: &Cabane, label: &str) -> String {
    let seen = cabane.run(&["image", "inspect", "--format={digest}", label]).success();
    seen.stdout.trim().to_owned()
}

/// Puts an image into the repository, and returns its digest.
fn add(cabane: &Cabane, name: &str, bases: &[(&str, &str, &str)]) -> String {
    let file = image(cabane, name, bases);
    let label = format!("{name}/1.0:v1@here%x86_64");
    cabane.run(&["image", "add", &label, &file]).success();
    digest(cabane, &label)
}

/// Makes `top` on `middle` on `base`, and returns the digests of the last two.
fn chain(cabane: &Cabane) -> [String; 2] {
    let base = add(cabane, "base", &[]);
    let middle = add(cabane, "middle", &[("base/1.0", &base, "base")]);
    let bases = [("middle/1.0", middle.as_str(), "middle"), (BASE, base.as_str(), "base")];
    add(cabane, "top", &bases);
    [middle, base]
}

pub(crate) fn run(cabane: &Cabane, arguments: &[&str]) -> cabane_testkit::Finished {
    let mut command = cabane.command(&[&["run"], arguments, &RUN_BOTH].concat());
    command.env("MNT", cabane.world.path("mnt"));
    cabane.finish(&mut command)
}

#[test]
fn an_image_is_mounted_with_all_images_on_which_it_is_built() {
    for who in everybody() {
        let cabane = Cabane::new(who);
        cabane.run(&["repo", "create"]).success();
        chain(&cabane);
        // Naming one of them changes nothing.
        for images in ["top", "base,top", "top,middle,base"] {
            let seen = run(&cabane, &[images, "--view=top:default"]);
            let expected = (0, "base\ntop runs\n", "");
            assert_eq!((seen.code, &*seen.stdout, &*seen.stderr), expected, "{images} as {who:?}");
        }
        let file = cabane.world.path("top.squashfs");
        let seen = run(&cabane, &[file.to_str().unwrap()]).success();
        assert_eq!(seen.stdout, "base\ntop runs\n");
    }
}

#[test]
fn views_of_a_base_are_used_if_they_are_named() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    cabane.run(&["repo", "create"]).success();
    chain(&cabane);
    let programs = |view: &[&str]| {
        let script = "for p in top middle base; do command -v $p-program; done; true";
        let arguments = [&["run", "top"], view, &["--", "sh", "-c", script]].concat();
        let seen = cabane.run(&arguments).success();
        seen.stdout
            .lines()
            .map(|line| line.rsplit('/').next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(programs(&[]), ["top-program"]);
    // All three have a view of this name, and the image is meant which was typed.
    assert_eq!(programs(&["--view=default"]), ["top-program"]);
    assert_eq!(programs(&["--view=default,of-base"]), ["top-program", "base-program"]);
    assert_eq!(programs(&["--view=middle:default"]), ["middle-program"]);
}

#[test]
fn the_recorded_image_is_used_although_its_label_has_moved() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    cabane.run(&["repo", "create"]).success();
    let [_, base] = chain(&cabane);
    let other = cabane.image("other", &cabane.mount_point("base"));
    cabane.run(&["image", "add", "--force", BASE, &other]).success();
    assert_ne!(digest(&cabane, BASE), base);
    assert_eq!(run(&cabane, &["top"]).success().stdout, "base\ntop runs\n");
    // Both cannot be at one place.
    let seen = run(&cabane, &["top,base"]);
    let expected = format!(
        "error: `top` is built on `{BASE}` ({}), which is mounted at [WORLD]/mnt/base, and `base` is \
         another image for this place\n\
         hint: leave `base` out: `top` brings its base with it\n",
        &base[..16]
    );
    assert_eq!((seen.code, seen.stderr), (125, expected));
}

#[test]
fn a_base_that_is_missing_is_named_with_its_digest() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    cabane.run(&["repo", "create"]).success();
    let [_, base] = chain(&cabane);
    let other = cabane.image("other", &cabane.mount_point("base"));
    cabane.run(&["image", "add", "--force", BASE, &other]).success();
    let now = digest(&cabane, BASE);
    let images = cabane.world.path("home/.local/share/cabane/repository/images");
    let gone = images.join(&base);
    if gone.exists() {
        fs::remove_dir_all(gone).unwrap();
    }
    let seen = run(&cabane, &["top"]);
    let expected = format!(
        "error: `top` is built on `{BASE}`, and this image is in no repository: {base}\n\
         `{BASE}` is another image by now: {now}\n\
         hint: `cabane image pull {base}` gets it from the registry; to use another base, build `top` \
         again\n"
    );
    assert_eq!((seen.code, seen.stderr), (125, expected));
}

#[test]
fn an_image_on_which_another_is_built_is_not_removed() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    cabane.run(&["repo", "create"]).success();
    let [_, base] = chain(&cabane);
    for image in ["base", &base] {
        let seen = cabane.run(&["image", "rm", image]);
        assert_eq!(seen.code, 1, "{}", seen.stderr);
        let expected = format!(
            "error: other images are built on the image {}, and cannot be mounted without it:\n  \
             middle/1.0:v1@here%x86_64\n  top/1.0:v1@here%x86_64\n",
            &base[..16]
        );
        assert!(seen.stderr.starts_with(&expected), "{}", seen.stderr);
        assert!(seen.stderr.contains("`cabane image rm --force "), "{}", seen.stderr);
    }
    for image in ["top", "middle", "base"] {
        cabane.run(&["image", "rm", image]).success();
    }
}

#[test]
fn a_base_is_removed_if_it_is_forced() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    cabane.run(&["repo", "create"]).success();
    let [_, base] = chain(&cabane);
    let removed = cabane.run(&["image", "rm", "--force", "base"]).success();
    let warning = format!(
        "warning: without the image {}, these cannot be mounted:\n  middle/1.0:v1@here%x86_64\n  \
         top/1.0:v1@here%x86_64\n",
        &base[..16]
    );
    assert!(removed.stderr.contains(&warning), "{}", removed.stderr);
    assert!(!cabane.world.path("home/.local/share/cabane/repository/images").join(&base).exists());
    assert_eq!(run(&cabane, &["top"]).code, 125);
}

#[test]
fn a_base_that_images_of_another_repository_need_is_not_removed() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    cabane.run(&["repo", "create"]).success();
    let other = cabane.world.directory("own").join("other").to_string_lossy().into_owned();
    cabane.run(&["repo", "create", &other]).success();
    chain(&cabane);
    cabane
        .run(&[
            "--repo",
            &other,
            "image",
            "add",
            BASE,
            &cabane.world.path("base.squashfs").to_string_lossy(),
        ])
        .success();
    for image in ["top", "middle"] {
        cabane
            .run(&[
                "--repo",
                &format!("{other},default"),
                "image",
                "add",
                &format!("{image}/1.0:v1@here%x86_64"),
                image,
            ])
            .success();
        cabane.run(&["--repo", "default", "image", "rm", image]).success();
    }
    // The other repository has the base as well.
    let both = format!("default,other={other}");
    cabane.run(&["--repo", &both, "image", "rm", "base"]).success();
    cabane
        .run(&["image", "add", BASE, &cabane.world.path("base.squashfs").to_string_lossy()])
        .success();
    cabane.run(&["--repo", &other, "image", "rm", "--force", "base"]).success();
    let refused = cabane.run(&["--repo", &both, "image", "rm", "base"]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert!(refused.stderr.contains("  top/1.0:v1@here%x86_64\n"), "{}", refused.stderr);
}

#[test]
fn a_base_that_is_named_by_its_file_is_the_same_image() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    cabane.run(&["repo", "create"]).success();
    let [_, base] = chain(&cabane);
    let image = |digest: &str| format!("home/.local/share/cabane/repository/images/{digest}/image");
    let file = cabane.world.path(&image(&base)).to_string_lossy().into_owned();
    let seen = run(&cabane, &[&format!("top,{file}"), "--view=top:default"]);
    assert_eq!((seen.code, &*seen.stdout), (0, "base\ntop runs\n"), "{}", seen.stderr);
    let other = cabane.image("other", &cabane.mount_point("base"));
    let seen = run(&cabane, &[&format!("top,{other}")]);
    assert_eq!(seen.code, 125);
    assert!(seen.stderr.contains("is another file for this place"), "{}", seen.stderr);
}

#[test]
fn what_clears_up_keeps_the_images_on_which_others_are_built() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    cabane.run(&["repo", "create"]).success();
    let [middle, base] = chain(&cabane);
    cabane.run(&["repo", "pin", "top"]).success();
    let other = cabane.image("other", &cabane.mount_point("base"));
    cabane.run(&["image", "add", "--force", BASE, &other]).success();
    let cleared = cabane.run(&["repo", "gc", "--older-than=0s", "--spare=0s", "--json"]).success();
    let images = cabane.world.path("home/.local/share/cabane/repository/images");
    let is_there = [middle, base].map(|digest| images.join(digest).exists());
    assert_eq!(is_there, [true, true], "{}", cleared.stdout);
    assert_eq!(run(&cabane, &["top"]).success().stdout, "base\ntop runs\n");
    let status = cabane.run(&["repo", "status"]);
    assert_eq!(status.code, 0, "{}", status.stdout);
    // Nothing is built on them any more.
    cabane.run(&["repo", "unpin", "top"]).success();
    cabane.run(&["image", "rm", "top"]).success();
    cabane.run(&["image", "rm", "middle"]).success();
    cabane.run(&["repo", "gc", "--older-than=0s", "--spare=0s"]).success();
    assert_eq!(fs::read_dir(images).unwrap().count(), 0);
}

#[test]
fn inspect_shows_the_images_on_which_an_image_is_built() {
    let cabane = Cabane::new(Who::OrdinaryUser);
    cabane.run(&["repo", "create"]).success();
    let [middle, base] = chain(&cabane);
    let seen = cabane.run(&["image", "inspect", "top"]).success().stdout;
    for (label, digest, name) in [("middle/1.0", middle, "middle"), (BASE, base, "base")] {
        let line = format!("  built on     {label} at [WORLD]/mnt/{name}, {digest}\n");
        assert!(seen.contains(&line), "{seen}");
    }
}

#[test]
fn an_image_is_pulled_with_the_images_on_which_it_is_built() {
    needs!("docker-registry");
    let shared = Shared::new(Who::OrdinaryUser);
    let cabane = &shared.cabane;
    chain(cabane);
    for image in ["top", "base"] {
        cabane.run(&["image", "push", image]).success();
    }
    let forget = || {
        for image in ["top", "middle", "base"] {
            cabane.run(&["image", "rm", image]);
        }
    };
    forget();
    let seen = cabane.run(&["image", "pull", "top"]).success().stderr;
    assert!(seen.contains("top/1.0:v1@here%x86_64 is built on `middle/1.0`, and the registry does not have this image"), "{seen}");
    let seen = run(cabane, &["top"]);
    assert_eq!(seen.code, 125);
    assert!(seen.stderr.contains("`top` is built on `middle/1.0`"), "{}", seen.stderr);
    let file = cabane.world.path("middle.squashfs");
    cabane.run(&["image", "push", file.to_str().unwrap(), "middle/1.0:v1@here%x86_64"]).success();
    forget();
    cabane.run(&["image", "pull", "top"]).success();
    assert_eq!(run(cabane, &["top"]).success().stdout, "base\ntop runs\n");
}

/// A registry with `top`, `middle`, and `base`, pushed in this order, and nothing in the repository.
pub(crate) fn pushed(images: [&str; 3]) -> (Shared, String) {
    pushed_by(Who::OrdinaryUser, images)
}

pub(crate) fn pushed_by(who: Who, images: [&str; 3]) -> (Shared, String) {
    let shared = Shared::new(who);
    let [_, base] = chain(&shared.cabane);
    for image in images {
        shared.cabane.run(&["image", "push", image]).success();
    }
    (shared, base)
}

pub(crate) fn forget(cabane: &Cabane) {
    for image in ["top", "middle", "base"] {
        cabane.run(&["image", "rm", image]).success();
    }
}

/// The label with which a base comes whose own label is that of another image.
fn by_id(base: &str) -> String {
    format!("base/1.0:{}@here%x86_64", &base[..16])
}

#[test]
fn a_base_comes_with_its_id_if_its_label_is_another_image_here() {
    needs!("docker-registry");
    let (shared, base) = pushed(["top", "middle", "base"]);
    let cabane = &shared.cabane;
    forget(cabane);
    let other = cabane.image("other", &cabane.mount_point("base"));
    cabane.run(&["image", "add", BASE, &other]).success();
    let other = digest(cabane, BASE);
    let pulled = cabane.run(&["image", "pull", "top"]).success();
    let note = format!(
        "{BASE} is the image {} here; the base {} gets the label {}",
        &other[..16],
        &base[..16],
        by_id(&base)
    );
    assert!(pulled.stderr.contains(&note), "{}", pulled.stderr);
    assert_eq!(run(cabane, &["top"]).success().stdout, "base\ntop runs\n");
    assert_eq!([digest(cabane, BASE), digest(cabane, &by_id(&base))], [other, base]);
}

#[test]
fn a_base_is_pulled_although_its_label_has_moved_in_the_registry() {
    needs!("docker-registry");
    // The one that is pushed last sees that the others belong to it.
    for order in [["base", "middle", "top"], ["top", "middle", "base"]] {
        let (shared, base) = pushed(order);
        let cabane = &shared.cabane;
        let other = cabane.image("other", &cabane.mount_point("base"));
        cabane.run(&["image", "push", "--force", &other, BASE]).success();
        forget(cabane);
        let pulled = cabane.run(&["image", "pull", "top"]).success();
        let says = format!("the label of the base {} to another image", &base[..16]);
        assert!(pulled.stderr.contains(&says), "{}", pulled.stderr);
        assert_eq!(run(cabane, &["top"]).success().stdout, "base\ntop runs\n");
        cabane.run(&["image", "rm", "top"]).success();
        cabane.run(&["image", "rm", "middle"]).success();
        cabane.run(&["image", "rm", &base]).success();
        // And by what the error says if it is missing.
        cabane.run(&["image", "pull", &base]).success();
        assert_eq!(digest(cabane, &by_id(&base)), base);
    }
}

#[test]
fn a_bundle_has_the_images_on_which_its_images_are_built() {
    needs!("docker-registry");
    for moved in [false, true] {
        let (shared, base) = pushed(["base", "middle", "top"]);
        let cabane = &shared.cabane;
        let file = |name: &str| cabane.world.path(name).to_string_lossy().into_owned();
        if moved {
            let other = cabane.image("other", &cabane.mount_point("base"));
            cabane.run(&["image", "push", "--force", &other, BASE]).success();
        }
        let [first, second] = ["first.bundle", "second.bundle"].map(file);
        cabane.run(&["bundle", "create", &first, "top"]).success();
        cabane.run(&["bundle", "create", &second, "middle", "--since", &first]).success();
        let listed = cabane.run(&["bundle", "ls", &first]).success().stdout;
        assert_eq!(listed.matches(" (base)").count(), 2, "{listed}");
        forget(cabane);
        let planned = cabane.run(&["bundle", "install", &first, "--dry-run"]).success();
        assert!(planned.stderr.contains("3 of 3 images would be added"), "{}", planned.stderr);
        cabane.run(&["bundle", "install", &first, "top"]).success();
        assert_eq!(run(cabane, &["top"]).success().stdout, "base\ntop runs\n");
        let label = if moved { by_id(&base) } else { BASE.to_owned() };
        assert_eq!(digest(cabane, &label), base);
        // What the first one had, the second one has not again.
        cabane.run(&["image", "rm", "top"]).success();
        cabane.run(&["bundle", "install", &second]).success();
        // From a registry to another registry, and from a bundle to a registry.
        for source in [&first, &format!("{}/uenv", shared.registry.url())] {
            let name = if *source == first { "island" } else { "mirror" };
            let registry = RealRegistry::start(&cabane.world.path(name));
            let target = format!("{}/{name}", registry.url());
            cabane.run(&["registry", "mirror", source, &target, "top"]).success();
            for image in ["top", "middle", &base] {
                cabane.run(&["image", "rm", image]);
            }
            cabane.run(&["image", "pull", "top", "--registry", &target]).success();
            assert_eq!(run(cabane, &["top"]).success().stdout, "base\ntop runs\n", "{name}");
        }
    }
}

#[test]
fn what_clears_up_a_registry_keeps_the_bases_of_images_that_stay() {
    needs!("docker-registry");
    let (shared, _) = pushed(["base", "middle", "top"]);
    let cabane = &shared.cabane;
    let clear = |pins: &[&str]| {
        let limits = ["registry", "gc", "--older-than", "0s", "--spare", "0s"];
        cabane.run(&[&limits, pins].concat()).success();
    };
    clear(&["--pin", "top"]);
    forget(cabane);
    cabane.run(&["image", "pull", "top"]).success();
    assert_eq!(run(cabane, &["top"]).success().stdout, "base\ntop runs\n");
    // They go with the image that needs them.
    clear(&[]);
    assert_eq!(cabane.run(&["image", "find", "--refresh", "--no-header", "base"]).stdout, "");
}

#[test]
fn an_upgrade_brings_the_bases_of_the_new_image() {
    needs!("docker-registry");
    let bed = Bed::new(Who::OrdinaryUser, "", "");
    let cabane = &bed.shared.cabane;
    bed.change(&["promote", "stable", APP]).success();
    bed.run(&["image", "pull", "app:stable"]).success();
    let base = add(cabane, "base", &[]);
    let top = image(cabane, "top", &[("base/1.0", &base, "base")]);
    bed.run(&["image", "push", "base"]).success();
    bed.run(&["image", "push", &top, "app/3.0:v1@here%x86_64"]).success();
    bed.run(&["image", "rm", "base"]).success();
    bed.change(&["promote", "stable", "app/3.0:v1@here%x86_64"]).success();
    let upgraded = bed.run(&["upgrade"]).success();
    assert!(upgraded.stderr.contains(&format!("added {BASE}")), "{}", upgraded.stderr);
    assert_eq!(run(cabane, &["app:stable"]).success().stdout, "base\ntop runs\n");
}
