// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The programs that write images, and what is known about them.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use cabane_label::{escape, shown};
use cabane_mount::ImageFormat;
use cabane_process::installation;
use cabane_report::{Kind, Report};

use crate::layout::{Inside, NEW_IMAGE};
use crate::pack::Census;
use crate::pack::scan::CHANGING;
use crate::program::{self, Version};
use crate::sandbox::{Invocation, Sandbox};
use crate::{BuildError, BuildRequest, Result};

/// The first squashfs-tools whose images can be reproduced.
pub(crate) const OLDEST_MKSQUASHFS: &str = "4.4";

/// An identifier that says nothing: a random one would make every image differ.
const EROFS_UUID: &str = "00000000-0000-4000-8000-000000000000";

/// A program that writes images.
#[derive(Clone, Debug)]
pub(crate) struct Tool {
    pub(crate) format: ImageFormat,
    pub(crate) program: PathBuf,
    version: String,
}

impl Tool {
    /// Finds the program for the format that is requested.
    pub(crate) fn find(request: &BuildRequest) -> Result<Self> {
        let programs = &request.programs;
        let (path, option) = match request.format {
            ImageFormat::Squashfs => (&programs.mksquashfs, "-version"),
            ImageFormat::Erofs => (&programs.mkfs_erofs, "--version"),
        };
        let program = program::find(program_name(request.format), path.as_deref())?;
        let version = program::ask_version(&program, option)?;
        let is_old = Version::parse(&version) < Version::parse(OLDEST_MKSQUASHFS);
        if request.format == ImageFormat::Squashfs && is_old {
            let message = format!(
                "{} has version {version}, and at least {OLDEST_MKSQUASHFS} is needed",
                shown(&program)
            );
            let hint = installation::hint("mksquashfs");
            return Err(Report::new(Kind::Build, message).hinted(hint).into());
        }
        Ok(Self { format: request.format, program, version })
    }

    /// A program that is never started, where there will be no image.
    pub(crate) fn unused(format: ImageFormat) -> Self {
        Self { format, program: PathBuf::new(), version: String::new() }
    }

    /// Returns what decides about the bytes of an image, beside the tree.
    pub(crate) fn identity(&self) -> String {
        format!("{} {}", program_name(self.format), self.version)
    }

    /// Whether files that only their owner may read become readable in the image.
    pub(crate) fn widens_modes(&self) -> bool {
        self.format == ImageFormat::Squashfs
    }

    /// Prepares the command that packs the directory `store`.
    pub(crate) fn invocation(
        &self,
        sandbox: &mut Sandbox,
        request: &BuildRequest,
        store: &Path,
    ) -> Invocation {
        let program = sandbox.keep_program(&self.program);
        let mut invocation = Invocation::new(program, "/");
        let epoch = request.epoch.to_string();
        let image = Inside::work(NEW_IMAGE);
        match self.format {
            ImageFormat::Squashfs => {
                invocation = invocation
                    .with([store, image.as_path()])
                    .with(["-comp", "zstd", "-Xcompression-level", "3", "-b", "131072"])
                    .with(["-all-root", "-no-xattrs", "-noappend"])
                    .with(["-mkfs-time", &epoch, "-all-time", &epoch])
                    .with(["-action", "chmod(a+rX,go-w,u-s,g-s,o-t)@true"])
                    .with(["-no-progress", "-quiet"]);
                invocation.speed = vec!["-processors".into(), request.jobs.to_string().into()];
                invocation
            }
            ImageFormat::Erofs => invocation
                .with(["-zlz4", "-x-1", "--all-root", "--quiet"])
                .with([format!("-T{epoch}"), format!("-U{EROFS_UUID}")])
                .with([image.as_path(), store]),
        }
    }

    /// Fails if the program wrote anything that is not known to be harmless: it
    /// leaves files out, says so, and calls it a success.
    pub(crate) fn check_log(&self, log: &Path) -> Result<()> {
        let text = fs::read(log).unwrap_or_default();
        let complaint = String::from_utf8_lossy(&text)
            .lines()
            .skip(1)
            .map(str::trim)
            .find(|line| !line.is_empty() && !self.is_harmless(line))
            .map(str::to_owned);
        match complaint {
            None => Ok(()),
            Some(first) => {
                let message = format!("the image is not whole: {}", escape(&first));
                let hint = format!("the whole log is in {}", shown(log));
                Err(Report::new(Kind::Build, message).hinted(hint).into())
            }
        }
    }

    fn is_harmless(&self, line: &str) -> bool {
        let harmless = ["mkfs.erofs ", "<W> erofs: EXPERIMENTAL"];
        self.format == ImageFormat::Erofs && harmless.iter().any(|start| line.starts_with(start))
    }

    /// Fails if the image holds fewer files than were counted.
    pub(crate) fn check(&self, image: &Path, census: &Census) -> Result<()> {
        let not_an_image =
            || BuildError::refused(format!("{} did not become an image", shown(image)), None);
        let packed = self.inodes(image).ok_or_else(not_an_image)?;
        let possible = census.inodes..=census.inodes + census.further_links;
        if possible.contains(&packed) {
            return Ok(());
        }
        let counted = census.inodes;
        let message = format!(
            "the image is not whole: it holds {packed} files and directories, the tree {counted}"
        );
        Err(BuildError::refused(message, CHANGING))
    }

    /// Reads from the head of an image how many files and directories it holds.
    fn inodes(&self, image: &Path) -> Option<u64> {
        let file = File::open(image).ok()?;
        match self.format {
            ImageFormat::Squashfs => {
                let head: [u8; 8] = read(&file, 0)?;
                let count = head.strip_prefix(b"hsqs")?;
                Some(u32::from_le_bytes(count.try_into().ok()?).into())
            }
            ImageFormat::Erofs => {
                let magic: [u8; 4] = read(&file, 1024)?;
                let is_erofs = magic == 0xE0F5_E1E2_u32.to_le_bytes();
                is_erofs.then(|| read(&file, 1024 + 16))?.map(u64::from_le_bytes)
            }
        }
    }
}

fn program_name(format: ImageFormat) -> &'static str {
    match format {
        ImageFormat::Squashfs => "mksquashfs",
        ImageFormat::Erofs => "mkfs.erofs",
    }
}

fn read<const N: usize>(file: &File, offset: u64) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    file.read_exact_at(&mut bytes, offset).ok()?;
    Some(bytes)
}
