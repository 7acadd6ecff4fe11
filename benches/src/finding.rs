// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What it costs to find images in a registry with ten thousand of them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use cabane_testkit::RealRegistry;

use crate::bed::Bed;
use crate::depot::start_registry;
use crate::goal::Goal;
use crate::listing::{only_entry, pair};
use crate::measure::{Candidate, NotMeasured, Rounds, finish};
use crate::options::Options;
use crate::peers;
use crate::report::{Section, Table};
use crate::tree::Random;

const IMAGES: usize = 10_000;
/// How long a cached answer may take, in milliseconds.
const GOAL: f64 = 30.0;
/// The one image that is really pushed, and how its line in the index begins.
const MODEL: &str = "model/1:v1@here%any";
const MODEL_LINE: &str = "model_-1_-v1_-here_-any_.";
const SYSTEMS: [&str; 4] = ["here", "daint", "eiger", "clariden"];
const UARCHS: [&str; 3] = ["zen2", "zen3", "gh200"];
const INDEX: &str = "deploy/cabane-index";

const TITLE: &str = "Registries: find";
const METHOD: &str = "\
Debian's docker-registry with an index of 10,000 images: one was pushed, and the tags of the \
others were written into its storage in the registry's own format. `listing = \"index\"`, over \
loopback, the complete command, output discarded. *Requested* downloads the index from the \
registry (`--refresh`); `curl` downloads the same list of tags and discards it. *Cached* only \
checks that the last list is still valid. `--package` searches the packages of all images, 300 \
in each, which were downloaded before.";

pub(crate) fn section(bed: &Bed, options: &Options) -> Section {
    match Finder::make(bed) {
        Ok(finder) => finder.measure(options),
        Err(reason) => Section::not_measured(TITLE, &reason),
    }
}

/// A registry with many images in it.
struct Finder<'a> {
    bed: &'a Bed,
    registry: RealRegistry,
}

impl<'a> Finder<'a> {
    fn make(bed: &'a Bed) -> Result<Self, NotMeasured> {
        let registry = start_registry(&bed.path("index-registry"))?;
        let finder = Self { bed, registry };
        fs::write(bed.path(CONFIGURATION), "[registry]\nlisting = \"index\"\n")
            .map_err(|error| format!("cannot write a configuration: {error}"))?;
        let image = stack_image(bed)?;
        let mut push = finder.cabane(&["image", "push"])?;
        finish(push.arg(image).arg(MODEL))?;
        multiply(&finder.registry.data())
            .map_err(|error| format!("cannot fill the index: {error}"))?;
        let all = finish(&mut finder.find(&["--refresh", "--no-header"])?)?;
        match String::from_utf8_lossy(&all).lines().count() {
            IMAGES => Ok(finder),
            count => Err(format!("the registry lists {count} of {IMAGES} images")),
        }
    }

    fn measure(&self, options: &Options) -> Section {
        let mut table =
            Table::new(&["command", "ms: min / median [quartiles]", "target", "reached", "runs"]);
        let find = |name: &str, arguments: &[&str]| Candidate::new(name, self.find(arguments));
        let rounds = options.long_rounds();
        // They take longer, and ask a server that does.
        let few = Rounds { warm_up: 1, pairs: (rounds.pairs / 4).max(3) };
        let requested = find("`image find`, requested", &["--refresh"]);
        let raw = Candidate::new("`curl` of the tags", self.tags());
        pair(&mut table, requested, raw, few, [None, None]);
        let kept = find("`image find`, cached", &[]);
        let json = find("`image find --json`, cached", &["--json"]);
        let times = pair(&mut table, kept, json, rounds, [Some(GOAL); 2]);
        // The contents of all images are fetched before anything is measured.
        let (one, none) = (["--package", PACKAGE], ["--package", "nothing"]);
        let has = find("`image find --package`, all have it", &one);
        let lacks = find("`image find --package`, none has it", &none);
        pair(&mut table, has, lacks, rounds, [None, None]);
        let goal = Goal::at_most("`image find` among 10,000 images, cached", GOAL, "ms")
            .reached_by("table", times.0)
            .reached_by("`--json`", times.1);
        Section {
            title: TITLE,
            method: METHOD.to_owned(),
            tables: vec![table],
            goals: vec![goal],
            remarks: Vec::new(),
        }
    }

    /// Lists the images of all systems.
    fn find(&self, arguments: &[&str]) -> Result<Command, NotMeasured> {
        let mut command = self.cabane(&["image", "find", "@*"])?;
        command.args(arguments);
        Ok(command)
    }

    fn cabane(&self, arguments: &[&str]) -> Result<Command, NotMeasured> {
        let mut command = self.bed.cabane(&self.bed.path("no-repository"))?;
        command
            .env("CABANE_SITE_CONFIG", self.bed.path(CONFIGURATION))
            .env("CABANE_REGISTRY", self.registry.url())
            .args(arguments);
        Ok(command)
    }

    fn tags(&self) -> Result<Command, NotMeasured> {
        let mut command = self.bed.command(peers::CURL.find()?);
        let url = format!("{}/v2/{INDEX}/tags/list", self.registry.url());
        command.args(["-sSf", &url]);
        Ok(command)
    }
}

const CONFIGURATION: &str = "find.toml";
const PACKAGES: usize = 300;
/// One of them.
const PACKAGE: &str = "package-7@1.7:+mpi";

/// Makes a tiny image that says it has as many packages as a stack.
fn stack_image(bed: &Bed) -> Result<PathBuf, NotMeasured> {
    let (tree, image) = (bed.path("stack-tree"), bed.path("stack.squashfs"));
    let package = |number: usize| {
        format!(
            r#"{{"name": "package-{number}", "version": "1.{number}.0", "hash": "{number:032x}",
"manager": "spack", "variants": "~cuda+mpi+shared build_system=cmake build_type=Release",
"compilers": ["gcc@13.2.0"], "target": "zen3"}}"#
        )
    };
    let packages: Vec<_> = (0..PACKAGES).map(package).collect();
    let list = format!(r#"{{"version": 1, "packages": [{}]}}"#, packages.join(",\n"));
    let meta = r#"{"name": "model", "mount": "/user-environment", "views": {}}"#;
    fs::create_dir_all(tree.join("meta"))
        .and_then(|()| fs::write(tree.join("meta/env.json"), meta))
        .and_then(|()| fs::write(tree.join("meta/packages.json"), list))
        .map_err(|error| format!("cannot write metadata: {error}"))?;
    let mut pack = bed.command(peers::MKSQUASHFS.find()?);
    let options = ["-noappend", "-no-progress", "-quiet"];
    finish(pack.arg(&tree).arg(&image).args(options))?;
    Ok(image)
}

/// Copies the line of the one image under other labels and digests. Of a line only the tag is
/// looked at; all of them are of one manifest.
fn multiply(data: &Path) -> io::Result<()> {
    let repository = data.join("docker/registry/v2/repositories").join(INDEX);
    let tags = repository.join("_manifests/tags");
    let model = only_entry(&tags)?;
    let (rest, _) = model
        .strip_prefix(MODEL_LINE)
        .and_then(|rest| rest.rsplit_once('.'))
        .ok_or_else(|| io::Error::other("the index has another form"))?;
    let target = fs::read(tags.join(&model).join("current/link"))?;
    let mut random = Random::new(10_000);
    for number in 1..IMAGES {
        // Letters of base64, of which the last has no bits too many.
        let parts: Vec<String> = (0..3).map(|_| format!("{:016x}", random.next())).collect();
        let digest = format!("{}A", &parts.concat()[..42]);
        let (system, uarch) = (SYSTEMS[number % 4], UARCHS[number % 3]);
        let label = format!("image-{:04}_-1.{}_-v1_-{system}_-{uarch}", number / 10, number % 10);
        let tag = tags.join(format!("{label}_.{rest}.{digest}"));
        fs::create_dir_all(tag.join("current"))?;
        fs::write(tag.join("current/link"), &target)?;
    }
    Ok(())
}
