// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A pipeline with a catalog: each run with a registry writes the website of what was released.

use std::fs;
use std::path::PathBuf;

use cabane_testkit::needs;

use crate::cabane::{Who, everybody};
use crate::pipeline::{RELEASE, Recipes};

fn with_catalogue(who: Who, catalogue: &str) -> (Recipes, PathBuf) {
    let recipes = Recipes::new(who, &format!("{RELEASE}\ncatalogue: {catalogue}"));
    let site = recipes.bed.shared.cabane.world.path("work/site");
    (recipes, site)
}

#[test]
fn a_run_shows_what_was_released_and_nothing_else() {
    needs!("docker-registry");
    for who in everybody() {
        let (recipes, site) = with_catalogue(who, "{directory: site, title: Software here}");
        let run = recipes.go(&[]);
        assert_eq!(run.code, 16, "{}", run.stderr);
        assert!(run.stderr.contains("catalog in [WORLD]/work/site: "), "{}", run.stderr);
        let index = fs::read_to_string(site.join("index.html")).unwrap();
        assert!(index.contains("Software here") && index.contains("good/1:v7"), "{index}");
        assert!(!index.contains("bad/1"), "{index}");
        // Nothing is left for the cells, and nothing changes in the site.
        let again = recipes.go(&[]);
        assert!(again.code == 16 && again.stderr.contains(", 0 of "), "{}", again.stderr);
    }
}

#[test]
fn the_namespaces_that_are_named_are_shown() {
    needs!("docker-registry");
    let (recipes, site) =
        with_catalogue(Who::OrdinaryUser, "{directory: site, namespaces: [build, deploy]}");
    recipes.go(&[]);
    let index = fs::read_to_string(site.join("index.html")).unwrap();
    assert!(index.contains("bad/1") && index.contains("good/1:v7"), "{index}");
}

#[test]
fn without_a_registry_there_is_no_site() {
    let (recipes, site) = with_catalogue(Who::OrdinaryUser, "{directory: site}");
    let run = recipes.run("run", &["--offline"]);
    assert_eq!(run.code, 16, "{}", run.stderr);
    assert!(!site.exists() && !run.stderr.contains("catalog"), "{}", run.stderr);
}

#[test]
fn a_site_that_cannot_be_written_is_an_error_after_everything_else() {
    needs!("docker-registry");
    let (recipes, site) = with_catalogue(Who::OrdinaryUser, "{directory: site}");
    recipes.bed.shared.cabane.world.file("work/site/thesis.tex", "mine");
    let run = recipes.go(&["--only", "good"]);
    assert_eq!(run.code, 17, "{}", run.stderr);
    let expected = "error: [WORLD]/work/site contains files that do not belong to a catalog\n\
                    hint: name a new directory; the catalog replaces everything in it\n\
                    the catalog has not changed\n";
    assert!(run.stderr.contains(expected), "{}", run.stderr);
    assert_eq!(recipes.labels("deploy::good@*").len(), 1);
    assert_eq!(fs::read_dir(site).unwrap().count(), 1);
}

#[test]
fn mistakes_in_its_description_have_a_place_and_a_hint() {
    let cases = [
        ("{title: x}", "directory", "add `directory:` with the directory of the site"),
        ("{directory: site, url: software.example.org}", "is not an address", "https://"),
        ("{directory: site, namespace: deploy}", "namespace", "namespaces"),
        ("{directory: site, namespaces: [a b]}", "a b", "hint: "),
    ];
    for (catalogue, message, hint) in cases {
        let (recipes, _) = with_catalogue(Who::OrdinaryUser, catalogue);
        let seen = recipes.run("check", &[]);
        assert_eq!(seen.code, 3, "{}", seen.stderr);
        let is_said = seen.stderr.contains(message) && seen.stderr.contains(hint);
        assert!(is_said && seen.stderr.contains("pipeline.yaml:2:"), "{}", seen.stderr);
    }
}

#[test]
fn the_site_can_be_written_by_itself() {
    needs!("docker-registry");
    let (recipes, site) = with_catalogue(Who::OrdinaryUser, "{directory: site}");
    assert_eq!(recipes.go(&["--only", "good"]).code, 0);
    let index = fs::read(site.join("index.html")).unwrap();
    fs::remove_dir_all(&site).unwrap();
    let written = recipes.run("catalogue", &[]).success();
    assert!(written.stderr.starts_with("catalog in [WORLD]/work/site: "), "{written:?}");
    assert_eq!(fs::read(site.join("index.html")).unwrap(), index);
}

#[test]
fn without_a_description_of_a_catalogue_it_says_what_to_add() {
    let recipes = Recipes::new(Who::OrdinaryUser, RELEASE);
    let seen = recipes.run("catalogue", &[]);
    let says = "pipeline.yaml describes no catalog\nhint: add a section such as `catalogue: ";
    assert!(seen.code == 3 && seen.stderr.contains(says), "{seen:?}");
}
