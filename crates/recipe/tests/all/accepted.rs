// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Recipes that are in order, and what is read from them.

use std::path::PathBuf;

use cabane_recipe::{
    CommandLine, ContainerConfig, EasyBuildConfig, EngineConfig, FormatVersion, InterpreterRequest,
    ModuleView, NamedPath, PythonConfig, PythonSource, RunCommand, SpackConfig, TreeConfig,
};

use super::{accepted, parse};

const SPACK: &str = "name: prgenv-gnu\nspack:\n  repo: https://github.com/spack/spack.git\n";

fn python(section: &str) -> PythonConfig {
    let recipe = accepted(&format!("name: a\nengine: python\npython: {section}\n"));
    match recipe.engine {
        EngineConfig::Python(python) => python,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_python_recipe_says_everything_there_is_to_say() {
    let recipe = accepted(
        "name: mpi-python\nversion: 3\nengine: python\nstore: /user-tools\n\
         description: Python with mpi4py\ndefault-view: default\n\
         python:\n  interpreter: \"3.11\"\n  requirements: requirements.txt\n\
         \x20 wheels: [wheels/foo-1.0-py3-none-any.whl]\n  bytecode: false\n",
    );
    let python = PythonConfig {
        interpreter: InterpreterRequest::Version("3.11".to_owned()),
        source: PythonSource::Requirements("requirements.txt".into()),
        wheels: vec!["wheels/foo-1.0-py3-none-any.whl".into()],
        bytecode: false,
    };
    assert_eq!(
        (
            recipe.name.as_str(),
            recipe.format,
            recipe.store.as_str(),
            recipe.description.as_deref(),
            recipe.default_view.as_ref().map(ToString::to_string).as_deref(),
            recipe.engine,
        ),
        (
            "mpi-python",
            FormatVersion::V3,
            "/user-tools",
            Some("Python with mpi4py"),
            Some("default"),
            EngineConfig::Python(python),
        )
    );
}

#[test]
fn what_a_python_recipe_leaves_out_has_a_default() {
    assert_eq!(
        python("{project: .}"),
        PythonConfig {
            interpreter: InterpreterRequest::Any,
            source: PythonSource::Project(PathBuf::from(".")),
            wheels: Vec::new(),
            bytecode: true,
        }
    );
}

#[test]
fn an_image_is_mounted_at_the_usual_place_unless_the_recipe_names_another() {
    assert_eq!(accepted(SPACK).store.as_str(), "/user-environment");
}

#[test]
fn a_version_of_python_without_quotes_keeps_its_nought() {
    let interpreter = python("{project: ., interpreter: 3.10}").interpreter;
    assert_eq!(interpreter, InterpreterRequest::Version("3.10".to_owned()));
}

#[test]
fn an_interpreter_can_be_a_path() {
    let interpreter = python("{project: ., interpreter: /usr/bin/python3}").interpreter;
    assert_eq!(interpreter, InterpreterRequest::Path("/usr/bin/python3".into()));
}

#[test]
fn a_project_may_lie_outside_of_the_recipe() {
    let source = python("{project: ../../project}").source;
    assert_eq!(source, PythonSource::Project("../../project".into()));
}

#[test]
fn a_tree_may_lie_anywhere() {
    let recipe = accepted("name: a\nengine: tree\ntree:\n  source: /opt/tools\n");
    let tree = TreeConfig { source: "/opt/tools".into(), installed_at: None };
    assert_eq!(recipe.engine, EngineConfig::Tree(tree));
}

#[test]
fn easybuild_builds_files_of_the_recipe_and_what_it_brings() {
    let recipe = accepted(
        "name: a\nengine: easybuild\neasybuild:\n  version: 5.4.1\n  \
         easyconfigs: [own/a-1.0.eb, zlib-1.3.1.eb]\n  sources: ../sources\n  \
         easyblocks: [own, b.py]\n  hooks: hooks.py\n\
         views:\n  one: {modules: [zlib/1.3.1]}\n",
    );
    let named = |path: &str, start: usize| NamedPath {
        path: path.into(),
        place: start..start + path.len(),
    };
    let expected = EasyBuildConfig {
        version: "5.4.1".to_owned(),
        easyconfigs: vec!["own/a-1.0.eb".into(), "zlib-1.3.1.eb".into()],
        sources: vec!["../sources".into()],
        requirements: None,
        optimization: "GENERIC".to_owned(),
        easyblocks: vec![named("own", 136), named("b.py", 141)],
        hooks: Some(named("hooks.py", 156)),
    };
    assert_eq!(recipe.engine, EngineConfig::EasyBuild(expected));
    assert_eq!(recipe.format, FormatVersion::V3);
    assert!(recipe.views["one"].modules.is_some());
}

#[test]
fn views_of_a_tree_may_load_modules() {
    let recipe = accepted(
        "name: a\nengine: tree\ntree:\n  source: tree\n  relocate: {from: /apps/easybuild}\n\
         views:\n  one: {modules: [GROMACS/2024.1]}\n\
         \x20 two: {modules: [GCC/13, x], modulepath: [modules/core, modules/own]}\n",
    );
    let views = ["one", "two"].map(|name| recipe.views[name].modules.clone());
    let load = |load: &[&str], path: &[&str]| {
        let load = load.iter().map(ToString::to_string).collect();
        Some(ModuleView { load, path: path.iter().map(PathBuf::from).collect() })
    };
    let expected = [
        load(&["GROMACS/2024.1"], &["modules/all"]),
        load(&["GCC/13", "x"], &["modules/core", "modules/own"]),
    ];
    assert_eq!(views, expected);
    let EngineConfig::Tree(tree) = recipe.engine else { panic!("{:?}", recipe.engine) };
    assert_eq!(tree.installed_at.unwrap().as_str(), "/apps/easybuild");
}

#[test]
fn a_container_image_is_mounted_at_the_root_with_what_is_put_on_it() {
    let recipe = accepted(
        "name: a\nengine: container\ncontainer:\n  from: registry.example.org/tool:1\n  \
         images: [stack/1.0]\n  files: {/opt//tool/: ./tool}\n  command: []\n",
    );
    assert_eq!(recipe.store.as_str(), "/");
    assert_eq!(
        recipe.engine,
        EngineConfig::Container(ContainerConfig {
            from: "registry.example.org/tool:1".to_owned(),
            platform: None,
            images: vec!["stack/1.0".to_owned()],
            files: vec![("/opt/tool".to_owned(), "./tool".into())],
            run: Vec::new(),
            entrypoint: None,
            command: Some(Vec::new()),
            working_directory: None,
        })
    );
}

#[test]
fn commands_of_a_container_image_are_texts_lists_or_say_more() {
    let recipe = accepted(
        "name: a\nengine: container\ncontainer:\n  from: registry.example.org/tool:1\n  run:\n    \
         - make install\n    - [make, a b]\n    - |\n      one\n      two\n    \
         - command: apt-get update\n      network: true\n",
    );
    let EngineConfig::Container(config) = recipe.engine else { panic!("not a container") };
    let shell = |text: &str| CommandLine::Shell(text.to_owned());
    let words = ["make", "a b"].map(str::to_owned).to_vec();
    let expected = [
        (shell("make install"), false, 6),
        (CommandLine::Words(words), false, 7),
        (shell("one\ntwo\n"), false, 9),
        (shell("apt-get update"), true, 11),
    ];
    let expected = expected.map(|(command, network, line)| RunCommand { command, network, line });
    assert_eq!(config.run, expected);
}

#[test]
fn the_view_default_exists_though_the_recipe_does_not_describe_it() {
    let recipe = accepted("name: a\nengine: tree\ndefault-view: default\ntree: {source: /opt}\n");
    assert_eq!(recipe.default_view.unwrap().as_str(), "default");
}

#[test]
fn null_means_that_nothing_is_given() {
    let recipe = accepted(&format!("{SPACK}  commit: null\ndescription: ~\ndefault-view:\n"));
    assert_eq!((recipe.description, recipe.default_view), (None, None));
}

#[test]
fn the_changes_of_a_view_keep_their_order() {
    let recipe = accepted(
        "name: a\nengine: tree\ntree: {source: /opt}\nviews:\n  gpu:\n    \
         description: for GPUs\n    env_vars:\n      \
         set: [{B: two}, {A: 1}, {B: }, {PATH: null}, {C: 'x:${@HOME@}/y'}]\n      \
         prepend_path: [{PATH: $@mount@/b}, {PATH: $@view_path@/a}, {MY_LIST: x}]\n      \
         append_path:\n  default:\n",
    );
    let gpu = &recipe.views["gpu"];
    let set: Vec<_> =
        gpu.env_vars.set.iter().map(|(name, value)| (name.as_str(), value.as_deref())).collect();
    let paths: Vec<_> = gpu
        .env_vars
        .prepend_path
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    assert_eq!(
        (set, paths, gpu.env_vars.append_path.len(), recipe.views.len()),
        (
            vec![
                ("B", Some("two")),
                ("A", Some("1")),
                ("B", None),
                ("PATH", None),
                ("C", Some("x:${@HOME@}/y")),
            ],
            vec![("PATH", "$@mount@/b"), ("PATH", "$@view_path@/a"), ("MY_LIST", "x")],
            0,
            2,
        )
    );
}

#[test]
fn values_of_variables_stay_as_they_are_written() {
    let recipe = accepted(
        "name: a\nengine: tree\ntree: {source: /opt}\nviews:\n  v:\n    env_vars:\n      \
         set: [{A: 0755}, {B: yes}, {C: 1.10}, {D: 1_000}, {E: 'null'}, {F: True}]\n",
    );
    let values: Vec<_> = recipe.views["v"]
        .env_vars
        .set
        .iter()
        .map(|(_, value)| value.as_deref().unwrap_or("nothing"))
        .collect();
    assert_eq!(values, ["0755", "yes", "1.10", "1_000", "null", "True"]);
}

#[test]
fn anchors_and_merges_are_understood() {
    let recipe = accepted(
        "name: a\nengine: tree\ntree: {source: /opt}\nviews:\n  \
         one: &one\n    description: first\n    env_vars: &vars {set: [{A: b}]}\n  \
         two:\n    <<: *one\n    description: second\n  three: {env_vars: *vars}\n",
    );
    let (one, two, three) = (&recipe.views["one"], &recipe.views["two"], &recipe.views["three"]);
    assert_eq!(
        (two.description.as_deref(), &two.env_vars, &three.env_vars),
        (Some("second"), &one.env_vars, &one.env_vars)
    );
}

#[test]
fn of_two_merged_sections_the_first_holds() {
    let recipe = accepted(
        "name: a\nengine: tree\ntree: {source: /opt}\nviews:\n  \
         one: &one {description: first}\n  two: &two {description: second}\n  \
         both: {<<: [*two, *one]}\n",
    );
    assert_eq!(recipe.views["both"].description.as_deref(), Some("second"));
}

#[test]
fn a_file_of_windows_is_read_like_any_other() {
    let text = "name: a\nengine: tree\ntree:\n  source: /opt\n";
    let windows = format!("\u{feff}{}", text.replace('\n', "\r\n"));
    assert_eq!(accepted(&windows), accepted(text));
}

fn spack(engine: EngineConfig) -> SpackConfig {
    match engine {
        EngineConfig::Spack(config) => config,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_recipe_of_stackinator_without_a_version_is_of_the_first() {
    let recipe = accepted(&format!(
        "{SPACK}  commit: releases/v0.22\nmodules: True\nmirror:\n  key: /k.gpg\n  enable: True\n"
    ));
    assert_eq!((recipe.format, spack(recipe.engine).modules), (FormatVersion::V1, Some(true)));
}

#[test]
fn a_recipe_of_stackinator_names_its_package_repository() {
    let recipe = accepted(&format!(
        "{SPACK}  commit: 6408b51\n  packages:\n    repo: https://example.org/p.git\n    \
         commit: develop\nversion: 2\ndefault-view: forge\ncleanup: runtime\nmodules: false\n\
         description: \"NAMD: Scalable Molecular Dynamics\" \n"
    ));
    assert_eq!(recipe.default_view.unwrap().as_str(), "forge");
}

#[test]
fn a_recipe_of_stackinator_may_name_several_package_repositories() {
    let recipe = accepted(&format!(
        "{SPACK}  packages:\n    builtin:\n      repo: https://example.org/p.git\n    \
         repo:\n      repo: https://example.org/q.git\n      commit: null\n      \
         path: custom/path\nversion: 3\n"
    ));
    let places: Vec<_> = spack(recipe.engine)
        .package_repositories
        .into_iter()
        .map(|one| (one.name, one.path))
        .collect();
    let expected = [("builtin", "repos/spack_repo/builtin"), ("repo", "custom/path")];
    assert_eq!(places, expected.map(|(name, path)| (name.to_owned(), path.to_owned())));
}

#[test]
fn the_engine_spack_can_be_named() {
    let recipe = accepted(&format!("engine: spack\n{SPACK}"));
    assert_eq!(recipe.engine.name(), "spack");
}

#[test]
fn all_problems_of_a_recipe_are_reported_in_the_order_of_the_file() {
    let error = parse("name: a b\nstore: c\nengine: tree\nlicence: d\ntree: []\n").unwrap_err();
    let lines: Vec<u32> = error.diagnostics().iter().map(|diagnostic| diagnostic.line).collect();
    assert_eq!(lines, [1, 2, 4, 5]);
}
