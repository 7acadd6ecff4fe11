// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What `cabane import` says, to people and to programs.

use cabane_container::{ImportRecord, digest};
use cabane_label::{Digest, Label, escape};
use cabane_repository::{Added, Repository};
use serde::Serialize;

use crate::commands::image::add::tell;
use crate::commands::import::Import;
use crate::commands::import::make::Wanted;
use crate::exit_codes::{self, ExitCode};
use crate::format::json;
use crate::report::{CommandResult, Kind, Report};
use cabane_report::size;

#[derive(Debug, thiserror::Error)]
enum ImportError {
    #[error("`{label}` is there already, and was made of another image")]
    Moved { label: Label },
}

/// What would be done, for programs.
#[derive(Serialize)]
struct Planned<'a> {
    label: String,
    reference: &'a str,
    platform: String,
    /// The digest of the manifest, where there is one.
    manifest: Option<String>,
    layers: usize,
    /// What the layers have together as they come; 0 where that is not known.
    bytes: u64,
}

/// What was done, for programs.
#[derive(Serialize)]
struct Done<'a> {
    label: String,
    digest: &'a Digest,
    size: u64,
    /// Whether the image was there already, under whatever label.
    shared: bool,
    report: Option<&'a ImportRecord>,
}

impl Import<'_> {
    /// Says of a label that is taken from which image to which it would move.
    pub(crate) fn moved(
        &self,
        repository: &Repository,
        wanted: &Wanted,
        error: cabane_repository::Error,
    ) -> Report {
        let cabane_repository::Error::LabelTaken { digest, .. } = &error else {
            return Report::from(error);
        };
        let known = repository.meta(digest).ok();
        let source = known.and_then(|meta| meta.container?.source);
        let (Some(before), Some(now)) = (source.and_then(|one| one.manifest), &wanted.manifest)
        else {
            return Report::from(error);
        };
        let moved = ImportError::Moved {
            label: self.label.clone(),
        };
        Report::new(Kind::Failure, moved)
            .detailed(format!(
                "  it has {}\n  asked for {}",
                escape(&before),
                digest::written(now)
            ))
            .hinted("`--force` gives the label to the new one".to_owned())
    }

    /// Tells what would be done.
    pub(crate) fn tell_plan(&self, wanted: &Wanted) {
        self.setup.printer.note(format_args!(
            "would import {} for {} as {}: {} layers, {}",
            escape(&self.reference),
            wanted.platform,
            self.label,
            wanted.layers,
            size(wanted.bytes)
        ));
        if self.args.json {
            self.setup.printer.data(json(&Planned {
                label: self.label.to_string(),
                reference: &self.reference,
                platform: wanted.platform.to_string(),
                manifest: wanted.manifest.as_ref().map(digest::written),
                layers: wanted.layers,
                bytes: wanted.bytes,
            }));
        }
    }

    /// Tells what was done; there is no report of what was there already.
    pub(crate) fn tell_added(
        &self,
        added: &Added,
        report: Option<&ImportRecord>,
    ) -> CommandResult<ExitCode> {
        let printer = self.setup.printer;
        tell(self.setup, added);
        if let Some(report) = report {
            for line in report.changed.lines() {
                printer.note(format_args!("  {}", escape(&line)));
            }
        }
        if self.args.json {
            printer.data(json(&Done {
                label: added.record.label.to_string(),
                digest: &added.record.digest,
                size: added.record.size,
                shared: report.is_none(),
                report,
            }));
        }
        Ok(exit_codes::SUCCESS)
    }
}
