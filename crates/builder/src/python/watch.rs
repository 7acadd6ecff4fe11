// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Follows `uv` while it downloads, builds, and installs packages: which are worked on, how many are ready,
//! and how long the downloads may take. `uv` names large downloads only; the others are counted when all
//! packages are ready.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::written_lock;
use crate::build_context::Listener;
use crate::lock_packages::Versions;
use crate::{PackageChange, PackageEvent, Progress};

/// The part of the downloads that must be done before the rest is estimated.
const ENOUGH: f64 = 0.25;

/// Follows the installation of the packages of a lock file.
#[derive(Debug)]
pub(super) struct Watch {
    versions: Versions,
    /// How many packages are installed here; `uv` leaves out those for other machines.
    total: usize,
    ready: usize,
    /// The downloads that are under way, with their sizes in MiB.
    running: BTreeMap<String, f64>,
    /// How many MiB were downloaded.
    downloaded: f64,
    began: Instant,
}

impl Watch {
    /// Follows the installation of what a lock file has.
    pub(super) fn new(lock: &str) -> Self {
        let versions = written_lock::versions(lock).unwrap_or_default();
        Self {
            total: versions.len(),
            versions,
            ready: 0,
            running: BTreeMap::new(),
            downloaded: 0.0,
            began: Instant::now(),
        }
    }

    fn tell(&self, name: &str, change: PackageChange<'_>, progress: &mut dyn Progress) {
        progress.package(&PackageEvent {
            name,
            version: self.versions.get(name).map_or("", String::as_str),
            hash: name,
            node: None,
            change,
            last_time: None,
            done: self.ready.min(self.total),
            total: self.total,
            left: self.left(),
        });
    }

    /// Returns how long the downloads take that are under way, at the speed of those that are done. As long as
    /// these are few, nothing is known: what has come of the others is not told.
    fn left(&self) -> Option<Duration> {
        let open: f64 = self.running.values().sum();
        if open <= 0.0 || self.downloaded < ENOUGH * (self.downloaded + open) {
            return None;
        }
        let seconds = self.began.elapsed().as_secs_f64() / self.downloaded * open;
        Duration::try_from_secs_f64(seconds).ok()
    }
}

impl Listener for Watch {
    fn line(&mut self, line: &str, progress: &mut dyn Progress) -> bool {
        let Some((verb, rest)) = line.trim().split_once(' ') else { return false };
        let number = || rest.split(' ').next()?.parse::<usize>().ok();
        let name = rest.split([' ', '=', '@']).next().unwrap_or(rest).to_owned();
        match verb {
            "Resolved" => self.total = number().unwrap_or(self.total),
            "Downloading" => {
                self.running.insert(name.clone(), mebibytes(rest).unwrap_or_default());
                let size = rest.split_once(' ').map_or("", |(_, size)| size);
                let size = size.trim_matches(['(', ')']);
                let unit = size.find(char::is_alphabetic).unwrap_or(size.len());
                let phase = format!("downloading {} {}", &size[..unit], &size[unit..]);
                self.tell(&name, PackageChange::Phase(phase.trim_end()), progress);
            }
            "Building" => self.tell(&name, PackageChange::Phase("building"), progress),
            "Downloaded" | "Built" => {
                self.downloaded += self.running.remove(&name).unwrap_or_default();
                self.ready += 1;
                self.tell(&name, PackageChange::Ready, progress);
            }
            "Prepared" => self.ready = self.total,
            "Installed" => {}
            "+" => {
                self.ready = self.total;
                self.tell(&name, PackageChange::Ready, progress);
            }
            _ => return false,
        }
        true
    }
}

/// Reads `numpy (16.1MiB)`.
fn mebibytes(text: &str) -> Option<f64> {
    let size = text.split_once('(')?.1.strip_suffix(')')?;
    let units = [("KiB", 1.0 / 1024.0), ("MiB", 1.0), ("GiB", 1024.0)];
    units
        .iter()
        .find_map(|(unit, factor)| Some(size.strip_suffix(unit)?.parse::<f64>().ok()? * factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Remembers what was reported.
    #[derive(Default)]
    struct Seen(Vec<String>);

    impl Progress for Seen {
        fn package(&mut self, event: &PackageEvent<'_>) {
            let PackageEvent { name, version, done, total, .. } = event;
            let change = match event.change {
                PackageChange::Phase(phase) => phase,
                _ => "ready",
            };
            let left = if event.left.is_some() { " left" } else { "" };
            self.0.push(format!("{name}@{version} {change} {done}/{total}{left}"));
        }
    }

    #[test]
    fn what_uv_writes_is_counted() {
        let mut watch =
            Watch::new("numpy==2.0\nsix==1.17\nold==1 ; sys_platform == 'win32'\ncode==3\n");
        let mut seen = Seen::default();
        let lines = [
            "Using Python 3.11.2 environment at: /x",
            "Resolved 3 packages in 2ms",
            "Downloading numpy (16.1MiB)",
            "Downloading six (8.0MiB)",
            "   Building code==3",
            " Downloaded six",
            "      Built code==3",
            " Downloaded numpy",
            "Prepared 3 packages in 1s",
            "Installed 3 packages in 1ms",
            " + code==3",
            "warning: something",
        ];
        let heard = lines.map(|line| watch.line(line, &mut seen));
        assert_eq!(heard.iter().filter(|heard| !**heard).count(), 2);
        let expected = [
            "numpy@2.0 downloading 16.1 MiB 0/3",
            "six@1.17 downloading 8.0 MiB 0/3",
            "code@3 building 0/3",
            "six@1.17 ready 1/3 left",
            "code@3 ready 2/3 left",
            "numpy@2.0 ready 3/3",
            "code@3 ready 3/3",
        ];
        assert_eq!(seen.0, expected);
    }
}
