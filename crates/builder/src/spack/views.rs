// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Views, module files, and the configuration for those who build on top.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use cabane_recipe::{CompilerName, CompilerSource, ModuleKind, StackView};
use cabane_view::{Change, EnvPatch, View, ViewName};

use super::ask::VIEWS;
use super::compilers::{self, Found};
use super::session::{self, INPUTS, environment, spack};
use super::{SpackEngine, activation, hooks, inputs, mpi_wrappers, normalize, text_of};
use crate::build_context::BuildContext;
use crate::fingerprint::{self, Hash, Inputs};
use crate::layout::Inside;
use crate::metadata::{Placeholders, prepend};
use crate::sandbox::Invocation;
use crate::{Result, disk};

const SCRIPT_HEAD: &str = "# Enters this view: `. activate.sh`, in a POSIX shell.\n";

/// What views depend on beside the packages.
pub(super) fn inputs(engine: &SpackEngine) -> Inputs {
    let mut hash = Hash::new();
    for (environment, view) in engine.recipe.views() {
        hash.text(&environment.name);
        hash.text(&format!("{view:?}"));
    }
    let mut inputs = Inputs::from([("views".to_owned(), hash.finish().to_string())]);
    let upstream = engine.upstream();
    let texts = upstream.iter();
    let modules = engine.stack().modules.as_ref().map(|modules| &modules.modules_yaml);
    let name = "modules.yaml".to_owned();
    for (name, text) in texts.chain(modules.map(|text| (&name, text))) {
        let digest = fingerprint::of_bytes(text.as_bytes());
        inputs.insert(format!("upstream {name}"), digest.to_string());
    }
    inputs.extend(hooks::input(engine, hooks::POST_INSTALL));
    inputs
}

/// Returns the commands, as they could be typed.
pub(super) fn invocations(engine: &SpackEngine) -> Vec<Invocation> {
    let place = |view: &cabane_spack::StackView| {
        format!("{}={}", view.name, text_of(&environment(&view.spack_environment)))
    };
    let views: Vec<String> = engine.stack().views.iter().map(place).collect();
    let views = (!views.is_empty()).then(|| VIEWS.invocation(&views));
    let modules = engine.stack().modules.iter().flat_map(|modules| &modules.kinds);
    views.into_iter().chain(modules.map(|kind| refresh_modules(kind.as_str()))).collect()
}

/// Whether Spack has said which variables the views set.
pub(super) fn are_known(engine: &SpackEngine) -> bool {
    engine.stack().views.is_empty() || VIEWS.answer(engine).exists()
}

fn refresh_modules(kind: &str) -> Invocation {
    let scope = Inside::work(INPUTS).join("modules");
    let options = ["--upstream-modules", "--delete-tree", "--yes-to-all"];
    spack().with([Path::new("-C"), &scope]).with(["module", kind, "refresh"]).with(options)
}

/// Makes everything.
pub(super) fn execute(engine: &SpackEngine, bench: &mut BuildContext<'_>) -> Result<()> {
    let sandbox = session::sandbox(engine);
    write_upstream(engine)?;
    inputs::copy_archived(engine)?;
    write_modules(engine)?;
    VIEWS.prepare(engine)?;
    bench.run_side_by_side(&sandbox, &invocations(engine))?;
    let variables = variables(engine)?;
    let found = find_compilers(engine)?;
    for (environment, view) in engine.recipe.views() {
        let root = view_here(engine, &view.name);
        disk::make_directory(&root)?;
        if view.add_compilers {
            let wanted = environment.compilers.iter();
            let wanted = wanted.filter_map(|name| Some((*name, found.get(name)?)));
            compilers::link(&root, wanted)?;
        }
        let ours: Vec<&Found> =
            environment.compilers.iter().filter_map(|name| found.get(name)).collect();
        mpi_wrappers::add(engine, environment, view, &root, &ours)?;
        let (_, view) = view_of(engine, view, &variables);
        // Spack's own script sets whole values, with what the variables held during the build.
        let script = format!("{SCRIPT_HEAD}{}", view.patch.to_shell_script());
        disk::put(&root.join("activate.sh"), script)?;
        normalize::view(&root)?;
    }
    normalize::modules(&engine.store_here.join("modules"))?;
    hooks::run(engine, hooks::POST_INSTALL, bench)
}

/// Returns where the files of a view are now. Before Spack 1.2 a view is a link to a
/// directory beside it, which leads nowhere outside of the sandbox.
fn view_here(engine: &SpackEngine, name: &ViewName) -> PathBuf {
    let path = engine.store_here.join("env").join(name.as_str());
    let target = fs::read_link(&path).ok();
    let inside = target.and_then(|target| {
        let relative = target.strip_prefix(&engine.store).ok()?;
        Some(engine.store_here.join(relative))
    });
    inside.unwrap_or(path)
}

/// The variables that each view sets, with their whole values.
type Variables = BTreeMap<String, BTreeMap<String, String>>;

fn variables(engine: &SpackEngine) -> Result<Variables> {
    if engine.stack().views.is_empty() { Ok(Variables::new()) } else { VIEWS.read(engine) }
}

fn write_upstream(engine: &SpackEngine) -> Result<()> {
    let directory = engine.store_here.join("config");
    disk::make_empty(&directory)?;
    for (name, text) in &engine.upstream() {
        disk::put(&directory.join(name), text)?;
    }
    Ok(())
}

fn write_modules(engine: &SpackEngine) -> Result<()> {
    let directory = inputs::directory(&engine.layout).join("modules");
    disk::make_empty(&directory)?;
    let Some(modules) = &engine.stack().modules else {
        return Ok(());
    };
    let mut files = engine.upstream();
    // Those on top get packages from their address; here they are at hand.
    files.remove("repos.yaml");
    files.insert("modules.yaml".to_owned(), modules.modules_yaml.clone());
    for (name, text) in files {
        disk::put(&directory.join(name), text)?;
    }
    Ok(())
}

/// Finds the compilers of the recipe: those that were built, and those of the system.
fn find_compilers(engine: &SpackEngine) -> Result<BTreeMap<CompilerName, Found>> {
    let mut found = BTreeMap::new();
    for (&name, source) in &engine.recipe.compilers.sources {
        if *source == CompilerSource::System {
            found.insert(name, compilers::of_system(&engine.recipe, &engine.system, name));
        } else {
            let installed = compilers::installed(engine, name)?;
            found.extend(installed.map(|installed| (name, installed.programs)));
        }
    }
    Ok(found)
}

/// Makes the views for the metadata.
pub(super) fn metadata(engine: &SpackEngine) -> Result<BTreeMap<ViewName, View>> {
    let mount = text_of(&engine.store);
    let mut views = BTreeMap::new();
    let variables = variables(engine)?;
    for (_, view) in engine.recipe.views() {
        views.extend([view_of(engine, view, &variables)]);
    }
    views.extend(special(engine, &mount));
    Ok(views)
}

/// Makes a view that shows packages.
fn view_of(engine: &SpackEngine, view: &StackView, variables: &Variables) -> (ViewName, View) {
    let mount = text_of(&engine.store);
    let root = format!("{mount}/env/{}", view.name);
    let values = variables.get(view.name.as_str()).into_iter().flatten();
    let mut places = engine.bases.mount_points();
    places.insert(0, engine.store.clone());
    let read = activation::patch(values, &places);
    let here = view_here(engine, &view.name);
    let mut patch = mpi_wrappers::name_those_of_view(&read, &here, &root);
    add_prefix_paths(view, &here, &root, &mut patch);
    let placeholders =
        Placeholders { mount: &mount, view_path: &root, view_name: view.name.as_str() };
    placeholders.apply(&view.env_vars, &mut patch);
    let made = View {
        description: None,
        activate: Some(format!("{root}/activate.sh")),
        root: Some(root),
        patch,
    };
    (view.name.clone(), made)
}

/// Directories of the view, where they exist, for the variables that the recipe names.
fn add_prefix_paths(view: &StackView, here: &Path, root: &str, patch: &mut EnvPatch) {
    for (variable, directories) in &view.prefix_paths {
        let there = directories.iter().filter(|directory| here.join(directory).is_dir());
        let values: Vec<String> = there.map(|directory| format!("{root}/{directory}")).collect();
        if !values.is_empty() {
            patch.push(variable, prepend(values));
        }
    }
}

/// The views that do not show packages: `modules`, and `spack` for those who build on
/// top.
fn special(engine: &SpackEngine, mount: &str) -> Vec<(ViewName, View)> {
    let mut views = Vec::new();
    let mut add = |name: &str, description: &str, patch: EnvPatch| {
        if let Ok(name) = name.parse::<ViewName>() {
            let description = Some(description.to_owned());
            views.push((name, View { description, root: None, activate: None, patch }));
        }
    };
    if let Some(modules) = &engine.stack().modules {
        let mut patch = EnvPatch::new();
        let entry = |kind: &ModuleKind| match kind {
            ModuleKind::Tcl => format!("{mount}/modules"),
            // The first floor of the hierarchy; what is loaded there leads to the others.
            ModuleKind::Lmod => format!("{mount}/modules/Core"),
        };
        patch.push("MODULEPATH", prepend(modules.kinds.iter().map(entry).collect()));
        add("modules", "module files of the packages", patch);
    }
    let commits = engine.commits();
    let spack = &engine.stack().sources.spack;
    let mut patch = EnvPatch::new();
    let mut set = |variable: &str, value: String| patch.push(variable, Change::Set(value));
    set("UENV_SPACK_CONFIG_PATH", format!("{mount}/config"));
    set("UENV_SPACK_URL", spack.repo.clone());
    set("UENV_SPACK_REF", spack.commit.clone().unwrap_or_default());
    set("UENV_SPACK_COMMIT", commits.get("spack").cloned().unwrap_or_default());
    add("spack", "for Spack: build on top of this image", patch);
    views
}
