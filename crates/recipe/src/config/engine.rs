// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which engine a recipe is for, and which keys belong to which.

use super::{container, easybuild, python, spack, tree};
use crate::ask::{Elsewhere, Section};
use crate::diagnostic::quote;
use crate::recipe::{EngineConfig, FormatVersion};
use crate::suggest::nearest;

/// The engines that a recipe can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    Spack,
    Python,
    Tree,
    Container,
    EasyBuild,
}

/// The keys of every recipe.
const COMMON: &[&str] = &[
    "name",
    "version",
    "engine",
    "store",
    "description",
    "default-view",
    "checks",
    "debug-symbols",
];

impl Engine {
    const ALL: [Self; 5] =
        [Self::Spack, Self::Python, Self::EasyBuild, Self::Tree, Self::Container];
    /// Those whose recipes must name them.
    const NAMED: [Self; 4] = [Self::Python, Self::EasyBuild, Self::Tree, Self::Container];

    fn name(self) -> &'static str {
        match self {
            Self::Spack => "spack",
            Self::Python => "python",
            Self::Tree => "tree",
            Self::Container => "container",
            Self::EasyBuild => "easybuild",
        }
    }

    /// The keys of a recipe that only some engines know.
    fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Spack => &["spack", "modules", "cleanup", "mirror", "base"],
            Self::Python => &["python", "views"],
            Self::Tree => &["tree", "views"],
            Self::Container => &["container", "views"],
            Self::EasyBuild => &["easybuild", "views"],
        }
    }

    /// The keys inside of the section that has the name of the engine.
    fn section_keys(self) -> &'static [&'static str] {
        match self {
            Self::Spack => spack::KEYS,
            Self::Python => python::KEYS,
            Self::Tree => tree::KEYS,
            Self::Container => container::KEYS,
            Self::EasyBuild => easybuild::KEYS,
        }
    }

    /// Whether views can come from module files.
    pub(super) fn has_modules(self) -> bool {
        matches!(self, Self::Tree | Self::EasyBuild)
    }

    fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|engine| engine.name() == name)
    }

    /// Finds out for which engine a recipe is written.
    ///
    /// A recipe that names none is one for Spack, as all were before there was
    /// a choice, unless it has the section of another engine.
    pub(super) fn choose(file: &Section<'_>) -> Option<Self> {
        let Some(field) = file.get("engine") else {
            let other = Self::NAMED.into_iter().find_map(|engine| {
                file.entries.iter().find(|entry| entry.key == engine.name()).map(|e| (engine, e))
            });
            let Some((engine, entry)) = other.filter(|_| file.get("spack").is_none()) else {
                return Some(Self::Spack);
            };
            let name = engine.name();
            let message = format!("the section `{name}` is there, but not the engine");
            let hint = format!("add a line `engine: {name}`");
            file.report.problem_with_hint(entry.key_place, &message, &hint);
            return Some(engine);
        };
        let text = field.text()?;
        if let Some(engine) = Self::of(text) {
            return Some(engine);
        }
        let engines = Self::ALL.map(Self::name);
        let hint = match nearest(text, &engines) {
            Some(meant) => format!("write `engine: {meant}`"),
            None => format!("the engines are {}", cabane_label::enumerate(&engines, "and")),
        };
        let message = format!("there is no engine {}", quote(text));
        field.refuse(&message, hint.as_str())
    }

    /// Reads what the engine wants to know.
    pub(super) fn read(
        self,
        file: &Section<'_>,
        format: Option<FormatVersion>,
    ) -> Option<EngineConfig> {
        match self {
            Self::Spack => spack::read(file, format).map(EngineConfig::Spack),
            Self::Python => python::read(file).map(EngineConfig::Python),
            Self::Tree => tree::read(file).map(EngineConfig::Tree),
            Self::Container => container::read(file).map(EngineConfig::Container),
            Self::EasyBuild => easybuild::read(file).map(EngineConfig::EasyBuild),
        }
    }
}

/// The keys that a recipe for Spack can have, without those of format 1 alone.
#[cfg(test)]
pub(crate) fn spack_keys() -> Vec<&'static str> {
    let keys = COMMON.iter().chain(Engine::Spack.keys());
    keys.copied().filter(|key| *key != "mirror").collect()
}

/// Notes every key that the recipe should not have.
pub(super) fn refuse_unknown_keys(file: &Section<'_>, engine: Option<Engine>) {
    let mut known = COMMON.to_vec();
    match engine {
        Some(engine) => known.extend(engine.keys()),
        // No one can say which of them belong there.
        None => known.extend(Engine::ALL.into_iter().flat_map(Engine::keys)),
    }
    known.dedup();
    file.refuse_unknown(&known, |key| engine.and_then(|engine| elsewhere(key, engine)));
}

/// Says what is known about a key that recipes for this engine do not have,
/// and where it belongs.
fn elsewhere(key: &str, engine: Engine) -> Option<Elsewhere> {
    let name = engine.name();
    let hint = |hint: String| Some((None, hint));
    if engine.section_keys().contains(&key) {
        return hint(format!("it belongs in the section `{name}:`, indented by two spaces"));
    }
    if engine == Engine::Spack && matches!(key, "views" | "env_vars") {
        return hint("the views of a Spack recipe are described in environments.yaml".to_owned());
    }
    if engine == Engine::Spack && matches!(key, "compilers" | "environments" | "network") {
        return hint(format!("`{key}` has a file of its own: {key}.yaml"));
    }
    if matches!(key, "system" | "uarch" | "tag" | "label") {
        return hint("remove it: the label that is given to the build says it".to_owned());
    }
    let owner = Engine::ALL.into_iter().find(|other| other.keys().contains(&key))?.name();
    let message = format!("`{key}` is for the engine `{owner}`, but this recipe is for `{name}`");
    let hint = match Engine::of(key) {
        Some(_) => format!("remove it, or write `engine: {key}`"),
        None => "remove it".to_owned(),
    };
    Some((Some(message), hint))
}
