// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! After an edit, real Spack solves again what changed, and the lock file is the one that
//! a machine without any cache would write.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use cabane_testkit::{Finished, belongs_to};

use crate::spack_real::{Real, small_recipe};

/// What own packages of the recipe import.
const BUILD_SYSTEM: &str = "\
from spack.package import *


class SitePackage(Package):
    url = 'https://example.org/site-1.0.tar.gz'
    version('2.0', sha256='2' * 64)
    version('1.0', sha256='1' * 64)

    def install(self, spec, prefix):
        mkdirp(prefix.share)
";

const MIDDLE: &str = "\
from spack_repo.recipe.build_systems.site import SitePackage

from spack.package import *


class Middle(SitePackage):
    # versions
    patch('fix.patch')
    depends_on('bzip2')

    def note(self):
        return 'middle'
";

const TOP: &str = "\
from spack_repo.recipe.build_systems.site import SitePackage

from spack.package import *


class Top(SitePackage):
    depends_on('middle')
";

/// An edit of the recipe's own packages, and what follows from it.
struct Edit {
    file: &'static str,
    from: &'static str,
    to: &'static str,
    changes_lock: bool,
    is_solved: bool,
}

const EDITS: [Edit; 6] = [
    Edit {
        file: "packages/middle/package.py",
        from: "return 'middle'",
        to: "return 'the middle'",
        changes_lock: true,
        is_solved: false,
    },
    Edit {
        file: "packages/middle/package.py",
        from: "# versions",
        to: "# versions are those of the build system",
        changes_lock: false,
        is_solved: false,
    },
    // Only the file of a patch: its checksum is part of the package.
    Edit {
        file: "packages/middle/fix.patch",
        from: "+two",
        to: "+three",
        changes_lock: true,
        is_solved: false,
    },
    // A package that no one needs.
    Edit {
        file: "packages/aside/package.py",
        from: "",
        to: "from spack.package import *\n\n\nclass Aside(Package):\n    version('1')\n    provides('aside-api')\n",
        changes_lock: false,
        is_solved: false,
    },
    Edit {
        file: "packages/middle/package.py",
        from: "depends_on('bzip2')",
        to: "depends_on('bzip2')\n    version('3.0', sha256='3' * 64, preferred=True)",
        changes_lock: true,
        is_solved: true,
    },
    // What packages inherit.
    Edit {
        file: "build_systems/site.py",
        from: "    url =",
        to: "    variant('extra', default=True, description='more')\n    url =",
        changes_lock: true,
        is_solved: true,
    },
];

const PATCH: &str = "--- a/one\n+++ b/one\n@@ -1 +1 @@\n-one\n+two\n";

/// Concretizes, and returns the lock file and how many solutions are kept now.
fn concretize(real: &Real, recipe: &Path, directory: &str, more: &[&str]) -> (String, usize) {
    let more = [&["--until", "concretize"], more].concat();
    real.build_with(recipe, directory, "edits/1.0", &more);
    let world = &real.cabane.world;
    let lock = world.path(&format!("{directory}/work/spack/env/stack/spack.lock"));
    (fs::read_to_string(lock).unwrap(), solutions(&world.path("home/.cache/cabane")))
}

fn solutions(cache: &Path) -> usize {
    let list = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten();
    let kept = list(cache.join("spack/solutions"));
    let kept = kept.flat_map(|of_spack| list(of_spack.path()));
    kept.flat_map(|version| list(version.path())).count()
}

#[test]
fn after_an_edit_the_lock_file_is_that_of_a_fresh_concretization() {
    let Some(mut real) = Real::new() else { belongs_to!("make test-spack") };
    let recipe = small_recipe(&real, "");
    let environments = "tools:\n  compiler: [gcc]\n  specs: [top]\n  views: {tools: {}}\n";
    real.cabane.world.file("recipe/environments.yaml", environments);
    let repository = recipe.join("repo");
    for (name, text) in [
        ("repo.yaml", "repo:\n  namespace: recipe\n  api: v2.2\n"),
        ("build_systems/site.py", BUILD_SYSTEM),
        ("packages/middle/package.py", MIDDLE),
        ("packages/middle/fix.patch", PATCH),
        ("packages/top/package.py", TOP),
    ] {
        real.cabane.world.file(&format!("recipe/repo/{name}"), text);
    }
    let (mut last, mut kept) = concretize(&real, &recipe, "build", &[]);
    assert_eq!(kept, 1);
    for edit in EDITS {
        let file = repository.join(edit.file);
        let text = fs::read_to_string(&file).unwrap_or_default();
        assert!(text.contains(edit.from), "{}", edit.file);
        let text = text.replacen(edit.from, edit.to, 1);
        real.cabane.world.file(&format!("recipe/repo/{}", edit.file), &text);
        let (lock, now) = concretize(&real, &recipe, "build", &[]);
        assert_eq!(lock != last, edit.changes_lock, "{}", edit.to);
        assert_eq!(now - kept, usize::from(edit.is_solved), "{}", edit.to);
        (last, kept) = (lock, now);
        // Nothing is looked up.
        let (fresh, now) = concretize(&real, &recipe, "fresh", &["--from", "concretize"]);
        assert_eq!((fresh == last, now), (true, kept), "{}", edit.to);
    }
    // Nor is there anything on another machine.
    let cache = real.cabane.world.path("home/other");
    real.variables.push(("XDG_CACHE_HOME", cache.to_string_lossy().into_owned()));
    let (elsewhere, _) = concretize(&real, &recipe, "elsewhere", &[]);
    assert_eq!((elsewhere == last, solutions(&cache.join("cabane"))), (true, 1));
}

/// A repository of packages at one commit, with some lines added to one package.
const COMMIT: &str = "\
[ -d $HOME/packages ] || git clone --quiet --shared --no-checkout \"$1\" $HOME/packages
cd $HOME/packages
git reset --quiet \"${4:-HEAD}\"
file=repos/spack_repo/builtin/packages/$2/package.py
git checkout --quiet -- $file
printf '%b' \"$3\" >>$file
git add $file
git -c user.name=x -c user.email=x@y commit --quiet --message=more
git rev-parse HEAD
";

#[test]
fn a_new_commit_of_the_packages_is_solved_only_if_it_changes_what_a_stack_reaches() {
    let Some(real) = Real::new() else { belongs_to!("make test-spack") };
    let recipe = small_recipe(&real, "");
    let config = fs::read_to_string(recipe.join("config.yaml")).unwrap();
    let mut named = config.lines().filter_map(|line| line.trim().strip_prefix("commit: "));
    let first = named.next_back().unwrap();
    let (clone, packages) =
        (env::var("CABANE_TEST_SPACK_PACKAGES").unwrap(), real.cabane.world.path("home/packages"));
    let address = "https://github.com/spack/spack-packages.git";
    let commit = |package: &str, lines: &str, base: &str| {
        let mut shell = real.cabane.other("sh");
        shell.args(["-e", "-c", COMMIT, "sh", &clone, package, lines, base]);
        let commit = Finished::of(&mut shell).success().stdout;
        let config = config.replace(first, commit.trim());
        let config = config.replace(address, &packages.to_string_lossy());
        real.cabane.world.file("recipe/config.yaml", &config);
    };
    let (before, kept) = concretize(&real, &recipe, "build", &[]);
    commit("zziplib", "\\n    version('99', sha256='0')\\n", first);
    let (after, now) = concretize(&real, &recipe, "build", &[]);
    assert_eq!((after == before, now - kept), (true, 0));
    commit("bzip2", "\\n    version('99', sha256='0', preferred=True)\\n", "HEAD");
    let (after, now) = concretize(&real, &recipe, "build", &[]);
    assert_eq!((after == before, now - kept), (false, 1));
    let (fresh, _) = concretize(&real, &recipe, "fresh", &["--from", "concretize"]);
    assert_eq!(fresh, after);
}
