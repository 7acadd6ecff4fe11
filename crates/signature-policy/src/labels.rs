// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Whether the signature of an image is for the label that it has, and not older than the one that
//! the label had before.
//!
//! A user with write access to a registry can give a label the signed image of another label, or an old
//! image again.
//! A signature therefore names a label and a time, and what was seen last of a label is noted:
//!
//! ```text
//! <state>/labels/<sum of registry and label>
//!
//! <time> <sha256 of the manifest> <registry> <namespace>::<label>
//! ```

use std::path::PathBuf;
use std::{fmt, fs};

use cabane_label::Digest;
use cabane_recipe::Labels;
use cabane_registry::{
    Place, PublicKey, Registry, RemoteImage, Signatures, Statement, sum, write_at_once,
};
use cabane_report::Result;
use cabane_site::Context;
use jiff::Timestamp;

use crate::pull::Wanted;

/// Why a signature does not fit the label of its image.
#[derive(Debug, PartialEq, Eq)]
enum Doubt {
    /// It says nothing of labels, as those of cosign.
    NoLabel,
    /// It is for another label.
    OtherLabel(String),
    /// The label had an image that was signed later.
    Older { signed: Timestamp, seen: Timestamp },
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLabel => f.write_str("its signature names no label"),
            Self::OtherLabel(place) => write!(f, "its signature is for {place}"),
            Self::Older { signed, seen } => {
                let shown = |time: &Timestamp| time.strftime("%F %T UTC").to_string();
                let (signed, seen) = (shown(signed), shown(seen));
                write!(f, "it was signed on {signed}, and the label had an image of {seen} before")
            }
        }
    }
}

/// Checks that one of the signatures that count is for the label, and the newest that was seen of it.
/// Where the rule says no more than that, the answer is a warning.
///
/// # Errors
///
/// That none is, where the rule refuses that.
pub fn check_label(
    context: &Context,
    registry: &Registry,
    image: &RemoteImage,
    wanted: &Wanted,
    signatures: &Signatures,
) -> Result<()> {
    let place = &image.place;
    let keys: Vec<PublicKey> = wanted.public_keys();
    let memory = Memory::of(context, registry, place);
    let last = memory.as_ref().and_then(Memory::read);
    let statements = signatures.statements(&keys);
    let doubt = match judge(place, &image.manifest, &statements, last.as_ref()) {
        Ok(time) => {
            if let Some(memory) = memory.filter(|_| last.is_none_or(|last| last.time < time)) {
                memory.write(context, time, &image.manifest);
            }
            return Ok(());
        }
        Err(doubt) => doubt,
    };
    let hint = format!(
        "if this is intended, the owner of the key signs it again: \
         `cabane image sign --renew {place} --key FILE`"
    );
    match (wanted.labels, &doubt) {
        (Labels::Refuse, _) => return Err(wanted.refuse(&place.to_string(), doubt, hint)),
        // Signatures of cosign are valid without a label; only `refuse` demands one.
        (Labels::Warn, Doubt::NoLabel) => context.detail(format_args!("{place}: {doubt}")),
        (Labels::Warn, _) => {
            context.warning(format_args!("{place}: {doubt}"));
            context.hint(hint);
        }
    }
    Ok(())
}

/// Returns when the image was signed for the label.
fn judge(
    place: &Place,
    manifest: &Digest,
    statements: &[Statement],
    last: Option<&Seen>,
) -> Result<Timestamp, Doubt> {
    let own = statements.iter().filter(|one| one.place == *place);
    let Some(signed) = own.map(|one| one.time).max() else {
        return Err(match statements.first() {
            Some(other) => Doubt::OtherLabel(other.place.to_string()),
            None => Doubt::NoLabel,
        });
    };
    match last.filter(|last| last.time > signed && last.manifest != *manifest) {
        Some(last) => Err(Doubt::Older { signed, seen: last.time }),
        None => Ok(signed),
    }
}

/// The newest image that was seen under a label.
struct Seen {
    time: Timestamp,
    manifest: Digest,
}

/// Where that is noted.
struct Memory {
    path: PathBuf,
    name: String,
}

impl Memory {
    fn of(context: &Context, registry: &Registry, place: &Place) -> Option<Self> {
        let name = format!("{} {place}", registry.remembered_as());
        let directory = context.settings.state_directory.as_ref()?.join("labels");
        Some(Self { path: directory.join(sum::bytes(name.as_bytes()).id().to_string()), name })
    }

    /// What is damaged was not seen.
    fn read(&self) -> Option<Seen> {
        let text = fs::read_to_string(&self.path).ok()?;
        let (time, rest) = text.split_once(' ')?;
        let (manifest, name) = rest.split_once(' ')?;
        let seen = Seen { time: time.parse().ok()?, manifest: manifest.parse().ok()? };
        (name.trim_end() == self.name).then_some(seen)
    }

    /// Where it cannot be noted, the next time is the first again.
    fn write(&self, context: &Context, time: Timestamp, manifest: &Digest) {
        let text = format!("{time} {manifest} {}\n", self.name);
        if let Err(error) = write_at_once(&self.path, text.as_bytes()) {
            let path = self.path.display();
            context.detail(format_args!("cannot write {path}: {error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(label: &str) -> Place {
        Place { namespace: "deploy".parse().unwrap(), label: label.parse().unwrap() }
    }

    fn time(hour: u8) -> Timestamp {
        format!("2026-11-26T{hour:02}:00:00Z").parse().unwrap()
    }

    fn digest(letter: &str) -> Digest {
        letter.repeat(64).parse().unwrap()
    }

    const APP: &str = "app/1.0:v1@daint%gh200";

    fn signed(label: &str, hour: u8) -> Statement {
        Statement { place: place(label), time: time(hour) }
    }

    #[test]
    fn the_newest_signature_for_the_label_counts() {
        let statements = [signed(APP, 3), signed(APP, 5), signed("app/2.0:v1@daint%gh200", 7)];
        assert_eq!(judge(&place(APP), &digest("a"), &statements, None), Ok(time(5)));
    }

    #[test]
    fn a_signature_for_another_label_or_for_none_does_not_fit() {
        let other = "app/2.0:v1@daint%gh200";
        let judged = judge(&place(APP), &digest("a"), &[signed(other, 3)], None);
        assert_eq!(judged, Err(Doubt::OtherLabel(place(other).to_string())));
        assert_eq!(judge(&place(APP), &digest("a"), &[], None), Err(Doubt::NoLabel));
    }

    #[test]
    fn an_image_that_was_signed_before_the_last_one_is_older() {
        let seen = Seen { time: time(5), manifest: digest("b") };
        let judged =
            |hour, letter| judge(&place(APP), &digest(letter), &[signed(APP, hour)], Some(&seen));
        assert_eq!(judged(3, "a"), Err(Doubt::Older { signed: time(3), seen: time(5) }));
        // The same image may have lost a signature.
        assert_eq!(judged(3, "b"), Ok(time(3)));
        assert_eq!(judged(6, "a"), Ok(time(6)));
    }
}
