// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Versions as numbers, and what drivers of GPUs can do.

/// Reads `550.54.15`; what is no number ends it.
pub(crate) fn numbers(version: &str) -> Vec<u64> {
    version.split('.').map_while(|part| part.parse().ok()).collect()
}

/// The first two numbers: `3.11` of `3.11.2`.
pub(crate) fn minor(version: &str) -> &str {
    let end = version.match_indices('.').nth(1).map_or(version.len(), |(place, _)| place);
    version.get(..end).unwrap_or(version)
}

/// The oldest driver with which programs of a CUDA toolkit run. Within one major version, each
/// driver runs them: the vendor calls it minor version compatibility.
pub(crate) fn oldest_nvidia_driver(toolkit: &str) -> Option<&'static str> {
    Some(match numbers(toolkit).first()? {
        10 => "410.48",
        11 => "450.80.02",
        12 => "525.60.13",
        13 => "580.65.06",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_numbers_until_something_else_comes() {
        assert_eq!(
            [numbers("550.54.15"), numbers("1.2rc1"), numbers("")],
            [vec![550, 54, 15], vec![1], vec![]]
        );
        assert!(numbers("525.60.13") < numbers("550.54"));
    }

    #[test]
    fn the_minor_version_leaves_out_the_release() {
        assert_eq!([minor("3.11.2"), minor("3.11"), minor("3")], ["3.11", "3.11", "3"]);
    }
}
