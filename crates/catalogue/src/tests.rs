// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use cabane_channel::{ChannelDocument, Entry, Retirement, Revocation};
use cabane_evidence::{Measured, Outcome};
use cabane_image_search::ImageDetails;
use cabane_impact::{Assessment, ImageImpact, Reason, Verdict};
use cabane_label::Digest;
use cabane_registry::ChannelPlace;
use cabane_view::PackageIndex;
use jiff::Timestamp;
use sha2::Digest as _;

use super::*;

const HOSTILE: &str = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"' \
                       onload=alert(3) </pre></title><!-- \u{1b}[2J \u{202e}txt \u{2028}\u{2029}\0 &lt;";
/// Names of packages that are not plain, or differ by case only.
const NAMES: [&str; 8] =
    ["hdf5", "HDF5", "..", "../../x", "javascript:alert(1)", "a\u{2028}b", "</script>", "zlib"];

/// Writes a site into a directory without anything else.
fn build(input: &CatalogueInput, directory: &Path) -> Result<Written> {
    super::build(input, directory, OtherEntries::Refuse)
}

fn digest(letter: &str) -> Digest {
    letter.repeat(64).parse().unwrap()
}

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn image(label: &str, id: &str, date: &str) -> CatalogueImage {
    let (namespace, label) = label.split_once("::").unwrap();
    CatalogueImage {
        namespace: namespace.parse().unwrap(),
        label: label.parse().unwrap(),
        digest: digest(id),
        manifest: None,
        size: 123_456_789,
        date: Some(time(date)),
        details: ImageDetails::default(),
        signature: None,
        evidence: None,
    }
}

/// An image whose every text is hostile.
pub(crate) fn hostile_image() -> CatalogueImage {
    let text = || HOSTILE.to_owned();
    let measured = Measured {
        variable: text(),
        value: 30.0,
        unit: text(),
        reference: Some(40.0),
        lower: Some(-0.1),
        upper: None,
    };
    let result = TestResult {
        system: Some(text()),
        outcome: Outcome::Failed,
        finished: Some(time("2026-11-20T10:00:00Z")),
        generation: Some(text()),
        runner: text(),
        passed: 2,
        failed: vec![(text(), text())],
        is_partial: false,
        figures: vec![Figure { test: text(), measured }],
        key: text(),
    };
    let built = |address: &str, base| BuiltImage {
        recipe: Some((address.to_owned(), text())),
        finished: Some(time("2026-11-20T09:00:00Z")),
        bases: vec![digest(base)],
        key: text(),
    };
    CatalogueImage {
        manifest: Some(digest("c")),
        details: ImageDetails {
            description: Some(text()),
            mount: Some(text()),
            default_view: Some(text()),
            views: vec![(text(), Some(text())), ("other".to_owned(), None)],
            engine: Some(text()),
            needs: vec![text()],
        },
        signature: Some(text()),
        evidence: Some(ImageEvidence {
            results: vec![result],
            built: vec![
                built("javascript:alert(1)", "a"),
                built("git+https://git.example.org/x\"onmouseover=alert(1)", "f"),
                built("https://example.org/<b>", "a"),
            ],
            ignored: 1,
        }),
        ..image("deploy::app/2.0:v1@daint%gh200", "b", "2026-11-20T00:00:00Z")
    }
}

fn channel() -> Vec<ChannelDocument> {
    let place = ChannelPlace {
        namespace: "deploy".parse().unwrap(),
        name: "stable".parse().unwrap(),
        system: "daint".parse().unwrap(),
    };
    let entry = |label: &str, id: &str| Entry {
        label: label.parse().unwrap(),
        manifest: digest("c"),
        digest: digest(id),
        size: 1,
        since: 1,
        promoted: time("2026-11-19T00:00:00Z"),
        is_default: true,
        evidence: Vec::new(),
        retirement: Some(Retirement {
            date: "2027-01-01".parse().unwrap(),
            replacement: Some("app/3.0".parse().unwrap()),
            reason: Some(HOSTILE.to_owned()),
        }),
    };
    let mut first = ChannelDocument::empty(&place);
    first.serial = 1;
    first.by = "Ada Lovelace".to_owned();
    first.issued = time("2026-11-19T00:00:00Z");
    first.entries = vec![entry("app/2.0:v1@daint%gh200", "b")];
    let mut second = first.clone();
    second.serial = 2;
    second.issued = time("2026-11-21T00:00:00Z");
    second.revoked = vec![Revocation {
        digest: digest("d"),
        label: "app/1.0:v2@daint%gh200".parse().unwrap(),
        reason: HOSTILE.to_owned(),
        date: "2026-11-21".parse().unwrap(),
    }];
    vec![second, first]
}

fn package_line(name: &str, version: &str, variants: &str) -> String {
    format!("{name}\t{version}\tabc\t{variants}\tgcc@13.2.0\tdebian12\tzen3\tspack\t\n")
}

fn sample() -> CatalogueInput {
    let hostile: String = NAMES.iter().map(|name| package_line(name, "1.0", "+mpi")).collect();
    let hostile = hostile + &package_line(&"x".repeat(5000), HOSTILE, HOSTILE);
    let old = package_line("zlib", "1.2", "") + &package_line("hdf5", "1.14", "~mpi");
    let secret = package_line("secret-package", "1", "");
    let mut packages = PackageIndex::default();
    packages.add([
        (digest("a"), Some(old.as_str())),
        (digest("b"), Some(hostile.as_str())),
        (digest("d"), None),
        (digest("e"), Some(secret.as_str())),
    ]);
    let reason = Reason { verdict: Verdict::Breaks, chain: vec![HOSTILE.to_owned()] };
    let impact = ImageImpact {
        label: "deploy::app/2.0:v1@daint%gh200".to_owned(),
        digest: digest("b"),
        source: String::new(),
        verdict: Verdict::Breaks,
        reasons: vec![reason],
    };
    CatalogueInput {
        title: HOSTILE.to_owned(),
        source: Source::Registry("https://registry.example.org/uenv".to_owned()),
        base: Some("https://software.example.org/".to_owned()),
        day: "2026-11-26".parse().unwrap(),
        images: vec![
            hostile_image(),
            image("deploy::app/1.0:v1@daint%gh200", "a", "2026-11-01T00:00:00Z"),
            image("deploy::app/1.0:v1@eiger%zen3", "a", "2026-11-01T00:00:00Z"),
            image("deploy::app/1.0:v2@daint%gh200", "d", "2026-11-02T00:00:00Z"),
            image("build::App/1.0:v1@daint%gh200", "a", "2026-11-03T00:00:00Z"),
        ],
        packages,
        channels: vec![channel()],
        upgrades: vec![Assessment {
            changes: vec![HOSTILE.to_owned()],
            images: vec![impact],
            unused: Vec::new(),
        }],
    }
}

/// The files of a site by their paths.
fn files(input: &CatalogueInput) -> BTreeMap<String, String> {
    site::with_files(input, |files| {
        let text = |file: &site::File<'_>| String::from_utf8(file.bytes().into_owned()).unwrap();
        files.iter().map(|file| (file.path.clone(), text(file))).collect()
    })
}

fn has_ending(path: &str, ending: &str) -> bool {
    path.rsplit('.').next() == Some(ending)
}

#[test]
fn nothing_that_others_wrote_is_part_of_a_page() {
    for (path, text) in files(&sample()) {
        if path == "search.js" || path == "style.css" {
            continue;
        }
        let is_json = has_ending(&path, "json");
        assert!(!is_json || serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{path}");
        for bad in [
            "<script>",
            "<img",
            "</pre></title>",
            "\u{2028}",
            "\u{2029}",
            "\u{1b}",
            "\u{202e}",
            "\0",
        ] {
            // A text in JSON is a text, whatever is in it.
            let is_text = has_ending(&path, "json") && !bad.contains(char::is_control);
            assert!(is_text || !text.contains(bad), "{path}: {bad:?}\n{text}");
        }
        for attribute in ["href=\"", "src=\"", "content=\""] {
            for value in text.split(attribute).skip(1) {
                let value = value.split('"').next().unwrap();
                let is_page =
                    !value.contains(':') || value.starts_with("https://") || value == "data:,";
                let is_policy = attribute == "content=\"";
                assert!(is_page || is_policy, "{path}: {value}");
            }
        }
        assert!(!text.contains("href=\"https://git.example.org/x\"onmouse"), "{path}");
    }
}

#[test]
fn every_link_leads_to_a_file() {
    let files = files(&sample());
    let mut count = 0;
    for (path, text) in files.iter().filter(|(path, _)| has_ending(path, "html")) {
        for attribute in ["href=\"", "src=\""] {
            for value in text.split(attribute).skip(1) {
                let value = value.split(['"', '#']).next().unwrap();
                if value.is_empty() || value.contains(':') {
                    continue;
                }
                let mut parts: Vec<&str> = path.split('/').collect();
                parts.pop();
                for part in value.split('/') {
                    if part == ".." {
                        assert!(parts.pop().is_some(), "{path}: {value}");
                    } else {
                        parts.push(part);
                    }
                }
                let target = parts.join("/");
                assert!(files.contains_key(&target), "{path}: {value} is {target}");
                count += 1;
            }
        }
    }
    assert!(count > 100, "{count}");
}

#[test]
fn names_of_files_are_plain_and_differ() {
    let files = files(&sample());
    let lower: BTreeSet<String> = files.keys().map(|path| path.to_lowercase()).collect();
    assert_eq!(lower.len(), files.len());
    for path in files.keys() {
        let is_plain =
            |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.~/".contains(c);
        assert!(path.chars().all(is_plain), "{path}");
        assert!(path.split('/').all(|part| part.len() < 100 && !part.starts_with('.')), "{path}");
    }
    let packages = files.keys().filter(|path| path.starts_with("p/")).count();
    assert_eq!(packages, NAMES.len() + 1);
}

#[test]
fn what_is_not_on_the_site_leaves_no_trace() {
    let mut input = sample();
    input.images.retain(|image| image.namespace.as_str() != "build");
    for (path, text) in files(&input) {
        assert!(!text.contains("secret-package"), "{path}");
        assert!(!text.contains("Ada Lovelace"), "{path}");
        assert!(!text.contains("build::"), "{path}");
        assert!(!text.contains("ffffffffffffffff"), "{path}");
        assert!(!path.contains("build"), "{path}");
    }
}

#[test]
fn a_page_says_what_to_type_and_what_changed() {
    let files = files(&sample());
    let id = "b".repeat(16);
    let page = &files[&format!("i/deploy/{id}.html")];
    for part in [
        "cabane image pull deploy::app/2.0:v1@daint%gh200",
        "cabane run app/2.0:v1 --view other -- COMMAND",
        "<span class=\"o e\">deprecated</span>",
        "since 2026-11-19, the default version; retired on 2027-01-01, use <code>app/3.0</code>",
        "<span class=\"o f\">FAILED</span>",
        "<b>outside</b>",
        "1 more statement does not count here",
        "Built on <a href=\"../../i/deploy/aaaaaaaaaaaaaaaa.html\">",
        "Compared to the image before",
        "It is not known which packages changed.",
        "9 packages",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    let revoked = &files[&format!("i/deploy/{}.html", "d".repeat(16))];
    assert!(
        revoked.contains("Do not use this image.") && !revoked.contains("image pull"),
        "{revoked}"
    );
    let base = &files[&format!("i/deploy/{}.html", "a".repeat(16))];
    assert!(base.contains("Images built on it") && base.contains("@eiger"), "{base}");
    let package = files.iter().find(|(path, _)| *path == "p/zlib.html").unwrap().1;
    let places = ["<h2>1.2</h2>", "<h2>1.0</h2>"].map(|part| package.find(part).unwrap());
    assert!(places[0] < places[1], "{package}");
    assert!(files["changes.html"].contains("app/1.0:v2@daint%gh200 was revoked"));
}

#[test]
fn packages_that_changed_are_compared() {
    let mut input = sample();
    input.images.retain(|image| image.digest != digest("d"));
    let files = files(&input);
    let page = &files[&format!("i/deploy/{}.html", "b".repeat(16))];
    for part in [
        ">hdf5</a></th><td class=\"wrap\">1.14</td><td class=\"wrap\">1.0</td>",
        ">HDF5</a></th><td class=\"wrap\"></td><td class=\"wrap\">1.0</td>",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
}

#[test]
fn two_images_with_one_id_have_two_pages() {
    let mut input = sample();
    let forged: Digest = format!("{}{}", "a".repeat(16), "0".repeat(48)).parse().unwrap();
    let mut image = image("deploy::forged/1:v1@daint%gh200", "a", "2026-11-04T00:00:00Z");
    image.digest = forged.clone();
    input.images.push(image);
    let files = files(&input);
    assert!(files[&format!("i/deploy/{forged}.html")].contains("forged"));
    assert!(!files[&format!("i/deploy/{}.html", digest("a"))].contains("forged"));
    assert!(files["data/images.js"].contains(forged.as_str()));
}

/// The content and the inode of each file below a directory.
fn tree(directory: &Path) -> BTreeMap<PathBuf, (Vec<u8>, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    let mut found = BTreeMap::new();
    let mut left = vec![directory.to_owned()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            if meta.is_dir() {
                left.push(path);
            } else {
                let inside = path.strip_prefix(directory).unwrap().to_owned();
                found.insert(inside, (fs::read(&path).unwrap(), meta.ino()));
            }
        }
    }
    found
}

#[test]
fn the_same_input_gives_the_same_bytes_in_any_order() {
    let world = tempfile::tempdir().unwrap();
    let [one, other] = ["one", "other"].map(|name| world.path().join(name));
    build(&sample(), &one).unwrap();
    let mut reversed = sample();
    reversed.images.reverse();
    build(&reversed, &other).unwrap();
    let bytes = |path: &Path| {
        tree(path).into_iter().map(|(path, (bytes, _))| (path, bytes)).collect::<Vec<_>>()
    };
    assert_eq!(bytes(&one), bytes(&other));
    let before = tree(&one);
    assert_eq!(build(&sample(), &one).unwrap().written, 0);
    assert_eq!(tree(&one), before);
}

#[test]
fn a_new_image_writes_its_own_pages_and_lists_only() {
    let world = tempfile::tempdir().unwrap();
    let site = world.path().join("site");
    build(&sample(), &site).unwrap();
    let before = tree(&site);
    let mut input = sample();
    let label = "deploy::other/1.0:v1@daint%gh200";
    input.images.push(image(label, "1", "2026-11-25T00:00:00Z"));
    let lines = package_line("zlib", "1.3", "");
    input.packages.add([(digest("1"), Some(lines.as_str()))]);
    let written = build(&input, &site).unwrap();
    let after = tree(&site);
    let changed: Vec<String> = after
        .iter()
        .filter(|(path, content)| before.get(*path) != Some(content))
        .map(|(path, _)| path.to_str().unwrap().to_owned())
        .collect();
    let id = "1".repeat(16);
    assert_eq!(
        changed,
        [
            ".cabane-catalogue",
            "api/v1/changes.json",
            &format!("api/v1/images/deploy/{id}.json"),
            "api/v1/images.json",
            "api/v1/index.json",
            "api/v1/packages/zlib.json",
            "api/v1/packages.json",
            "changes.atom",
            "changes.html",
            "data/images.js",
            "data/names.js",
            "data/p/zlib.js",
            &format!("i/deploy/{id}.html"),
            "images.html",
            "index.html",
            "p/zlib.html",
            "packages.html",
            "systems/index.html",
            "systems/system-daint.html",
        ]
    );
    assert_eq!(written.written + 1, changed.len());
    let gone = build(&sample(), &site).unwrap();
    assert_eq!(gone.removed, 2);
    let bytes = |tree: BTreeMap<PathBuf, (Vec<u8>, u64)>| {
        tree.into_iter().map(|(path, (bytes, _))| (path, bytes)).collect::<Vec<_>>()
    };
    assert_eq!(bytes(tree(&site)), bytes(before));
}

#[test]
fn a_directory_with_something_else_stays_as_it_is() {
    let world = tempfile::tempdir().unwrap();
    let site = world.path().join("home");
    fs::create_dir(&site).unwrap();
    fs::write(site.join("thesis.tex"), "x").unwrap();
    let error = build(&sample(), &site).unwrap_err();
    assert!(error.to_string().contains("files that do not belong to a catalog"), "{error}");
    assert_eq!(tree(&site).len(), 1);
    fs::remove_file(site.join("thesis.tex")).unwrap();
    build(&sample(), &site).unwrap();
    assert!(site.join("index.html").exists());
}

#[test]
fn what_no_build_has_written_is_removed_on_request_only() {
    let world = tempfile::tempdir().unwrap();
    let site = world.path().join("site");
    let replace = || super::build(&sample(), &site, OtherEntries::Remove);
    build(&sample(), &site).unwrap();
    let names = || tree(&site).into_keys().collect::<Vec<_>>();
    let before = names();
    fs::create_dir_all(site.join(".git/objects")).unwrap();
    for name in [".htaccess", "CNAME", "p/notes.txt", ".git/config"] {
        fs::write(site.join(name), "x").unwrap();
    }
    std::os::unix::fs::symlink("../index.html", site.join("i/link")).unwrap();
    let with_others = names();
    let error = build(&sample(), &site).unwrap_err();
    let expected = "written: .git, .htaccess, CNAME, i/link, p/notes.txt";
    assert!(error.to_string().ends_with(expected), "{error}");
    assert_eq!(names(), with_others);
    assert_eq!(replace().unwrap().written, 0);
    assert_eq!(names(), before);
    // A list that cannot be read does not say what belongs to the site.
    let list = site.join(".cabane-catalogue");
    for damaged in ["", "cabane-catalogue 2\n", "cabane-catalogue 1\nx\n"] {
        fs::write(&list, damaged).unwrap();
        fs::write(site.join("CNAME"), "x").unwrap();
        let error = build(&sample(), &site).unwrap_err();
        assert!(error.to_string().contains("is damaged, or of another version"), "{error}");
        assert!(site.join("CNAME").exists());
        replace().unwrap();
        assert!(!site.join("CNAME").exists());
    }
    // What never was a site is not replaced either.
    fs::remove_file(&list).unwrap();
    replace().unwrap_err();
}

#[test]
fn what_a_killed_build_has_left_is_removed() {
    let world = tempfile::tempdir().unwrap();
    let site = world.path().join("site");
    let fresh = world.path().join("fresh");
    build(&sample(), &fresh).unwrap();
    // Before the exchange.
    fs::create_dir_all(world.path().join(".site.catalogue-new/i")).unwrap();
    fs::write(world.path().join(".site.catalogue-new/index.html"), "half").unwrap();
    build(&sample(), &site).unwrap();
    // Where directories cannot be exchanged, between the two steps.
    fs::rename(&site, world.path().join(".site.catalogue-old")).unwrap();
    fs::create_dir(world.path().join(".site.catalogue-new")).unwrap();
    assert_eq!(build(&sample(), &site).unwrap().written, 0);
    let names = fs::read_dir(world.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let names: BTreeSet<_> = names.collect();
    assert_eq!(names, ["fresh", "site"].map(Into::into).into());
    let bytes = |path: &Path| tree(path).into_values().map(|(bytes, _)| bytes).collect::<Vec<_>>();
    assert_eq!(bytes(&site), bytes(&fresh));
}

#[test]
fn files_that_are_lost_or_changed_in_size_are_written_again() {
    let world = tempfile::tempdir().unwrap();
    let site = world.path().join("site");
    build(&sample(), &site).unwrap();
    let before = tree(&site);
    fs::remove_file(site.join("index.html")).unwrap();
    fs::write(site.join("p/zlib.html"), "half").unwrap();
    fs::remove_file(site.join("style.css")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", site.join("style.css")).unwrap();
    assert_eq!(build(&sample(), &site).unwrap().written, 3);
    let bytes = |tree: BTreeMap<PathBuf, (Vec<u8>, u64)>| {
        tree.into_iter().map(|(path, (bytes, _))| (path, bytes)).collect::<Vec<_>>()
    };
    assert_eq!(bytes(tree(&site)), bytes(before));
}

#[test]
fn two_builds_at_once_are_refused() {
    let world = tempfile::tempdir().unwrap();
    let lock = fs::File::open(world.path()).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let error = build(&sample(), &world.path().join("site")).unwrap_err();
    assert!(error.to_string().contains("another build is writing"), "{error}");
}

/// Pages whose input is the same are not written again. So the number of the layout has to change with
/// the pages.
#[test]
fn the_number_of_the_layout_changes_with_the_pages() {
    const SUM: &str = "33e0826ed191786a";
    let mut sum = sha2::Sha256::new();
    for (path, text) in files(&sample()) {
        let is_kept = path.starts_with("i/") || path.starts_with("p/") || path.starts_with("api/");
        if is_kept {
            sum.update(format!("{path}\n{text}\n"));
        }
    }
    let found = Digest::from_bytes(sum.finalize().into()).id().to_string();
    assert_eq!(found, SUM, "raise `LAYOUT` in site.rs if it is not new, and put the sum here");
}
