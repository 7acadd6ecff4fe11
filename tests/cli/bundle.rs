// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images go to a site without a network, in files.

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use cabane_testkit::{Finished, RealRegistry, needs, squashfs};
use serde_json::Value;

use crate::cabane::{APP, Cabane, Who, everybody};
use crate::channels::{Bed, NEW};
use crate::registry::large;

/// The site without a network: it shares nothing with the registry, but a key and files.
struct Island {
    cabane: Cabane,
}

impl Island {
    fn new(bed: &Bed, who: Who, more: &str) -> Self {
        let cabane = Cabane::new(who);
        let key = format!("{}.pub", bed.key);
        let text = format!("[[channel]]\nname = \"stable\"\nkeys = [\"{key}\"]\n{more}\n");
        cabane.world.file("site.toml", &text.replace("KEY", &bed.key));
        Self { cabane }
    }

    fn run(&self, arguments: &[&str]) -> Finished {
        self.cabane.run(arguments)
    }

    fn install(&self, bundle: &str) -> Finished {
        self.run(&["bundle", "install", bundle])
    }

    fn hello(&self, label: &str) -> String {
        self.run(&["run", label, "--", "hello"]).success().stdout
    }

    fn images(&self) -> usize {
        self.run(&["image", "ls", "--no-header"]).success().stdout.lines().count()
    }
}

impl Bed {
    fn file(&self, name: &str) -> String {
        self.shared.cabane.world.path(name).to_str().unwrap().to_owned()
    }

    fn bundle(&self, name: &str, arguments: &[&str]) -> String {
        let file = self.file(name);
        self.run(&[&["bundle", "create", &file], arguments].concat()).success();
        file
    }
}

fn size(path: &str) -> u64 {
    fs::metadata(path).unwrap().len()
}

#[test]
fn a_site_without_a_network_follows_a_channel() {
    needs!("docker-registry");
    for who in everybody() {
        let bed = Bed::new(who, "", "");
        bed.run(&["image", "sign", APP, "--key", &bed.key]).success();
        bed.change(&["promote", "stable", APP]).success();
        let june = bed.bundle("june.bundle", &["--channel", "stable"]);
        let listed: Value =
            serde_json::from_str(&bed.run(&["bundle", "ls", "--json", &june]).success().stdout)
                .unwrap();
        assert_eq!(listed["images"][0]["label"], APP);
        assert_eq!(listed["channels"][0]["channel"], "stable");

        let island = Island::new(&bed, who, "");
        let planned = island.run(&["bundle", "install", &june, "--dry-run"]).success();
        assert!(planned.stderr.contains("1 of 1 images would be added"), "{}", planned.stderr);
        assert_eq!(island.images(), 0);
        island.install(&june).success();
        assert_eq!(island.hello("app:stable"), "hello from app\n");
        assert_eq!(island.hello("app/1.0:stable"), "hello from app\n");
        // Again, nothing is to be done.
        let again = island.install(&june).success();
        assert!(again.stderr.contains("already names the image"), "{}", again.stderr);

        bed.change(&["promote", "stable", NEW]).success();
        let july = bed.bundle("july.bundle", &["--channel", "stable", "--since", &june]);
        let added = island.install(&july).success();
        assert!(added.stderr.contains(&format!("added {NEW}")), "{}", added.stderr);
        assert_eq!(island.hello("app:stable"), "hello from other\n");
        island.run(&["rollback", "app"]).success();
        assert_eq!(island.hello("app:stable"), "hello from app\n");
        // The bundle of June has an older state of the channel.
        let old = island.install(&june);
        assert_eq!(old.code, 12, "{}", old.stderr);
        assert!(old.stderr.contains("went back from number 2 to 1"), "{}", old.stderr);
        // Its images can be had nevertheless, where nobody claims that they are current.
        fs::write(island.cabane.world.path("site.toml"), "").unwrap();
        let ignored = island.run(&["bundle", "install", &june, "app/1.0"]).success();
        assert!(ignored.stderr.contains("is ignored"), "{}", ignored.stderr);
    }
}

#[test]
fn an_image_in_a_newer_version_is_what_differs() {
    needs!("docker-registry");
    let bed = Bed::new(Who::OrdinaryUser, "", "");
    let first = large(&bed.shared, "large", 32);
    bed.run(&["image", "push", &first, "large/1.0:v1"]).success();
    let world = &bed.shared.cabane.world;
    fs::write(world.path("trees/large/more"), vec![b'x'; 4096]).unwrap();
    let mut noise = vec![0; 300_000];
    fs::File::open("/dev/urandom").unwrap().read_exact(&mut noise).unwrap();
    fs::write(world.path("trees/large/news"), &noise).unwrap();
    let second = world.path("second.squashfs");
    squashfs(&world.path("trees/large"), &second);
    bed.run(&["image", "push", second.to_str().unwrap(), "large/2.0:v1"]).success();

    let whole = bed.bundle("1.bundle", &["large/1.0"]);
    let delta = bed.bundle("2.bundle", &["large/2.0", "--since", &whole]);
    assert!(size(&whole) > 32 << 20, "{}", size(&whole));
    // 300 kB are new, and with each place that has changed comes the chunk around it.
    assert!(size(&delta) < 2 << 20, "{}", size(&delta));

    let island = Island::new(&bed, Who::OrdinaryUser, "");
    let refused = island.install(&delta);
    assert_eq!(refused.code, 4, "{}", refused.stderr);
    assert!(refused.stderr.contains("does not share with"), "{}", refused.stderr);
    assert_eq!(island.images(), 0);
    island.install(&whole).success();
    island.install(&delta).success();
    island.run(&["run", "large/2.0:v1", "--", "true"]).success();
    let verified = island.run(&["image", "verify", "large/2.0:v1"]);
    verified.success();
    // A registry is completed from what it has.
    let registry = RealRegistry::start(&bed.shared.cabane.world.path("island"));
    let target = format!("{}/island", registry.url());
    let copy = |file: &str| bed.run(&["registry", "mirror", file, &target, "large"]);
    let refused = copy(&delta);
    assert_eq!(refused.code, 4, "{}", refused.stderr);
    assert!(refused.stderr.contains("lacks deploy::large/1.0"), "{}", refused.stderr);
    copy(&whole).success();
    copy(&delta).success();
    let pull = ["image", "pull", "large/2.0:v1", "--registry", &target];
    bed.run(&pull).success();
    bed.run(&["image", "verify", "large/2.0:v1"]).success();
    // What is there already takes no space, but for the list of its chunks: 12 bytes each, and how
    // many there are depends on the random content.
    let same = bed.bundle("3.bundle", &["large/2.0", "--since", &whole, "--since", &delta]);
    assert!(size(&same) < 200_000, "{}", size(&same));
    island.install(&same).success();
}

#[test]
fn pieces_are_one_file_or_several() {
    needs!("docker-registry");
    let bed = Bed::new(Who::OrdinaryUser, "", "");
    let image = large(&bed.shared, "large", 7);
    bed.run(&["image", "push", &image, "large/1.0:v1"]).success();
    let file = bed.bundle("large.bundle", &["large", "app", "--split", "3M"]);
    let piece = |number: usize| PathBuf::from(format!("{file}.00{number}"));
    let pieces: Vec<PathBuf> = (1..=3).map(piece).collect();
    assert!(pieces.iter().all(|piece| piece.is_file()) && !Path::new(&file).exists());
    assert!(!piece(4).exists());

    let island = Island::new(&bed, Who::OrdinaryUser, "");
    fs::rename(&pieces[2], format!("{file}.away")).unwrap();
    let refused = island.install(&file);
    assert_eq!(refused.code, 3, "{}", refused.stderr);
    assert!(refused.stderr.contains("there are 2 pieces"), "{}", refused.stderr);
    fs::rename(format!("{file}.away"), &pieces[2]).unwrap();
    island.install(&file).success();
    island.run(&["run", "large", "--", "true"]).success();

    let joined = bed.file("joined.bundle");
    let all: Vec<u8> = pieces.iter().flat_map(|piece| fs::read(piece).unwrap()).collect();
    fs::write(&joined, all).unwrap();
    let other = Island::new(&bed, Who::OrdinaryUser, "");
    other.install(&joined).success();
    assert_eq!(other.images(), 3);
    // A file takes the place of the pieces.
    bed.run(&["bundle", "create", &file, "app", "--force"]).success();
    assert!(Path::new(&file).is_file());
}

#[test]
fn what_was_changed_on_the_way_is_not_installed() {
    needs!("docker-registry");
    let bed = Bed::new(Who::OrdinaryUser, "", "");
    bed.run(&["image", "sign", APP, "--key", &bed.key]).success();
    let rule = "[[trust]]\nnamespace = \"deploy\"\nrequire = \"signature\"\nkeys = [\"KEY.pub\"]";
    let bundle = bed.bundle("app.bundle", &["app"]);
    let island = Island::new(&bed, Who::OrdinaryUser, rule);
    // One of the two images is not signed: none is added.
    let refused = island.install(&bundle);
    assert_eq!(refused.code, 12, "{}", refused.stderr);
    assert_eq!(island.images(), 0);

    let bundle = bed.bundle("signed.bundle", &["app/1.0"]);
    let bytes = fs::read(&bundle).unwrap();
    let place = bytes.windows(4).position(|word| word == b"hsqs").unwrap();
    let mut file = fs::File::options().write(true).open(&bundle).unwrap();
    file.seek(SeekFrom::Start(place as u64 + 200)).unwrap();
    file.write_all(b"changed").unwrap();
    let refused = island.install(&bundle);
    assert_eq!(refused.code, 11, "{}", refused.stderr);
    assert!(refused.stderr.contains("sent wrong content"), "{}", refused.stderr);
    assert_eq!(island.images(), 0);

    let cut = bed.file("cut.bundle");
    for length in [0, 100, 2000, bytes.len() / 2, bytes.len() - 2000] {
        fs::write(&cut, &bytes[..length]).unwrap();
        let refused = island.install(&cut);
        assert_eq!(refused.code, 3, "{length}: {}", refused.stderr);
    }
    fs::write(&cut, &bytes).unwrap();
    island.install(&cut).success();
}

#[test]
fn one_that_is_killed_leaves_the_file_before() {
    needs!("docker-registry");
    let bed = Bed::new(Who::OrdinaryUser, "", "");
    let image = large(&bed.shared, "large", 24);
    bed.run(&["image", "push", &image, "large/1.0:v1"]).success();
    let file = bed.bundle("one.bundle", &["app"]);
    let before = fs::read(&file).unwrap();
    let arguments = ["bundle", "create", &file, "large", "--force"];
    for milliseconds in [5, 20, 60, 120, 200, 300] {
        let mut command = bed.shared.cabane.command(&arguments);
        let mut child = command.stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        sleep(Duration::from_millis(milliseconds));
        let is_over = child.try_wait().unwrap().is_some();
        let _ = child.kill();
        child.wait().unwrap();
        assert!(is_over || fs::read(&file).unwrap() == before || size(&file) > 24 << 20);
    }
    bed.run(&arguments).success();
    assert!(!Path::new(&format!("{file}.part")).exists());
    let island = Island::new(&bed, Who::OrdinaryUser, "");
    island.install(&file).success();
    island.run(&["run", "large", "--", "true"]).success();
}

#[test]
fn a_bundle_is_a_source_for_a_registry_and_for_searches() {
    needs!("docker-registry");
    let bed = Bed::new(Who::OrdinaryUser, "", "");
    bed.run(&["image", "sign", APP, "--key", &bed.key]).success();
    bed.change(&["promote", "stable", APP]).success();
    let file = bed.bundle("app.bundle", &["--channel", "stable"]);
    let found = bed.run(&["image", "find", "--registry", &file, "--no-header"]).success();
    assert_eq!(found.stdout.lines().count(), 1, "{}", found.stdout);
    let registry = RealRegistry::start(&bed.shared.cabane.world.path("island"));
    let target = format!("{}/island", registry.url());
    let copied = bed.run(&["registry", "mirror", &file, &target, "--channel", "stable"]).success();
    assert!(copied.stderr.contains("1 of 1 images and 1 channel"), "{}", copied.stderr);
    bed.shared.forget();
    bed.run(&["image", "pull", "app:stable", "--registry", &target]).success();
    assert_eq!(bed.hello("app:stable"), "hello from app\n");
    let refused = bed.run(&["image", "push", APP, "--registry", &file, "--force"]);
    assert!(refused.stderr.contains("a bundle is not changed"), "{}", refused.stderr);
}
