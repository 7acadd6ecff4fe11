// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What the registry has of a pipeline: two lists, and one document for each channel.

use std::collections::{BTreeMap, BTreeSet};

use cabane_channel::read_channel;
use cabane_evidence::{EvidenceKeys, Outcome, Wanted, attached, tested};
use cabane_label::{Digest, Label, NameMatch, Namespace, System};
use cabane_registry::{Listing, Place, Wanted as WantedImages};
use cabane_report::{Kind, Result};
use cabane_site::Context;
use cabane_transfer::{Connection, RegistryRequest};
use jiff::Timestamp;

use crate::cell::Cell;
use crate::pipeline::Pipeline;

/// The registry of a pipeline, and the keys with which it is written.
#[derive(Clone, Debug, Default)]
pub struct Publishing {
    /// The registry.
    pub registry: RegistryRequest,
    /// Whether images stay here.
    pub offline: bool,
}

impl Publishing {
    /// Connects to the registry; `None` if none is named or configured, or none is wanted.
    ///
    /// # Errors
    ///
    /// What is typed or configured is malformed.
    pub fn connect(&self, context: &Context) -> Result<Option<Connection>> {
        self.has_registry(context).then(|| self.registry.connect(context)).transpose()
    }

    /// Returns whether a registry is named or configured, and wanted.
    pub(crate) fn has_registry(&self, context: &Context) -> bool {
        let is_configured = context.settings.registry.address.value.is_some();
        (self.registry.registry.is_some() || is_configured) && !self.offline
    }
}

/// What the registry has.
#[derive(Debug, Default)]
pub(crate) struct Published {
    images: BTreeMap<Label, Digest>,
    promoted: BTreeMap<Label, Digest>,
    /// What channels release.
    released: BTreeSet<(Label, Digest)>,
}

impl Published {
    /// Asks for all cells at once.
    pub(crate) fn ask(
        context: &Context,
        connection: &Connection,
        pipeline: &Pipeline,
        cells: &[&Cell],
    ) -> Result<Self> {
        let mut published =
            Self { images: list(connection, &pipeline.publish)?, ..Self::default() };
        let Some(target) = &pipeline.promote else { return Ok(published) };
        published.promoted = list(connection, &target.namespace)?;
        let Some(channel) = &target.channel else { return Ok(published) };
        let systems: BTreeSet<&System> = cells.iter().map(|cell| &cell.name.system).collect();
        for system in systems {
            let pattern = cabane_label::ChannelPattern {
                namespace: Some(target.namespace.clone()),
                name: channel.clone(),
                serial: None,
                system: Some(system.clone()),
            };
            let (setting, place) = cabane_channel::place_of(context, &pattern)?;
            // A channel begins with the first image that is promoted.
            match read_channel(context, &connection.registry, setting, &place) {
                Ok(channel) => {
                    let entries = channel.document.entries.iter();
                    let entries = entries.map(|one| (one.label.clone(), one.digest.clone()));
                    published.released.extend(entries);
                }
                Err(error) if error.kind() == Kind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(published)
    }

    /// Returns the image that was built from what the cell is built from now.
    pub(crate) fn image(&self, cell: &Cell) -> Result<Option<&Digest>> {
        Ok(self.images.get(&cell.published()?))
    }

    /// Whether the image of a cell is where those go that pass.
    pub(crate) fn is_promoted(&self, pipeline: &Pipeline, cell: &Cell) -> Result<bool> {
        let Some(target) = &pipeline.promote else { return Ok(true) };
        let Some(image) = self.image(cell)? else { return Ok(false) };
        let has_label = self.promoted.get(&cell.promoted()?) == Some(image);
        let is_released =
            target.channel.is_none() || self.released.contains(&(cell.promoted()?, image.clone()));
        Ok(has_label && is_released)
    }
}

fn list(connection: &Connection, namespace: &Namespace) -> Result<BTreeMap<Label, Digest>> {
    let wanted = WantedImages { namespace, pattern: None, how: NameMatch::Exact };
    let images = connection.registry.find(&wanted, Listing::Auto)?.into_iter();
    Ok(images.map(|image| (image.label, image.digest)).collect())
}

/// Returns what the statements about a published image say, from keys that count. What was tested
/// without one of the suites of the cell was not tested.
pub(crate) fn outcome_of(
    context: &Context,
    connection: &Connection,
    pipeline: &Pipeline,
    cell: &Cell,
) -> Result<Outcome> {
    let place = Place { namespace: pipeline.publish.clone(), label: cell.published()? };
    let Some(image) = connection.registry.image_if_there(&place)? else {
        return Ok(Outcome::NotTested);
    };
    let keys = EvidenceKeys::of(context)?;
    let statements = attached(&connection.registry, &image)?;
    let judged: Vec<_> =
        statements.iter().filter_map(|one| keys.judge(one, &image.digest)).collect();
    let system = cell.name.system.clone();
    let wanted = Wanted::here(context, Some(&system), None, Timestamp::now());
    let tested = tested(&judged, &wanted, Timestamp::now());
    let deciding = judged.iter().find(|one| Some(&one.id) == tested.statement.as_ref());
    let ran = deciding.map(|one| one.statement.configuration()).unwrap_or_default();
    let has_all = cell.suites_that_differ(&ran).is_empty();
    Ok(if has_all { tested.outcome } else { Outcome::NotTested })
}
