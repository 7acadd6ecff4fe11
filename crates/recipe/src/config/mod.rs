// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `config.yaml`: from a text to a [`Recipe`].
//!
//! What every recipe says is read here, what an engine wants to know in the
//! module of that engine. Nothing is looked up: whether a file exists that the
//! recipe names is for the build to find out.

mod checks;
mod container;
mod easybuild;
mod engine;
pub(crate) mod env_vars;
mod path;
mod python;
mod spack;
mod tree;
mod views;

use std::collections::BTreeMap;
use std::path::Path;

use cabane_label::{MountPoint, ParseError};
use cabane_view::ViewName;
use engine::Engine;

use crate::ask::{Field, Section};
use crate::diagnostic::{Mistakes, quote};
use crate::file;
use crate::language::Language;
use crate::node::{Kind, Node, Scalar, Value};
use crate::recipe::{FormatVersion, Recipe};
use crate::report::Report;
use crate::suggest::{nearest, suggestion};

#[cfg(test)]
pub(crate) use engine::spack_keys;
pub use env_vars::PATH_LISTS;
pub(crate) use views::view_name;

/// A `config.yaml` and where it came from.
#[derive(Clone, Copy, Debug)]
pub struct ConfigText<'a> {
    /// The file, as diagnostics name it.
    pub path: &'a Path,
    /// What is in it.
    pub text: &'a [u8],
}

/// Reads `config.yaml`.
///
/// Any bytes can be given: the time and the memory it takes to refuse them is
/// bounded by their number and by [`MAX_FILE_SIZE`](crate::MAX_FILE_SIZE).
pub fn parse_config(text: &ConfigText<'_>) -> Result<Recipe, Mistakes> {
    file::read(text.path, text.text, Language::Yaml, read).map_err(Mistakes::in_the("the recipe"))
}

const EXAMPLE: &str = "begin with the name of the image: `name: my-tools`";

/// Reads what can be read; what is missing or wrong has been noted.
pub(crate) fn read(report: &Report<'_>, root: &Node) -> Option<Recipe> {
    let file = report.file(root, EXAMPLE)?;
    let engine = Engine::choose(&file);
    engine::refuse_unknown_keys(&file, engine);

    let name = file.needed("name", "add a line such as `name: my-tools`", Field::word);
    let format = format_version(&file, engine);
    let store = store(&file, engine);
    let description = description(&file);
    let default_view = file.given("default-view").and_then(|field| field.word());
    let has_views = engine.is_some_and(|engine| engine != Engine::Spack);
    let views = if has_views {
        views::read(&file, engine.is_some_and(Engine::has_modules))
    } else {
        Some(BTreeMap::new())
    };
    if let (true, Some(views), Some(view)) = (has_views, &views, &default_view) {
        let names: Vec<&str> = views.keys().map(ViewName::as_str).collect();
        check_default_view(&file, view, &names);
    }
    let checks = checks::read(&file);
    let separates_debug_symbols = separates_debug_symbols(&file, engine);
    let engine = engine.and_then(|engine| engine.read(&file, format));

    Some(Recipe {
        name: name?,
        format: format?,
        store: store?,
        description,
        default_view,
        engine: engine?,
        views: views?,
        checks: checks?,
        separates_debug_symbols: separates_debug_symbols?,
    })
}

fn format_version(file: &Section<'_>, engine: Option<Engine>) -> Option<FormatVersion> {
    let Some(field) = file.get("version") else {
        // Recipes of Stackinator without a version are of the first; the other
        // engines came with the third.
        return Some(match engine {
            None | Some(Engine::Spack) => FormatVersion::V1,
            Some(_) => FormatVersion::V3,
        });
    };
    if let Value::Scalar(Scalar { text, kind: Kind::Integer }) = &field.node.value {
        match text.as_str() {
            "1" => return Some(FormatVersion::V1),
            "2" => return Some(FormatVersion::V2),
            "3" => return Some(FormatVersion::V3),
            _ => {}
        }
    }
    let meant = match &field.node.value {
        Value::Scalar(scalar) => {
            let text = scalar.text.trim_start_matches('v');
            text.parse().ok().filter(|version| [1.0, 2.0, 3.0].contains(version))
        }
        _ => None,
    };
    let hint = match meant {
        Some(version) => format!("write `version: {version}`"),
        None => "this is the version of the recipe format, not of the software: \
                 write `version: 3`"
            .to_owned(),
    };
    field.wrong_type("1, 2 or 3", Some(&hint))
}

fn store(file: &Section<'_>, engine: Option<Engine>) -> Option<MountPoint> {
    const DEFAULT: &str = "/user-environment";
    if engine == Some(Engine::Container) {
        if let Some(field) = file.get("store") {
            let message = "an image of the engine `container` is mounted at `/`";
            file.report.problem_with_hint(field.key_place, message, "remove `store`");
        }
        return Some(MountPoint::root());
    }
    let Some(field) = file.get("store") else {
        // The default is a mount point; if it were not, this would be reported.
        return DEFAULT.parse().ok();
    };
    let text = field.text()?;
    let noted = |mut error: ParseError| {
        if error.hint().is_none() {
            error = error.with_hint(Some(format!("write a path such as `store: {DEFAULT}`")));
        }
        field.parse_error(text, &error);
    };
    MountPoint::below_root(text).map_err(noted).ok()
}

/// Returns whether the image has no debug symbols; what cannot be used has been noted.
fn separates_debug_symbols(file: &Section<'_>, engine: Option<Engine>) -> Option<bool> {
    let Some(field) = file.get("debug-symbols") else { return Some(false) };
    if engine == Some(Engine::Container) {
        let message = "images of the engine `container` keep their debug symbols";
        file.report.problem_with_hint(field.key_place, message, "remove `debug-symbols`");
        return None;
    }
    match field.text()? {
        "separate" => Some(true),
        "keep" => Some(false),
        other => {
            let message = format!("`debug-symbols` cannot be {}", quote(other));
            field.refuse(&message, "write `debug-symbols: separate`, or remove the line")
        }
    }
}

/// Returns a description; one that is no text has been noted.
fn description(section: &Section<'_>) -> Option<String> {
    let field = section.given("description")?;
    field.text().map(|text| text.trim_end().to_owned())
}

fn check_default_view(file: &Section<'_>, view: &ViewName, views: &[&str]) {
    let mut known = views.to_vec();
    if !known.contains(&"default") {
        known.insert(0, "default");
    }
    if known.contains(&view.as_str()) {
        return;
    }
    let message = format!("this recipe has no view {}", quote(view.as_str()));
    let hint = match nearest(view.as_str(), &known) {
        None if known.len() == 1 => {
            "without a section `views`, the only view is `default`".to_owned()
        }
        _ => suggestion(view.as_str(), &known, "its views are"),
    };
    let place = file.get("default-view").map(|field| field.place());
    file.report.note(place, &message, Some(&hint));
}
