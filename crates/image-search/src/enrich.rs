// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Packages of images that other tools pushed, in the list of a registry.

use cabane_label::{NameMatch, Namespace};
use cabane_registry::{Content, Listed, Listing, Wanted};
use cabane_report::Result;
use cabane_run::difference::PACKAGE_FILES;
use cabane_site::Context;
use cabane_transfer::Connection;

use crate::registry::package_lines;

/// How many images are read until their packages are in the list, so that an interrupted run
/// continues.
const BATCH: usize = 256;

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Enriched {
    /// How many images are in the list.
    pub images: usize,
    /// How many of them had no packages there, and have now.
    pub added: usize,
    /// Those that do not say which packages they have.
    pub silent: Vec<Listed>,
}

/// Reads the packages of the images whose line in the list has none, from their metadata, and adds
/// them.
///
/// # Errors
///
/// Those of reading and writing. What was added before stays.
pub fn enrich(
    context: &Context,
    connection: &Connection,
    namespace: &Namespace,
) -> Result<Enriched> {
    let registry = &connection.registry;
    let wanted = Wanted { namespace, pattern: None, how: NameMatch::Exact };
    let listed = registry.find(&wanted, Listing::Index)?;
    let mut enriched = Enriched { images: listed.len(), ..Enriched::default() };
    let watched = context.counted("reading packages");
    for (number, batch) in listed.chunks(BATCH).enumerate() {
        let mut found = Vec::new();
        for (image, content) in batch.iter().zip(registry.contents(batch, &PACKAGE_FILES)?) {
            let lines = match content {
                Ok(Content::Lines(_)) => continue,
                Ok(answer) => package_lines(answer),
                Err(error) => {
                    context.warning(format_args!(
                        "cannot read the packages of {}: {error}",
                        image.label
                    ));
                    continue;
                }
            };
            match lines {
                Some(lines) => found.push((image.clone(), lines)),
                None => enriched.silent.push(image.clone()),
            }
        }
        if !found.is_empty() {
            registry.add_packages(namespace, &found, &mut |_, _| ())?;
            enriched.added += found.len();
        }
        watched.show((number * BATCH + batch.len()) as u64, listed.len() as u64);
    }
    watched.end();
    Ok(enriched)
}
