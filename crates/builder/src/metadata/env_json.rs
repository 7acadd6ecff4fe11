// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `env.json`: new, or completed from the one that a tree brings.

use std::collections::BTreeMap;
use std::path::Path;

use cabane_label::shown;
use cabane_recipe::{Recipe, ViewRecipe};
use cabane_report::{Kind, Report};
use cabane_view::{CheckList, Meta, ViewName};
use serde_json::{Map, Value};

use crate::engine::Facts;
use crate::job::Job;
use crate::metadata::{ENV_JSON, views};
use crate::{BuildError, Result, disk};

/// The view that every image has.
const DEFAULT_VIEW: &str = "default";

/// Writes the text of `env.json`.
pub(super) fn compose(job: &Job, facts: &Facts) -> Result<String> {
    let existing = facts.existing.as_ref();
    let Some(directory) = existing.filter(|directory| directory.join(ENV_JSON).exists()) else {
        return Ok(meta(job, facts, &Meta::default()).to_json());
    };
    let path = directory.join(ENV_JSON);
    let (existing, mut document) = read(&path)?;
    check_mount_point(&existing, &job.recipe, directory)?;
    let ours = meta(job, facts, &existing);
    merge(&mut document, &ours);
    let mut text = serde_json::to_string_pretty(&Value::Object(document))
        .map_err(BuildError::file("write", &path))?;
    text.push('\n');
    Ok(text)
}

fn meta(job: &Job, facts: &Facts, existing: &Meta) -> Meta {
    let recipe = &job.recipe;
    let default = DEFAULT_VIEW.parse::<ViewName>().ok();
    let of_recipe = || {
        let mut view_recipes: BTreeMap<ViewName, ViewRecipe> = recipe.views.clone();
        let is_new = |name: &ViewName| !existing.views.contains_key(name);
        if let Some(name) = default.clone().filter(is_new) {
            view_recipes.entry(name).or_default();
        }
        view_recipes
            .iter()
            .map(|(name, view)| (name.clone(), views::view(recipe, facts, name, view)))
            .collect()
    };
    let views = facts.views.clone().unwrap_or_else(of_recipe);
    let is_there = |name: &ViewName| views.contains_key(name) || existing.views.contains_key(name);
    Meta {
        name: recipe.name.to_string(),
        description: recipe.description.clone(),
        mount: Some(recipe.store.clone()),
        // Who enters an image without naming a view expects to find its programs.
        default_view: recipe
            .default_view
            .clone()
            .or_else(|| existing.default_view.clone())
            .or_else(|| default.clone().filter(is_there)),
        views,
        needs: facts.needs.clone(),
        engine: Some(job.engine.name().to_owned()),
        container: None,
        checks: CheckList::new(&recipe.checks),
        bases: facts.bases.clone(),
    }
}

/// Reads the metadata of a tree: what it means, and all that it says.
fn read(path: &Path) -> Result<(Meta, Map<String, Value>)> {
    // One byte more than is allowed tells the parser that there is too much.
    let text =
        disk::read_start(path, Meta::MAX_SIZE + 1).map_err(BuildError::file("read", path))?;
    let meta = Meta::from_json(&text).map_err(|source| {
        Report::caused(Kind::Build, format!("cannot use {}", shown(path)), source)
    })?;
    let document = serde_json::from_slice(&text).map_err(BuildError::file("read", path))?;
    Ok((meta, document))
}

fn check_mount_point(existing: &Meta, recipe: &Recipe, tree: &Path) -> Result<()> {
    match &existing.mount {
        Some(made_for) if *made_for != recipe.store => {
            let (tree, store) = (shown(tree.parent().unwrap_or(tree)), &recipe.store);
            let message = format!("the tree in {tree} was made for {made_for}, not for {store}");
            let hint = format!("write `store: {made_for}` in config.yaml");
            Err(Report::new(Kind::Build, message).hinted(hint).into())
        }
        _ => Ok(()),
    }
}

/// Puts what the recipe says over what the tree says; everything else stays.
fn merge(document: &mut Map<String, Value>, ours: &Meta) {
    let Ok(Value::Object(ours)) = serde_json::from_str(&ours.to_json()) else {
        return;
    };
    for (key, value) in ours {
        match (document.get_mut(&key), value) {
            (Some(Value::Object(theirs)), Value::Object(more)) => theirs.extend(more),
            (_, value) => {
                document.insert(key, value);
            }
        }
    }
}
