// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! A registry with one image in it, the ways to get that image, and to put it there.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use cabane_testkit::RealRegistry;
use tempfile::TempDir;

use crate::bed::Bed;
use crate::listing::only_entry;
use crate::measure::{Candidate, NotMeasured, finish};
use crate::peers;
use crate::tree::Random;
use crate::users::is_root;

const LABEL: &str = "bulk/1:v1@here%any";
/// The same place as other clients write it, behind the host.
const PLACE: &str = "deploy/here/any/bulk/1";
const TAG: &str = "v1";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// The configuration that says nothing, and its sum.
const NOTHING: (&str, &str) =
    ("44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a", "{}");

/// A registry with one image in it, on one file system with all copies of it.
pub(crate) struct Depot<'a> {
    bed: &'a Bed,
    // Ends before its files are removed.
    registry: RealRegistry,
    digest: String,
    directory: TempDir,
}

/// Starts Debian's registry in a directory.
pub(crate) fn start_registry(directory: &Path) -> Result<RealRegistry, NotMeasured> {
    // The testkit finds the same one, and would not say why there is none.
    peers::DOCKER_REGISTRY.find()?;
    Ok(RealRegistry::start(directory))
}

impl<'a> Depot<'a> {
    /// Makes an image of about this size, and pushes it. There is only the one in the registry
    /// at the end: they are large.
    pub(crate) fn make(bed: &'a Bed, parent: &Path, bytes: u64) -> Result<Self, NotMeasured> {
        let directory = tempfile::Builder::new()
            .prefix("cabane-bench-depot-")
            .tempdir_in(parent)
            .map_err(|error| format!("cannot make a directory: {error}"))?;
        let path = directory.path();
        let registry = start_registry(&path.join("registry"))?;
        let image = make_image(bed, path, bytes)?;
        let mut depot = Self { bed, registry, digest: String::new(), directory };
        depot.clear("source")?;
        let mut add = bed.cabane(&depot.path("source"))?;
        finish(add.args(["image", "add", "--move", LABEL]).arg(&image))?;
        let digest = only_entry(&depot.path("source").join("images"));
        depot.digest = digest.map_err(|error| format!("no image was added: {error}"))?;
        finish(&mut depot.push_command()?)?;
        depot.clear("source")?;
        depot.clear("target")?;
        Ok(depot)
    }

    /// Gets the image that is to be pushed, and what the registry says about it.
    pub(crate) fn turn_round(&self) -> Result<(), NotMeasured> {
        finish(&mut self.pull_command("source")?)?;
        let layout = self.path("layout");
        let failed = |error: io::Error| format!("cannot write an image for skopeo: {error}");
        fs::create_dir(&layout).map_err(failed)?;
        let manifest = layout.join("manifest.json");
        let url = format!("{}/v2/{PLACE}/manifests/{TAG}", self.registry.url());
        let mut get = self.bed.command(peers::CURL.find()?);
        get.args(["-sSf", "-H", &format!("Accept: {MANIFEST}"), "-o"]);
        finish(get.arg(&manifest).arg(url))?;
        fs::hard_link(self.image(), layout.join(&self.digest))
            .and_then(|()| fs::write(layout.join(NOTHING.0), NOTHING.1))
            .and_then(|()| fs::write(layout.join("version"), "Directory Transport Version: 1.1\n"))
            .map_err(failed)?;
        finish(&mut self.emptied()).map(drop)
    }

    /// `cabane image pull` into an empty repository.
    pub(crate) fn pull(&self) -> Candidate {
        let candidate = Candidate::new("`cabane image pull`", self.pull_command("target"));
        match self.clearing("target") {
            Ok(clear) => candidate.tidied_by(clear),
            Err(_) => candidate,
        }
    }

    /// A GET of the blob into a file, which is then written to disk.
    pub(crate) fn pull_raw(&self) -> Candidate {
        let text = r#""$1" -sSf -o "$2" "$3"; sync "$2""#;
        let (url, file) = (self.registry.url(), self.path("raw"));
        let blob = format!("{url}/v2/{PLACE}/blobs/sha256:{}", self.digest);
        let command = peers::CURL
            .find()
            .map(|curl| self.script(text, &[curl.as_ref(), file.as_ref(), blob.as_ref()]));
        Candidate::new("`curl`", command).tidied_by(self.without("raw"))
    }

    pub(crate) fn pull_with_oras(&self) -> Candidate {
        let text = r#""$1" pull --plain-http -o "$2" "$3"; sync "$2"/*"#;
        let (directory, name) = (self.path("oras"), self.name());
        let command = peers::ORAS
            .find()
            .map(|oras| self.script(text, &[oras.as_ref(), directory.as_ref(), name.as_ref()]));
        Candidate::new("`oras pull`", command).tidied_by(self.without("oras"))
    }

    pub(crate) fn pull_with_skopeo(&self) -> Candidate {
        let (to, from) = (self.path("skopeo"), format!("docker://{}", self.name()));
        let mut arguments = vec!["--src-tls-verify=false".to_owned(), from];
        arguments.push(format!("dir:{}", to.display()));
        let text = r#"to="$1"; shift; "$@"; sync "$to"/*"#;
        let command = skopeo(&arguments).map(|arguments| {
            let arguments = arguments.iter().map(String::as_ref);
            let arguments: Vec<&OsStr> = [to.as_ref()].into_iter().chain(arguments).collect();
            self.script(text, &arguments)
        });
        Candidate::new("`skopeo copy` to a directory", command).tidied_by(self.without("skopeo"))
    }

    /// `cabane image push` from a repository into an empty registry.
    pub(crate) fn push(&self) -> Candidate {
        Candidate::new("`cabane image push`", self.push_command()).tidied_by(self.emptied())
    }

    /// A POST, and one PUT of the file.
    pub(crate) fn push_raw(&self) -> Candidate {
        let text = r#"to=$("$1" -sSf -D - -o /dev/null -X POST "$2" |
            tr -d '\r' | sed -n 's/^[Ll]ocation: *//p')
            "$1" -sSf -H Expect: -T "$3" "$to&digest=sha256:$4""#;
        let (image, digest) = (self.image(), &self.digest);
        let begin = format!("{}/v2/{PLACE}/blobs/uploads/", self.registry.url());
        let command = peers::CURL.find().map(|curl| {
            let arguments = [curl.as_ref(), begin.as_ref(), image.as_ref(), digest.as_ref()];
            self.script(text, &arguments)
        });
        Candidate::new("`curl`", command).tidied_by(self.emptied())
    }

    pub(crate) fn push_with_oras(&self) -> Candidate {
        let command = peers::ORAS.find().map(|oras| {
            let mut command = self.bed.command(oras);
            command.args(["push", "--plain-http", "--disable-path-validation"]);
            command.args(["--artifact-type", "application/x-squashfs"]);
            command.arg(self.name()).arg(self.image());
            command
        });
        Candidate::new("`oras push`", command).tidied_by(self.emptied())
    }

    pub(crate) fn push_with_skopeo(&self) -> Candidate {
        let layout = format!("dir:{}", self.path("layout").display());
        let to = format!("docker://{}", self.name());
        let arguments = ["--dest-tls-verify=false".to_owned(), layout, to];
        let command = skopeo(&arguments).map(|arguments| {
            let mut command = self.bed.command(&arguments[0]);
            command.args(&arguments[1..]);
            command
        });
        Candidate::new("`skopeo copy` from a directory", command).tidied_by(self.emptied())
    }

    fn pull_command(&self, repository: &str) -> Result<Command, NotMeasured> {
        let mut command = self.bed.cabane(&self.path(repository))?;
        command.args(["image", "pull", LABEL, "--registry", &self.registry.url()]);
        Ok(command)
    }

    fn push_command(&self) -> Result<Command, NotMeasured> {
        let mut command = self.bed.cabane(&self.path("source"))?;
        command.args(["image", "push", LABEL, "--registry", &self.registry.url()]);
        Ok(command)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The file that is pushed.
    fn image(&self) -> PathBuf {
        let images = self.path("source").join("images");
        images.join(&self.digest).join("image")
    }

    fn name(&self) -> String {
        format!("{}/{PLACE}:{TAG}", self.registry.host())
    }

    /// Makes a repository empty.
    fn clear(&self, repository: &str) -> Result<(), NotMeasured> {
        finish(&mut self.clearing(repository)?).map(drop)
    }

    fn clearing(&self, repository: &str) -> Result<Command, NotMeasured> {
        let cabane = self.bed.cabane.as_ref().map_err(Clone::clone)?;
        let text = r#"rm -rf "$2"; "$1" repo create "$2""#;
        let path = self.path(repository);
        Ok(self.script(text, &[cabane.as_ref(), path.as_ref()]))
    }

    fn without(&self, name: &str) -> Command {
        self.script(r#"rm -rf "$1""#, &[self.path(name).as_ref()])
    }

    /// Takes everything out of the registry; it keeps nothing in memory.
    fn emptied(&self) -> Command {
        let data = self.registry.data().join("docker");
        self.script(r#"rm -rf "$1""#, &[data.as_ref()])
    }

    fn script(&self, text: &str, arguments: &[&OsStr]) -> Command {
        let mut command = self.bed.command("/bin/sh");
        command.args(["-euc", text, "sh"]).args(arguments);
        command
    }
}

/// Prepares `skopeo copy`. For root it keeps a file among those of the system; so root
/// becomes another user, who keeps it in a home directory.
pub(crate) fn skopeo(arguments: &[String]) -> Result<Vec<String>, NotMeasured> {
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    let mut command = Vec::new();
    if is_root() {
        let unshare = text(peers::UNSHARE.find()?);
        command.extend([unshare, "--user".to_owned(), "--map-user=1".to_owned()]);
    }
    command.push(text(peers::SKOPEO.find()?));
    command.extend(["copy", "--quiet", "--insecure-policy"].map(str::to_owned));
    command.extend_from_slice(arguments);
    Ok(command)
}

/// Makes an image of bytes that no one can compress, in nearly no time.
fn make_image(bed: &Bed, directory: &Path, bytes: u64) -> Result<PathBuf, NotMeasured> {
    let (tree, image) = (directory.join("tree"), directory.join("bulk.squashfs"));
    let meta = r#"{"name": "bulk", "description": "a lot of bytes", "mount": "/user-environment", "views": {}}"#;
    let written = fs::create_dir_all(tree.join("meta"))
        .and_then(|()| fs::write(tree.join("meta/env.json"), meta))
        .and_then(|()| noise(&tree.join("noise"), bytes));
    written.map_err(|error| format!("cannot write what is to be moved: {error}"))?;
    let mut pack = bed.command(peers::MKSQUASHFS.find()?);
    pack.arg(&tree).arg(&image);
    pack.args(["-noappend", "-no-progress", "-quiet", "-noI", "-noD"]);
    let packed = finish(pack.args(["-no-fragments", "-no-xattrs"]));
    let removed = fs::remove_dir_all(&tree);
    packed?;
    removed.map_err(|error| format!("cannot remove a tree: {error}"))?;
    Ok(image)
}

fn noise(path: &Path, bytes: u64) -> io::Result<()> {
    let mut file = File::create(path)?;
    let (mut random, mut chunk) = (Random::new(bytes), vec![0; 1 << 20]);
    for _ in 0..bytes >> 20 {
        for word in chunk.chunks_exact_mut(8) {
            word.copy_from_slice(&random.next().to_le_bytes());
        }
        file.write_all(&chunk)?;
    }
    Ok(())
}
