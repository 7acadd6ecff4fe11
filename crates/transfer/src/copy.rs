// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! An image of a registry gets another label there, and its bases come with it.

use cabane_label::Digest;
use cabane_registry::{Copied, Place, RemoteImage};
use cabane_report::Result;
use cabane_site::Context;

use crate::bases;
use crate::registry::Connection;

/// What was copied.
#[derive(Clone, Debug)]
pub struct CopiedImage {
    /// The image under its new label.
    pub copied: Copied,
    /// The images on which it is built that the namespace of the label did not have.
    pub bases: Vec<Digest>,
}

/// Gives an image another label. If the label is in another namespace, that namespace also gets the images
/// on which the image is built, without labels: a pull looks for them by their digests, and only there. A
/// base that the registry does not have is a warning.
///
/// # Errors
///
/// The label has another image and is not to be taken from it; and those of the registry. Then the label
/// does not change.
pub fn copy(
    context: &Context,
    connection: &Connection,
    source: &RemoteImage,
    to: &Place,
    replace: bool,
) -> Result<CopiedImage> {
    let registry = &connection.registry;
    let mut copied = Vec::new();
    let is_other = |there: RemoteImage| there.manifest != source.manifest;
    let is_refused = !replace && registry.image_if_there(to)?.is_some_and(is_other);
    if source.place.namespace != to.namespace && !is_refused {
        for base in bases::of_remote(connection, source)? {
            match bases::find(context, connection, &source.place, &base)? {
                Some(found) => {
                    if registry.copy_base(&found.image, &to.namespace)? {
                        copied.push(base.digest);
                    }
                }
                None => bases::warn_unless_there(context, connection, (source, to), &base)?,
            }
        }
    }
    let copied_image = registry.copy(&source.place, to, replace)?;
    Ok(CopiedImage { copied: copied_image, bases: copied })
}
