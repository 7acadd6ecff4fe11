// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Which kind of file system an image holds, recognized by its first bytes.
//!
//! Only the two headers are looked at, for their magic number and the size they announce: a
//! file whose end is missing is found out here and not by a reader of the mounted image.

use std::fmt;
use std::fs::File;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{ImageError, disk};

/// The file system in an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ImageFormat {
    /// Squashfs, version 4.
    Squashfs,
    /// EROFS.
    Erofs,
}

const SQUASHFS_MAGIC: &[u8; 4] = b"hsqs";
const SQUASHFS_HEADER: u64 = 96;
const EROFS_MAGIC: [u8; 4] = 0xE0F5_E1E2_u32.to_le_bytes();
const EROFS_OFFSET: usize = 1024;
const EROFS_HEADER: u64 = 1024 + 128;
/// Enough for every magic number that is looked for.
const HEAD: usize = 2048;

impl ImageFormat {
    /// Tells the format of an open file and checks that the file is not cut off.
    pub fn of_file(file: &File) -> Result<Self, ImageError> {
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            let kind = kind_of(metadata.file_type());
            return Err(ImageError::Unusable(format!("it is {kind} and not a file")));
        }
        let head = read_head(file)?;
        let (format, need) = announced(&head)?;
        let have = metadata.len();
        if have < need {
            return Err(ImageError::Unusable(format!(
                "it is cut off: it should have at least {need} bytes and has {have}"
            )));
        }
        Ok(format)
    }

    /// Tells the format of the file at a path; a named pipe is not waited for.
    pub fn of_path(path: &Path) -> Result<Self, ImageError> {
        Self::of_file(&disk::open(path)?)
    }

    /// Returns the format with a name; `None` when there is none.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        [Self::Squashfs, Self::Erofs].into_iter().find(|format| format.as_str() == name)
    }

    /// Returns the name of the format, which is also the kernel's name for the file system.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Squashfs => "squashfs",
            Self::Erofs => "erofs",
        }
    }
}

impl fmt::Display for ImageFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Reads the first bytes; a shorter file is filled up with zeros that are not counted.
fn read_head(file: &File) -> Result<Vec<u8>, ImageError> {
    let mut head = vec![0; HEAD];
    let mut filled = 0;
    while filled < HEAD {
        match file.read_at(&mut head[filled..], filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    head.truncate(filled);
    Ok(head)
}

/// Returns the format and the number of bytes that the header says there are.
fn announced(head: &[u8]) -> Result<(ImageFormat, u64), ImageError> {
    if head.starts_with(SQUASHFS_MAGIC) {
        return Ok((ImageFormat::Squashfs, squashfs_size(head)?));
    }
    if head.get(EROFS_OFFSET..).is_some_and(|superblock| superblock.starts_with(&EROFS_MAGIC)) {
        return Ok((ImageFormat::Erofs, erofs_size(&head[EROFS_OFFSET..])));
    }
    let found = what_it_looks_like(head);
    Err(ImageError::Unusable(format!("it is {found}, and neither squashfs nor EROFS")))
}

fn squashfs_size(superblock: &[u8]) -> Result<u64, ImageError> {
    let (Some(major), Some(used)) = (field(superblock, 28), field(superblock, 40)) else {
        return Ok(SQUASHFS_HEADER);
    };
    let major = u16::from_le_bytes(major);
    if major != 4 {
        return Err(ImageError::Unusable(format!(
            "it is squashfs of version {major}, and only version 4 can be mounted"
        )));
    }
    Ok(u64::from_le_bytes(used).max(SQUASHFS_HEADER))
}

fn erofs_size(superblock: &[u8]) -> u64 {
    let (Some(block_bits), Some(blocks)) = (field(superblock, 12), field(superblock, 36)) else {
        return EROFS_HEADER;
    };
    // A shift of more than 63 bits is nonsense; saturating makes it "cut off", which is as true
    // as anything one could say about such a file.
    let block_size = 1_u64.checked_shl(u32::from(u8::from_le_bytes(block_bits)));
    let blocks = u64::from(u32::from_le_bytes(blocks));
    block_size.unwrap_or(u64::MAX).saturating_mul(blocks).max(EROFS_HEADER)
}

fn field<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..offset + N)?.try_into().ok()
}

fn kind_of(file_type: std::fs::FileType) -> &'static str {
    if file_type.is_dir() {
        "a directory"
    } else if file_type.is_block_device() || file_type.is_char_device() {
        "a device"
    } else {
        "a pipe or socket"
    }
}

/// What people mistake for images, with the bytes by which it is known.
const LOOKALIKES: &[(usize, &[u8], &str)] = &[
    (0, b"sqsh", "squashfs of a big-endian machine"),
    (0, b"\x1f\x8b", "gzip-compressed data"),
    (0, b"\x28\xb5\x2f\xfd", "zstd-compressed data"),
    (0, b"\xfd7zXZ\0", "xz-compressed data"),
    (0, b"BZh", "bzip2-compressed data"),
    (0, b"PK\x03\x04", "a zip archive"),
    (0, b"SQLite format 3\0", "an SQLite database"),
    (32, b"SIF_MAGIC\0", "an Apptainer image (SIF)"),
    (0, b"\x7fELF", "a program or library (ELF)"),
    (257, b"ustar", "a tar archive"),
    (1080, b"\x53\xef", "an ext2, ext3, or ext4 file system"),
    (0, b"\x89PNG\r\n", "a picture (PNG)"),
    (0, b"\xff\xd8\xff", "a picture (JPEG)"),
    (0, b"GIF8", "a picture (GIF)"),
    (0, b"%PDF-", "a PDF document"),
    (0, b"\x89HDF\r\n", "a file of HDF5"),
    (0, b"!<arch>\n", "a static library or a package of Debian"),
    (0, b"\xed\xab\xee\xdb", "a package (RPM)"),
];

fn what_it_looks_like(head: &[u8]) -> &'static str {
    let known = LOOKALIKES.iter().find(|(offset, magic, _)| {
        head.get(*offset..).is_some_and(|bytes| bytes.starts_with(magic))
    });
    if let Some((_, _, name)) = known {
        return name;
    }
    let is_text = |byte: &u8| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~' | 0x80..);
    if head.is_empty() {
        "an empty file"
    } else if head.iter().all(is_text) {
        "a text"
    } else {
        "data in a format that Cabane does not know"
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn format_of(bytes: &[u8]) -> Result<ImageFormat, String> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        ImageFormat::of_file(&file).map_err(|error| error.to_string())
    }

    fn squashfs(size: u64, major: u16) -> Vec<u8> {
        let mut bytes = vec![0; 200];
        bytes[..4].copy_from_slice(b"hsqs");
        bytes[28..30].copy_from_slice(&major.to_le_bytes());
        bytes[40..48].copy_from_slice(&size.to_le_bytes());
        bytes
    }

    fn erofs(blocks: u32, block_bits: u8) -> Vec<u8> {
        let mut bytes = vec![0; 8192];
        bytes[1024..1028].copy_from_slice(&0xE0F5_E1E2_u32.to_le_bytes());
        bytes[1024 + 12] = block_bits;
        bytes[1024 + 36..1024 + 40].copy_from_slice(&blocks.to_le_bytes());
        bytes
    }

    #[test]
    fn squashfs_is_known_by_its_magic_number() {
        assert_eq!(format_of(&squashfs(200, 4)), Ok(ImageFormat::Squashfs));
    }

    #[test]
    fn erofs_is_known_by_its_magic_number() {
        assert_eq!(format_of(&erofs(2, 12)), Ok(ImageFormat::Erofs));
    }

    #[test]
    fn a_squashfs_whose_end_is_missing_is_refused() {
        let message = "it is cut off: it should have at least 201 bytes and has 200";
        assert_eq!(format_of(&squashfs(201, 4)), Err(message.to_owned()));
    }

    #[test]
    fn an_erofs_whose_end_is_missing_is_refused() {
        let message = "it is cut off: it should have at least 12288 bytes and has 8192";
        assert_eq!(format_of(&erofs(3, 12)), Err(message.to_owned()));
    }

    #[test]
    fn a_squashfs_that_ends_in_its_header_is_cut_off() {
        let message = "it is cut off: it should have at least 96 bytes and has 10";
        assert_eq!(format_of(&squashfs(200, 4)[..10]), Err(message.to_owned()));
    }

    #[test]
    fn an_erofs_with_impossible_blocks_is_refused() {
        assert!(format_of(&erofs(1, 200)).is_err());
    }

    #[test]
    fn squashfs_of_an_old_version_is_refused() {
        let message = "it is squashfs of version 3, and only version 4 can be mounted";
        assert_eq!(format_of(&squashfs(200, 3)), Err(message.to_owned()));
    }

    #[test]
    fn an_empty_file_is_called_one() {
        let message = "it is an empty file, and neither squashfs nor EROFS";
        assert_eq!(format_of(b""), Err(message.to_owned()));
    }

    #[test]
    fn a_tar_archive_is_called_one() {
        let mut bytes = vec![0; 512];
        bytes[257..262].copy_from_slice(b"ustar");
        let message = "it is a tar archive, and neither squashfs nor EROFS";
        assert_eq!(format_of(&bytes), Err(message.to_owned()));
    }

    #[test]
    fn a_text_is_called_one() {
        let message = "it is a text, and neither squashfs nor EROFS";
        assert_eq!(format_of("name: küche\n".as_bytes()), Err(message.to_owned()));
    }

    #[test]
    fn a_directory_is_not_an_image() {
        let error = ImageFormat::of_file(&File::open("/").unwrap()).unwrap_err();
        assert_eq!(error.to_string(), "it is a directory and not a file");
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_the_look_at_a_header_panic(
            mut bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..2000),
            magic in 0..3,
        ) {
            if magic == 1 && bytes.len() >= 4 { bytes[..4].copy_from_slice(b"hsqs"); }
            if magic == 2 && bytes.len() >= 1028 { bytes[1024..1028].copy_from_slice(&EROFS_MAGIC); }
            let _ = announced(&bytes);
        }
    }
}
