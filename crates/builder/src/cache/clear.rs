// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Removing items from the cache that no build used lately, or that exceed a size.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::in_use::InUse;
use super::inventory::{CachedItem, GONE, ItemKind, halves, inventory, is_half};
use super::packages::{NotRemoved, build_caches};
use crate::{Result, disk};

/// What stays in a cache.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Only what was used within this time.
    pub older_than: Option<Duration>,
    /// Only as many bytes, those that were used last.
    pub max_size: Option<u64>,
}

/// What was removed from a cache, or would be.
#[derive(Clone, Debug, Serialize)]
pub struct Cleared {
    /// The items, those that were unused for longest first.
    pub removed: Vec<CachedItem>,
    /// What could not be removed.
    pub failed: Vec<NotRemoved>,
    /// How many bytes were freed.
    pub freed: u64,
    /// How many bytes are left.
    pub left: u64,
}

/// Removes what is beyond the limits from a cache directory. With `is_trial`, nothing is
/// removed.
///
/// What `uv` looks after stays, and counts for the size.
///
/// # Errors
///
/// A build uses the cache. What cannot be removed is in the answer.
pub fn clear(cache: &Path, limits: &Limits, now: Timestamp, is_trial: bool) -> Result<Cleared> {
    let _alone = if is_trial { None } else { Some(InUse::alone(cache)?) };
    let all = inventory(cache);
    let halves = halves(cache);
    let halves: Vec<&Path> = halves.iter().map(PathBuf::as_path).collect();
    let mut removed = beyond(all.items, all.size, limits, now);
    let mut failed = Vec::new();
    let mut freed = 0;
    if is_trial {
        freed = removed.iter().map(|one| one.size).sum();
    } else {
        removed.retain(|one| {
            // The files of a package are removed below, unless other packages need them.
            let is_package = one.kind == ItemKind::Package;
            let manifest = || fs::symlink_metadata(&one.path).map_or(0, |found| found.len());
            let size = if is_package { manifest() } else { one.size };
            let is_gone = try_to_remove(&one.path, &mut failed);
            freed += if is_gone { size } else { 0 };
            is_gone
        });
        for half in halves {
            try_to_remove(half, &mut failed);
        }
        if removed.iter().any(|one| one.kind == ItemKind::Package) {
            freed += build_caches(cache).iter().map(|one| one.sweep(&mut failed)).sum::<u64>();
        }
    }
    Ok(Cleared { removed, failed, freed, left: all.size.saturating_sub(freed) })
}

/// Tells whether something could be removed.
fn try_to_remove(path: &Path, failed: &mut Vec<NotRemoved>) -> bool {
    let removed = remove(path);
    if let Err(error) = &removed {
        failed.push(NotRemoved { path: path.to_owned(), reason: error.to_string() });
    }
    removed.is_ok()
}

/// Removes something. A half of it never has its name: builds would take it for whole.
fn remove(path: &Path) -> io::Result<()> {
    let mut gone = path.as_os_str().to_owned();
    gone.push(GONE);
    let gone = PathBuf::from(gone);
    if path.is_dir() && !is_half(path) {
        fs::rename(path, &gone)?;
        return disk::try_remove(&gone);
    }
    disk::try_remove(path)
}

/// Returns what is beyond the limits, the longest unused first.
fn beyond(
    mut items: Vec<CachedItem>,
    size: u64,
    limits: &Limits,
    now: Timestamp,
) -> Vec<CachedItem> {
    items.retain(|one| one.kind != ItemKind::Python);
    items.sort_by(|one, other| (one.used, &one.path).cmp(&(other.used, &other.path)));
    let mut left = size;
    let goes = |one: &CachedItem| {
        let age = now.duration_since(one.used);
        let limit = limits
            .older_than
            .map(|age| SignedDuration::try_from(age).unwrap_or(SignedDuration::MAX));
        let is_old = limit.is_some_and(|limit| age > limit);
        let is_too_much = limits.max_size.is_some_and(|most| left > most);
        if is_old || is_too_much {
            left = left.saturating_sub(one.size);
        }
        is_old || is_too_much
    };
    items
        .into_iter()
        .filter({
            let mut goes = goes;
            move |one| goes(one)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400;

    fn item(name: &str, size: u64, days: i64, kind: ItemKind) -> CachedItem {
        let used = Timestamp::from_second(1_000 * DAY - days * DAY).unwrap();
        let (version, hash, mount_point) = (None, None, None);
        let path = format!("/cache/{name}").into();
        CachedItem { kind, name: name.to_owned(), version, hash, mount_point, size, used, path }
    }

    fn names(limits: Limits) -> String {
        let items = vec![
            item("new", 10, 1, ItemKind::Package),
            item("old", 10, 50, ItemKind::Tree),
            item("oldest", 10, 60, ItemKind::Package),
            item("python", 10, 90, ItemKind::Python),
        ];
        let now = Timestamp::from_second(1_000 * DAY).unwrap();
        let gone = beyond(items, 40, &limits, now);
        gone.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_was_not_used_for_long_goes() {
        let older = |days: u64| Some(Duration::from_secs(days * 86_400));
        assert_eq!(names(Limits { older_than: older(55), max_size: None }), "oldest");
        assert_eq!(names(Limits { older_than: older(2), max_size: None }), "oldest old");
    }

    #[test]
    fn what_does_not_fit_goes_and_the_longest_unused_first() {
        let most = |bytes| Limits { older_than: None, max_size: Some(bytes) };
        assert_eq!(names(most(40)), "");
        assert_eq!(names(most(39)), "oldest");
        assert_eq!(names(most(20)), "oldest old");
        // Downloads of Python packages stay.
        assert_eq!(names(most(0)), "oldest old new");
    }
}
