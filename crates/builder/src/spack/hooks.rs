// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `pre-install` and `post-install`: scripts of a recipe, with places filled in.
//!
//! A script may say `{{ env.mount }}`, `{{ env.config }}`, `{{ env.build }}` and
//! `{{ env.spack }}`; nothing else is expanded.

use std::path::{Path, PathBuf};

use cabane_label::{escape, shown};

use super::session::{self, INPUTS, SOURCES};
use super::{SpackEngine, inputs};
use crate::build_context::BuildContext;
use crate::layout::Inside;
use crate::sandbox::Invocation;
use crate::{BuildError, Result, disk, fingerprint};

/// The script that runs before anything is concretized.
pub(super) const PRE_INSTALL: &str = "pre-install";
/// The script that runs when everything but the metadata is there.
pub(super) const POST_INSTALL: &str = "post-install";

/// Whether a recipe has a script.
pub(super) fn exists(engine: &SpackEngine, name: &str) -> bool {
    engine.recipe_dir.path.join(name).is_file()
}

/// What depends on a script of the recipe, if there is one.
pub(super) fn input(engine: &SpackEngine, name: &str) -> Option<(String, String)> {
    let digest = fingerprint::of_file(&engine.recipe_dir.path.join(name)).ok()?;
    Some((name.to_owned(), digest.to_string()))
}

/// Runs a script of the recipe in the sandbox, if there is one.
pub(super) fn run(engine: &SpackEngine, name: &str, bench: &mut BuildContext<'_>) -> Result<()> {
    if !exists(engine, name) {
        return Ok(());
    }
    let source = engine.recipe_dir.path.join(name);
    let script = disk::read_text(&source)?;
    let text = fill_in(&script, &source, &places(&engine.store))?;
    let path = inputs::directory(&engine.layout).join(name);
    disk::put_executable(&path, &text)?;
    let program = Inside::work(INPUTS).join(name);
    let invocation = Invocation::new(program, Inside::work(INPUTS));
    bench.run(&session::sandbox(engine), &invocation)
}

/// What a script may ask for: the places of a build whose image will be mounted at `mount`.
fn places(mount: &Path) -> [(&'static str, PathBuf); 4] {
    [
        ("env.mount", mount.to_owned()),
        ("env.config", mount.join("config")),
        ("env.build", Inside::work(INPUTS)),
        ("env.spack", Path::new(SOURCES).join("spack")),
    ]
}

/// Fills a script in. `path` is where it comes from, for messages.
fn fill_in(script: &str, path: &Path, places: &[(&str, PathBuf)]) -> Result<String> {
    let mut text = String::new();
    let mut rest = script;
    while let Some((before, from)) = rest.split_once("{{") {
        text.push_str(before);
        let line = 1 + script[..script.len() - from.len()].matches('\n').count();
        let unknown = |name: &str| {
            let (path, name) = (shown(path), escape(name));
            BuildError::refused(
                format!("{path}:{line}: unknown placeholder `{name}`"),
                "the placeholders are `env.mount`, `env.config`, `env.build`, and `env.spack`",
            )
        };
        let Some((name, after)) = from.split_once("}}") else {
            return Err(unknown(from.lines().next().unwrap_or_default()));
        };
        let place = places.iter().find(|(known, _)| *known == name.trim());
        let (_, place) = place.ok_or_else(|| unknown(name.trim()))?;
        text.push_str(&place.to_string_lossy());
        rest = after;
    }
    text.push_str(rest);
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(script: &str) -> Result<String, String> {
        let places = places(Path::new("/user-environment"));
        fill_in(script, Path::new("post-install"), &places).map_err(|error| error.to_string())
    }

    #[test]
    fn places_are_filled_in() {
        assert_eq!(
            filled("cd {{ env.mount }}; ls {{env.config}} ${HOME}"),
            Ok("cd /user-environment; ls /user-environment/config ${HOME}\n".to_owned()),
        );
    }

    #[test]
    fn what_is_unknown_is_reported_with_its_line() {
        assert_eq!(
            filled("#!/bin/sh\n\necho {{ env.store }}\n"),
            Err("post-install:3: unknown placeholder `env.store`".to_owned()),
        );
    }
}
