// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images that are damaged, or changed while they are mounted.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cabane_mount::ImageFormat;
use cabane_testkit::{Finished, Tree, fewer, slowness, time_limit};

use crate::arena::{Arena, in_arena};
use crate::limits::Up;
use crate::start::assert_refused;

const FORMATS: [ImageFormat; 2] = [ImageFormat::Squashfs, ImageFormat::Erofs];

/// How many flipped images of each format are tried, and for how long at most.
const FLIPS: usize = 1000;
const FLIPPERS: usize = 4;
const FLIPPING: Duration = Duration::from_secs(30);

/// An image with a bit of everything: directories, links, files that compress and
/// others.
fn rich(arena: &Arena, format: ImageFormat) -> PathBuf {
    let mut random = Random::new(7);
    let noise: String =
        (0..60_000).map(|_| char::from(b'a' + u8::try_from(random.below(26)).unwrap())).collect();
    let mut tree = Tree::new(arena.world.path("trees/rich"))
        .file("noise", &noise)
        .file("text", &"compresses well\n".repeat(3000))
        .file("a/b/c/d/deep", "deep");
    for number in 0..40 {
        tree = tree.file(&format!("many/{number}"), &number.to_string());
    }
    let link = tree.root().join("link");
    if fs::symlink_metadata(&link).is_err() {
        std::os::unix::fs::symlink("a/b", link).unwrap();
    }
    arena.pack(&tree, "rich", format)
}

/// Ways to read all of an image: names, links and contents.
const READERS: [&[&str]; 3] =
    [&["grep", "-rqa", "--", "nothing has this text"], &["find", "-L"], &["du", "-a"]];

/// Mounts and reads all of it. Whatever is wrong is an error of the helper or of the
/// reader, and soon.
fn read_all(arena: &Arena, image: &Path, format: ImageFormat, reader: usize) -> Finished {
    let place = arena.first().to_str().unwrap();
    let seconds = (5 * slowness()).to_string();
    let mut command = vec!["timeout", "--signal=KILL", &seconds];
    command.extend(READERS[reader % READERS.len()]);
    command.push(place);
    let start = arena.start().image(image, arena.first()).declared(format);
    let finished = start.command(&command).finish();
    let is_refused = finished.code == 125 && finished.stdout.is_empty();
    // What a reader says about an error; not that it took too long or crashed.
    let is_read = finished.code < 3;
    assert!(is_refused || is_read, "{finished:?}");
    finished
}

#[test]
fn what_is_no_image_is_refused_with_a_message() {
    in_arena(|arena| {
        let squashfs = arena.any_image();
        let erofs = arena.image("erofs", ImageFormat::Erofs);
        let file = |name: &str, bytes: &[u8]| {
            let path = arena.world.path(name);
            fs::write(&path, bytes).unwrap();
            path
        };
        let wrong_magic = {
            let mut bytes = fs::read(&squashfs).unwrap();
            bytes[..4].copy_from_slice(b"none");
            file("magic", &bytes)
        };
        for format in FORMATS {
            let empty = file("empty", b"");
            let start = arena.start().image(&empty, arena.first());
            assert_refused(&start.declared(format).finish(), "it is no plain file");
        }
        let images = [
            (file("one", b"x"), ImageFormat::Squashfs),
            (file("zero", &vec![0; 1 << 20]), ImageFormat::Squashfs),
            (file("zero", &vec![0; 1 << 20]), ImageFormat::Erofs),
            (wrong_magic, ImageFormat::Squashfs),
            (squashfs.clone(), ImageFormat::Erofs),
            (erofs, ImageFormat::Squashfs),
            ("/bin/sh".into(), ImageFormat::Squashfs),
            ("/etc/passwd".into(), ImageFormat::Erofs),
        ];
        for (image, format) in images {
            let finished = arena.start().image(&image, arena.first()).declared(format).finish();
            assert_refused(&finished, &format!("cannot mount {} as {format}", image.display()));
        }
        arena.start().image(&squashfs, arena.first()).finish().success();
    });
}

#[test]
fn a_file_of_absurd_size_is_refused() {
    in_arena(|arena| {
        for format in FORMATS {
            let path = arena.world.path("huge");
            let file = File::create(&path).unwrap();
            // The largest that the file system takes.
            let sizes = [i64::MAX as u64, 1 << 50, 1 << 43];
            assert!(sizes.into_iter().any(|size| file.set_len(size).is_ok()));
            let finished = read_all(arena, &path, format, 0);
            assert_refused(&finished, "cannot mount");
        }
    });
}

#[test]
fn an_image_that_was_cut_off_anywhere_does_no_harm() {
    in_arena(|arena| {
        for format in FORMATS {
            let whole = fs::read(rich(arena, format)).unwrap();
            let path = arena.world.path("cut");
            let step = whole.len() / 40;
            let lengths = (0..40).map(|number| number * step + number % 7);
            let edges = [95, 96, 1023, 1024, 1151, 1152, 4096, whole.len() - 1];
            for (number, length) in lengths.chain(edges).enumerate() {
                fs::write(&path, &whole[..length]).unwrap();
                read_all(arena, &path, format, number);
            }
            fs::write(&path, &whole).unwrap();
            // `grep` reads everything, and finds nothing.
            assert_eq!(read_all(arena, &path, format, 0).code, 1);
        }
    });
}

#[test]
fn images_with_flipped_bits_do_no_harm() {
    in_arena(|arena| {
        // Someone else's, who must not notice.
        let other = arena.image("other", ImageFormat::Squashfs);
        let start = arena.start().user(arena.another_user()).image(&other, arena.second());
        let bystander = Up::with(&start, "echo up");
        // A start waits more than it works.
        std::thread::scope(|scope| {
            for format in FORMATS {
                let whole = fs::read(rich(arena, format)).unwrap();
                let results: Vec<_> = (0..FLIPPERS)
                    .map(|part| {
                        let whole = whole.clone();
                        scope.spawn(move || flip(arena, format, &whole, part))
                    })
                    .collect();
                scope.spawn(move || {
                    let results = results.into_iter().map(|result| result.join().unwrap());
                    let (tried, refused) =
                        results.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
                    cabane_testkit::say(&format!(
                        "note: {tried} flipped {format} images, {refused} refused"
                    ));
                    assert!(tried > 20 && refused > 0 && refused < tried);
                });
            }
        });
        let place = arena.second().display();
        let finished = start.script(&format!("cat {place}/name")).finish();
        bystander.end();
        assert_eq!(finished.success().stdout, "other");
    });
}

/// Tries every so many-th of the flipped images; returns how many, and how many of
/// them the kernel refused.
fn flip(arena: &Arena, format: ImageFormat, whole: &[u8], part: usize) -> (usize, usize) {
    let mut random = Random::new(format.name().len() + 100 * part);
    let begin = Instant::now();
    let path = arena.world.path(&format!("flipped-{part}.{format}"));
    let (mut tried, mut refused) = (0, 0);
    while tried < fewer(FLIPS / FLIPPERS) && begin.elapsed() < time_limit(FLIPPING) {
        let mut bytes = whole.to_owned();
        for _ in 0..=random.below(4) {
            // Half of them where the structure is: at the beginning and at the end.
            let place = match random.below(4) {
                0 => random.below(1300.min(bytes.len())),
                1 => bytes.len() - 1 - random.below(3000.min(bytes.len())),
                _ => random.below(bytes.len()),
            };
            bytes[place] ^= 1 << random.below(8);
        }
        fs::write(&path, &bytes).unwrap();
        refused += usize::from(read_all(arena, &path, format, tried).code == 125);
        // Another file each time, not the same one changed.
        fs::remove_file(&path).unwrap();
        tried += 1;
    }
    (tried, refused)
}

#[test]
fn an_image_that_changes_while_it_is_mounted_harms_only_its_users() {
    in_arena(|arena| {
        let (first, second) = (arena.first().display(), arena.second().display());
        for format in FORMATS {
            let other = arena.image("other", format);
            let bystander = arena.start().user(arena.another_user());
            let bystander = bystander.image(&other, arena.second());
            let script = format!("echo up; read go; cat {second}/name");
            let mut bystander = Waiting::begin(&bystander.script(&script));
            for harm in [Harm::Overwrite, Harm::CutOff] {
                let changing = rich(arena, format);
                let start = arena.start().image(&changing, arena.first());
                let seconds = 20 * slowness();
                let script = format!(
                    "exec 9<{first}/noise; echo up; read go
                     timeout --signal=KILL {seconds} cat {first}/noise {first}/text {first}/many/* \
                         >/dev/null 2>&1; echo $?; cat <&9 >/dev/null 2>&1; echo $?"
                );
                let mut reader = Waiting::begin(&start.script(&script));
                harm.to(&changing);
                let printed = reader.go();
                fs::remove_file(&changing).unwrap();
                // An error for its reader, and no crash.
                assert!(printed == "1\n1\n" || printed == "1\n0\n", "{printed}");
            }
            assert_eq!(bystander.go(), "other");
        }
    });
}

enum Harm {
    Overwrite,
    CutOff,
}

impl Harm {
    fn to(&self, image: &Path) {
        let mut file = File::options().write(true).open(image).unwrap();
        match self {
            Self::Overwrite => {
                let size = file.metadata().unwrap().len();
                file.seek(SeekFrom::Start(200)).unwrap();
                file.write_all(&vec![0xff; usize::try_from(size).unwrap() - 200]).unwrap();
            }
            Self::CutOff => file.set_len(0).unwrap(),
        }
    }
}

/// A command that has printed `up`, and waits for a line to go on.
struct Waiting {
    child: std::process::Child,
    output: std::io::BufReader<std::process::ChildStdout>,
}

impl Waiting {
    fn begin(start: &crate::start::Start<'_>) -> Self {
        use std::io::BufRead;
        let mut command = start.process();
        command.stdin(std::process::Stdio::piped());
        command.stdout(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut output = std::io::BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "up\n");
        Self { child, output }
    }

    /// Lets it go on, and returns what it says until its end.
    fn go(&mut self) -> String {
        use std::io::Read;
        drop(self.child.stdin.take());
        let mut printed = String::new();
        self.output.read_to_string(&mut printed).unwrap();
        self.child.wait().unwrap();
        printed
    }
}

/// Numbers that look random, the same at every run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: usize) -> Self {
        Self((seed as u64).wrapping_mul(2).wrapping_add(0x9e37_79b9_7f4a_7c15))
    }

    /// A number below another one (xorshift*).
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(number).unwrap() % end.max(1)
    }
}
