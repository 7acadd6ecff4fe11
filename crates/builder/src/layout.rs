// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! What lies where in a build directory, and where it appears in the sandbox.

use std::path::{Path, PathBuf};

use cabane_mount::ImageFormat;

use crate::StepName;

/// The build directory.
///
/// ```text
/// <build>/
/// ├── lock               held by the build that works here; its process number
/// ├── steps/<step>.json  what has been done, version 1
/// ├── logs/<step>.log
/// ├── memory.json        where the next three are, if they are in memory
/// ├── tmp/               `/tmp` of the sandbox, kept until the next build
/// ├── home/              `$HOME` of the sandbox, empty in the beginning
/// ├── store/             the tree at the mount point, if an engine makes one
/// ├── work/              what steps leave for each other
/// │   └── lock/requirements.txt
/// ├── meta/              the metadata, in the image and beside it
/// ├── split/             the tree without debug symbols, and
/// ├── symbols/           the debug symbols, until they are packed
/// ├── symbols-meta/      the metadata of their image
/// ├── image.squashfs     or image.erofs
/// └── symbols.squashfs   or symbols.erofs
/// ```
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) root: PathBuf,
    /// What is large and passes, if it is in memory.
    pub(crate) memory: Option<PathBuf>,
}

impl Layout {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root, memory: None }
    }

    fn passing(&self) -> &Path {
        self.memory.as_deref().unwrap_or(&self.root)
    }

    pub(crate) fn memory_record(&self) -> PathBuf {
        self.root.join("memory.json")
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.root.join("lock")
    }

    pub(crate) fn markers(&self) -> PathBuf {
        self.root.join("steps")
    }

    pub(crate) fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }

    pub(crate) fn log(&self, step: StepName) -> PathBuf {
        self.logs().join(format!("{step}.log"))
    }

    pub(crate) fn tmp(&self) -> PathBuf {
        self.passing().join("tmp")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.passing().join("home")
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.root.join("work")
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.passing().join("store")
    }

    pub(crate) fn meta(&self) -> PathBuf {
        self.root.join("meta")
    }

    /// The tree without debug symbols.
    pub(crate) fn split(&self) -> PathBuf {
        self.passing().join("split")
    }

    /// The debug symbols.
    pub(crate) fn symbols(&self) -> PathBuf {
        self.passing().join("symbols")
    }

    pub(crate) fn symbols_meta(&self) -> PathBuf {
        self.root.join("symbols-meta")
    }

    /// The image of the debug symbols.
    pub(crate) fn symbols_image(&self, format: ImageFormat) -> PathBuf {
        self.root.join(format!("symbols.{}", format.name()))
    }

    pub(crate) fn image(&self, format: ImageFormat) -> PathBuf {
        self.root.join(format!("image.{}", format.name()))
    }

    /// The image while it is being written.
    pub(crate) fn new_image(&self) -> PathBuf {
        self.work().join(NEW_IMAGE)
    }
}

/// The name of the image while it is being written, in the work directory.
pub(crate) const NEW_IMAGE: &str = "image.new";

/// The directories of the sandbox that do not exist outside.
pub(crate) struct Inside;

impl Inside {
    /// The directory that holds the others.
    pub(crate) const ROOT: &'static str = "/cabane";
    /// The recipe, read-only.
    pub(crate) const RECIPE: &'static str = "/cabane/recipe";
    /// The work directory.
    pub(crate) const WORK: &'static str = "/cabane/work";
    /// The cache.
    pub(crate) const CACHE: &'static str = "/cabane/cache";
    /// The packages of a cache of others, read-only.
    pub(crate) const SHARED: &'static str = "/cabane/shared";
    /// The part of it that belongs to `uv`.
    pub(crate) const UV_CACHE: &'static str = "/cabane/cache/uv";
    /// The home.
    pub(crate) const HOME: &'static str = "/cabane/home";
    /// Programs that would be hidden at their own place.
    pub(crate) const TOOLS: &'static str = "/cabane/tools";
    /// The private directory for temporary files.
    pub(crate) const TMP: &'static str = "/tmp";

    /// Where a file of the work directory appears.
    pub(crate) fn work(relative: &str) -> PathBuf {
        Path::new(Self::WORK).join(relative)
    }
}
