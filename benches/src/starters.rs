// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The ways to start a program in an image: bare ones and Cabane's. Those of others are
//! in `peer_starters`.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use crate::bed::Bed;
use crate::images::{Format, Images};
use crate::keeper::Keeper;
use crate::measure::{Candidate, NotMeasured};
use crate::request::PreparedRequest;

/// Whether the image is mounted on the node when a start begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// No one has any image: what was held is given up after each start.
    First,
    /// No one has it, but another one.
    Alone,
    /// It is held from an earlier start.
    Held,
}

impl Before {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Alone => "alone",
            Self::Held => "held",
        }
    }
}

/// The option of `cabane run` for a way of mounting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Through {
    Root,
    Helper,
    /// Through the helper, which may not let the kernel read the image.
    Served,
    UserNamespace,
}

impl Through {
    pub(crate) fn option(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Helper | Self::Served => "helper",
            Self::UserNamespace => "user-namespace",
        }
    }
}

/// A mount point that does not exist on any machine.
const NEW_MOUNT_POINT: &str = "/cabane-bench-mount-point";

/// Makes the candidates that start one program.
pub(crate) struct Starters<'a> {
    pub(crate) bed: &'a Bed,
    pub(crate) images: &'a Images,
    /// The program from the directory, and from the image.
    pub(crate) bare: Vec<OsString>,
    pub(crate) inside: Vec<OsString>,
}

impl<'a> Starters<'a> {
    /// Starts `true` of the system, whatever is mounted.
    pub(crate) fn of_true(bed: &'a Bed, images: &'a Images) -> Self {
        let program = vec![OsString::from("/bin/true")];
        Self { bed, images, bare: program.clone(), inside: program }
    }

    /// Starts the interpreter of the tree, or of the image made from it.
    pub(crate) fn of_python(bed: &'a Bed, images: &'a Images) -> Self {
        Self::of_script(bed, images, "pass")
    }

    /// Lets the interpreter carry out a script.
    pub(crate) fn of_script(bed: &'a Bed, images: &'a Images, script: &str) -> Self {
        let command =
            |root: &Path| vec![root.join("bin/python3").into(), "-c".into(), script.into()];
        Self { bed, images, bare: command(&images.tree), inside: command(&images.mount_point) }
    }

    /// Starts nothing yet.
    pub(crate) fn of_nothing(bed: &'a Bed, images: &'a Images) -> Self {
        Self { bed, images, bare: Vec::new(), inside: Vec::new() }
    }

    /// Starts one of the small programs, which may start the program.
    pub(crate) fn within(self, task: &str) -> Result<Self, NotMeasured> {
        let small = self.bed.small.as_ref().map_err(Clone::clone)?;
        let around = |command: Vec<OsString>| {
            let mut all = vec![small.into(), task.into()];
            all.extend(command);
            all
        };
        Ok(Self { bare: around(self.bare), inside: around(self.inside), ..self })
    }

    /// Starts the program as it is.
    pub(crate) fn bare(&self, name: &str) -> Candidate {
        let command = || {
            let (program, arguments) = self.bare.split_first().ok_or("no program")?;
            let mut command = self.bed.command(program);
            command.args(arguments);
            Ok(command)
        };
        Candidate::new(name, command())
    }

    /// Starts the program through one that does nothing else: two starts in a row, as
    /// every program that prepares something and becomes another one is.
    pub(crate) fn through_env(&self) -> Candidate {
        let mut command = self.bed.command("/usr/bin/env");
        command.args(&self.bare);
        Candidate::new("`env` and exec", Ok(command))
    }

    /// The same through programs that are linked statically, as `cabane` and the helper
    /// are: so many of them, and then the program.
    pub(crate) fn through_static(&self, count: usize) -> Candidate {
        let name = match count {
            1 => "static exec and exec",
            _ => "two static execs and exec",
        };
        let command = || {
            let mut command = self.bed.small("exec")?;
            for _ in 1..count {
                command.arg(self.bed.small.as_ref().map_err(Clone::clone)?).arg("exec");
            }
            command.args(&self.bare);
            Ok(command)
        };
        Candidate::new(name, command())
    }

    /// The same, with the time noted before.
    pub(crate) fn stamped(&self, candidate: Candidate) -> Candidate {
        let name = candidate.name.clone();
        let command = candidate.into_command().and_then(|inner| {
            let mut command = self.bed.small("stamp")?;
            command.arg(inner.get_program()).args(inner.get_args());
            Ok(command)
        });
        Candidate::new(name, command)
    }

    /// The mount steps as root or in a user namespace, and the program.
    pub(crate) fn mounter(&self, format: Format) -> Candidate {
        let command = || {
            let mut command = self.bed.small("mount")?;
            command.arg(format.name()).arg(self.images.file(format)?);
            command.arg(&self.images.mount_point).args(&self.inside);
            Ok(command)
        };
        Candidate::new(format!("mount steps, {}", format.name()), command())
    }

    /// The same with the policy of a site: images are shared and held.
    pub(crate) fn sharing_mounter(&self, format: Format, before: Before) -> Candidate {
        let name = format!("mount steps, shared, {}, {}", format.name(), before.name());
        self.left(before, self.mounter(format).named(name))
    }

    /// The helper alone, its request written down beforehand.
    pub(crate) fn helper(&self, format: Format, before: Before) -> Candidate {
        let name = format!("helper, {}, {}", format.name(), before.name());
        let prepared = || {
            let helper = self.bed.world.helper.as_ref().map_err(Clone::clone)?;
            let request = PreparedRequest::new(
                format.into(),
                self.images.file(format)?,
                &self.images.mount_point,
                self.inside.clone(),
                vec!["PATH=/usr/bin:/bin".into()],
            );
            let request = request.map_err(|error| format!("no request: {error}"))?;
            Ok((request.command(helper), request))
        };
        let candidate = match prepared() {
            Ok((command, request)) => Candidate::new(name, Ok(command)).keeping(request),
            Err(reason) => Candidate::new(name, Err(reason)),
        };
        self.left(before, candidate)
    }

    /// A small program that writes the request, and the helper.
    pub(crate) fn asker(&self, format: Format, before: Before) -> Candidate {
        let command = || {
            let mut command = self.bed.small("ask")?;
            command.arg(self.bed.world.helper.as_ref().map_err(Clone::clone)?);
            command.arg(format.name()).arg(self.images.file(format)?);
            command.arg(&self.images.mount_point).args(&self.inside);
            Ok(command)
        };
        let name = format!("helper, {}, {}", format.name(), before.name());
        self.left(before, Candidate::new(name, command()))
    }

    /// `cabane run` of the label, in its own way to mount.
    pub(crate) fn cabane(&self, through: Through, format: Format, before: Before) -> Candidate {
        let name = match through {
            Through::Helper => format!("`cabane run`, {}, {}", format.name(), before.name()),
            _ => format!("`cabane run`, {}", format.name()),
        };
        let command = self.cabane_run(through, format, "", &[]);
        self.left(before, Candidate::new(name, command))
    }

    /// `cabane run` with the helper, through FUSE: with the FUSE program of a start that goes on, or
    /// with one of its own.
    pub(crate) fn served(&self, is_shared: bool) -> Candidate {
        let (how, options) = if is_shared {
            ("shared", [].as_slice())
        } else {
            ("not shared", ["--no-join"].as_slice())
        };
        let command = self.cabane_run(Through::Served, Format::Squashfs, "", options);
        Candidate::new(format!("`cabane run`, squashfs, by the helper, {how}"), command)
    }

    /// Starts something that goes on with an image through FUSE.
    pub(crate) fn serve(&self) -> Result<Keeper, NotMeasured> {
        let cat = vec![OsString::from("/bin/cat")];
        let start = Self { inside: cat.clone(), bare: cat, ..*self };
        let command = start.cabane_run(Through::Served, Format::Squashfs, "", &[])?;
        Keeper::of(command).map_err(|error| format!("cannot keep the image served: {error}"))
    }

    /// `cabane run` of the image's path: its metadata is in the image only.
    pub(crate) fn cabane_of_path(&self, through: Through, format: Format) -> Candidate {
        let command = || {
            let image = self.images.file(format)?;
            let repository = self.images.repository.as_ref().map_err(Clone::clone)?;
            let mut command = self.bed.cabane(repository)?;
            command.args(["--backend", through.option(), "run"]);
            command.arg(image).arg("--").args(&self.inside);
            Ok(command)
        };
        let name = format!("`cabane run PATH`, {}, held", format.name());
        Candidate::new(name, command())
    }

    /// Prints what would be mounted, mounts nothing and starts nothing.
    pub(crate) fn cabane_dry_run(&self, through: Through) -> Candidate {
        let command = self.cabane_run(through, Format::Squashfs, "", &["--dry-run"]);
        Candidate::new("`cabane run --dry-run`", command)
    }

    /// Mounts where there is no directory, so that a private root is made.
    pub(crate) fn cabane_at_new_mount_point(&self, through: Through) -> Candidate {
        let place = format!(":{NEW_MOUNT_POINT}");
        let command = self.cabane_run(through, Format::Squashfs, &place, &[]);
        Candidate::new("`cabane run`, squashfs, mount point missing", command)
    }

    fn cabane_run(
        &self,
        through: Through,
        format: Format,
        mount_point: &str,
        options: &[&str],
    ) -> Result<Command, NotMeasured> {
        self.images.file(format)?;
        if matches!(through, Through::Helper | Through::Served) {
            self.bed.world.helper.as_ref().map_err(Clone::clone)?;
        }
        let repository = self.images.repository.as_ref().map_err(Clone::clone)?;
        let mut command = self.bed.cabane(repository)?;
        command
            .args(["--backend", through.option(), "run"])
            .args(options)
            .arg(format.label() + mount_point);
        command.arg("--").args(&self.inside);
        Ok(command)
    }

    fn left(&self, before: Before, candidate: Candidate) -> Candidate {
        match (before, self.bed.clean_mounts()) {
            (Before::First | Before::Alone, Ok(clean)) => candidate.tidied_by(clean),
            _ => candidate,
        }
    }
}
