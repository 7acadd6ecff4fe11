// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The rule `runs_on`: the host in a file of facts has what an image needs.
//!
//! What it needs is in its metadata in the registry. These are not signed, so the rule only prevents
//! mistakes; checks show that an image works on a node.

use std::path::Path;

use cabane_image_search::needs_of;
use cabane_impact::{HostFacts, Verdict, on_host};
use cabane_label::{escape, shown};
use cabane_registry::RemoteImage;
use cabane_report::Result;

use super::waiver::host_of;
use super::{GateRule, GateVerdict, verdict};
use crate::publish::Target;

/// Judges an image for a host.
pub(super) fn runs_on(target: Target<'_>, image: &RemoteImage, file: &Path) -> Result<GateVerdict> {
    let facts = HostFacts::read(file)?;
    let host = host_of(file);
    let name = shown(Path::new(&host));
    let said =
        |evidence| Ok(GateVerdict { host: Some(host), ..verdict(GateRule::RunsOn, evidence) });
    let Some(lines) = needs_of(target.registry, image)? else {
        let missing = format!("{name}: unknown: the image has no metadata that say what it needs");
        return said(Err(missing));
    };
    let (judged, reasons) = on_host(&lines, &facts);
    let reason = reasons.first().map(|reason| format!(": {}", escape(&reason.to_string())));
    let more = match reasons.len() {
        0 | 1 => String::new(),
        count => format!(", and {} more", count - 1),
    };
    let text = format!("{name}: {judged}{}{more}", reason.unwrap_or_default());
    said(match judged {
        Verdict::Unaffected | Verdict::RebuildAdvised => Ok(text),
        Verdict::Unknown | Verdict::Breaks => Err(text),
    })
}
