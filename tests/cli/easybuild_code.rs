// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Easyblocks and hooks of a recipe, with the real EasyBuild.

use cabane_testkit::not_run;

use crate::cabane::{Who, everybody};
use crate::easybuild::{CONFIG, Recipe, tools, version};
use crate::module_views::{Tool, lmod, modules};

/// An easyblock that needs no source and writes a program.
const EASYBLOCK: &str = "\
import os
from easybuild.framework.easyblock import EasyBlock
from easybuild.tools.filetools import adjust_permissions, mkdir, write_file


class Stamp(EasyBlock):
    def configure_step(self):
        pass

    def build_step(self):
        pass

    def install_step(self):
        program = os.path.join(self.installdir, 'bin', 'stamp')
        mkdir(os.path.dirname(program), parents=True)
        write_file(program, '#!/bin/sh\\necho stamped\\n')
        adjust_permissions(program, 0o755, relative=False)
";

const STAMP: &str = "\
easyblock = 'Stamp'
name = 'stamp'
version = '1.0'
homepage = 'https://example.org/stamp'
description = 'A stamp'
toolchain = SYSTEM
sanity_check_paths = {'files': ['bin/stamp'], 'dirs': []}
moduleclass = 'tools'
";

/// Changes an easyconfig when it is read, and an installation when it is finished.
const HOOKS: &str = "\
import os
from easybuild.tools.filetools import write_file


def parse_hook(ec, *args, **kwargs):
    if ec.name == 'stamp':
        ec['modextravars'] = {'FROM_HOOK': 'parsed'}


def post_easyblock_hook(self, *args, **kwargs):
    write_file(os.path.join(self.installdir, 'hooked'), f'hooked {self.name}')
";

fn recipe(who: Who, python: &str, tool: &Tool) -> Recipe {
    let recipe = Recipe::new(who, python, tool);
    for (file, text) in [
        ("recipe/blocks/stamp.py", EASYBLOCK),
        ("recipe/site/hooks.py", HOOKS),
        ("recipe/stamp-1.0.eb", STAMP),
    ] {
        recipe.cabane.world.file(file, text);
    }
    recipe.config(&config(python));
    recipe
}

fn config(python: &str) -> String {
    let keys = "  easyconfigs: [hello-1.0.eb, stamp-1.0.eb]\n  easyblocks: blocks\n  \
                hooks: site/hooks.py\n";
    let config = CONFIG.replace("VERSION", &version(python));
    let config = config.replace("  easyconfigs: [hello-1.0.eb]\n", keys);
    config.replace("[hello/1.0]", "[hello/1.0, stamp/1.0]")
}

#[test]
fn easyblocks_and_hooks_of_the_recipe_are_used() {
    let (python, lmod, modules) = tools!();
    for (who, tool) in everybody().into_iter().zip([&lmod, &modules]) {
        let recipe = recipe(who, &python, tool);
        recipe.check().success();
        recipe.build(&[]).success();
        let script =
            "stamp; echo $FROM_HOOK; cat $EBROOTSTAMP/hooked; echo; cat $EBROOTBASE/hooked";
        let seen = recipe.cabane.run(&["run", "apps", "--", "sh", "-c", script]).success();
        assert_eq!(seen.stdout, "stamped\nparsed\nhooked stamp\nhooked base", "{who:?}");
        let digest = recipe.digest();
        recipe.build(&["--from=sources"]).success();
        assert_eq!(recipe.digest(), digest);
    }
}

#[test]
fn a_change_of_an_easyblock_or_of_a_hook_builds_the_packages_again() {
    let (python, lmod, _) = tools!();
    let recipe = recipe(Who::OrdinaryUser, &python, &lmod);
    recipe.build(&[]).success();
    let seen = recipe.build(&[]).success();
    assert!(seen.stderr.contains("nothing has changed"), "{}", seen.stderr);
    let run = || {
        let script = "stamp; echo $FROM_HOOK";
        recipe.cabane.run(&["run", "apps", "--", "sh", "-c", script]).success().stdout
    };
    recipe
        .cabane
        .world
        .file("recipe/blocks/stamp.py", &EASYBLOCK.replace("echo stamped", "echo new"));
    let seen = recipe.build(&["--dry-run"]).success();
    assert!(seen.stdout.contains("(to do: `blocks/stamp.py` changed)"), "{}", seen.stdout);
    recipe.build(&[]).success();
    assert_eq!(run(), "new\nparsed\n");
    recipe.cabane.world.file("recipe/site/hooks.py", &HOOKS.replace("'parsed'", "'changed'"));
    recipe.build(&[]).success();
    assert_eq!(run(), "new\nchanged\n");
    // Without hooks.
    recipe.config(&config(&python).replace("  hooks: site/hooks.py\n", ""));
    recipe.build(&[]).success();
    assert_eq!(run(), "new\n\n");
}

#[test]
fn a_check_shows_where_easyblocks_and_hooks_are_wrong() {
    let (python, lmod, _) = tools!();
    let recipe = recipe(Who::OrdinaryUser, &python, &lmod);
    let config = config(&python);
    let refuse = |expected: &str| {
        let seen = recipe.check();
        assert!(seen.code == 3 && seen.stderr.contains(expected), "{expected}: {}", seen.stderr);
    };
    recipe.config(&config.replace("easyblocks: blocks", "easyblocks: [blocks/stump.py]"));
    refuse(
        "recipe/config.yaml:8:16: the recipe has no file blocks/stump.py\n  \
         |   easyblocks: [blocks/stump.py]\n  |                ^^^^^^^^^^^^^^^\n  \
         hint: create ",
    );
    recipe.config(&config.replace("easyblocks: blocks", "easyblocks: block"));
    refuse("recipe/config.yaml:8:15: the recipe has no directory block\n");
    recipe.config(&config.replace("site/hooks.py", "hooks.py"));
    refuse("recipe/config.yaml:9:10: the recipe has no file hooks.py\n");
    recipe.cabane.world.file("recipe/empty/README", "");
    recipe.config(&config.replace("easyblocks: blocks", "easyblocks: [empty, blocks]"));
    refuse("recipe/config.yaml:8:16: there are no easyblocks in this directory\n");
    recipe.config(&config);
    recipe.cabane.world.file("recipe/site/hooks.py", "def parse_hook(ec):\n    x = = 1\n");
    refuse("recipe/site/hooks.py:2:9: invalid syntax\n  |     x = = 1\n");
    recipe.cabane.world.file("recipe/site/hooks.py", HOOKS);
    recipe.cabane.world.file("recipe/blocks/more/stamp.py", EASYBLOCK);
    let seen = recipe.check();
    let expected = "the easyblocks blocks/more/stamp.py and blocks/stamp.py have the same name";
    assert!(seen.code == 7 && seen.stderr.contains(expected), "{}", seen.stderr);
}

#[test]
fn a_hook_that_easybuild_does_not_know_is_named() {
    let (python, lmod, _) = tools!();
    let recipe = recipe(Who::OrdinaryUser, &python, &lmod);
    recipe.cabane.world.file("recipe/site/hooks.py", &HOOKS.replace("parse_hook", "pars_hook"));
    let seen = recipe.build(&[]);
    assert!(seen.code == 7 && seen.stderr.contains("unknown hooks"), "{}", seen.stderr);
}
