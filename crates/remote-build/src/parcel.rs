// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Directories on their way to another machine and back.
//!
//! A parcel is a list of entries: a line `KIND MODE SIZE LENGTH`, a path of LENGTH bytes, and SIZE bytes of
//! content. It has no times and no owners, so that the same files make the same parcel. It is not trusted
//! when it is unpacked: paths stay below the directory, and nothing is written through a link, because
//! all links are made last, each in a directory that is none.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, BufRead, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use cabane_label::{shown, shown_word};
use cabane_report::{IoContext, Kind, Report, Result};

/// Files of these names in a packed directory itself belong to tools.
const IGNORED: [&str; 2] = [".git", "__pycache__"];
/// The most entries.
const MOST_ENTRIES: usize = 200_000;
/// The most bytes of content of a recipe and its configuration.
pub(crate) const LARGEST_PARCEL: u64 = 64 << 30;
/// The longest path, and the longest target of a link.
const LONGEST_PATH: u64 = 4096;
const LONGEST_LINE: u64 = 100;
/// How deep links to directories outside of a recipe may nest.
const DEEPEST: usize = 40;

/// What a parcel may contain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The most bytes of content.
    pub(crate) bytes: u64,
    /// Whether there may be links.
    pub(crate) links: bool,
}

/// Writes a parcel.
pub(crate) struct Packer<W> {
    output: W,
    count: usize,
    /// How many bytes of content it may still get.
    left: u64,
}

impl<W: Write> Packer<W> {
    /// Begins one.
    pub(crate) fn new(output: W) -> Self {
        Self { output, count: 0, left: LARGEST_PARCEL }
    }

    /// Adds a file.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub(crate) fn file(&mut self, path: &Path, bytes: &[u8]) -> Result<()> {
        self.entry("file", 0o644, bytes.len() as u64, path)?;
        self.output.write_all(bytes).or_failed(writing)
    }

    /// Adds a directory under the name `below`. Links that lead out of it by a relative path are replaced
    /// by what they lead to, because that path leads nowhere at the other end. They stay in the directory's
    /// Git repository, or beside the directory if there is none.
    ///
    /// # Errors
    ///
    /// It cannot be read, contains something that is neither file, link, nor directory, a link leads further
    /// out, or it is too large.
    pub(crate) fn directory(&mut self, directory: &Path, below: &Path) -> Result<()> {
        let root =
            fs::canonicalize(directory).or_failed(|| format!("find {}", shown(directory)))?;
        self.tree(&root, &root, below, 0)
    }

    fn tree(&mut self, root: &Path, directory: &Path, name: &Path, depth: usize) -> Result<()> {
        let reading = || format!("read {}", shown(directory));
        let mode = fs::metadata(directory).or_failed(reading)?.permissions().mode();
        self.entry("directory", mode, 0, name)?;
        let entries: io::Result<Vec<_>> = fs::read_dir(directory).and_then(Iterator::collect);
        let mut names: Vec<OsString> =
            entries.or_failed(reading)?.into_iter().map(|entry| entry.file_name()).collect();
        names.sort_unstable();
        for entry in names {
            if directory == root && IGNORED.iter().any(|ignored| entry == *ignored) {
                continue;
            }
            self.any(root, &directory.join(&entry), &name.join(&entry), depth)?;
        }
        Ok(())
    }

    fn any(&mut self, root: &Path, path: &Path, name: &Path, depth: usize) -> Result<()> {
        let reading = || format!("read {}", shown(path));
        let mut found = fs::symlink_metadata(path).or_failed(reading)?;
        if found.is_symlink() {
            let target = fs::read_link(path).or_failed(reading)?;
            let end = fs::canonicalize(path).ok();
            let outside = end.filter(|end| target.is_relative() && !end.starts_with(root));
            let Some(outside) = outside else {
                let target = target.as_os_str().as_bytes();
                self.entry("link", 0o777, target.len() as u64, name)?;
                return self.output.write_all(target).or_failed(writing);
            };
            check_link(root, path, &outside)?;
            found = fs::metadata(&outside).or_failed(reading)?;
        }
        if found.is_dir() {
            if depth > DEEPEST {
                let message = format!("{} is nested too deeply", shown(path));
                return Err(Report::new(Kind::BadInput, message).hinted(format!(
                    "`find {} -type l` lists the links; remove one that leads to itself",
                    shown(root)
                )));
            }
            return self.tree(root, path, name, depth + 1);
        }
        if !found.is_file() {
            let message = format!("{} is not a file, a link, or a directory", shown(path));
            return Err(Report::new(Kind::BadInput, message)
                .hinted(format!("remove it: `rm {}`", shown_word(path))));
        }
        let file = File::open(path).or_failed(reading)?;
        self.entry("file", found.permissions().mode(), found.len(), name)?;
        let copied = io::copy(&mut file.take(found.len()), &mut self.output).or_failed(reading)?;
        if copied != found.len() {
            let message = format!("{} changed while it was copied", shown(path));
            return Err(Report::new(Kind::Failure, message).hinted(
                "run the same command again when no other program writes this file".to_owned(),
            ));
        }
        Ok(())
    }

    fn entry(&mut self, kind: &str, mode: u32, size: u64, name: &Path) -> Result<()> {
        self.count += 1;
        if self.count > MOST_ENTRIES {
            return Err(too_large(&format!("has more than {MOST_ENTRIES} files")));
        }
        let left = self.left.checked_sub(size);
        self.left = left.ok_or_else(|| too_large("is larger than 64 GiB"))?;
        let name = name.as_os_str().as_bytes();
        let mode = mode & 0o777;
        writeln!(self.output, "{kind} {mode:o} {size} {}", name.len())
            .and_then(|()| self.output.write_all(name))
            .or_failed(writing)
    }

    /// Ends the parcel. Returns where it was written.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub(crate) fn end(mut self) -> Result<W> {
        self.output
            .write_all(b"end 0 0 0\n")
            .and_then(|()| self.output.flush())
            .or_failed(writing)?;
        Ok(self.output)
    }
}

fn too_large(how: &str) -> Report {
    Report::new(Kind::BadInput, format!("the recipe {how}")).hinted(
        "move what the build does not need out of the recipe; `du -ah RECIPE | sort -h` shows the largest \
         files"
            .to_owned(),
    )
}

/// Fails if a link of a recipe leads to what is none of the recipe's business: a recipe from elsewhere does
/// not choose which files of the user leave this machine.
fn check_link(root: &Path, link: &Path, end: &Path) -> Result<()> {
    let repository = root.ancestors().find(|directory| directory.join(".git").exists());
    let bound = repository.or(root.parent()).unwrap_or(root);
    // What the way to it shares with the way to the recipe is the user's choice.
    let shared = root.components().zip(end.components()).take_while(|(a, b)| a == b).count();
    let mut rest = end.components().skip(shared);
    let is_hidden = rest.any(|part| part.as_os_str().as_bytes().starts_with(b"."));
    if end.starts_with(bound) && !root.starts_with(end) && !is_hidden {
        return Ok(());
    }
    let (link, end, bound) = (shown(link), shown(end), shown(bound));
    let message = format!("the link {link} leads to {end}, which is not copied");
    Err(Report::new(Kind::BadInput, message)
        .hinted(format!("links may lead to what is not hidden and below {bound}"))
        .hinted(format!(
            "`rm {link}` removes it; if the other machine may have the content, put a copy in its place"
        )))
}

fn writing() -> String {
    "write the files for the other machine".to_owned()
}

/// Unpacks a parcel into a directory, which is made and is private.
///
/// # Errors
///
/// The directory exists, the parcel is malformed or leads elsewhere, or exceeds the limits.
pub(crate) fn unpack(input: &mut dyn BufRead, directory: &Path, limits: Limits) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(directory)?;
    let mut links: Vec<(OsString, PathBuf)> = Vec::new();
    let mut directories: Vec<(PathBuf, u32)> = Vec::new();
    let mut left = limits.bytes;
    for _ in 0..=MOST_ENTRIES {
        let entry = Entry::read(input)?;
        left = left.checked_sub(entry.size).ok_or_else(|| malformed("it is too large"))?;
        let path = || below(directory, &entry.name);
        match entry.kind.as_str() {
            "end" => {
                for (target, path) in &links {
                    check_parents(directory, path)?;
                    symlink(target, path)?;
                }
                let mut deepest_first = directories.iter().rev();
                return deepest_first.try_for_each(|(path, mode)| {
                    fs::set_permissions(path, Permissions::from_mode(*mode))
                });
            }
            "directory" => {
                let path = path()?;
                DirBuilder::new().mode(0o700).create(&path)?;
                directories.push((path, entry.mode));
            }
            "file" => {
                let mut options = OpenOptions::new();
                options.write(true).create_new(true).mode(0o600);
                let mut file = options.open(path()?)?;
                if io::copy(&mut input.take(entry.size), &mut file)? != entry.size {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                // Whatever the umask is: modes are a part of an image.
                file.set_permissions(Permissions::from_mode(entry.mode))?;
            }
            "link" if limits.links && entry.size <= LONGEST_PATH => {
                let target = read_exactly(input, entry.size)?;
                links.push((OsString::from_vec(target), path()?));
            }
            _ => return Err(malformed("it has an entry of an unknown kind")),
        }
    }
    Err(malformed("it has too many entries"))
}

struct Entry {
    kind: String,
    mode: u32,
    size: u64,
    name: Vec<u8>,
}

impl Entry {
    fn read(input: &mut dyn BufRead) -> io::Result<Self> {
        let mut line = String::new();
        input.take(LONGEST_LINE).read_line(&mut line)?;
        if line.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let words: Vec<&str> = line.trim_end().split(' ').collect();
        let [kind, mode, size, length] = words[..] else {
            return Err(malformed("a line is not an entry"));
        };
        let number = |text: &str| text.parse().map_err(|_| malformed("a number is invalid"));
        let (size, length) = (number(size)?, number(length)?);
        let mode = u32::from_str_radix(mode, 8).map_err(|_| malformed("a mode is invalid"))?;
        if length > LONGEST_PATH || mode > 0o777 {
            return Err(malformed("a path is too long, or a mode too large"));
        }
        Ok(Self { kind: kind.to_owned(), mode, size, name: read_exactly(input, length)? })
    }
}

fn read_exactly(input: &mut dyn BufRead, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(length).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes)
}

fn below(directory: &Path, name: &[u8]) -> io::Result<PathBuf> {
    let name = Path::new(OsStr::from_bytes(name));
    let is_normal = |part: Component<'_>| matches!(part, Component::Normal(_));
    if name.as_os_str().is_empty() || name.as_os_str().as_bytes().contains(&0) {
        return Err(malformed("a path is empty"));
    }
    if !name.components().all(is_normal) {
        return Err(malformed("a path leads out of the directory"));
    }
    Ok(directory.join(name))
}

/// Fails if a directory on the way to a path is a link: one that was made a moment ago leads elsewhere.
fn check_parents(directory: &Path, path: &Path) -> io::Result<()> {
    let parents = path.ancestors().skip(1).take_while(|parent| *parent != directory);
    for parent in parents {
        if !fs::symlink_metadata(parent)?.is_dir() {
            return Err(malformed("a link is below another link"));
        }
    }
    Ok(())
}

fn malformed(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the files are malformed: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Limits = Limits { bytes: 1 << 20, links: true };

    fn packed(directory: &Path) -> Vec<u8> {
        let mut packer = Packer::new(Vec::new());
        packer.directory(directory, Path::new("recipe")).unwrap();
        packer.end().unwrap()
    }

    fn unpacked(parcel: &[u8], limits: Limits) -> io::Result<tempfile::TempDir> {
        let place = tempfile::tempdir().unwrap();
        unpack(&mut &parcel[..], &place.path().join("in"), limits).map(|()| place)
    }

    #[test]
    fn a_directory_arrives_as_it_was() {
        let world = tempfile::tempdir().unwrap();
        let recipe = world.path().join("recipe");
        fs::create_dir_all(recipe.join("a/b")).unwrap();
        fs::create_dir(recipe.join("__pycache__")).unwrap();
        fs::write(recipe.join("a/b/program"), "x").unwrap();
        fs::set_permissions(recipe.join("a/b/program"), Permissions::from_mode(0o755)).unwrap();
        symlink("b/program", recipe.join("a/link")).unwrap();
        symlink("/usr/bin/python3", recipe.join("a/python")).unwrap();
        fs::write(world.path().join("outside"), "from outside").unwrap();
        symlink("../outside", recipe.join("outside")).unwrap();
        let parcel = packed(&recipe);
        assert_eq!(parcel, packed(&recipe));
        let place = unpacked(&parcel, ALL).unwrap();
        let arrived = place.path().join("in/recipe");
        let mode = fs::metadata(arrived.join("a/b/program")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
        assert_eq!(fs::read_link(arrived.join("a/link")).unwrap(), Path::new("b/program"));
        let python = fs::read_link(arrived.join("a/python")).unwrap();
        assert_eq!(python, Path::new("/usr/bin/python3"));
        assert_eq!(fs::read(arrived.join("outside")).unwrap(), b"from outside");
        assert!(!arrived.join("__pycache__").exists());
        let mode = fs::metadata(place.path().join("in")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn a_link_takes_along_what_belongs_to_the_recipe_and_nothing_else() {
        let world = tempfile::tempdir().unwrap();
        let root = world.path().canonicalize().unwrap();
        let recipe = root.join("home/work/recipe");
        fs::create_dir_all(recipe.join("extra")).unwrap();
        for directory in ["home/.ssh", "home/common", "home/work/.secret", "home/work/beside"] {
            fs::create_dir(root.join(directory)).unwrap();
            fs::write(root.join(directory).join("file"), "x").unwrap();
        }
        let pack = |target: &str| {
            let link = recipe.join("extra/link");
            let _ = fs::remove_file(&link);
            symlink(target, &link).unwrap();
            Packer::new(Vec::new()).directory(&recipe, Path::new("recipe"))
        };
        pack("../../beside/file").unwrap();
        pack("../../beside").unwrap();
        let outside = ["../../../common/file", "../../../.ssh/file", "../../.secret", "../.."];
        for target in outside {
            let report = pack(target).unwrap_err();
            let says = format!("the link {} leads to ", recipe.join("extra/link").display());
            assert!(report.to_string().starts_with(&says), "{report}");
            assert_eq!((report.kind(), report.hints().len()), (Kind::BadInput, 2));
        }
        // By way of an absolute link, which is copied as it is.
        symlink(root.join("home/.ssh"), recipe.join("way")).unwrap();
        assert!(pack("../way/file").is_err());
        fs::create_dir(root.join("home/.git")).unwrap();
        fs::write(root.join("home/.git/config"), "x").unwrap();
        pack("../../../common/file").unwrap();
        assert!(pack("../../../.git/config").is_err() && pack("../../../.ssh/file").is_err());
        // A recipe that is a repository is all there is.
        fs::create_dir(recipe.join(".git")).unwrap();
        assert!(pack("../../beside/file").is_err());
        fs::remove_file(recipe.join("extra/link")).unwrap();
        let place = unpacked(&packed(&recipe), ALL).unwrap();
        let arrived = place.path().join("in/recipe");
        assert!(arrived.join("extra").exists() && !arrived.join(".git").exists());
    }

    #[test]
    fn a_recipe_that_is_too_large_is_not_copied() {
        let world = tempfile::tempdir().unwrap();
        let file = File::create(world.path().join("large")).unwrap();
        file.set_len(LARGEST_PARCEL + 1).unwrap();
        let packed = Packer::new(io::sink()).directory(world.path(), Path::new("recipe"));
        assert_eq!(packed.unwrap_err().to_string(), "the recipe is larger than 64 GiB");
    }

    #[test]
    fn a_parcel_that_leads_elsewhere_is_rejected() {
        for name in ["../x", "/tmp/x", "a/../../x", ".", ""] {
            let parcel = format!("file 644 1 {}\n{name}xend 0 0 0\n", name.len());
            assert!(unpacked(parcel.as_bytes(), ALL).is_err(), "{name}");
        }
        // A link is made after all files, so that none is written through it.
        let parcel = "link 777 4 1\na/tmpfile 644 1 3\na/xyend 0 0 0\n";
        assert!(unpacked(parcel.as_bytes(), ALL).is_err());
        // Nor is another link.
        let place = tempfile::tempdir().unwrap();
        let target = place.path().to_str().unwrap();
        let parcel =
            format!("link 777 {} 1\na{target}link 777 4 3\na/x/tmpend 0 0 0\n", target.len());
        assert!(unpacked(parcel.as_bytes(), ALL).is_err());
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
        let parcel = "directory 755 0 1\nalink 777 4 3\na/b/tmpend 0 0 0\n";
        assert!(unpacked(parcel.as_bytes(), ALL).is_ok());
        let link = "link 777 4 1\na/tmpend 0 0 0\n";
        assert!(unpacked(link.as_bytes(), Limits { links: false, ..ALL }).is_err());
        assert!(unpacked(link.as_bytes(), ALL).is_ok());
    }

    #[test]
    fn a_parcel_that_is_cut_or_too_large_is_rejected() {
        let parcel = b"file 644 3 1\naxyzend 0 0 0\n";
        assert!(unpacked(parcel, ALL).is_ok());
        for length in 0..parcel.len() {
            let cut = unpacked(&parcel[..length], ALL);
            assert!(cut.is_err() || length == parcel.len() - 1, "{length}");
        }
        assert!(unpacked(parcel, Limits { bytes: 2, ..ALL }).is_err());
    }

    #[test]
    fn whatever_is_changed_in_a_parcel_nothing_is_written_beside_its_directory() {
        let parcel = b"directory 755 0 1\nafile 644 3 3\na/bxyzlink 777 4 3\na/c/tmpend 0 0 0\n";
        let parts: [&[u8]; 9] =
            [b"..", b"/", b"\n", b" ", b"0", b"9999999999999999999", b"link", b"end", b"\0"];
        let mut state: u64 = 88_172_645_463_325_252;
        let mut random = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state % below as u64).unwrap()
        };
        let place = tempfile::tempdir().unwrap();
        for _ in 0..500 {
            let mut changed = parcel.to_vec();
            for _ in 0..=random(4) {
                let at = random(changed.len());
                let end = (at + random(4)).min(changed.len());
                let part = parts[random(parts.len())];
                changed.splice(at..end, part.iter().copied());
            }
            let _ = unpack(&mut &changed[..], &place.path().join("in"), ALL);
            let found: Vec<_> = fs::read_dir(place.path()).unwrap().flatten().collect();
            assert_eq!(found.len(), 1, "{}", String::from_utf8_lossy(&changed));
            let _ = cabane_builder::remove_tree(&place.path().join("in"));
        }
    }
}
