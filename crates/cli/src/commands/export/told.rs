// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What `cabane export` says when it is done.

use cabane_container::export::{Exported, Walked};
use cabane_container::{Platform, digest};
use cabane_label::escape;
use serde::Serialize;

use crate::commands::export::Exporting;
use crate::commands::export::target::Published;
use crate::format::json;
use cabane_report::size;

/// A container image that was made.
pub(crate) struct Made {
    pub(crate) exported: Exported,
    pub(crate) platform: Platform,
    /// Names of variables of views that depend on whoever starts the image.
    pub(crate) left_out: Vec<String>,
    pub(crate) walked: Vec<Walked>,
}

impl Made {
    /// Says what was left out, a line each.
    fn lines(&self) -> Vec<String> {
        let sum = |of: fn(&Walked) -> u64| self.walked.iter().map(of).sum::<u64>();
        let counted = [
            (
                sum(|one| one.set_id),
                "lost their set-user-id or set-group-id bit",
            ),
            (
                sum(|one| one.special),
                "were devices, pipes or sockets and are left out",
            ),
        ];
        let counted = counted.iter().filter(|(count, _)| *count > 0);
        let mut lines: Vec<String> = counted
            .map(|(count, what)| format!("{count} files {what}"))
            .collect();
        if !self.left_out.is_empty() {
            lines.push(format!(
                "variables that depend on yours, and are left out: {}",
                escape(&self.left_out.join(", "))
            ));
        }
        lines
    }
}

/// What was done, for programs.
#[derive(Serialize)]
struct Done<'a> {
    image: String,
    digest: String,
    config: String,
    platform: String,
    layers: Vec<DoneLayer>,
    left_out: &'a [String],
    unchanged: bool,
}

#[derive(Serialize)]
struct DoneLayer {
    digest: String,
    size: u64,
}

impl Exporting<'_> {
    pub(crate) fn tell(&self, made: &Made, published: &Published) {
        let printer = self.setup.printer;
        let exported = &made.exported;
        let written = digest::written(&exported.blob.digest);
        let bytes = exported.layers.iter().map(|layer| layer.size).sum();
        let what = if published.unchanged {
            "is this image already"
        } else {
            "is written"
        };
        printer.note(format_args!(
            "{} {what} ({}, {}, {})",
            self.destination,
            exported.blob.digest.id(),
            made.platform,
            size(bytes)
        ));
        for line in made.lines() {
            printer.note(format_args!("  {line}"));
        }
        if self.environment.root().is_none() && self.args.base.is_none() {
            printer.note(
                "  it has no root file system: programs in it need the libraries of what it is put \
                 on (`--base`)",
            );
        }
        for image in self.stacks() {
            if let Some(need) = &image.meta.needs.interpreter {
                printer.warning(&format!(
                    "`{}` needs Python {} at {} of what it is put on",
                    escape(image.name()),
                    escape(&need.version),
                    escape(&need.path.to_string_lossy())
                ));
            }
        }
        if self.args.json {
            let layers = exported.layers.iter().map(|layer| DoneLayer {
                digest: digest::written(&layer.digest),
                size: layer.size,
            });
            printer.data(json(&Done {
                image: self.destination.to_string(),
                digest: written,
                config: digest::written(&exported.config.digest),
                platform: made.platform.to_string(),
                layers: layers.collect(),
                left_out: &made.left_out,
                unchanged: published.unchanged,
            }));
        }
    }
}
