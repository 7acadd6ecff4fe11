// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images that are damaged, or changed while they are mounted.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cabane_mount::ImageFormat;
use cabane_testkit::{Finished, Tree};

use crate::arena::{Arena, in_arena, in_private_world};
use crate::left_over::USERS;
use crate::limits::Up;
use crate::random::Random;
use crate::start::assert_refused;

const FORMATS: [ImageFormat; 2] = [ImageFormat::Squashfs, ImageFormat::Erofs];

/// How many flipped images of each format are tried, and for how long at most.
const FLIPS: usize = 1000;
const FLIPPING: Duration = Duration::from_secs(9);

/// An image with a bit of everything: directories, links, files that compress and
/// others.
fn rich(arena: &Arena, format: ImageFormat) -> PathBuf {
    let mut random = Random::new(7);
    let noise: String = (0..60_000)
        .map(|_| char::from(b'a' + u8::try_from(random.below(26)).unwrap()))
        .collect();
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

/// Mounts and reads all of it. Whatever is wrong is an error of the helper or of the
/// reader, and soon.
fn read_all(arena: &Arena, image: &Path, format: ImageFormat) -> Finished {
    let start = arena.start().image(image, arena.first()).declared(format);
    let place = arena.first().display();
    let script = format!(
        "timeout 3 ls -lR {place} >/dev/null 2>&1; timeout 3 tar cf - {place} 2>/dev/null | cat >/dev/null; \
                          echo read"
    );
    let begin = Instant::now();
    let finished = start.script(&script).finish();
    let is_refused = finished.code == 125 && finished.stdout.is_empty();
    let is_read = finished.code == 0 && finished.stdout == "read\n";
    assert!(is_refused || is_read, "{finished:?}");
    assert!(begin.elapsed() < Duration::from_secs(15), "{finished:?}");
    finished
}

#[test]
fn what_is_no_image_is_refused_in_words() {
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
        let images = [
            (file("empty", b""), ImageFormat::Squashfs),
            (file("empty", b""), ImageFormat::Erofs),
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
            let finished = arena
                .start()
                .image(&image, arena.first())
                .declared(format)
                .finish();
            assert_refused(
                &finished,
                &format!("cannot mount {} as {format}", image.display()),
            );
        }
        arena
            .start()
            .image(&squashfs, arena.first())
            .finish()
            .success();
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
            let finished = read_all(arena, &path, format);
            assert_refused(&finished, "cannot mount");
        }
    });
}

#[test]
fn an_image_that_was_cut_off_anywhere_harms_nobody() {
    in_arena(|arena| {
        for format in FORMATS {
            let whole = fs::read(rich(arena, format)).unwrap();
            let path = arena.world.path("cut");
            let step = whole.len() / 40;
            let lengths = (0..40).map(|number| number * step + number % 7);
            for length in lengths.chain([95, 96, 1023, 1024, 1151, 1152, 4096, whole.len() - 1]) {
                fs::write(&path, &whole[..length]).unwrap();
                read_all(arena, &path, format);
            }
            fs::write(&path, &whole).unwrap();
            assert_eq!(read_all(arena, &path, format).code, 0);
        }
    });
}

#[test]
fn images_with_flipped_bits_harm_nobody() {
    in_arena(|arena| {
        // Somebody else's, who must not notice.
        let other = arena.image("other", ImageFormat::Squashfs);
        let user = if arena.is_private() {
            USERS[1]
        } else {
            USERS[0]
        };
        let start = arena.start().user(user).image(&other, arena.second());
        let bystander = Up::with(&start, "echo up");
        std::thread::scope(|scope| {
            for format in FORMATS {
                scope.spawn(move || flip(arena, format));
            }
        });
        let place = arena.second().display();
        let finished = start.script(&format!("cat {place}/name")).finish();
        bystander.end();
        assert_eq!(finished.success().stdout, "other");
    });
}

fn flip(arena: &Arena, format: ImageFormat) {
    let whole = fs::read(rich_once(arena, format)).unwrap();
    let mut random = Random::new(format.name().len());
    let begin = Instant::now();
    let (mut tried, mut refused) = (0, 0);
    while tried < FLIPS && begin.elapsed() < FLIPPING {
        let mut bytes = whole.clone();
        for _ in 0..=random.below(4) {
            // Half of them where the structure is: at the beginning and at the end.
            let place = match random.below(4) {
                0 => random.below(1300.min(bytes.len())),
                1 => bytes.len() - 1 - random.below(3000.min(bytes.len())),
                _ => random.below(bytes.len()),
            };
            bytes[place] ^= 1 << random.below(8);
        }
        let path = arena.world.path(&format!("flipped-{tried}.{format}"));
        fs::write(&path, &bytes).unwrap();
        refused += usize::from(read_all(arena, &path, format).code != 0);
        fs::remove_file(&path).unwrap();
        tried += 1;
    }
    cabane_testkit::say(&format!(
        "note: {tried} flipped {format} images, {refused} refused"
    ));
    assert!(tried > 20 && refused > 0 && refused < tried);
}

/// Both formats pack the same tree, one after the other.
fn rich_once(arena: &Arena, format: ImageFormat) -> PathBuf {
    static PACKING: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _lock = PACKING.lock().unwrap();
    rich(arena, format)
}

#[test]
fn an_image_that_changes_while_it_is_mounted_harms_only_its_users() {
    in_private_world(|arena| {
        for format in FORMATS {
            let other = arena.image("other", format);
            let bystander = arena.start().user(USERS[1]).image(&other, arena.second());
            let mut bystander =
                Waiting::begin(&bystander.script("echo up; read go; cat /mnt/b/name"));
            let script = "exec 9</mnt/a/noise; echo up; read go; \
                          timeout 20 tar cf - /mnt/a 2>/dev/null | cat >/dev/null; head -c 70000 <&9 >/dev/null; echo end";
            for harm in [Harm::Overwrite, Harm::CutOff] {
                let changing = rich(arena, format);
                let start = arena.start().image(&changing, arena.first());
                let mut reader = Waiting::begin(&start.script(script));
                harm.to(&changing);
                let said = reader.go();
                assert!(said.contains("end"), "{said}");
                fs::remove_file(&changing).unwrap();
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
                file.seek(SeekFrom::Start(200)).unwrap();
                file.write_all(&vec![0xff; 20_000]).unwrap();
            }
            Self::CutOff => file.set_len(0).unwrap(),
        }
        // What is cached is no proof.
        fs::write("/proc/sys/vm/drop_caches", "1").ok();
    }
}

/// A command that has said `up`, and waits to be told to go on.
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
        assert!(line == "up\n" || line.is_empty(), "{line}");
        Self { child, output }
    }

    /// Lets it go on, and returns what it says until its end.
    fn go(&mut self) -> String {
        use std::io::Read;
        drop(self.child.stdin.take());
        let mut said = String::new();
        self.output.read_to_string(&mut said).unwrap();
        self.child.wait().unwrap();
        said
    }
}
