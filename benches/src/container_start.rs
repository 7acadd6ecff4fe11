// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What it costs to start a program in an image that is the whole root file system.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::bed::Bed;
use crate::comparison::Comparisons;
use crate::container_import::LABEL;
use crate::container_layout::Layout;
use crate::measure::{Candidate, NotMeasured, finish};
use crate::options::Options;
use crate::peers::{self, Peer};
use crate::report::{Section, Table};
use crate::starters::{Before, Through};
use crate::users::{as_ordinary_user, is_root};

const TITLE: &str = "Containers: start";
const METHOD: &str = "\
`true` in an imported image of 100 MB, over `true` outside. Cabane provides a root file system \
with `/dev`, `/proc`, `/sys`, `/tmp`, the home and working directories of the machine, user \
names, and the variables of the image. *Held* and *alone* are as in the sections about starts of \
`docs/performance.md`: already mounted on the node, or mounted nowhere. The other tools use the \
same files from a directory, unpacked beforehand, with the same view of the machine; or \
squashfuse mounts the image for them, and the unmount is not timed.";

pub(crate) fn section(
    bed: &Bed,
    options: &Options,
    layout: &Result<Layout, NotMeasured>,
) -> Section {
    let start = layout.as_ref().map_err(Clone::clone).and_then(|layout| Start::make(bed, layout));
    let start = match start {
        Ok(start) => start,
        Err(reason) => return Section::not_measured(TITLE, &reason),
    };
    let mut section = Section::new(TITLE, METHOD);
    match bed.with_helper() {
        Ok(_site) => {
            let table = as_ordinary_user(|| start.through_the_helper(options));
            section.tables.push(table);
        }
        Err(reason) => section.remarks.push(format!("Through the helper: not measured: {reason}.")),
    }
    match bed.have_policy(false) {
        Ok(()) => {
            let table = as_ordinary_user(|| start.in_a_user_namespace(options));
            section.tables.push(table);
            if is_root() {
                section.tables.push(start.as_root(options));
            }
        }
        Err(reason) => section.remarks.push(format!("Not measured: {reason}.")),
    }
    section
}

/// An image, in a repository and unpacked.
struct Start<'a> {
    bed: &'a Bed,
    repository: PathBuf,
    /// A copy, so that no one finds a loop device of ours.
    image: PathBuf,
    tree: PathBuf,
    fuse: PathBuf,
    /// Where Podman keeps what it wants to keep.
    podman: PathBuf,
}

impl<'a> Start<'a> {
    fn make(bed: &'a Bed, layout: &Layout) -> Result<Self, NotMeasured> {
        let start = Self {
            bed,
            repository: bed.path("repository-containers"),
            image: bed.path("root.squashfs"),
            tree: bed.path("root"),
            fuse: bed.directory("root-fuse")?,
            podman: bed.directory("root-podman")?,
        };
        let cabane = bed.cabane.as_ref().map_err(Clone::clone)?;
        finish(bed.command(cabane).args(["repo", "create"]).arg(&start.repository))?;
        let mut import = bed.cabane(&start.repository)?;
        let layout = format!("oci:{}:1", layout.path.display());
        finish(import.args(["import", &layout, LABEL]))?;
        let copy = r#"cp "$1"/images/*/image "$2"; chmod 0644 "$2"
            unsquashfs -quiet -no-progress -dest "$3" "$2"
            ln -sf /proc/mounts "$3/etc/mtab""#;
        let mut command = bed.command("/bin/sh");
        command.args(["-euc", copy, "sh"]).arg(&start.repository);
        finish(command.arg(&start.image).arg(&start.tree))?;
        Ok(start)
    }

    fn through_the_helper(&self, options: &Options) -> Table {
        let mut compare = Comparisons::ratios(options.short_rounds());
        let cabane = |before| self.cabane(Through::Helper, before);
        compare.compare(cabane(Before::Held), self.bare(), None);
        compare.compare(cabane(Before::Alone), self.bare(), None);
        compare.compare(cabane(Before::Held), self.bubblewrap(), None);
        compare.compare(cabane(Before::Alone), self.bubblewrap(), None);
        let caption = "As an ordinary user, through the helper";
        compare.table().captioned(caption.to_owned())
    }

    fn in_a_user_namespace(&self, options: &Options) -> Table {
        let mut compare = Comparisons::ratios(options.long_rounds());
        let cabane = || self.cabane(Through::UserNamespace, Before::Held);
        compare.compare(self.bare(), self.bare(), None);
        compare.compare(cabane(), self.bare(), None);
        compare.compare(self.bubblewrap(), self.bare(), None);
        compare.compare(self.squashfuse_and_bubblewrap(), self.bare(), None);
        compare.compare(cabane(), self.squashfuse_and_bubblewrap(), None);
        for other in self.others() {
            compare.compare(other, self.bare(), None);
        }
        let caption = "As an ordinary user, in a user namespace";
        compare.table().captioned(caption.to_owned())
    }

    fn as_root(&self, options: &Options) -> Table {
        let mut compare = Comparisons::ratios(options.short_rounds());
        let cabane = || self.cabane(Through::Root, Before::Held);
        compare.compare(cabane(), self.bare(), None);
        compare.compare(self.bubblewrap(), self.bare(), None);
        compare.compare(cabane(), self.bubblewrap(), None);
        let caption = "As root, where each start has a mount of its own";
        compare.table().captioned(caption.to_owned())
    }

    fn bare(&self) -> Candidate {
        Candidate::new("`true`", Ok(self.bed.command("/bin/true")))
    }

    fn cabane(&self, through: Through, before: Before) -> Candidate {
        let command = self.bed.cabane(&self.repository).map(|mut command| {
            let backend = ["--backend", through.option(), "run", LABEL];
            command.args(backend).args(["--", "/bin/true"]);
            command
        });
        let name = match through {
            Through::Helper => format!("`cabane run`, {}", before.name()),
            _ => "`cabane run`".to_owned(),
        };
        let candidate = Candidate::new(name, command);
        match (before, self.bed.clean_mounts()) {
            (Before::Alone, Ok(clean)) => candidate.tidied_by(clean),
            _ => candidate,
        }
    }

    /// bubblewrap with the files of the image from a directory.
    fn bubblewrap(&self) -> Candidate {
        let command = peers::BWRAP.find().map(|bwrap| {
            let mut command = self.bed.command(bwrap);
            let_see(&mut command, &self.tree);
            command.arg("/bin/true");
            command
        });
        Candidate::new("bubblewrap, unpacked", command)
    }

    fn squashfuse_and_bubblewrap(&self) -> Candidate {
        let text = r#"fuse=$1 image=$2 from=$3; shift 3; "$fuse" "$image" "$from" && exec "$@""#;
        let command = || {
            let (squashfuse, bwrap) = (peers::SQUASHFUSE.find()?, peers::BWRAP.find()?);
            let mut command = self.bed.command("/bin/sh");
            command.args(["-c", text, "sh"]).arg(squashfuse);
            command.arg(&self.image).arg(&self.fuse).arg(bwrap);
            let_see(&mut command, &self.fuse);
            command.arg("/bin/true");
            Ok(command)
        };
        let candidate = Candidate::new("squashfuse_ll and bubblewrap", command());
        let Ok(fusermount) = peers::FUSERMOUNT.find() else {
            return candidate;
        };
        let mut unmount = self.bed.command(fusermount);
        unmount.arg("-u").arg(&self.fuse);
        candidate.tidied_by(unmount)
    }

    /// What else starts containers, from the directory.
    fn others(&self) -> Vec<Candidate> {
        let with = |name: &str, peer: Peer, arguments: &[&str]| {
            let command = peer.find().map(|program| {
                let mut command = self.bed.command(program);
                command.env("USER", "bench").env("HOME", &self.podman);
                command.args(arguments).arg(&self.tree);
                command
            });
            (name.to_owned(), command)
        };
        // A user who is not logged in has no control groups of their own.
        let run = ["run", "--rm", "--network=host", "--cgroups=disabled"];
        let place = |name: &str| self.podman.join(name).to_string_lossy().into_owned();
        let (root, run_root) = (place("root"), place("run"));
        let store = ["--storage-driver=vfs", "--root", &root, "--runroot", &run_root];
        let podman = [&store[..], &run, &["--rootfs"]].concat();
        let ways = [
            (with("`ch-run`", peers::CH_RUN, &[]), vec!["--", "/bin/true"]),
            (with("`apptainer exec`", peers::APPTAINER, &["exec"]), vec!["/bin/true"]),
            (with("`podman run`", peers::PODMAN, &podman), vec!["/bin/true"]),
        ];
        let candidate =
            |((name, command), arguments): ((String, Result<Command, _>), Vec<&str>)| {
                let command = command.map(|mut command| {
                    command.args(arguments);
                    command
                });
                Candidate::new(name, command)
            };
        ways.into_iter().map(candidate).collect()
    }
}

/// Says to bubblewrap what is to be seen: what Cabane shows, too.
fn let_see(command: &mut Command, root: &Path) {
    command.arg("--ro-bind").arg(root).arg("/");
    command.args(["--dev-bind", "/dev", "/dev", "--bind", "/proc", "/proc"]);
    command.args(["--ro-bind", "/sys", "/sys", "--bind", "/tmp", "/tmp"]);
    command.args(["--ro-bind", "/etc/resolv.conf", "/etc/resolv.conf"]);
    command.args(["--ro-bind", "/etc/passwd", "/etc/passwd"]);
    command.args(["--ro-bind", "/etc/group", "/etc/group"]);
}
