// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The list of images of a job, as it is written into a variable.
//!
//! Where a job is submitted its owner finds out which images it is about. On each node root
//! reads the variable, which the owner may have changed meanwhile: nothing about it is taken
//! on trust. The value is
//!
//! ```text
//! 2[,KEY=VALUE]…[,IMAGE]…[,SEEN]…[,VARIABLES]…
//!
//! IMAGE      BUILD[;BUILD]…                       one of which a node takes
//! BUILD      FORMAT:PATH:MOUNT_POINT[:KEY=VALUE]…
//! SEEN       what is seen in a root image, see JobRoot
//! VARIABLES  vars[:NAME=VALUE]…[:NAME]…           set, or removed
//! ```
//!
//! and bytes that could be taken for something else stand as `%` and two digits. A key that
//! is not known is skipped: who writes one that must not be skipped writes another version.
//!
//! There are as many `VARIABLES` as there are ways to take a build of each image, the last
//! image changing fastest, or none.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::job_root::{BIND, DEVICE, HOME, LINES, NO};
use crate::job_text::{escaped, plain, printable};
use crate::{ImageDigest, ImageFormat, JobRoot, Request, RootHash};

/// Names the variable with the images of a job. Slurm hands on what begins like this also
/// where the user wants no variables to be handed on (`--export=NONE`).
pub const JOB_IMAGES: &str = "SLURM_CABANE_IMAGES";

const VERSION: &str = "2";
const VARIABLES: &str = "vars";
/// More builds of one image than there are kinds of nodes anywhere.
const MAX_BUILDS: usize = 16;

/// The images of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobImages {
    /// What becomes of a step on a node that cannot run its images.
    pub unfit: Unfit,
    /// The views that were named. Their variables are among those of the job, or were not handed on.
    pub views: String,
    /// The images, each as one or several builds.
    pub images: Vec<Vec<JobImage>>,
    /// The directory in which tasks start, an absolute path; nothing for that of the job.
    pub workdir: Option<PathBuf>,
    /// Whether each task enters the root image itself, with the rights of its user.
    pub by_tasks: bool,
    /// Whether tasks of images with `PyTorch` get `RANK` and `LOCAL_RANK`.
    pub ranks_for_pytorch: bool,
    /// What of a node is seen in a root image, if there is one.
    pub root: JobRoot,
    /// The variables that differ between builds, for each way to take one of each image.
    pub variables: Vec<Vec<JobVariable>>,
}

/// What becomes of a step on a node that cannot run its images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unfit {
    /// It fails before its first task.
    #[default]
    Refuse,
    /// The user is warned.
    Warn,
}

/// One image of a job, or one build of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobImage {
    /// What it holds.
    pub format: ImageFormat,
    /// Where it is, the same on all nodes.
    pub path: PathBuf,
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// How it is called in messages; empty if only its path is known.
    pub label: String,
    /// The microarchitecture in its label; empty if there is none.
    pub uarch: String,
    /// The architectures of its programs; empty if they are not known.
    pub architectures: Vec<String>,
    /// The features that a processor must have.
    pub features: Vec<String>,
    /// The C library that a node must have.
    pub glibc: Option<String>,
    /// The values of `srun --mpi` with which the ranks of its MPI find each other, `unknown` if it has
    /// one and they are not known; empty if it has none.
    pub mpi: Vec<String>,
    /// The root of the hash tree beside it, if there is one.
    pub root_hash: Option<RootHash>,
    /// The digest of the image, if it is known. A node may have it unpacked.
    pub digest: Option<ImageDigest>,
}

/// A variable and what it is set to, or that it is removed.
pub type JobVariable = (OsString, Option<OsString>);

/// Images of a job that are not written as they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobImagesError {
    /// Which of the texts between the commas it was, from 1.
    pub text: usize,
    /// What was expected there.
    pub expected: &'static str,
}

impl fmt::Display for JobImagesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "text {} should be {}", self.text, self.expected)
    }
}

impl std::error::Error for JobImagesError {}

impl JobImage {
    /// Makes an image of which nothing more is known.
    #[must_use]
    pub fn new(
        format: ImageFormat,
        path: impl Into<PathBuf>,
        mount_point: impl Into<PathBuf>,
    ) -> Self {
        Self {
            format,
            path: path.into(),
            mount_point: mount_point.into(),
            label: String::new(),
            uarch: String::new(),
            architectures: Vec::new(),
            features: Vec::new(),
            glibc: None,
            mpi: Vec::new(),
            root_hash: None,
            digest: None,
        }
    }

    /// Returns its name for messages: the label, or else the path.
    #[must_use]
    pub fn name(&self) -> String {
        if self.label.is_empty() { self.path.display().to_string() } else { self.label.clone() }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split(':');
        let format = match fields.next()? {
            "squashfs" => ImageFormat::Squashfs,
            "erofs" => ImageFormat::Erofs,
            _ => return None,
        };
        let mut path = || {
            let path = PathBuf::from(plain(fields.next()?)?);
            path.is_absolute().then_some(path)
        };
        let mut image = Self::new(format, path()?, path()?);
        for field in fields {
            let (key, value) = field.split_once('=')?;
            let value = printable(value)?;
            match key {
                "label" => image.label = value,
                "uarch" => image.uarch = value,
                "glibc" => image.glibc = Some(value).filter(|value| !value.is_empty()),
                "sha256" => image.digest = Some(value.parse().ok()?),
                "verity" => image.root_hash = Some(value.parse().ok()?),
                "architectures" => image.architectures = texts_in(&value),
                "features" => image.features = texts_in(&value),
                "mpi" => image.mpi = texts_in(&value),
                _ => {}
            }
        }
        Some(image)
    }
}

impl fmt::Display for JobImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let format = self.format.name();
        let (path, place) = (escaped(self.path.as_os_str()), escaped(self.mount_point.as_os_str()));
        write!(f, "{format}:{path}:{place}")?;
        let (features, mpi) = (self.features.join(" "), self.mpi.join(" "));
        let architectures = self.architectures.join(" ");
        let glibc = self.glibc.as_deref().unwrap_or_default();
        let root_hash = self.root_hash.as_ref().map_or("", RootHash::as_str);
        let digest = self.digest.as_ref().map_or("", ImageDigest::as_str);
        let pairs = [
            ("label", self.label.as_str()),
            ("uarch", &self.uarch),
            ("glibc", glibc),
            ("architectures", &architectures),
            ("features", &features),
            ("mpi", &mpi),
            ("verity", root_hash),
            ("sha256", digest),
        ];
        for (key, value) in pairs.into_iter().filter(|(_, value)| !value.is_empty()) {
            write!(f, ":{key}={}", escaped(value.as_ref()))?;
        }
        Ok(())
    }
}

impl fmt::Display for JobImages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(VERSION)?;
        if self.unfit == Unfit::Warn {
            f.write_str(",unfit=warn")?;
        }
        if !self.views.is_empty() {
            write!(f, ",views={}", escaped(self.views.as_ref()))?;
        }
        if let Some(workdir) = &self.workdir {
            write!(f, ",workdir={}", escaped(workdir.as_ref()))?;
        }
        if self.by_tasks {
            f.write_str(",start=tasks")?;
        }
        if self.ranks_for_pytorch {
            f.write_str(",ranks=pytorch")?;
        }
        for builds in &self.images {
            for (position, build) in builds.iter().enumerate() {
                f.write_str(if position == 0 { "," } else { ";" })?;
                write!(f, "{build}")?;
            }
        }
        write!(f, "{}", self.root)?;
        for variables in &self.variables {
            write!(f, ",{VARIABLES}")?;
            for (name, value) in variables {
                write!(f, ":{}", escaped(name))?;
                if let Some(value) = value {
                    write!(f, "={}", escaped(value))?;
                }
            }
        }
        Ok(())
    }
}

impl JobImages {
    /// Returns in how many ways a build of each image can be taken.
    #[must_use]
    pub fn ways(&self) -> usize {
        let counts = self.images.iter().map(Vec::len);
        counts.fold(1, usize::saturating_mul)
    }

    /// Returns the variables that go with the builds at these places, one for each image.
    #[must_use]
    pub fn variables_for(&self, places: &[usize]) -> &[JobVariable] {
        let pairs = self.images.iter().zip(places);
        let way = pairs.fold(0_usize, |way, (builds, place)| {
            way.saturating_mul(builds.len()).saturating_add(*place)
        });
        self.variables.get(way).map_or(&[], Vec::as_slice)
    }

    /// Reads what was written.
    ///
    /// # Errors
    ///
    /// The first text that is not what it should be.
    pub fn parse(text: &str) -> Result<Self, JobImagesError> {
        let mut list = Self::default();
        let mut count = 0;
        for (position, text) in text.split(',').enumerate() {
            count = position.saturating_add(1);
            list.take(position, text)
                .map_err(|expected| JobImagesError { text: count, expected })?;
        }
        if list.variables.is_empty() || list.variables.len() == list.ways() {
            return Ok(list);
        }
        Err(JobImagesError {
            text: count,
            expected: "the variables for the last way to take a build of each image",
        })
    }

    fn take(&mut self, position: usize, text: &str) -> Result<(), &'static str> {
        if position == 0 {
            return if text == VERSION { Ok(()) } else { Err("the version, 2") };
        }
        let mut fields = text.split(':');
        let first = fields.next().unwrap_or_default();
        if first == VARIABLES {
            let variables = fields.map(parse_variable);
            let variables = variables.collect::<Option<_>>();
            self.variables.push(variables.ok_or("variables, each with a name")?);
            return Ok(());
        }
        if [BIND, LINES, DEVICE].contains(&first) {
            let fields: Vec<&str> = fields.collect();
            let root = &self.root;
            let counts = [root.binds.len(), root.lines.len(), root.devices.len()];
            if counts.iter().any(|count| *count >= Request::MAX_BINDS) {
                return Err("the end: these are too many places");
            }
            let taken = self.root.take(first, &fields);
            return taken.ok_or("absolute paths of what is seen and where, or a device");
        }
        if let Some((key, value)) = first.split_once('=') {
            match (key, value) {
                ("views", value) => {
                    self.views = printable(value).ok_or("the names of views")?;
                }
                ("workdir", value) => {
                    let path = plain(value).map(PathBuf::from).filter(|path| path.is_absolute());
                    self.workdir = Some(path.ok_or("an absolute path to start in")?);
                }
                ("start", value) => self.by_tasks = value == "tasks",
                ("ranks", value) => self.ranks_for_pytorch = value == "pytorch",
                ("unfit", "refuse") => self.unfit = Unfit::Refuse,
                ("unfit", "warn") => self.unfit = Unfit::Warn,
                (HOME, NO) => self.root.without_home = true,
                ("unfit", _) => return Err("`unfit=refuse` or `unfit=warn`"),
                _ => {}
            }
            return Ok(());
        }
        let builds: Option<Vec<JobImage>> = text.split(';').map(JobImage::parse).collect();
        let builds = builds.ok_or("`squashfs` or `erofs` and two absolute paths")?;
        if builds.len() > MAX_BUILDS || self.images.len() >= Request::MAX_IMAGES {
            return Err("the end: these are too many images");
        }
        self.images.push(builds);
        Ok(())
    }
}

fn texts_in(value: &str) -> Vec<String> {
    value.split_whitespace().map(str::to_owned).collect()
}

fn parse_variable(text: &str) -> Option<JobVariable> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(plain(value)?)),
        None => (text, None),
    };
    let name = plain(name)?;
    let is_name = !name.is_empty() && !name.as_bytes().contains(&b'=');
    is_name.then_some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{JobBind, JobDevice};

    fn build(uarch: &str) -> JobImage {
        JobImage {
            label: format!("app/1:v1@here%{uarch}"),
            uarch: uarch.to_owned(),
            architectures: vec!["x86_64".to_owned()],
            features: vec!["avx2".to_owned(), "fma".to_owned()],
            glibc: Some("2.34".to_owned()),
            mpi: vec!["pmi2".to_owned(), "pmix".to_owned()],
            digest: "0a".repeat(32).parse().ok().filter(|_| uarch == "zen3"),
            ..JobImage::new(
                ImageFormat::Squashfs,
                format!("/repository/{uarch}/image"),
                "/user-environment",
            )
        }
    }

    fn images() -> JobImages {
        let loaded = |value: &str| {
            vec![
                ("LOADED".into(), Some(value.into())),
                ("ONLY_ZEN2".into(), (value == "zen2").then(|| "1".into())),
            ]
        };
        JobImages {
            unfit: Unfit::Warn,
            views: "develop,app:docs".to_owned(),
            workdir: Some("/my work".into()),
            by_tasks: true,
            ranks_for_pytorch: true,
            images: vec![
                vec![build("zen2"), build("zen3")],
                vec![JobImage::new(ImageFormat::Erofs, "/my dir/50%,ü:", "/user-tools")],
            ],
            root: JobRoot {
                binds: vec![JobBind {
                    source: "/a b".into(),
                    target: "/c,d".into(),
                    read_only: true,
                    must_be: true,
                }],
                lines: vec![("/etc/passwd".into(), "me:x:1:\n".to_owned())],
                without_home: true,
                devices: vec![JobDevice {
                    name: "vendor.example/gpu=0:1".to_owned(),
                    must_be: true,
                }],
            },
            variables: vec![loaded("zen2"), loaded("{\"a\": [1,2]}\n")],
        }
    }

    #[test]
    fn what_is_written_can_be_read_again() {
        assert_eq!(JobImages::parse(&images().to_string()), Ok(images()));
    }

    #[test]
    fn the_text_is_one_argument() {
        let text = images().to_string();
        assert_eq!(
            text,
            "2,unfit=warn,views=develop%2capp%3adocs,workdir=/my%20work,start=tasks,ranks=pytorch,\
             squashfs:/repository/zen2/image:/user-environment:label=app/1%3av1@here%25zen2:\
             uarch=zen2:glibc=2.34:architectures=x86_64:features=avx2%20fma:mpi=pmi2%20pmix;\
             squashfs:/repository/zen3/image:/user-environment:label=app/1%3av1@here%25zen3:\
             uarch=zen3:glibc=2.34:architectures=x86_64:features=avx2%20fma:mpi=pmi2%20pmix:\
             sha256=0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a,\
             erofs:/my%20dir/50%25%2c%c3%bc%3a:/user-tools,\
             home=no,bind:/a%20b:/c%2cd:ro:must,lines:/etc/passwd:me%3ax%3a1%3a%0a,\
             device:vendor.example/gpu%3d0%3a1:must,\
             vars:LOADED=zen2:ONLY_ZEN2=1,\
             vars:LOADED={\"a\"%3a%20[1%2c2]}%0a:ONLY_ZEN2"
        );
    }

    #[test]
    fn the_variables_are_those_of_the_builds() {
        let mut list = images();
        list.images.push(vec![build("zen2"), build("zen3")]);
        list.variables = ["00", "01", "10", "11"].map(|way| vec![(way.into(), None)]).into();
        let found = list.variables_for(&[1, 0, 0]);
        assert_eq!(found, [("10".into(), None)]);
    }

    #[test]
    fn unknown_keys_are_skipped() {
        let list = JobImages::parse("2,later=1,erofs:/a:/b:later=2").map(|list| list.images);
        let image = JobImage::new(ImageFormat::Erofs, "/a", "/b");
        assert_eq!(list, Ok(vec![vec![image]]));
    }

    #[test]
    fn what_is_malformed_is_named_by_its_place() {
        let problems = [
            "",
            "1",
            "2,ext4:/a:/b",
            "2,erofs:a:/b",
            "2,erofs:/a",
            "2,erofs:/a:/b:/c",
            "2,erofs:/a%0:/b",
            "2,erofs:/a%00:/b",
            "2,erofs:/a:/b;",
            "2,erofs:/a:/b:label=%0a",
            "2,erofs:/a:/b:verity=0",
            "2,erofs:/a:/b:sha256=../a",
            "2,unfit=perhaps",
            "2,workdir=here",
            "2,erofs:/a:/b;erofs:/c:/b,vars",
            "2,erofs:/a:/b,vars:=1",
            "2,bind:/a",
            "2,bind:a:/b",
            "2,lines:/a",
            "2,device:",
            "2,device:--option",
        ]
        .map(|text| JobImages::parse(text).map_err(|error| error.text));
        let expected = [1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 2, 2, 2, 2, 2].map(Err);
        assert_eq!(problems, expected);
    }

    /// Texts that are lists by chance more often than by themselves.
    const NEARLY: &str = "2(,(unfit=(warn|refuse|x)|home=(no|x)|workdir=/?[a-z%0-9]{0,3}|ranks=(pytorch|x)|start=(tasks|x)|vars(:[A-C]{0,2}(=[a-z%0-9]{0,4})?){0,3}|\
                          (squashfs|erofs):/[a-z%0-9]{0,4}:/[a-z]{0,3}\
                          (:(label|uarch|glibc|features|mpi|new)=[ -~]{0,6}){0,3}(;erofs:/b:/c)?)){0,4}";

    proptest::proptest! {
        #[test]
        fn what_can_be_read_is_written_and_read_the_same(text in NEARLY) {
            if let Ok(list) = JobImages::parse(&text) {
                let again = JobImages::parse(&list.to_string());
                proptest::prop_assert_eq!(again, Ok(list));
            }
        }

        #[test]
        fn whatever_is_in_the_variable_is_read_or_refused(text in ".*") {
            let _ = JobImages::parse(&text);
            let _ = JobImages::parse(&format!("2,{text}"));
        }
    }
}
