// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is read of recipes for Spack, and of systems.

use std::collections::BTreeMap;
use std::path::Path;

use cabane_recipe::{
    CompilerName, ConvertTo, FileText, Mistakes, ModuleKind, SpackVersion, StackFiles,
    StackOptions, StackRecipe, SystemConfig, SystemFiles, Unify, Yaml, convert_stack, parse_stack,
    parse_system,
};
use proptest::prelude::*;

/// Files by their names, as they stand one below the other in a test:
/// a line `--- name` before each.
pub(crate) struct Files(BTreeMap<String, String>);

impl Files {
    pub(crate) fn of(text: &str) -> Self {
        let mut files = BTreeMap::<String, String>::new();
        let mut name = None;
        for line in text.split_inclusive('\n') {
            match line.strip_prefix("--- ") {
                Some(next) => name = Some(next.trim().to_owned()),
                None => {
                    if let Some(name) = &name {
                        files.entry(name.clone()).or_default().push_str(line);
                    }
                }
            }
        }
        Self(files)
    }

    fn get<'a>(&'a self, name: &'a str) -> Option<FileText<'a>> {
        self.0.get(name).map(|text| FileText { path: Path::new(name), text: text.as_bytes() })
    }

    /// Reads the recipe of the files, for the system that is among them.
    pub(crate) fn recipe(&self) -> Result<StackRecipe, Mistakes> {
        let system = match self.get("system/packages.yaml") {
            Some(_) => Some(self.system()?),
            None => None,
        };
        let options = StackOptions { system: system.as_ref(), accept_old_spack: false };
        parse_stack(&self.stack(), &options)
    }

    pub(crate) fn stack(&self) -> StackFiles<'_> {
        StackFiles {
            config: self.get("config.yaml").unwrap(),
            compilers: self.get("compilers.yaml"),
            environments: self.get("environments.yaml"),
            modules: self.get("modules.yaml"),
            packages: self.get("packages.yaml"),
        }
    }

    pub(crate) fn system(&self) -> Result<SystemConfig, Mistakes> {
        parse_system(&SystemFiles {
            packages: self.get("system/packages.yaml").unwrap(),
            network: self.get("system/network.yaml"),
            repos: self.get("system/repos.yaml"),
            mirrors: self.get("system/mirrors.yaml"),
            config: self.get("system/config.yaml"),
            concretizer: self.get("system/concretizer.yaml"),
            toolchains: self.get("system/toolchains.yaml"),
        })
    }
}

fn accepted(text: &str) -> StackRecipe {
    Files::of(text).recipe().unwrap_or_else(|error| panic!("{error}"))
}

const CONFIG: &str = "--- config.yaml
name: tools
version: 3
spack:
  repo: https://example.org/spack.git
  commit: releases/v1.2
  packages:
    repo: https://example.org/spack-packages.git
    commit: develop
";

const COMPILERS: &str = "--- compilers.yaml
gcc:
  version: '14.2'
";

#[test]
fn what_a_recipe_does_not_say_has_defaults() {
    let recipe = accepted(&format!(
        "{CONFIG}{COMPILERS}--- environments.yaml\ntools:\n  compiler: [gcc]\n  specs: [cmake]\n  \
         views:\n    default:\n"
    ));
    let environment = &recipe.environments[0];
    let view = &environment.views[0];
    assert_eq!(
        (
            recipe.version,
            environment.unify,
            environment.duplicates.as_str(),
            environment.deprecated,
            view.link.as_str(),
            view.add_compilers,
            recipe.modules,
        ),
        (SpackVersion::new(1, 2), Unify::Yes, "minimal", false, "roots", true, None)
    );
}

#[test]
fn the_gcc_of_the_system_is_not_built() {
    let recipe = accepted(&format!(
        "{CONFIG}--- compilers.yaml\ngcc: {{version: system}}\n--- environments.yaml\n\
         tools: {{compiler: [gcc], specs: [cmake]}}\n"
    ));
    assert!(recipe.compilers.use_system_gcc());
}

#[test]
fn a_compiler_has_the_usual_variants_or_those_that_are_given() {
    let recipe = accepted(&format!(
        "{CONFIG}--- compilers.yaml\ngcc: {{version: '14', spec: +nvptx~bootstrap}}\n\
         llvm: {{version: 19}}\nnvhpc: null\n--- environments.yaml\n\
         tools: {{compiler: [gcc, llvm], specs: [cmake]}}\n"
    ));
    let built: Vec<String> =
        recipe.compilers.built().map(|(name, request)| request.full_spec(name)).collect();
    assert_eq!(built, ["gcc@14 +nvptx~bootstrap", "llvm@19 +clang ~gold"]);
}

#[test]
fn a_recipe_of_the_first_format_is_read_in_the_terms_of_the_third() {
    let files = Files::of(
        "--- config.yaml
name: cuda
spack: {repo: https://example.org/spack.git, commit: v1.0.0}
--- compilers.yaml
bootstrap: {spec: gcc@12}
gcc: {specs: [gcc@13.2]}
llvm: {requires: gcc@13, specs: [nvhpc@25.1]}
--- environments.yaml
cuda:
  compiler:
  - {toolchain: gcc, spec: gcc@13}
  - {toolchain: llvm, spec: nvhpc}
  mpi: {spec: cray-mpich@8.1.30%nvhpc, gpu: cuda}
  unify: when_possible
  specs: [hdf5 %nvhpc]
  packages: [perl]
  views: {default: {link: roots}}
",
    );
    let recipe = files.recipe().unwrap_or_else(|error| panic!("{error}"));
    let environment = &recipe.environments[0];
    assert_eq!(
        (
            environment.compilers.as_slice(),
            environment.mpi.as_ref().unwrap().spec.as_str(),
            environment.unify,
            environment.packages.as_slice(),
            recipe.modules.as_ref().unwrap().kinds.as_slice(),
        ),
        (
            [CompilerName::GCC, CompilerName::NVHPC].as_slice(),
            "cray-mpich@8.1.30 +cuda",
            Unify::WhenPossible,
            ["perl".to_owned()].as_slice(),
            [ModuleKind::Tcl].as_slice(),
        )
    );
}

#[test]
fn what_means_nothing_is_remarked_though_nothing_is_wrong() {
    let recipe = accepted(&format!(
        "{}--- compilers.yaml\ngcc: {{version: system, spec: +nvptx}}\n--- environments.yaml\n\
         tools:\n  compiler: [gcc]\n  network: {{specs: [libfabric]}}\n  \
         specs: [mesa %llvm]\n  packages: [perl]\n--- modules.yaml\nmodules: {{}}\n",
        CONFIG.replace("version: 3", "version: 3\nmodules: true")
    ));
    let shown: Vec<String> = recipe
        .remarks
        .iter()
        .map(|one| format!("{}:{}: {}", one.file.display(), one.line, one.message))
        .collect();
    assert_eq!(
        shown,
        [
            "compilers.yaml:1: `spec` means nothing with `version: system`",
            "environments.yaml:3: `specs` of the network mean nothing without `mpi`",
            "environments.yaml:4: the environment does not have the compiler `llvm`",
            "environments.yaml:5: `packages` means nothing in format 3",
            "config.yaml:3: `modules` says what modules.yaml says by being there",
        ]
    );
}

#[test]
fn configuration_of_spack_is_kept_as_it_stands() {
    let recipe = accepted(&format!(
        "{CONFIG}{COMPILERS}--- environments.yaml\ntools: {{compiler: [gcc], specs: [cmake]}}\n\
         --- packages.yaml\npackages:\n  python:\n    require: ['@3.10']\n    version: [3.10]\n    \
         buildable: no\n  all: {{}}\n"
    ));
    assert_eq!(
        Yaml::from(recipe.packages).to_string(),
        "python:\n  require:\n  - '@3.10'\n  version:\n  - 3.10\n  buildable: false\nall: {}\n"
    );
}

#[test]
fn a_system_names_its_mpis_and_package_repositories() {
    let system = Files::of(
        "--- system/packages.yaml
packages:
  gcc:
    externals:
    - spec: gcc@12.3.0 languages='c,c++,fortran'
      prefix: /usr
      extra_attributes: {compilers: {c: /usr/bin/gcc}}
--- system/network.yaml
mpi:
  cray-mpich: {specs: ['libfabric@2.2:']}
  mpich:
packages:
  libfabric: {require: fabrics=cxi}
--- system/repos.yaml
repos:
- ../site/packages
",
    )
    .system()
    .unwrap_or_else(|error| panic!("{error}"));
    let mpis: Vec<_> =
        system.mpis.iter().map(|mpi| (mpi.package.as_str(), mpi.specs.join(" "))).collect();
    assert_eq!(
        (mpis, system.package_repositories),
        (
            vec![("cray-mpich", "libfabric@2.2:".to_owned()), ("mpich", String::new())],
            vec!["../site/packages".into()]
        )
    );
}

/// A recipe and a system with everything that these files can have.
const EVERYTHING: &str = include_str!("../data/everything.stack");

#[test]
fn everything_that_the_files_can_have_is_accepted() {
    let remarks = accepted(EVERYTHING).remarks;
    assert_eq!(remarks, []);
}

/// Reads whatever it is; what is refused has places.
fn read_any(text: &str) -> Result<(), TestCaseError> {
    let files = Files::of(text);
    if files.get("config.yaml").is_none() {
        return Ok(());
    }
    if let Err(error) = files.recipe() {
        prop_assert!(error.diagnostics().iter().all(|one| one.line > 0));
    }
    if let Ok(conversion) = convert_stack(&files.stack(), &ConvertTo::default()) {
        prop_assert!(conversion.files.len() <= 4);
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_recipe_in_which_a_word_is_another_is_read_or_refused(
        at in 0..EVERYTHING.len(),
        length in 0usize..12,
        new in "(\\PC{0,6}|: |\n  |[\\[\\]{}&*!|>'\"%@^~+-]{0,3}|null|gcc|[0-9.]{0,4})",
    ) {
        let (start, end) = (floor(at), floor((at + length).min(EVERYTHING.len())));
        read_any(&format!("{}{new}{}", &EVERYTHING[..start], &EVERYTHING[end..]))?;
    }

    #[test]
    fn a_recipe_of_format_2_in_which_lines_are_missing_is_read_or_refused(
        missing in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
    ) {
        let text = EVERYTHING.replace("version: 3", "version: 2");
        let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
        for index in missing {
            lines.remove(index.index(lines.len()));
        }
        read_any(&lines.concat())?;
    }
}

fn floor(at: usize) -> usize {
    (0..=at).rev().find(|at| EVERYTHING.is_char_boundary(*at)).unwrap()
}
