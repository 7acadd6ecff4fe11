// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a site shows, read from a registry: its list, metadata, signatures, statements and channels.
//!
//! Only the namespaces that were named are read. So the site contains nothing of others, whatever the
//! user may see.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cabane_channel::ChannelDocument;
use cabane_image_search::{Catalogue, CatalogueParts, ImageDetails};
use cabane_impact::{Assessment, Change, assess};
use cabane_label::{
    ChannelPattern, ImageDescription, LabelPattern, NameMatch, Namespace, System, SystemPattern,
};
use cabane_release::history;
use cabane_report::{Kind, Report, Result};
use cabane_site::Context;
use cabane_transfer::{Connection, RegistryRequest, look_up};
use cabane_view::PackageIndex;

use crate::beside::{Beside, beside};
use crate::input::{CatalogueImage, CatalogueInput, Source};

/// How many documents of a channel are read for the list of changes.
const MOST_DOCUMENTS: usize = 50;

/// What is read, and what is not in the registry.
#[derive(Clone, Debug, Default)]
pub struct GatherRequest {
    /// The parts of the registry; none for that of the configuration.
    pub namespaces: Vec<Namespace>,
    /// The name of the site.
    pub title: Option<String>,
    /// The address that the site will have.
    pub base: Option<String>,
    /// Leave out signatures and statements: they need several requests for each image.
    pub without_evidence: bool,
    /// Keep signatures and statements that were read no longer ago than this.
    pub evidence_age: Duration,
    /// Ask for each image, whatever the list says.
    pub refresh: bool,
    /// Changes of the host whose consequences are shown, a page each.
    pub changes: Vec<Change>,
}

impl GatherRequest {
    pub(crate) fn title(&self) -> String {
        self.title.clone().unwrap_or_else(|| "Software images".to_owned())
    }
}

/// Reads what a site shows of a registry.
///
/// # Errors
///
/// No registry, a registry that does not answer, an address that is none, a key that cannot be read.
pub fn gather(
    context: &Context,
    registry: &RegistryRequest,
    request: &GatherRequest,
) -> Result<CatalogueInput> {
    let base = request.base.as_deref().map(base_of).transpose()?;
    let connection = registry.connect(context)?;
    let mut namespaces = request.namespaces.clone();
    if namespaces.is_empty() {
        namespaces.push(connection.namespace_of(None));
    }
    namespaces.sort();
    namespaces.dedup();
    let mut parts = Parts { context, connection: &connection, request, images: Vec::new() };
    let mut packages = PackageIndex::default();
    let mut upgrades: Vec<Assessment> = Vec::new();
    for namespace in &namespaces {
        let catalogue = parts.add_namespace(namespace)?;
        for (place, change) in request.changes.iter().enumerate() {
            let assessment = assess(&catalogue, std::slice::from_ref(change));
            match upgrades.get_mut(place) {
                Some(known) => known.images.extend(assessment.images),
                None => upgrades.push(assessment),
            }
        }
        packages.merge(&catalogue.packages.unwrap_or_default());
    }
    let channels = parts.channels(&namespaces);
    let address = connection.registry.address().to_string();
    Ok(CatalogueInput {
        title: request.title(),
        source: Source::Registry(address),
        base,
        day: cabane_channel::today(),
        images: parts.images,
        packages,
        channels,
        upgrades,
    })
}

/// Checks the address of a site, and returns it with a slash at the end.
pub(crate) fn base_of(text: &str) -> Result<String> {
    let is_web = ["https://", "http://"].iter().any(|scheme| text.starts_with(scheme));
    if !is_web || !text.chars().all(|c| c.is_ascii_graphic()) {
        let message = format!("invalid value `{}` for `--url`", cabane_label::escape(text));
        let hint = "write the address of the site, such as `https://software.example.org/`";
        return Err(Report::new(Kind::Usage, message).hinted(hint.to_owned()));
    }
    Ok(format!("{}/", text.trim_end_matches('/')))
}

struct Parts<'a> {
    context: &'a Context,
    connection: &'a Connection,
    request: &'a GatherRequest,
    images: Vec<CatalogueImage>,
}

impl Parts<'_> {
    /// Adds the images of a namespace, and returns what they need and have.
    fn add_namespace(&mut self, namespace: &Namespace) -> Result<Catalogue> {
        let (context, connection) = (self.context, self.connection);
        let pattern = LabelPattern {
            namespace: Some(namespace.clone()),
            system: Some(SystemPattern::Any),
            ..LabelPattern::default()
        };
        let all = ImageDescription::Pattern(pattern);
        let refresh = self.request.refresh;
        let listed = look_up(context, connection, Some(&all), NameMatch::Prefix, refresh)?;
        if listed.is_empty() {
            context
                .warning(format_args!("the registry has no images in the namespace `{namespace}`"));
        }
        let beside = if self.request.without_evidence {
            listed.iter().map(|_| Beside::default()).collect()
        } else {
            beside(context, connection, namespace, &listed, self.request.evidence_age)?
        };
        let parts = CatalogueParts { packages: true, details: true };
        let catalogue = Catalogue::of_listed(context, connection, listed.clone(), parts, refresh)?;
        let details = catalogue.details.clone().unwrap_or_default();
        let lines = details.lines();
        let images = listed.into_iter().zip(beside).map(|(image, beside)| CatalogueImage {
            details: ImageDetails::in_index(&details, &lines, &image.digest),
            namespace: image.namespace,
            label: image.label,
            digest: image.digest,
            manifest: image.manifest,
            size: image.size,
            date: image.date,
            signature: beside.signature,
            evidence: beside.evidence,
        });
        self.images.extend(images);
        Ok(catalogue)
    }

    /// Reads the channels of the namespaces, for every system that has images.
    fn channels(&self, namespaces: &[Namespace]) -> Vec<Vec<ChannelDocument>> {
        let mut systems: BTreeMap<&Namespace, BTreeSet<&System>> = BTreeMap::new();
        for image in &self.images {
            systems.entry(&image.namespace).or_default().insert(&image.label.system);
        }
        let mut channels = Vec::new();
        let settings = self.context.settings.channels.iter();
        for setting in settings.filter(|one| namespaces.contains(&one.namespace)) {
            for system in systems.get(&setting.namespace).into_iter().flatten() {
                let channel = ChannelPattern {
                    namespace: Some(setting.namespace.clone()),
                    name: setting.name.clone(),
                    serial: None,
                    system: Some((*system).clone()),
                };
                match history(self.context, self.connection, &channel, MOST_DOCUMENTS) {
                    Ok(found) => {
                        let documents = found.into_iter().map(|one| one.channel.document);
                        channels.push(documents.collect::<Vec<_>>());
                    }
                    Err(error) if error.kind() == Kind::NotFound => {}
                    Err(error) => {
                        self.context.warning(format_args!("a channel is omitted: {error}"));
                    }
                }
            }
        }
        channels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_site_ends_with_one_slash() {
        for text in ["https://example.org/software", "https://example.org/software//"] {
            assert_eq!(base_of(text).unwrap(), "https://example.org/software/");
        }
        for text in ["javascript:alert(1)", "example.org", "https://a b/", "https://\u{2028}/"] {
            assert!(base_of(text).is_err(), "{text}");
        }
    }
}
