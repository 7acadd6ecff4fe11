// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Reports of test tools, attached to an image without a signature. They are shown and never count.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use cabane_evidence::{ReframeReport, reduced};
use cabane_label::shown;
use cabane_registry::{AttachedReport, MAX_REPORT, RemoteImage, ReportKind};
use cabane_report::{IoContext, Kind, Report, Result};
use jiff::Timestamp;

use crate::registry::Connection;

/// A report in a file, checked.
#[derive(Debug)]
pub struct ReportFile {
    kind: ReportKind,
    bytes: Vec<u8>,
    created: Option<Timestamp>,
    image: Option<String>,
}

impl ReportFile {
    /// Reads a report. Of one of `ReFrame`, names of users and hosts and directories are left out.
    ///
    /// # Errors
    ///
    /// The file cannot be read; it is too large, or no report of this kind.
    pub fn read(path: &Path, kind: ReportKind) -> Result<Self> {
        let name = shown(path);
        let what = || format!("read {name}");
        let file = File::open(path).or_failed(what)?;
        let changed = file.metadata().and_then(|file| file.modified()).ok();
        let changed = changed.and_then(|time| Timestamp::try_from(time).ok());
        let mut bytes = Vec::new();
        // One byte more than allowed, so that it is noticed.
        file.take(MAX_REPORT + 1).read_to_end(&mut bytes).or_failed(what)?;
        let refused = |reason: &dyn std::fmt::Display| {
            let message = format!("{name} cannot be attached: {reason}");
            Report::new(Kind::BadInput, message)
        };
        if bytes.len() as u64 > MAX_REPORT {
            return Err(refused(&format!("it has more than {MAX_REPORT} bytes")));
        }
        match kind {
            ReportKind::Junit if is_junit(&bytes) => {
                Ok(Self { kind, bytes, created: changed, image: None })
            }
            ReportKind::Junit => Err(refused(&"it is not XML with a `testsuite`")),
            ReportKind::Reframe => {
                let report = ReframeReport::from_bytes(&bytes).map_err(|error| refused(&error))?;
                let bytes = reduced(&bytes).map_err(|error| refused(&error))?;
                let ended = report.session.time_end_unix.and_then(timestamp).or(changed);
                let image = report.image().map(str::to_owned);
                Ok(Self { kind, bytes, created: ended, image })
            }
        }
    }
}

fn timestamp(seconds: f64) -> Option<Timestamp> {
    let time = jiff::SignedDuration::try_from_secs_f64(seconds).ok()?;
    Timestamp::from_second(time.as_secs()).ok()
}

/// Whether this looks like `JUnit`. The file is attached as it is, and not parsed.
fn is_junit(bytes: &[u8]) -> bool {
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    let text = text.trim_start_matches('\u{feff}').trim_start();
    text.starts_with('<') && text.contains("<testsuite")
}

/// Attaches a report to an image of a registry.
///
/// # Errors
///
/// The report says that it is about another image; and those of writing.
pub fn attach_report(
    connection: &Connection,
    image: &RemoteImage,
    report: &ReportFile,
) -> Result<AttachedReport> {
    if report.image.as_ref().is_some_and(|digest| *digest != image.digest.as_str()) {
        let message = format!("the report is about another image than {}", image.place);
        return Err(Report::new(Kind::BadInput, message));
    }
    let created = report.created.or(image.created).unwrap_or(Timestamp::UNIX_EPOCH);
    let registry = &connection.registry;
    let manifest = registry.attach_report(image, report.kind, created, &report.bytes)?;
    Ok(AttachedReport { manifest, kind: report.kind, created: Some(created) })
}

/// Lists the reports that are attached to an image of a registry, the newest first.
///
/// # Errors
///
/// Those of reading.
pub fn attached_reports(
    connection: &Connection,
    image: &RemoteImage,
) -> Result<Vec<AttachedReport>> {
    Ok(connection.registry.reports(image)?)
}

/// Reads an attached report; `None` for one that is damaged.
///
/// # Errors
///
/// Those of reading.
pub fn read_report(
    connection: &Connection,
    image: &RemoteImage,
    report: &AttachedReport,
) -> Result<Option<Vec<u8>>> {
    Ok(connection.registry.report(image, report)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn junit_is_recognized_and_not_parsed() {
        let good = ["<testsuite/>", "\u{feff}\n<?xml version=\"1.0\"?><testsuites><testsuite>"];
        assert!(good.iter().all(|text| is_junit(text.as_bytes())));
        let bad: [&[u8]; 4] = [b"", b"<html>", b"testsuite", b"<testsuite \xff>"];
        assert!(!bad.iter().any(|text| is_junit(text)));
    }

    #[test]
    fn a_time_that_is_none_is_left_out() {
        assert_eq!(timestamp(1.5), Timestamp::from_second(1).ok());
        assert!([f64::NAN, 1e300, f64::INFINITY].into_iter().all(|time| timestamp(time).is_none()));
    }
}
