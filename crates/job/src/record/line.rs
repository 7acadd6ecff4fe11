// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A record of a step, as `docs/guides/slurm-records.md` describes it for its readers.
//!
//! What Slurm and the node know comes from the plugin. Labels and views are known to the job
//! alone, whose variable anyone can write: they are taken for images that were mounted, in
//! the form that they must have, and as no more than what the job says.

use std::path::Path;

use cabane_label::{Digest, Label};
use cabane_mount::JOB_LOOKUP;
use cabane_run::loaded::{CABANE_LOADED, Loaded, LoadedImage};
use jiff::Timestamp;
use serde::{Serialize, Serializer};

use super::report::{ReportedImage, StepReport};

/// A record is no longer than this, with the line feed: what is shorter is written and sent
/// as one piece everywhere.
pub(crate) const LONGEST: usize = 4096;
/// Fields that change their meaning make another version; further fields do not.
const VERSION: u32 = 1;
const MOST_VIEWS: usize = 16;

/// What is written down of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Record {
    #[serde(rename = "record")]
    kind: &'static str,
    version: u32,
    time: String,
    node: String,
    job: u32,
    step: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    array_job: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    array_task: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    het_job: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    uid: u32,
    gid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    account: Option<String>,
    nodes: u32,
    tasks: u32,
    mounted: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Times::is_none")]
    times_ms: Times,
    /// For how long the step had its images.
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<Thousandths>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<u32>,
    images: Vec<RecordedImage>,
    /// How many images did not fit.
    #[serde(skip_serializing_if = "is_zero")]
    images_left_out: usize,
}

/// How long it took until the images were there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct Times {
    #[serde(skip_serializing_if = "Option::is_none")]
    lookup: Option<Thousandths>,
    #[serde(skip_serializing_if = "Option::is_none")]
    open: Option<Thousandths>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mount: Option<Thousandths>,
}

impl Times {
    fn of(report: &StepReport) -> Self {
        let time = |name| report.text(name)?.parse().ok().map(Thousandths);
        Self { lookup: time(JOB_LOOKUP), open: time("open"), mount: time("mount") }
    }

    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// A number of thousandths, written with a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Thousandths(u64);

impl Serialize for Thousandths {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[expect(clippy::cast_precision_loss, reason = "no time is as long")]
        serializer.serialize_f64(self.0 as f64 / 1000.0)
    }
}

/// An image of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct RecordedImage {
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    path: String,
    mount_point: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    views: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    way: Option<&'static str>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl Record {
    /// Makes a record of a report. The name of the user is looked up elsewhere.
    pub(crate) fn new(report: &StepReport, node: &str, user: Option<String>) -> Option<Self> {
        let loaded = report.text(CABANE_LOADED).and_then(Loaded::from_variable);
        let loaded = loaded.map(|loaded| loaded.images).unwrap_or_default();
        // Releases differ in what they say of the array where there is none.
        let array_task = report.number("array-task");
        let array_job = report.number("array-job").filter(|job| *job != 0);
        let array_job = array_task.and(array_job);
        let step = report.text("step")?.parse().ok()?;
        let nodes = report.number("nodes")?;
        let milliseconds = report.text("time")?.parse().ok()?;
        let is_end = report.text("kind") == Some("end");
        let kind = match report.text("kind") {
            Some("end") => "cabane-step-end",
            Some("node") => "cabane-node-failure",
            _ => "cabane-step",
        };
        let at_end = |name| report.number(name).filter(|_| is_end);
        let lasted: Option<u64> = report.text("lasted").and_then(|text| text.parse().ok());
        Some(Self {
            kind,
            version: VERSION,
            time: Timestamp::from_millisecond(milliseconds).ok()?.to_string(),
            node: bounded(node, 64),
            job: report.number("job")?,
            step: step_name(step),
            array_job,
            array_task: array_job.and(array_task),
            het_job: het_job(report),
            user: user.map(|user| bounded(&user, 64)),
            uid: report.text("user")?.parse().ok()?,
            gid: report.text("group")?.parse().ok()?,
            account: report.text("SLURM_JOB_ACCOUNT").map(|text| bounded(text, 64)),
            // A batch script runs on one node, and has those of its job.
            nodes: if step == BATCH {
                report.number("SLURM_JOB_NUM_NODES").unwrap_or(nodes)
            } else {
                nodes
            },
            tasks: report.number("tasks")?,
            mounted: report.text("mounted") == Some("1"),
            reason: report.text("reason").map(|text| bounded(text, 512)),
            times_ms: Times::of(report),
            // Whole milliseconds are exact enough.
            seconds: lasted.filter(|_| is_end).map(|lasted| Thousandths(lasted / 1000)),
            exit_code: at_end("exit-code"),
            signal: at_end("signal").filter(|signal| *signal != 0),
            images: report.images.iter().map(|image| recorded(image, &loaded)).collect(),
            images_left_out: 0,
        })
    }

    /// Returns the line, with its end.
    pub(crate) fn line(mut self) -> Option<String> {
        loop {
            let line = serde_json::to_string(&self).ok()? + "\n";
            if line.len() <= LONGEST {
                return Some(line);
            }
            self.images.pop()?;
            self.images_left_out += 1;
        }
    }
}

fn recorded(image: &ReportedImage, loaded: &[LoadedImage]) -> RecordedImage {
    let of_this = |loaded: &&LoadedImage| {
        loaded.path == Path::new(&image.path) && loaded.mount_point == Path::new(&image.mount_point)
    };
    let loaded = loaded.iter().find(of_this);
    let given = Some(image.label.as_str()).filter(|label| !label.is_empty());
    let label = given.or_else(|| loaded?.label.as_deref());
    let views = loaded.map(|loaded| loaded.views.iter()).into_iter().flatten();
    RecordedImage {
        digest: digest_in(&image.path).map(|digest| digest.to_string()),
        path: bounded(&image.path, 1024),
        mount_point: bounded(&image.mount_point, 256),
        label: label
            .filter(|label| label.len() <= 256 && label.parse::<Label>().is_ok())
            .map(str::to_owned),
        views: views.take(MOST_VIEWS).map(|view| bounded(view, 64)).collect(),
        way: ["kernel", "fuse"].into_iter().find(|way| *way == image.way),
    }
}

/// In a repository an image is in a directory that is called by its digest.
fn digest_in(path: &str) -> Option<Digest> {
    let mut parts = path.rsplit('/').skip(1);
    parts.find_map(|part| part.parse().ok())
}

/// Returns the first part of the heterogeneous job to which a step belongs.
fn het_job(report: &StepReport) -> Option<u32> {
    report.number("SLURM_HET_SIZE")?;
    let of_job = report.number("SLURM_JOB_ID_HET_GROUP_0");
    of_job.or_else(|| report.number("SLURM_JOB_ID_PACK_GROUP_0"))
}

/// The number of the step that is a batch script.
const BATCH: u32 = 0xffff_fffb;

/// The highest numbers of steps mean something.
fn step_name(number: u32) -> String {
    match number {
        BATCH => "batch".to_owned(),
        0xffff_fffc => "extern".to_owned(),
        0xffff_fffa => "interactive".to_owned(),
        number => number.to_string(),
    }
}

/// A text of so many bytes at most, without anything that a terminal would obey.
fn bounded(text: &str, most: usize) -> String {
    let mut kept = String::new();
    for letter in text.chars() {
        let letter = if letter.is_control() { '\u{fffd}' } else { letter };
        if kept.len() + letter.len_utf8() > most {
            kept.push('…');
            break;
        }
        kept.push(letter);
    }
    kept
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn line(images: &str, loaded: &str) -> Value {
        let given = format!(
            "time=1700000000123\0job=7\0step=4294967291\0array-job=0\0array-task=4294967294\0\
             nodes=2\0tasks=4\0user=1000\0group=100\0mounted=1\0{images}CABANE_LOADED={loaded}\0"
        );
        let record =
            Record::new(&StepReport::parse(given.as_bytes()), "n1", Some("alice".to_owned()));
        let line = record.unwrap().line().unwrap();
        assert!(line.len() <= LONGEST && line.ends_with('\n'));
        serde_json::from_str(&line).unwrap()
    }

    fn loaded(path: &str, label: &str) -> String {
        format!(
            "{{\"images\":[{{\"name\":\"a\",\"label\":\"{label}\",\"digest\":\"no\",\"path\":\"{path}\",\
             \"repository\":null,\"mount_point\":\"/m\",\"views\":[\"default\"]}}]}}"
        )
    }

    #[test]
    fn a_record_has_what_was_given_and_the_views_of_what_was_mounted() {
        let digest = "ab".repeat(32);
        let path = format!("/r/images/{digest}/store.squashfs");
        let images = format!("image={path}\0mount-point=/m\0");
        let found = line(&images, &loaded(&path, "app/1:v1@here%any"));
        let expected = serde_json::json!({
            "record": "cabane-step", "version": 1, "time": "2023-11-14T22:13:20.123Z",
            "node": "n1", "job": 7, "step": "batch", "user": "alice", "uid": 1000, "gid": 100,
            "nodes": 2, "tasks": 4, "mounted": true,
            "images": [{
                "digest": digest, "path": path, "mount_point": "/m",
                "label": "app/1:v1@here%any", "views": ["default"],
            }],
        });
        assert_eq!(found, expected);
    }

    #[test]
    fn a_record_of_the_end_has_all_that_the_first_had() {
        let images = format!(
            "image=/a\0mount-point=/m\0{JOB_LOOKUP}=41250\0open=800\0mount=3125\0lasted=12345678\0\
             exit-code=137\0signal=9\0kind=end\0"
        );
        let found = line(&images, "{");
        let end = ["record", "times_ms", "seconds", "exit_code", "signal", "job"];
        let expected = serde_json::json!([
            "cabane-step-end", {"lookup": 41.25, "open": 0.8, "mount": 3.125}, 12.345, 137, 9, 7
        ]);
        assert_eq!(Value::from(end.map(|name| found[name].clone()).to_vec()), expected);
    }

    #[test]
    fn a_node_that_fails_is_recorded_as_such() {
        let found = line("image=/a\0mount-point=/m\0reason=why\0kind=node\0", "{");
        let fields = (&found["record"], &found["reason"], found.get("exit_code"));
        assert_eq!(fields, (&"cabane-node-failure".into(), &"why".into(), None));
    }

    #[test]
    fn nothing_is_believed_of_images_that_were_not_mounted() {
        let found = line("image=/a\0mount-point=/m\0", &loaded("/b", "app/1:v1@here%any"));
        let expected = serde_json::json!([{"path": "/a", "mount_point": "/m", "views": []}]);
        assert_eq!(found["images"], expected);
    }

    #[test]
    fn what_is_no_label_is_left_out() {
        let found = line("image=/a\0mount-point=/m\0", &loaded("/a", "rm -rf"));
        assert_eq!(found["images"][0].get("label"), None);
    }

    #[test]
    fn a_record_of_many_long_paths_says_how_many_did_not_fit() {
        let image = format!("image=/{}\0mount-point=/m\0", "\"".repeat(2000));
        let found = line(&image.repeat(8), "{");
        let (kept, left) = (found["images"].as_array().unwrap().len(), &found["images_left_out"]);
        assert_eq!((kept, left), (1, &Value::from(7)));
    }
}
