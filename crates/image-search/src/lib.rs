// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images of repositories and registries, found by label, package, and signature.
//!
//! [`list()`] searches the repositories of the user, [`find()`] searches a registry, [`search()`] and [`images_with()`]
//! search both. [`enrich()`] adds to the list of a registry what a search needs. [`known_images`] and [`known_packages`] return what is known without asking. A [`Catalogue`] has what images need of the host.

#![forbid(unsafe_code)]

mod cache;
mod catalogue;
mod details;
mod enrich;
mod everywhere;
mod known;
mod list;
mod packages;
mod registry;
mod request;
mod words;

pub use catalogue::{Catalogue, CatalogueParts, Catalogued, need_lines, needs_of};
pub use details::{DetailIndex, DetailLines, ImageDetails};
pub use enrich::{Enriched, enrich};
pub use everywhere::{ImageAnywhere, PackageInImages, Scope, images_with, search};
pub use known::{known_images, known_packages};
pub use list::{Images, list};
pub use packages::{Package, Packages};
pub use registry::{FoundImage, FoundImages, find};
pub use request::{SearchRequest, TestedQuery};
