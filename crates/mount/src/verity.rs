// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Hash trees that are beside images, as a user finds them.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use cabane_privileged::{RootHash, Verity};

/// The module as the kernel shows it when it has it.
const LOADED: &str = "/sys/module/dm_verity";
/// Where the device mapper is reached.
const CONTROL: &str = "/dev/mapper/control";

/// Opens the hash tree beside an image; `None` if there is none.
///
/// # Errors
///
/// Those of reading, and that it is no hash tree for the image.
pub fn open_tree(image: &File, path: &Path) -> io::Result<Option<Verity>> {
    let [tree, signature] = Verity::beside(path);
    let Some(tree) = if_there(File::open(tree))? else {
        return Ok(None);
    };
    let root_hash = RootHash::new(cabane_verity::root_of(image, &tree)?);
    let signature = if_there(File::open(signature))?.map(read_signature).transpose()?;
    Ok(Some(Verity { tree, root_hash, signature: signature.unwrap_or_default() }))
}

/// Returns the root hash of an image beside which a hash tree lies, if there is one for it.
#[must_use]
pub fn root_hash_beside(image: &Path) -> Option<RootHash> {
    let [tree, _] = Verity::beside(image);
    let tree = File::open(tree).ok()?;
    cabane_verity::root_of(&File::open(image).ok()?, &tree).ok().map(RootHash::new)
}

/// Reads a signature, as far as it may be long.
///
/// # Errors
///
/// Those of reading.
pub(crate) fn read_signature(file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(Verity::MAX_SIGNATURE).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Tells whether this kernel can check the content of images, as far as can be seen without rights:
/// it has dm-verity, or finds the module when it is asked for it.
#[must_use]
pub fn is_in_kernel() -> bool {
    if !Path::new(CONTROL).exists() {
        return false;
    }
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy().into_owned();
    let modules = || fs::read_to_string(format!("/lib/modules/{release}/modules.dep"));
    Path::new(LOADED).exists() || modules().is_ok_and(|text| text.contains("/dm-verity.ko"))
}

fn if_there(opened: io::Result<File>) -> io::Result<Option<File>> {
    match opened {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}
