// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The provenance of an image: a signed statement about its build.
//!
//! It has neither the name of the user nor that of the host, and no path of this machine.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use cabane_builder::{Built, ImageFormat, Material, Materials, digest_of, materials};
use cabane_evidence::{
    BuildDefinition, Builder, IMAGE_BUILD, Provenance, Resource, RunDetails, RunMetadata,
    SignedStatement, keep,
};
use cabane_label::{Digest, Label};
use cabane_registry::{Format, SigningKey, manifest_of};
use cabane_report::{IoContext, Result};
use cabane_signature_policy::signing_key;
use cabane_site::Context;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::PlannedBuild;

/// A builder with its key, at the beginning of a build.
#[derive(Debug)]
pub struct Signer {
    key: SigningKey,
    started: Timestamp,
}

/// A statement about a build.
#[derive(Clone, Debug)]
pub struct SignedBuild {
    /// Its sha256.
    pub statement: Digest,
    /// The repositories that keep it.
    pub kept: Vec<String>,
    /// The file that has it, where the image is a file.
    pub file: Option<PathBuf>,
}

impl Signer {
    /// Reads the key, before there is something to sign.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn new(context: &Context, key: &Path) -> Result<Self> {
        Ok(Self { key: signing_key(context, key)?, started: Timestamp::now() })
    }

    /// Signs from what the image of a repository was built, and keeps that beside the image. `is_whole`
    /// says that all steps were done since the signer exists.
    ///
    /// # Errors
    ///
    /// The recipe changed during the build; no repository can keep it.
    pub fn sign_added(
        &self,
        context: &Context,
        (planned, built): (&PlannedBuild, &Built),
        label: &Label,
        is_whole: bool,
    ) -> Result<SignedBuild> {
        let repository = context.repository_to_write()?.repository;
        // A push gives the manifest this date.
        let date = date_of(&repository.image_path(&built.digest));
        let manifest = date.map(|date| {
            let format = match built.format {
                ImageFormat::Erofs => Format::Erofs,
                ImageFormat::Squashfs => Format::Squashfs,
            };
            manifest_of(format, &built.digest, built.size, date)
        });
        let signed =
            self.sign(context, (planned, built), (&label.to_string(), manifest), is_whole)?;
        let kept = keep(context, &built.digest, std::slice::from_ref(&signed))?;
        Ok(SignedBuild { statement: signed.id(), kept, file: None })
    }

    /// Signs from what an image file was built, and writes that to a file beside it.
    ///
    /// # Errors
    ///
    /// The recipe changed during the build; the file cannot be written.
    pub fn sign_written(
        &self,
        context: &Context,
        (planned, built): (&PlannedBuild, &Built),
        output: &Path,
        is_whole: bool,
    ) -> Result<SignedBuild> {
        let name = planned.plan.name.to_string();
        let signed = self.sign(context, (planned, built), (&name, None), is_whole)?;
        let mut file = output.as_os_str().to_owned();
        file.push(".sigstore.json");
        let file = PathBuf::from(file);
        fs::write(&file, signed.to_bytes()).or_failed(|| format!("write {}", file.display()))?;
        Ok(SignedBuild { statement: signed.id(), kept: Vec::new(), file: Some(file) })
    }

    fn sign(
        &self,
        context: &Context,
        (planned, built): (&PlannedBuild, &Built),
        (name, manifest): (&str, Option<Digest>),
        is_whole: bool,
    ) -> Result<SignedStatement> {
        let mut provenance = provenance(context, (planned, built), self.started, is_whole)?;
        let builder = &mut provenance.run_details.builder;
        builder.name_after(&self.key.public());
        let statement = provenance.statement((name, &built.digest, manifest.as_ref()));
        SignedStatement::sign(&statement, &self.key)
    }
}

/// Returns from what and by what an image was built, before it is signed. Without a setting, the builder
/// has no name yet. `is_whole` says that all steps were done since `started`.
///
/// # Errors
///
/// The recipe changed during the build.
pub fn provenance(
    context: &Context,
    (planned, built): (&PlannedBuild, &Built),
    started: Timestamp,
    is_whole: bool,
) -> Result<Provenance> {
    let materials = materials(&planned.plan)?;
    let run =
        [materials.fingerprint.as_str(), &started.to_string(), &std::process::id().to_string()];
    let metadata = RunMetadata {
        invocation_id: Some(digest_of(run.join("\n").as_bytes()).as_str()[..32].to_owned()),
        started_on: is_whole.then_some(started),
        finished_on: date_of(&built.image),
    };
    let cabane = materials.versions.get("cabane").cloned();
    let version = cabane.map(|version| ("cabane".to_owned(), version));
    Ok(Provenance {
        build_definition: definition(planned, built, &materials),
        run_details: RunDetails {
            builder: Builder {
                id: context.settings.evidence.builder_id.clone().unwrap_or_default(),
                version: version.into_iter().collect(),
            },
            metadata,
            byproducts: materials.results.into_iter().map(resource).collect(),
        },
    })
}

fn definition(planned: &PlannedBuild, built: &Built, materials: &Materials) -> BuildDefinition {
    let plan = &planned.plan;
    let mut recipe = Map::from_iter([
        ("name".to_owned(), json!(plan.name.as_str())),
        ("engine".to_owned(), json!(plan.engine)),
    ]);
    recipe.extend(materials.recipe.uri.iter().map(|uri| ("uri".to_owned(), json!(uri))));
    recipe.extend(materials.recipe_path.iter().map(|path| ("path".to_owned(), json!(path))));
    let mut parameters = Map::from_iter([
        ("recipe".to_owned(), Value::Object(recipe)),
        ("format".to_owned(), json!(built.format.name())),
    ]);
    let label = planned.label.iter().map(|label| ("label".to_owned(), json!(label.to_string())));
    parameters.extend(label);
    let system = planned.system.iter();
    parameters.extend(system.map(|name| ("system".to_owned(), json!(name.to_string()))));
    let platform = plan.platform.iter();
    parameters.extend(platform.map(|platform| ("platform".to_owned(), json!(platform))));
    let versions: BTreeMap<_, _> =
        materials.versions.iter().filter(|(name, _)| *name != "cabane").collect();
    let mut internal = Map::new();
    if !versions.is_empty() {
        internal.insert("versions".to_owned(), json!(versions));
    }
    let recipe = std::iter::once(materials.recipe.clone());
    BuildDefinition {
        build_type: IMAGE_BUILD.to_owned(),
        external_parameters: parameters,
        internal_parameters: internal,
        resolved_dependencies: recipe
            .chain(materials.others.iter().cloned())
            .map(resource)
            .collect(),
    }
}

fn resource(material: Material) -> Resource {
    let modified = material.is_modified.map(|it| ("modified".to_owned(), json!(it)));
    Resource {
        name: Some(material.name),
        uri: material.uri,
        digest: material.digests,
        annotations: modified.into_iter().collect(),
    }
}

fn date_of(image: &Path) -> Option<Timestamp> {
    let changed = fs::metadata(image).and_then(|file| file.modified()).ok()?;
    Timestamp::try_from(changed).ok()
}
