// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Recipes of formats 1 and 2, written in format 3.

use cabane_recipe::{Conversion, ConvertTo, convert_stack};

use crate::stack::Files;

fn converted(text: &str) -> Conversion {
    convert_stack(&Files::of(text).stack(), &ConvertTo::default())
        .unwrap_or_else(|error| panic!("{error}"))
}

fn file<'a>(conversion: &'a Conversion, name: &str) -> &'a str {
    let found = conversion.files.iter().find(|(other, _)| *other == name);
    found.map_or("", |(_, text)| text)
}

const FIRST: &str = "--- config.yaml
# Who uses this: everybody.
name: demo
store: /user-environment

spack:
  repo: https://example.org/spack.git
  commit: releases/v0.23  # the last one
modules: true
--- modules.yaml
modules: {}
--- compilers.yaml
# gcc as the users want it
bootstrap:
  spec: gcc@12
gcc:
  specs:
  - gcc@13.2
llvm:
  requires: gcc@13
  specs: [nvhpc@25.1]
--- environments.yaml
# All that is needed.
demo:
  compiler:
      - toolchain: gcc
        spec: gcc@13
      # for Fortran
      - toolchain: llvm
        spec: nvhpc
  mpi:
      spec: cray-mpich@8.1.30%nvhpc
      gpu: cuda
  unify: true
  specs:
  # the file format
  - hdf5 +mpi %nvhpc   # with MPI
  packages:
  - perl

  views:
    default:
      link: roots   # as everywhere
";

#[test]
fn what_authors_wrote_around_what_changes_stays() {
    let conversion = converted(FIRST);
    let files = [
        file(&conversion, "config.yaml"),
        file(&conversion, "compilers.yaml"),
        file(&conversion, "environments.yaml"),
    ];
    assert_eq!(
        files.join("--\n"),
        "# Who uses this: everybody.
name: demo
version: 3
store: /user-environment

spack:
  repo: https://example.org/spack.git
  commit: releases/v1.2  # the last one
  packages:
    repo: https://github.com/spack/spack-packages.git
    commit: releases/v2026.06
--
# gcc as the users want it
gcc:
  version: '13.2'
nvhpc:
  version: '25.1'
--
# All that is needed.
demo:
      # for Fortran
  compiler: [gcc, nvhpc]
  network:
    mpi: cray-mpich@8.1.30 +cuda
  unify: true
  specs:
  # the file format
  - hdf5 +mpi %nvhpc   # with MPI

  views:
    default:
      link: roots   # as everywhere
"
    );
}

#[test]
fn what_needs_a_review_is_reported() {
    let notes = converted(FIRST).notes;
    let beginnings: Vec<&str> = notes.iter().map(|note| &note[..30]).collect();
    assert_eq!(
        beginnings,
        [
            "the recipe now uses Spack rele",
            "the environment `demo` looked ",
            "environments.yaml, line 10: th",
        ]
    );
}

#[test]
fn a_file_that_is_written_in_brackets_is_written_anew() {
    let text = FIRST.replace("name: demo\nstore: /user-environment\n", "name: demo\n");
    let conversion = converted(&text.replace(
        "spack:\n  repo: https://example.org/spack.git\n  commit: releases/v0.23  # the last one\n",
        "spack: {repo: https://example.org/spack.git, commit: v0.23}\n",
    ));
    assert!(
        file(&conversion, "config.yaml").starts_with("name: demo\nversion: 3\nstore: /user-")
            && conversion
                .notes
                .contains(&"config.yaml was written anew, without its comments".to_owned()),
        "{conversion:#?}"
    );
}

#[test]
fn module_files_that_were_there_without_a_file_get_one() {
    let text = FIRST.replace("--- modules.yaml\nmodules: {}\n", "");
    let conversion = converted(&text);
    assert!(file(&conversion, "modules.yaml").contains("enable: [tcl]"));
}

#[test]
fn a_modules_file_that_did_not_count_is_removed() {
    let conversion = converted(&FIRST.replace("modules: true", "modules: false"));
    assert_eq!(conversion.removed, ["modules.yaml"]);
}

#[test]
fn a_recipe_of_the_second_format_changes_in_one_line() {
    let text = "--- config.yaml
name: demo
spack:
  repo: https://example.org/spack.git
  commit: v1.2.0
  packages: {repo: https://example.org/packages.git}
version: 2 # since May
--- compilers.yaml
gcc: {version: '14'}
--- environments.yaml
demo: {compiler: [gcc], specs: [zlib]}
";
    let conversion = converted(text);
    let names: Vec<_> = conversion.files.iter().map(|(name, _)| *name).collect();
    let config = file(&conversion, "config.yaml");
    assert_eq!(
        (names, config.lines().last(), conversion.notes.len()),
        (vec!["config.yaml"], Some("version: 3 # since May"), 0)
    );
}

#[test]
fn a_recipe_gets_the_commits_that_are_named() {
    let text = "--- config.yaml
name: demo
version: 3
spack:
  repo: https://example.org/spack.git
  commit:
  packages:
    builtin:
      repo: https://example.org/packages.git
      commit: v2026.03 # of March
    site: {repo: https://example.org/site.git}
--- compilers.yaml
gcc: {version: '14'}
--- environments.yaml
demo: {compiler: [gcc], specs: [zlib]}
";
    let to = ConvertTo { spack: Some("releases/v1.2"), packages: Some("v2026.06") };
    let conversion = convert_stack(&Files::of(text).stack(), &to).unwrap();
    assert_eq!(
        file(&conversion, "config.yaml"),
        "name: demo
version: 3
spack:
  repo: https://example.org/spack.git
  commit: releases/v1.2
  packages:
    builtin:
      repo: https://example.org/packages.git
      commit: v2026.06 # of March
    site: {repo: https://example.org/site.git}
"
    );
    let text = text.replace("version: 3", "version: 2").replace("  commit:\n", "");
    let conversion = convert_stack(&Files::of(&text).stack(), &to).unwrap();
    let config = file(&conversion, "config.yaml");
    assert!(config.contains("spack.git\n  commit: releases/v1.2\n  packages:\n"), "{config}");
}

#[test]
fn a_fork_of_an_old_spack_is_left() {
    let conversion =
        converted(&FIRST.replace("https://example.org/spack", "https://github.com/somebody/spack"));
    let config = file(&conversion, "config.yaml");
    assert!(config.contains("repo: https://github.com/spack/spack.git\n  commit: rel"), "{config}");
    let note = "Spack comes from spack/spack now, and no longer from \
                https://github.com/somebody/spack.git: what was changed there is missing";
    assert!(conversion.notes.iter().any(|one| one == note), "{:?}", conversion.notes);
}

#[test]
fn a_recipe_of_the_third_format_stays_as_it_is() {
    let text = "--- config.yaml
name: demo
version: 3
spack: {repo: r, commit: v1.2.0, packages: {repo: p}}
--- compilers.yaml
gcc: {version: '14'}
--- environments.yaml
demo: {compiler: [gcc], specs: [zlib]}
";
    assert_eq!(converted(text).files, []);
}

#[test]
fn everything_that_views_have_is_written_anew_if_it_must_be() {
    let text = "--- config.yaml
{name: demo, version: 2, spack: {repo: r, commit: v1.2.0, packages: {repo: p, path: q}}}
--- compilers.yaml
{gcc: {version: system}, llvm: {version: 19, spec: +flang}}
--- environments.yaml
{demo: {compiler: [gcc, llvm], packages: [perl], specs: [zlib], unify: when_possible,
  duplicates: {strategy: full}, deprecated: true, variants: [+mpi], prefer: ['%gcc'],
  network: {mpi: mpich, specs: [libfabric]},
  views: {a: {link: run, select: [zlib], exclude: [perl], projections: {all: '{name}'},
    uenv: {add_compilers: false, prefix_paths: {PATH: [bin]},
      env_vars: {set: [{A: '1'}, {B: null}], prepend_path: [{PATH: /a}], append_path: [{PATH: /b}]}}}}}}
";
    let conversion = converted(text);
    assert_eq!(
        file(&conversion, "environments.yaml"),
        "demo:
  compiler:
  - gcc
  - llvm
  network:
    mpi: mpich
    specs:
    - libfabric
  unify: when_possible
  duplicates:
    strategy: full
  deprecated: true
  specs:
  - zlib
  variants:
  - '+mpi'
  prefer:
  - '%gcc'
  views:
    a:
      link: run
      select:
      - zlib
      exclude:
      - perl
      projections:
        all: '{name}'
      uenv:
        add_compilers: false
        prefix_paths:
          PATH:
          - bin
        env_vars:
          set:
          - A: '1'
          - B: null
          prepend_path:
          - PATH: /a
          append_path:
          - PATH: /b
"
    );
}

#[test]
fn what_specs_of_an_old_spack_ask_of_a_package_is_not_asked_of_its_compiler() {
    let text = FIRST.replace("- hdf5 +mpi %nvhpc   # with MPI", "- hdf5 %nvhpc +mpi   # with MPI");
    let conversion = converted(&text);
    let environments = file(&conversion, "environments.yaml");
    assert!(environments.contains("  - 'hdf5 +mpi %nvhpc'   # with MPI\n"), "{environments}");
}
