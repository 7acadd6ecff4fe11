// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Keeping the log of a package that failed, which Spack and EasyBuild leave in the private `/tmp`.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path};

use rustix::fs::OFlags;

use crate::layout::{Inside, Layout};

/// Copies a log out of the private `/tmp` of a build. The path was read from the output
/// of programs, and so leads nowhere else, and over no link.
pub(crate) fn keep(layout: &Layout, inside: &Path, kept: &Path) -> io::Result<()> {
    let refused = || io::Error::from(io::ErrorKind::InvalidInput);
    let relative = inside.strip_prefix(Inside::TMP).map_err(|_| refused())?;
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    if !relative.components().all(is_plain) {
        return Err(refused());
    }
    let tmp = fs::canonicalize(layout.tmp())?;
    let directory = relative.parent().unwrap_or(Path::new(""));
    let directory = fs::canonicalize(tmp.join(directory))?;
    if !directory.starts_with(&tmp) {
        return Err(refused());
    }
    let name = relative.file_name().ok_or_else(refused)?;
    let mut log = OpenOptions::new()
        .read(true)
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
        .open(directory.join(name))?;
    if !log.metadata()?.is_file() {
        return Err(refused());
    }
    let mut copy = fs::File::create(kept)?;
    io::copy(&mut log, &mut copy)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build() -> tempfile::TempDir {
        let build = tempfile::tempdir().unwrap();
        for name in ["tmp/stage", "logs"] {
            fs::create_dir_all(build.path().join(name)).unwrap();
        }
        build
    }

    fn kept(build: &Path, log: impl AsRef<Path>) -> Option<String> {
        let copy = build.join("logs/copy");
        let kept = keep(&Layout::new(build.to_owned()), log.as_ref(), &copy);
        kept.ok().and_then(|()| fs::read_to_string(copy).ok())
    }

    #[test]
    fn a_log_in_the_private_directory_is_kept() {
        let build = build();
        fs::write(build.path().join("tmp/stage/a.log"), "one\n").unwrap();
        let kept = kept(build.path(), "/tmp/stage/a.log");
        assert_eq!(kept.as_deref(), Some("one\n"));
    }

    #[test]
    fn a_log_elsewhere_is_not_read() {
        let build = build();
        let secret = build.path().join("secret");
        fs::write(&secret, "secret\n").unwrap();
        std::os::unix::fs::symlink(&secret, build.path().join("tmp/stage/link.log")).unwrap();
        std::os::unix::fs::symlink(build.path(), build.path().join("tmp/up")).unwrap();
        for log in [
            "/tmp/stage/link.log",
            "/tmp/up/secret",
            "/tmp/../secret",
            "/tmp/stage",
            "/tmp",
            &secret.to_string_lossy(),
        ] {
            assert_eq!(kept(build.path(), log), None, "{log}");
        }
    }
}
