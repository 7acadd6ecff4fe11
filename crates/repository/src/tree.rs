// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The hash tree beside an image, with which the kernel can check its content, and the signature of
//! its root hash.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use cabane_label::Digest;

use crate::writer::Writer;
use crate::{Access, Error, Repository, disk};

impl Repository {
    /// Returns where the hash tree of an image is, which is made if it is not there, and its root hash.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchImage`], an image whose size is no multiple of a block, and those of writing.
    pub fn hash_tree(&self, digest: &Digest) -> Result<(PathBuf, cabane_verity::RootHash), Error> {
        let (image, tree) = (self.plain_image(digest)?, self.layout().tree(digest));
        if let (Ok(image), Ok(tree_file)) = (File::open(&image), File::open(&tree))
            && let Ok(root) = cabane_verity::root_of(&image, &tree_file)
        {
            return Ok((tree, root));
        }
        let layout = self.layout();
        if !layout.has_image(digest) {
            let repository = self.path().to_owned();
            return Err(Error::NoSuchImage { digest: digest.clone(), repository });
        }
        let mut writer = Writer::open(layout)?;
        writer.unlock();
        let access = Access::of_directory(&layout.image_directory(digest), &layout.images());
        let new = writer.staging.free_name("tree");
        let root = write(&image, &new, access)?;
        writer.lock();
        put(&writer, digest, &new, &layout.tree_name())?;
        Ok((tree, root))
    }

    /// Keeps a signature of the root hash of an image, PKCS#7 in DER, in the place of the one before.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchImage`], or that nothing can be written there.
    pub fn keep_root_signature(&self, digest: &Digest, bytes: &[u8]) -> Result<(), Error> {
        let mut writer = Writer::open(self.layout())?;
        writer.lock();
        let new = writer.staging.free_name("signature");
        disk::write_new(&new, bytes).map_err(Error::io("write", &new))?;
        put(&writer, digest, &new, &self.layout().root_signature_name())
    }
}

/// Puts a file beside an image, in one step.
pub(crate) fn put(
    writer: &Writer<'_>,
    digest: &Digest,
    new: &Path,
    name: &str,
) -> Result<(), Error> {
    let directory = writer.layout.image_directory(digest);
    let place = directory.join(name);
    match fs::rename(new, &place) {
        Ok(()) => disk::sync_directory(&directory).map_err(Error::io("write", &directory)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Error::NoSuchImage {
            digest: digest.clone(),
            repository: writer.layout.root.clone(),
        }),
        Err(error) => Err(Error::io("write", &place)(error)),
    }
}

/// Writes the hash tree of an image that is being brought, for those who may read the image. One whose
/// size is no multiple of a block has none.
pub(crate) fn write_beside(image: &Path, tree: &Path, access: Access) -> Result<(), Error> {
    let size = fs::metadata(image).map_err(Error::io("read", image))?.len();
    if size % cabane_verity::BLOCK == 0 {
        write(image, tree, access)?;
    }
    Ok(())
}

fn write(image: &Path, tree: &Path, access: Access) -> Result<cabane_verity::RootHash, Error> {
    let opened = disk::open(image).map_err(Error::io("read", image))?;
    let file = disk::create_new(tree).map_err(Error::io("create", tree))?;
    let written = cabane_verity::write_tree(&opened, &file);
    let root = written.map_err(Error::io("write", tree))?;
    access.close_file(tree)?;
    file.sync_all().map_err(Error::io("write", tree))?;
    Ok(root)
}
