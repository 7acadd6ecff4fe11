// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Whether an image that is about to be started has the signatures that are wanted.
//!
//! What was signed and by whom is computed each time from the file beside the image, which
//! costs less than remembering it safely. That the image is the one of that digest is not: it
//! would have to be read. It is taken from the place in a repository, from those who can write
//! there, and from the size and the time of the file. The design is in
//! `docs/design/0008-registries.md`.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use cabane_label::Digest;
use cabane_recipe::{AtStart, Requirement, TrustRule};
use cabane_registry::{Distrust, MAX_RECORD, PublicKey, SignatureRecord};
use cabane_report::{IoContext, Report, Result};
use cabane_repository::signatures_beside;
use cabane_resolve::LocatedImage;
use cabane_site::Context;
use cabane_site::settings::TrustSetting;

use crate::pull::Wanted;

/// The name of an image's file in a repository.
const IMAGE: &str = "image";
/// What a mode says if everyone may write.
const OTHERS_WRITE: u32 = 0o002;

/// Why an image is not trusted at its start.
#[derive(Debug, thiserror::Error)]
pub enum Doubt {
    /// There is no record, or none that is understood.
    #[error("its signatures are unknown")]
    Unknown,
    /// None that counts.
    #[error(transparent)]
    Signature(#[from] Distrust),
    /// The file is not the one that was there when its signatures were kept.
    #[error("its file was changed after its signatures were checked")]
    Changed,
    /// Any user may change it.
    #[error("everybody may write to its file")]
    OpenToAll,
    /// The place says nothing.
    #[error("it belongs to the user {owner}, and is in no repository of the configuration")]
    Elsewhere {
        /// Whose it is.
        owner: u32,
    },
}

/// Checks an image against all that the configuration wants at a start.
///
/// # Errors
///
/// Why it is not to be started, or keys that cannot be read.
pub fn check_at_start(context: &Context, image: &LocatedImage) -> Result<()> {
    let settings = context.settings.trust.iter();
    let mut settings = settings.filter(|setting| setting.policy.is_for_starts()).peekable();
    if settings.peek().is_none() {
        return Ok(());
    }
    let candidate = Candidate::new(context, image)?;
    for setting in settings {
        for rule in candidate.rules(setting) {
            let is_exempt = rule.at_start == AtStart::Never
                || rule.at_start == AtStart::Others && candidate.is_own;
            if !is_exempt {
                candidate.check(context, setting, &rule.requirement)?;
            }
        }
    }
    Ok(())
}

/// An image to start, and what can be known of it without reading it.
pub struct Candidate<'a> {
    image: &'a LocatedImage,
    /// Its digest, if its place tells one.
    pub digest: Option<Digest>,
    /// What is kept of its signatures.
    pub record: Option<SignatureRecord>,
    /// The file.
    pub file: Metadata,
    /// Whether it belongs to the user who starts it.
    is_own: bool,
    /// Whether those who can write where it is are those whom the configuration means.
    is_vouched: bool,
}

impl<'a> Candidate<'a> {
    /// Looks at an image and at what is kept of it.
    ///
    /// # Errors
    ///
    /// A file that cannot be read.
    pub fn new(context: &Context, image: &'a LocatedImage) -> Result<Self> {
        let path = &image.path;
        let file = fs::metadata(path).or_failed(|| format!("read {}", path.display()))?;
        let record = signatures_beside(path, MAX_RECORD)?;
        let is_own = file.uid() == rustix::process::getuid().as_raw();
        let is_its = |name| Some(name) == image.repository.as_ref();
        let mut known = context.settings.repositories.iter();
        let is_configured = known.any(|known| known.is_configured && is_its(&known.name));
        Ok(Self {
            image,
            digest: image.digest.clone().or_else(|| digest_of(path)),
            record: record.as_deref().and_then(SignatureRecord::from_bytes),
            is_vouched: is_own || is_configured || file.uid() == 0,
            is_own,
            file,
        })
    }

    /// Returns what to call it.
    pub fn name(&self) -> String {
        let path = || self.image.path.display().to_string();
        let label = self.image.label.as_ref();
        label.map_or_else(path, ToString::to_string)
    }

    /// Returns the rules of a configuration file that are for it.
    ///
    /// From where an image was pulled is written beside it and not signed. So someone's own
    /// note does not lead to a rule that wants nothing, and that of a stranger neither.
    pub fn rules<'p>(&self, setting: &'p TrustSetting) -> Vec<&'p TrustRule> {
        let policy = &setting.policy;
        let believed = self.is_vouched && !self.is_own;
        let record = self.record.iter();
        let mut claimed = record.flat_map(SignatureRecord::namespaces).peekable();
        if claimed.peek().is_none() {
            return policy.rule(None).into_iter().collect();
        }
        let rule = |namespace| match policy.rule(Some(namespace)) {
            Some(rule) if rule.requirement == Requirement::Nothing && !believed => {
                policy.rule(None)
            }
            rule => rule,
        };
        claimed.filter_map(rule).collect()
    }

    fn check(
        &self,
        context: &Context,
        setting: &TrustSetting,
        requirement: &Requirement,
    ) -> Result<()> {
        let Some(wanted) = Wanted::of_rule(context, setting, requirement)? else {
            return Ok(());
        };
        let signer = self.judge(&wanted).map_err(|doubt| self.refuse(&wanted, doubt))?;
        context.detail(format_args!("{} is signed with {}", self.name(), signer.display()));
        Ok(())
    }

    /// Tells that the image is not trusted, and what can be done about it.
    pub fn refuse(&self, wanted: &Wanted, doubt: Doubt) -> Report {
        let hint = self.hint(&doubt);
        wanted.refuse(&self.name(), doubt, hint)
    }

    fn judge<'w>(&self, wanted: &'w Wanted) -> Result<&'w Path, Doubt> {
        if !self.is_vouched {
            let owner = self.file.uid();
            return Err(Doubt::Elsewhere { owner });
        }
        if self.file.mode() & OTHERS_WRITE != 0 {
            return Err(Doubt::OpenToAll);
        }
        let signer = self.signer(wanted)?;
        if self.is_as_it_was() { Ok(signer) } else { Err(Doubt::Changed) }
    }

    /// Returns the file of the key with which the image of this digest was signed.
    pub fn signer<'w>(&self, wanted: &'w Wanted) -> Result<&'w Path, Doubt> {
        let (Some(record), Some(digest)) = (&self.record, &self.digest) else {
            return Err(Doubt::Unknown);
        };
        let accepted = |keys: &[PublicKey]| record.accepted_by(digest, keys).cloned();
        Ok(wanted.signer_by(accepted)?)
    }

    /// Returns whether the file has the size and the time that were noted.
    pub fn is_as_it_was(&self) -> bool {
        let modified = (self.file.mtime(), self.file.mtime_nsec());
        let record = self.record.as_ref();
        record.is_some_and(|record| record.is_of_file(self.file.len(), modified))
    }

    fn hint(&self, doubt: &Doubt) -> String {
        let name = self.name();
        match doubt {
            Doubt::Unknown | Doubt::Signature(_) if self.image.label.is_some() => {
                format!("`cabane image pull {name}` gets the signatures that it has by now")
            }
            Doubt::Unknown | Doubt::Signature(_) => {
                "`cabane image push --sign FILE` signs it, `cabane image pull` gets it from a \
                 registry with its signatures"
                    .to_owned()
            }
            Doubt::Changed => {
                format!("`cabane image verify {name}` reads it and checks it against its signature")
            }
            Doubt::OpenToAll => format!("`chmod o-w {}`", self.image.path.display()),
            Doubt::Elsewhere { .. } => {
                "name its repository in the configuration, or pull it into your own".to_owned()
            }
        }
    }
}

/// Returns the digest that the place of an image in a repository tells.
fn digest_of(path: &Path) -> Option<Digest> {
    let directory = path.parent()?.file_name()?.to_str()?;
    let is_image = path.file_name()? == IMAGE;
    directory.parse().ok().filter(|_| is_image)
}
