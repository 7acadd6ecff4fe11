// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Names of packages, versions, and variants in recipes: `cabane recipe check`, and builds.

use crate::cabane::Who;
use crate::spack::Stack;

const XML: &str = "from spack_repo.builtin.build_systems import autotools\n\
from spack_repo.builtin.build_systems.autotools import AutotoolsPackage\n\
from spack.package import *\n\nclass Libxml2(AutotoolsPackage):\n    \
version(\"2.15.3\", sha256=\"a\")\n    version(\"2.9.14\", sha256=\"b\", deprecated=True)\n    \
version(\n        \"2.13.9\", sha256=\"c\"\n    )\n    \
# variant(\"hidden\")\n    variant(\"python\", default=False)\n    provides(\"xml-api@1:\")\n";

/// A package whose variants have values, some of which are computed.
const GPU: &str = "class Gpu(PackageBase):\n    archs = (\"80\", \"90\",)\n    version(\"2.1\")\n    \
version(\"2.0\")\n    \
variant(\"build_type\", default=\"Release\", values=(\"Debug\", conditional(\"Release\", when=\"@2:\")))\n    \
variant(\"cuda_arch\", values=any_combination_of(*archs), when=\"+cuda\")\n    \
variant(\"cuda\", default=False)\n    variant(\"rank\", default=\"1\", values=int)\n    \
variant(\"std\", default=\"a\", values=(\"a\",) + more)\n    \
variant(\"std\", default=\"a\", values=(\"a\",), when=\"@2:\")\n";

const AUTOTOOLS: &str = "from spack.package import *\n\nclass AutotoolsPackage(PackageBase):\n    \
variant(\"pic\", default=True)\n";

/// A recipe, and package repositories in which there is something.
pub(crate) fn stack() -> Stack {
    let stack = Stack::new(Who::OrdinaryUser);
    let builtin = |name: &str, text: &str| {
        stack.cabane.world.file(&format!("packages/repos/spack_repo/builtin/{name}"), text);
    };
    builtin("packages/libxml2/package.py", XML);
    builtin("packages/gpu/package.py", GPU);
    let gcc = "version(\"14.2.0\")\nvariant(\"languages\", values=str)\n";
    builtin("packages/gcc/package.py", gcc);
    builtin("packages/_3dtk/package.py", "class _3dtk(Package):\n    version(\"1.0\")\n");
    builtin("packages/py_xml/package.py", "for v in vs:\n    version(v)\n    variant(v)\n");
    builtin("build_systems/__init__.py", "");
    builtin("build_systems/autotools.py", AUTOTOOLS);
    let file = |name: &str, text: &str| stack.cabane.world.file(name, text);
    let own = "from spack_repo.builtin.packages.libxml2.package import Libxml2 as Other\n\n\
               class Hello(Other):\n    version(\"2\", sha256=\"d\")\n    variant(\"loud\")\n";
    file("recipe/repo/packages/hello/package.py", own);
    file("system/repos.yaml", "repos: [site]\n");
    file("system/site/packages/site_mpi/package.py", "class SiteMpi(X):\n    provides('mpi')\n");
    stack.commit("packages");
    stack
}

impl Stack {
    /// Writes what is installed, and checks the recipe.
    fn check_specs(&self, specs: &[&str], more: &[&str]) -> (i32, Vec<String>) {
        self.write_specs(specs);
        let (recipe, system) = (self.path("recipe"), self.path("system"));
        let arguments = ["recipe", "check", &recipe, "--system", &system];
        let mut command = self.cabane.command(&[&arguments, more].concat());
        // It is never started.
        command.env("CABANE_SPACK_PYTHON", "/usr/bin/python3");
        let seen = self.cabane.finish(&mut command);
        let lines = seen.stderr.lines().map(|line| line.replace("[WORLD]/recipe/", ""));
        (seen.code, lines.filter(|line| !line.starts_with("  |")).collect())
    }

    pub(crate) fn write_specs(&self, specs: &[&str]) {
        let specs: Vec<String> = specs.iter().map(|spec| format!("  - {spec}\n")).collect();
        let specs = specs.concat();
        let text = format!("tools:\n  compiler: [gcc]\n  views: {{default: }}\n  specs:\n{specs}");
        self.cabane.world.file("recipe/environments.yaml", &text);
    }
}

#[test]
fn what_does_not_exist_is_reported_with_its_place() {
    let stack = stack();
    stack.cabane.world.file("recipe/repo/packages/gcc/package.py", "version('14')\n");
    stack.cabane.world.file("recipe/compilers.yaml", "gcc: {version: '14.99', spec: +fast}\n");
    let specs = ["libxml3", "libxml2@1.99 +pythn", "hello ^libxml2@:2.8 ~hidden", "zzzzzzzz"];
    let (code, lines) = stack.check_specs(&specs, &[]);
    let expected = [
        "error: 8 mistakes in the recipe",
        "compilers.yaml:1:16: the package `gcc` has no version 14.99",
        "  hint: the newest version is `14`",
        "compilers.yaml:1:32: the package `gcc` has no variant `fast`",
        "  hint: remove it: the package has no variants",
        "environments.yaml:5:5: there is no package `libxml3`",
        "  hint: did you mean `libxml2`?",
        "environments.yaml:6:13: the package `libxml2` has no version 1.99",
        "  hint: the newest versions are `2.15.3` and `2.13.9`",
        "environments.yaml:6:19: the package `libxml2` has no variant `pythn`",
        "  hint: did you mean `python`?",
        "environments.yaml:7:20: the package `libxml2` has no version :2.8",
        "  hint: the nearest version is `2.13.9`, and the newest is `2.15.3`",
        "environments.yaml:7:26: the package `libxml2` has no variant `hidden`",
        "  hint: its variants are `pic` and `python`",
        "environments.yaml:8:5: there is no package `zzzzzzzz`",
        "  hint: put your own packages into `repo/packages` of the recipe",
    ];
    assert_eq!((code, lines), (3, expected.map(str::to_owned).to_vec()));
}

#[test]
fn what_exists_or_may_exist_is_accepted() {
    let stack = stack();
    let external = "packages:\n  libxml2:\n    externals:\n    - spec: libxml2@1.7.1+python\n      \
                    prefix: /usr\n";
    stack.cabane.world.file("recipe/packages.yaml", external);
    let specs = [
        "libxml2@2.13 +pic target=x86_64_v3 cflags=-O3 build_system=autotools",
        "libxml2@2.9:2.14,7 ++nosuch ^3dtk",
        "libxml2@git.main=2.15",
        "libxml2@0123456789012345678901234567890123456789",
        "libxml2@1.7.1",
        "py-xml@77 +anything",
        "hello@2+loud+python ^mpi %c=gcc",
        "builtin.libxml2 %aocc@9 ^xml-api",
        "site-mpi",
        "recipe.hello@2.15",
    ];
    let (code, lines) = stack.check_specs(&specs, &[]);
    let name = "[WORLD]/recipe: stack, engine spack".to_owned();
    assert_eq!((code, lines), (0, vec![name]));
}

#[test]
fn values_that_a_variant_cannot_have_are_mistakes() {
    let stack = stack();
    let specs = [
        "gpu build_type=release",
        "gpu+cuda cuda_arch=80,sm_90",
        "gpu cuda=on",
        "gpu+build_type",
        "hello ^gpu@2 build_type=\"Fast\"",
    ];
    let (code, lines) = stack.check_specs(&specs, &[]);
    let expected = [
        "error: 5 mistakes in the recipe",
        "environments.yaml:5:20: the variant `build_type` of the package `gpu` has no value `release`",
        "  hint: did you mean `Release`?",
        "environments.yaml:6:27: the variant `cuda_arch` of the package `gpu` has no value `sm_90`",
        "  hint: did you mean `90`?",
        "environments.yaml:7:14: the variant `cuda` of the package `gpu` is on or off, not `on`",
        "  hint: write `+cuda` or `~cuda`",
        "environments.yaml:8:9: the variant `build_type` of the package `gpu` needs a value",
        "  hint: write `build_type=` with `Debug` and `Release`",
        "environments.yaml:9:30: the variant `build_type` of the package `gpu` has no value `Fast`",
        "  hint: its values are `Debug` and `Release`",
    ];
    assert_eq!((code, lines), (3, expected.map(str::to_owned).to_vec()));
    let specs = [
        "gpu build_type=Debug +cuda cuda_arch:=80,90 rank=7 std=any",
        "gpu cuda=True cuda_arch=none target=any cflags=-O9",
        "gpu cuda_arch=* build_type==Fast",
    ];
    let (code, lines) = stack.check_specs(&specs, &[]);
    assert_eq!((code, lines.len()), (0, 1), "{lines:#?}");
}

#[test]
fn settings_of_the_system_that_name_what_does_not_exist_cause_warnings() {
    let stack = stack();
    let system = stack.cabane.world.path("system/packages.yaml");
    let text = std::fs::read_to_string(&system).unwrap();
    let lines = text.lines().count();
    let more = "  libxml4:\n    buildable: false\n  gpu:\n    version: ['9.9', 2.0]\n    \
                require: [build_type=Fast]\n  libxml2:\n    externals:\n    \
                - {spec: libxml2@1.7.1+pythn, prefix: /usr}\n    \
                - {spec: 'libxml2@1.7:+python', prefix: /usr}\n";
    std::fs::write(&system, text + more).unwrap();
    stack.cabane.world.file("system/network.yaml", "mpi:\n  mpihc: {specs: [gpu+cud]}\n");
    stack.write_specs(&["libxml2"]);
    let (code, found) = stack.check_specs(&["libxml2"], &[]);
    let place = "warning: [WORLD]/system/packages.yaml:";
    let of_packages: Vec<_> =
        found.iter().filter_map(|line| line.strip_prefix(place)?.split_once(':')).collect();
    let line = |number: usize| (lines + number).to_string();
    let expected = [
        (line(1), "3: there is no package `libxml4`"),
        (line(4), "16: the package `gpu` has no version 9.9"),
        (line(5), "26: the variant `build_type` of the package `gpu` has no value `Fast`"),
        (line(8), "28: the package `libxml2` has no variant `pythn`"),
        (line(9), "23: the external package `libxml2` has no exact version: 1.7:"),
    ];
    let expected: Vec<_> = expected.iter().map(|(line, text)| (line.as_str(), *text)).collect();
    assert_eq!((code, of_packages), (0, expected), "{found:#?}");
    for text in ["2:3: there is no package `mpihc`", "2:23: the package `gpu` has no variant `cud`"]
    {
        let line = format!("warning: [WORLD]/system/network.yaml:{text}");
        assert!(found.contains(&line), "{found:#?}");
    }
    // They are shown once.
    let (recipe, system) = (stack.path("recipe"), stack.path("system"));
    let seen = stack.cabane.run(&["recipe", "check", &recipe, &recipe, "--system", &system]);
    assert_eq!(seen.stderr.matches("no package `libxml4`").count(), 1, "{}", seen.stderr);
    // A build uses these settings, and does not repeat what is said about them.
    let seen = stack.build(&["stack/1"]).success();
    assert!(!seen.stderr.contains("libxml4"), "{}", seen.stderr);
}

#[test]
fn what_spack_may_accept_is_a_warning() {
    let stack = stack();
    let (code, lines) = stack.check_specs(&["libxml2@=2.13.77"], &[]);
    assert_eq!(code, 0);
    assert_eq!(
        lines[0],
        "warning: environments.yaml:5:13: the package `libxml2` does not declare the version \
         2.13.77"
    );
    // A script of the recipe may add packages.
    stack.cabane.world.file("recipe/pre-install", "#!/bin/sh\n");
    let (code, lines) = stack.check_specs(&["libxml3"], &[]);
    let expected = "warning: environments.yaml:5:5: there is no package `libxml3`";
    assert_eq!((code, lines[0].as_str()), (0, expected));
}

#[test]
fn settings_of_packages_that_name_what_does_not_exist_cause_warnings() {
    let stack = stack();
    let settings = "packages:\n  libxml2:\n    require:\n    - '@9:'\n    - any_of: ['+pythn', \
                    '+python']\n      when: '@8:'\n    - spec: ^libxml3\n    prefer: '+pic %aocc'\n    \
                    variants: [~hidden]\n    version: ['2.13', '2.7', '=2.13.8']\n  libxml4:\n    require: '+x'\n  mpi:\n    \
                    require: site-mpi+any\n  xml-api:\n    require: ['@7:', hello+loud+nosuch]\n  py-xml:\n    \
                    prefer: ['@77', +anything]\n  all:\n    require: [+anything, target=x86_64_v3, \
                    '%[when=%c] c=gcc']\n    prefer: '^libxml5'\n";
    stack.cabane.world.file("recipe/packages.yaml", settings);
    let (code, lines) = stack.check_specs(&["libxml2"], &[]);
    let found: Vec<&str> =
        lines.iter().filter_map(|line| line.strip_prefix("warning: packages.yaml:")).collect();
    let expected = [
        "4:9: the package `libxml2` has no version 9:",
        "5:18: the package `libxml2` has no variant `pythn`",
        "7:14: there is no package `libxml3`",
        "9:17: the package `libxml2` has no variant `hidden`",
        "10:24: the package `libxml2` has no version 2.7",
        "10:31: the package `libxml2` does not declare the version 2.13.8",
        "11:3: there is no package `libxml4`",
        "16:33: the package `hello` has no variant `nosuch`",
        "21:15: there is no package `libxml5`",
    ];
    assert_eq!((code, found), (0, expected.to_vec()), "{lines:#?}");
}

#[test]
fn packages_that_are_elsewhere_are_looked_up_when_they_were_fetched() {
    let stack = stack();
    let config = stack.cabane.world.path("recipe/config.yaml");
    let text = std::fs::read_to_string(&config).unwrap();
    let clones = stack.path("home/clones");
    let text = text.replace(&clones, &format!("file://{clones}"));
    std::fs::write(&config, text).unwrap();
    let not_looked_up = "package names were not looked up: `builtin` is not on this machine; \
                         add `--fetch`";
    let (code, lines) = stack.check_specs(&["libxml3"], &[]);
    assert_eq!((code, lines.last().map(String::as_str)), (0, Some(not_looked_up)));
    let mistake = "environments.yaml:5:5: there is no package `libxml3`";
    let (code, lines) = stack.check_specs(&["libxml3"], &["--fetch"]);
    assert!(code == 3 && lines.iter().any(|line| line == mistake), "{lines:#?}");
    // The branch may have it by now.
    let (code, lines) = stack.check_specs(&["libxml3"], &[]);
    assert_eq!((code, lines[0].clone()), (0, format!("warning: {mistake}")));
}

#[test]
fn a_build_looks_names_up_before_spack_runs() {
    let stack = stack();
    stack.write_specs(&["libxml3"]);
    let seen = stack.build(&["stack/1"]);
    assert!(
        seen.code == 3 && seen.stderr.contains(":5:5: there is no package `libxml3`"),
        "{seen:?}"
    );
    assert_eq!(stack.called(), Vec::<String>::new());
    stack.write_specs(&["libxml2"]);
    stack.build(&["stack/1"]).success();
}
