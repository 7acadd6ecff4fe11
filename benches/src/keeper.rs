// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Another image that someone uses meanwhile.
//!
//! The node keeps the images of all users in one namespace, which goes with the last of
//! them. So that a start *alone* is one in an image that no one has, and not the first
//! on the node, another small image is in use as long as this is there.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::bed::Bed;
use crate::images::{Format, make_erofs, make_squashfs};
use crate::measure::NotMeasured;
use crate::request::PreparedRequest;

/// A program in another image, until this is dropped.
pub(crate) struct Keeper(Child);

/// Makes the small image; EROFS, if that is possible.
pub(crate) fn image(bed: &Bed) -> Result<(Format, PathBuf), NotMeasured> {
    let tree = bed.directory("small-tree")?;
    fs::write(tree.join("file"), "small\n").map_err(|error| format!("no small tree: {error}"))?;
    match make_erofs(bed, &tree, &bed.path("small.erofs")) {
        Ok(image) => Ok((Format::Erofs, image)),
        Err(_) => Ok((Format::Squashfs, make_squashfs(bed, &tree, &bed.path("small.squashfs"))?)),
    }
}

impl Keeper {
    /// Starts the program in the image, at the second mount point of the policy.
    pub(crate) fn start(bed: &Bed, format: Format, image: &Path) -> Result<Self, NotMeasured> {
        let helper = bed.world.helper.as_ref().map_err(Clone::clone)?;
        let second = bed.world.mount_points.get(1);
        let mount_point = second.ok_or("the policy has one mount point only")?;
        let failed = |error| format!("cannot keep another image in use: {error}");
        let command = vec!["/bin/cat".into()];
        let request = PreparedRequest::new(format.into(), image, mount_point, command, Vec::new());
        let request = request.map_err(failed)?;
        Self::of(request.command(helper)).map_err(failed)
    }

    /// Starts a command that becomes `cat` in an image.
    pub(crate) fn of(mut command: Command) -> std::io::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut keeper = Self(command.spawn()?);
        keeper.wait_until_it_runs()?;
        Ok(keeper)
    }

    fn wait_until_it_runs(&mut self) -> std::io::Result<()> {
        let child = &mut self.0;
        if let Some(input) = &mut child.stdin {
            writeln!(input, "ready")?;
        }
        let output = child.stdout.as_mut().map(BufReader::new);
        let read = output.map_or(Ok(0), |mut output| output.read_line(&mut String::new()))?;
        if read == 0 {
            return Err(std::io::Error::other("it ended"));
        }
        Ok(())
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
