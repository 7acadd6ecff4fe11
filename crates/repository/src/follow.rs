// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Names that follow a channel: which image `prgenv-gnu:stable` is here.
//!
//! A file for each channel and system, `channels/<channel>,<system>.json`, is replaced as a whole by a
//! rename. A channel is followed by what was pulled: a name, with or without a version, for one
//! microarchitecture. That the channel was trusted is for the writer to know.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::str::FromStr;
use std::{fmt, fs};

use cabane_label::{
    ChannelName, Digest, Label, LabelPattern, Name, Namespace, System, Uarch, Version,
};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use crate::staging::Staging;
use crate::writer::Writer;
use crate::{Error, Repository, disk};

/// A file has some hundred bytes for each name.
const MAX_SIZE: u64 = 4 * 1024 * 1024;
const FORMAT: u32 = 1;

/// What follows a channel: `prgenv-gnu%gh200`, or `prgenv-gnu/24.11%gh200`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FollowedName {
    /// The name.
    pub name: Name,
    /// The version; none for the one that the channel chooses.
    pub version: Option<Version>,
    /// The microarchitecture.
    pub uarch: Uarch,
}

impl FollowedName {
    /// Returns what follows a channel if a label was pulled by a pattern.
    pub fn new(pattern: &LabelPattern, label: &Label) -> Self {
        Self {
            name: label.name.clone(),
            version: pattern.version.clone(),
            uarch: label.uarch.clone(),
        }
    }

    /// Returns the pattern by which a channel is asked for it.
    pub fn pattern(&self) -> LabelPattern {
        LabelPattern {
            name: Some(self.name.clone()),
            version: self.version.clone(),
            uarch: Some(self.uarch.clone()),
            ..LabelPattern::default()
        }
    }

    fn fits(&self, pattern: &LabelPattern) -> bool {
        pattern.name.as_ref() == Some(&self.name)
            && pattern.uarch.as_ref().is_none_or(|uarch| *uarch == self.uarch)
    }
}

impl fmt::Display for FollowedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pattern().fmt(f)
    }
}

impl FromStr for FollowedName {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let pattern: LabelPattern = text.parse().map_err(|_| ())?;
        let (Some(name), Some(uarch)) = (pattern.name, pattern.uarch) else {
            return Err(());
        };
        Ok(Self { name, version: pattern.version, uarch })
    }
}

/// An image of a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// Its label in the registry.
    pub label: Label,
    /// The sha256 of the image.
    pub digest: Digest,
}

/// Which image a followed name is, and from where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Followed {
    /// The address of the registry.
    pub registry: String,
    /// The part of the registry.
    pub namespace: Namespace,
    /// The serial number of the channel by which the image came.
    pub serial: u64,
    /// The image.
    pub release: Release,
    /// The image before, for a way back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<Release>,
    /// The day on which the channel withdraws the image, if that is announced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retired: Option<Date>,
    /// What to use instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacement: Option<LabelPattern>,
}

impl Followed {
    /// Whether the day has come on which the channel withdraws the image.
    #[must_use]
    pub fn is_withdrawn(&self) -> bool {
        let today = TimeZone::UTC.to_datetime(Timestamp::now()).date();
        self.retired.is_some_and(|date| date <= today)
    }
}

/// The names that follow one channel.
pub type FollowedNames = BTreeMap<FollowedName, Followed>;

#[derive(Serialize, Deserialize)]
struct File {
    version: u32,
    names: BTreeMap<String, Followed>,
}

impl Repository {
    /// Returns the names that follow a channel for a system.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, or that is damaged.
    pub fn followed(&self, channel: &ChannelName, system: &System) -> Result<FollowedNames, Error> {
        let path = self.layout().channel(channel, system);
        let bytes = disk::if_there(disk::read(&path, MAX_SIZE));
        let Some(bytes) = bytes.map_err(Error::io("read", &path))? else {
            return Ok(FollowedNames::new());
        };
        let file: Option<File> = serde_json::from_slice(&bytes).ok();
        let names = file.filter(|file| file.version == FORMAT).map(|file| file.names);
        let names = names.ok_or_else(|| Error::Channel { path: path.clone() })?;
        let names = names.into_iter().map(|(name, followed)| Ok((name.parse()?, followed)));
        names.collect::<Result<_, ()>>().map_err(|()| Error::Channel { path })
    }

    /// Returns the channels and systems of which something is followed, sorted.
    ///
    /// # Errors
    ///
    /// The directory cannot be read.
    pub fn channels(&self) -> Result<Vec<(ChannelName, System)>, Error> {
        let directory = self.layout().channels();
        let names = disk::if_there(disk::names(&directory));
        let names = names.map_err(Error::io("read", &directory))?.unwrap_or_default();
        let mut channels: Vec<_> = names
            .iter()
            .filter_map(|name| {
                let (channel, system) = name.strip_suffix(".json")?.split_once(',')?;
                Some((channel.parse().ok()?, system.parse().ok()?))
            })
            .collect();
        channels.sort();
        Ok(channels)
    }

    /// Returns the images that names are, or were before, which follow a channel.
    ///
    /// # Errors
    ///
    /// As [`Self::followed`].
    pub(crate) fn followed_images(&self) -> Result<BTreeSet<Digest>, Error> {
        let mut images = BTreeSet::new();
        for (channel, system) in self.channels()? {
            let names = self.followed(&channel, &system)?.into_values();
            images.extend(names.flat_map(|followed| {
                let previous = followed.previous.map(|release| release.digest);
                previous.into_iter().chain([followed.release.digest])
            }));
        }
        Ok(images)
    }

    /// Finds the followed names that fit a pattern whose tag is a channel. A version that was not
    /// followed by itself is that of the name without one, if that is this version now.
    ///
    /// # Errors
    ///
    /// As [`Self::followed`].
    pub fn followed_by(
        &self,
        pattern: &LabelPattern,
        system: &System,
    ) -> Result<Vec<(FollowedName, Followed)>, Error> {
        let channel = pattern.tag.as_ref().and_then(|tag| tag.as_str().parse().ok());
        let Some(channel) = channel else {
            return Ok(Vec::new());
        };
        let mut found: Vec<_> = self.followed(&channel, system)?.into_iter().collect();
        found.retain(|(name, _)| name.fits(pattern));
        if found.iter().any(|(name, _)| name.version == pattern.version) {
            found.retain(|(name, _)| name.version == pattern.version);
        } else {
            found.retain(|(_, followed)| {
                pattern.version.as_ref() == Some(&followed.release.label.version)
            });
        }
        Ok(found)
    }

    /// Lets a name be an image of a channel, and returns what it was before. That image is kept as the
    /// way back.
    ///
    /// # Errors
    ///
    /// The file is damaged, or cannot be written.
    pub fn follow(
        &self,
        channel: &ChannelName,
        name: &FollowedName,
        followed: &Followed,
    ) -> Result<Option<Release>, Error> {
        let mut before = None;
        let system = followed.release.label.system.clone();
        self.change_followed(channel, &system, &mut |names| {
            let old = names.remove(name);
            before = old.as_ref().map(|old| old.release.clone());
            let is_same = |old: &Followed| {
                old.registry == followed.registry && old.namespace == followed.namespace
            };
            // The way back does not lead to another channel of the same name.
            let previous = match old.filter(is_same) {
                Some(old) if old.release != followed.release => Some(old.release),
                Some(old) => old.previous,
                None => None,
            };
            names.insert(name.clone(), Followed { previous, ..followed.clone() });
            true
        })?;
        Ok(before)
    }

    /// Lets a name be the image that it was before, and returns that; `None` if there was none. The
    /// image that it was until now becomes the way back.
    ///
    /// # Errors
    ///
    /// The file is damaged, or cannot be written.
    pub fn roll_back(
        &self,
        channel: &ChannelName,
        system: &System,
        name: &FollowedName,
    ) -> Result<Option<Release>, Error> {
        let mut now = None;
        self.change_followed(channel, system, &mut |names| {
            let Some(followed) = names.get_mut(name) else {
                return false;
            };
            let Some(previous) = followed.previous.take() else {
                return false;
            };
            now = Some(previous.clone());
            followed.previous = Some(std::mem::replace(&mut followed.release, previous));
            // What was announced was about the other image.
            (followed.retired, followed.replacement) = (None, None);
            true
        })?;
        Ok(now)
    }

    /// Notes that a channel withdraws the image that a name is.
    ///
    /// # Errors
    ///
    /// The file is damaged, or cannot be written.
    pub fn note_retirement(
        &self,
        channel: &ChannelName,
        system: &System,
        name: &FollowedName,
        (date, replacement): (Date, Option<&LabelPattern>),
    ) -> Result<(), Error> {
        self.change_followed(channel, system, &mut |names| {
            let Some(followed) = names.get_mut(name) else {
                return false;
            };
            (followed.retired, followed.replacement) = (Some(date), replacement.cloned());
            true
        })
    }

    /// Lets the names that follow a channel here do so in another repository, unless they do there.
    pub(crate) fn copy_followed(&self, target: &Self) -> Result<(), Error> {
        for (channel, system) in self.channels()? {
            let ours = self.followed(&channel, &system)?;
            target.change_followed(&channel, &system, &mut |names| {
                for (name, followed) in &ours {
                    names.entry(name.clone()).or_insert_with(|| followed.clone());
                }
                true
            })?;
        }
        Ok(())
    }

    fn change_followed(
        &self,
        channel: &ChannelName,
        system: &System,
        change: &mut dyn FnMut(&mut FollowedNames) -> bool,
    ) -> Result<(), Error> {
        let mut writer = Writer::open(self.layout())?;
        writer.lock();
        let mut names = self.followed(channel, system)?;
        if !change(&mut names) {
            return Ok(());
        }
        let names = names.into_iter().map(|(name, followed)| (name.to_string(), followed));
        let file = File { version: FORMAT, names: names.collect() };
        let path = self.layout().channel(channel, system);
        write(&writer.staging, &path, &file, &self.layout().channels())
    }
}

fn write(staging: &Staging, path: &Path, file: &File, directory: &Path) -> Result<(), Error> {
    disk::create_directory(directory).map_err(Error::io("create", directory))?;
    let new = staging.free_name("channel");
    // Strings, numbers, and maps of them are always JSON.
    let bytes = serde_json::to_vec(file).unwrap_or_default();
    disk::write_new(&new, &bytes).map_err(Error::io("write", &new))?;
    fs::rename(&new, path).map_err(Error::io("write", path))?;
    disk::sync_directory(directory).map_err(Error::io("write", directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(tag: &str, letter: &str) -> Release {
        Release {
            label: format!("app/1.0:{tag}@here%zen3").parse().unwrap(),
            digest: letter.repeat(64).parse().unwrap(),
        }
    }

    fn followed(release: Release) -> Followed {
        Followed {
            registry: "https://registry.example.org".to_owned(),
            namespace: "deploy".parse().unwrap(),
            serial: 1,
            release,
            previous: None,
            retired: None,
            replacement: None,
        }
    }

    #[test]
    fn a_name_is_followed_changed_and_rolled_back() {
        let directory = tempfile::tempdir().unwrap();
        let repository = Repository::create(&directory.path().join("repository")).unwrap();
        let channel: ChannelName = "stable".parse().unwrap();
        let system: System = "here".parse().unwrap();
        let name: FollowedName = "app%zen3".parse().unwrap();
        assert_eq!(repository.roll_back(&channel, &system, &name).unwrap(), None);
        let (old, new) = (release("v1", "a"), release("v2", "b"));
        let follow = |one: &Release| repository.follow(&channel, &name, &followed(one.clone()));
        assert_eq!(follow(&old).unwrap(), None);
        assert_eq!(follow(&new).unwrap(), Some(old.clone()));
        // The same image again does not lose the way back.
        assert_eq!(follow(&new).unwrap(), Some(new.clone()));
        assert_eq!(repository.roll_back(&channel, &system, &name).unwrap(), Some(old.clone()));
        let found = repository.followed_by(&"app:stable".parse().unwrap(), &system).unwrap();
        assert_eq!(found[0].1.release, old);
        assert_eq!(repository.roll_back(&channel, &system, &name).unwrap(), Some(new));
        assert_eq!(repository.channels().unwrap(), [(channel, system)]);
        assert_eq!(repository.followed_images().unwrap().len(), 2);
    }

    #[test]
    fn a_name_with_a_version_is_another_one() {
        let directory = tempfile::tempdir().unwrap();
        let repository = Repository::create(&directory.path().join("repository")).unwrap();
        let (channel, system) = ("stable".parse().unwrap(), "here".parse().unwrap());
        for (name, tag) in [("app%zen3", "v1"), ("app/1.0%zen3", "v2")] {
            let name = name.parse().unwrap();
            repository.follow(&channel, &name, &followed(release(tag, "a"))).unwrap();
        }
        let found = |typed: &str| {
            let found = repository.followed_by(&typed.parse().unwrap(), &system).unwrap();
            found.into_iter().map(|(_, one)| one.release.label.tag.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(found("app:stable"), ["v1"]);
        assert_eq!(found("app/1.0:stable%zen3"), ["v2"]);
        assert_eq!(found("app/2.0:stable"), [""; 0]);
        assert_eq!(found("app:stable%zen4"), [""; 0]);
        assert_eq!(found("app:other"), [""; 0]);
        assert_eq!(found("app"), [""; 0]);
    }

    #[test]
    fn a_version_is_found_by_the_name_that_is_this_version_now() {
        let directory = tempfile::tempdir().unwrap();
        let repository = Repository::create(&directory.path().join("repository")).unwrap();
        let (channel, system) = ("stable".parse().unwrap(), "here".parse().unwrap());
        let name = "app%zen3".parse().unwrap();
        repository.follow(&channel, &name, &followed(release("v1", "a"))).unwrap();
        let count =
            |typed: &str| repository.followed_by(&typed.parse().unwrap(), &system).unwrap().len();
        assert_eq!((count("app/1.0:stable"), count("app/2.0:stable")), (1, 0));
    }

    #[test]
    fn a_damaged_file_is_an_error_that_names_it() {
        let directory = tempfile::tempdir().unwrap();
        let repository = Repository::create(&directory.path().join("repository")).unwrap();
        let (channel, system) = ("stable".parse().unwrap(), "here".parse().unwrap());
        let name = "app%zen3".parse().unwrap();
        repository.follow(&channel, &name, &followed(release("v1", "a"))).unwrap();
        let path = repository.path().join("channels/stable,here.json");
        fs::write(&path, "{").unwrap();
        let error = repository.followed(&channel, &system).unwrap_err();
        assert!(error.to_string().contains("stable,here.json"), "{error}");
        let damaged = repository.status(false).unwrap().damaged;
        let path = "channels/stable,here.json".into();
        assert_eq!(damaged, [crate::Corruption::UnreadableChannel { path }]);
    }
}
