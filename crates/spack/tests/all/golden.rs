// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Recipes beside everything that Spack gets for them.
//!
//! When what is passed changes, the failing test leaves the new version beside
//! the build, to be compared with the old one.

use std::fmt::Write as _;
use std::path::Path;

use cabane_recipe::Yaml;
use cabane_spack::{BinaryCache, Places, SpackStack, lower};

use crate::{Files, places};

/// Everything that Spack gets, as text.
fn text_of(stack: &SpackStack) -> String {
    let mut text = format!("Spack {}: {:?}\n", stack.version, stack.sources.spack);
    for one in &stack.sources.repositories {
        let _ = writeln!(text, "{one:?}");
    }
    for one in &stack.environments {
        let _ = writeln!(
            text,
            "--- environment {} needs {:?}, explicit: {}, compilers: {:?}, external: {:?}\n{}",
            one.name, one.needs, one.is_explicit, one.compilers, one.external_find, one.spack_yaml
        );
    }
    for (name, file) in &stack.config {
        let _ = writeln!(text, "--- config/{name}\n{file}");
    }
    for (name, file) in &stack.upstream {
        let _ = writeln!(text, "--- upstream/{name}\n{file}");
    }
    for view in &stack.views {
        let _ = writeln!(text, "--- view {}\n{view:#?}\n", view.name);
    }
    if let Some(modules) = &stack.modules {
        let _ = writeln!(text, "--- modules {:?}\n{}", modules.kinds, modules.modules_yaml);
    }
    let _ = writeln!(
        text,
        "--- rest\nbuilt: {:?}\ncleanup: {:?}\nkeys: {:?}\npush to: {:?}",
        stack.compilers, stack.cleanup, stack.keys, stack.push_to
    );
    text
}

/// Compares what Spack gets for a recipe with what it got.
fn assert_handed(name: &str, change: impl FnOnce(&mut Places)) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let read = |ending: &str| std::fs::read_to_string(directory.join(format!("{name}.{ending}")));
    let (recipe, system) = Files::of(&read("recipe").unwrap()).read();
    let mut places = places(&recipe, &system);
    change(&mut places);
    let handed = text_of(&lower(&recipe, &system, &places).unwrap());
    if read("handed").is_ok_and(|expected| expected == handed) {
        return;
    }
    let new = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.handed"));
    std::fs::write(&new, &handed).unwrap();
    panic!(
        "{handed}\nit differs from tests/golden/{name}.handed; it was left as {}",
        new.display()
    );
}

#[test]
fn compilers_of_the_system_are_preferred_for_the_languages_that_they_compile() {
    assert_handed("system-compilers", |_| {});
}

#[test]
fn a_recipe_with_the_gcc_of_the_system_and_an_mpi() {
    assert_handed("system-gcc", |_| {});
}

#[test]
fn a_recipe_with_every_compiler() {
    assert_handed("every-compiler", |_| {});
}

#[test]
fn a_recipe_with_everything_that_views_and_modules_have() {
    assert_handed("views-and-modules", |_| {});
}

#[test]
fn a_recipe_of_format_2_for_spack_1_1_is_a_chain() {
    assert_handed("format-2-chain", |_| {});
}

#[test]
fn a_recipe_of_format_2_for_spack_1_2_has_groups() {
    assert_handed("format-2", |_| {});
}

#[test]
fn a_recipe_of_format_1_for_spack_1_0_is_a_chain() {
    assert_handed("format-1-chain", |_| {});
}

#[test]
fn a_chain_may_use_the_gcc_of_the_system() {
    assert_handed("system-gcc-chain", |_| {});
}

#[test]
fn a_system_with_all_mirrors_and_a_build_with_all_places() {
    assert_handed("mirrors", |places| {
        places.source_cache = Some("/caches/sources".into());
        places.misc_cache = Some("/caches/misc".into());
        places.build_stage = Some("/build/stage".into());
        places.build_jobs = Some(8);
        places.binary_cache = Some(BinaryCache {
            path: "/caches/packages/+user-tools".into(),
            autopush: true,
            shared: vec!["/shared/+user-tools".into()],
            others: vec!["/caches/packages/+user-environment".into()],
            older: Some("/caches/packages".into()),
        });
        places.bootstrap_metadata = vec!["/mirror/metadata/sources".into()];
        places.only_named_mirrors = true;
    });
}

#[test]
fn a_system_with_settings_of_spack() {
    assert_handed("site-settings", |_| {});
}

#[test]
fn every_file_can_be_read_again() {
    let (recipe, system) = Files::of(include_str!("../golden/mirrors.recipe")).read();
    let places = places(&recipe, &system);
    let stack = lower(&recipe, &system, &places).unwrap();
    let texts = stack.config.values().chain(stack.upstream.values());
    let specs = stack.environments.iter().map(|one| &one.spack_yaml);
    for text in texts.chain(specs) {
        assert_eq!(&Yaml::parse(Path::new("f"), text.as_bytes()).unwrap().to_string(), text);
    }
}
