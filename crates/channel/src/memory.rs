// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The newest document that was seen of a channel.
//!
//! A user with write access to a registry can put an old document back, which is signed as well. So the
//! newest one is kept, in the state directory of the user:
//!
//! ```text
//! <state>/channels/<sum of registry and channel>.json
//! {"registry":"https://…","channel":"deploy::stable@daint","serial":42,"digest":"…","envelope":{…}}
//! ```

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use cabane_label::Digest;
use cabane_registry::{ChannelPlace, Envelope, Registry, sum, write_at_once};
use cabane_site::Context;
use serde::{Deserialize, Serialize};

use crate::verified::VerifiedChannel;

/// What is kept of a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    registry: String,
    pub(crate) channel: String,
    /// The serial number.
    pub serial: u64,
    /// The sha256 of the document.
    pub digest: Digest,
    /// The document. Its signature is checked again when it is used.
    pub envelope: Envelope,
}

/// Where the newest document of one channel is kept.
pub struct Memory {
    path: Option<PathBuf>,
    registry: String,
    channel: String,
}

impl Memory {
    /// Returns the memory of a channel. Without a state directory nothing is kept.
    pub fn of(context: &Context, registry: &Registry, place: &ChannelPlace) -> Self {
        let (registry, channel) = (registry.remembered_as(), place.to_string());
        let name = sum::bytes(format!("{registry} {channel}").as_bytes()).id();
        let directory = context.settings.state_directory.as_ref();
        let path = directory.map(|state| state.join("channels").join(format!("{name}.json")));
        Self { path, registry, channel }
    }

    /// Returns what was seen; nothing if the file is damaged or that of another channel.
    pub fn read(&self) -> Option<Seen> {
        let bytes = fs::read(self.path.as_ref()?).ok()?;
        let seen: Seen = serde_json::from_slice(&bytes).ok()?;
        (seen.registry == self.registry && seen.channel == self.channel).then_some(seen)
    }

    /// Keeps a document if it is newer than what was seen. If it cannot be written, the next time is
    /// the first again.
    pub fn keep(&self, context: &Context, channel: &VerifiedChannel) {
        let serial = channel.document.serial;
        let Some(path) = self.path.as_ref() else {
            return;
        };
        // Two processes that have seen different numbers keep the higher one.
        let _lock = lock(&path.with_extension("lock"));
        if self.read().is_some_and(|seen| seen.serial >= serial) {
            return;
        }
        let seen = Seen {
            registry: self.registry.clone(),
            channel: self.channel.clone(),
            serial,
            digest: channel.digest.clone(),
            envelope: channel.envelope.clone(),
        };
        let bytes = serde_json::to_vec(&seen).unwrap_or_default();
        if let Err(error) = write_at_once(path, &bytes) {
            context.warning(format_args!(
                "cannot remember the state of the channel {} in {}: {error}",
                self.channel,
                path.display()
            ));
        }
    }

    /// Returns all that is kept, of any registry and channel.
    pub(crate) fn all(context: &Context) -> Vec<Seen> {
        let directory = context.settings.state_directory.as_ref();
        let files = directory.and_then(|state| fs::read_dir(state.join("channels")).ok());
        let paths = files.into_iter().flatten().filter_map(|file| Some(file.ok()?.path()));
        let paths = paths.filter(|path| path.extension().is_some_and(|ending| ending == "json"));
        paths.filter_map(|path| serde_json::from_slice(&fs::read(path).ok()?).ok()).collect()
    }
}

/// Takes a lock, if files can be locked there.
fn lock(path: &Path) -> Option<File> {
    fs::create_dir_all(path.parent()?).ok()?;
    let file = File::options().create(true).append(true).open(path).ok()?;
    file.lock().ok()?;
    Some(file)
}
