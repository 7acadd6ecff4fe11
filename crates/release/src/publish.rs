// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Publishing the next document of a channel, while others do the same.
//!
//! Registries have no conditional write. So a document is first written under its serial number. After
//! a pause in which others would have overwritten it, it is read back, and becomes the current one. Of
//! two that have the same number, the later write wins; the other release manager finds it, and applies
//! the change again to that document. A manager that finds a number taken, and not yet current, waits.
//!
//! A killed process leaves the document under its number only. It counts, for readers and for the next
//! change, as soon as its writer would have finished.

use std::thread;
use std::time::{Duration, Instant};

use cabane_channel::{
    ChannelDocument, Memory, PUBLISHING, VerifiedChannel, channel_keys, current_document,
    document_of, newest,
};
use cabane_registry::{ChannelPlace, Envelope, Registry};
use cabane_report::{Kind, Report, Result};
use cabane_site::Context;
use cabane_site::settings::ChannelSetting;
use jiff::{SignedDuration, Timestamp};

use crate::manager::Manager;

/// After this pause, a document that was written at the same time has replaced ours or not.
const SETTLE: Duration = Duration::from_secs(1);
/// How often to look whether another one has finished.
const LOOK: Duration = Duration::from_millis(300);
/// For how long others may be faster.
const PATIENCE: Duration = Duration::from_secs(180);

/// A channel that is changed, and where it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    pub(crate) context: &'a Context,
    pub(crate) registry: &'a Registry,
    pub(crate) setting: &'a ChannelSetting,
    pub(crate) place: &'a ChannelPlace,
}

/// From what the next document is made.
struct Base {
    /// The document before; none if the channel is new.
    before: Option<VerifiedChannel>,
    /// The serial number of the next one.
    serial: u64,
}

impl Base {
    fn after(before: VerifiedChannel) -> Self {
        let serial = before.document.serial.saturating_add(1);
        Self { before: Some(before), serial }
    }
}

impl Target<'_> {
    /// Publishes the next document of the channel: the current one, changed by `edit`. It is called
    /// again if another release manager was faster.
    pub(crate) fn publish(
        self,
        manager: &Manager,
        edit: &mut dyn FnMut(&mut ChannelDocument) -> Result<()>,
    ) -> Result<VerifiedChannel> {
        self.check_key(manager)?;
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            let base = self.base()?;
            let next = self.next(manager, &base, edit)?;
            if self.try_publish(&next)? {
                Memory::of(self.context, self.registry, self.place).keep(self.context, &next);
                return Ok(next);
            }
            let serial = next.document.serial;
            self.context.note(format_args!("someone else published number {serial}; trying again"));
        }
        let message = format!("others change the channel {} again and again", self.place);
        Err(Report::new(Kind::Registry, message).hinted("try again later".to_owned()))
    }

    /// Returns the document that the next change begins with.
    pub(crate) fn before(self) -> Result<Option<VerifiedChannel>> {
        self.base().map(|base| base.before)
    }

    fn base(self) -> Result<Base> {
        let seen = Memory::of(self.context, self.registry, self.place).read();
        let seen = seen.map(|seen| VerifiedChannel::open(self.setting, self.place, &seen.envelope));
        // The memory may have been signed with a key that no longer counts.
        let seen = seen.transpose().ok().flatten();
        let found = match self.found() {
            Err(error) if error.kind() == Kind::Untrusted && seen.is_some() => None,
            found => found?,
        };
        let base = match (found, seen) {
            (Some(found), Some(seen)) => self.newer(found, seen),
            (Some(one), None) | (None, Some(one)) => Base::after(one),
            (None, None) if self.setting.minimum_serial > 0 => {
                return Err(self.too_old("it is gone"));
            }
            (None, None) => Base { before: None, serial: 1 },
        };
        if base.before.as_ref().is_some_and(|one| one.document.serial < self.setting.minimum_serial)
        {
            let serial = base.serial.saturating_sub(1);
            return Err(self.too_old(&format!("it is at number {serial}")));
        }
        Ok(base)
    }

    /// Returns the newest document of the registry. One that is being published is waited for.
    fn found(self) -> Result<Option<VerifiedChannel>> {
        let begun = Instant::now();
        loop {
            let found = newest(self.context, self.registry, self.setting, self.place)?;
            let Some(pending) = found.pending else {
                return Ok(found.current);
            };
            if begun.elapsed() > PUBLISHING.unsigned_abs() {
                return Ok(Some(pending));
            }
            thread::sleep(LOOK);
        }
    }

    /// Chooses between what the registry has and what was published or seen here.
    fn newer(self, found: VerifiedChannel, seen: VerifiedChannel) -> Base {
        let place = self.place;
        let (serial, last) = (found.document.serial, seen.document.serial);
        if serial < last {
            self.context.warning(format_args!(
                "the channel {place} went back from number {last} to {serial}: continuing with number \
                 {last}"
            ));
            return Base::after(seen);
        }
        let is_same = serial == last && found.digest == seen.digest;
        let is_next = serial == last.saturating_add(1);
        let follows = found.document.previous.as_ref() == Some(&seen.digest);
        if is_same || is_next && follows || serial > last.saturating_add(1) {
            return Base::after(found);
        }
        self.context.warning(format_args!(
            "the channel {place} has another document than number {last}, which was published or seen \
             here: continuing with that of the registry, number {serial}"
        ));
        self.context.hint(format_args!("`cabane channel show {place}` lists its images"));
        // Clients have seen one or the other, and accept what does not follow directly.
        Base { before: Some(found), serial: serial.saturating_add(2) }
    }

    fn too_old(self, reason: &str) -> Report {
        let (place, least) = (self.place, self.setting.minimum_serial);
        let message = format!(
            "the channel {place} cannot be continued: {reason}, and the configuration wants {least}"
        );
        Report::new(Kind::Untrusted, message).hinted(
            "a machine that has seen a newer state, or a mirror, can bring it back: `cabane registry \
             mirror SOURCE TARGET --channel NAME`"
                .to_owned(),
        )
    }

    /// Makes and signs the next document.
    fn next(
        self,
        manager: &Manager,
        base: &Base,
        edit: &mut dyn FnMut(&mut ChannelDocument) -> Result<()>,
    ) -> Result<VerifiedChannel> {
        let before = base.before.as_ref();
        let empty = || ChannelDocument::empty(self.place);
        let mut document = before.map_or_else(empty, |before| before.document.clone());
        document.serial = base.serial;
        document.issued = Timestamp::now();
        edit(&mut document)?;
        let today = cabane_channel::today();
        document.waivers.retain(|waiver| waiver.until >= today);
        document.previous = before.map(|before| before.digest.clone());
        let lifetime = SignedDuration::try_from(manager.lifetime).unwrap_or(SignedDuration::MAX);
        document.expires = document.issued.saturating_add(lifetime).unwrap_or(Timestamp::MAX);
        document.by.clone_from(&manager.by);
        document.reason.clone_from(&manager.reason);
        let envelope = Envelope::sign(ChannelDocument::KIND, &document.to_bytes(), &manager.key)
            .map_err(Report::from)?;
        VerifiedChannel::open(self.setting, self.place, &envelope)
    }

    /// Writes a document; `false` if another one has its number.
    fn try_publish(self, ours: &VerifiedChannel) -> Result<bool> {
        let (registry, place) = (self.registry, self.place);
        let number = Some(ours.document.serial);
        registry.put_channel_document(place, number, &ours.envelope)?;
        thread::sleep(SETTLE);
        if registry.channel_document(place, number)?.as_ref() != Some(&ours.envelope) {
            return Ok(false);
        }
        // Was ours so late that it overwrote one that is current by now?
        if let Some(other) = self.current()? {
            let (theirs, number_of_ours) = (other.document.serial, ours.document.serial);
            if other.digest == ours.digest {
                return Ok(true);
            }
            if theirs > number_of_ours {
                // Someone may have found ours under its number, and continued.
                let next = number_of_ours.saturating_add(1);
                let next = document_of(registry, self.setting, place, next).ok().flatten();
                return Ok(next.is_some_and(|next| next.follows(ours)));
            }
            if theirs == number_of_ours {
                registry.put_channel_document(place, number, &other.envelope)?;
                return Ok(false);
            }
        }
        registry.put_channel_document(place, None, &ours.envelope)?;
        // Was this process so slow that another one has taken the number in the meantime?
        let of_number = registry.channel_document(place, number)?;
        match of_number.filter(|envelope| *envelope != ours.envelope) {
            None => Ok(true),
            Some(envelope) => match VerifiedChannel::open(self.setting, place, &envelope) {
                Ok(other) => {
                    registry.put_channel_document(place, None, &other.envelope)?;
                    Ok(false)
                }
                // It is not signed: no manager has written it.
                Err(_) => Ok(true),
            },
        }
    }

    /// Returns the current document. One that is not trusted is replaced.
    fn current(self) -> Result<Option<VerifiedChannel>> {
        match current_document(self.registry, self.setting, self.place) {
            Err(error) if error.kind() == Kind::Untrusted => Ok(None),
            current => current,
        }
    }

    /// Checks that clients accept what is signed.
    fn check_key(self, manager: &Manager) -> Result<()> {
        let public = manager.key.public();
        let keys = channel_keys(self.setting)?;
        if keys.iter().any(|(_, key)| *key == public) {
            return Ok(());
        }
        let (id, file) = (public.fingerprint(), self.setting.file.display());
        let message = format!("the key {} cannot sign for the channel {}", id.id(), self.place);
        let lines: Vec<_> = keys
            .iter()
            .map(|(path, key)| format!("  {} ({})", path.display(), key.fingerprint().id()))
            .collect();
        Err(Report::new(Kind::Untrusted, message)
            .detailed(format!("{file} accepts:\n{}", lines.join("\n")))
            .hinted(format!("use one of these keys, or add the public key to `keys` in {file}")))
    }
}
