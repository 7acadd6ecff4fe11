// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The table of `cabane image inspect --packages`.

use cabane_label::escape;
use cabane_report::size;
use cabane_view::{PackageList, PackageRecord};

use crate::table::Table;

/// How much of a hash is shown, as in Spack's own lists.
const SHORT: usize = 7;

/// Shows the packages, those that the recipe asks for with a star; what belongs to the
/// system stands at the end.
pub(crate) fn table(list: &PackageList) -> String {
    let mut table =
        Table::new(&["", "package", "version", ">size", "hash", "compiler", "target", "variants"]);
    let (outside, inside): (Vec<_>, Vec<_>) = list.packages.iter().partition(|one| one.external);
    for package in inside.into_iter().chain(outside) {
        let hash = package.hash.as_deref().unwrap_or_default();
        let hash: String = hash.chars().take(SHORT).collect();
        table.push(&[
            &if package.explicit { "*" } else { "" },
            &escape(&package.name),
            &escape(&package.version),
            &place_or_size(package),
            &escape(&hash),
            &escape(&package.compilers.join(",")),
            &escape(package.target.as_deref().unwrap_or_default()),
            &escape(&package.variants),
        ]);
    }
    table.to_string()
}

/// What is not in the image has a place and no size.
fn place_or_size(package: &PackageRecord) -> String {
    match (&package.prefix, package.size) {
        (Some(prefix), None) if package.external => escape(prefix).into_owned(),
        (_, Some(bytes)) => size(bytes),
        _ => String::new(),
    }
}
