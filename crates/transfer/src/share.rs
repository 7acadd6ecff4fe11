// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What another user types to get an image.

use cabane_environment::find_image_record;
use cabane_label::{ImageDescription, LabelPattern};
use cabane_registry::{Place, RemoteImage};
use cabane_report::{Kind, Report, Result};
use cabane_site::Context;

use crate::pull::{find_remote, refuse_container};
use crate::push::digest_of;
use crate::registry::Connection;

/// An image in a registry, and how it is downloaded from there.
#[derive(Clone, Debug)]
pub struct SharedImage {
    /// The image.
    pub image: RemoteImage,
    /// The registry, as `--registry` takes it.
    pub registry: String,
    /// The command to type.
    pub line: String,
    /// Whether the command names the digest. Otherwise it names the label, which can move.
    pub is_by_digest: bool,
}

/// Finds an image in a registry, and returns the command with which others download it. `typed` is a label,
/// an ID, a digest, or a file. A label with a namespace, and an image that is not in a repository here, are
/// looked up in the registry only.
///
/// # Errors
///
/// Nothing, or several, are what was typed; the registry does not have the image; and those of asking.
pub fn share(context: &Context, connection: &Connection, typed: &str) -> Result<SharedImage> {
    let description: ImageDescription = typed.parse()?;
    refuse_container(&description)?;
    let has_namespace =
        matches!(&description, ImageDescription::Pattern(pattern) if pattern.namespace.is_some());
    let here = if has_namespace { None } else { Some(find_image_record(context, &description)) };
    let image = match here {
        Some(Ok(located)) => {
            let digest = digest_of(context, &located)?;
            let by_label = located.label.as_ref().map(|label| {
                let place =
                    Place { namespace: connection.namespace_of(None), label: label.clone() };
                connection.registry.image_if_there(&place)
            });
            let by_label = by_label.transpose()?.flatten();
            let found = if let Some(image) = by_label.filter(|image| image.digest == digest) {
                Ok(vec![image])
            } else {
                let wanted = ImageDescription::Digest(digest.clone());
                find_remote(context, connection, digest.as_str(), &wanted)
            };
            let name = located.label.as_ref().map_or(typed.to_owned(), ToString::to_string);
            found.map_err(|error| never_pushed(error, connection, &name))?
        }
        Some(Err(error)) if error.kind() != Kind::NotFound => return Err(error),
        _ => find_remote(context, connection, typed, &description)?,
    };
    let image = image.into_iter().next().ok_or_else(|| {
        Report::new(Kind::NotFound, format!("no image in the registry matches `{typed}`"))
    })?;
    let registry = connection.registry.address().to_string();
    let is_by_digest = image.place.namespace == connection.namespace_of(None::<&LabelPattern>);
    let name = if is_by_digest { image.digest.to_string() } else { image.place.to_string() };
    let line = format!("cabane image pull --registry {registry} {name}");
    Ok(SharedImage { image, registry, line, is_by_digest })
}

fn never_pushed(error: Report, connection: &Connection, name: &str) -> Report {
    if error.kind() != Kind::NotFound {
        return error;
    }
    let registry = connection.registry.address();
    let message = format!("{name} is not in the registry {registry}");
    Report::new(Kind::NotFound, message)
        .hinted(format!("`cabane image push {name}` uploads it"))
        .hinted(format!("if it is in another namespace, type `cabane share NAMESPACE::{name}`"))
}
