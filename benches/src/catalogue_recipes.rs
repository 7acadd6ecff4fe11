// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The input of a catalogue of a public recipe collection, from what `scripts/recipe-table` found.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::{env, io};

use cabane_catalogue::{CatalogueImage, CatalogueInput};
use cabane_image_search::ImageDetails;
use cabane_label::Digest;
use cabane_view::PackageIndex;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::catalogue_input::empty_site;
use crate::measure::NotMeasured;

const RESULTS: &str = "CABANE_BENCH_RECIPE_TABLE";

/// Returns the input, and how many different packages the images have.
pub(crate) fn input() -> Result<(CatalogueInput, usize), NotMeasured> {
    let results = env::var_os(RESULTS).ok_or_else(|| {
        format!("{RESULTS} does not name the results of `scripts/recipe-table --concretize`")
    })?;
    let pairs = Path::new(&results).join("pairs");
    let mut input = empty_site().map_err(|error| error.to_string())?;
    let (mut lists, mut hashes) = (Vec::new(), BTreeSet::new());
    for recipe in entries(&pairs)? {
        for system in entries(&pairs.join(&recipe))? {
            let file = pairs.join(&recipe).join(&system);
            let text = fs::read_to_string(&file).map_err(|error| error.to_string())?;
            let result: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
            let packages = result["concrete"].as_array().map(Vec::as_slice).unwrap_or_default();
            if packages.is_empty() {
                continue;
            }
            hashes.extend(packages.iter().map(|one| text_of(one, "hash").to_owned()));
            let lines: String = packages.iter().map(line).collect();
            let image = image(&recipe, system.trim_end_matches(".json"))?;
            lists.push((image.digest.clone(), lines));
            input.images.push(image);
        }
    }
    if input.images.is_empty() {
        return Err(format!("{} has no recipe that was concretized", pairs.display()));
    }
    let mut index = PackageIndex::default();
    index.add(lists.iter().map(|(digest, lines)| (digest.clone(), Some(lines.as_str()))));
    input.packages = index;
    Ok((input, hashes.len()))
}

fn entries(directory: &Path) -> Result<BTreeSet<String>, NotMeasured> {
    let read = || -> io::Result<_> {
        fs::read_dir(directory)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect()
    };
    read().map_err(|error| format!("cannot read {}: {error}", directory.display()))
}

fn text_of<'a>(one: &'a Value, key: &str) -> &'a str {
    one[key].as_str().unwrap_or_default()
}

/// A package in the form of the index.
fn line(one: &Value) -> String {
    let [name, version, hash, variants, target] =
        ["name", "version", "hash", "variants", "target"].map(|key| text_of(one, key));
    format!("{name}\t{version}\t{hash}\t{variants}\t\t\t{target}\tspack\t\n")
}

/// An image of a recipe for a system: `NAME+VERSION+UARCH`, or without the last part.
fn image(recipe: &str, system: &str) -> Result<CatalogueImage, NotMeasured> {
    let (name, rest) = recipe.split_once('+').unwrap_or((recipe, "1"));
    // A few old recipes are for no kind of node.
    let (version, uarch) = rest.rsplit_once('+').unwrap_or((rest, "x86_64"));
    let version = version.replace('+', "-");
    let label = format!("{name}/{version}:v1@{system}%{uarch}");
    let digest = Digest::from_bytes(Sha256::digest(label.as_bytes()).into());
    Ok(CatalogueImage {
        namespace: "deploy".parse().map_err(|error| format!("{error}"))?,
        label: label.parse().map_err(|error| format!("the label {label}: {error}"))?,
        digest,
        manifest: None,
        size: 0,
        date: None,
        details: ImageDetails { engine: Some("spack".to_owned()), ..ImageDetails::default() },
        signature: None,
        evidence: None,
    })
}
