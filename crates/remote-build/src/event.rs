// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What a build reports, as lines of a file, and reported again to the user at another machine.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cabane_builder::{Origin, PackageChange, PackageEvent, Progress, Step, StepName};
use cabane_label::escape;
use cabane_report::{Notices, Transfer};
use cabane_site::Context;
use serde::{Deserialize, Serialize};

/// The longest line that is read.
pub(crate) const LONGEST_LINE: usize = 1 << 20;

/// Something that a build reports.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Event {
    Started {
        step: StepName,
        index: usize,
        total: usize,
    },
    Output {
        step: StepName,
        line: String,
    },
    Package(Box<Package>),
    Finished {
        step: StepName,
        seconds: f64,
    },
    Skipped {
        step: StepName,
    },
    Waiting {
        process: Option<u32>,
        /// Older versions do not name it.
        #[serde(default)]
        lock: PathBuf,
    },
    Remark(String),
    /// A warning of the build.
    Warning(String),
    /// A warning of what is around the build.
    Problem(String),
    Hint(String),
    Note(String),
    Detail(String),
}

#[derive(Debug, Serialize, Deserialize)]
struct Package {
    name: String,
    version: String,
    hash: String,
    /// Versions before 0.3 do not name it.
    #[serde(default)]
    node: Option<String>,
    change: Change,
    last_time: Option<f64>,
    done: usize,
    total: usize,
    left: Option<f64>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Change {
    Phase(String),
    Built(f64),
    FromCache(f64),
    Ready,
    Failed,
}

/// Writes what a build reports to a file.
#[derive(Clone, Debug)]
pub(crate) struct Recorder(Arc<Mutex<File>>);

impl Recorder {
    pub(crate) fn new(file: File) -> Self {
        Self(Arc::new(Mutex::new(file)))
    }

    fn write(&self, event: &Event) {
        let Ok(mut line) = serde_json::to_vec(event) else { return };
        line.push(b'\n');
        if let Ok(mut file) = self.0.lock() {
            // A full disk fails the build itself.
            let _ = file.write_all(&line);
        }
    }
}

impl Progress for Recorder {
    fn started(&mut self, step: &Step, index: usize, total: usize) {
        self.write(&Event::Started { step: step.name, index, total });
    }

    fn output(&mut self, step: &Step, line: &str) {
        self.write(&Event::Output { step: step.name, line: line.to_owned() });
    }

    fn package(&mut self, event: &PackageEvent<'_>) {
        let change = match event.change {
            PackageChange::Phase(phase) => Change::Phase(phase.to_owned()),
            PackageChange::Done { origin: Origin::Built, took } => {
                Change::Built(took.as_secs_f64())
            }
            PackageChange::Done { took, .. } => Change::FromCache(took.as_secs_f64()),
            PackageChange::Ready => Change::Ready,
            PackageChange::Failed => Change::Failed,
        };
        self.write(&Event::Package(Box::new(Package {
            name: event.name.to_owned(),
            version: event.version.to_owned(),
            hash: event.hash.to_owned(),
            node: event.node.map(str::to_owned),
            change,
            last_time: event.last_time.as_ref().map(Duration::as_secs_f64),
            done: event.done,
            total: event.total,
            left: event.left.as_ref().map(Duration::as_secs_f64),
        })));
    }

    fn finished(&mut self, step: &Step, took: Duration) {
        self.write(&Event::Finished { step: step.name, seconds: took.as_secs_f64() });
    }

    fn skipped(&mut self, step: &Step) {
        self.write(&Event::Skipped { step: step.name });
    }

    fn waiting(&mut self, process: Option<u32>, lock: &Path) {
        self.write(&Event::Waiting { process, lock: lock.to_owned() });
    }

    fn remark(&mut self, text: &str) {
        self.write(&Event::Remark(text.to_owned()));
    }

    fn warning(&mut self, text: &str) {
        self.write(&Event::Warning(text.to_owned()));
    }
}

impl Notices for Recorder {
    fn warning(&self, text: &str) {
        self.write(&Event::Problem(text.to_owned()));
    }

    fn hint(&self, text: &str) {
        self.write(&Event::Hint(text.to_owned()));
    }

    fn note(&self, text: &str) {
        self.write(&Event::Note(text.to_owned()));
    }

    fn detail(&self, text: &str) {
        self.write(&Event::Detail(text.to_owned()));
    }

    fn is_verbose(&self) -> bool {
        false
    }

    fn color_option(&self) -> String {
        "--color=never".to_owned()
    }

    fn transfer(&self, _: &str) -> Box<dyn Transfer> {
        Box::new(Unseen)
    }

    fn counted(&self, _: &str) -> Box<dyn Transfer> {
        Box::new(Unseen)
    }
}

struct Unseen;

impl Transfer for Unseen {
    fn show(&self, _: u64, _: u64) {}

    fn end(&self) {}
}

/// Reports the events in bytes again. Returns how many bytes were used: the last line may be cut.
pub(crate) fn replay(bytes: &[u8], context: &Context, progress: &mut dyn Progress) -> usize {
    let mut used = 0;
    for line in bytes.split_inclusive(|&byte| byte == b'\n') {
        if line.last() != Some(&b'\n') {
            break;
        }
        used += line.len();
        // A line that is no event is of a newer version, or was cut by a full disk.
        if let Ok(event) = serde_json::from_slice(line) {
            report(event, context, progress);
        }
    }
    used
}

/// Reports an event. Its texts come from another machine, so that they are escaped.
fn report(event: Event, context: &Context, progress: &mut dyn Progress) {
    match event {
        Event::Started { step, index, total } => {
            progress.started(&Step::named(step), index.min(99), total.min(99));
        }
        Event::Output { step, line } => progress.output(&Step::named(step), &escape(&line)),
        Event::Package(package) => progress.package(&PackageEvent {
            name: &package.name,
            version: &package.version,
            hash: &package.hash,
            node: package.node.as_deref(),
            change: match &package.change {
                Change::Phase(phase) => PackageChange::Phase(phase),
                Change::Built(took) => {
                    PackageChange::Done { origin: Origin::Built, took: duration(*took) }
                }
                Change::FromCache(took) => {
                    PackageChange::Done { origin: Origin::Cache, took: duration(*took) }
                }
                Change::Ready => PackageChange::Ready,
                Change::Failed => PackageChange::Failed,
            },
            last_time: package.last_time.map(duration),
            done: package.done,
            total: package.total,
            left: package.left.map(duration),
        }),
        Event::Finished { step, seconds } => {
            progress.finished(&Step::named(step), duration(seconds));
        }
        Event::Skipped { step } => progress.skipped(&Step::named(step)),
        Event::Waiting { process, lock } => progress.waiting(process, &lock),
        Event::Remark(text) => progress.remark(&escape_lines(&text)),
        Event::Warning(text) => progress.warning(&escape_lines(&text)),
        Event::Problem(text) => context.warning(escape_lines(&text)),
        Event::Hint(text) => context.hint(escape_lines(&text)),
        Event::Note(text) => context.note(escape_lines(&text)),
        Event::Detail(text) => context.detail(escape_lines(&text)),
    }
}

fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default().min(Duration::from_secs(1 << 30))
}

/// Escapes each line of a text.
pub(crate) fn escape_lines(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(escape).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use cabane_site::settings::Overrides;

    use super::*;

    #[test]
    fn control_characters_of_another_machine_are_escaped() {
        assert_eq!(escape_lines("a\x1b]0;title\x07\nb\rc"), "a\\u{1b}]0;title\\u{7}\nb\\u{d}c");
    }

    /// Notes what is reported.
    #[derive(Default)]
    struct Noted(Vec<String>);

    impl Progress for Noted {
        fn started(&mut self, step: &Step, index: usize, total: usize) {
            self.0.push(format!("started {} {index} {total}", step.name));
        }

        fn output(&mut self, step: &Step, line: &str) {
            self.0.push(format!("{}: {line}", step.name));
        }

        fn package(&mut self, event: &PackageEvent<'_>) {
            self.0.push(format!("{event:?}"));
        }

        fn finished(&mut self, step: &Step, took: Duration) {
            self.0.push(format!("finished {} {took:?}", step.name));
        }

        fn skipped(&mut self, step: &Step) {
            self.0.push(format!("skipped {}", step.name));
        }

        fn waiting(&mut self, process: Option<u32>, _: &Path) {
            self.0.push(format!("waiting {process:?}"));
        }

        fn remark(&mut self, text: &str) {
            self.0.push(format!("remark {text}"));
        }

        fn warning(&mut self, text: &str) {
            self.0.push(format!("warning {text}"));
        }
    }

    fn report_all(progress: &mut dyn Progress) {
        let step = Step::named(StepName::Install);
        progress.started(&step, 1, 5);
        progress.output(&step, "==> Installing");
        let changes = [
            PackageChange::Phase("configure"),
            PackageChange::Done { origin: Origin::Built, took: Duration::from_secs(9) },
            PackageChange::Done { origin: Origin::Cache, took: Duration::from_millis(1500) },
            PackageChange::Ready,
            PackageChange::Failed,
        ];
        for change in changes {
            progress.package(&PackageEvent {
                name: "zlib-ng",
                version: "2.2.4",
                hash: "abc",
                node: Some("n2"),
                change,
                last_time: Some(Duration::from_secs(3)),
                done: 1,
                total: 2,
                left: None,
            });
        }
        progress.finished(&step, Duration::from_millis(250));
        progress.skipped(&step);
        progress.waiting(Some(7), Path::new("/build/lock"));
        progress.remark("in memory");
        progress.warning("no locks");
    }

    #[test]
    fn what_a_build_reports_is_reported_again_wherever_the_connection_was_cut() {
        let path = tempfile::NamedTempFile::new().unwrap();
        report_all(&mut Recorder::new(File::create(path.path()).unwrap()));
        let bytes = std::fs::read(path.path()).unwrap();
        let variables = [("CABANE_SITE_CONFIG".into(), "/nonexistent/config.toml".into())];
        let site = cabane_site::Site::new(&Overrides::default(), variables.into(), None).unwrap();
        let nothing = Recorder::new(File::create("/dev/null").unwrap());
        let context = Context::new(site, Arc::new(nothing));
        let mut expected = Noted::default();
        report_all(&mut expected);
        for cut in (0..bytes.len()).step_by(7) {
            let mut noted = Noted::default();
            let used = replay(&bytes[..cut], &context, &mut noted);
            assert!(used <= cut);
            assert_eq!(used + replay(&bytes[used..], &context, &mut noted), bytes.len());
            assert_eq!(noted.0, expected.0);
        }
    }

    #[test]
    fn a_number_that_is_no_time_is_none() {
        assert_eq!(duration(f64::NAN), Duration::ZERO);
        assert_eq!(duration(-1.0), Duration::ZERO);
        assert_eq!(duration(1e300), Duration::ZERO);
    }
}
