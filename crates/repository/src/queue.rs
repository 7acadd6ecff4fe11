// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! One download of an image at a time, on however many hosts.
//!
//! Where locks reach, they decide, and this costs nothing. Where they may not, each host has
//! places of its own, so that no two ever write into one file; then a process that wants to download
//! says so, waits a moment, and looks who else does. If two begin at once all the same, the image
//! is downloaded twice and nothing else happens.
//!
//! A lock can outlive its process: an NFS server keeps those of a host that is gone until that
//! host is back. So who waits watches the line of that process, too (`heartbeat`), and goes on
//! without it when it has not changed for long.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cabane_label::Digest;

use crate::heartbeat::{self, Line, State};
use crate::incoming::{Incoming, Lock, may_go_on, try_lock};
use crate::layout::Layout;
use crate::locks::{Reach, is_local, kernel_id};
use crate::staging::{Resumers, Staging, Temporary, incoming_name};
use crate::uenv_lock::Watch;
use crate::{Error, Repository, disk};

/// After this time without a sign of life a download is taken for dead. Twelve beats, and longer
/// than the attributes of files are believed on usual network file systems.
const LEASE: Duration = Duration::from_secs(60);
/// How long who wants to download waits for others to see it, where there are no locks.
const SETTLE: Duration = Duration::from_secs(1);

/// How often is looked for others, where each look takes too long.
const LOOKS: u32 = 5;

/// How often a place is made anew that another process has removed.
const ATTEMPTS: u32 = 50;

/// What became of the wish to download an image.
#[derive(Debug)]
pub enum Claim {
    /// The place is this process's.
    Taken(Incoming),
    /// Another process downloads this image.
    Busy,
}

/// The wish of a process to download an image, until it may or need not any more.
#[derive(Debug)]
pub struct Queue {
    layout: Layout,
    digest: Digest,
    reach: Reach,
    /// Whether no other host can be at work here.
    is_local: bool,
    kernel: Option<String>,
    lease: Duration,
    settle: Duration,
    /// The lines of others, and since when they are as they are.
    seen: HashMap<String, (Option<Line>, Instant)>,
    /// What is seen of a download of uenv.
    of_uenv: Watch,
}

impl Repository {
    /// Begins to wait for the place for downloading an image.
    pub fn queue(&self, digest: &Digest) -> Queue {
        Queue {
            layout: self.layout().clone(),
            digest: digest.clone(),
            reach: Reach::of(self.path()),
            is_local: disk::file_system(self.path()).is_ok_and(|kind| is_local(&kind)),
            kernel: kernel_id(),
            lease: LEASE,
            settle: SETTLE,
            seen: HashMap::new(),
            of_uenv: Watch::default(),
        }
    }
}

impl Queue {
    /// Takes the place, unless another process downloads the image. Then the caller tries again
    /// after a while, and first checks [`Repository::has_image`].
    pub fn try_take(&mut self) -> Result<Claim, Error> {
        let tmp = self.layout.tmp();
        if !tmp.is_dir() {
            self.layout.make(&tmp).map_err(Error::io("create", &tmp))?;
        }
        if self.of_uenv.is_downloaded(&self.layout, &self.digest) {
            return Ok(Claim::Busy);
        }
        let own = self.name();
        let is_busy = |one: &String| Some(one) != own.as_ref();
        if self.places()?.iter().filter(|one| is_busy(one)).any(|one| self.is_alive(one)) {
            return Ok(Claim::Busy);
        }
        let incoming = match own {
            None => self.private()?,
            Some(name) => match self.shared(&name)? {
                Some(incoming) => incoming,
                None => return Ok(Claim::Busy),
            },
        };
        heartbeat::write(&incoming.path, State::Claims);
        if self.reach == Reach::AllHosts && incoming.lock.is_some() {
            heartbeat::write(&incoming.path, State::Downloads);
        } else if !self.begins(&incoming.path)? {
            return Ok(Claim::Busy);
        }
        Ok(Claim::Taken(incoming))
    }

    /// Returns the name of the place for all whom the locks reach.
    fn name(&self) -> Option<String> {
        let name = incoming_name(&self.digest);
        match (self.reach, &self.kernel) {
            (Reach::AllHosts, _) => Some(name),
            (Reach::ThisHost, Some(kernel)) => Some(format!("{name}-{kernel}")),
            (Reach::Nowhere, _) | (Reach::ThisHost, None) => None,
        }
    }

    /// Returns the names of all places of this image.
    fn places(&self) -> Result<Vec<String>, Error> {
        let (tmp, start) = (self.layout.tmp(), incoming_name(&self.digest));
        if self.reach != Reach::AllHosts {
            disk::freshen(&tmp);
        }
        let names = disk::names(&tmp).map_err(Error::io("read", &tmp))?;
        let of_image = names.iter().filter(|name| name.starts_with(&start));
        Ok(of_image.map(str::to_owned).collect())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.layout.tmp().join(name)
    }

    /// Returns whether someone may be at work in a place. That is believed of a line which is
    /// seen for the first time, and as long as it changes.
    fn is_alive(&mut self, name: &str) -> bool {
        if let Temporary::Incoming(_, Resumers::One(owner)) = Temporary::from_name(name)
            && owner.is_gone()
        {
            return false;
        }
        let Some(line) = Line::of(&self.path(name)) else {
            return false;
        };
        self.has_changed(name, Some(line))
    }

    fn has_changed(&mut self, name: &str, line: Option<Line>) -> bool {
        let now = Instant::now();
        let seen = self.seen.entry(name.to_owned()).or_insert((line.clone(), now));
        if seen.0 != line {
            *seen = (line, now);
        }
        now.duration_since(seen.1) < self.lease
    }

    /// Takes the place of all whom the locks reach; `None` if another process has it.
    fn shared(&mut self, name: &str) -> Result<Option<Incoming>, Error> {
        let path = self.path(name);
        for _ in 0..ATTEMPTS {
            disk::create_directory(&path).map_err(Error::io("create", &path))?;
            let line = Line::of(&path);
            match try_lock(&path, true) {
                Lock::Gone => {}
                Lock::Held if self.has_changed(name, line.clone()) => return Ok(None),
                Lock::Taken(lock) if may_go_on(&path) => {
                    // Whose locks do not reach here may be at work in spite of ours.
                    let foreign = line.filter(|line| !self.is_local && !line.is_from_here());
                    if foreign.is_some() && self.has_changed(name, foreign) {
                        return Ok(None);
                    }
                    return Ok(Some(self.place(path, Some(lock))));
                }
                // Another user's, or of a host that is gone, or nothing can be locked here.
                Lock::Held | Lock::Taken(_) | Lock::None => break,
            }
        }
        self.private().map(Some)
    }

    /// Makes a place that bears the name of this process.
    fn private(&self) -> Result<Incoming, Error> {
        Ok(self.place(Staging::open_for(&self.layout, &self.digest)?, None))
    }

    fn place(&self, path: PathBuf, lock: Option<File>) -> Incoming {
        Incoming { digest: self.digest.clone(), path, layout: self.layout.clone(), lock }
    }

    /// Waits a moment, and writes that the download begins; `false` if someone else is to
    /// download.
    fn begins(&mut self, own: &Path) -> Result<bool, Error> {
        for _ in 0..LOOKS {
            sleep(self.settle);
            let looked = Instant::now();
            if self.is_second(own)? {
                return Ok(false);
            }
            heartbeat::write(own, State::Downloads);
            // Who claims after this look waits first, and then sees this line; unless it took
            // too long to write.
            if looked.elapsed() < self.settle {
                break;
            }
        }
        Ok(true)
    }

    /// Returns whether someone else is to download: who does already, and of two who want to,
    /// the one whose place has the lesser name.
    fn is_second(&mut self, own: &Path) -> Result<bool, Error> {
        let own = own.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for name in self.places()?.into_iter().filter(|name| *name != own) {
            let Some(line) = Line::of(&self.path(&name)) else {
                continue;
            };
            let goes_first = line.may_download() || name < own;
            // A line that was there before and has not changed is that of a dead one.
            let is_known = self.seen.get(&name).is_some_and(|seen| seen.0.as_ref() == Some(&line));
            if goes_first && !is_known {
                self.has_changed(&name, Some(line));
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
