// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! Images whose content the kernel checks: their owners change them, bring other hash trees, and
//! forge what vouches for them.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use cabane_mount::{ImageFormat, JobImage, JobMounts, JobOwner, JobRoot, RootHash, Way, verity};
use cabane_testkit::{Finished, Tree, belongs_to};

use crate::arena::{Arena, COMMAND, in_private_world, root};
use crate::left_over::assert_none;
use crate::limits::Up;
use crate::start::{Start, assert_refused};

const POLICY: &str = "mount-point /mnt/a\nmount-point /mnt/b\nidle-seconds 0\n";
const LIST: &str = "/etc/cabane/verified-images";
/// Each looks for devices that are left behind, which have no owner.
static ALONE: Mutex<()> = Mutex::new(());

/// An image that its user may change, and what belongs to it.
struct Own {
    image: PathBuf,
    tree: PathBuf,
    root_hash: String,
}

impl Own {
    fn make(arena: &Arena, name: &str) -> Self {
        Self::of(
            arena,
            &Tree::new(arena.world.path(&format!("trees/{name}"))).file("name", name),
            name,
        )
    }

    fn of(arena: &Arena, tree: &Tree, name: &str) -> Self {
        let image = arena.pack(tree, name, ImageFormat::Squashfs);
        let [tree, _] = cabane_mount::Verity::beside(&image);
        let opened = File::options().read(true).write(true).create_new(true).open(&tree).unwrap();
        let root_hash = cabane_verity::write_tree(&File::open(&image).unwrap(), &opened).unwrap();
        root(&format!("chown 61234 {} {}", image.display(), tree.display()));
        let root_hash = RootHash::new(root_hash).to_string();
        Self { image, tree, root_hash }
    }

    fn start<'a>(&self, arena: &'a Arena) -> Start<'a> {
        self.with(arena, &self.tree, &self.root_hash)
    }

    fn with<'a>(&self, arena: &'a Arena, tree: &Path, root_hash: &str) -> Start<'a> {
        let start = arena.start().image(&self.image, arena.first());
        start.verified(tree, root_hash, &[]).script("cat /mnt/a/name")
    }
}

/// Starts with images that the list vouches for, and that a signature should vouch for.
pub(crate) fn starts(arena: &Arena) -> [Start<'_>; 2] {
    let policy = fs::read_to_string(cabane_mount::Policy::PATH).unwrap();
    arena.set_policy(&format!("{policy}verified-signatures yes\n"));
    let (own, other) = (Own::make(arena, "own"), Own::make(arena, "other"));
    vouch_for(&[&own]);
    let unlisted = arena.start().image(&other.image, arena.second());
    [own.start(arena), unlisted.verified(&other.tree, &other.root_hash, b"anything")]
}

fn vouch_for(images: &[&Own]) {
    let lines = images.iter().map(|own| format!("{}  own of somebody\n", own.root_hash));
    fs::write(LIST, lines.collect::<String>()).unwrap();
}

/// Attacks where the kernel has dm-verity, one test after the other.
macro_rules! with_verity {
    ($attack:expr) => {{
        if !verity::is_in_kernel() {
            belongs_to!("make test-kernels");
        }
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        in_private_world($attack)
    }};
}

#[test]
fn the_kernel_reads_what_the_site_vouches_for_whoever_owns_it() {
    with_verity!(|arena: &Arena| {
        arena.set_policy(POLICY);
        let own = Own::make(arena, "own");
        vouch_for(&[&own]);
        let script = "cat /mnt/a/name; echo; findmnt -no SOURCE,FSTYPE /mnt/a";
        let seen = own.start(arena).script(script).finish().success().stdout;
        assert!(seen.starts_with("own\n/dev/dm-") && seen.ends_with("squashfs\n"), "{seen}");
        let as_it_is = arena.start().image(&own.image, arena.first()).finish();
        assert_refused(&as_it_is, "does not trust its owner");
    });
}

#[test]
fn the_mount_is_shared_and_goes_with_its_last_user() {
    with_verity!(|arena: &Arena| {
        arena.set_policy(&POLICY.replace("idle-seconds 0", "idle-seconds 600"));
        let own = Own::make(arena, "own");
        vouch_for(&[&own]);
        let device = |up: &Up| up.printed.trim().to_owned();
        let show = "stat --format=%d /mnt/a";
        let first = Up::with(&own.start(arena), show);
        let second = Up::with(&own.start(arena).user(arena.another_user()), show);
        assert_eq!(device(&first), device(&second));
        first.end();
        // Taken out of the cache to see whether it is in use, and mounted again.
        arena.start().clean();
        let third = Up::with(&own.start(arena), show);
        assert_eq!(device(&second), device(&third));
        second.end();
        third.end();
        assert_none(arena);
    });
}

#[test]
fn what_is_not_in_the_list_is_refused() {
    with_verity!(|arena: &Arena| {
        arena.set_policy(POLICY);
        let (own, other) = (Own::make(arena, "own"), Own::make(arena, "other"));
        assert_refused(&own.start(arena).finish(), "is not in /etc/cabane/verified-images");
        vouch_for(&[&other]);
        assert_refused(&own.start(arena).finish(), "is not in /etc/cabane/verified-images");
        // A comment is none, nor is a part of a line.
        fs::write(LIST, format!("# {0}\n-{0}\n{0}0\n", own.root_hash)).unwrap();
        assert_refused(&own.start(arena).finish(), "is not in /etc/cabane/verified-images");
    });
}

#[test]
fn a_list_that_others_can_write_is_none() {
    with_verity!(|arena: &Arena| {
        arena.set_policy(POLICY);
        let own = Own::make(arena, "own");
        vouch_for(&[&own]);
        for (weaken, restore) in [
            ("chown 61234 L", "chown 0 L"),
            ("chmod 666 L", "chmod 644 L"),
            ("chmod 777 /etc/cabane", "chmod 755 /etc/cabane"),
            ("mv L /tmp/list; ln -s /tmp/list L", "rm L; mv /tmp/list L"),
        ] {
            root(&weaken.replace('L', LIST));
            let refused = own.start(arena).finish();
            root(&restore.replace('L', LIST));
            assert_eq!((refused.code, refused.stdout.as_str()), (125, ""), "{weaken} {refused:?}");
        }
        own.start(arena).finish().success();
    });
}

#[test]
fn another_content_cannot_take_the_place_of_one_that_is_vouched_for() {
    with_verity!(|arena: &Arena| {
        arena.set_policy(POLICY);
        let (own, evil) = (Own::make(arena, "own"), Own::make(arena, "evil"));
        vouch_for(&[&own]);
        for (what, tree, root_hash) in [
            ("the tree that fits the root", &own.tree, &own.root_hash),
            ("the tree that fits the content", &evil.tree, &own.root_hash),
            ("no tree", &evil.image, &own.root_hash),
        ] {
            let finished = evil.with(arena, tree, root_hash).finish();
            assert_eq!((finished.code, finished.stdout.as_str()), (125, ""), "{what} {finished:?}");
        }
        let empty = arena.world.path("empty");
        fs::write(&empty, "").unwrap();
        assert_refused(&own.with(arena, &empty, &own.root_hash).finish(), "no plain file");
    });
}

impl Own {
    /// The sum of the file with many blocks.
    fn sum_of_data(&self) -> String {
        let script = format!("unsquashfs -cat {} data | sha256sum", self.image.display());
        let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }
}

/// Makes an EROFS image whose blocks are hashes of other blocks: of those of a larger image, which has one
/// more level of hashes. What is written in front of the file system, EROFS does not read.
const CONFUSE_LEVELS: &str = r#"
import hashlib, sys
good, evil = (open(name, "rb").read() for name in sys.argv[1:3])
count = 129
salt = lambda count: count.to_bytes(8, "little")
hashed = lambda block, count: hashlib.sha256(salt(count) + block).digest()
blocks = lambda data: [data[i:i + 4096] for i in range(0, len(data), 4096)]
larger = evil + bytes(4096 * count - len(evil))
good = good.ljust(16 * 4096, b"\0")
front = b"".join(hashed(block, count) for block in blocks(larger)[:32])
good = front + good[1024:]
top = b"".join(hashed(block, len(blocks(good))) for block in blocks(good)).ljust(4096, b"\0")
open("good.erofs", "wb").write(good)
open("evil.erofs", "wb").write(larger)
open("evil.erofs.verity", "wb").write(bytes(4096) + top + good[:8192])
print(hashed(top, len(blocks(good))).hex())
"#;

#[test]
fn the_blocks_of_an_image_cannot_be_taken_for_hashes_of_another() {
    with_verity!(|arena: &Arena| {
        arena.set_policy(POLICY);
        let place = arena.world.path("");
        let pack = |name: &str| {
            let tree = Tree::new(arena.world.path(&format!("trees/{name}"))).file("name", name);
            arena.pack(&tree, &format!("packed-{name}"), ImageFormat::Erofs)
        };
        let (good, evil) = (pack("good"), pack("evil"));
        let mut python = std::process::Command::new("python3");
        python.args(["-c", CONFUSE_LEVELS]).args([&good, &evil]).current_dir(&place);
        let root_hash = Finished::of(&mut python).success().stdout.trim().to_owned();
        fs::write(LIST, format!("{root_hash} good\n")).unwrap();
        // What is trusted is an image, and has this root hash.
        let image = place.join("good.erofs");
        let tree = place.join("good.erofs.verity");
        let opened = File::options().read(true).write(true).create_new(true).open(&tree).unwrap();
        let written = cabane_verity::write_tree(&File::open(&image).unwrap(), &opened).unwrap();
        assert_eq!(RootHash::new(written).as_str(), root_hash);
        root(&format!("chown 61234 {0}/*.erofs {0}/*.verity", place.display()));
        let own = |name: &str| Own {
            image: place.join(name),
            tree: place.join(format!("{name}.verity")),
            root_hash: root_hash.clone(),
        };
        assert_eq!(own("good.erofs").start(arena).finish().success().stdout, "good");
        let refused = own("evil.erofs").start(arena).finish();
        assert_eq!((refused.code, refused.stdout.as_str()), (125, ""), "{refused:?}");
    });
}

/// A tree with files that fill many blocks and cannot be packed smaller.
fn large(arena: &Arena) -> Own {
    let tree = Tree::new(arena.world.path("trees/large")).file("name", "large");
    root(&format!("head -c 4000000 /dev/urandom >{}/data", tree.root().display()));
    Own::of(arena, &tree, "large")
}

/// Reads a file of an image that its owner changes while it is mounted, when nothing of it is in
/// memory; returns what the reader says.
fn read_after(arena: &Arena, own: &Own, change: &str) -> String {
    vouch_for(&[own]);
    let script = "echo up; read go; cat /mnt/a/data | sha256sum; cat /mnt/a/data 2>&1 >/dev/null";
    let up = Up::with(&own.start(arena), script);
    root(&format!(
        "setpriv --reuid 61234 --regid 61234 --clear-groups sh -c '{}'; sync; echo 3 >/proc/sys/vm/drop_caches",
        change
            .replace("IMAGE", &own.image.display().to_string())
            .replace("TREE", &own.tree.display().to_string())
    ));
    up.answer("go")
}

#[test]
fn an_image_that_its_owner_changes_gives_errors_and_nothing_else() {
    with_verity!(|arena: &Arena| {
        arena.set_policy(POLICY);
        for change in [
            "dd if=/dev/zero of=IMAGE bs=4096 seek=100 count=40 conv=notrunc status=none",
            "truncate -s 400000 IMAGE",
            "dd if=/dev/urandom of=TREE bs=4096 seek=1 count=20 conv=notrunc status=none",
        ] {
            let own = large(arena);
            let said = read_after(arena, &own, change);
            // The kernel may still have the hashes.
            let is_whole = change.contains("TREE") && said.starts_with(&own.sum_of_data());
            assert!(is_whole || said.contains("Input/output error"), "{change}: {said}");
            fs::remove_file(&own.image).unwrap();
            fs::remove_file(&own.tree).unwrap();
            fs::remove_dir_all(arena.world.path("trees/large")).unwrap();
        }
    });
}

#[test]
fn a_signature_counts_only_where_the_policy_says_so_and_the_kernel_has_the_key() {
    with_verity!(|arena: &Arena| {
        let own = Own::make(arena, "own");
        let (image, place) = (&own.image, arena.first());
        let start = |signature: &[u8]| {
            let start = arena.start().image(image, place);
            start.verified(&own.tree, &own.root_hash, signature).finish()
        };
        arena.set_policy(POLICY);
        assert_refused(&start(b"anything"), "is not in /etc/cabane/verified-images");
        arena.set_policy(&format!("{POLICY}verified-signatures yes\n"));
        assert_refused(&start(b""), "is not in /etc/cabane/verified-images");
        let nobody = Key::make(arena, "nobody");
        for signature in [b"anything".to_vec(), vec![0; 8192], nobody.sign(arena, &own)] {
            assert_refused(&start(&signature), "cannot check the content");
        }
        // With the list the signature makes no difference.
        vouch_for(&[&own]);
        start(b"anything").success();
    });
}

/// The keys that the kernel accepts for root hashes alone, if it has such a keyring and one can be
/// added.
const KEYRING: &str = "/sys/module/dm_verity/parameters/keyring_unsealed";

#[test]
fn a_signature_of_a_key_that_the_kernel_has_is_enough_for_one_content() {
    if !fs::read_to_string(KEYRING).is_ok_and(|text| text.trim() == "Y") {
        belongs_to!("make test-kernels");
    }
    with_verity!(|arena: &Arena| {
        arena.set_policy(&format!("{POLICY}verified-signatures yes\n"));
        let (own, other) = (Own::make(arena, "own"), Own::make(arena, "other"));
        let site = Key::make(arena, "site");
        site.give_to_kernel(arena);
        let start = |own: &Own, signature: &[u8]| {
            let start = arena.start().image(&own.image, arena.first());
            start.verified(&own.tree, &own.root_hash, signature).script("cat /mnt/a/name").finish()
        };
        let nobody = Key::make(arena, "nobody");
        let refused = start(&own, &nobody.sign(arena, &own));
        assert_refused(&refused, "must be of a key that the kernel trusts");
        let refused = start(&other, &site.sign(arena, &own));
        assert_refused(&refused, "must be of a key that the kernel trusts");
        assert_eq!(start(&own, &site.sign(arena, &own)).success().stdout, "own");
    });
}

/// A key and its certificate.
struct Key(String);

impl Key {
    fn make(arena: &Arena, name: &str) -> Self {
        let place = arena.world.path("");
        root(&format!(
            "cd {}
             printf '[req]\\ndistinguished_name = name\\n[name]\\n' >settings
             openssl req -config settings -x509 -newkey rsa:2048 -nodes -subj /CN={name} -keyout {name}.key -out {name}.pem 2>/dev/null",
            place.display()
        ));
        Self(name.to_owned())
    }

    /// Signs as `cabane image sign` does.
    fn sign(&self, arena: &Arena, own: &Own) -> Vec<u8> {
        let (place, name) = (arena.world.path(""), &self.0);
        root(&format!(
            "cd {}; printf %s {} >text
             openssl cms -sign -binary -nocerts -noattr -nosmimecap -md sha256 -outform DER -in text -inkey {name}.key -signer {name}.pem >signature",
            place.display(), own.root_hash
        ));
        fs::read(place.join("signature")).unwrap()
    }

    fn give_to_kernel(&self, arena: &Arena) {
        root(&format!(
            "cd {}
             keyring=$(awk '/ keyring +[.]dm-verity:/ {{ print \"0x\" $1 }}' /proc/keys)
             openssl x509 -in {}.pem -outform DER | keyctl padd asymmetric '' $keyring >/dev/null
             keyctl restrict_keyring $keyring",
            arena.world.path("").display(),
            self.0
        ));
    }
}

#[test]
fn what_a_user_types_is_mounted_so_when_the_site_trusts_it() {
    let Some(command) = std::env::var_os(COMMAND) else {
        belongs_to!("make test-kernels");
    };
    with_verity!(|arena: &Arena| {
        arena.set_policy(POLICY);
        let tree =
            Tree::new(arena.world.path("trees/app")).file("name", "app").meta("app", "/mnt/a");
        let image = arena.pack(&tree, "app", ImageFormat::Squashfs);
        let shell = |user: u32, script: &str| arena.type_as(user, &command, script, &image);
        let user = arena.user();
        let add = "$CABANE repo create; $CABANE image add app/1.0:v1@here%any $IMAGE";
        shell(user, add).success();
        let run = "$CABANE -v run app@here -- sh -c 'cat /mnt/a/name; echo; $CABANE status'";
        let before = shell(user, run).success();
        assert!(before.stderr.contains("is not in /etc/cabane/verified-images"), "{before:?}");
        let repository = "$HOME/.local/share/cabane/repository";
        let trust = format!("$CABANE image trust {repository}/images/*/image");
        shell(0, &trust).success();
        let after = shell(user, run).success();
        assert!(after.stderr.contains("the kernel checks "), "{after:?}");
        let way = "mounted     by the kernel, verified, through the helper";
        assert!(after.stdout.starts_with("app\n") && after.stdout.contains(way), "{after:?}");
    });
}

#[test]
fn the_images_of_a_job_are_mounted_so_too() {
    with_verity!(|arena: &Arena| {
        arena.set_policy(POLICY);
        let (own, other) = (Own::make(arena, "own"), Own::make(arena, "other"));
        vouch_for(&[&own]);
        let image = |own: &Own, place: &Path| JobImage {
            root_hash: Some(own.root_hash.parse().unwrap()),
            ..JobImage::new(ImageFormat::Squashfs, &own.image, place)
        };
        let owner = JobOwner { user: arena.user(), group: arena.user(), groups: Vec::new() };
        let images = [image(&own, arena.first()), image(&other, arena.second())];
        let mounts = JobMounts::make(&images, &JobRoot::default(), &owner, None).unwrap();
        assert_eq!(mounts.ways().collect::<Vec<_>>(), [Way::Verified, Way::Fuse]);
        let namespace = mounts.namespace().as_raw_fd();
        root(&format!(
            "[ \"$(nsenter --mount=/proc/{}/fd/{namespace} cat {}/name)\" = own ]",
            std::process::id(),
            arena.first().display()
        ));
        mounts.leave().unwrap();
    });
}

#[test]
fn a_start_that_is_killed_leaves_no_device() {
    with_verity!(|arena: &Arena| {
        arena.set_policy(POLICY);
        let own = Own::make(arena, "own");
        vouch_for(&[&own]);
        for step in 0..24_u32 {
            let mut child = own.start(arena).spawn();
            std::thread::sleep(
                std::time::Duration::from_millis(step.into()) * cabane_testkit::slowness(),
            );
            root(&format!("kill -KILL {}", child.id()));
            child.wait().unwrap();
        }
        own.start(arena).finish().success();
        assert_none(arena);
    });
}
