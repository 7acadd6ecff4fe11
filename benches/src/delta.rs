// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What is downloaded of an image that was built again with another version of one package.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use cabane_testkit::RealRegistry;

use crate::bed::Bed;
use crate::comparison::not_measured;
use crate::depot::start_registry;
use crate::goal::Goal;
use crate::measure::{NotMeasured, finish};
use crate::options::Options;
use crate::packing::write_recipe;
use crate::peers;
use crate::prefixes::{self, Stack};
use crate::processor::to_float;
use crate::report::{Section, Table};
use crate::statistics::Summary;

/// What may be downloaded over the compressed size of the files that changed.
const TARGET: f64 = 1.0;
/// Files of a package with which images are large enough to be compared at all.
const FEWEST: usize = 60;
const TITLE: &str = "Registries: an image that was built again";
const METHOD: &str = "\
A stack of 60 packages in prefixes as Spack creates them: the hash in the name of a prefix \
changes with the package and with its dependencies, and libraries and scripts contain the \
prefixes that they use. The second version replaces one package that is larger than the others \
and that nine packages depend on. `cabane build` builds both versions, which are pushed to \
Debian's docker-registry; the first is in the repository when the second is pulled. *Downloaded* \
is everything that the registry then sent, according to its log, with manifests, metadata, and \
the list of chunks. *Changed* is an image of only those files whose content exists at no path of \
the first version.";

const STORE: &str = "/user-environment";
const FORMATS: [&str; 2] = ["squashfs", "erofs"];

pub(crate) fn section(bed: &Bed, options: &Options) -> Section {
    let files = (options.files() / 200).max(FEWEST);
    let stack = match Stack::make(&bed.path("delta"), files) {
        Ok(stack) => stack,
        Err(error) => return Section::not_measured(TITLE, &format!("cannot make trees: {error}")),
    };
    let mut table = Table::new(&[
        "image",
        "MB",
        "changed, MB",
        "downloaded, MB",
        "over what changed",
        "over the image",
        "target",
        "reached",
        "requests",
    ]);
    let what = "bytes downloaded of an image with one updated package, over the files that changed";
    let mut goal = Goal::ratio(what, TARGET);
    for format in FORMATS {
        match measure(bed, &stack, format) {
            Ok(delta) => {
                let ratio = Summary::of(&[delta.over_changed()]);
                // EROFS describes files beside their content, by places that all move.
                let counts = format == "squashfs";
                if counts {
                    goal.note(format, ratio);
                }
                table.push(delta.row(format, counts));
            }
            Err(reason) => table.push(vec![format.to_owned(), not_measured(&reason)]),
        }
    }
    let caption = format!("{} files, {} of them changed", stack.files, stack.changed);
    Section {
        title: TITLE,
        method: METHOD.to_owned(),
        tables: vec![table.captioned(caption)],
        goals: vec![goal],
        remarks: Vec::new(),
    }
}

/// What was sent, in bytes.
struct Delta {
    image: u64,
    changed: u64,
    downloaded: u64,
    requests: usize,
}

impl Delta {
    fn over_changed(&self) -> f64 {
        to_float(self.downloaded) / to_float(self.changed)
    }

    fn row(&self, format: &str, counts: bool) -> Vec<String> {
        let megabytes = |bytes| format!("{:.1}", to_float(bytes) / 1e6);
        let ratio = self.over_changed();
        let reached = if ratio <= TARGET { "yes" } else { "no" };
        vec![
            format.to_owned(),
            megabytes(self.image),
            megabytes(self.changed),
            format!("**{:.2}**", to_float(self.downloaded) / 1e6),
            format!("**{ratio:.2}**"),
            format!("{:.3}", to_float(self.downloaded) / to_float(self.image)),
            if counts { format!("≤ {TARGET}") } else { String::new() },
            if counts { reached.to_owned() } else { String::new() },
            self.requests.to_string(),
        ]
    }
}

fn measure(bed: &Bed, stack: &Stack, format: &str) -> Result<Delta, NotMeasured> {
    let place = stack.root.join(format);
    let failed = |error: io::Error| format!("cannot write in {}: {error}", place.display());
    fs::create_dir_all(&place).map_err(failed)?;
    let registry = start_registry(&place.join("registry"))?;
    let repository = place.join("repository");
    finish(
        bed.command(bed.cabane.as_ref().map_err(Clone::clone)?)
            .args(["repo", "create"])
            .arg(&repository),
    )?;
    let mut image = 0;
    for version in prefixes::VERSIONS {
        image = push(bed, &registry, &stack.tree(version), &place, version, format)?;
        if version == prefixes::VERSIONS[0] {
            finish(&mut pull(bed, &registry, &repository, version)?)?;
        }
    }
    let before = registry.log().len();
    finish(&mut pull(bed, &registry, &repository, prefixes::VERSIONS[1])?)?;
    let log = registry.log();
    let sent: Vec<u64> = log.get(before..).unwrap_or_default().lines().filter_map(sent).collect();
    let changed = packed(bed, &stack.tree("changed"), &place.join("changed"), format)?;
    let _ = fs::remove_dir_all(&place);
    if sent.is_empty() {
        return Err("the registry does not log what it sends".to_owned());
    }
    Ok(Delta { image, changed, downloaded: sent.iter().sum(), requests: sent.len() })
}

/// Builds a version and pushes it; returns the size of the image.
fn push(
    bed: &Bed,
    registry: &RealRegistry,
    tree: &Path,
    place: &Path,
    version: &str,
    format: &str,
) -> Result<u64, NotMeasured> {
    let image = place.join(format!("image-{version}"));
    let recipe = write_recipe(bed, tree, Path::new(STORE))?;
    let mut build = bed.cabane(&bed.path("no-repository"))?;
    build.arg("build").arg(recipe).arg("--output").arg(&image);
    build.args(["--image-format", format, "--build-dir"]);
    finish(build.arg(place.join("build")))?;
    let mut push = bed.cabane(&bed.path("no-repository"))?;
    push.args(["image", "push", "--registry", &registry.url()]);
    finish(push.arg(&image).arg(label(version)))?;
    let found = fs::metadata(&image).map_err(|error| format!("no image: {error}"))?;
    let removed = fs::remove_file(&image).and_then(|()| fs::remove_dir_all(place.join("build")));
    removed.map_err(|error| format!("cannot remove an image: {error}"))?;
    Ok(found.len())
}

fn pull(
    bed: &Bed,
    registry: &RealRegistry,
    repository: &Path,
    version: &str,
) -> Result<Command, NotMeasured> {
    let mut command = bed.cabane(repository)?;
    command.args(["image", "pull", &label(version)]);
    command.args(["--registry", &registry.url()]);
    Ok(command)
}

fn label(version: &str) -> String {
    format!("delta/{version}:v1@here%any")
}

/// Packs the files that changed, in the same way; returns the size.
fn packed(bed: &Bed, tree: &Path, image: &Path, format: &str) -> Result<u64, NotMeasured> {
    let mut command = if format == "erofs" {
        let mut command = bed.command(peers::MKFS_EROFS.find()?);
        command.args(["--quiet", "-zlz4", "-x-1"]).arg(image).arg(tree);
        command
    } else {
        let mut command = bed.command(peers::MKSQUASHFS.find()?);
        command.arg(tree).arg(image);
        command.args(["-noappend", "-no-progress", "-quiet", "-no-xattrs"]);
        command.args(["-comp", "zstd", "-Xcompression-level", "3"]);
        command
    };
    finish(&mut command)?;
    let found = fs::metadata(image).map_err(|error| format!("no image: {error}"))?;
    Ok(found.len())
}

/// Returns how many bytes were sent, from a line such as
/// `127.0.0.1 - - [date] "GET /v2/… HTTP/1.1" 206 4711 "" "cabane"`.
fn sent(line: &str) -> Option<u64> {
    let (_, behind) = line.split_once("HTTP/1.1\" ")?;
    let mut fields = behind.split(' ');
    let status = fields.next()?;
    let bytes = fields.next()?.parse().ok()?;
    (status.len() == 3 && line.contains("\"GET /")).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_sent_to_its_requester_is_counted() {
        let line = |method: &str| {
            format!(
                "127.0.0.1 - - [22/Nov/2026:01:00:00 +0000] \"{method} /v2/a HTTP/1.1\" 206 4711 \"\" \"cabane\""
            )
        };
        assert_eq!(sent(&line("GET")), Some(4711));
        assert_eq!(sent(&line("PUT")), None);
        assert_eq!(sent("time=\"…\" level=info msg=\"response completed\""), None);
    }
}
