// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Files and directories of the host that appear at other places.
//!
//! What is mounted below a directory appears with it. A file system below one that
//! shall be read-only would stay writable, so each of them is bound once more.

use std::fs;
use std::path::{Path, PathBuf};

use cabane_mount::Operation;
use cabane_report::{IoContext, Kind, Report, Result};
use cabane_resolve::ConcreteEnvironment;

use crate::loaded::{Additions, Bind};
use crate::mountinfo::unescaped;

/// The mounts that this process sees.
const MOUNTS: &str = "/proc/self/mountinfo";

/// Turns what is to be bound into operations of a plan.
///
/// # Errors
///
/// Something that is not there, or a place that is taken.
pub(crate) fn operations(
    environment: &ConcreteEnvironment,
    additions: &Additions,
) -> Result<Vec<Operation>> {
    let (mut implied, mut named) = (Vec::new(), Vec::new());
    for bind in &additions.binds {
        let Bind { source, target, read_only } = bind;
        let real = check_bind(environment, additions, bind)?;
        named.push(Operation::Bind {
            source: source.clone(),
            target: target.as_path().to_owned(),
            read_only: *read_only,
        });
        if *read_only {
            let mounts = fs::read(MOUNTS).unwrap_or_default();
            implied.extend(below(&mounts, &real, target.as_path()));
        }
    }
    // Whatever is named covers what came along.
    implied.append(&mut named);
    Ok(implied)
}

/// Returns the real path of what is to be bound.
///
/// # Errors
///
/// It is not there, or its place is taken.
pub fn check_bind(
    environment: &ConcreteEnvironment,
    additions: &Additions,
    Bind { source, target, .. }: &Bind,
) -> Result<PathBuf> {
    let images = environment.images.iter().map(|image| &image.mount_point);
    let binds = additions.binds.iter().map(|bind| &bind.target);
    if images.chain(binds).filter(|other| *other == target).count() > 1 {
        let message = format!("two things would be mounted at {target}");
        let hint = "give one of them another place in the environment file";
        return Err(Report::new(Kind::NotStarted, message).hinted(hint.to_owned()));
    }
    fs::canonicalize(source)
        .or_failed(|| format!("mount {}", source.display()))
        .map_err(|error| error.with_kind(Kind::NotStarted))
}

/// Binds what is mounted below a directory, as the text of `mountinfo` tells it.
fn below(mounts: &[u8], directory: &Path, target: &Path) -> Vec<Operation> {
    let fields = mounts
        .split(|&byte| byte == b'\n')
        .filter_map(|line| line.split(|&byte| byte == b' ').nth(4));
    let mut places: Vec<PathBuf> = fields
        .map(unescaped)
        .filter(|place| place != directory && place.starts_with(directory))
        // What the user cannot even look at, they cannot write to.
        .filter(|place| fs::metadata(place).is_ok())
        .collect();
    places.sort();
    // Several may lie over one another; the last one is seen.
    places.dedup();
    let bind = |place: PathBuf| {
        let relative = place.strip_prefix(directory).ok()?;
        Some(Operation::Bind { target: target.join(relative), source: place, read_only: true })
    };
    places.into_iter().filter_map(bind).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mounted_below_is_bound_below_the_target() {
        let mounts = b"1 0 0:1 / / rw - a a rw\n2 1 0:1 / /proc rw - a a rw\n\
                       3 1 0:1 / /proc/sys rw - a a rw\n4 1 0:1 / /procession rw - a a rw\n";
        let targets: Vec<PathBuf> = below(mounts, Path::new("/proc"), Path::new("/x"))
            .iter()
            .map(|operation| operation.target().to_owned())
            .collect();
        assert_eq!(targets, [PathBuf::from("/x/sys")]);
    }
}
