// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The files that a package has beside those of the image, in `/usr/share/NAME`.
//!
//! ```text
//! image.json   the label and the digest of the image, its views, packages, and license
//! VIEW.sh      sets the variables of a view
//! ```
//!
//! The license is also in `/usr/share/doc/NAME/copyright`, as Debian has it.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use cabane_report::{IoContext as _, Result};
use serde::Serialize;

use crate::identity::one_line;
use crate::stage::{below, set_time};
use crate::{Packaged, Work};

#[derive(Serialize)]
struct Origin<'a> {
    image: Option<&'a str>,
    digest: &'a str,
    mount: &'a str,
    views: Vec<&'a str>,
    license: &'a str,
    packages: Option<Vec<String>>,
}

/// Writes them below the tree of a package.
pub(crate) fn write(work: &Work<'_>, made: &Packaged) -> Result<()> {
    let directory = made.identity.directory();
    let packages = made.packages.as_ref().map(|all| {
        all.iter().map(|(name, version)| format!("{name}@{version}")).collect::<Vec<_>>()
    });
    let origin = Origin {
        image: made.label.as_deref(),
        digest: &made.digest,
        mount: made.mount_point.as_str(),
        views: made.views.iter().map(cabane_view::ViewName::as_str).collect(),
        license: &made.identity.license,
        packages,
    };
    // Only maps with keys that are not text, and values that refuse, can fail.
    let text = serde_json::to_string_pretty(&origin).unwrap_or_default() + "\n";
    let mut files = vec![(directory.join("image.json"), text)];
    for (name, view) in &work.subject.views {
        let script = directory.join(format!("{name}.sh"));
        let head = format!(
            "# Sets the variables of the view `{name}`, in a POSIX shell: `. {}`.\n",
            script.display()
        );
        files.push((script, head + &view.patch.to_shell_script()));
    }
    let copyright = made.identity.documentation().join("copyright");
    files.push((copyright, copyright_of(made)));
    for (path, text) in &files {
        let place = below(work.tree, path);
        put(&place, text, work.epoch).or_failed(|| format!("write {}", place.display()))?;
    }
    // The directories above, which may be new. All files are written: they change these times.
    let written = files.iter().filter_map(|(path, _)| path.parent());
    for directory in written.chain([made.mount_point.as_path()]).flat_map(Path::ancestors) {
        let place = below(work.tree, directory);
        settle(&place, work.epoch).or_failed(|| format!("write {}", place.display()))?;
    }
    Ok(())
}

fn copyright_of(made: &Packaged) -> String {
    let license = Some(made.identity.license.as_str()).filter(|text| !text.is_empty());
    format!(
        "The files are those of the image {} ({}).\nLicense: {}\n",
        made.label.as_deref().unwrap_or_default(),
        made.digest,
        license.unwrap_or("unknown")
    )
}

fn put(path: &Path, text: &str, epoch: i64) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::write(path, text)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o644))?;
    set_time(path, epoch)
}

/// Gives a directory the rights and the time that all have.
fn settle(directory: &Path, epoch: i64) -> io::Result<()> {
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755))?;
    set_time(directory, epoch)
}

/// Says how a package is used, in one line.
pub(crate) fn usage(made: &Packaged) -> String {
    let directory = made.identity.directory();
    let scripts = made.views.iter().map(|name| format!(". {}/{name}.sh", directory.display()));
    let scripts: Vec<String> = scripts.collect();
    let processor = made
        .processor
        .iter()
        .map(|targets| format!(" The programs need a processor as good as {}.", one_line(targets)));
    format!(
        "The files are in {}. To set the variables of a view in a shell, type: {}. To do so for all users, link \
         the script into /etc/profile.d.{}",
        made.mount_point,
        scripts.join(" or: "),
        processor.collect::<String>()
    )
}
