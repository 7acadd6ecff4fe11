// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `cabane build --install`: into a directory that is used as it is.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use cabane_testkit::Finished;

use crate::cabane::{Cabane, Who, everybody};

/// A recipe that packs a tree, and where it goes.
struct Site {
    cabane: Cabane,
}

impl Site {
    fn new(who: Who) -> Self {
        let cabane = Cabane::new(who);
        let config = "name: tools\nstore: /user-environment\nengine: tree\ntree:\n  source: tree\n";
        cabane.world.file("recipe/config.yaml", config);
        let site = Self { cabane };
        site.program("one");
        site
    }

    /// Changes what is installed.
    fn program(&self, says: &str) {
        let script = "mkdir -p $1/bin; printf '#!/bin/sh\\necho %s\\n' $2 >$1/bin/tool\n\
                      chmod +x $1/bin/tool; ln -sf tool $1/bin/link; echo $2 >$1/note";
        let tree = self.cabane.world.path("recipe/tree");
        let mut shell = Command::new("sh");
        shell.args(["-e", "-c", script, "sh"]).arg(tree).arg(says);
        Finished::of(&mut shell).success();
    }

    fn path(&self, name: &str) -> String {
        self.cabane.world.path(name).to_string_lossy().into_owned()
    }

    fn install(&self, more: &[&str]) -> Finished {
        let (recipe, target) = (self.path("recipe"), self.path("home/apps/tools"));
        let arguments = ["build", &recipe, "--install", &target];
        self.cabane.run(&[&arguments, more].concat())
    }

    fn says(&self) -> String {
        let link = self.path("home/apps/tools/bin/link");
        Finished::of(&mut Command::new(link)).success().stdout
    }

    /// What is beside the directory.
    fn beside(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("home/apps")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
        names.collect()
    }
}

#[test]
fn a_tree_is_installed_with_its_metadata_and_nothing_is_left_beside_it() {
    for who in everybody() {
        let site = Site::new(who);
        site.install(&[]).success();
        assert_eq!((site.says().as_str(), site.beside()), ("one\n", vec!["tools".to_owned()]));
        let meta = fs::read_to_string(site.path("home/apps/tools/meta/env.json")).unwrap();
        let mount = format!("\"mount\": \"{}\"", site.path("home/apps/tools"));
        assert!(meta.contains(&mount), "as {who:?}: {meta}");
    }
}

#[test]
fn what_is_installed_already_is_not_installed_again() {
    let site = Site::new(Who::OrdinaryUser);
    site.install(&[]).success();
    let inode = || fs::metadata(site.path("home/apps/tools")).unwrap().ino();
    let before = inode();
    let seen = site.install(&[]).success();
    assert!(seen.stderr.contains("nothing has changed"), "{seen:?}");
    assert_eq!(inode(), before);
}

#[test]
fn what_an_earlier_build_has_installed_is_replaced_only_on_request() {
    let site = Site::new(Who::OrdinaryUser);
    site.install(&[]).success();
    site.program("two");
    let refused = site.install(&[]);
    let expected = "error: cannot install into [WORLD]/home/apps/tools: it holds what an earlier \
                    build has put there\nhint: `--replace` replaces it";
    assert!(refused.stderr.starts_with(expected), "{refused:?}");
    assert_eq!(site.says(), "one\n");
    site.install(&["--replace"]).success();
    assert_eq!((site.says().as_str(), site.beside()), ("two\n", vec!["tools".to_owned()]));
}

#[test]
fn what_no_build_has_made_is_never_replaced() {
    let site = Site::new(Who::OrdinaryUser);
    let mut shell = site.cabane.other("sh");
    let script = "mkdir -p $HOME/apps/tools; echo mine >$HOME/apps/tools/file";
    Finished::of(shell.args(["-c", script])).success();
    let refused = site.install(&["--replace"]);
    assert!(
        refused.stderr.contains("it holds something that no build has put there"),
        "{refused:?}"
    );
    let kept = fs::read_to_string(site.path("home/apps/tools/file")).unwrap();
    assert_eq!(kept, "mine\n");
}
