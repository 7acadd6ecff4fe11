// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The files of a recipe and of a system, read together.

use std::path::Path;

use cabane_label::shown_word;

use super::context::Context;
use super::mirrors::Mirrors;
use super::recipe::{ModuleKind, StackEnvironment, StackModules, StackRecipe};
use super::settings::SpackSettings;
use super::system::{NetworkFile, SystemConfig};
use super::value::YamlMap;
use super::vendor::VendorManifest;
use super::version::SpackVersion;
use super::written::WrittenSpec;
use super::{compilers, environments, mirrors, modules, packages, settings, system, vendor};
use crate::ask::Field;
use crate::config::{self, ConfigText};
use crate::diagnostic::{Diagnostic, Mistakes, quote};
use crate::file;
use crate::language::Language;
use crate::node::{Node, Value};
use crate::recipe::{EngineConfig, FormatVersion, Recipe, SpackConfig};
use crate::report::Report;
use crate::suggest::suggestion;

/// A file and where it came from.
pub type FileText<'a> = ConfigText<'a>;

/// The files of a recipe; those that are not there are `None`.
#[derive(Clone, Copy, Debug)]
pub struct StackFiles<'a> {
    /// `config.yaml`.
    pub config: FileText<'a>,
    /// `compilers.yaml`, which every recipe has.
    pub compilers: Option<FileText<'a>>,
    /// `environments.yaml`, which every recipe has.
    pub environments: Option<FileText<'a>>,
    /// `modules.yaml`.
    pub modules: Option<FileText<'a>>,
    /// `packages.yaml`.
    pub packages: Option<FileText<'a>>,
}

/// The files of a system; those that are not there are `None`.
#[derive(Clone, Copy, Debug)]
pub struct SystemFiles<'a> {
    /// `packages.yaml`, which every system has.
    pub packages: FileText<'a>,
    /// `network.yaml`.
    pub network: Option<FileText<'a>>,
    /// `repos.yaml`.
    pub repos: Option<FileText<'a>>,
    /// `mirrors.yaml`.
    pub mirrors: Option<FileText<'a>>,
    /// `config.yaml`: settings of Spack.
    pub config: Option<FileText<'a>>,
    /// `concretizer.yaml`: settings of its concretizer.
    pub concretizer: Option<FileText<'a>>,
    /// `toolchains.yaml`: names for sets of compilers.
    pub toolchains: Option<FileText<'a>>,
}

/// What else is known when a recipe is read.
#[derive(Clone, Copy, Debug, Default)]
pub struct StackOptions<'s> {
    /// The system for which the recipe is built; without it, no one can tell
    /// whether it has the MPI.
    pub system: Option<&'s SystemConfig>,
    /// Whether a recipe for Spack before 1.0 is read, which cannot be built.
    pub accept_old_spack: bool,
}

/// Reads the files of a recipe for Spack.
pub fn parse_stack(
    files: &StackFiles<'_>,
    options: &StackOptions<'_>,
) -> Result<StackRecipe, Mistakes> {
    let mut found = Findings::default();
    let mut format = None;
    let mut is_for_another = false;
    let config = found.read(&files.config, |report, root| {
        format = written_format(root);
        let recipe = config::read(report, root)?;
        is_for_another = !matches!(recipe.engine, EngineConfig::Spack(_));
        let version = check_spack(report, root, &recipe, options)?;
        Some((recipe, version))
    });
    if is_for_another {
        return Err(found.refusal());
    }
    let format = config.as_ref().map(|(recipe, _)| recipe.format).or(format);
    let format = format.unwrap_or(FormatVersion::V1);

    let compilers = found.read_needed(files, "compilers.yaml", files.compilers, |report, root| {
        compilers::read(report, root, format)
    });
    let environments =
        found.read_needed(files, "environments.yaml", files.environments, |report, root| {
            let context = Context { format, compilers: compilers.as_ref(), system: options.system };
            environments::read(report, root, &context)
        });
    let modules =
        found.read_if(files.modules, |report, root| modules::read(report, root).map(Some));
    let packages = found.read_if(files.packages, packages::read);

    let modules = modules.map(|modules| wanted_modules(modules, config.as_ref(), format));
    if let (Some((recipe, _)), Some(environments), Some(modules)) =
        (&config, &environments, &modules)
    {
        found.check_again(&files.config, |report, root| {
            check_modules(report, root, recipe, files.modules.is_some());
            check_default_view(report, root, recipe, environments, modules.is_some());
        });
    }
    if let (Some(file), Some(compilers), Some(system), Some(packages)) =
        (&files.compilers, &compilers, options.system, &packages)
    {
        found.check_again(file, |report, root| {
            compilers::refuse_unavailable(report, root, compilers, system, packages);
        });
    }
    let stack = || {
        let (config, version) = config?;
        let EngineConfig::Spack(spack) = config.engine.clone() else {
            return None;
        };
        let compilers = compilers?;
        Some(StackRecipe {
            config,
            spack,
            version,
            compilers,
            environments: environments?,
            modules: modules?,
            packages: packages?,
            remarks: std::mem::take(&mut found.remarks),
            written: std::mem::take(&mut found.specs),
        })
    };
    match stack() {
        Some(stack) if found.problems.is_empty() => Ok(stack),
        _ => Err(found.refusal()),
    }
}

/// Reads the configuration of a system.
pub fn parse_system(files: &SystemFiles<'_>) -> Result<SystemConfig, Mistakes> {
    let mut found = Findings::default();
    let packages = found.read(&files.packages, system::system_packages);
    let network = found.read_if(files.network, system::network);
    let repos = found.read_if(files.repos, system::repos);
    let mirrors = found.read_if(files.mirrors, mirrors::read);
    let config = found.read_if(files.config, settings::config);
    let concretizer = found.read_if(files.concretizer, settings::concretizer);
    let toolchains = found.read_if(files.toolchains, settings::toolchains);
    let system = || {
        let NetworkFile { packages: network_packages, mpis } = network?;
        Some(SystemConfig {
            packages: packages?,
            network_packages,
            mpis,
            package_repositories: repos?,
            mirrors: mirrors?,
            settings: SpackSettings {
                config: config?,
                concretizer: concretizer?,
                toolchains: toolchains?,
            },
            written: std::mem::take(&mut found.specs),
        })
    };
    system().filter(|_| found.problems.is_empty()).ok_or(found.refusal())
}

/// Reads a `mirrors.yaml` that belongs to no system.
pub fn parse_mirrors(file: &FileText<'_>) -> Result<Mirrors, Mistakes> {
    let mut found = Findings::default();
    found.read(file, mirrors::read).ok_or(found.refusal())
}

/// Reads the manifest of a vendor's MPI.
pub fn parse_vendor_manifest(file: &FileText<'_>) -> Result<VendorManifest, Mistakes> {
    let mut found = Findings::default();
    found.read(file, vendor::read).ok_or(found.refusal())
}

/// What was found in all files so far.
#[derive(Debug, Default)]
struct Findings {
    problems: Vec<Diagnostic>,
    remarks: Vec<Diagnostic>,
    specs: Vec<WrittenSpec>,
}

impl Findings {
    /// Takes everything that is wrong.
    fn refusal(self) -> Mistakes {
        Mistakes::in_the("the recipe")(self.problems)
    }

    /// Reads one file; `None` if anything is wrong with it.
    fn read<T>(
        &mut self,
        file: &FileText<'_>,
        read: impl FnOnce(&Report<'_>, &Node) -> Option<T>,
    ) -> Option<T> {
        let value = file::read(file.path, file.text, Language::Yaml, |report, root| {
            let value = read(report, root);
            self.remarks.extend(report.take_remarks());
            self.specs.extend(report.take_specs());
            value
        });
        value.map_err(|mut problems| self.problems.append(&mut problems)).ok()
    }

    /// Reads a file that need not be there.
    fn read_if<T: Default>(
        &mut self,
        file: Option<FileText<'_>>,
        read: impl FnOnce(&Report<'_>, &Node) -> Option<T>,
    ) -> Option<T> {
        match file {
            None => Some(T::default()),
            Some(file) => self.read(&file, read),
        }
    }

    /// Reads a file that every recipe has.
    fn read_needed<T>(
        &mut self,
        files: &StackFiles<'_>,
        name: &str,
        file: Option<FileText<'_>>,
        read: impl FnOnce(&Report<'_>, &Node) -> Option<T>,
    ) -> Option<T> {
        let Some(file) = file else {
            let message = format!("a recipe for Spack needs the file {name}");
            let problem = Diagnostic::about_file(&files.config.path.with_file_name(name), &message);
            self.problems
                .push(problem.with_hint("write it, or name another engine in config.yaml"));
            return None;
        };
        self.read(&file, read)
    }

    /// Looks at a file once more in which nothing was wrong.
    fn check_again(&mut self, file: &FileText<'_>, check: impl FnOnce(&Report<'_>, &Node)) {
        let _ = self.read(file, |report, root| {
            check(report, root);
            Some(())
        });
    }
}

/// Returns the version of the format as it is written, for the other files of a
/// recipe of which `config.yaml` is wrong.
fn written_format(root: &Node) -> Option<FormatVersion> {
    let Value::Section(entries) = &root.value else {
        return None;
    };
    let entry = entries.iter().find(|entry| entry.key == "version")?;
    Some(match &entry.value.value {
        Value::Scalar(scalar) if scalar.text == "1" => FormatVersion::V1,
        Value::Scalar(scalar) if scalar.text == "2" => FormatVersion::V2,
        _ => FormatVersion::V3,
    })
}

/// Checks that the recipe is for Spack, and for a version that can build it.
fn check_spack(
    report: &Report<'_>,
    root: &Node,
    recipe: &Recipe,
    options: &StackOptions<'_>,
) -> Option<SpackVersion> {
    let EngineConfig::Spack(SpackConfig { source, .. }) = &recipe.engine else {
        let message =
            format!("this recipe is for the engine `{}`, not for Spack", recipe.engine.name());
        return report.refuse(None, &message, None);
    };
    // An archive has its version in its own name, if not beside it.
    let named = || SpackVersion::in_name(source.repo.rsplit('/').next()?);
    let version = match &source.commit {
        Some(commit) if SpackVersion::in_name(commit).is_some() => None,
        _ => named(),
    };
    let version =
        version.unwrap_or_else(|| SpackVersion::of_commit(source.commit.as_deref(), recipe.format));
    if version >= SpackVersion::OLDEST || options.accept_old_spack {
        return Some(version);
    }
    let file = report.file(root, "")?;
    let spack = file.get("spack")?;
    let section = spack.section()?;
    let commit = section.get("commit").unwrap_or(spack);
    let is_named = source.commit.as_deref().and_then(SpackVersion::in_name).is_some();
    let message = if is_named {
        format!("Spack {version} is too old: recipes are built with Spack 1.0 and later")
    } else {
        "a recipe of format 1 is for Spack before 1.0, which cannot build it any more".to_owned()
    };
    let hint = convert_hint(report);
    report.problem_with_hint(commit.place(), &message, &hint);
    Some(version)
}

/// Says what to type for a recipe that is too old.
fn convert_hint(report: &Report<'_>) -> String {
    let recipe = report.source.file.parent().filter(|path| !path.as_os_str().is_empty());
    let recipe = recipe.unwrap_or(Path::new("."));
    let name = recipe.file_name().unwrap_or_default().display().to_string();
    let name = if name.is_empty() { "recipe".to_owned() } else { name };
    let (shown, output) = (shown_word(recipe), shown_word(format!("{name}-new")));
    format!(
        "`cabane recipe convert {shown} --output {output} --system SYSTEM` writes it for a newer Spack, \
         ports its packages, and lists what no longer exists"
    )
}

/// Returns what `modules.yaml` says, unless `config.yaml` says that it does not
/// count.
fn wanted_modules(
    modules: Option<StackModules>,
    config: Option<&(Recipe, SpackVersion)>,
    format: FormatVersion,
) -> Option<StackModules> {
    let configured = config.and_then(|(recipe, _)| match &recipe.engine {
        EngineConfig::Spack(spack) => spack.modules,
        _ => None,
    });
    match (modules, configured, format) {
        // In format 1 there were module files unless a recipe sets otherwise.
        (_, Some(false), FormatVersion::V1) => None,
        (None, _, FormatVersion::V1) => {
            Some(StackModules { kinds: vec![ModuleKind::Tcl], modules: YamlMap::new() })
        }
        (modules, _, _) => modules,
    }
}

fn check_modules(report: &Report<'_>, root: &Node, recipe: &Recipe, has_file: bool) {
    let EngineConfig::Spack(SpackConfig { modules: Some(configured), .. }) = recipe.engine else {
        return;
    };
    let Some(field) = field_of(report, root, "modules") else {
        return;
    };
    if recipe.format == FormatVersion::V1 {
        return;
    }
    let place = field.key_place;
    match (configured, has_file) {
        (true, false) => report.problem_with_hint(
            place,
            "module files are wanted, but there is no modules.yaml",
            "write one, or remove this line",
        ),
        (false, true) => report.problem_with_hint(
            place,
            "module files are not wanted, but there is a modules.yaml",
            "remove the file, or remove this line",
        ),
        _ => report.remark(
            place,
            "`modules` says what modules.yaml says by being there",
            "remove this line",
        ),
    }
}

fn field_of<'n>(report: &'n Report<'_>, root: &'n Node, key: &str) -> Option<Field<'n>> {
    report.file(root, "")?.get(key)
}

fn check_default_view(
    report: &Report<'_>,
    root: &Node,
    recipe: &Recipe,
    environments: &[StackEnvironment],
    has_modules: bool,
) {
    let (Some(view), Some(field)) = (&recipe.default_view, field_of(report, root, "default-view"))
    else {
        return;
    };
    let views = environments.iter().flat_map(|environment| &environment.views);
    let mut known: Vec<&str> = views.map(|view| view.name.as_str()).collect();
    if has_modules {
        known.push("modules");
    }
    known.push("spack");
    if known.contains(&view.as_str()) {
        return;
    }
    let message = format!("this recipe has no view {}", quote(view.as_str()));
    let hint = match view.as_str() {
        "modules" => "write a modules.yaml, or remove this line".to_owned(),
        view => suggestion(view, &known, "its views are"),
    };
    report.problem_with_hint(field.place(), &message, &hint);
}
