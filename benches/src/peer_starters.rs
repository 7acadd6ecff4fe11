// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The ways of others to start a program in an image.

use std::ffi::OsString;

use crate::images::image_at;
use crate::measure::Candidate;
use crate::peers;
use crate::starters::Starters;

impl Starters<'_> {
    /// What one would type without any tool.
    pub(crate) fn unshare(&self) -> Candidate {
        let script = r#"mount -o loop,ro "$1" "$2" && shift 2 && exec "$@""#;
        let command = || {
            let mut command = self.bed.command(peers::UNSHARE.find()?);
            command.args(["-m", "/bin/sh", "-c", script, "sh"]).arg(&self.images.for_peers);
            command.arg(&self.images.mount_point).args(&self.inside);
            Ok(command)
        };
        Candidate::new("`unshare -m`, `mount -o loop`", command())
    }

    pub(crate) fn squashfs_mount(&self) -> Candidate {
        let command = || {
            let program = self.bed.world.squashfs_mount.as_ref();
            let mut command = self.bed.command(program.map_err(Clone::clone)?);
            command.arg(self.image_and_mount_point()).arg("--").args(&self.inside);
            Ok(command)
        };
        Candidate::new("squashfs-mount", command())
    }

    pub(crate) fn uenv(&self) -> Candidate {
        let command = || {
            let mut command = self.bed.command(peers::UENV.find()?);
            command.arg("run").arg(self.image_and_mount_point()).arg("--").args(&self.inside);
            Ok(command)
        };
        Candidate::new("`uenv run`", command())
    }

    fn image_and_mount_point(&self) -> OsString {
        image_at(&self.images.for_peers, &self.images.mount_point)
    }

    /// squashfuse and bubblewrap; what squashfuse mounted is unmounted off the clock.
    pub(crate) fn bubblewrap(&self) -> Candidate {
        let script = r#"fuse=$1 image=$2 from=$3 bwrap=$4 to=$5 && shift 5 &&
            "$fuse" "$image" "$from" && exec "$bwrap" --dev-bind / / --ro-bind "$from" "$to" "$@""#;
        let command = || {
            let mut command = self.bed.command("/bin/sh");
            command.args(["-c", script, "sh"]).arg(peers::SQUASHFUSE.find()?);
            command.arg(&self.images.for_peers).arg(&self.images.fuse_mount_point);
            command.arg(peers::BWRAP.find()?).arg(&self.images.mount_point).args(&self.inside);
            Ok(command)
        };
        let candidate = Candidate::new("squashfuse_ll and bubblewrap", command());
        let Ok(fusermount) = peers::FUSERMOUNT.find() else {
            return candidate;
        };
        let mut unmount = self.bed.command(fusermount);
        unmount.arg("-u").arg(&self.images.fuse_mount_point);
        candidate.tidied_by(unmount)
    }

    /// squashfuse and bubblewrap, each start with a place of its own for squashfuse, and
    /// all of it tidied up when the program has ended.
    pub(crate) fn bubblewrap_by_many(&self) -> Candidate {
        let script = r#"fuse=$1 image=$2 unmount=$3 bwrap=$4 to=$5 && shift 5 &&
            from=$(mktemp -d) && "$fuse" "$image" "$from" &&
            "$bwrap" --dev-bind / / --ro-bind "$from" "$to" "$@"
            code=$?; "$unmount" -u "$from"; rmdir "$from"; exit $code"#;
        let command = || {
            let mut command = self.bed.command("/bin/sh");
            command
                .args(["-c", script, "sh"])
                .arg(peers::SQUASHFUSE.find()?)
                .arg(&self.images.for_peers)
                .arg(peers::FUSERMOUNT.find()?)
                .arg(peers::BWRAP.find()?)
                .arg(&self.images.mount_point)
                .args(&self.inside);
            Ok(command)
        };
        Candidate::new("squashfuse_ll and bubblewrap", command())
    }

    /// Charliecloud, with an image that is a whole root file system.
    pub(crate) fn charliecloud(&self) -> Candidate {
        let command = || {
            let mut command = self.bed.command(peers::CH_RUN.find()?);
            command.env("USER", "bench").arg(self.images.container()?).arg("--").args(&self.inside);
            Ok(command)
        };
        Candidate::new("Charliecloud", command())
    }

    /// bubblewrap without an image, from the directory.
    pub(crate) fn bubblewrap_alone(&self) -> Candidate {
        let command = || {
            let mut command = self.bed.command(peers::BWRAP.find()?);
            command.args(["--dev-bind", "/", "/"]).args(&self.bare);
            Ok(command)
        };
        Candidate::new("bubblewrap alone, no image", command())
    }
}
