// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! From a manifest and packages to tarballs and a package for Spack.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use cabane_recipe::VendorManifest;
use cabane_report::Result;

use crate::contents::{Contents, make_directory, sha256};
use crate::record::{self, Record, Tarball};
use crate::select::{self, Selection};
use crate::tree::Tree;
use crate::{failed, misfit, spack, tarball};

/// What is packed, and where it goes.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// What is taken.
    pub manifest: &'a VendorManifest,
    /// The directory with the packages.
    pub packages: &'a Path,
    /// The package repository that gets the package for Spack.
    pub output: &'a Path,
    /// The source mirror that gets the tarballs.
    pub mirror: &'a Path,
}

/// What was packed.
#[derive(Clone, Debug)]
pub struct Packed {
    /// The package for Spack.
    pub package: PathBuf,
    /// The tarballs, in the order of the manifest.
    pub tarballs: Vec<Tarball>,
}

/// Packs a vendor's MPI.
///
/// There is neither a tarball nor a package before everything that the manifest names was
/// found.
pub fn pack(request: &Request<'_>) -> Result<Packed> {
    let manifest = request.manifest;
    let mut contents = Contents::open(request.packages, &manifest.packages)?;
    let selections = selections(manifest, &contents)?;
    make_directory(request.mirror)?;
    let work = tempfile::Builder::new()
        .prefix(".packing-")
        .tempdir_in(request.mirror)
        .map_err(failed("create a directory in", request.mirror))?;
    let taken = contents.take(&select::wanted(&selections), work.path())?;
    let trees: Vec<Tree> =
        selections.iter().map(|selection| selection.tree(&taken)).collect::<Result<_, _>>()?;
    let mut tarballs = Vec::new();
    for (compiler, tree) in manifest.compilers.iter().zip(&trees) {
        tarballs.push(store(request, &compiler.name.value, tree, work.path())?);
    }
    let directory = spack::directory(request.output, &manifest.name);
    let records = record::all(&directory, Record::new(manifest, &tarballs))?;
    let mut files = Vec::new();
    for record in &records {
        files.push((record.file_name(), record.text()));
    }
    files.push(("package.py".to_owned(), spack::package(&records)));
    record::save(&directory, &files)?;
    spack::save_repository(request.output)?;
    Ok(Packed { package: directory.join("package.py"), tarballs })
}

/// Decides for all compilers, so that all problems are reported at once.
fn selections<'m>(manifest: &'m VendorManifest, contents: &Contents) -> Result<Vec<Selection<'m>>> {
    let mut problems = Vec::new();
    let mut selections = Vec::new();
    for compiler in &manifest.compilers {
        match Selection::new(manifest, compiler, contents) {
            Ok(selection) => selections.push(selection),
            // What all compilers get is wrong for all of them.
            Err(found) => problems.extend(
                found.into_iter().filter(|one| !problems.contains(one)).collect::<Vec<_>>(),
            ),
        }
    }
    if problems.is_empty() {
        return Ok(selections);
    }
    problems.sort_by_key(|problem| (problem.line, problem.column));
    Err(misfit(&problems))
}

/// Writes a tarball into the mirror, where Spack looks for its checksum.
fn store(request: &Request<'_>, compiler: &str, tree: &Tree, work: &Path) -> Result<Tarball> {
    let manifest = request.manifest;
    let directory = format!("{}-{}", manifest.name, manifest.version);
    let file = format!("{directory}-{}-{compiler}.tar.gz", manifest.arch);
    let path = work.join(&file);
    tarball::write(tree, &directory, &path).map_err(failed("write", &path))?;
    let digest = File::open(&path).and_then(|mut file| sha256(&mut file));
    let (sha256, size) = digest.map_err(failed("read", &path))?;
    // What is made in a private place is for everyone who builds.
    let readable = fs::Permissions::from_mode(0o644);
    fs::set_permissions(&path, readable).map_err(failed("open to all", &path))?;

    let stored = format!("_source-cache/archive/{}/{sha256}.tar.gz", &sha256[..2]);
    let place = request.mirror.join(&stored);
    make_directory(place.parent().unwrap_or(request.mirror))?;
    fs::rename(&path, &place).map_err(failed("move a tarball to", &place))?;
    let named = request.mirror.join(&manifest.name).join(&file);
    make_directory(named.parent().unwrap_or(request.mirror))?;
    match fs::remove_file(&named) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(failed("replace", &named)(error));
        }
        _ => {}
    }
    std::os::unix::fs::symlink(format!("../{stored}"), &named).map_err(failed("link", &named))?;
    Ok(Tarball { compiler: compiler.to_owned(), file, sha256, size })
}
