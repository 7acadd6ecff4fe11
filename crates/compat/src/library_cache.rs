// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! The cache by which the loader of a machine finds libraries.
//!
//! ```text
//! header   "glibc-ld.so.cache1.1", u32 number of entries, …   48 bytes
//! entries  i32 flags, u32 name, u32 path, u32, u64            24 bytes each
//! texts    the offsets count from the beginning of the file
//! ```

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Where the cache is.
pub const PLACE: &str = "/etc/ld.so.cache";

const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const HEADER: usize = 48;
const ENTRY: usize = 24;

/// Where the loader looks when its cache has nothing.
pub const DEFAULT: [&str; 4] = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"];

/// Returns the file that the host's loader takes for a library.
#[must_use]
pub fn find(name: &str) -> Option<PathBuf> {
    let cached = fs::read(PLACE).ok().and_then(|cache| in_cache(&cache, name).next());
    let default = || {
        let files = DEFAULT.iter().map(|directory| PathBuf::from(directory).join(name));
        files.into_iter().find(|path| path.is_file())
    };
    cached.or_else(default)
}

/// Returns the names of the libraries that the cache knows.
#[must_use]
pub fn names() -> Vec<String> {
    let cache = fs::read(PLACE).unwrap_or_default();
    let entries = entries(&cache);
    let names = entries.filter_map(|(name, _)| text_at(&cache, name));
    names.map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

/// Returns the files that the text of a cache has under a name. Where there are several, for
/// other word sizes, the machine's own is first.
pub fn in_cache<'a>(cache: &'a [u8], name: &'a str) -> impl Iterator<Item = PathBuf> + 'a {
    let is_it = move |place: usize| text_at(cache, place) == Some(name.as_bytes());
    let fitting = entries(cache).filter(move |(one, _)| is_it(*one));
    let paths = fitting.filter_map(|(_, path)| text_at(cache, path));
    paths.map(|path| OsString::from_vec(path.to_vec()).into())
}

/// Returns each name in the text of a cache, with the file that the loader takes for it.
pub fn all_in_cache(cache: &[u8]) -> impl Iterator<Item = (String, PathBuf)> + '_ {
    entries(cache).filter_map(move |(name, path)| {
        let name = String::from_utf8(text_at(cache, name)?.to_vec()).ok()?;
        Some((name, OsString::from_vec(text_at(cache, path)?.to_vec()).into()))
    })
}

fn entries(cache: &[u8]) -> impl Iterator<Item = (usize, usize)> {
    let is_ours = cache.starts_with(MAGIC);
    let count = number_at(cache, MAGIC.len()).filter(|_| is_ours).unwrap_or(0);
    let entries = cache.get(HEADER..).unwrap_or_default().chunks_exact(ENTRY);
    entries.take(count).filter_map(|entry| Some((number_at(entry, 4)?, number_at(entry, 8)?)))
}

fn number_at(bytes: &[u8], place: usize) -> Option<usize> {
    let bytes = bytes.get(place..)?.first_chunk::<4>()?;
    usize::try_from(u32::from_ne_bytes(*bytes)).ok()
}

fn text_at(cache: &[u8], place: usize) -> Option<&[u8]> {
    let text = cache.get(place..)?;
    text.split(|&byte| byte == 0).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache() -> Vec<u8> {
        let texts = b"libm.so.6\0/lib/libm.so.6\0";
        let mut cache = MAGIC.to_vec();
        cache.extend(1_u32.to_ne_bytes());
        cache.resize(HEADER, 0);
        let start = u32::try_from(HEADER + ENTRY).unwrap();
        for number in [0, start, start + 10, 0, 0, 0] {
            cache.extend(number.to_ne_bytes());
        }
        cache.extend(texts);
        cache
    }

    #[test]
    fn a_library_is_found_by_its_whole_name() {
        assert_eq!(in_cache(&cache(), "libm.so.6").next(), Some("/lib/libm.so.6".into()));
        assert_eq!(in_cache(&cache(), "libm.so").next(), None);
    }

    #[test]
    fn a_cache_that_was_cut_off_anywhere_is_read_without_harm() {
        let whole = cache();
        for end in 0..whole.len() - 1 {
            let found = in_cache(&whole[..end], "libm.so.6").next();
            assert!(found != Some("/lib/libm.so.6".into()), "{end}");
        }
    }
}
